package deliver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/pipeline/codec"
)

// barrier is a truncate that has been met in some partitions of its topic. Those partitions stand still until every
// other one has met it too; then it is applied once, and all go on.
//
// A restart begins at committed offsets, and must not apply it again once rows behind it may be written. A sink without
// positions of its own is safe because the group's offsets of all partitions move past it in one commit. A sink that
// keeps positions stores the barrier's id as the position of a stream of its own (BarrierStream) in the transaction of
// the truncate, and is asked for it before.
type barrier struct {
	barrierKey
	change connectors.Change
	met    map[int32]copyAt
	// ends holds where each of the barrier's partitions ended when it was first met: one that gets there has no copy ahead.
	ends map[int32]int64
	move *moved // instead of a truncate
	step *step  // likewise
}

// barrierKey names a barrier. The ids of truncates and moves grow.
type barrierKey struct {
	topic string
	id    int64
}

// copyAt is where a partition holds its copy of the truncate.
type copyAt struct {
	offset, next int64
}

// BarrierStream is the stream under which a truncate of a topic with several partitions is written: it belongs to the
// order of all of them.
func BarrierStream(topic string) string { return topic + "/-1" }

// meet deals with a truncate, or half of a move, at the head of a partition. It returns true if the partition has to wait.
func (r *run) meet(hard context.Context, p *partition, c *connectors.Change, record *log.Record, next int64) (bool, error) {
	topic, err := r.o.Journal.Topic(hard, p.Topic)
	if err != nil {
		return false, fmt.Errorf("read topic of a truncate: %w", err)
	}
	if m, ok := codec.MoveOf(record); ok && c.Op != connectors.Truncate {
		r.meetMove(p, m, record, topic)
		return true, r.stand(hard, p, barrierKey{p.Topic, m.ID}, record, next)
	}
	if err := r.complete(hard, p, record, c); err != nil {
		return false, err
	}
	r.adapt(p, c)
	id, shared := codec.BarrierOf(record)
	if !shared || len(topic.Partitions) == 1 {
		j, alone := r.spare(), keep(c) // c points into the job
		j.reset(p, []log.Record{*record})
		j.changes, j.next = append(j.changes, alone), next
		r.launch(hard, j)
		return false, r.join(hard)
	}
	at := barrierKey{p.Topic, id}
	b := r.barriers[at]
	if b == nil {
		b = &barrier{barrierKey: at, change: keep(c), met: map[int32]copyAt{}, ends: map[int32]int64{}}
		for i, q := range topic.Partitions {
			b.ends[int32(i)] = q.HighWatermark
		}
		r.barriers[at] = b
	}
	return true, r.stand(hard, p, at, record, next)
}

// stand lets a partition wait before its copy of a barrier.
func (r *run) stand(hard context.Context, p *partition, at barrierKey, record *log.Record, next int64) error {
	r.barriers[at].met[p.Partition] = copyAt{record.Offset, next}
	if p.next < record.Offset {
		if err := r.advance(hard, p, record.Offset); err != nil {
			return err
		}
	}
	if err := r.consumer.Seek(p.TopicPartition, record.Offset); err != nil {
		return fmt.Errorf("seek %s: %w", p.stream, err)
	}
	r.consumer.Pause(p.TopicPartition)
	return nil
}

// keep returns a truncate that does not point into the fetch.
func keep(c *connectors.Change) connectors.Change {
	out := *c
	out.Origin, out.Position = bytes.Clone(c.Origin), bytes.Clone(c.Position)
	return out
}

// held reports whether a partition stands before a barrier.
func (r *run) held(tp log.TopicPartition) bool {
	for _, b := range r.barriers {
		if _, met := b.met[tp.Partition]; met && b.topic == tp.Topic {
			return true
		}
	}
	return false
}

// release lets the partitions of a barrier that is given up be polled again. They will meet it again.
func (r *run) release(b *barrier) {
	for partition := range b.met {
		tp := log.TopicPartition{Topic: b.topic, Partition: partition}
		if r.partitions[tp] != nil {
			r.consumer.Resume(tp)
		}
	}
}

// resolveBarriers applies every barrier that all partitions have reached.
func (r *run) resolveBarriers(hard context.Context) error {
	for _, b := range r.barriers {
		if b.step != nil && time.Now().Before(b.step.at) {
			continue
		}
		ready, missed, err := r.ready(b)
		if err != nil {
			return err
		}
		if !ready {
			continue
		}
		if err := r.join(hard); err != nil {
			return err
		}
		if err := r.apply(hard, b, missed); err != nil {
			return err
		}
	}
	return nil
}

