package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"golang.org/x/sync/errgroup"

	"github.com/trunkline/trunkline/log"
)

const (
	// mirrorSide is how many partitions are copied side by side.
	mirrorSide = 16
	// mirrorRecords and mirrorBytes bound what is read of one partition at once.
	mirrorRecords = 5000
	mirrorBytes   = 4 << 20
)

// offsetsTopic is where the embedded log keeps group offsets. It and PositionsTopic are in a form of its own.
const offsetsTopic = log.InternalPrefix + "offsets"

// MirrorOptions says what to copy besides all topics and groups.
type MirrorOptions struct {
	Producers []string     // ids whose marks are copied
	Logger    *slog.Logger // silent
}

// Mirrored counts what a mirror copied, and what was there from an earlier attempt.
type Mirrored struct {
	Topics  int   `json:"topics"`
	Records int64 `json:"records"` // copied now
	Filled  int64 `json:"filled"`  // offsets without a record
	Groups  int   `json:"groups"`
	Marks   int   `json:"marks"`
}

// Mirror copies another log onto the cluster: topics with their settings, records with their offsets, what groups have
// committed, and the marks of producers. Nothing may write to the other log meanwhile.
//
// Offsets stay the same, because sinks keep them in their targets and records name schemas by them. Brokers give out
// offsets without holes, so a hole is filled with what no committed reader sees: an aborted transaction, whose marker
// takes an offset too. A mirror that was interrupted goes on where the cluster ends.
func (l *Log) Mirror(ctx context.Context, from log.Log, o MirrorOptions) (Mirrored, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	m := &mirror{l: l, from: from, o: o, marks: map[string][]byte{}}
	err := m.run(ctx)
	m.done.Records, m.done.Filled = m.records.Load(), m.filled.Load()
	return m.done, err
}

type mirror struct {
	l       *Log
	from    log.Log
	o       MirrorOptions
	marks   map[string][]byte
	records atomic.Int64
	filled  atomic.Int64
	done    Mirrored
}

func (m *mirror) run(ctx context.Context) error {
	// Opening a producer aborts what it had left open, so it comes first.
	for _, id := range m.o.Producers {
		p, mark, err := m.from.Producer(ctx, id)
		if err == nil {
			err = p.Close(ctx)
		}
		if err != nil {
			return fmt.Errorf("read mark of %q: %w", id, err)
		}
		if mark != nil {
			m.marks[id] = mark
		}
	}
	groups, err := m.from.Groups(ctx)
	if err != nil {
		return fmt.Errorf("read groups: %w", err)
	}
	for _, g := range groups {
		if err := m.l.idle(ctx, g.Name); err != nil {
			return fmt.Errorf("copy group %q: on the cluster: %w", g.Name, err)
		}
	}
	if err := m.topics(ctx); err != nil {
		return err
	}
	for _, g := range groups {
		offsets := log.Offsets{}
		for tp, next := range g.Offsets {
			if !skipped(tp.Topic) {
				offsets[tp] = next
			}
		}
		if len(offsets) == 0 {
			continue
		}
		if err := m.l.SetOffsets(ctx, g.Name, offsets); err != nil {
			return err
		}
		m.done.Groups++
	}
	for id, mark := range m.marks {
		if err := m.mark(ctx, id, mark); err != nil {
			return err
		}
		m.done.Marks++
	}
	return nil
}

func skipped(topic string) bool { return topic == offsetsTopic || topic == PositionsTopic }

func (m *mirror) mark(ctx context.Context, id string, mark []byte) error {
	p, _, err := m.l.Producer(ctx, id)
	if err != nil {
		return fmt.Errorf("copy mark of %q: %w", id, err)
	}
	if err := errors.Join(p.Commit(ctx, mark), p.Close(ctx)); err != nil {
		return fmt.Errorf("copy mark of %q: %w", id, err)
	}
	return nil
}

// topics copies all topics, the partitions of one side by side.
func (m *mirror) topics(ctx context.Context) error {
	list, err := m.from.Topics(ctx)
	if err != nil {
		return fmt.Errorf("read topics: %w", err)
	}
	for _, t := range list {
		if skipped(t.Name) {
			continue
		}
		err := m.l.CreateTopic(ctx, t.Name, t.Config)
		if err != nil && !errors.Is(err, log.ErrTopicExists) {
			return err
		}
		there, err := m.l.Topic(ctx, t.Name)
		if err != nil {
			return err
		}
		if len(there.Partitions) != len(t.Partitions) {
			return fmt.Errorf("copy topic %q: it has %d partitions, and %d on the cluster", t.Name, len(t.Partitions), len(there.Partitions))
		}
		side, sideCtx := errgroup.WithContext(ctx)
		side.SetLimit(mirrorSide)
		for i := range t.Partitions {
			c := &copying{mirror: m, tp: log.TopicPartition{Topic: t.Name, Partition: int32(i)}, config: there.Config,
				at: there.Partitions[i].HighWatermark, from: t.Partitions[i]}
			side.Go(func() error { return c.run(sideCtx) })
		}
		if err := side.Wait(); err != nil {
			return fmt.Errorf("copy topic %q: %w", t.Name, err)
		}
		m.done.Topics++
		m.o.Logger.Info("copied", "topic", t.Name)
	}
	return nil
}

