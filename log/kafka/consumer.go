package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/trunkline/trunkline/log"
)

const (
	defaultMaxBytes   = 4 << 20
	defaultMaxRecords = 1 << 20 // for a Poll that names none
	// drained is how many records Poll takes from the client at once. They wait in cursors for their turn.
	drained = 10_000
	// maxWait is how long a broker holds back an answer without records.
	maxWait = 500 * time.Millisecond
	// topicsEvery is how often a consumer with wildcards looks for topics that appeared.
	topicsEvery = time.Second
	// reachEvery is how often a consumer to which nothing comes looks whether the cluster is there at all. The client
	// library waits for it without a word.
	reachEvery = 10 * time.Second
	// commitTries is how often a commit is tried while the group rebalances, and commitPause the wait between.
	commitTries = 50
	commitPause = 100 * time.Millisecond
)

// consumer reads partitions, as a member of a group or by manual assignment. The client fetches ahead; what it fetched
// stands in cursors until it is handed out. Everything but what mu guards belongs to one goroutine.
type consumer struct {
	l      *Log
	o      log.ConsumerOptions
	client *kgo.Client

	cursors  []*cursor // sorted; the order in which partitions take turns
	turn     int
	fresh    bool // manual assignment, and Assigned was not called
	looked   time.Time
	idle     time.Time // since when nothing came; zero: something came
	reached  time.Time // when the cluster last answered
	topics   map[string]bool
	once     sync.Once
	mu       sync.Mutex
	events   []*event
	wake     context.CancelFunc // ends the wait of the Poll that runs; nil: none runs
	closing  chan struct{}
	finished bool
}

// Consumer opens a reader.
func (l *Log) Consumer(ctx context.Context, o log.ConsumerOptions) (log.Consumer, error) {
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
	if o.MaxBytes <= 0 {
		o.MaxBytes = defaultMaxBytes
	}
	c := &consumer{l: l, o: o, topics: map[string]bool{}, closing: make(chan struct{}), idle: time.Now(), reached: time.Now()}
	open := c.assignManually
	if c.member() {
		open = c.join
	}
	if err := open(ctx); err != nil {
		return nil, fmt.Errorf("open consumer: %w", err)
	}
	if err := l.keep(c); err != nil {
		c.shut()
		return nil, err
	}
	return c, nil
}

func (c *consumer) member() bool { return len(c.o.Topics) > 0 }

// options are those of members and of manual readers.
func (c *consumer) options() []kgo.Opt {
	return []kgo.Opt{
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchMaxBytes(int32(c.o.MaxBytes)), kgo.FetchMaxPartitionBytes(int32(c.o.MaxBytes)), kgo.FetchMaxWait(maxWait),
		kgo.BrokerMaxReadBytes(wireBytes), kgo.MetadataMinAge(100 * time.Millisecond),
	}
}

// assignManually begins at what the group has committed, and where the options say for the rest.
func (c *consumer) assignManually(ctx context.Context) error {
	start := log.Offsets{}
	for _, tp := range c.o.Partitions {
		if _, err := c.l.checkPartition(ctx, tp); err != nil {
			return err
		}
	}
	if c.o.Group != "" {
		var err error
		if start, err = c.l.committed(ctx, c.o.Group, c.o.Partitions); err != nil {
			return err
		}
	}
	missing := slices.DeleteFunc(slices.Clone(c.o.Partitions), func(tp log.TopicPartition) bool {
		_, ok := start[tp]
		return ok
	})
	rest, err := c.l.startsOf(ctx, c.o.From, missing)
	if err != nil {
		return err
	}
	maps.Copy(start, rest)
	c.take(start)
	c.fresh = true
	return nil
}

// begin starts the client of a manual assignment. It waits for the first Poll, because until then Seek is free.
func (c *consumer) begin(ctx context.Context) error {
	c.fresh = false
	if c.o.Assigned != nil {
		if err := c.o.Assigned(ctx, c.Assignment()); err != nil {
			c.fresh = true
			return fmt.Errorf("take partitions: %w", err)
		}
	}
	assigned, paused := map[string]map[int32]kgo.Offset{}, map[string][]int32{}
	for _, cur := range c.cursors {
		if assigned[cur.tp.Topic] == nil {
			assigned[cur.tp.Topic] = map[int32]kgo.Offset{}
		}
		assigned[cur.tp.Topic][cur.tp.Partition] = kgo.NewOffset().At(cur.next)
		cur.soughtEarly, cur.unsettled = false, true
		if cur.paused {
			paused[cur.tp.Topic] = append(paused[cur.tp.Topic], cur.tp.Partition)
		}
	}
	client, err := c.l.client(append(c.options(), kgo.ConsumePartitions(assigned))...)
	if err != nil {
		c.fresh = true
		return err
	}
	client.PauseFetchPartitions(paused)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.finished {
		client.Close()
		return log.ErrClosed
	}
	c.client = client
	return nil
}

