package broker

import (
	"encoding/binary"
	"hash/crc32"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/batch"
	"github.com/trunkline/trunkline/log/disk"
)

// openFuzz makes a server and a connection whose peer is never looked at.
func openFuzz(f *testing.F) *conn {
	f.Helper()
	journal, err := disk.Open(f.TempDir(), disk.Options{Defaults: log.TopicConfig{Partitions: 1}})
	if err != nil {
		f.Fatal(err)
	}
	server, err := Listen(journal, Options{Address: "127.0.0.1:0", MaxPartitions: 8, RebalanceDelay: time.Millisecond})
	if err != nil {
		f.Fatal(err)
	}
	if err := journal.CreateTopic(f.Context(), "t", log.TopicConfig{Compact: true}); err != nil {
		f.Fatal(err)
	}
	here, there := net.Pipe()
	f.Cleanup(func() {
		here.Close()
		there.Close()
		if err := server.Close(); err != nil {
			f.Error(err)
		}
		if err := journal.Close(); err != nil {
			f.Error(err)
		}
	})
	return newConn(server, here)
}

// FuzzRequest feeds frames to the decoder and to the handlers. None may panic.
func FuzzRequest(f *testing.F) {
	c := openFuzz(f)
	formatter := kmsg.NewRequestFormatter(kmsg.FormatterClientID("fuzz"))
	for key, a := range c.s.apis {
		for _, v := range []int16{a.serve, a.max} {
			req := kmsg.RequestForKey(key)
			req.SetVersion(v)
			f.Add(formatter.AppendRequest(nil, req, 1)[4:])
		}
	}
	f.Add(formatter.AppendRequest(nil, produceRequest(8, "t", []byte("no batch")), 1)[4:])
	f.Add(formatter.AppendRequest(nil, fetchRequest(11, "t", 0, 100), 1)[4:])
	f.Fuzz(func(t *testing.T, frame []byte) {
		r, p, err := c.decode(append([]byte{}, frame...))
		if err != nil {
			return
		}
		a := c.s.dispatch(r)
		if a.response == nil {
			return // it may wait
		}
		out := a.response.AppendTo(nil)
		if again := kmsg.ResponseForKey(a.response.Key()); r.message != nil {
			again.SetVersion(a.response.GetVersion())
			if err := again.ReadFrom(out); err != nil {
				t.Errorf("key %d version %d, flexible %v: the response cannot be read: %v", r.key, r.version, p.flexible, err)
			}
		}
	})
}

// FuzzProduce feeds bytes as a batch. What is taken can be read again, and the log goes on.
func FuzzProduce(f *testing.F) {
	c := openFuzz(f)
	var b batch.Builder
	b.Append(&log.Record{Key: []byte("k"), Value: []byte("v")}, 1)
	for codec := range log.Compression(5) {
		good, err := b.Build(nil, codec, batch.NoProducer, false)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(good, true)
	}
	f.Fuzz(func(t *testing.T, raw []byte, repair bool) {
		raw = append([]byte{}, raw...)
		if repair && len(raw) >= batch.HeaderSize {
			binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
			binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
		}
		a := c.s.dispatch(&request{c: c, version: 8, message: produceRequest(8, "t", raw)})
		resp := a.later().response.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		if resp.ErrorCode != 0 {
			return
		}
		chunk, _, err := c.s.journal.FindBatches(log.TopicPartition{Topic: "t"}, resp.BaseOffset, 1<<20, 1<<20, false)
		if err != nil || len(chunk.Bytes) == 0 {
			t.Fatalf("the batch at %d cannot be read: %v", resp.BaseOffset, err)
		}
	})
}
