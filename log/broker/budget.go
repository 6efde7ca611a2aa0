package broker

import (
	"sync"
	"time"
)

// budget bounds the memory of requests over all connections.
type budget struct {
	mu    sync.Mutex
	left  int64
	freed chan struct{} // closed and replaced when some is given back
}

func newBudget(n int64) *budget { return &budget{left: n, freed: make(chan struct{})} }

// take waits for n bytes, or gives up when done is closed or after the timeout.
func (b *budget) take(n int64, done <-chan struct{}, timeout time.Duration) bool {
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	for {
		b.mu.Lock()
		if b.left >= n {
			b.left -= n
			b.mu.Unlock()
			return true
		}
		freed := b.freed
		b.mu.Unlock()
		select {
		case <-freed:
		case <-done:
			return false
		case <-deadline.C:
			return false
		}
	}
}

func (b *budget) give(n int64) {
	if n == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left += n
	close(b.freed)
	b.freed = make(chan struct{})
}
