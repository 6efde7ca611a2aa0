package kafka_test

import (
	"testing"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/disk"
	"github.com/trunkline/trunkline/log/kafka"
	"github.com/trunkline/trunkline/log/kafka/localcluster"
)

// benchTransaction is how many records of 200 bytes one commit carries, as those of a source do.
const benchTransaction = 1000

// BenchmarkClusterCommits writes transactions with their marks to one Kafka broker, and to the embedded log for comparison:
// what a source costs beside reading it. records/s is the figure to look at.
func BenchmarkClusterCommits(b *testing.B) {
	b.Run("cluster", func(b *testing.B) {
		c, err := localcluster.Start(b.Context(), b.TempDir(), localcluster.Options{Heap: "1g", Java: []string{"-Xms1g", "-server", "-XX:+UseG1GC"}})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			if err := c.Close(); err != nil {
				b.Error(err)
			}
		})
		l, err := kafka.Open(b.Context(), kafka.Options{Brokers: c.Addresses})
		if err != nil {
			b.Fatal(err)
		}
		commits(b, l)
	})
	b.Run("embedded", func(b *testing.B) {
		l, err := disk.Open(b.TempDir(), disk.Options{})
		if err != nil {
			b.Fatal(err)
		}
		commits(b, l)
	})
}

func commits(b *testing.B, l log.Log) {
	b.Helper()
	must := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	ctx := b.Context()
	tp := log.TopicPartition{Topic: "orders"}
	must(l.CreateTopic(ctx, tp.Topic, log.TopicConfig{Partitions: 1}))
	p, _, err := l.Producer(ctx, "bench")
	must(err)
	records := make([]log.Record, benchTransaction)
	for i := range records {
		value := make([]byte, 200)
		for j := range value {
			value[j] = byte(i * (j + 1) >> 3)
		}
		records[i] = log.Record{Value: value}
	}
	n := 0
	for b.Loop() {
		must(p.Append(ctx, tp, records...))
		must(p.Commit(ctx, []byte("m")))
		n += benchTransaction
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "records/s")
	must(p.Close(ctx))
	must(l.Close())
}
