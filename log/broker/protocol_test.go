package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/batch"
)

func TestVersionsAreNamedAsOldClientsNeedThem(t *testing.T) {
	t.Parallel()
	w := openRig(t, Options{}).wire()
	t.Run("a newer question is answered in version 0 and the connection stays", func(t *testing.T) {
		req := version(kmsg.NewPtrApiVersionsRequest(), 4)
		req.Version = 4
		body := kmsg.NewRequestFormatter().AppendRequest(nil, req, 7)
		binary.BigEndian.PutUint16(body[6:], 99)
		w.write(body)
		old := version(kmsg.NewPtrApiVersionsRequest(), 0)
		resp := w.answer(old).(*kmsg.ApiVersionsResponse)
		if resp.ErrorCode != kerr.UnsupportedVersion.Code || len(resp.ApiKeys) != 1 || resp.ApiKeys[0].ApiKey != 18 {
			t.Errorf("answered %+v", resp)
		}
	})
	for v := range int16(5) {
		t.Run(fmt.Sprintf("version %d lists them", v), func(t *testing.T) {
			resp := w.ask(version(kmsg.NewPtrApiVersionsRequest(), v)).(*kmsg.ApiVersionsResponse)
			minimum := map[int16]int16{}
			for _, k := range resp.ApiKeys {
				minimum[k.ApiKey] = k.MinVersion
			}
			for _, key := range []int16{0, 10, 11, 17} { // Produce, FindCoordinator, JoinGroup, SaslHandshake
				if lowest, ok := minimum[key]; !ok || lowest != 0 {
					t.Errorf("key %d begins at %d, %v", key, lowest, ok)
				}
			}
			for _, key := range []int16{71, 72, 75} {
				if _, ok := minimum[key]; ok {
					t.Errorf("key %d is offered", key)
				}
			}
		})
	}
}

// TestEveryVersionIsServed sends an empty request in every version that is named, and looks whether there is an answer.
func TestEveryVersionIsServed(t *testing.T) {
	t.Parallel()
	r := openRig(t, Options{})
	r.topic("t", 1)
	for key, a := range apis() {
		for v := a.serve; v <= a.max; v++ {
			req := kmsg.RequestForKey(key)
			req.SetVersion(v)
			if d, ok := req.(interface{ Default() }); ok {
				d.Default()
			}
			if p, ok := req.(*kmsg.ProduceRequest); ok {
				p.Acks = 1
			}
			r.wire().ask(req)
		}
	}
}

func TestBrokenRequestsCloseTheConnection(t *testing.T) {
	t.Parallel()
	r := openRig(t, Options{})
	head := func(key, version int16) []byte {
		b := binary.BigEndian.AppendUint16(nil, uint16(key))
		b = binary.BigEndian.AppendUint16(b, uint16(version))
		return append(b, 0, 0, 0, 1, 0xff, 0xff)
	}
	produce := append(head(0, 7), 0xff, 0xff, 0, 1, 0, 0, 0, 1)
	for name, frame := range map[string][]byte{
		"an unknown key":                         head(999, 0),
		"a version that is named but not served": head(0, 0),
		"a version above what is named":          head(3, 99),
		"a header that is cut short":             head(3, 0)[:7],
		"a body that is cut short":               append(head(3, 1), 0, 0, 0, 9),
		"a produce request of 2^31 topics":       append(append([]byte{}, produce...), 0x7f, 0xff, 0xff, 0xff),
	} {
		t.Run(name, func(t *testing.T) {
			w := r.wire()
			w.t = t
			w.frame(frame)
			w.closed()
		})
	}
	for name, length := range map[string]uint32{"a length of 2 GB": 1<<31 - 1, "a negative length": 1<<32 - 1, "a length of zero": 0} {
		t.Run(name, func(t *testing.T) {
			w := r.wire()
			w.t = t
			w.write(binary.BigEndian.AppendUint32(nil, length))
			w.closed()
		})
	}
	r.wire().ask(version(kmsg.NewPtrMetadataRequest(), 1))
}

