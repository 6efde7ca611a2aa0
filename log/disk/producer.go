package disk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/trunkline/trunkline/log"
)

// slot is what the log knows of one producer id.
type slot struct {
	id string

	mu      sync.Mutex // held while a producer of this id is opened
	current *producer

	// The rest belongs to whoever holds current.mu, or mu while there is no current producer. It is what the newest
	// record in _trunkline.positions says.
	pid   int64
	epoch int16
	mark  []byte
}

// producer is the transactional producer that a slot's newest epoch belongs to.
type producer struct {
	l     *Log
	slot  *slot
	pid   int64
	epoch int16

	fenced atomic.Bool // set by a newer producer, which then waits for mu

	mu  sync.Mutex // held for the length of a call
	err error      // the first failure; it ends the producer
	tx  transaction
}

// Producer opens the producer of that id, fences the older one and aborts what it had open.
func (l *Log) Producer(ctx context.Context, id string) (log.Producer, []byte, error) {
	if err := l.usable(); err != nil {
		return nil, nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	s := l.slot(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil {
		if err := s.current.fence(); err != nil {
			return nil, nil, fmt.Errorf("open producer %q: %w", id, err)
		}
		s.current = nil
	}
	pid, epoch := s.pid, s.epoch+1
	if s.epoch == math.MaxInt16 {
		pid, epoch = l.newPID(), 0
	}
	d := decision{id: id, pid: pid, epoch: epoch, mark: s.mark}
	if err := l.decide(d); err != nil {
		return nil, nil, fmt.Errorf("open producer %q: %w", id, err)
	}
	s.pid, s.epoch = pid, epoch
	s.current = &producer{l: l, slot: s, pid: pid, epoch: epoch}
	s.current.tx.init(s.current)
	return s.current, bytes.Clone(s.mark), nil
}

// slot returns the slot of an id, making it if there is none.
func (l *Log) slot(id string) *slot {
	l.producerMu.Lock()
	defer l.producerMu.Unlock()
	s := l.slots[id]
	if s == nil {
		s = &slot{id: id, pid: l.nextPID, epoch: -1}
		l.nextPID++
		l.slots[id] = s
	}
	return s
}

func (l *Log) newPID() int64 {
	l.producerMu.Lock()
	defer l.producerMu.Unlock()
	l.nextPID++
	return l.nextPID - 1
}

// closeProducers aborts what is open. It runs when the log is closed and no new call gets in.
func (l *Log) closeProducers() {
	l.producerMu.Lock()
	slots := slices.Collect(maps.Values(l.slots))
	l.producerMu.Unlock()
	for _, s := range slots {
		s.mu.Lock()
		if s.current != nil {
			// What cannot be aborted now is aborted by the next open.
			_ = s.current.fence()
		}
		s.mu.Unlock()
	}
}

// fence ends the producer for good and aborts what it has open. It fails if it cannot be known whether the last commit
// happened.
func (p *producer) fence() error {
	p.fenced.Store(true)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tx.rollback()
}

// ready says why the producer is of no use, if it is not.
func (p *producer) ready(ctx context.Context) error {
	switch {
	case p.fenced.Load():
		if p.l.closed.Load() {
			return log.ErrClosed
		}
		return fmt.Errorf("producer %q: %w", p.slot.id, log.ErrFenced)
	case p.err != nil:
		return fmt.Errorf("producer %q failed before: %w", p.slot.id, p.err)
	}
	return ctx.Err()
}

// Append adds records to the open transaction.
func (p *producer) Append(ctx context.Context, tp log.TopicPartition, records ...log.Record) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.ready(ctx); err != nil {
		return err
	}
	if err := p.tx.append(tp, records); err != nil {
		return p.fail("append", err)
	}
	return nil
}

// Commit makes the transaction and the mark durable and visible.
func (p *producer) Commit(ctx context.Context, mark []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.ready(ctx); err != nil {
		return err
	}
	if err := p.tx.commit(mark); err != nil {
		return p.fail("commit", err)
	}
	return nil
}

// Abort drops the transaction.
func (p *producer) Abort(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.ready(ctx); err != nil {
		return err
	}
	if err := p.tx.rollback(); err != nil {
		return p.fail("abort", err)
	}
	return nil
}

// Close aborts what is open. It also makes the markers of the last commits durable, so that a reader who is told to stop
// at the end finds no end that is still to move.
func (p *producer) Close(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil || p.fenced.Load() {
		return nil
	}
	err := p.tx.rollback()
	for _, d := range p.tx.parts {
		if err == nil && !d.p.removed.Load() {
			err = d.p.flushTail()
		}
	}
	p.err = errProducerClosed
	return err
}

var errProducerClosed = errors.New("producer is closed")

// fail ends the producer. What it had open is aborted, unless the outcome of its commit is not known: then the next
// producer of the id finds out.
func (p *producer) fail(verb string, err error) error {
	p.err = fmt.Errorf("%s: %w", verb, err)
	if rollback := p.tx.rollback(); rollback != nil {
		p.err = errors.Join(p.err, rollback)
	}
	if p.fenced.Load() && !errors.Is(p.err, log.ErrFenced) {
		p.err = errors.Join(log.ErrFenced, p.err)
	}
	return fmt.Errorf("producer %q: %w", p.slot.id, p.err)
}

// decision is a record of _trunkline.positions: the newest mark of a producer id and what the commit that stored it had
// written.
type decision struct {
	id      string
	pid     int64
	epoch   int16
	mark    []byte
	touched []touch
}

// touch names the part of a transaction that is in one partition. The topic's id stands in for its name, so that a topic
// made anew under the name is not taken for the old one.
type touch struct {
	topic     [16]byte
	partition int32
	first     int64
}

// fate finds a decided transaction.
type fate struct {
	touch
	pid   int64
	epoch int16
}

func (d decision) fates() []fate {
	out := make([]fate, 0, len(d.touched))
	for _, t := range d.touched {
		out = append(out, fate{touch: t, pid: d.pid, epoch: d.epoch})
	}
	return out
}

// sortTouches gives the record one form for one content.
func sortTouches(t []touch) {
	slices.SortFunc(t, func(a, b touch) int {
		if c := bytes.Compare(a.topic[:], b.topic[:]); c != 0 {
			return c
		}
		return int(a.partition) - int(b.partition)
	})
}
