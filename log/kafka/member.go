package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/trunkline/trunkline/log"
)

// event is something that the group has decided. The client's goroutine waits until Poll has dealt with it: that is what
// keeps a partition here until the batch in hand is done.
type event struct {
	lost  []log.TopicPartition
	start log.Offsets // gained, and where reading begins; Poll changes it when Assigned seeks
	err   error       // of Assigned
	done  chan struct{}
}

// join makes the consumer a member of its group.
func (c *consumer) join(ctx context.Context) error {
	var err error
	c.client, err = c.l.client(append(c.options(),
		kgo.ConsumerGroup(c.o.Group), kgo.Balancers(c.balancer()), kgo.DisableAutoCommit(),
		kgo.SessionTimeout(c.l.o.SessionTimeout), kgo.HeartbeatInterval(c.l.o.SessionTimeout/5),
		kgo.RebalanceTimeout(c.l.o.RebalanceTimeout),
		kgo.AdjustFetchOffsetsFn(c.adjust),
		kgo.OnPartitionsRevoked(c.revoked), kgo.OnPartitionsLost(c.revoked))...)
	if err != nil {
		return err
	}
	return c.refresh(ctx)
}

func (c *consumer) balancer() kgo.GroupBalancer {
	if c.o.WholeTopics {
		return wholeTopics{kgo.CooperativeStickyBalancer()}
	}
	return kgo.CooperativeStickyBalancer()
}

// adjust is called by the client between the assignment of partitions and their first fetch. It lets Poll call Assigned
// and returns where reading begins.
func (c *consumer) adjust(ctx context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	start := log.Offsets{}
	var missing []log.TopicPartition
	for topic, partitions := range offsets {
		for p, o := range partitions {
			tp := log.TopicPartition{Topic: topic, Partition: p}
			if at := o.EpochOffset().Offset; at >= 0 {
				start[tp] = at
			} else {
				missing = append(missing, tp)
			}
		}
	}
	rest, err := c.l.startsOf(ctx, c.o.From, missing)
	if err != nil {
		return nil, err
	}
	maps.Copy(start, rest)
	e := &event{start: start, done: make(chan struct{})}
	if err := c.post(ctx, e); err != nil {
		return nil, err
	}
	out := map[string]map[int32]kgo.Offset{}
	for tp, next := range e.start {
		if out[tp.Topic] == nil {
			out[tp.Topic] = map[int32]kgo.Offset{}
		}
		out[tp.Topic][tp.Partition] = kgo.NewOffset().At(next)
	}
	return out, e.err
}

// revoked is called by the client when partitions go to others. It returns once Poll has given them up.
func (c *consumer) revoked(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
	e := &event{done: make(chan struct{})}
	for topic, partitions := range lost {
		for _, p := range partitions {
			e.lost = append(e.lost, log.TopicPartition{Topic: topic, Partition: p})
		}
	}
	if len(e.lost) == 0 {
		return
	}
	slices.SortFunc(e.lost, comparePartitions)
	_ = c.post(context.Background(), e) // it ends when the consumer is closed
}

// post hands an event to Poll and waits for it. An event whose context ended before Poll began with it is withdrawn.
func (c *consumer) post(ctx context.Context, e *event) error {
	c.mu.Lock()
	if c.finished {
		c.mu.Unlock()
		return log.ErrClosed
	}
	c.events = append(c.events, e)
	if c.wake != nil {
		c.wake()
	}
	c.mu.Unlock()
	select {
	case <-e.done:
		return nil
	case <-c.closing:
		return log.ErrClosed
	case <-ctx.Done():
	}
	c.mu.Lock()
	i := slices.Index(c.events, e)
	if i >= 0 {
		c.events = slices.Delete(c.events, i, i+1)
	}
	c.mu.Unlock()
	if i >= 0 {
		return ctx.Err()
	}
	select {
	case <-e.done:
		return nil
	case <-c.closing:
		return log.ErrClosed
	}
}

// rebalance deals with what the group has decided, in order.
func (c *consumer) rebalance(ctx context.Context) error {
	for {
		c.mu.Lock()
		if len(c.events) == 0 {
			c.mu.Unlock()
			return nil
		}
		e := c.events[0]
		c.events = c.events[1:]
		c.mu.Unlock()
		// How long a Poll may wait for records says nothing of how long handing over may take.
		calm, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.l.o.RebalanceTimeout)
		err := c.obey(calm, e)
		cancel()
		close(e.done)
		if err != nil {
			return err
		}
	}
}