func TestAnswersComeInTheOrderOfTheRequests(t *testing.T) {
	t.Parallel()
	r := openRig(t, Options{})
	r.topic("t", 1)
	w := r.wire()
	fetch := version(kmsg.NewPtrFetchRequest(), 4)
	fetch.MaxWaitMillis, fetch.MinBytes, fetch.MaxBytes = 300, 1, 1<<20
	fetch.Topics = []kmsg.FetchRequestTopic{{Topic: "t", Partitions: []kmsg.FetchRequestTopicPartition{{PartitionMaxBytes: 1 << 20}}}}
	versions := version(kmsg.NewPtrApiVersionsRequest(), 0)
	w.send(fetch)
	w.send(versions)
	w.answer(fetch)
	w.answer(versions)
}

// records builds a batch as a client does.
func records(t *testing.T, owner batch.Producer, transactional bool, values ...string) []byte {
	t.Helper()
	var b batch.Builder
	for _, v := range values {
		b.Append(&log.Record{Key: []byte(v), Value: []byte(v)}, 1000)
	}
	out, err := b.Build(nil, log.CompressionNone, owner, transactional)
	if err != nil {
		t.Fatal(err)
	}
	batch.View(out).SetLeaderEpoch(-1) // as franz-go and Java send it
	return out
}

func produceRequest(v int16, topic string, b []byte) *kmsg.ProduceRequest {
	req := version(kmsg.NewPtrProduceRequest(), v)
	req.Acks, req.TimeoutMillis = -1, 1000
	req.Topics = []kmsg.ProduceRequestTopic{{Topic: topic, Partitions: []kmsg.ProduceRequestTopicPartition{{Records: b}}}}
	return req
}

func (w *wire) produce(topic string, b []byte) kmsg.ProduceResponseTopicPartition {
	w.t.Helper()
	return w.ask(produceRequest(8, topic, b)).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
}

func TestSequencesAreKept(t *testing.T) {
	t.Parallel()
	r := openRig(t, Options{})
	r.topic("t", 1)
	w := r.wire()
	id := w.ask(version(kmsg.NewPtrInitProducerIDRequest(), 0)).(*kmsg.InitProducerIDResponse).ProducerID
	send := func(epoch int16, sequence int32, n int) (int64, error) {
		values := make([]string, n)
		p := w.produce("t", records(t, batch.Producer{ID: id, Epoch: epoch, Sequence: sequence}, false, values...))
		return p.BaseOffset, kerr.ErrorForCode(p.ErrorCode)
	}
	for i, c := range []struct {
		epoch    int16
		sequence int32
		n        int
		offset   int64
		err      error
	}{
		{0, 7, 1, -1, kerr.OutOfOrderSequenceNumber}, // nothing was ever written: what came before is missing
		{0, 0, 3, 0, nil},
		{0, 3, 2, 3, nil},
		{0, 0, 3, 0, nil}, // sent again
		{0, 3, 2, 3, nil},
		{0, 6, 1, -1, kerr.OutOfOrderSequenceNumber},
		{0, 5, 1, 5, nil}, {0, 6, 1, 6, nil}, {0, 7, 1, 7, nil}, {0, 8, 1, 8, nil},
		{0, 3, 2, 3, nil}, // the fifth from the end is remembered
		{0, 0, 3, -1, kerr.OutOfOrderSequenceNumber}, // the sixth is not
		{1, 4, 1, -1, kerr.OutOfOrderSequenceNumber},
		{1, 0, 1, 9, nil},
		{0, 9, 1, -1, kerr.InvalidProducerEpoch},
	} {
		if offset, err := send(c.epoch, c.sequence, c.n); offset != c.offset || !errors.Is(err, c.err) {
			t.Errorf("step %d: offset %d, %v; want %d, %v", i, offset, err, c.offset, c.err)
		}
	}
	r.restart(Options{})
	w = r.wire()
	if offset, err := send(1, 0, 1); offset != 9 || err != nil {
		t.Errorf("sent again after a restart: offset %d, %v", offset, err)
	}
}

