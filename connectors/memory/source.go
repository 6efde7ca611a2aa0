package memory

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"sync"

	"github.com/trunkline/trunkline/connectors"
)

// Feed is a stream of transactions that a test fills while a source reads it. A position is the number of changes before
// it, as decimal text; only the ends of transactions are positions. Its methods may be called from any goroutine.
type Feed struct {
	mu      sync.Mutex
	changes []connectors.Change
	ends    []int // ascending: len(changes) after each transaction
	ended   bool
	paused  bool
	openErr []error
	readErr []error
	lost    int // positions below it cannot be served
	acked   connectors.Position
	opened  int
	open    int
	changed chan struct{} // closed and replaced whenever something above changes
}

// NewFeed returns an empty feed.
func NewFeed() *Feed { return &Feed{changed: make(chan struct{})} }

// Append adds one transaction; the values are copied. It returns the position after it.
func (f *Feed) Append(changes ...connectors.Change) connectors.Position {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range changes {
		f.changes = append(f.changes, cloneChange(c))
	}
	f.ends = append(f.ends, len(f.changes))
	f.wake()
	return position(len(f.changes))
}

// End makes the feed bounded: Read gives io.EOF after the last transaction.
func (f *Feed) End() { f.set(func() { f.ended = true }) }

// Pause makes Read block although there are changes; Resume ends that.
func (f *Feed) Pause() { f.set(func() { f.paused = true }) }

// Resume lets Read go on.
func (f *Feed) Resume() { f.set(func() { f.paused = false }) }

// FailOpen makes the next opening fail with err. Several calls queue up.
func (f *Feed) FailOpen(err error) { f.set(func() { f.openErr = append(f.openErr, err) }) }

// FailRead makes the next Read fail with err. Several calls queue up.
func (f *Feed) FailRead(err error) { f.set(func() { f.readErr = append(f.readErr, err) }) }

// Lose forgets everything before p: opening from an earlier position gives ErrPositionLost.
func (f *Feed) Lose(p connectors.Position) {
	n, err := parsePosition(p)
	f.set(func() {
		if err == nil {
			f.lost = n
		}
	})
}

// Acked returns the last acknowledged position.
func (f *Feed) Acked() connectors.Position {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.acked
}

// Opened returns how often the feed was opened, and how many of those sources are not closed.
func (f *Feed) Opened() (times, now int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.opened, f.open
}

// Wait blocks until cond holds, which is asked again after every change, acknowledgement, opening and closing. cond may
// call the feed's methods.
func (f *Feed) Wait(ctx context.Context, cond func() bool) error {
	for {
		f.mu.Lock()
		changed := f.changed
		f.mu.Unlock()
		if cond() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Open starts to read after from.
func (f *Feed) Open(ctx context.Context, env connectors.Env, from connectors.Position) (connectors.Source, error) {
	at, err := parsePosition(from)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wake()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(f.openErr) > 0 {
		err := f.openErr[0]
		f.openErr = f.openErr[1:]
		return nil, err
	}
	if at < f.lost || at > len(f.changes) {
		return nil, fmt.Errorf("open feed at %d: %w", at, connectors.ErrPositionLost)
	}
	f.opened++
	f.open++
	s := &source{feed: f, at: at, limit: env.Limits.WithDefaults().BatchRows, stop: -1}
	if env.Once {
		s.stop = len(f.changes)
	}
	return s, nil
}

func (f *Feed) set(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
	f.wake()
}

// wake is called with the lock held.
func (f *Feed) wake() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// source is one opening of a feed.
type source struct {
	feed  *Feed
	at    int
	limit int
	stop  int // where a bounded reading ends; -1: nowhere
	last  []connectors.Change
	gone  bool
}

// Read returns the next transaction, or a piece of it when it is larger than the batch limit.
func (s *source) Read(ctx context.Context) (connectors.Batch, error) {
	s.spoil()
	for {
		b, changed, err := s.next()
		if err != nil || len(b.Changes) > 0 || b.Position != nil {
			return b, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return connectors.Batch{}, ctx.Err()
		}
	}
}

// next returns a batch, an error, or the channel that tells when to look again.
func (s *source) next() (connectors.Batch, <-chan struct{}, error) {
	f := s.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.readErr) > 0 {
		err := f.readErr[0]
		f.readErr = f.readErr[1:]
		return connectors.Batch{}, nil, err
	}
	done := s.at >= len(f.changes)
	if s.stop >= 0 && s.at >= s.stop || done && f.ended {
		return connectors.Batch{}, nil, io.EOF
	}
	if done || f.paused {
		return connectors.Batch{}, f.changed, nil
	}
	end := f.endAfter(s.at)
	to := min(end, s.at+s.limit)
	b := connectors.Batch{Changes: make([]connectors.Change, 0, to-s.at)}
	for i, c := range f.changes[s.at:to] {
		c = cloneChange(c)
		c.Position = position(s.at + i + 1)
		b.Changes = append(b.Changes, c)
	}
	if to == end {
		b.Position = position(to)
	}
	s.at = to
	s.last = b.Changes
	return b, nil, nil
}

// endAfter returns the end of the transaction that holds the change at.
func (f *Feed) endAfter(at int) int {
	for _, end := range f.ends {
		if end > at {
			return end
		}
	}
	return len(f.changes)
}

// spoil overwrites the batch of the Read before, whose time is over.
func (s *source) spoil() {
	for i := range s.last {
		for _, row := range [][]connectors.Value{s.last[i].Before, s.last[i].After} {
			for j := range row {
				data := row[j].Data()
				for k := range data {
					data[k] = '?'
				}
				row[j] = connectors.DataValue(connectors.Text, []byte("used after the next Read"))
			}
		}
	}
	s.last = nil
}

// Ack notes the position for the test to look at.
func (s *source) Ack(ctx context.Context, p connectors.Position) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.feed.set(func() { s.feed.acked = append(connectors.Position(nil), p...) })
	return nil
}

// Close may be called twice.
func (s *source) Close(context.Context) error {
	s.spoil()
	s.feed.set(func() {
		if !s.gone {
			s.gone = true
			s.feed.open--
		}
	})
	return nil
}

func position(n int) connectors.Position { return strconv.AppendInt(nil, int64(n), 10) }

func parsePosition(p connectors.Position) (int, error) {
	if p == nil {
		return 0, nil
	}
	n, err := strconv.Atoi(string(p))
	if err != nil || n < 0 {
		return 0, fmt.Errorf("parse position of feed: not a number: %w", connectors.ErrPositionLost)
	}
	return n, nil
}

func cloneChange(c connectors.Change) connectors.Change {
	c.Before = connectors.CloneRow(c.Before)
	c.After = connectors.CloneRow(c.After)
	c.Origin = append([]byte(nil), c.Origin...)
	return c
}
