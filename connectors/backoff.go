package connectors

import (
	"math/rand/v2"
	"time"
)

// Backoff says how long to wait before an attempt is made again: twice as long each time, up to a limit, and then
// between a half and the whole of that, so that many members which lost the same server do not come back at once.
type Backoff struct {
	First time.Duration // after the first error; default 500 ms
	Limit time.Duration // default 30 s
}

// WithDefaults fills in what is zero.
func (b Backoff) WithDefaults() Backoff {
	if b.First <= 0 {
		b.First = 500 * time.Millisecond
	}
	if b.Limit <= 0 {
		b.Limit = 30 * time.Second
	}
	return b
}

// Delay returns the wait after the given number of errors in a row, from 1.
func (b Backoff) Delay(errors int) time.Duration {
	d := b.Limit
	if shift := errors - 1; shift < 20 {
		d = min(b.First<<shift, b.Limit)
	}
	return d/2 + rand.N(d/2+1)
}