// take adds partitions. Their order is that of names, so that turns are fair whatever the order of assignment.
func (c *consumer) take(start log.Offsets) {
	for tp, next := range start {
		c.cursors = append(c.cursors, &cursor{tp: tp, next: next})
	}
	slices.SortFunc(c.cursors, func(a, b *cursor) int { return comparePartitions(a.tp, b.tp) })
}

func (c *consumer) drop(lost []log.TopicPartition) {
	c.cursors = slices.DeleteFunc(c.cursors, func(cur *cursor) bool { return slices.Contains(lost, cur.tp) })
}

func (c *consumer) cursor(tp log.TopicPartition) *cursor {
	i, ok := slices.BinarySearchFunc(c.cursors, tp, func(cur *cursor, tp log.TopicPartition) int { return comparePartitions(cur.tp, tp) })
	if !ok {
		return nil
	}
	return c.cursors[i]
}

// Poll returns the next records of one partition.
func (c *consumer) Poll(ctx context.Context, maxRecords int) (log.Fetch, error) {
	if maxRecords <= 0 {
		maxRecords = defaultMaxRecords
	}
	if c.fresh {
		if err := c.begin(ctx); err != nil {
			return log.Fetch{}, err
		}
	}
	for {
		if err := c.ready(ctx); err != nil {
			return log.Fetch{}, err
		}
		if err := c.rebalance(ctx); err != nil {
			return log.Fetch{}, err
		}
		if err := c.refresh(ctx); err != nil {
			return log.Fetch{}, err
		}
		if f, ok, err := c.next(maxRecords); ok || err != nil {
			return f, err
		}
		if err := c.fill(ctx); err != nil {
			return log.Fetch{}, err
		}
	}
}

func (c *consumer) ready(ctx context.Context) error {
	select {
	case <-c.closing:
		return log.ErrClosed
	default:
	}
	return ctx.Err()
}

// next asks each partition once, beginning behind the one that answered last.
func (c *consumer) next(maxRecords int) (log.Fetch, bool, error) {
	for i := range c.cursors {
		k := (c.turn + i) % len(c.cursors)
		cur := c.cursors[k]
		if cur.paused {
			continue
		}
		if cur.err != nil {
			err := cur.err
			cur.err = nil
			c.turn = k + 1
			return log.Fetch{}, false, err
		}
		if f, ok := cur.hand(maxRecords, c.o.MaxBytes); ok {
			c.turn = k + 1
			return f, true, nil
		}
	}
	return log.Fetch{}, false, nil
}

// fill waits for records, for a rebalance, or for the time to look for something else.
func (c *consumer) fill(ctx context.Context) error {
	wait, cancel := context.WithTimeout(ctx, c.patience())
	defer cancel()
	c.mu.Lock()
	c.wake = cancel
	pending := len(c.events) > 0 || c.finished
	c.mu.Unlock()
	if pending {
		return nil
	}
	fetches := c.client.PollRecords(wait, drained)
	c.mu.Lock()
	c.wake = nil
	c.mu.Unlock()
	came := false
	var failed error
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		if p.Topic == "" { // the wait is over, or something befell the client or its membership
			if errors.Is(p.Err, kgo.ErrClientClosed) {
				failed = log.ErrClosed
			} else if lasting(p.Err) {
				failed = fmt.Errorf("group %q: %w", c.o.Group, p.Err)
			}
			return
		}
		came = came || len(p.Records) > 0
		if err := c.store(ctx, p); err != nil && failed == nil {
			failed = err
		}
	})
	if came {
		c.idle, c.reached = time.Time{}, time.Now()
		return failed
	}
	if failed == nil && time.Since(c.reached) > reachEvery {
		failed = c.reach(ctx)
	}
	if c.idle.IsZero() {
		c.idle = time.Now()
	}
	if failed == nil && time.Since(c.idle) >= holeTime {
		failed = c.passHoles(ctx)
		c.idle = time.Now()
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return failed
}

// reach fails when no broker answers.
func (c *consumer) reach(ctx context.Context) error {
	ping, cancel := context.WithTimeout(ctx, closeTime)
	defer cancel()
	if err := c.l.meta.Ping(ping); err != nil && ctx.Err() == nil {
		return fmt.Errorf("reach cluster %s: %w", c.l.o.address(), err)
	}
	c.reached = time.Now()
	return nil
}

// patience is how long fill may wait.
func (c *consumer) patience() time.Duration {
	wait := reachEvery
	if c.member() {
		wait = topicsEvery
	}
	for _, cur := range c.cursors {
		if (cur.unsettled || cur.soughtEarly) && !cur.paused && !cur.stopped {
			return holeTime
		}
	}
	return wait
}

// passing are refusals that the client answers by joining its group again.
var passing = []error{kerr.UnknownMemberID, kerr.IllegalGeneration, kerr.FencedInstanceID, kerr.UnknownTopicID, kerr.UnknownTopicOrPartition}

