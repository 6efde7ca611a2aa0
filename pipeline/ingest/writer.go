package ingest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/pipeline/codec"
	"github.com/trunkline/trunkline/pipeline/trace"
)

// writer turns changes into records. It belongs to the goroutine that reads.
type writer struct {
	*Ingest
	origin  codec.Origin
	encoder codec.Encoder // of the envelope, in JSON

	routes     map[*connectors.Table]*route
	lineages   map[string]*lineage
	last       *route
	partitions map[log.TopicPartition]*pending
	load       *load // where records go; set for the length of append
	now        time.Time
	barrier    int64
	counted    []*route // those with rows in the batch
	warned     map[string]bool
	pausesSeen int64 // words about pauses that the routes know
}

// pending is a partition, and which part of the load is for it.
type pending struct {
	log.TopicPartition
	load *load
	part int
}

func newWriter(g *Ingest) (*writer, error) {
	origin := codec.Origin{Version: g.o.Version, Connector: g.o.Connector, Name: g.o.Source}
	encoder, err := codec.NewEncoder(g.o.Format, origin, func(t *connectors.Table) string { return TopicName(g.o.Topic, g.o.Source, t) })
	if err != nil {
		return nil, err
	}
	return &writer{
		Ingest:     g,
		origin:     origin,
		encoder:    encoder,
		routes:     map[*connectors.Table]*route{},
		lineages:   map[string]*lineage{},
		partitions: map[log.TopicPartition]*pending{},
		warned:     map[string]bool{},
	}, nil
}

func (w *writer) partition(tp log.TopicPartition) *pending {
	p := w.partitions[tp]
	if p == nil {
		p = &pending{TopicPartition: tp}
		w.partitions[tp] = p
	}
	return p
}

// transform applies the hook, once every change has a table.
func (w *writer) transform(ctx context.Context, changes []connectors.Change) ([]connectors.Change, error) {
	for i := range changes {
		c := &changes[i]
		if c.Op == connectors.Message && c.Table == nil {
			c.Table = codec.MessageTable
		}
		if c.Table == nil {
			return nil, fmt.Errorf("read source %q: a change without a table: %w", w.o.Source, connectors.ErrFatal)
		}
		if c.Op == connectors.Update {
			complete(c)
		}
	}
	if w.o.Transform == nil || len(changes) == 0 {
		return changes, nil
	}
	changes, err := w.o.Transform(ctx, changes)
	if err != nil {
		return nil, fmt.Errorf("transform what source %q read: %w", w.o.Source, err)
	}
	return changes, nil
}

// append adds the records of a batch to the load. When it returns, nothing of the batch is needed any more.
func (w *writer) append(ctx context.Context, l *load, changes []connectors.Change) error {
	w.load, w.now = l, time.Now()
	if err := w.followPauses(ctx); err != nil {
		return err
	}
	if len(l.parts) == 0 {
		for _, p := range w.partitions {
			p.load = nil // a load that comes back is not the one that the partition was part of
		}
	}
	for i := range changes {
		c := &changes[i]
		r, err := w.route(ctx, c.Table, c.Op)
		if err != nil {
			return err
		}
		if err := w.change(r, c); err != nil {
			return err
		}
		if r.rows == 0 {
			w.counted = append(w.counted, r)
		}
		r.rows++
		if !c.Time.IsZero() {
			l.numbers.time = c.Time
		}
	}
	l.numbers.changes += int64(len(changes))
	for _, r := range w.counted {
		l.numbers.tables = append(l.numbers.tables, tableRows{r.meter, r.rows})
		r.rows = 0
	}
	w.counted = w.counted[:0]
	return nil
}

// change adds the records of one change.
func (w *writer) change(r *route, c *connectors.Change) error {
	switch {
	case !r.encoder.Takes(c.Op):
		return nil
	case c.Op == connectors.Truncate:
		return w.truncate(r, c)
	case c.Op == connectors.Update && w.keyChanged(c):
		return w.move(r, c)
	}
	return w.row(r, c, nil)
}

// complete takes what an update did not touch from the old row, where the source sent that: the same value, and one that
// a reader need not look up.
func complete(c *connectors.Change) {
	for i := range min(len(c.Before), len(c.After)) {
		if c.After[i].IsAbsent() {
			c.After[i] = c.Before[i]
		}
	}
}

// keyChanged reports whether an update gives the row another key.
func (w *writer) keyChanged(c *connectors.Change) bool {
	for _, column := range c.Table.Key {
		if column >= len(c.Before) || column >= len(c.After) {
			return false
		}
		before, after := c.Before[column], c.After[column]
		if !before.IsAbsent() && !after.IsAbsent() && !before.Equal(after) {
			return true
		}
	}
	return false
}

