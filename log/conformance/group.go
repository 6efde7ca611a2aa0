package conformance

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/trunkline/trunkline/log"
)

var groupCases = []testCase{
	{name: "a group resumes at what it committed", reopens: true, run: groupResumes},
	{name: "groups do not disturb each other", run: groupIndependent},
	{name: "members share the partitions and each record is read once", run: groupShares},
	{name: "a partition changes hands only after the old owner gave it up", run: groupHandsOver},
	{name: "a commit after losing the partition is refused", run: groupRefusesCommit},
	{name: "a wildcard takes in topics that appear later", run: groupWildcard},
	{name: "offsets are set and forgotten only without members", run: groupSetOffsets},
}

func groupResumes(s *suite) {
	tp, group := at(s.topic("orders", 1), 0), s.name("group")
	s.append(tp, numbered("v", 10)...)
	o := log.ConsumerOptions{Group: group, Topics: []string{tp.Topic}}
	c := s.consumer(o)
	s.read(c, 4)
	s.must(c.Commit(s.ctx, log.Offsets{tp: 4}))
	s.read(c, 3)
	s.must(c.Close(s.ctx))
	s.reopen()
	c = s.consumer(o)
	got := s.read(c, 6)[tp]
	s.must(c.Close(s.ctx))
	if !slices.Equal(got, numbered("v", 10)[4:]) {
		s.Errorf("read %q after reopen, want from v4 on", got)
	}
}

func groupIndependent(s *suite) {
	tp := at(s.topic("orders", 1), 0)
	s.append(tp, numbered("v", 5)...)
	for _, name := range []string{"one", "two"} {
		c := s.consumer(log.ConsumerOptions{Group: s.name(name), Topics: []string{tp.Topic}})
		if got := s.read(c, 5)[tp]; len(got) != 5 {
			s.Errorf("group %s read %d records, want 5", name, len(got))
		}
		s.must(c.Commit(s.ctx, log.Offsets{tp: 5}))
		s.must(c.Close(s.ctx))
	}
}

func groupShares(s *suite) {
	const members, each = 3, 200
	name, group := s.topic("orders", 6), s.name("group")
	for i := range int32(6) {
		s.append(at(name, i), numbered("v", each)...)
	}
	type place struct {
		tp     log.TopicPartition
		offset int64
	}
	var (
		mu   sync.Mutex
		seen = map[place]int{}
		wait sync.WaitGroup
	)
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	for range members {
		wait.Go(func() {
			c, err := s.log.Consumer(s.ctx, log.ConsumerOptions{Group: group, Topics: []string{name}})
			if err != nil {
				s.Errorf("open consumer: %v", err)
				return
			}
			for {
				f, err := c.Poll(ctx, 10)
				if err != nil {
					if !errors.Is(err, context.Canceled) {
						s.Errorf("poll: %v", err)
					}
					break
				}
				if err := c.Commit(s.ctx, log.Offsets{f.TopicPartition: f.Next}); err != nil {
					s.Errorf("commit: %v", err)
				}
				mu.Lock()
				for _, r := range f.Records {
					seen[place{f.TopicPartition, r.Offset}]++
				}
				if len(seen) == 6*each {
					cancel()
				}
				mu.Unlock()
			}
			if err := c.Close(s.ctx); err != nil {
				s.Errorf("close consumer: %v", err)
			}
		})
	}
	wait.Wait()
	for p, n := range seen {
		if n != 1 {
			s.Errorf("%s-%d offset %d was read %d times", p.tp.Topic, p.tp.Partition, p.offset, n)
		}
	}
	if len(seen) != 6*each {
		s.Errorf("read %d records, want %d", len(seen), 6*each)
	}
}

func groupHandsOver(s *suite) {
	name, group := s.topic("orders", 2), s.name("group")
	s.append(at(name, 0), numbered("v", 10)...)
	s.append(at(name, 1), numbered("v", 10)...)
	var lost []log.TopicPartition
	var first log.Consumer
	first = s.consumer(log.ConsumerOptions{Group: group, Topics: []string{name},
		Revoked: func(ctx context.Context, tps []log.TopicPartition) error {
			lost = append(lost, tps...)
			next := log.Offsets{}
			for _, tp := range tps {
				next[tp] = 10
			}
			return first.Commit(ctx, next)
		}})
	s.read(first, 20)
	var start log.Offsets
	second := s.consumer(log.ConsumerOptions{Group: group, Topics: []string{name},
		Assigned: func(_ context.Context, o log.Offsets) error { start = o; return nil }})
	s.nothing(second, 30*time.Millisecond)
	if len(start) != 0 {
		s.Fatalf("the second member was given %v before the first gave it up", start)
	}
	s.pollUntil(first, func() bool { return len(lost) == 1 })
	s.pollUntil(second, func() bool { return len(start) == 1 })
	if start[lost[0]] != 10 {
		s.Errorf("the second member starts at %v, want 10 of %v", start, lost[0])
	}
	if n := len(first.Assignment()); n != 1 {
		s.Errorf("the first member has %d partitions left, want 1", n)
	}
	s.must(first.Close(s.ctx))
	s.pollUntil(second, func() bool { return len(second.Assignment()) == 2 })
	s.must(second.Close(s.ctx))
}