// copying copies one partition.
type copying struct {
	*mirror
	tp     log.TopicPartition
	config log.TopicConfig
	from   log.Partition
	at     int64 // the end on the cluster
	filler *filler
}

func (c *copying) run(ctx context.Context) (err error) {
	end := c.from.HighWatermark
	switch {
	case c.from.LastStable < end:
		return fmt.Errorf("partition %d: a transaction is open at offset %d: end the program that writes it", c.tp.Partition, c.from.LastStable)
	case c.at > end:
		return fmt.Errorf("partition %d: the cluster has offsets up to %d, this log only up to %d: something else has written there", c.tp.Partition, c.at, end)
	}
	if c.at < end {
		if err := c.goOn(ctx, end); err != nil {
			return fmt.Errorf("partition %d at offset %d: %w", c.tp.Partition, c.at, err)
		}
	}
	return c.trim(ctx)
}

// goOn copies from the end on the cluster. What an attempt before left open has to be finished first: that moves the end.
func (c *copying) goOn(ctx context.Context, end int64) (err error) {
	if c.filler, err = newFiller(ctx, c.l, c.tp, c.config.MaxRecordBytes); err != nil {
		return fmt.Errorf("take over from an attempt before: %w", translate(err))
	}
	defer c.filler.client.Close()
	if c.at, err = c.filler.end(ctx); err != nil {
		return translate(err)
	}
	return c.copy(ctx, end)
}

func (c *copying) copy(ctx context.Context, end int64) (err error) {
	consumer, err := c.mirror.from.Consumer(ctx, log.ConsumerOptions{Partitions: []log.TopicPartition{c.tp}, MaxBytes: mirrorBytes})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, consumer.Close(ctx)) }()
	if err := c.fill(ctx, c.from.LogStart); err != nil {
		return err
	}
	if err := consumer.Seek(c.tp, c.at); err != nil {
		return err
	}
	for c.at < end {
		if err := ctx.Err(); err != nil {
			return err
		}
		f, err := consumer.Poll(ctx, mirrorRecords)
		if err != nil {
			return err
		}
		first := 0
		for i := range f.Records {
			if i > first && f.Records[i].Offset != f.Records[i-1].Offset+1 {
				if err := c.write(ctx, f.Records[first:i]); err != nil {
					return err
				}
				first = i
			}
		}
		if err := c.write(ctx, f.Records[first:]); err != nil {
			return err
		}
		if err := c.fill(ctx, f.Next); err != nil {
			return err
		}
	}
	return nil
}

// write appends records without a hole between them, behind a hole that may be before them.
func (c *copying) write(ctx context.Context, records []log.Record) error {
	if len(records) == 0 {
		return nil
	}
	if err := c.fill(ctx, records[0].Offset); err != nil {
		return err
	}
	client, err := c.l.appender(*c.config.Compression)
	if err != nil {
		return err
	}
	list := convert(c.tp, records)
	// What was begun is waited for, so that it cannot come after the next attempt has looked.
	calm, cancel := context.WithTimeout(context.WithoutCancel(ctx), deliveryTime)
	defer cancel()
	if _, err := client.append(calm, list); err != nil {
		return translate(err)
	}
	for i, r := range list {
		if r.Offset != records[i].Offset {
			return fmt.Errorf("a record got offset %d instead of %d: something else writes there; delete the topic on the cluster and begin again",
				r.Offset, records[i].Offset)
		}
	}
	c.at = records[len(records)-1].Offset + 1
	c.records.Add(int64(len(records)))
	return nil
}

// fill makes next the end on the cluster.
func (c *copying) fill(ctx context.Context, next int64) error {
	if next <= c.at {
		return nil
	}
	if err := c.filler.fill(ctx, c.at, next); err != nil {
		return fmt.Errorf("fill a hole: %w", translate(err))
	}
	c.filled.Add(next - c.at)
	c.at = next
	return nil
}

// trim lets the partition begin where it begins in the other log.
func (c *copying) trim(ctx context.Context) error {
	if c.from.LogStart == 0 {
		return nil
	}
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: c.tp.Topic, Partition: c.tp.Partition, At: c.from.LogStart})
	answer, err := c.l.admin.DeleteRecords(ctx, offsets)
	if err == nil {
		err = answer.Error()
	}
	if err != nil && !errors.Is(err, kerr.PolicyViolation) { // a topic that is only compacted; readers pass what is filled
		return fmt.Errorf("partition %d: delete what is before offset %d: %w", c.tp.Partition, c.from.LogStart, translate(err))
	}
	return nil
}