func TestBadBatchesAreRefused(t *testing.T) {
	t.Parallel()
	r := openRig(t, Options{})
	r.topic("t", 1, "max.message.bytes", "2000")
	r.topic("compacted", 1, "cleanup.policy", "compact")
	w := r.wire()
	good := records(t, batch.NoProducer, false, "a", "b")
	broken := func(f func(b []byte)) []byte {
		b := append([]byte{}, good...)
		f(b)
		return b
	}
	for name, c := range map[string]struct {
		topic string
		b     []byte
		want  *kerr.Error
	}{
		"a wrong checksum":      {"t", broken(func(b []byte) { b[len(b)-1]++ }), kerr.CorruptMessage},
		"an old message":        {"t", broken(func(b []byte) { b[16] = 1 }), kerr.UnsupportedForMessageFormat},
		"half a batch":          {"t", good[:40], kerr.CorruptMessage},
		"two batches":           {"t", append(broken(func([]byte) {}), good...), kerr.InvalidRecord},
		"nothing":               {"t", nil, kerr.CorruptMessage},
		"too much":              {"t", records(t, batch.NoProducer, false, string(make([]byte, 3000))), kerr.MessageTooLarge},
		"an unknown topic":      {"nope", good, kerr.UnknownTopicOrPartition},
		"a foreign transaction": {"t", records(t, batch.Producer{ID: 5}, true, "x"), kerr.InvalidTxnState},
	} {
		t.Run(name, func(t *testing.T) {
			if p := w.produce(c.topic, c.b); kerr.ErrorForCode(p.ErrorCode) != c.want || p.BaseOffset != -1 {
				t.Errorf("answered %v at %d, want %v", kerr.ErrorForCode(p.ErrorCode), p.BaseOffset, c.want)
			}
		})
	}
	t.Run("no key on a compacted topic", func(t *testing.T) {
		var b batch.Builder
		b.Append(&log.Record{Key: []byte("k"), Value: []byte("v")}, 1)
		b.Append(&log.Record{Value: []byte("v")}, 1)
		keyless, err := b.Build(nil, log.CompressionZstd, batch.NoProducer, false)
		if err != nil {
			t.Fatal(err)
		}
		p := w.produce("compacted", keyless)
		if p.ErrorCode != kerr.InvalidRecord.Code || len(p.ErrorRecords) != 1 || p.ErrorRecords[0].RelativeOffset != 1 {
			t.Errorf("answered %+v", p)
		}
	})
	if p := w.produce("t", good); p.ErrorCode != 0 || p.BaseOffset != 0 {
		t.Errorf("a good batch: %+v", p)
	}
}

func fetchRequest(v int16, topic string, offset int64, maxBytes int32) *kmsg.FetchRequest {
	req := version(kmsg.NewPtrFetchRequest(), v)
	req.MaxBytes, req.MinBytes = maxBytes, 1
	p := kmsg.NewFetchRequestTopicPartition()
	p.FetchOffset, p.PartitionMaxBytes = offset, maxBytes
	req.Topics = []kmsg.FetchRequestTopic{{Topic: topic, Partitions: []kmsg.FetchRequestTopicPartition{p}}}
	return req
}

