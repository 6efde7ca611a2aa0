package deliver

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/pipeline/codec"
)

// moved is a row that got another key, of which the two records are needed at once (codec.Move). A sink that keeps
// positions, which is a database, gets the update that it was: it takes what the new row lacks from the old one, and can
// tell the two from each other where it takes their keys for equal. Both partitions stand still for it. Other sinks get
// the two records, each in the order of its partition.
//
// The update is written in the transaction that stores the position of the insert. So a restart finds either neither of
// the records done, or the insert; then nothing is left to do for the delete that it would not do to no row.
type moved struct {
	gone, came half
	twin       bool
}

// half is one record of a move. The record is a copy, nil if it was not met.
type half struct {
	record    *log.Record
	partition int32
}

// crosses reports that a record is half of a move from one partition to another.
func (r *run) crosses(p *partition, record *log.Record) bool {
	if r.keeper == nil {
		return false
	}
	m, ok := codec.MoveOf(record)
	return ok && m.Partition != p.Partition
}

// take adds a change to the job. Of a move within a partition the delete is left to the insert.
func (r *run) take(ctx context.Context, j *job, record *log.Record, c *connectors.Change) error {
	if m, ok := codec.MoveOf(record); ok && r.keeper != nil {
		if m.Key == nil {
			return nil
		}
		if err := r.decoder.DecodeMove(ctx, record, m, c, &j.arena); err != nil {
			return err
		}
	}
	r.adapt(j.partition, c)
	j.changes = append(j.changes, *c)
	return nil
}

// meetMove notes half of a move at the head of a partition.
func (r *run) meetMove(p *partition, m codec.Move, record *log.Record, topic log.Topic) {
	at := barrierKey{p.Topic, m.ID}
	b := r.barriers[at]
	if b == nil {
		b = &barrier{barrierKey: at, met: map[int32]copyAt{}, ends: map[int32]int64{}, move: &moved{}}
		for _, i := range []int32{p.Partition, m.Partition} {
			if int(i) < len(topic.Partitions) {
				b.ends[i] = topic.Partitions[i].HighWatermark
			}
		}
		r.barriers[at] = b
	}
	kept := log.Record{Key: bytes.Clone(record.Key), Value: bytes.Clone(record.Value), Headers: slices.Clone(record.Headers),
		Timestamp: record.Timestamp, Offset: record.Offset}
	for i := range kept.Headers {
		kept.Headers[i].Value = bytes.Clone(kept.Headers[i].Value)
	}
	if m.Key != nil {
		b.move.came = half{&kept, p.Partition}
	} else {
		b.move.gone, b.move.twin = half{&kept, p.Partition}, m.Twin
	}
}

// applyMove writes a move once both of its partitions have come to it, or one has and the other is behind it already.
func (r *run) applyMove(hard context.Context, b *barrier) error {
	h, both := b.move.came, b.move.gone.record != nil
	if h.record == nil {
		if b.move.twin {
			return nil // the row is the one under the new key
		}
		h, both = b.move.gone, false
	}
	p := r.partitions[log.TopicPartition{Topic: b.topic, Partition: h.partition}]
	j := r.spare()
	j.reset(p, []log.Record{*h.record})
	record, c := &j.records[0], connectors.Change{}
	if _, err := r.decoder.Decode(hard, record, &c, &j.arena); err != nil {
		return fmt.Errorf("decode %s: %w", p.stream, err)
	}
	if m, _ := codec.MoveOf(record); both {
		if err := r.decoder.DecodeMove(hard, record, m, &c, &j.arena); err != nil {
			return fmt.Errorf("decode %s: %w", p.stream, err)
		}
	}
	if err := r.complete(hard, p, record, &c); err != nil {
		return err
	}
	r.adapt(p, &c)
	j.changes, j.next = append(j.changes, c), b.met[h.partition].next
	r.launch(hard, j)
	return r.join(hard)
}