// ready reports whether every partition has met the barrier or has none of it ahead. missed counts the latter.
func (r *run) ready(b *barrier) (ready bool, missed int, err error) {
	for i, end := range b.ends {
		if _, met := b.met[i]; met {
			continue
		}
		p := r.partitions[log.TopicPartition{Topic: b.topic, Partition: i}]
		if p == nil && b.step != nil && r.tables[b.step.key].table == nil {
			continue // there is no older version that could come late
		}
		if p == nil {
			return false, 0, fmt.Errorf("apply truncate, change of key or new version of a table of %s: partition %d is read by another process; one process has to read all partitions of such a topic",
				b.topic, i)
		}
		if p.next < end && (b.step == nil && !r.beyond(p, b) || b.step != nil && !r.passed(p, b)) {
			return false, 0, nil
		}
		missed++
	}
	return true, missed, nil
}

// beyond reports that a partition stands before a later barrier of the same topic.
func (r *run) beyond(p *partition, b *barrier) bool {
	for _, other := range r.barriers {
		if _, met := other.met[p.Partition]; met && other.topic == b.topic && other.id > b.id {
			return true
		}
	}
	return false
}

// apply does once what the barrier stands for and lets the partitions go on behind it.
func (r *run) apply(hard context.Context, b *barrier, missed int) error {
	if b.step != nil {
		return r.follow(hard, b)
	}
	if b.move != nil {
		if err := r.applyMove(hard, b); err != nil {
			return err
		}
		return r.pass(hard, b)
	}
	done, err := r.applied(hard, b)
	if err != nil {
		return err
	}
	switch {
	case !done && missed > 0:
		// The others are behind it already: a reset, or retention, took their copies away. Their rows must stay.
		reason := fmt.Sprintf("a truncate was left out: %d of %d partitions of %s had begun behind it", missed, len(b.ends), b.topic)
		r.o.Logger.Warn(reason, "sink", r.o.Sink, "topic", b.topic)
		r.o.OnReport(connectors.Report{Table: b.change.Table.FullName(), Reason: reason})
	case !done:
		if err := r.truncate(hard, b); err != nil {
			return err
		}
	}
	return r.pass(hard, b)
}

// pass lets the partitions that stand before a barrier go on behind it.
func (r *run) pass(hard context.Context, b *barrier) error {
	for i, at := range b.met {
		p := r.partitions[log.TopicPartition{Topic: b.topic, Partition: i}]
		if p.next >= at.next {
			continue // written with its change
		}
		if r.keeper != nil {
			if err := r.send(hard, p, connectors.Batch{Stream: p.stream, Position: position(at.next)}); err != nil {
				return err
			}
		}
		r.unsaved[p.TopicPartition] = at.next
		r.meter.records.Add(1)
	}
	if err := r.save(hard); err != nil {
		return err
	}
	delete(r.barriers, b.barrierKey)
	for i, at := range b.met {
		p := r.partitions[log.TopicPartition{Topic: b.topic, Partition: i}]
		p.next = at.next
		p.meter.advance(at.next)
		if err := r.consumer.Seek(p.TopicPartition, at.next); err != nil {
			return fmt.Errorf("seek %s: %w", p.stream, err)
		}
		r.consumer.Resume(p.TopicPartition)
	}
	return nil
}

// applied asks the sink whether it has this truncate.
func (r *run) applied(hard context.Context, b *barrier) (bool, error) {
	if r.keeper == nil {
		return false, nil
	}
	held, err := r.keeper.Committed(hard, BarrierStream(b.topic))
	if err != nil {
		return false, fmt.Errorf("read position of %s in sink %q: %w", BarrierStream(b.topic), r.o.Sink, err)
	}
	return string(held) == strconv.FormatInt(b.id+1, 10), nil
}

// truncate writes the change. Its offset and position are the barrier's id: the offsets of its copies differ.
func (r *run) truncate(hard context.Context, b *barrier) error {
	c := b.change
	first := r.partitions[log.TopicPartition{Topic: b.topic}]
	stream, next := BarrierStream(b.topic), b.id+1
	c.Offset = b.id
	if r.keeper == nil {
		stream, next = first.stream, b.met[0].next
		c.Offset = b.met[0].offset
	}
	changes, err := []connectors.Change{c}, error(nil)
	if r.o.Transform != nil {
		if changes, err = r.o.Transform(hard, changes); err != nil {
			return fmt.Errorf("transform truncate of %s: %w", b.topic, err)
		}
	}
	if len(changes) == 0 {
		return nil
	}
	for rest := changes; len(rest) > 0; {
		n, err := r.admit(hard, rest)
		if err != nil {
			return err
		}
		rest = rest[n:]
	}
	err = r.send(hard, first, connectors.Batch{Stream: stream, Changes: changes, Position: position(next)})
	var rows *connectors.RowsError
	if errors.As(err, &rows) && len(rows.Rows) > 0 {
		return fmt.Errorf("truncate of %s at offset %d: %w: %w", b.topic, b.met[0].offset, rows, connectors.ErrFatal)
	}
	return err
}
