package broker

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/disk"
)

// openBench is openRig for benchmarks.
func openBench(b *testing.B) string {
	journal, err := disk.Open(b.TempDir(), disk.Options{})
	if err != nil {
		b.Fatal(err)
	}
	server, err := Listen(journal, Options{Address: "127.0.0.1:0"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := server.Close(); err != nil {
			b.Error(err)
		}
		if err := journal.Close(); err != nil {
			b.Error(err)
		}
	})
	if err := journal.CreateTopic(context.Background(), "t", log.TopicConfig{Partitions: 1}); err != nil {
		b.Fatal(err)
	}
	return server.Addr().String()
}

func benchClient(b *testing.B, address string, opts ...kgo.Opt) *kgo.Client {
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(address), kgo.DisableClientMetrics(), kgo.DefaultProduceTopic("t"),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerBatchMaxBytes(1 << 20), kgo.MaxBufferedRecords(100_000)}, opts...)...)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	return c
}

func produceAll(b *testing.B, c *kgo.Client, n, size int) {
	value := make([]byte, size)
	for range n {
		c.Produce(context.Background(), &kgo.Record{Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				b.Error(err)
			}
		})
	}
	if err := c.Flush(context.Background()); err != nil {
		b.Fatal(err)
	}
}

var recordSizes = map[string]int{"200B": 200, "1KiB": 1024}

// BenchmarkProduce measures acknowledged and synced records; the client is in the same process and takes half the time.
func BenchmarkProduce(b *testing.B) {
	for name, size := range recordSizes {
		b.Run(name, func(b *testing.B) {
			c := benchClient(b, openBench(b))
			produceAll(b, c, 1000, size)
			b.SetBytes(int64(size))
			b.ResetTimer()
			produceAll(b, c, b.N, size)
		})
	}
}

// BenchmarkFetch measures records from the page cache, client included.
func BenchmarkFetch(b *testing.B) {
	for name, size := range recordSizes {
		b.Run(name, func(b *testing.B) {
			address := openBench(b)
			produceAll(b, benchClient(b, address), b.N, size)
			b.SetBytes(int64(size))
			b.ResetTimer()
			c := benchClient(b, address, kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxPartitionBytes(10<<20))
			for n := 0; n < b.N; {
				f := c.PollFetches(context.Background())
				if err := f.Err(); err != nil {
					b.Fatal(err)
				}
				n += f.NumRecords()
			}
		})
	}
}
