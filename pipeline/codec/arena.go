package codec

import "github.com/trunkline/trunkline/connectors"

// Arena is the memory of decoded changes. Everything that was decoded into it stays valid until Reset, and is
// overwritten afterwards. The zero Arena is ready. It belongs to one goroutine.
type Arena struct {
	values []connectors.Value
	bytes  []byte
}

// chunk sizes: big enough that a batch takes few of them, small enough to be kept for a sink that gets a row an hour.
const (
	valueChunk = 4 << 10
	byteChunk  = 64 << 10
)

// row returns n absent values. Rows are cut from chunks that never move, so earlier rows stay where they are.
func (a *Arena) row(n int) []connectors.Value {
	if cap(a.values)-len(a.values) < n {
		a.values = make([]connectors.Value, 0, max(n, valueChunk, min(2*cap(a.values), 1<<17)))
	}
	start := len(a.values)
	a.values = a.values[:start+n]
	row := a.values[start : start+n : start+n]
	clear(row)
	return row
}

// room makes sure that n more bytes go into the current chunk.
func (a *Arena) room(n int) {
	if cap(a.bytes)-len(a.bytes) < n {
		a.bytes = make([]byte, 0, max(n, byteChunk, min(2*cap(a.bytes), 1<<22)))
	}
}

// Reset makes the memory free for the next batch. Only the newest chunks are kept, so one large batch is not held for
// ever by many small ones.
func (a *Arena) Reset() {
	a.values = a.values[:0]
	a.bytes = a.bytes[:0]
}
