package disk

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/trunkline/trunkline/log"
)

const (
	defaultMaxBytes   = 4 << 20
	defaultMaxRecords = 1 << 20 // for a Poll that names none
)

// consumer reads one or more partitions. All but notify belongs to one goroutine.
type consumer struct {
	l     *Log
	o     log.ConsumerOptions
	id    string
	group *group // nil: nothing is committed

	wake      chan struct{} // capacity 1; a token says that something may have changed
	rebalance atomic.Bool

	closed  atomic.Bool
	cursors []*cursor // sorted; the order in which partitions take turns
	turn    int
	free    []*chunk
	chunks  int // made, in use or free
}

var consumerNumber atomic.Int64

// Consumer opens a reader.
func (l *Log) Consumer(_ context.Context, o log.ConsumerOptions) (log.Consumer, error) {
	if err := l.usable(); err != nil {
		return nil, err
	}
	switch {
	case len(o.Topics) > 0 && len(o.Partitions) > 0:
		return nil, errors.New("open consumer: both topics and partitions are named")
	case len(o.Topics) == 0 && len(o.Partitions) == 0:
		return nil, errors.New("open consumer: neither topics nor partitions are named")
	case len(o.Topics) > 0 && o.Group == "":
		return nil, errors.New("open consumer: topics need a group")
	}
	setDefault(&o.MaxBytes, defaultMaxBytes)
	c := &consumer{l: l, o: o, wake: make(chan struct{}, 1)}
	c.id = "member-" + strconv.FormatInt(consumerNumber.Add(1), 10)
	if o.Group != "" {
		c.group = l.group(o.Group)
	}
	if len(o.Topics) > 0 {
		c.group.join(c)
	} else if err := c.assignManually(); err != nil {
		c.dropAll()
		return nil, fmt.Errorf("open consumer: %w", err)
	}
	return c, nil
}

func (c *consumer) member() bool { return len(c.o.Topics) > 0 }

// wants reports whether the consumer is subscribed to a topic.
func (c *consumer) wants(topic string) bool {
	return slices.ContainsFunc(c.o.Topics, func(pattern string) bool { return matches(pattern, topic) })
}

// notify makes a Poll that waits look again. Any goroutine may call it.
func (c *consumer) notify() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *consumer) assignManually() error {
	if _, err := c.take(c.o.Partitions); err != nil {
		return err
	}
	c.rebalance.Store(true) // Poll calls Assigned, as it does for members
	return nil
}

// take adds partitions at the offsets at which reading starts.
func (c *consumer) take(tps []log.TopicPartition) (log.Offsets, error) {
	start := log.Offsets{}
	for _, tp := range tps {
		p, err := c.l.partition(tp)
		if err != nil {
			return start, err
		}
		next, err := c.startOf(p)
		if err != nil {
			return start, err
		}
		start[tp] = next
		c.cursors = append(c.cursors, &cursor{p: p, next: next})
		p.watch(c)
	}
	slices.SortFunc(c.cursors, func(a, b *cursor) int { return comparePartitions(a.p.tp, b.p.tp) })
	return start, nil
}

func (c *consumer) startOf(p *partition) (int64, error) {
	if c.group != nil {
		if next, ok := c.group.committed(p.tp); ok {
			return next, nil
		}
	}
	switch {
	case c.o.From.Latest:
		return p.stable.Load(), nil
	case !c.o.From.At.IsZero():
		return p.offsetAt(c.o.From.At)
	}
	return p.start.Load(), nil
}

// Poll returns the next records of one partition.
func (c *consumer) Poll(ctx context.Context, maxRecords int) (log.Fetch, error) {
	if maxRecords <= 0 {
		maxRecords = defaultMaxRecords
	}
	for {
		if err := c.ready(ctx); err != nil {
			return log.Fetch{}, err
		}
		if c.rebalance.Swap(false) {
			if err := c.rebalanceNow(ctx); err != nil {
				return log.Fetch{}, err
			}
		}
		if f, ok, err := c.next(maxRecords); ok || err != nil {
			return f, err
		}
		select {
		case <-ctx.Done():
			return log.Fetch{}, ctx.Err()
		case <-c.l.closing:
			return log.Fetch{}, log.ErrClosed
		case <-c.wake:
		}
	}
}

func (c *consumer) ready(ctx context.Context) error {
	if c.closed.Load() || c.l.closed.Load() {
		return log.ErrClosed
	}
	return ctx.Err()
}

// next asks each partition once, beginning behind the one that answered last.
func (c *consumer) next(maxRecords int) (log.Fetch, bool, error) {
	for i := range c.cursors {
		k := (c.turn + i) % len(c.cursors)
		cur := c.cursors[k]
		if cur.paused || cur.stopped {
			continue
		}
		f, ok, err := c.fetch(cur, maxRecords)
		if err != nil {
			cur.stopped = true
			c.turn = k + 1
			if errors.Is(err, log.ErrUnknownTopic) && c.member() {
				c.rebalance.Store(true) // the topic was deleted
				c.notify()
				continue
			}
			return log.Fetch{}, false, err
		}
		if ok {
			c.turn = k + 1
			return f, true, nil
		}
	}
	return log.Fetch{}, false, nil
}

