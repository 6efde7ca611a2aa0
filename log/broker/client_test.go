package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/batch"
	"github.com/trunkline/trunkline/log/disk"
)

func TestClientsReadWhatTheyWrote(t *testing.T) {
	t.Parallel()
	codecs := map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}
	for name, codec := range codecs {
		t.Run("compressed with "+name, func(t *testing.T) {
			t.Parallel()
			r := openRig(t, Options{})
			r.topic("t", 3)
			r.produce("t", 0, 500, kgo.ProducerBatchCompression(codec))
			c := r.client(kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
			seen := map[string]bool{}
			for _, rec := range r.consume(c, 500) {
				if want := log.PartitionFor(rec.Key, 3); rec.Partition != want {
					t.Fatalf("key %s is in partition %d, want %d", rec.Key, rec.Partition, want)
				}
				if string(rec.Value) != "v"+string(rec.Key[1:]) {
					t.Fatalf("key %s has value %s", rec.Key, rec.Value)
				}
				seen[string(rec.Value)] = true
			}
			if len(seen) != 500 {
				t.Errorf("%d different records, want 500", len(seen))
			}
		})
	}
}

func TestEveryAcknowledgementIsServed(t *testing.T) {
	t.Parallel()
	r := openRig(t, Options{})
	r.topic("t", 1)
	r.produce("t", 0, 10, kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite())
	r.produce("t", 10, 20, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	r.produce("t", 20, 30, kgo.RequiredAcks(kgo.AllISRAcks()))
	c := r.client(kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if got := r.consume(c, 30); len(got) != 30 {
		t.Errorf("%d records", len(got))
	}
}

func TestMembersOfAGroupShareAndResume(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"eager", "cooperative", "consumer protocol"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := openRig(t, Options{ConsumerHeartbeat: 50 * time.Millisecond})
			r.topic("t", 6)
			r.produce("t", 0, 600)
			balancer := kgo.GroupBalancer(kgo.RangeBalancer())
			if name == "cooperative" {
				balancer = kgo.CooperativeStickyBalancer()
			}
			opts := []kgo.Opt{kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.Balancers(balancer), kgo.DisableAutoCommit(), kgo.HeartbeatInterval(100 * time.Millisecond),
				kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.BlockRebalanceOnPoll()}
			if name == "consumer protocol" {
				opts = append(opts, kgo.ServerSideBalancer())
			}
			var mu sync.Mutex
			seen := map[string]int{}
			ctx, cancel := context.WithCancel(r.context())
			run := func(c *kgo.Client, done func() bool) {
				for !done() && ctx.Err() == nil {
					f := c.PollRecords(ctx, 20)
					mu.Lock()
					f.EachRecord(func(rec *kgo.Record) { seen[string(rec.Key)]++ })
					mu.Unlock()
					if err := c.CommitUncommittedOffsets(ctx); err != nil && ctx.Err() == nil {
						t.Errorf("commit: %v", err)
					}
					c.AllowRebalance()
				}
			}
			count := func() int { mu.Lock(); defer mu.Unlock(); return len(seen) }
			first, second := r.client(opts...), r.client(opts...)
			var running sync.WaitGroup
			running.Go(func() { run(first, func() bool { return count() >= 100 }); first.Close() })
			running.Go(func() {
				defer cancel() // the first may still wait for more
				run(second, func() bool { return count() >= 600 })
			})
			running.Wait()
			for k, n := range seen {
				if n != 1 {
					t.Errorf("%s was read %d times", k, n)
				}
			}
			if len(seen) != 600 {
				t.Errorf("%d records, want 600", len(seen))
			}
		})
	}
}

