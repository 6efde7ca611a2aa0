package broker

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/trunkline/trunkline/log/batch"
)

// sessionRequest asks for partitions 0 to n-1 of topic t.
func sessionRequest(id, epoch int32, n int32) *kmsg.FetchRequest {
	req := version(kmsg.NewPtrFetchRequest(), 11)
	req.MaxBytes, req.MinBytes, req.SessionID, req.SessionEpoch = 1<<20, 1, id, epoch
	if n == 0 {
		return req
	}
	topic := kmsg.FetchRequestTopic{Topic: "t"}
	for i := range n {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.PartitionMaxBytes = i, 1<<20
		topic.Partitions = append(topic.Partitions, p)
	}
	req.Topics = []kmsg.FetchRequestTopic{topic}
	return req
}

// told lists what a response says of topic t: the partition and how many bytes of it.
func told(resp *kmsg.FetchResponse) map[int32]int {
	out := map[int32]int{}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			out[p.Partition] = len(p.RecordBatches)
		}
	}
	return out
}

func TestSessionTellsOnlyNews(t *testing.T) {
	t.Parallel()
	r := openRig(t, Options{})
	r.topic("t", 3)
	w := r.wire()
	ask := func(req *kmsg.FetchRequest, want kerr.Error) *kmsg.FetchResponse {
		t.Helper()
		resp := w.ask(req).(*kmsg.FetchResponse)
		if resp.ErrorCode != want.Code {
			t.Fatalf("error %d, want %d", resp.ErrorCode, want.Code)
		}
		return resp
	}
	none := kerr.Error{}
	first := ask(sessionRequest(0, 0, 3), none)
	id := first.SessionID
	if id == 0 || len(told(first)) != 3 {
		t.Fatalf("session %d tells %v", id, told(first))
	}
	if got := told(ask(sessionRequest(id, 1, 0), none)); len(got) != 0 {
		t.Errorf("without news it tells %v", got)
	}
	one := records(t, batch.NoProducer, false, "one")
	w.produce("t", one) // to partition 0
	if got := told(ask(sessionRequest(id, 2, 0), none)); len(got) != 1 || got[0] != len(one) {
		t.Errorf("after an append it tells %v", got)
	}
	ask(sessionRequest(id, 2, 0), *kerr.InvalidFetchSessionEpoch)
	read := sessionRequest(id, 3, 1)
	read.Topics[0].Partitions[0].FetchOffset = 1
	if got := told(ask(read, none)); len(got) != 0 {
		t.Errorf("read to the end it tells %v", got)
	}
	w.produce("t", one)
	forget := sessionRequest(id, 4, 0)
	forget.ForgottenTopics = []kmsg.FetchRequestForgottenTopic{{Topic: "t", Partitions: []int32{0}}}
	if got := told(ask(forget, none)); len(got) != 0 {
		t.Errorf("of a forgotten partition it tells %v", got)
	}
	if got := told(ask(sessionRequest(id, 5, 1), none)); got[0] != 2*len(one) {
		t.Errorf("of a partition that came back it tells %v", got)
	}
	byID := version(sessionRequest(id, 6, 0), 13)
	ask(byID, *kerr.FetchSessionTopicIDError)
	last := ask(sessionRequest(id, -1, 3), none)
	if last.SessionID != 0 || len(told(last)) != 3 {
		t.Errorf("the last request of a session is answered with session %d, %v", last.SessionID, told(last))
	}
	ask(sessionRequest(id, 6, 0), *kerr.FetchSessionIDNotFound)
}

func TestSessionTurnsWhereThereIsNoRoom(t *testing.T) {
	t.Parallel()
	r := openRig(t, Options{})
	r.topic("t", 3)
	c := r.client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()))
	for p := range int32(3) {
		if err := c.ProduceSync(r.context(), &kgo.Record{Topic: "t", Partition: p, Value: make([]byte, 1000)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	w := r.wire()
	req := sessionRequest(0, 0, 3)
	seen := map[int32]bool{}
	for epoch := range int32(3) {
		req.MaxBytes, req.SessionEpoch = 1, epoch // each answer has room for one batch
		resp := w.ask(req).(*kmsg.FetchResponse)
		req = sessionRequest(resp.SessionID, 0, 0)
		for p, n := range told(resp) {
			if n > 0 {
				seen[p] = true
			}
		}
	}
	if len(seen) != 3 {
		t.Errorf("three answers had records of %d partitions", len(seen))
	}
}

func TestSessionsAreBounded(t *testing.T) {
	t.Parallel()
	r := openRig(t, Options{MaxFetchSessions: 2, MaxSessionPartitions: 8})
	r.topic("t", 3)
	w := r.wire()
	open := func(n int32) int32 { return w.ask(sessionRequest(0, 0, n)).(*kmsg.FetchResponse).SessionID }
	if a, b := open(3), open(3); a == 0 || b == 0 || a == b {
		t.Fatalf("sessions %d and %d", a, b)
	}
	if c := open(1); c != 0 {
		t.Errorf("a third session is %d", c)
	}
	sessions := r.server.fetches
	if x := sessions.open(1, false, time.Now().Add(sessionIdle+time.Minute)); x == nil {
		t.Error("an idle session does not make room")
	}
	if x := sessions.open(100, false, time.Now()); x != nil {
		t.Error("a session is larger than all may be")
	}
	crowded := openRig(t, Options{MaxSessionPartitions: 2})
	crowded.topic("t", 3)
	w = crowded.wire()
	id := w.ask(sessionRequest(0, 0, 2)).(*kmsg.FetchResponse).SessionID
	if resp := w.ask(sessionRequest(id, 1, 3)).(*kmsg.FetchResponse); id == 0 || resp.ErrorCode != kerr.FetchSessionIDNotFound.Code {
		t.Errorf("session %d grew beyond its room: error %d", id, resp.ErrorCode)
	}
	if _, n := crowded.server.fetches.size(); n != 0 {
		t.Errorf("%d partitions are still counted", n)
	}
}

// TestClientsReadThroughSessions lets a client with sessions read many partitions of which few change, over a restart.
func TestClientsReadThroughSessions(t *testing.T) {
	t.Parallel()
	r := openRig(t, Options{})
	r.topic("t", 20)
	c := r.client(kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	want := map[string]bool{}
	read := func(from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			r.produce("t", i, i+1)
			want[fmt.Sprintf("v%d", i)] = true
		}
		for _, record := range r.consume(c, to-from) {
			if !want[string(record.Value)] {
				t.Errorf("read %q twice, or it was never written", record.Value)
			}
			delete(want, string(record.Value))
		}
		if len(want) != 0 {
			t.Errorf("never read: %v", want)
		}
	}
	read(0, 30)
	if n, _ := r.server.fetches.size(); n == 0 {
		t.Error("the client has no session")
	}
	r.restart(Options{})
	read(30, 60)
}
