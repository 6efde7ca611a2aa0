package postgres

import (
	"context"
	"sync"

	"github.com/trunkline/trunkline/connectors"
)

// feedBuffers is how many batches there are: one in use, one that is ready, one in the making.
const feedBuffers = 3

// feed reads ahead: while a batch is in use the next one is made. What was read and never handed over is read again by
// the next start.
type feed struct {
	ready  chan made
	free   chan *rows
	lent   *rows // of the batch in use
	err    error // the last word
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// made is a batch, or the end.
type made struct {
	rows  *rows
	batch connectors.Batch
	err   error
}

// newFeed begins to read. From then on all of s but what is guarded by its mutex belongs to the feed, until close.
func newFeed(ctx context.Context, s *extract) *feed {
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f := &feed{ready: make(chan made, 1), free: make(chan *rows, feedBuffers), cancel: cancel}
	for range feedBuffers {
		f.free <- &rows{}
	}
	f.done.Go(func() {
		for {
			select {
			case s.rows = <-f.free:
			case <-run.Done():
				return
			}
			s.rows.reset()
			batch, err := s.produce(run)
			select {
			case f.ready <- made{s.rows, batch, err}:
			case <-run.Done():
				return
			}
			if err != nil {
				return
			}
		}
	})
	return f
}

// next returns the next batch and takes the buffer of the last one back.
func (f *feed) next(ctx context.Context) (connectors.Batch, error) {
	if f.lent != nil {
		f.free <- f.lent
		f.lent = nil
	}
	if f.err != nil {
		return connectors.Batch{}, f.err
	}
	select {
	case m := <-f.ready:
		f.lent, f.err = m.rows, m.err
		return m.batch, m.err
	case <-ctx.Done():
		return connectors.Batch{}, ctx.Err()
	}
}

// close ends the reading and returns when it has ended.
func (f *feed) close() {
	if f != nil {
		f.cancel()
		f.done.Wait()
	}
}