func groupRefusesCommit(s *suite) {
	name, group := s.topic("orders", 2), s.name("group")
	var lost []log.TopicPartition
	first := s.consumer(log.ConsumerOptions{Group: group, Topics: []string{name},
		Revoked: func(_ context.Context, tps []log.TopicPartition) error { lost = append(lost, tps...); return nil }})
	s.pollUntil(first, func() bool { return len(first.Assignment()) == 2 })
	second := s.consumer(log.ConsumerOptions{Group: group, Topics: []string{name}})
	s.pollBoth(first, second, func() bool { return len(lost) == 1 && len(second.Assignment()) == 1 })
	s.wantError(first.Commit(s.ctx, log.Offsets{lost[0]: 0}), log.ErrNotAssigned)
	s.must(second.Commit(s.ctx, log.Offsets{lost[0]: 0}))
	s.must(first.Close(s.ctx))
	s.must(second.Close(s.ctx))
}

// pollBoth polls two members in turn, as two goroutines would, until the condition holds.
func (s *suite) pollBoth(a, b log.Consumer, done func() bool) {
	s.Helper()
	for !done() {
		for _, c := range []log.Consumer{a, b} {
			ctx, cancel := context.WithTimeout(s.ctx, 10*time.Millisecond)
			_, err := c.Poll(ctx, 1)
			cancel()
			if s.ctx.Err() != nil {
				s.Fatal("the condition never held")
			}
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				s.Fatal(err)
			}
		}
	}
}

func groupWildcard(s *suite) {
	prefix := s.name("shop")
	s.must(s.log.CreateTopic(s.ctx, prefix+".a", log.TopicConfig{Partitions: 1}))
	c := s.consumer(log.ConsumerOptions{Group: s.name("group"), Topics: []string{prefix + ".?", "_trunkline.offset*"}})
	s.append(at(prefix+".a", 0), "one")
	if got := s.read(c, 1)[at(prefix+".a", 0)]; !slices.Equal(got, []string{"one"}) {
		s.Fatalf("read %q", got)
	}
	s.must(s.log.CreateTopic(s.ctx, prefix+".b", log.TopicConfig{Partitions: 1}))
	s.must(s.log.CreateTopic(s.ctx, prefix+".bb", log.TopicConfig{Partitions: 1}))
	s.append(at(prefix+".bb", 0), "not matched")
	s.append(at(prefix+".b", 0), "two")
	if got := s.read(c, 1)[at(prefix+".b", 0)]; !slices.Equal(got, []string{"two"}) {
		s.Errorf("read %q", got)
	}
	want := []log.TopicPartition{at(prefix+".a", 0), at(prefix+".b", 0)}
	got := slices.SortedFunc(maps.Keys(c.Assignment()), func(a, b log.TopicPartition) int { return compare(a.Topic, b.Topic) })
	if !slices.Equal(got, want) {
		s.Errorf("assigned %v, want %v", got, want)
	}
	s.must(c.Close(s.ctx))
}

func groupSetOffsets(s *suite) {
	tp, group := at(s.topic("orders", 1), 0), s.name("group")
	s.append(tp, numbered("v", 10)...)
	s.must(s.log.SetOffsets(s.ctx, group, log.Offsets{tp: 7}))
	c := s.consumer(log.ConsumerOptions{Group: group, Topics: []string{tp.Topic}})
	if got := s.read(c, 3)[tp]; !slices.Equal(got, []string{"v7", "v8", "v9"}) {
		s.Errorf("read %q, want from v7 on", got)
	}
	s.wantError(s.log.SetOffsets(s.ctx, group, log.Offsets{tp: 0}), log.ErrGroupActive)
	s.wantError(s.log.DeleteGroup(s.ctx, group), log.ErrGroupActive)
	groups, err := s.log.Groups(s.ctx)
	s.must(err)
	i := slices.IndexFunc(groups, func(g log.Group) bool { return g.Name == group })
	if i < 0 {
		s.Fatalf("groups do not list %s", group)
	}
	if g := groups[i]; len(g.Members) != 1 || !slices.Equal(g.Members[0].Partitions, []log.TopicPartition{tp}) || g.Offsets[tp] != 7 {
		s.Errorf("group is %+v", g)
	}
	s.must(c.Close(s.ctx))
	s.must(s.log.DeleteGroup(s.ctx, group))
	groups, err = s.log.Groups(s.ctx)
	s.must(err)
	if slices.ContainsFunc(groups, func(g log.Group) bool { return g.Name == group }) {
		s.Errorf("group %s is still there", group)
	}
}
