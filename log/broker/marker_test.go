package broker

import (
	"math"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/trunkline/trunkline/log"
)

// TestHangingTransactionIsAbortedInOnePartition asks for an abort in one of two partitions that were written to: readers of
// that one go on, those of the other wait for the end of the transaction, which can only be an abort.
func TestHangingTransactionIsAbortedInOnePartition(t *testing.T) {
	t.Parallel()
	r := openRig(t, Options{Owner: func(topic string) string {
		if topic == "shop.orders" {
			return "shop"
		}
		return ""
	}})
	r.topic("t", 2)
	ctx := r.context()
	c := r.client(kgo.TransactionalID("etl"), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic("t"))
	if err := c.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	for p := range int32(2) {
		if err := c.ProduceSync(ctx, &kgo.Record{Partition: p, Value: []byte("v")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	id, epoch, err := c.ProducerID(ctx)
	if err != nil {
		t.Fatal(err)
	}
	source, _, err := r.journal.Producer(ctx, "shop")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.journal.CreateTopic(ctx, "shop.orders", log.TopicConfig{Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	w := r.wire()
	mark := func(topic string, partition int32, id int64, epoch int16, commit bool) *kerr.Error {
		t.Helper()
		for v := int16(0); v <= 1; v++ {
			req := version(kmsg.NewPtrWriteTxnMarkersRequest(), v)
			m := kmsg.NewWriteTxnMarkersRequestMarker()
			m.ProducerID, m.ProducerEpoch, m.Committed = id, epoch, commit
			m.Topics = []kmsg.WriteTxnMarkersRequestMarkerTopic{{Topic: topic, Partitions: []int32{partition}}}
			req.Markers = []kmsg.WriteTxnMarkersRequestMarker{m}
			out := w.ask(req).(*kmsg.WriteTxnMarkersResponse).Markers[0]
			if out.ProducerID != id || len(out.Topics) != 1 {
				t.Fatalf("version %d: %+v", v, out)
			}
			if err := kerr.TypedErrorForCode(out.Topics[0].Partitions[0].ErrorCode); err != nil || v == 1 {
				return err
			}
		}
		return nil
	}
	stable := func(p int32) int64 {
		t.Helper()
		b, err := r.journal.Bounds(log.TopicPartition{Topic: "t", Partition: p})
		if err != nil {
			t.Fatal(err)
		}
		return b.LastStable
	}
	wantError(t, "a commit by an administrator", mark("t", 0, id, epoch, true), kerr.InvalidTxnState)
	wantError(t, "an older epoch", mark("t", 0, id, epoch-1, false), kerr.InvalidProducerEpoch)
	wantError(t, "a partition that is none", mark("t", 7, id, epoch, false), kerr.UnknownTopicOrPartition)
	wantError(t, "a topic of a source", mark("shop.orders", 0, id, epoch, false), kerr.ClusterAuthorizationFailed)
	wantError(t, "a producer that has nothing open", mark("t", 0, id+1000, epoch, false), nil)
	if a, b := stable(0), stable(1); a != 0 || b != 0 {
		t.Fatalf("before the abort readers see up to %d and %d", a, b)
	}
	wantError(t, "the abort", mark("t", 1, id, epoch, false), nil)
	if a, b := stable(0), stable(1); a != 0 || b < 1 {
		t.Errorf("after the abort in partition 1 readers see up to %d and %d, want 0 and more than 0", a, b)
	}
	wantError(t, "the abort once more", mark("t", 1, id, epoch, false), nil)
	for p := range int32(2) {
		if err := c.ProduceSync(ctx, &kgo.Record{Partition: p, Value: []byte("late")}).FirstErr(); err == nil {
			t.Errorf("partition %d took a record of a transaction that can only be aborted", p)
		}
	}
	end := func(commit bool) *kerr.Error {
		req := version(kmsg.NewPtrEndTxnRequest(), 3)
		req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = "etl", id, epoch, commit
		return kerr.TypedErrorForCode(w.ask(req).(*kmsg.EndTxnResponse).ErrorCode)
	}
	wantError(t, "the commit of half a transaction", end(true), kerr.InvalidTxnState)
	if a := stable(0); a != 0 {
		t.Errorf("after the refused commit readers of partition 0 see up to %d, want 0", a)
	}
	wantError(t, "the abort of the rest", end(false), nil)
	if a := stable(0); a < 1 {
		t.Errorf("after the end readers of partition 0 see up to %d", a)
	}
	reader := r.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"t": {0: kgo.NewOffset().AtStart(), 1: kgo.NewOffset().AtStart()}}), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	r.produce("t", 0, 16) // in both partitions
	for _, record := range r.consume(reader, 16) {
		if len(record.Key) == 0 {
			t.Errorf("readers see %q of the aborted transaction", record.Value)
		}
	}
	next := r.client(kgo.TransactionalID("etl"), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic("t"))
	if err := next.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := next.ProduceSync(ctx, &kgo.Record{Partition: 1, Value: []byte("next")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := next.EndTransaction(ctx, kgo.TryCommit); err != nil {
		t.Errorf("the next transaction of the id: %v", err)
	}
	if got := r.consume(reader, 1); string(got[0].Value) != "next" {
		t.Errorf("readers see %q of the next transaction, want next", got[0].Value)
	}
	// What a source has open is its own. Its first full batch is written before its commit.
	if err := source.Append(ctx, log.TopicPartition{Topic: "t", Partition: 0}, log.Record{Value: make([]byte, 2<<20)}); err != nil {
		t.Fatal(err)
	}
	var open int64 = -1
	for deadline := time.Now().Add(time.Minute); open < 0; time.Sleep(time.Millisecond) {
		all, err := r.journal.Producers(log.TopicPartition{Topic: "t"})
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("the source has nothing open: %+v, %v", all, err)
		}
		for _, p := range all {
			if p.OpenSince >= 0 {
				open = p.ID
			}
		}
	}
	wantError(t, "an abort of what a source has open", mark("t", 0, open, math.MaxInt16, false), kerr.ClusterAuthorizationFailed)
	if err := source.Commit(ctx, []byte("1")); err != nil {
		t.Errorf("the source cannot commit: %v", err)
	}
}
