package batch

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/trunkline/trunkline/log"
)

var update = flag.Bool("update", false, "write the golden batches anew from what the client library sends now")

// goldenRecords are what the golden batches under testdata hold.
func goldenRecords() []log.Record {
	return []log.Record{
		{Key: []byte("key"), Value: []byte("value"), Timestamp: 1_700_000_000_000},
		{Key: nil, Value: []byte("null key"), Timestamp: 1_700_000_000_005},
		{Key: []byte("null value"), Value: nil, Timestamp: 1_700_000_000_001},
		{Key: []byte{}, Value: []byte{}, Timestamp: 1_700_000_000_002},
		{Key: []byte("headers"), Value: bytes.Repeat([]byte("repeat "), 3000), Timestamp: 1_700_000_000_003, Headers: []log.Header{
			{Key: "trunkline.schema", Value: []byte("12")}, {Key: "null", Value: nil}, {Key: "", Value: []byte{}},
		}},
	}
}

func client(t *testing.T, cluster *kfake.Cluster, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(cluster.ListenAddrs()...))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func cluster(t *testing.T) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

var clientCodecs = map[log.Compression]kgo.CompressionCodec{
	log.CompressionNone: kgo.NoCompression(), log.CompressionGzip: kgo.GzipCompression(), log.CompressionSnappy: kgo.SnappyCompression(),
	log.CompressionLZ4: kgo.Lz4Compression(), log.CompressionZstd: kgo.ZstdCompression(),
}

