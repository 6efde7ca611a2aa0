package mysql

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
	read   func(ctx context.Context, out *rows) (connectors.Batch, error)
	ready  chan made
	free   chan *rows
	lent   *rows              // of the batch in use
	err    error              // the last word
	cancel context.CancelFunc // nil: not begun
	done   sync.WaitGroup
}

// made is a batch, or the end.
type made struct {
	rows  *rows
	batch connectors.Batch
	err   error
}

// newFeed does nothing yet. From the first next on all that read uses belongs to the feed, until close or an error that
// next has returned.
func newFeed(read func(ctx context.Context, out *rows) (connectors.Batch, error)) *feed {
	f := &feed{read: read, ready: make(chan made, 1), free: make(chan *rows, feedBuffers)}
	for range feedBuffers {
		f.free <- &rows{}
	}
	return f
}

// begin starts to read.
func (f *feed) begin(ctx context.Context) {
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f.cancel = cancel
	f.done.Go(func() {
		for {
			var out *rows
			select {
			case out = <-f.free:
			case <-run.Done():
				return
			}
			batch, err := f.read(run, out)
			select {
			case f.ready <- made{out, batch, err}:
			case <-run.Done():
				return
			}
			if err != nil {
				return
			}
		}
	})
}

// next returns the next batch and takes the buffer of the last one back.
func (f *feed) next(ctx context.Context) (connectors.Batch, error) {
	if f.cancel == nil {
		f.begin(ctx)
	}
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
	if f != nil && f.cancel != nil {
		f.cancel()
		f.done.Wait()
	}
}