// lasting reports whether an error is a refusal that waiting does not change, such as a missing right. The client library
// would try again for ever.
func lasting(err error) bool {
	var refusal *kerr.Error
	return errors.As(err, &refusal) && !refusal.Retriable && !slices.ContainsFunc(passing, func(p error) bool { return errors.Is(err, p) })
}

// store puts what was fetched into the partition's cursor.
func (c *consumer) store(ctx context.Context, p kgo.FetchTopicPartition) error {
	cur := c.cursor(log.TopicPartition{Topic: p.Topic, Partition: p.Partition})
	if cur == nil {
		if lasting(p.Err) {
			return fmt.Errorf("read topic %s: %w", p.Topic, p.Err)
		}
		return nil // it was given up in between
	}
	if cur.soughtEarly {
		// It was sought before the client knew it, so these records are from where it would have begun.
		cur.started, cur.soughtEarly = true, false
		c.seekClient(cur)
		return nil
	}
	cur.started = true
	cur.add(p.Records, p.LastStableOffset)
	switch {
	case p.Err == nil || cur.stopped:
	case errors.Is(p.Err, kerr.OffsetOutOfRange):
		cur.stopped = true
		cur.err = c.l.outOfRange(ctx, cur.tp, cur.next)
	case errors.Is(p.Err, kerr.UnknownTopicID) || errors.Is(p.Err, kerr.UnknownTopicOrPartition):
		if c.member() {
			c.client.PurgeTopicsFromConsuming(p.Topic) // it was deleted; refresh finds it if it was made anew
			delete(c.topics, p.Topic)
			return nil
		}
		cur.stopped = true
		cur.err = translate(p.Err)
	default:
		cur.stopped = true
		cur.err = fmt.Errorf("read %s-%d at offset %d: %w", p.Topic, p.Partition, cur.next, translate(p.Err))
	}
	return nil
}

// passHoles moves partitions past what compaction has emptied at their ends.
func (c *consumer) passHoles(ctx context.Context) error {
	asked := map[string]kadm.ListedOffsets{}
	for _, cur := range c.cursors {
		if cur.soughtEarly && !cur.stopped {
			c.seekClient(cur) // the client may know it by now
			continue
		}
		if !cur.unsettled || cur.paused || cur.stopped || len(cur.held) > cur.at {
			continue
		}
		if cur.stable > 0 && cur.next >= cur.stable {
			cur.unsettled = false // what comes behind is a record, or a marker that the client tells
			continue
		}
		listed, ok := asked[cur.tp.Topic]
		if !ok {
			var err error
			if listed, err = c.l.admin.ListCommittedOffsets(ctx, cur.tp.Topic); err != nil {
				return fmt.Errorf("list offsets of %s: %w", cur.tp.Topic, translate(err))
			}
			asked[cur.tp.Topic] = listed
		}
		end, err := lookup(listed, cur.tp)
		if err != nil {
			return err
		}
		cur.stable = max(cur.stable, end)
		if cur.next < end {
			next, err := c.l.probe(ctx, cur.tp, cur.next, 1)
			if err != nil || next == cur.next {
				continue // records are on their way
			}
			cur.next, cur.moved = next, true
		}
		cur.unsettled = cur.next < end
	}
	return nil
}

// Seek moves a partition to an offset and makes it readable again after an error.
func (c *consumer) Seek(tp log.TopicPartition, next int64) error {
	cur := c.cursor(tp)
	if cur == nil {
		return fmt.Errorf("seek %s-%d: %w", tp.Topic, tp.Partition, log.ErrNotAssigned)
	}
	if cur.rewind(next) {
		return nil
	}
	cur.seek(next)
	if !cur.started {
		cur.soughtEarly = true
		return nil
	}
	c.seekClient(cur)
	return nil
}

func (c *consumer) seekClient(cur *cursor) {
	c.client.SetOffsets(map[string]map[int32]kgo.EpochOffset{cur.tp.Topic: {cur.tp.Partition: {Epoch: -1, Offset: cur.next}}})
}

// Pause keeps partitions out of Poll.
func (c *consumer) Pause(tps ...log.TopicPartition) {
	for _, tp := range tps {
		if cur := c.cursor(tp); cur != nil && !cur.paused {
			cur.paused = true
			if c.client == nil {
				continue
			}
			c.client.PauseFetchPartitions(map[string][]int32{tp.Topic: {tp.Partition}})
		}
	}
}

// Resume lets Poll return them again.
func (c *consumer) Resume(tps ...log.TopicPartition) {
	for _, tp := range tps {
		if cur := c.cursor(tp); cur != nil && cur.paused {
			cur.paused = false
			if c.client == nil {
				continue
			}
			c.client.ResumeFetchPartitions(map[string][]int32{tp.Topic: {tp.Partition}})
		}
	}
}

// Assignment returns the assigned partitions and the offset of the next record of each.
func (c *consumer) Assignment() log.Offsets {
	out := make(log.Offsets, len(c.cursors))
	for _, cur := range c.cursors {
		out[cur.tp] = cur.next
	}
	return out
}
