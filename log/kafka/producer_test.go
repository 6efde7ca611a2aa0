package kafka_test

import (
	"errors"
	"testing"
	"time"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/kafka"
)

// Brokers abort a transaction that is open for too long, by fencing its producer. That is not a newer producer at work,
// so trying again must be allowed.
func TestTransactionThatTakesTooLong(t *testing.T) {
	t.Parallel()
	l := open(t, kafka.Options{Brokers: fake(t), TransactionTimeout: time.Second})
	defer l.Close()
	tp := log.TopicPartition{Topic: "orders"}
	if err := l.CreateTopic(t.Context(), tp.Topic, log.TopicConfig{Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	p, _, err := l.Producer(t.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	commit := func(value string) error {
		return errors.Join(p.Append(t.Context(), tp, log.Record{Value: []byte(value)}), p.Commit(t.Context(), []byte(value)))
	}
	if err := commit("first"); err != nil {
		t.Fatal(err)
	}
	if err := p.Append(t.Context(), tp, log.Record{Value: []byte("late")}); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(20 * time.Second)
	for aborted := false; !aborted; { // the last stable offset moves past what was aborted
		topic, err := l.Topic(t.Context(), tp.Topic)
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("the transaction is still open: %+v %v", topic.Partitions, err)
		}
		part := topic.Partitions[0]
		aborted = part.HighWatermark >= 4 && part.LastStable == part.HighWatermark
		time.Sleep(10 * time.Millisecond)
	}
	err = p.Commit(t.Context(), []byte("late"))
	if err == nil || errors.Is(err, log.ErrFenced) {
		t.Fatalf("commit of an aborted transaction: %v", err)
	}
	_ = p.Close(t.Context())
	p, mark, err := l.Producer(t.Context(), "shop")
	if err != nil || string(mark) != "first" {
		t.Fatalf("mark is %q, %v", mark, err)
	}
	if err := commit("second"); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
