package broker

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestLargeFetchIsWhatTheFileHolds compares fetched bytes with those of the segment, in every codec, over plain TCP, where
// the kernel moves them, and over TLS.
func TestLargeFetchIsWhatTheFileHolds(t *testing.T) {
	t.Parallel()
	server, client := pair(t)
	for name, secure := range map[string]bool{"over TCP": false, "over TLS": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var o Options
			var opts []kgo.Opt
			if secure {
				o.TLS = server
				opts = append(opts, kgo.DialTLSConfig(client))
			}
			r := openRig(t, o)
			admin := r.client(opts...)
			create := kmsg.NewPtrCreateTopicsRequest()
			topic := kmsg.NewCreateTopicsRequestTopic()
			topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "t", 1, 1
			create.Topics = append(create.Topics, topic)
			if _, err := create.RequestWith(r.context(), admin); err != nil {
				t.Fatal(err)
			}
			random := rand.NewChaCha8([32]byte{1})
			for i, codec := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()} {
				c := r.client(append(opts, kgo.ProducerBatchCompression(codec), kgo.DefaultProduceTopic("t"))...)
				for n := range 4 {
					value := make([]byte, 150<<10)
					_, _ = random.Read(value[:100<<10]) // the rest is zeros; it never fails
					if err := c.ProduceSync(r.context(), &kgo.Record{Key: fmt.Append(nil, i, n), Value: value}).FirstErr(); err != nil {
						t.Fatal(err)
					}
				}
			}
			stored, err := os.ReadFile(filepath.Join(r.dir, "t-0", fmt.Sprintf("%020d.log", 0)))
			if err != nil || len(stored) < 5*4*smallRead/2 {
				t.Fatalf("the segment has %d bytes, %v", len(stored), err)
			}
			w := r.wire()
			if secure {
				w.conn = tls.Client(w.conn, &tls.Config{RootCAs: client.RootCAs, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12})
			}
			for _, v := range []int16{4, 11, 12} {
				p := w.ask(fetchRequest(v, "t", 0, 32<<20)).(*kmsg.FetchResponse).Topics[0].Partitions[0]
				if !bytes.Equal(p.RecordBatches, stored) {
					t.Errorf("version %d: %d bytes came that are not the %d of the file", v, len(p.RecordBatches), len(stored))
				}
			}
		})
	}
}