func (c *consumer) obey(ctx context.Context, e *event) error {
	if len(e.lost) > 0 {
		lost := slices.DeleteFunc(slices.Clone(e.lost), func(tp log.TopicPartition) bool { return c.cursor(tp) == nil })
		if len(lost) == 0 {
			return nil
		}
		var err error
		if c.o.Revoked != nil {
			err = c.o.Revoked(ctx, lost)
		}
		c.drop(lost)
		if err != nil {
			return fmt.Errorf("give up partitions: %w", err)
		}
		return nil
	}
	gained := log.Offsets{}
	for tp, next := range e.start {
		if cur := c.cursor(tp); cur != nil {
			e.start[tp] = cur.next // the client begins again with what is ours already
			cur.seek(cur.next)
			continue
		}
		gained[tp] = next
	}
	c.take(gained)
	if len(gained) > 0 && c.o.Assigned != nil {
		if err := c.o.Assigned(ctx, gained); err != nil {
			c.drop(slices.Collect(maps.Keys(gained)))
			e.err = err
			return fmt.Errorf("take partitions: %w", err)
		}
	}
	for tp := range gained {
		cur := c.cursor(tp)
		e.start[tp] = cur.next
		cur.soughtEarly = false // the client begins there
		cur.unsettled = true
	}
	return nil
}

// refresh subscribes to topics that a wildcard matches by now.
func (c *consumer) refresh(ctx context.Context) error {
	if !c.member() || time.Since(c.looked) < topicsEvery {
		return nil
	}
	c.looked = time.Now()
	var added []string
	add := func(name string) {
		if !c.topics[name] {
			c.topics[name] = true
			added = append(added, name)
		}
	}
	wild := false
	for _, pattern := range c.o.Topics {
		if strings.ContainsAny(pattern, "*?") {
			wild = true
		} else {
			add(pattern)
		}
	}
	if wild {
		details, err := c.l.admin.ListTopics(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("list topics: %w", translate(err))
		}
		for _, name := range details.Names() {
			if slices.ContainsFunc(c.o.Topics, func(pattern string) bool { return matches(pattern, name) }) {
				add(name)
			}
		}
	}
	c.client.AddConsumeTopics(added...)
	return nil
}

// matches reports whether a pattern with the wildcards * and ? names the topic. Internal topics are named in full only.
func matches(pattern, name string) bool {
	if !strings.ContainsAny(pattern, "*?") {
		return pattern == name
	}
	return !log.IsInternal(name) && glob(pattern, name)
}

// glob matches byte by byte. After a star that did not suffice it goes back to the last one only, so it is quick.
func glob(pattern, name string) bool {
	star, from := -1, 0
	p, n := 0, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, n
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == name[n]):
			p, n = p+1, n+1
		case star >= 0:
			from++
			p, n = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// Commit stores offsets of assigned partitions.
func (c *consumer) Commit(ctx context.Context, next log.Offsets) error {
	if err := c.ready(ctx); err != nil {
		return err
	}
	for tp := range next {
		if c.cursor(tp) == nil {
			return fmt.Errorf("commit %s-%d: %w", tp.Topic, tp.Partition, log.ErrNotAssigned)
		}
	}
	switch {
	case c.o.Group == "" || len(next) == 0:
		return nil
	case !c.member():
		return c.l.commit(ctx, c.o.Group, next)
	}
	var err error
	for range commitTries {
		err = c.commitOnce(ctx, next)
		// While the group settles, the brokers take no commit. A partition that is ours stays ours until we give it up.
		if !errors.Is(err, kerr.RebalanceInProgress) {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(commitPause):
		}
	}
	if err != nil {
		return fmt.Errorf("commit offsets of group %q: %w", c.o.Group, translate(err))
	}
	return nil
}

func (c *consumer) commitOnce(ctx context.Context, next log.Offsets) error {
	offsets := map[string]map[int32]kgo.EpochOffset{}
	for tp, at := range next {
		if offsets[tp.Topic] == nil {
			offsets[tp.Topic] = map[int32]kgo.EpochOffset{}
		}
		offsets[tp.Topic][tp.Partition] = kgo.EpochOffset{Epoch: -1, Offset: at}
	}
	var failed error
	c.client.CommitOffsetsSync(ctx, offsets, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
		if err != nil {
			failed = err
			return
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil && failed == nil {
					failed = err
				}
			}
		}
	})
	return failed
}

// Close leaves the group.
func (c *consumer) Close(context.Context) error {
	c.shut()
	return nil
}

// shut ends the consumer, from its own goroutine or when the log is closed.
func (c *consumer) shut() {
	c.once.Do(func() {
		c.l.forget(c)
		c.mu.Lock()
		c.finished = true
		client := c.client
		if c.wake != nil {
			c.wake()
		}
		c.mu.Unlock()
		close(c.closing)
		ctx, cancel := context.WithTimeout(context.Background(), closeTime)
		defer cancel()
		if client == nil {
			return
		}
		if c.member() {
			_ = client.LeaveGroupContext(ctx) // else the others notice after the session timeout
		}
		client.Close()
	})
}
