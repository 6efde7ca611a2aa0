package disk

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/batch"
)

// errLost says that a failed sync took records with it that were appended before.
var errLost = errors.New("records were lost with a failed sync")

// transaction is what a producer has appended since its last commit. A small one stays in memory; of a larger one,
// batches that are full are compressed and written beside the caller, where nobody sees them before the decision.
type transaction struct {
	p     *producer
	parts map[log.TopicPartition]*part
	order []*part // with records in this transaction, in the order of their first append
	last  *part   // what the last append went to
	size  int     // bytes in builders

	unsure bool // the decision may or may not be durable
	spare  []*batch.Builder
	spared sync.Mutex
	jobs   sync.WaitGroup
}

// part is the part of a producer's transactions that goes to one partition. It stays from one transaction to the next.
type part struct {
	p        *partition
	builder  *batch.Builder
	active   bool
	sequence int32

	previous chan struct{} // closed when the batch before is written; nil: there is none
	written  written       // owned by the newest job until it is done
}

// written is what the jobs of one part have done in this transaction.
type written struct {
	begun      bool
	first, end int64
	generation int
	err        error
}

func (t *transaction) init(p *producer) {
	t.p, t.parts = p, map[log.TopicPartition]*part{}
}

// append adds records to builders, and writes those that are full.
func (t *transaction) append(tp log.TopicPartition, records []log.Record) error {
	d, err := t.part(tp)
	if err != nil {
		return err
	}
	config := d.p.topic.config()
	now := int64(0)
	for i := range records {
		r := &records[i]
		if n := recordSize(r); n > config.MaxRecordBytes {
			return fmt.Errorf("%s-%d: record of %d bytes, the limit is %d: %w", tp.Topic, tp.Partition, n, config.MaxRecordBytes, log.ErrRecordTooLarge)
		}
		stamp := r.Timestamp
		if stamp == 0 {
			if now == 0 {
				now = time.Now().UnixMilli()
			}
			stamp = now
		}
		before := d.builder.Size()
		d.builder.Append(r, stamp)
		t.size += d.builder.Size() - before
		if d.builder.Size() >= t.p.l.o.BatchBytes {
			t.spill(d, false)
		}
	}
	if t.size >= t.p.l.o.TransactionBytes {
		for _, d := range t.order {
			t.spill(d, false)
		}
	}
	return nil
}

// recordSize is what counts against a limit: key, value and headers.
func recordSize(r *log.Record) int {
	n := len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += len(r.Headers[i].Key) + len(r.Headers[i].Value)
	}
	return n
}

// part returns the part for a partition and makes it take part in this transaction.
func (t *transaction) part(tp log.TopicPartition) (*part, error) {
	if d := t.last; d != nil && d.p.tp == tp && !d.p.removed.Load() {
		return d, nil
	}
	d := t.parts[tp]
	if d == nil || d.p.removed.Load() && !d.active {
		p, err := t.p.l.partition(tp)
		if err != nil {
			return nil, err
		}
		d = &part{p: p}
		t.parts[tp] = d
	}
	if !d.active {
		d.active, d.builder = true, t.takeBuilder()
		t.order = append(t.order, d)
	}
	t.last = d
	return d, nil
}

func (t *transaction) takeBuilder() *batch.Builder {
	t.spared.Lock()
	defer t.spared.Unlock()
	if n := len(t.spare); n > 0 {
		b := t.spare[n-1]
		t.spare = t.spare[:n-1]
		return b
	}
	return new(batch.Builder)
}

func (t *transaction) giveBuilder(b *batch.Builder) {
	if b.Size() > 2*t.p.l.o.BatchBytes {
		return
	}
	b.Reset()
	t.spared.Lock()
	defer t.spared.Unlock()
	if len(t.spare) < maxSpareBuilders {
		t.spare = append(t.spare, b)
	}
}

// maxSpareBuilders bounds the builders that a producer keeps between transactions.
const maxSpareBuilders = 32