func TestTransactionsAreSeenWhole(t *testing.T) {
	t.Parallel()
	r := openRig(t, Options{})
	r.topic("t", 2)
	r.topic("out", 2)
	p := r.client(kgo.TransactionalID("tx"), kgo.DefaultProduceTopic("t"))
	ctx := r.context()
	write := func(name string, end kgo.TransactionEndTry) {
		t.Helper()
		if err := p.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			p.Produce(ctx, &kgo.Record{Partition: int32(i % 2), Value: fmt.Appendf(nil, "%s-%d", name, i)}, nil)
		}
		if err := p.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		if err := p.EndTransaction(ctx, end); err != nil {
			t.Fatal(err)
		}
	}
	write("good", kgo.TryCommit)
	write("bad", kgo.TryAbort)
	write("better", kgo.TryCommit)
	committed := r.client(kgo.ConsumeTopics("t"), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	var got []string
	for _, rec := range r.consume(committed, 40) {
		got = append(got, string(rec.Value))
	}
	if slices.ContainsFunc(got, func(v string) bool { return v[:3] == "bad" }) {
		t.Errorf("a committed reader saw an aborted record: %v", got)
	}
	all := r.client(kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	r.consume(all, 60)
}

func TestOffsetsOfATransactionAreItsOwn(t *testing.T) {
	t.Parallel()
	r := openRig(t, Options{})
	r.topic("in", 1)
	r.topic("out", 1)
	r.produce("in", 0, 100)
	session := func() *kgo.GroupTransactSession {
		s, err := kgo.NewGroupTransactSession(kgo.SeedBrokers(r.address), kgo.TransactionalID("etl"), kgo.ConsumerGroup("g"), kgo.ConsumeTopics("in"),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableClientMetrics(), kgo.FetchMaxWait(50*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	ctx := r.context()
	step := func(s *kgo.GroupTransactSession, end kgo.TransactionEndTry) int {
		t.Helper()
		f := s.PollRecords(ctx, 30)
		if err := s.Begin(); err != nil {
			t.Fatal(err)
		}
		f.EachRecord(func(rec *kgo.Record) { s.Produce(ctx, &kgo.Record{Topic: "out", Value: rec.Value}, nil) })
		if _, err := s.End(ctx, end); err != nil {
			t.Fatal(err)
		}
		return f.NumRecords()
	}
	s := session()
	for n := 0; n < 50; {
		n += step(s, kgo.TryCommit)
	}
	step(s, kgo.TryAbort)
	s.Close()
	r.restart(Options{})
	s = session()
	defer s.Close()
	at := func() int64 {
		o, err := r.admin().FetchOffsets(ctx, "g")
		if err != nil {
			t.Fatal(err)
		}
		c, _ := o.Lookup("in", 0)
		return c.At
	}
	for at() < 100 {
		step(s, kgo.TryCommit)
	}
	c := r.client(kgo.ConsumeTopics("out"), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	for i, rec := range r.consume(c, 100) {
		if want := fmt.Sprintf("v%d", i); string(rec.Value) != want {
			t.Fatalf("record %d is %s, want %s", i, rec.Value, want)
		}
	}
}

func TestZombieIsFenced(t *testing.T) {
	t.Parallel()
	r := openRig(t, Options{})
	r.topic("t", 1)
	ctx := r.context()
	old := r.client(kgo.TransactionalID("tx"), kgo.DefaultProduceTopic("t"))
	if err := old.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := old.ProduceSync(ctx, kgo.StringRecord("lost")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	fresh := r.client(kgo.TransactionalID("tx"), kgo.DefaultProduceTopic("t"))
	if err := fresh.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := fresh.ProduceSync(ctx, kgo.StringRecord("kept")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := fresh.EndTransaction(ctx, kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	if err := old.ProduceSync(ctx, kgo.StringRecord("late")).FirstErr(); err == nil {
		if err = old.EndTransaction(ctx, kgo.TryCommit); err == nil {
			t.Error("the zombie wrote")
		}
	}
	c := r.client(kgo.ConsumeTopics("t"), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if got := r.consume(c, 1); string(got[0].Value) != "kept" {
		t.Errorf("first committed record is %s", got[0].Value)
	}
}

func TestOpenTransactionIsAbortedByARestart(t *testing.T) {
	t.Parallel()
	r := openRig(t, Options{})
	r.topic("t", 1)
	ctx := r.context()
	p := r.client(kgo.TransactionalID("tx"), kgo.DefaultProduceTopic("t"))
	if err := p.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := p.ProduceSync(ctx, kgo.StringRecord("half")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	r.restart(Options{})
	if err := p.EndTransaction(ctx, kgo.TryCommit); err == nil {
		t.Error("half a transaction was committed")
	}
	fresh := r.client(kgo.TransactionalID("tx"), kgo.DefaultProduceTopic("t"))
	if err := fresh.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := fresh.ProduceSync(ctx, kgo.StringRecord("whole")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := fresh.EndTransaction(ctx, kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	c := r.client(kgo.ConsumeTopics("t"), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if got := r.consume(c, 1); string(got[0].Value) != "whole" {
		t.Errorf("first committed record is %s", got[0].Value)
	}
}

func TestIdempotentProducerSurvivesARestart(t *testing.T) {
	t.Parallel()
	r := openRig(t, Options{})
	r.topic("t", 1)
	p := r.client(kgo.DefaultProduceTopic("t"), kgo.RecordRetries(50))
	for i := range 3 {
		if err := p.ProduceSync(r.context(), kgo.StringRecord(fmt.Sprint(i))).FirstErr(); err != nil {
			t.Fatal(err)
		}
		r.restart(Options{})
	}
	c := r.client(kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	for i, rec := range r.consume(c, 3) {
		if string(rec.Value) != fmt.Sprint(i) {
			t.Errorf("record %d is %s", i, rec.Value)
		}
	}
}

func TestSourcesTopicsAreClosedToClients(t *testing.T) {
	t.Parallel()
	r := openRig(t, Options{Owner: func(topic string) string {
		if topic == "shop.orders" {
			return "shop"
		}
		return ""
	}})
	ctx := r.context()
	if err := r.journal.CreateTopic(ctx, "shop.orders", log.TopicConfig{}); err != nil {
		t.Fatal(err)
	}
	for _, topic := range []string{"shop.orders", "_trunkline.positions"} {
		c := r.client(kgo.DefaultProduceTopic(topic))
		if err := c.ProduceSync(ctx, kgo.StringRecord("x")).FirstErr(); !errors.Is(err, kerr.TopicAuthorizationFailed) {
			t.Errorf("writing %s: %v", topic, err)
		}
		if _, err := r.admin().DeleteTopic(ctx, topic); !errors.Is(err, kerr.TopicAuthorizationFailed) {
			t.Errorf("deleting %s: %v", topic, err)
		}
	}
	topics, err := r.admin().ListTopicsWithInternal(ctx)
	if err != nil || slices.Contains(topics.Names(), "_trunkline.positions") {
		t.Errorf("internal topics are listed: %v %v", topics.Names(), err)
	}
	topics, err = r.admin().ListTopicsWithInternal(ctx, "_trunkline.offsets")
	if err != nil || !topics["_trunkline.offsets"].IsInternal {
		t.Errorf("asked by name, an internal topic is not described: %v %v", topics, err)
	}
}

func TestGroupsOfSinksAreTheirOwn(t *testing.T) {
	t.Parallel()
	r := openRig(t, Options{})
	r.topic("t", 1)
	ctx := r.context()
	sink, err := r.journal.Consumer(ctx, log.ConsumerOptions{Group: "warehouse", Topics: []string{"t"}})
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close(ctx)
	groups, err := r.admin().DescribeGroups(ctx, "warehouse")
	if err != nil || groups["warehouse"].State != "Stable" || len(groups["warehouse"].Members) != 1 {
		t.Errorf("described as %+v, %v", groups["warehouse"], err)
	}
	offsets := kadm.Offsets{}
	offsets.AddOffset("t", 0, 0, -1)
	if _, err := r.admin().CommitOffsets(ctx, "warehouse", offsets); err != nil {
		t.Fatal(err)
	}
	if got := r.journal.Committed("warehouse"); len(got) != 0 {
		t.Errorf("a client moved a sink's offsets: %v", got)
	}
}

func TestSourcesTransactionsAreSeenWhole(t *testing.T) {
	t.Parallel()
	r := openRig(t, Options{})
	ctx := r.context()
	if err := r.journal.CreateTopic(ctx, "t", log.TopicConfig{Partitions: 2}); err != nil {
		t.Fatal(err)
	}
	source, _, err := r.journal.Producer(ctx, "shop")
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string) {
		t.Helper()
		for p := range int32(2) {
			if err := source.Append(ctx, log.TopicPartition{Topic: "t", Partition: p}, log.Record{Value: []byte(name)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	reader := r.client(kgo.ConsumeTopics("t"), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	write("dropped")
	if err := source.Abort(ctx); err != nil {
		t.Fatal(err)
	}
	write("kept")
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	if f := reader.PollFetches(short); f.NumRecords() > 0 {
		t.Errorf("%d records are seen before the commit", f.NumRecords())
	}
	if err := source.Commit(ctx, []byte("1")); err != nil {
		t.Fatal(err)
	}
	for _, rec := range r.consume(reader, 2) {
		if string(rec.Value) != "kept" {
			t.Errorf("%s was aborted and is seen", rec.Value)
		}
	}
}

// A large transaction of a source is on disk in part before its commit, and others write behind it.
func TestSourcesLargeTransactionsAreSeenWhole(t *testing.T) {
	t.Parallel()
	r := openRig(t, Options{})
	ctx := r.context()
	tp := log.TopicPartition{Topic: "t"}
	if err := r.journal.CreateTopic(ctx, "t", log.TopicConfig{Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	source, _, err := r.journal.Producer(ctx, "shop")
	if err != nil {
		t.Fatal(err)
	}
	const large = 2 << 20 // more than a batch of a source, so that it is written at once
	write := func(first byte) {
		t.Helper()
		value := make([]byte, large)
		value[0] = first
		if err := source.Append(ctx, tp, log.Record{Value: value}); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			all, err := r.journal.Producers(tp)
			if err != nil || time.Now().After(deadline) {
				t.Fatalf("nothing of the transaction is on disk: %+v, %v", all, err)
			}
			if slices.ContainsFunc(all, func(p disk.ActiveProducer) bool { return p.OpenSince >= 0 }) {
				return
			}
		}
	}
	at := map[string]map[int32]kgo.Offset{"t": {0: kgo.NewOffset().AtStart()}}
	all := r.client(kgo.ConsumePartitions(at), kgo.FetchIsolationLevel(kgo.ReadUncommitted()))
	committed := r.client(kgo.ConsumePartitions(at), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	write('a')
	if err := source.Abort(ctx); err != nil {
		t.Fatal(err)
	}
	write('b')
	r.produce("t", 0, 1) // whoever waits for this has what stands before it
	if n := len(r.consume(all, 3)); n != 3 {
		t.Errorf("%d records are on disk, want 3", n)
	}
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	if f := committed.PollFetches(short); f.NumRecords() > 0 {
		t.Errorf("%d records are seen before the commit", f.NumRecords())
	}
	if err := source.Commit(ctx, []byte("1")); err != nil {
		t.Fatal(err)
	}
	if got := r.consume(committed, 2); len(got) != 2 || len(got[0].Value) != large || got[0].Value[0] != 'b' || string(got[1].Value) != "v0" {
		t.Errorf("%d records are seen after the commit, the first has %d bytes", len(got), len(got[0].Value))
	}
}

func TestStaticMemberComesBackWithoutARebalance(t *testing.T) {
	t.Parallel()
	r := openRig(t, Options{})
	r.topic("t", 2)
	opts := func(id string) []kgo.Opt {
		return []kgo.Opt{kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.InstanceID(id), kgo.Balancers(kgo.RangeBalancer()),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.HeartbeatInterval(50 * time.Millisecond)}
	}
	one, two := r.client(opts("one")...), r.client(opts("two")...)
	r.produce("t", 0, 100)
	describe := func() (generationMembers map[string]string) {
		g, err := r.admin().DescribeGroups(r.context(), "g")
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]string{}
		if g["g"].State != "Stable" {
			return out
		}
		for _, m := range g["g"].Members {
			// A leader that does not know the topic yet assigns nothing, and begins anew once it does.
			if a, ok := m.Assigned.AsConsumer(); ok && m.InstanceID != nil && len(a.Topics) > 0 {
				out[*m.InstanceID] = fmt.Sprint(a.Topics)
			}
		}
		return out
	}
	poll := func(c *kgo.Client) {
		ctx, cancel := context.WithTimeout(r.context(), 50*time.Millisecond)
		defer cancel()
		c.PollFetches(ctx)
	}
	for len(describe()) < 2 {
		poll(one)
		poll(two)
	}
	before := describe()
	g, _ := r.server.groups.group("g", false)
	generation := g.generation
	r.server.groups.release(g)
	one.CloseAllowingRebalance() // a static member does not leave
	again := r.client(opts("one")...)
	for n := 0; n < 3; n++ {
		poll(again)
		poll(two)
	}
	g, _ = r.server.groups.group("g", false)
	defer r.server.groups.release(g)
	if g.generation != generation {
		t.Errorf("generation %d, was %d", g.generation, generation)
	}
	if len(before) != 2 || before["one"] == before["two"] {
		t.Errorf("assigned %v", before)
	}
}

func TestGroupsOfClientsShowInTheLog(t *testing.T) {
	t.Parallel()
	r := openRig(t, Options{Reserved: func(group string) bool { return group == "warehouse" }})
	r.topic("t", 2)
	r.produce("t", 0, 10)
	ctx := r.context()
	c := r.client(kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	r.consume(c, 10)
	groups, err := r.journal.Groups(ctx)
	if err != nil || len(groups) != 1 || len(groups[0].Members) != 1 || len(groups[0].Members[0].Partitions) != 2 {
		t.Fatalf("groups %+v, %v", groups, err)
	}
	if err := r.journal.SetOffsets(ctx, "g", log.Offsets{{Topic: "t"}: 1}); !errors.Is(err, log.ErrGroupActive) {
		t.Errorf("offsets of a group with members were set: %v", err)
	}
	c.Close()
	if err := r.journal.SetOffsets(ctx, "g", log.Offsets{{Topic: "t"}: 1}); err != nil {
		t.Errorf("set offsets: %v", err)
	}
	req := version(kmsg.NewPtrJoinGroupRequest(), 2)
	req.Group, req.SessionTimeoutMillis, req.ProtocolType = "warehouse", 10_000, "consumer"
	req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
	if resp := r.wire().ask(req).(*kmsg.JoinGroupResponse); resp.ErrorCode != kerr.GroupAuthorizationFailed.Code {
		t.Errorf("joining the group of a sink: error %d", resp.ErrorCode)
	}
}

func TestRefusalOfAnUnacknowledgedBatchEndsTheConnection(t *testing.T) {
	t.Parallel()
	r := openRig(t, Options{})
	w := r.wire()
	req := produceRequest(8, "nope", records(t, batch.NoProducer, false, "x"))
	req.Acks = 0
	w.send(req)
	w.closed()
}
