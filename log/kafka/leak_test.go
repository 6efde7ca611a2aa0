package kafka_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"go.uber.org/goleak"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/kafka"
)

// TestCloseLeavesNothing closes a log under a consumer that waits, a transaction that is open, and held leases.
func TestCloseLeavesNothing(t *testing.T) {
	before := goleak.IgnoreCurrent()
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	l := open(t, kafka.Options{Brokers: c.ListenAddrs()})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	tp := log.TopicPartition{Topic: "orders"}
	must(l.CreateTopic(t.Context(), tp.Topic, log.TopicConfig{Partitions: 1}))
	_, err = l.Append(t.Context(), tp, log.Record{Value: []byte("v")})
	must(err)
	p, _, err := l.Producer(t.Context(), "shop")
	must(err)
	must(p.Append(t.Context(), tp, log.Record{Value: []byte("never committed")}))
	granted := make(chan string, 1)
	_, err = l.Leases(t.Context(), log.LeaseOptions{Group: "g", Names: []string{"shop"}, Granted: func(name string) { granted <- name },
		Revoked: func(context.Context, string) {}})
	must(err)
	<-granted
	waiting := make(chan error, 2)
	for _, o := range []log.ConsumerOptions{{Group: "sink", Topics: []string{tp.Topic}}, {Partitions: []log.TopicPartition{tp}}} {
		consumer, err := l.Consumer(t.Context(), o)
		must(err)
		f, err := consumer.Poll(t.Context(), 10)
		must(err)
		if len(f.Records) != 1 {
			t.Fatalf("read %d records", len(f.Records))
		}
		go func() {
			for { // the end of what the producer had open moves the reader past it, once
				if _, err := consumer.Poll(context.Background(), 10); err != nil {
					waiting <- err
					return
				}
			}
		}()
	}
	must(l.Close())
	for range 2 {
		select {
		case err := <-waiting:
			if !errors.Is(err, log.ErrClosed) {
				t.Errorf("poll ended with %v", err)
			}
		case <-time.After(time.Minute):
			t.Fatal("poll did not end with the log")
		}
	}
	if _, err := l.Topics(t.Context()); !errors.Is(err, log.ErrClosed) {
		t.Errorf("topics after close: %v", err)
	}
	c.Close()
	goleak.VerifyNone(t, before)
}