// spill starts the compression and the write of what is in a builder. With sync the job ends when all of the part is
// durable. Batches of one part are written in their order: each waits for the one before, which has been given a worker
// earlier, so that no two wait for each other.
func (t *transaction) spill(d *part, sync bool) {
	full := d.builder
	if full.Count() == 0 && !sync {
		return
	}
	owner := batch.Producer{ID: t.p.pid, Epoch: t.p.epoch, Sequence: d.sequence}
	d.sequence += int32(full.Count())
	if d.sequence < 0 {
		d.sequence = 0 // Kafka's numbers wrap so too
	}
	if full.Count() > 0 {
		t.size -= full.Size() - batch.HeaderSize
		d.builder = t.takeBuilder()
	} else {
		full = nil
	}
	previous, done := d.previous, make(chan struct{})
	d.previous = done
	t.p.l.workers <- struct{}{}
	t.jobs.Go(func() {
		t.write(d, full, owner, previous, sync)
		close(done)
		if !sync {
			d.p.syncIfBehind()
		}
	})
}

// write is the job of spill. It holds a worker for as long as it compresses.
func (t *transaction) write(d *part, full *batch.Builder, owner batch.Producer, previous chan struct{}, sync bool) {
	var built *[]byte
	var err error
	if full != nil {
		built = takeBuffer()
		*built, err = full.Build((*built)[:0], *d.p.topic.config().Compression, owner, true)
		t.giveBuilder(full)
		defer giveBuffer(built)
	}
	<-t.p.l.workers
	if previous != nil {
		<-previous
	}
	w := &d.written
	if w.err != nil {
		return
	}
	if err == nil && full != nil {
		err = d.p.appendTransactional(batch.View(*built), w)
	}
	if err == nil && sync && w.begun {
		err = d.p.syncTo(w.end, w.generation)
	}
	w.err = err
}

// join waits for the jobs and returns the first failure.
func (t *transaction) join() error {
	t.jobs.Wait()
	for _, d := range t.order {
		if d.written.err != nil {
			return d.written.err
		}
	}
	return nil
}

// commit makes everything durable, then the decision, then the markers.
func (t *transaction) commit(mark []byte) error {
	for _, d := range t.order {
		t.spill(d, true)
	}
	if err := t.join(); err != nil {
		return err
	}
	if t.p.fenced.Load() {
		return log.ErrFenced
	}
	s := t.p.slot
	d := decision{id: s.id, pid: t.p.pid, epoch: t.p.epoch, mark: slices.Clone(mark)}
	for _, part := range t.order {
		if part.written.begun {
			d.touched = append(d.touched, touch{topic: part.p.topic.id, partition: part.p.tp.Partition, first: part.written.first})
		}
	}
	sortTouches(d.touched)
	if err := t.p.l.decide(d); err != nil {
		t.unsure = errors.Is(err, errUnsure)
		return err
	}
	s.mark = d.mark
	t.finish(batch.Commit)
	return nil
}

// rollback aborts what is open. While it is not known whether the decision is durable it fails, and what is open stays
// open and invisible.
func (t *transaction) rollback() error {
	_ = t.join()
	if t.unsure {
		p, err := t.p.l.partition(log.TopicPartition{Topic: positionsTopic})
		if err != nil {
			return err
		}
		if err := p.repair(); err != nil {
			return err
		}
		t.unsure = false // what was not durable is cut off now, the decision with it
	}
	t.finish(batch.Abort)
	return nil
}

// finish ends the transaction in every partition that has a part of it, and makes ready for the next.
func (t *transaction) finish(m batch.Marker) {
	for _, d := range t.order {
		if d.written.begun {
			d.p.finish(t.p.pid, t.p.epoch, m)
		}
		t.giveBuilder(d.builder)
		d.builder, d.active, d.previous, d.written = nil, false, nil, written{}
	}
	t.order, t.last, t.size = t.order[:0], nil, 0
}
