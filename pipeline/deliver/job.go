package deliver

import (
	"context"
	"sync"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/pipeline/codec"
	"github.com/trunkline/trunkline/pipeline/trace"
)

// job is a run of records of one partition on its way into the sink. There are two: one is in flight while the other is
// filled from the log. A job owns all that its records and changes point to, because the memory of a fetch ends with the
// next poll.
type job struct {
	partition *partition
	records   []log.Record
	headers   []log.Header
	bytes     []byte
	changes   []connectors.Change
	arena     codec.Arena
	refused   []refusal
	next      int64       // the offset that comes next
	written   time.Time   // when all was durable
	span      *trace.Span // nil: no record of it names a trace

	done chan struct{}
	err  error // read after done
}

// bell ends a poll that waits when the write in flight has ended. Its methods may be called from any goroutine.
type bell struct {
	mu  sync.Mutex
	end context.CancelFunc // of the poll; nil: none waits
}

// set names the poll to end; nil none.
func (b *bell) set(end context.CancelFunc) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.end = end
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.end != nil {
		b.end()
	}
}

// ended reports whether the write of a job has ended.
func (j *job) ended() bool {
	select {
	case <-j.done:
		return true
	default:
		return false
	}
}

// maxKept is how many bytes of records a job keeps memory for from one batch to the next.
const maxKept = 32 << 20

// reset fills the job with copies of records.
func (j *job) reset(p *partition, records []log.Record) {
	j.partition, j.refused, j.err, j.span = p, nil, nil, nil
	j.changes = j.changes[:0]
	j.arena.Reset()
	size, headers := 0, 0
	for i := range records {
		size += recordBytes(&records[i])
		headers += len(records[i].Headers)
	}
	if cap(j.bytes) < size || cap(j.bytes) > maxKept {
		j.bytes = make([]byte, 0, size+size/4)
	}
	if cap(j.headers) < headers {
		j.headers = make([]log.Header, 0, headers+headers/4)
	}
	j.bytes, j.headers, j.records = j.bytes[:0], j.headers[:0], j.records[:0]
	for i := range records {
		j.add(&records[i])
	}
}

func recordBytes(r *log.Record) int {
	n := len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += len(r.Headers[i].Value)
	}
	return n
}

// add copies one record; there is room for it.
func (j *job) add(r *log.Record) {
	start := len(j.headers)
	for _, h := range r.Headers {
		j.headers = append(j.headers, log.Header{Key: h.Key, Value: j.copy(h.Value)})
	}
	j.records = append(j.records, log.Record{
		Key: j.copy(r.Key), Value: j.copy(r.Value), Headers: j.headers[start:len(j.headers):len(j.headers)],
		Timestamp: r.Timestamp, Offset: r.Offset,
	})
}

// copy keeps nil apart from empty: a tombstone is no empty value.
func (j *job) copy(b []byte) []byte {
	if b == nil {
		return nil
	}
	start := len(j.bytes)
	j.bytes = append(j.bytes, b...)
	return j.bytes[start:len(j.bytes):len(j.bytes)]
}

// spare returns the job that is not in flight.
func (r *run) spare() *job {
	if r.flying == &r.jobs[0] {
		return &r.jobs[1]
	}
	return &r.jobs[0]
}

// launch begins to write a job. Nothing else may be in flight: a sink's calls never overlap.
func (r *run) launch(hard context.Context, j *job) {
	j.done = make(chan struct{})
	r.flying = j
	go func() {
		defer r.bell.ring()
		defer close(j.done)
		j.err = r.write(j.span.Context(hard), j)
		j.written = time.Now()
	}()
}

// join waits for the job in flight, and notes that its records are dealt with.
func (r *run) join(hard context.Context) error {
	j, err := r.await()
	if err != nil {
		return err
	}
	return r.settle(hard, j)
}

// await waits for the job in flight and returns it; nil if there is none.
func (r *run) await() (*job, error) {
	j := r.flying
	if j == nil {
		return nil, nil
	}
	<-j.done
	r.flying = nil
	if j.err != nil {
		j.span.End(j.err, j.written)
	}
	return j, j.err
}

// settle notes that the records of a job are dealt with. The next job may be in flight already.
func (r *run) settle(hard context.Context, j *job) error {
	if j == nil {
		return nil
	}
	began := r.o.Tracer.Now()
	if err := r.advance(hard, j.partition, j.next); err != nil {
		j.span.End(err, time.Time{})
		return err
	}
	r.traceSettled(j, began)
	r.meter.wrote(j.partition.meter, j.records)
	r.meter.fresh.observe(j.changes, j.written)
	return nil
}