func TestBatchesAreHandedOutAsTheyCame(t *testing.T) {
	t.Parallel()
	r := openRig(t, Options{})
	r.topic("t", 1)
	w := r.wire()
	sent := records(t, batch.NoProducer, false, "a", "b", "c")
	w.produce("t", sent)
	w.produce("t", records(t, batch.NoProducer, false, "d"))
	id := w.ask(version(kmsg.NewPtrMetadataRequest(), 12)).(*kmsg.MetadataResponse).Topics[0].TopicID
	get := func(v int16, offset int64, maxBytes int32) kmsg.FetchResponseTopicPartition {
		t.Helper()
		req := fetchRequest(v, "t", offset, maxBytes)
		req.Topics[0].TopicID = id
		return w.ask(req).(*kmsg.FetchResponse).Topics[0].Partitions[0]
	}
	for v := int16(4); v <= 17; v++ {
		p := get(v, 1, 1) // in the middle of the first batch, and with no room for it
		if p.ErrorCode != 0 || len(p.RecordBatches) != len(sent) || p.HighWatermark != 4 || string(p.RecordBatches[16:]) != string(sent[16:]) {
			t.Fatalf("version %d: %d bytes, high watermark %d, error %d", v, len(p.RecordBatches), p.HighWatermark, p.ErrorCode)
		}
		if got := batch.View(p.RecordBatches); got.BaseOffset() != 0 || got.LeaderEpoch() != 0 {
			t.Errorf("version %d: base offset %d, leader epoch %d", v, got.BaseOffset(), got.LeaderEpoch())
		}
		if p = get(v, 4, 1<<20); p.ErrorCode != 0 || p.RecordBatches == nil || len(p.RecordBatches) != 0 {
			t.Errorf("version %d at the end: %v, error %d", v, p.RecordBatches, p.ErrorCode)
		}
		if p = get(v, 5, 1<<20); p.ErrorCode != kerr.OffsetOutOfRange.Code {
			t.Errorf("version %d behind the end: error %d", v, p.ErrorCode)
		}
	}
	unknown := fetchRequest(13, "", 0, 1<<20)
	if p := w.ask(unknown).(*kmsg.FetchResponse).Topics[0].Partitions[0]; p.ErrorCode != kerr.UnknownTopicID.Code {
		t.Errorf("an unknown topic id: error %d", p.ErrorCode)
	}
	session := fetchRequest(11, "t", 0, 1<<20)
	session.SessionID, session.SessionEpoch = 5, 1
	if resp := w.ask(session).(*kmsg.FetchResponse); resp.ErrorCode != kerr.FetchSessionIDNotFound.Code {
		t.Errorf("a session that nobody gave: error %d", resp.ErrorCode)
	}
}

func TestFetchWaitsForEnough(t *testing.T) {
	t.Parallel()
	r := openRig(t, Options{})
	r.topic("t", 1)
	w, writer := r.wire(), r.wire()
	req := fetchRequest(11, "t", 0, 1<<20)
	req.MaxWaitMillis, req.MinBytes = 60_000, 150
	started := time.Now()
	w.send(req)
	writer.produce("t", records(t, batch.NoProducer, false, "one"))
	writer.produce("t", records(t, batch.NoProducer, false, "two"))
	writer.produce("t", records(t, batch.NoProducer, false, "three"))
	p := w.answer(req).(*kmsg.FetchResponse).Topics[0].Partitions[0]
	if len(p.RecordBatches) < 150 || time.Since(started) > 50*time.Second {
		t.Errorf("%d bytes after %v", len(p.RecordBatches), time.Since(started))
	}
	req.MaxWaitMillis, req.Topics[0].Partitions[0].FetchOffset = 100, 3
	started = time.Now()
	if w.ask(req); time.Since(started) < 90*time.Millisecond {
		t.Errorf("an empty fetch came back after %v", time.Since(started))
	}
}

func TestOffsetsByTime(t *testing.T) {
	t.Parallel()
	r := openRig(t, Options{})
	r.topic("t", 1)
	c := r.client(kgo.DefaultProduceTopic("t"))
	for _, ms := range []int64{1000, 3000, 2000} {
		if err := c.ProduceSync(r.context(), &kgo.Record{Value: []byte("x"), Timestamp: time.UnixMilli(ms)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	w := r.wire()
	for at, want := range map[int64]int64{-1: 3, -2: 0, -3: 1, 0: 0, 1000: 0, 1001: 1, 3000: 1, 3001: -1} {
		req := version(kmsg.NewPtrListOffsetsRequest(), 7)
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Timestamp = at
		req.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: "t", Partitions: []kmsg.ListOffsetsRequestTopicPartition{p}}}
		got := w.ask(req).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
		if got.Offset != want || got.ErrorCode != 0 {
			t.Errorf("at %d: offset %d, error %d; want %d", at, got.Offset, got.ErrorCode, want)
		}
	}
}

func TestRecordsOfAnOpenTransactionAreDeleted(t *testing.T) {
	t.Parallel()
	r := openRig(t, Options{})
	r.topic("t", 1)
	c := r.client(kgo.TransactionalID("open"), kgo.DefaultProduceTopic("t"))
	if err := c.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := c.ProduceSync(r.context(), kgo.StringRecord("a"), kgo.StringRecord("b")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	w := r.wire()
	remove := version(kmsg.NewPtrDeleteRecordsRequest(), 2)
	remove.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: "t", Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Offset: -1}}}}
	if p := w.ask(remove).(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0]; p.ErrorCode != 0 || p.LowWatermark != 2 {
		t.Fatalf("deleted below %d, error %d", p.LowWatermark, p.ErrorCode)
	}
	bounds, err := r.journal.Bounds(log.TopicPartition{Topic: "t"})
	if err != nil || bounds.LastStable != 2 {
		t.Errorf("the last stable offset is %d, below the start at %d, %v", bounds.LastStable, bounds.LogStart, err)
	}
	if err := c.EndTransaction(r.context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	reader := r.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"t": {0: kgo.NewOffset().AtStart()}}), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	r.produce("t", 7, 8)
	if got := r.consume(reader, 1); string(got[0].Value) != "v7" {
		t.Errorf("behind what was deleted %q is read", got[0].Value)
	}
}

