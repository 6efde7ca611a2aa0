package conformance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/trunkline/trunkline/log"
)

var consumerCases = []testCase{
	{name: "a part of a batch is followed by the rest", run: consumerPartOfBatch},
	{name: "seek goes back and forth", run: consumerSeek},
	{name: "a paused partition is silent and keeps its place", run: consumerPause},
	{name: "partitions take turns", run: consumerFair},
	{name: "poll waits for the next append", run: consumerWaits},
	{name: "poll ends with its context", run: consumerContext},
	{name: "an offset past the end is an error", run: consumerOutOfRange},
	{name: "a group starts where it is told", run: consumerFrom},
	{name: "without a group nothing is committed", run: consumerNoGroup},
}

func consumerPartOfBatch(s *suite) {
	tp := at(s.topic("orders", 1), 0)
	want := numbered("v", 100)
	s.append(tp, want...)
	c := s.consumer(log.ConsumerOptions{Partitions: []log.TopicPartition{tp}})
	var got []string
	for len(got) < 100 {
		f, err := c.Poll(s.ctx, 7)
		s.must(err)
		if len(f.Records) > 7 {
			s.Fatalf("poll returned %d records, asked for 7", len(f.Records))
		}
		for _, r := range f.Records {
			got = append(got, string(r.Value))
		}
		if f.Next != int64(len(got)) || c.Assignment()[tp] != f.Next {
			s.Fatalf("next is %d and position %d after %d records", f.Next, c.Assignment()[tp], len(got))
		}
	}
	s.must(c.Close(s.ctx))
	if !slices.Equal(got, want) {
		s.Errorf("read %q", got)
	}
}

func consumerSeek(s *suite) {
	tp := at(s.topic("orders", 1), 0)
	s.append(tp, numbered("a", 10)...)
	s.append(tp, numbered("b", 10)...)
	c := s.consumer(log.ConsumerOptions{Partitions: []log.TopicPartition{tp}})
	for _, step := range []struct {
		offset int64
		want   string
	}{{15, "b5"}, {3, "a3"}, {0, "a0"}, {19, "b9"}, {9, "a9"}} {
		s.must(c.Seek(tp, step.offset))
		f, err := c.Poll(s.ctx, 1)
		s.must(err)
		if got := string(f.Records[0].Value); got != step.want || f.Records[0].Offset != step.offset {
			s.Errorf("record at %d is %q with offset %d, want %q", step.offset, got, f.Records[0].Offset, step.want)
		}
	}
	s.wantError(c.Seek(at(tp.Topic, 5), 0), log.ErrNotAssigned)
	s.must(c.Close(s.ctx))
}

func consumerPause(s *suite) {
	name := s.topic("orders", 2)
	s.append(at(name, 0), "a", "b")
	s.append(at(name, 1), "c")
	c := s.consumer(log.ConsumerOptions{Partitions: []log.TopicPartition{at(name, 0), at(name, 1)}})
	c.Pause(at(name, 0))
	if got := s.read(c, 1); !slices.Equal(got[at(name, 1)], []string{"c"}) {
		s.Errorf("read %q, want c", got)
	}
	s.nothing(c, 20*time.Millisecond)
	c.Resume(at(name, 0))
	if got := s.read(c, 2); !slices.Equal(got[at(name, 0)], []string{"a", "b"}) {
		s.Errorf("read %q, want a and b", got)
	}
	s.must(c.Close(s.ctx))
}

// consumerFair lets a log that fetches from afar have all three at hand first: until then it can only hand out what came.
func consumerFair(s *suite) {
	for try := range 20 {
		name := s.topic(fmt.Sprintf("orders-%d", try), 3)
		left := map[log.TopicPartition]int{}
		for i := range int32(3) {
			s.append(at(name, i), numbered("v", 200)...)
			left[at(name, i)] = 200
		}
		c := s.consumer(log.ConsumerOptions{Partitions: slices.Collect(maps.Keys(left))})
		poll := func(seen map[log.TopicPartition]bool) {
			f, err := c.Poll(s.ctx, 10)
			s.must(err)
			seen[f.TopicPartition] = true
			left[f.TopicPartition] -= len(f.Records)
		}
		for seen := map[log.TopicPartition]bool{}; len(seen) < 3; {
			poll(seen)
		}
		full := !slices.ContainsFunc(slices.Collect(maps.Values(left)), func(n int) bool { return n < 30 })
		seen := map[log.TopicPartition]bool{}
		for i := 0; full && i < 3; i++ {
			poll(seen)
		}
		s.must(c.Close(s.ctx))
		if !full {
			continue // one partition came so much sooner that it was read to its end
		}
		if len(seen) != 3 {
			s.Errorf("three polls saw %d partitions, want all three", len(seen))
		}
		return
	}
	s.Errorf("never were all three partitions at hand")
}

