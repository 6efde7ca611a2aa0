package disk

import (
	"sync"
	"sync/atomic"
)

// Wait returns once the batch is durable and so readable; with Options.Unsynced, once it is readable.
func (a Appended) Wait() error { return a.wait(true) }

func (a Appended) wait(gather bool) error {
	if a.p.l.o.Unsynced {
		return a.p.reveal(a.end, a.generation)
	}
	return a.p.syncGathered(a.end, a.generation, gather)
}

// reveal lets readers see what was appended before it is durable.
func (p *partition) reveal(end int64, generation int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if generation < p.generation && end > p.cuts[generation] {
		return errLost
	}
	p.advance(p.active().End().Offset)
	p.l.wakeFlusher()
	return nil
}

// maxSyncs is how many partitions of one request are synced at the same time.
const maxSyncs = 16

// WaitAll waits until all batches are durable. Partitions are synced side by side: a file system makes one commit of
// syncs that come together, and while they are under way the batches of the next requests are appended, so that it does
// not pay to wait for those.
func WaitAll(waiting []Appended) []error {
	errs := make([]error, len(waiting))
	if len(waiting) == 1 {
		errs[0] = waiting[0].Wait()
		return errs
	}
	var next atomic.Int64
	var syncs sync.WaitGroup
	for range min(len(waiting), maxSyncs) {
		syncs.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(waiting) {
					return
				}
				errs[i] = waiting[i].wait(false)
			}
		})
	}
	syncs.Wait()
	return errs
}
