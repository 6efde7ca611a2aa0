package broker

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestTransactionsAreListed(t *testing.T) {
	t.Parallel()
	r := openRig(t, Options{})
	r.topic("t", 2)
	w := r.wire()
	list := func(change func(*kmsg.ListTransactionsRequest)) map[string]string {
		t.Helper()
		req := version(kmsg.NewPtrListTransactionsRequest(), 2)
		if change != nil {
			change(req)
		}
		resp := w.ask(req).(*kmsg.ListTransactionsResponse)
		out := map[string]string{}
		for _, x := range resp.TransactionStates {
			out[x.TransactionalID] = x.TransactionState
		}
		if resp.ErrorCode != 0 || len(resp.UnknownStateFilters) > 0 {
			out["refused"] = fmt.Sprint(resp.ErrorCode, resp.UnknownStateFilters)
		}
		return out
	}
	describe := version(kmsg.NewPtrDescribeTransactionsRequest(), 0)
	describe.TransactionalIDs = []string{"etl", "nobody"}
	producers := version(kmsg.NewPtrDescribeProducersRequest(), 0)
	producers.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: "t", Partitions: []int32{0, 7}}}

	c := r.client(kgo.TransactionalID("etl"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err := c.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := c.ProduceSync(r.context(), &kgo.Record{Topic: "t", Value: []byte("v")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if got := list(nil); got["etl"] != "Ongoing" {
		t.Errorf("open: %v", got)
	}
	d := w.ask(describe).(*kmsg.DescribeTransactionsResponse).TransactionStates
	if d[0].ErrorCode != 0 || d[0].State != "Ongoing" || d[0].StartTimestamp <= 0 || len(d[0].Topics) != 1 || d[0].Topics[0].Topic != "t" {
		t.Errorf("described as %+v", d[0])
	}
	if d[1].ErrorCode != kerr.TransactionalIDNotFound.Code {
		t.Errorf("an id that nobody has: %+v", d[1])
	}
	p := w.ask(producers).(*kmsg.DescribeProducersResponse).Topics[0].Partitions
	if a := p[0].ActiveProducers; len(a) != 1 || a[0].ProducerID != d[0].ProducerID || a[0].CurrentTxnStartOffset != 0 || a[0].LastSequence != 0 {
		t.Errorf("writes to the partition: %+v", a)
	}
	if p[1].ErrorCode != kerr.UnknownTopicOrPartition.Code {
		t.Errorf("a partition that is none: %+v", p[1])
	}
	if err := c.EndTransaction(r.context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	if got := list(func(req *kmsg.ListTransactionsRequest) { req.StateFilters = []string{"CompleteCommit"} }); got["etl"] == "" {
		t.Errorf("committed: %v", list(nil))
	}
	for name, change := range map[string]func(*kmsg.ListTransactionsRequest){
		"another state":    func(req *kmsg.ListTransactionsRequest) { req.StateFilters = []string{"Ongoing"} },
		"another producer": func(req *kmsg.ListTransactionsRequest) { req.ProducerIDFilters = []int64{d[0].ProducerID + 1} },
		"a longer time":    func(req *kmsg.ListTransactionsRequest) { req.DurationFilterMillis = 1 },
		"another id":       func(req *kmsg.ListTransactionsRequest) { req.TransactionalIDPattern = kmsg.StringPtr("etl.") },
	} {
		if got := list(change); len(got) != 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
	for name, change := range map[string]func(*kmsg.ListTransactionsRequest){
		"no state":   func(req *kmsg.ListTransactionsRequest) { req.StateFilters = []string{"Sleeping"} },
		"no pattern": func(req *kmsg.ListTransactionsRequest) { req.TransactionalIDPattern = kmsg.StringPtr("(") },
	} {
		if got := list(change); got["refused"] == "" {
			t.Errorf("%s: %v", name, got)
		}
	}
	if a := w.ask(producers).(*kmsg.DescribeProducersResponse).Topics[0].Partitions[0].ActiveProducers; len(a) != 1 || a[0].CurrentTxnStartOffset != -1 {
		t.Errorf("after the end: %+v", a)
	}
}
