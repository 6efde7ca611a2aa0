package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/kafka"
)

// TestSoakKilledBroker kills each of three brokers once under load, and starts it again. What was committed is there,
// in order and once; whether a commit that failed has happened is told by the mark.
func TestSoakKilledBroker(t *testing.T) {
	if os.Getenv("TRUNKLINE_SOAK") == "" {
		t.Skip("three brokers take a minute; set TRUNKLINE_SOAK")
	}
	c := cluster(t, 3)
	l := open(t, kafka.Options{Brokers: c.Addresses, Replication: 3})
	defer l.Close()
	if err := l.CreateTopic(t.Context(), "orders", log.TopicConfig{Partitions: 3}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var committed atomic.Int64
	failures := make(chan int, 1)
	go func() { failures <- writeNumbers(ctx, t, l, &committed) }()
	for i := range c.Addresses {
		grow(t, &committed, 300)
		if err := c.KillBroker(i); err != nil {
			t.Fatal(err)
		}
		grow(t, &committed, 300)
		if err := c.StartBroker(i); err != nil {
			t.Fatal(err)
		}
		inSync(t, l, 3)
	}
	stop()
	t.Logf("%d numbers, %d attempts failed and were made again", committed.Load(), <-failures)
	checkNumbers(t, l, int(committed.Load()))
}

// grow waits until that many more numbers are committed.
func grow(t *testing.T, committed *atomic.Int64, more int64) {
	t.Helper()
	want, deadline := committed.Load()+more, time.Now().Add(2*time.Minute)
	for committed.Load() < want {
		if time.Now().After(deadline) {
			t.Fatalf("stands at %d, want %d", committed.Load(), want)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// inSync waits until every partition has that many brokers that are up to date.
func inSync(t *testing.T, l log.Log, brokers int) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		topic, err := l.Topic(t.Context(), "orders")
		all := err == nil
		for _, p := range topic.Partitions {
			all = all && len(p.InSync) == brokers && p.Leader >= 0
		}
		if all {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the brokers did not catch up: %+v %v", topic.Partitions, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// writeNumbers commits numbers, three at a time into three partitions, with the next number as the mark. After an error
// it goes on where the mark says. It returns how often that was.
func writeNumbers(ctx context.Context, t *testing.T, l log.Log, committed *atomic.Int64) (failures int) {
	for {
		err := writeFromMark(ctx, l, committed)
		if ctx.Err() != nil {
			return failures
		}
		t.Logf("writing failed: %v", err)
		failures++
	}
}

func writeFromMark(ctx context.Context, l log.Log, committed *atomic.Int64) (err error) {
	p, mark, err := l.Producer(ctx, "numbers")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close(context.WithoutCancel(ctx))) }()
	next := 0
	if mark != nil {
		if next, err = strconv.Atoi(string(mark)); err != nil {
			return err
		}
	}
	committed.Store(int64(next))
	for ctx.Err() == nil {
		for i := range 3 {
			tp := log.TopicPartition{Topic: "orders", Partition: int32(i)}
			if err := p.Append(ctx, tp, log.Record{Value: fmt.Append(nil, next+i)}); err != nil {
				return err
			}
		}
		if err := p.Commit(context.WithoutCancel(ctx), fmt.Append(nil, next+3)); err != nil {
			return err
		}
		next += 3
		committed.Store(int64(next))
	}
	return nil
}

// checkNumbers reads each partition to its end.
func checkNumbers(t *testing.T, l log.Log, count int) {
	t.Helper()
	got := 0
	for i := range int32(3) {
		tp := log.TopicPartition{Topic: "orders", Partition: i}
		topic, err := l.Topic(t.Context(), "orders")
		if err != nil {
			t.Fatal(err)
		}
		c, err := l.Consumer(t.Context(), log.ConsumerOptions{Partitions: []log.TopicPartition{tp}})
		if err != nil {
			t.Fatal(err)
		}
		want := int(i)
		for c.Assignment()[tp] < topic.Partitions[i].LastStable {
			f, err := c.Poll(t.Context(), 1000)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range f.Records {
				if string(r.Value) != strconv.Itoa(want) {
					t.Fatalf("partition %d has %s where %d should be", i, r.Value, want)
				}
				want += 3
				got++
			}
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if got != count {
		t.Errorf("the log has %d numbers, want %d", got, count)
	}
}