func consumerWaits(s *suite) {
	tp := at(s.topic("orders", 1), 0)
	c := s.consumer(log.ConsumerOptions{Partitions: []log.TopicPartition{tp}})
	got := make(chan string, 1)
	failed, ended := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(ended)
		for range 50 {
			f, err := c.Poll(s.ctx, 1)
			if err != nil {
				failed <- err
				return
			}
			got <- string(f.Records[0].Value)
		}
	}()
	for _, v := range numbered("v", 50) {
		s.append(tp, v)
		select {
		case g := <-got:
			if g != v {
				s.Fatalf("read %q, want %q", g, v)
			}
		case err := <-failed:
			s.Fatalf("poll: %v", err)
		case <-s.ctx.Done():
			s.Fatalf("poll did not wake for %q", v)
		}
	}
	<-ended
	s.must(c.Close(s.ctx))
}

func consumerContext(s *suite) {
	tp := at(s.topic("orders", 1), 0)
	c := s.consumer(log.ConsumerOptions{Partitions: []log.TopicPartition{tp}})
	ctx, cancel := context.WithCancel(s.ctx)
	done := make(chan error, 1)
	go func() {
		_, err := c.Poll(ctx, 1)
		done <- err
	}()
	cancel()
	s.wantError(<-done, context.Canceled)
	s.append(tp, "a")
	if got := s.read(c, 1)[tp]; !slices.Equal(got, []string{"a"}) {
		s.Errorf("read %q after a poll that was cancelled", got)
	}
	s.must(c.Close(s.ctx))
}

func consumerOutOfRange(s *suite) {
	name := s.topic("orders", 2)
	s.append(at(name, 0), "a", "b")
	s.append(at(name, 1), "c")
	c := s.consumer(log.ConsumerOptions{Partitions: []log.TopicPartition{at(name, 0), at(name, 1)}})
	s.must(c.Seek(at(name, 0), 99))
	var gap *log.OutOfRangeError
	others := 0
	for gap == nil {
		f, err := c.Poll(s.ctx, 10)
		if err != nil {
			if !errors.As(err, &gap) {
				s.Fatal(err)
			}
			continue
		}
		others += len(f.Records)
	}
	if gap.TopicPartition != at(name, 0) || gap.Offset != 99 || gap.LogStart != 0 || gap.End != 2 {
		s.Errorf("error is %+v", gap)
	}
	if others == 0 {
		s.read(c, 1)
	}
	s.nothing(c, 20*time.Millisecond)
	s.must(c.Seek(at(name, 0), 1))
	if got := s.read(c, 1)[at(name, 0)]; !slices.Equal(got, []string{"b"}) {
		s.Errorf("read %q after seek, want b", got)
	}
	s.must(c.Close(s.ctx))
}

func consumerFrom(s *suite) {
	tp := at(s.topic("orders", 1), 0)
	for i := range 4 {
		_, err := s.log.Append(s.ctx, tp, log.Record{Value: []byte(numbered("v", 4)[i]), Timestamp: int64(1000 * (i + 1))})
		s.must(err)
	}
	for _, start := range []struct {
		name string
		from log.Start
		want int64
	}{
		{"earliest", log.Start{}, 0},
		{"latest", log.Start{Latest: true}, 4},
		{"time", log.Start{At: time.UnixMilli(2500)}, 2},
	} {
		group := s.name(start.name)
		var got log.Offsets
		c := s.consumer(log.ConsumerOptions{Group: group, Topics: []string{tp.Topic}, From: start.from,
			Assigned: func(_ context.Context, o log.Offsets) error { got = o; return nil }})
		s.pollUntil(c, func() bool { return got != nil })
		if got[tp] != start.want {
			s.Errorf("%s starts at %d, want %d", start.name, got[tp], start.want)
		}
		s.must(c.Close(s.ctx))
	}
}

// pollUntil polls, dropping what comes, until the condition holds.
func (s *suite) pollUntil(c log.Consumer, done func() bool) {
	s.Helper()
	for !done() {
		ctx, cancel := context.WithTimeout(s.ctx, 20*time.Millisecond)
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

func consumerNoGroup(s *suite) {
	tp := at(s.topic("orders", 1), 0)
	s.append(tp, "a")
	c := s.consumer(log.ConsumerOptions{Partitions: []log.TopicPartition{tp}})
	s.read(c, 1)
	s.must(c.Close(s.ctx))
	groups, err := s.log.Groups(s.ctx)
	s.must(err)
	for _, g := range groups {
		if _, ok := g.Offsets[tp]; ok {
			s.Errorf("group %q has an offset for a partition that was read without a group", g.Name)
		}
	}
}
