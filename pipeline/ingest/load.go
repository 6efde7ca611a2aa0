package ingest

import (
	"context"
	"sync"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/log"
)

// maxLoad is how many bytes of records are collected while a commit is in flight; the batch that passes it is the last.
const maxLoad = 4 << 20

// load is what goes to the log in one step: records that were encoded while the step before was on its way to the disk.
// So the steps grow with the time that a commit takes, and an idle source waits for nothing.
type load struct {
	parts    []part
	buffer   []byte // what the records point into
	headers  []log.Header
	numbers  batch
	position connectors.Position // covers all of it; nil: the transaction goes on in the next load
	way      way
}

// part is the records for one partition.
type part struct {
	log.TopicPartition
	records []log.Record
}

// batch is what a load makes durable, in numbers.
type batch struct {
	changes int64
	bytes   int64
	time    time.Time // of the last change
	tables  []tableRows
}

type tableRows struct {
	meter *tableMeter
	rows  int64
}

// add takes other numbers in.
func (b *batch) add(o batch) {
	b.changes += o.changes
	b.bytes += o.bytes
	b.time = o.time
	b.tables = append(b.tables, o.tables...)
}

// take returns the numbers and begins again at zero.
func (b *batch) take() batch {
	taken := *b
	*b = batch{}
	return taken
}

// part returns the part for a partition that has none yet.
func (l *load) part(tp log.TopicPartition) int {
	n := len(l.parts)
	if n < cap(l.parts) {
		l.parts = l.parts[:n+1]
		l.parts[n].TopicPartition, l.parts[n].records = tp, l.parts[n].records[:0]
	} else {
		l.parts = append(l.parts, part{TopicPartition: tp})
	}
	return n
}

// end is how much a load held at one moment.
type end struct {
	records []int // for each part
	headers int
	numbers batch
	way     way
}

func (l *load) mark(records []int) end {
	for i := range l.parts {
		records = append(records, len(l.parts[i].records))
	}
	return end{records: records, headers: len(l.headers), numbers: l.numbers, way: l.way}
}

// cut takes away what was added since the mark.
func (l *load) cut(to end) {
	l.parts = l.parts[:len(to.records)]
	for i, n := range to.records {
		l.parts[i].records = l.parts[i].records[:n]
	}
	l.headers = l.headers[:min(to.headers, len(l.headers))]
	l.numbers = to.numbers
	l.way = to.way
}

// empty reports that there is nothing to do.
func (l *load) empty() bool { return len(l.parts) == 0 && l.position == nil }

// reset makes the load ready for other records. What one huge row needed is not kept.
func (l *load) reset() {
	for i := range l.parts {
		clear(l.parts[i].records)
	}
	l.parts = l.parts[:0]
	if l.buffer = l.buffer[:0]; cap(l.buffer) > 4*maxLoad {
		l.buffer = nil
	}
	l.headers = l.headers[:0]
	l.numbers = batch{tables: l.numbers.tables[:0]}
	l.position = nil
	l.way = way{}
}

// queue is the place between the goroutine that reads and the one that commits: one load that grows.
type queue struct {
	mu     sync.Mutex
	load   *load
	spare  *load
	marks  []int // used again by fill
	closed bool
	filled chan struct{} // capacity 1: there is something to take, or the queue is closed
	taken  chan struct{} // capacity 1: the load was taken
}

func newQueue() *queue {
	return &queue{load: &load{}, spare: &load{}, filled: make(chan struct{}, 1), taken: make(chan struct{}, 1)}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// fill waits until the load has room for a batch and calls add with it. A piece of a transaction does not join what can
// be committed without it: the position would claim less than what is durable.
func (q *queue) fill(ctx context.Context, complete bool, add func(*load) error) error {
	for {
		q.mu.Lock()
		l := q.load
		if l.empty() || len(l.buffer) < maxLoad && (complete || l.position == nil) {
			break
		}
		q.mu.Unlock()
		select {
		case <-q.taken:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	defer q.mu.Unlock()
	before := q.load.mark(q.marks[:0])
	if err := add(q.load); err != nil {
		q.load.cut(before) // what is complete goes its way, and nothing of what is not
		return err
	}
	q.marks = before.records
	signal(q.filled)
	return nil
}

// take waits for a load. nil: the queue is closed and nothing is left in it.
func (q *queue) take() *load {
	for {
		q.mu.Lock()
		if l := q.load; !l.empty() {
			q.load, q.spare = q.spare, nil
			if q.load == nil {
				q.load = &load{}
			}
			q.mu.Unlock()
			signal(q.taken)
			return l
		}
		closed := q.closed
		q.mu.Unlock()
		if closed {
			return nil
		}
		<-q.filled
	}
}

// give takes a load back that is done with.
func (q *queue) give(l *load) {
	l.reset()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.spare = l
}

// close lets take return what is left, and then nil.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	signal(q.filled)
}
