package pipeline

import (
	"context"
	"errors"
	"fmt"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/pipeline/codec"
	"github.com/trunkline/trunkline/pipeline/transform"
)

// A reference table is held in memory: these bound it.
const (
	maxReferenceRows  = 1_000_000
	maxReferenceBytes = 512 << 20
)

// reference is a table kept from a topic for lookups: the newest row of each key. It belongs to one goroutine.
type reference struct {
	journal log.Log
	decoder *codec.Decoder
	topic   string

	consumer log.Consumer
	next     log.Offsets
	table    *connectors.Table
	rows     map[string]referenceRow
	bytes    int
}

// referenceRow knows its partition, because a truncate stands in each of them.
type referenceRow struct {
	values    []connectors.Value
	partition int32
}

// chain is the transforms of one source or sink, with the reference tables that they keep.
type chain struct {
	*transform.Chain
	references []*reference
}

func (p *Pipeline) newChain(steps []transform.Step, source bool) (*chain, error) {
	c := &chain{}
	open := func(topic string) (transform.Reference, error) {
		r := &reference{journal: p.journal, decoder: codec.NewDecoder(p.schemas), topic: topic}
		c.references = append(c.references, r)
		return r, nil
	}
	var err error
	c.Chain, err = transform.New(steps, transform.Options{Source: source, Reference: open})
	return c, err
}

// apply is the hook of ingest and deliver; nil without steps.
func (c *chain) apply(steps []transform.Step) func(context.Context, []connectors.Change) ([]connectors.Change, error) {
	if len(steps) == 0 {
		return nil
	}
	return c.Apply
}

// close ends reading.
func (c *chain) close(ctx context.Context) error {
	var errs []error
	for _, r := range c.references {
		errs = append(errs, r.drop(ctx))
	}
	return errors.Join(errs...)
}

// drop forgets the table; the next CatchUp reads it anew.
func (r *reference) drop(ctx context.Context) error {
	consumer := r.consumer
	r.consumer, r.table, r.rows, r.bytes = nil, nil, nil, 0
	if consumer == nil {
		return nil
	}
	return consumer.Close(ctx)
}

// Table returns the newest version.
func (r *reference) Table() *connectors.Table { return r.table }

// Row returns a row by its key.
func (r *reference) Row(key []byte) []connectors.Value { return r.rows[string(key)].values }

// CatchUp reads to the present end of the topic.
func (r *reference) CatchUp(ctx context.Context) error {
	err := r.catchUp(ctx)
	if err != nil {
		return errors.Join(fmt.Errorf("read reference table from topic %s: %w", r.topic, err), r.drop(context.WithoutCancel(ctx)))
	}
	return nil
}

func (r *reference) catchUp(ctx context.Context) error {
	topic, err := r.journal.Topic(ctx, r.topic)
	if err != nil {
		return err
	}
	if r.consumer == nil {
		if err := r.open(ctx, topic); err != nil {
			return err
		}
	}
	for r.behind(topic) {
		f, err := r.consumer.Poll(ctx, 5000)
		if err != nil {
			return err
		}
		for i := range f.Records {
			if err := r.take(ctx, f.Partition, &f.Records[i]); err != nil {
				return err
			}
		}
		r.next[f.TopicPartition] = f.Next
	}
	return nil
}

func (r *reference) open(ctx context.Context, topic log.Topic) error {
	o := log.ConsumerOptions{}
	r.next, r.rows = log.Offsets{}, map[string]referenceRow{}
	for i, p := range topic.Partitions {
		tp := log.TopicPartition{Topic: r.topic, Partition: int32(i)}
		o.Partitions = append(o.Partitions, tp)
		r.next[tp] = p.LogStart
	}
	var err error
	r.consumer, err = r.journal.Consumer(ctx, o)
	return err
}

func (r *reference) behind(topic log.Topic) bool {
	for i, p := range topic.Partitions {
		next, known := r.next[log.TopicPartition{Topic: r.topic, Partition: int32(i)}]
		if known && next < p.LastStable {
			return true
		}
	}
	return false
}

// take applies one record. What is no change of a row, others may have written; it has no place in the table.
func (r *reference) take(ctx context.Context, partition int32, record *log.Record) error {
	var c connectors.Change
	var arena codec.Arena
	ok, err := r.decoder.Decode(ctx, record, &c, &arena)
	var unreadable *codec.RecordError
	if errors.As(err, &unreadable) || err == nil && (!ok || c.Op == connectors.Message) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(c.Table.Key) == 0 {
		return fmt.Errorf("table %s has no key to look rows up by: %w", c.Table.FullName(), connectors.ErrFatal)
	}
	r.table = c.Table
	switch c.Op {
	case connectors.Truncate:
		for key, row := range r.rows {
			if row.partition == partition {
				r.forget(key)
			}
		}
	case connectors.Delete:
		r.forget(string(referenceKey(c.Table, c.Before)))
	default:
		return r.keep(string(referenceKey(c.Table, c.After)), partition, c.After)
	}
	return nil
}

// referenceKey is the text by which Row finds a row.
func referenceKey(t *connectors.Table, row []connectors.Value) []byte {
	var key []byte
	for _, k := range t.Key {
		key = append(row[k].AppendText(key), 0)
	}
	return key
}

func (r *reference) forget(key string) {
	r.bytes -= rowBytes(key, r.rows[key].values)
	delete(r.rows, key)
}

func (r *reference) keep(key string, partition int32, row []connectors.Value) error {
	old := r.rows[key].values
	kept := connectors.CloneRow(row)
	for i := range kept {
		if kept[i].IsAbsent() && i < len(old) {
			kept[i] = old[i]
		}
	}
	r.bytes += rowBytes(key, kept) - rowBytes(key, old)
	r.rows[key] = referenceRow{kept, partition}
	if len(r.rows) > maxReferenceRows || r.bytes > maxReferenceBytes {
		return fmt.Errorf("the table has more than %d rows or %d MiB, which a lookup holds in memory: %w", maxReferenceRows, maxReferenceBytes>>20, connectors.ErrFatal)
	}
	return nil
}

func rowBytes(key string, row []connectors.Value) int {
	if row == nil {
		return 0
	}
	n := len(key) + 48*len(row)
	for _, v := range row {
		n += len(v.Data())
	}
	return n
}