// rebalanceNow gives up what the group wants to be elsewhere and takes in what is free.
func (c *consumer) rebalanceNow(ctx context.Context) error {
	if !c.member() {
		if c.o.Assigned == nil {
			return nil
		}
		return c.o.Assigned(ctx, c.Assignment())
	}
	lost, gained := c.group.changes(c, c.gone())
	if len(lost) > 0 {
		err := error(nil)
		if c.o.Revoked != nil {
			err = c.o.Revoked(ctx, lost)
		}
		c.drop(lost)
		c.group.release(c, lost)
		if err != nil {
			c.group.release(c, gained)
			c.rebalance.Store(true)
			return fmt.Errorf("give up partitions: %w", err)
		}
	}
	if len(gained) == 0 {
		return nil
	}
	start, err := c.take(gained)
	if err == nil && c.o.Assigned != nil {
		err = c.o.Assigned(ctx, start)
	}
	if err != nil {
		c.drop(gained)
		c.group.release(c, gained)
		c.rebalance.Store(true)
		if errors.Is(err, log.ErrUnknownTopic) {
			return nil // the topic went in between; the next rebalance knows
		}
		return fmt.Errorf("take partitions: %w", err)
	}
	return nil
}

// gone returns the partitions whose topic was deleted, and perhaps made anew under the same name.
func (c *consumer) gone() []log.TopicPartition {
	var out []log.TopicPartition
	for _, cur := range c.cursors {
		if cur.p.removed.Load() {
			out = append(out, cur.p.tp)
		}
	}
	return out
}

// drop forgets partitions.
func (c *consumer) drop(tps []log.TopicPartition) {
	c.cursors = slices.DeleteFunc(c.cursors, func(cur *cursor) bool {
		if !slices.Contains(tps, cur.p.tp) {
			return false
		}
		cur.p.unwatch(c)
		c.recycle(cur)
		return true
	})
}

func (c *consumer) dropAll() {
	for _, cur := range c.cursors {
		cur.p.unwatch(c)
	}
	c.cursors, c.free, c.chunks = nil, nil, 0
}

func (c *consumer) cursor(tp log.TopicPartition) *cursor {
	for _, cur := range c.cursors {
		if cur.p.tp == tp {
			return cur
		}
	}
	return nil
}

// Seek moves a partition to an offset and makes it readable again after an error.
func (c *consumer) Seek(tp log.TopicPartition, next int64) error {
	cur := c.cursor(tp)
	if cur == nil {
		return fmt.Errorf("seek %s-%d: %w", tp.Topic, tp.Partition, log.ErrNotAssigned)
	}
	c.recycle(cur)
	cur.next, cur.stopped = next, false
	return nil
}

// Pause keeps partitions out of Poll.
func (c *consumer) Pause(tps ...log.TopicPartition) { c.setPaused(tps, true) }

// Resume lets Poll return them again.
func (c *consumer) Resume(tps ...log.TopicPartition) { c.setPaused(tps, false) }

func (c *consumer) setPaused(tps []log.TopicPartition, paused bool) {
	for _, tp := range tps {
		if cur := c.cursor(tp); cur != nil {
			cur.paused = paused
		}
	}
}

// Assignment returns the assigned partitions and the offset of the next record of each.
func (c *consumer) Assignment() log.Offsets {
	out := make(log.Offsets, len(c.cursors))
	for _, cur := range c.cursors {
		out[cur.p.tp] = cur.next
	}
	return out
}

// Commit stores offsets of assigned partitions.
func (c *consumer) Commit(ctx context.Context, next log.Offsets) error {
	if err := c.ready(ctx); err != nil {
		return err
	}
	for tp := range next {
		if cur := c.cursor(tp); cur == nil || cur.p.removed.Load() {
			return fmt.Errorf("commit %s-%d: %w", tp.Topic, tp.Partition, log.ErrNotAssigned)
		}
	}
	if c.group == nil {
		return nil
	}
	return c.l.commitOffsets(c.group, next)
}

// Close leaves the group.
func (c *consumer) Close(context.Context) error {
	if c.closed.Swap(true) {
		return nil
	}
	c.dropAll()
	if c.member() {
		c.group.leave(c)
	}
	return nil
}

// commitOffsets stores offsets without holding the group's lock for the length of a sync: a partition has one owner, and
// the owner is the caller.
func (l *Log) commitOffsets(g *group, next log.Offsets) error {
	records := make([]log.Record, 0, len(next))
	for tp, offset := range next {
		records = append(records, log.Record{Key: offsetKey(g.name, tp), Value: strconv.AppendInt(nil, offset, 10)})
	}
	if len(records) == 0 {
		return nil
	}
	if err := l.appendOffsets(records); err != nil {
		return fmt.Errorf("commit offsets of group %q: %w", g.name, err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	maps.Copy(g.offsets, next)
	return nil
}
