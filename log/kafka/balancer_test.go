package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/kafka"
)

// TestWholeTopics lets members come and go. Each topic is always read whole by one of them, and each record once.
func TestWholeTopics(t *testing.T) {
	t.Parallel()
	const topics, partitions, each = 6, 3, 50
	brokers := fake(t)
	l := open(t, kafka.Options{Brokers: brokers})
	defer l.Close()
	for i := range topics {
		name := fmt.Sprintf("t%d", i)
		if err := l.CreateTopic(t.Context(), name, log.TopicConfig{Partitions: partitions}); err != nil {
			t.Fatal(err)
		}
		for p := range int32(partitions) {
			for range each {
				if _, err := l.Append(t.Context(), log.TopicPartition{Topic: name, Partition: p}, log.Record{Value: []byte("v")}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	var mu sync.Mutex
	owner := map[log.TopicPartition]int{}
	seen := map[string]int{}
	whole := func() bool { // the lock is held
		for tp, m := range owner {
			if owner[log.TopicPartition{Topic: tp.Topic}] != m {
				return false
			}
		}
		return len(owner) == topics*partitions
	}
	balanced := func(members int) func() bool {
		return func() bool {
			load := map[int]int{}
			for _, m := range owner {
				load[m]++
			}
			for _, n := range load {
				if n != topics*partitions/members {
					return false
				}
			}
			return whole() && len(load) == members
		}
	}
	eventually := func(what string, condition func() bool) {
		t.Helper()
		deadline := time.Now().Add(30 * time.Second)
		for {
			mu.Lock()
			done := condition()
			state := fmt.Sprint(owner)
			mu.Unlock()
			if done {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: %s", what, state)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	member := func(id int) (leave func()) {
		ctx, cancel := context.WithCancel(t.Context())
		var c log.Consumer
		c, err := l.Consumer(ctx, log.ConsumerOptions{Group: "sink", Topics: []string{"t?"}, WholeTopics: true,
			Assigned: func(_ context.Context, start log.Offsets) error {
				mu.Lock()
				defer mu.Unlock()
				for tp := range start {
					if other, taken := owner[tp]; taken {
						t.Errorf("%v is given to %d while %d has it", tp, id, other)
					}
					owner[tp] = id
				}
				return nil
			},
			Revoked: func(_ context.Context, lost []log.TopicPartition) error {
				mu.Lock()
				defer mu.Unlock()
				for _, tp := range lost {
					delete(owner, tp)
				}
				return nil
			}})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for {
				f, err := c.Poll(ctx, 7)
				if errors.Is(err, context.Canceled) {
					break
				}
				if err == nil {
					err = c.Commit(context.WithoutCancel(ctx), log.Offsets{f.TopicPartition: f.Next})
				}
				if err != nil {
					t.Errorf("member %d: %v", id, err)
					break
				}
				mu.Lock()
				for _, r := range f.Records {
					seen[fmt.Sprint(f.TopicPartition, r.Offset)]++
				}
				mu.Unlock()
			}
			mu.Lock()
			for tp := range c.Assignment() {
				delete(owner, tp)
			}
			mu.Unlock()
			if err := c.Close(context.WithoutCancel(ctx)); err != nil {
				t.Errorf("close member %d: %v", id, err)
			}
		}()
		return func() {
			cancel()
			<-ended
		}
	}
	leaveFirst := member(1)
	eventually("one member reads all", balanced(1))
	leaveSecond := member(2)
	eventually("two members share", balanced(2))
	leaveThird := member(3)
	eventually("three members share", balanced(3))
	leaveFirst()
	eventually("the two that stayed read all", func() bool { return whole() && len(seen) == topics*partitions*each })
	leaveSecond()
	eventually("the last one reads all", balanced(1))
	leaveThird()
	for place, n := range seen {
		if n != 1 {
			t.Errorf("%s was read %d times", place, n)
		}
	}
}