// row adds the record of a change of one row, with one more header if it is half of a move, and the tombstone that follows
// a delete.
func (w *writer) row(r *route, c *connectors.Change, more *log.Header) error {
	image, other := c.After, c.Before
	if c.Op == connectors.Delete {
		image, other = c.Before, nil
	}
	start := len(w.load.buffer)
	buffer, err := r.encoder.AppendKey(w.load.buffer, c.Table, image, other)
	w.load.buffer = buffer
	if err != nil {
		return fmt.Errorf("%w: %w", err, connectors.ErrFatal)
	}
	var key []byte
	to := r.partitions[0]
	if len(c.Table.Key) > 0 {
		key = buffer[start:len(buffer):len(buffer)]
		to = r.partitions[log.PartitionFor(key, int32(len(r.partitions)))]
	}
	headers := w.headersOf(r, c)
	if more != nil {
		headers = append(headers, *more)
	}
	if err := w.add(r, to, c, key, headers); err != nil {
		return err
	}
	// A topic that is compacted takes no record without a key.
	if c.Op == connectors.Delete && r.encoder.Tombstone(r.compacted) && (key != nil || !r.compacted) {
		tombstone := log.Record{Key: key, Timestamp: millis(c.Time)}
		if more != nil && more.Key == codec.HeaderNewKey {
			tombstone.Headers = []log.Header{*more}
		}
		w.put(r, to, tombstone)
		w.load.numbers.bytes += int64(len(key))
	}
	return nil
}

// truncate adds a record to every partition of the topic. They share an id, by which a reader knows them as one.
func (w *writer) truncate(r *route, c *connectors.Change) error {
	headers := append(w.headersOf(r, c), log.Header{Key: codec.HeaderBarrier, Value: strconv.AppendInt(nil, w.nextBarrier(), 10)})
	var key []byte
	if r.compacted {
		key = []byte("{}") // compaction needs a key; the newest truncate is the one that counts
	}
	for _, to := range r.partitions {
		if err := w.add(r, to, c, key, headers); err != nil {
			return err
		}
	}
	return nil
}

// nextBarrier returns an id that is above all that came before.
func (w *writer) nextBarrier() int64 {
	w.barrier = max(w.barrier+1, w.now.UnixNano())
	return w.barrier
}

// headersOf returns the headers of a change, with room for one more.
func (w *writer) headersOf(r *route, c *connectors.Change) []log.Header {
	l := w.load
	if cap(l.headers)-len(l.headers) < 5 {
		l.headers = make([]log.Header, 0, max(4*1024, cap(l.headers)))
	}
	start := len(l.headers)
	l.headers = append(l.headers, log.Header{Key: codec.HeaderSchema, Value: r.schema})
	if c.Position != nil {
		at := len(l.buffer)
		l.buffer = append(l.buffer, c.Position...)
		l.headers = append(l.headers, log.Header{Key: codec.HeaderPosition, Value: l.buffer[at:len(l.buffer):len(l.buffer)]})
	}
	if name := r.encoder.Name(); name != codec.Lossless {
		l.headers = append(l.headers, log.Header{Key: codec.HeaderEnvelope, Value: []byte(name)})
	}
	if r.encoding != nil {
		l.headers = append(l.headers, log.Header{Key: codec.HeaderEncoding, Value: r.encoding})
	}
	if l.way.parent != nil && !r.traced {
		l.headers = append(l.headers, log.Header{Key: trace.Header, Value: l.way.parent})
	}
	return append(l.headers[start:len(l.headers):len(l.headers)], codec.EventHeaders(c)...)
}

// add encodes the value and adds the record.
func (w *writer) add(r *route, to *pending, c *connectors.Change, key []byte, headers []log.Header) error {
	start := len(w.load.buffer)
	buffer, err := r.encoder.AppendValue(w.load.buffer, c, w.now)
	w.load.buffer = buffer
	if err != nil {
		return fmt.Errorf("%w: %w", err, connectors.ErrFatal)
	}
	value := buffer[start:len(buffer):len(buffer)]
	if size := len(key) + len(value); size > r.maxBytes {
		return fmt.Errorf("append row of %s (key %s): %d bytes are over the limit max_record_bytes of %d: %w",
			c.Table.FullName(), keyNames(c.Table), size, r.maxBytes, connectors.ErrFatal)
	}
	w.put(r, to, log.Record{Key: key, Value: value, Headers: headers, Timestamp: millis(c.Time)})
	w.load.numbers.bytes += int64(len(key) + len(value))
	return nil
}

// put adds a record to the load. What is of a paused table goes where it waits.
func (w *writer) put(from *route, to *pending, r log.Record) {
	if from.held != nil {
		r.Headers = append(r.Headers[:len(r.Headers):len(r.Headers)], address(to.TopicPartition))
		to = from.held
	}
	if to.load != w.load {
		to.load, to.part = w.load, w.load.part(to.TopicPartition)
	}
	p := &w.load.parts[to.part]
	p.records = append(p.records, r)
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// keyNames names the key columns: a row is told apart by them, and its values stay out of errors.
func keyNames(t *connectors.Table) string {
	if len(t.Key) == 0 {
		return "none"
	}
	names := make([]string, len(t.Key))
	for i, column := range t.Key {
		names[i] = t.Columns[column].Name
	}
	return strings.Join(names, ", ")
}