// sent returns the batch that franz-go's client sends for the golden records.
func sent(t *testing.T, c log.Compression, transactional bool) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	k := cluster(t)
	var got []byte
	k.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		got = append([]byte(nil), req.(*kmsg.ProduceRequest).Topics[0].Partitions[0].Records...)
		return nil, nil, false
	})
	opts := []kgo.Opt{kgo.ProducerBatchCompression(clientCodecs[c]), kgo.ProducerLinger(200 * time.Millisecond), kgo.DefaultProduceTopic("t")}
	if transactional {
		opts = append(opts, kgo.TransactionalID("golden"))
	}
	cl := client(t, k, opts...)
	if transactional {
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
	}
	var list []*kgo.Record
	for _, r := range goldenRecords() {
		kr := &kgo.Record{Key: r.Key, Value: r.Value, Timestamp: time.UnixMilli(r.Timestamp)}
		for _, h := range r.Headers {
			kr.Headers = append(kr.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
		list = append(list, kr)
	}
	if err := cl.ProduceSync(ctx, list...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if transactional {
		if err := cl.EndTransaction(ctx, kgo.TryCommit); err != nil {
			t.Fatal(err)
		}
	}
	return got
}

func checkGolden(t *testing.T, b []byte, c log.Compression, transactional bool) {
	t.Helper()
	v, rest, err := Parse(b)
	if err != nil || len(rest) > 0 {
		t.Fatal(err, len(rest))
	}
	var d Decoder
	got, err := d.Decode(nil, v)
	if err := errors.Join(v.Verify(), err, equalRecords(got, goldenRecords())); err != nil {
		t.Fatal(err)
	}
	if v.Codec() != c || v.Transactional() != transactional || v.Producer().ID < 0 || v.Producer().Epoch < 0 || v.Producer().Sequence != 0 {
		t.Fatalf("codec %v, transactional %v, producer %+v", v.Codec(), v.Transactional(), v.Producer())
	}
}

// The golden files were sent by franz-go's client, to kfake; what the client sends now must be readable too.
func TestBatchesOfAKafkaClientAreRead(t *testing.T) {
	t.Parallel()
	for _, c := range codecs {
		for _, transactional := range []bool{false, true} {
			name := fmt.Sprintf("franz-go-%v", c)
			if transactional {
				name += "-transactional"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				path := filepath.Join("testdata", name+".batch")
				b := sent(t, c, transactional)
				checkGolden(t, b, c, transactional)
				if *update {
					if err := os.WriteFile(path, b, 0o644); err != nil {
						t.Fatal(err)
					}
				}
				golden, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				checkGolden(t, golden, c, transactional)
			})
		}
	}
}

// A Kafka client reads our batches from a broker that took them as they are.
func TestOurBatchesAreReadByAKafkaClient(t *testing.T) {
	t.Parallel()
	for _, c := range codecs {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			k := cluster(t)
			want := append(goldenRecords(), rows(200)...)
			v := build(t, c, want)
			cl := client(t, k, kgo.ConsumeTopics("t"))
			req := kmsg.NewPtrProduceRequest()
			req.Acks, req.TimeoutMillis = -1, 5000
			req.Topics = []kmsg.ProduceRequestTopic{{Topic: "t", Partitions: []kmsg.ProduceRequestTopicPartition{{Records: v}}}}
			meta := kmsg.NewPtrMetadataRequest()
			meta.Topics = []kmsg.MetadataRequestTopic{{Topic: kmsg.StringPtr("t")}}
			known, err := meta.RequestWith(ctx, cl)
			if err != nil {
				t.Fatal(err)
			}
			req.Topics[0].TopicID = known.Topics[0].TopicID
			resp, err := req.RequestWith(ctx, cl)
			if err != nil {
				t.Fatal(err)
			}
			if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
				t.Fatalf("the broker refused the batch with error %d", code)
			}
			var got []log.Record
			for len(got) < len(want) {
				fetches := cl.PollFetches(ctx)
				if err := fetches.Err0(); err != nil {
					t.Fatal(err)
				}
				for _, e := range fetches.Errors() {
					t.Fatal(e.Err)
				}
				fetches.EachRecord(func(r *kgo.Record) {
					our := log.Record{Key: r.Key, Value: r.Value, Timestamp: r.Timestamp.UnixMilli(), Offset: r.Offset}
					for _, h := range r.Headers {
						our.Headers = append(our.Headers, log.Header{Key: h.Key, Value: h.Value})
					}
					got = append(got, our)
				})
			}
			if err := equalRecords(got, want); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// kmsg's decoder, which knows the format independently, agrees with every field.
func TestMarkerIsReadByAKafkaClient(t *testing.T) {
	t.Parallel()
	b := AppendMarker(nil, Commit, 12, 3, 9, 1234)
	var rb kmsg.RecordBatch
	if err := rb.ReadFrom(b); err != nil {
		t.Fatal(err)
	}
	var r kmsg.Record
	if err := r.ReadFrom(rb.Records); err != nil {
		t.Fatal(err)
	}
	var key kmsg.ControlRecordKey
	var value kmsg.EndTxnMarker
	if err := errors.Join(key.ReadFrom(r.Key), value.ReadFrom(r.Value)); err != nil {
		t.Fatal(err)
	}
	if key.Type != kmsg.ControlRecordKeyTypeCommit || value.CoordinatorEpoch != 9 || rb.ProducerID != 12 || rb.ProducerEpoch != 3 ||
		rb.NumRecords != 1 || rb.Attributes != 0x30 || rb.FirstTimestamp != 1234 || rb.MaxTimestamp != 1234 || rb.Magic != 2 {
		t.Fatalf("%+v %+v %+v", rb, key, value)
	}
}

// What Kafka's Java client writes for snappy is xerial's framing with blocks of 32 KiB; others write one raw block.
func TestBothFramingsOfSnappyAreRead(t *testing.T) {
	t.Parallel()
	xerial := build(t, log.CompressionSnappy, goldenRecords())
	if string(xerial[HeaderSize:HeaderSize+8]) != "\x82SNAPPY\x00" {
		t.Fatalf("% x", xerial[HeaderSize:HeaderSize+8])
	}
	raw, err := os.ReadFile(filepath.Join("testdata", "franz-go-snappy.batch"))
	if err != nil {
		t.Fatal(err)
	}
	if string(raw[HeaderSize:HeaderSize+8]) == "\x82SNAPPY\x00" {
		t.Fatal("the golden file is framed")
	}
	checkGolden(t, raw, log.CompressionSnappy, false)
}