func TestAnswersHoldNoNullWhereKafkaHasAList(t *testing.T) {
	t.Parallel()
	r := openRig(t, Options{})
	w := r.wire()
	create := version(kmsg.NewPtrCreateTopicsRequest(), 5)
	create.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: "t", NumPartitions: -1, ReplicationFactor: -1}}
	made := w.ask(create).(*kmsg.CreateTopicsResponse).Topics[0]
	if made.ErrorCode != 0 || made.Configs == nil || made.NumPartitions != 3 || made.ReplicationFactor != 1 {
		t.Errorf("created %+v", made)
	}
	again := w.ask(create).(*kmsg.CreateTopicsResponse).Topics[0]
	if again.ErrorCode != kerr.TopicAlreadyExists.Code || again.Configs == nil {
		t.Errorf("created again %+v", again)
	}
	fetch := version(kmsg.NewPtrOffsetFetchRequest(), 7)
	fetch.Group = "nobody"
	fetch.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: []int32{0}}}
	offsets := w.ask(fetch).(*kmsg.OffsetFetchResponse)
	if p := offsets.Topics[0].Partitions[0]; offsets.ErrorCode != 0 || p.Offset != -1 || p.ErrorCode != 0 {
		t.Errorf("a group that nobody knows: %+v", offsets)
	}
	partitions := version(kmsg.NewPtrCreatePartitionsRequest(), 1)
	partitions.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: "t", Count: 5}}
	if p := w.ask(partitions).(*kmsg.CreatePartitionsResponse).Topics; len(p) != 1 || p[0].ErrorCode != 0 {
		t.Errorf("partitions: %+v", p)
	}
	long := version(kmsg.NewPtrInitProducerIDRequest(), 1)
	id := "tx"
	long.TransactionalID, long.TransactionTimeoutMillis = &id, int32(time.Hour.Milliseconds())
	if resp := w.ask(long).(*kmsg.InitProducerIDResponse); resp.ErrorCode != kerr.InvalidTransactionTimeout.Code {
		t.Errorf("a transaction of an hour: error %d", resp.ErrorCode)
	}
}

func TestMetadataOfACommitComesBack(t *testing.T) {
	t.Parallel()
	r := openRig(t, Options{})
	r.topic("t", 1)
	w := r.wire()
	note := "where I was"
	commit := version(kmsg.NewPtrOffsetCommitRequest(), 2)
	commit.Group, commit.Generation = "g", -1
	commit.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Offset: 5, Metadata: &note}}}}
	if p := w.ask(commit).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0]; p.ErrorCode != 0 {
		t.Fatalf("commit: error %d", p.ErrorCode)
	}
	r.restart(Options{})
	fetch := version(kmsg.NewPtrOffsetFetchRequest(), 2)
	fetch.Group = "g"
	fetch.Topics = nil // all
	got := r.wire().ask(fetch).(*kmsg.OffsetFetchResponse).Topics
	if len(got) != 1 || got[0].Partitions[0].Offset != 5 || *got[0].Partitions[0].Metadata != note {
		t.Errorf("fetched %+v", got)
	}
}
