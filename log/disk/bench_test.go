//go:build unix

package disk_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/disk"
)

// rowsPerCommit and rowBytes are a batch of capture: rows as Debezium's JSON.
const rowsPerCommit, rowBytes = 5000, 560

// jsonRows makes rows that compress as rows do: the same frame, different values.
func jsonRows(n int) (keys, values [][]byte) {
	for i := range n {
		keys = append(keys, fmt.Appendf(nil, `{"id":%d}`, i))
		v := fmt.Appendf(nil, `{"before":null,"after":{"id":%d,"customer":%d,"sku":"SKU-%08x","quantity":%d,"price":"%d.%02d",`+
			`"note":"%x","created_at":"2026-01-30T12:34:%02d.%06dZ"},"source":{"version":"1","connector":"postgres","name":"shop",`+
			`"ts_ms":1769776496000,"snapshot":"false","db":"shop","sequence":"[\"24023128\",\"24023128\"]","schema":"public",`+
			`"table":"orders","txId":%d,"lsn":%d},"op":"c","ts_ms":1769776496123,"ts_us":1769776496123456,"ts_ns":1769776496123456789,"transaction":null`,
			i, i*7919%100003, uint32(i)*2654435761, i%17, i%997, i%100, uint64(i)*11400714819323198485, i%60, i*31%1000000, i/10, 24023128+i*96)
		for len(v) < rowBytes-1 {
			v = append(v, ' ')
		}
		values = append(values, append(v, '}'))
	}
	return keys, values
}

func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func benchLog(b *testing.B, c log.Compression) *disk.Log {
	l, err := disk.Open(b.TempDir(), disk.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := l.Close(); err != nil {
			b.Error(err)
		}
	})
	if err := l.CreateTopic(b.Context(), "orders", log.TopicConfig{Compression: &c}); err != nil {
		b.Fatal(err)
	}
	return l
}

func commitRows(b *testing.B, ctx context.Context, p log.Producer, keys, values [][]byte) {
	for i := range keys {
		tp := log.TopicPartition{Topic: "orders", Partition: log.PartitionFor(keys[i], 4)}
		if err := p.Append(ctx, tp, log.Record{Key: keys[i], Value: values[i], Timestamp: 1769776496123}); err != nil {
			b.Fatal(err)
		}
	}
	if err := p.Commit(ctx, []byte("mark")); err != nil {
		b.Fatal(err)
	}
}

func benchCodecs(b *testing.B, run func(b *testing.B, c log.Compression)) {
	for _, c := range []log.Compression{log.CompressionZstd, log.CompressionLZ4, log.CompressionNone} {
		b.Run(c.String(), func(b *testing.B) { run(b, c) })
	}
}

// BenchmarkCommit commits transactions of 5,000 rows over four partitions.
func BenchmarkCommit(b *testing.B) {
	keys, values := jsonRows(rowsPerCommit)
	benchCodecs(b, func(b *testing.B, c log.Compression) {
		l := benchLog(b, c)
		p, _, err := l.Producer(b.Context(), "bench")
		if err != nil {
			b.Fatal(err)
		}
		commitRows(b, b.Context(), p, keys, values)
		b.ReportAllocs()
		b.ResetTimer()
		start, before := time.Now(), cpu(b)
		for range b.N {
			commitRows(b, b.Context(), p, keys, values)
		}
		report(b, rowsPerCommit*b.N, time.Since(start), cpu(b)-before)
	})
}

func report(b *testing.B, rows int, wall, cpu time.Duration) {
	b.ReportMetric(float64(cpu.Nanoseconds())/1e3/float64(rows), "cpu-µs/row")
	b.ReportMetric(float64(rows)/wall.Seconds(), "rows/s")
}

// BenchmarkCommitOne commits one row at a time: two rounds of fdatasync.
func BenchmarkCommitOne(b *testing.B) {
	keys, values := jsonRows(1)
	l := benchLog(b, log.CompressionZstd)
	p, _, err := l.Producer(b.Context(), "bench")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		commitRows(b, b.Context(), p, keys, values)
	}
}

// BenchmarkPoll reads what BenchmarkCommit writes.
func BenchmarkPoll(b *testing.B) {
	const commits = 20
	keys, values := jsonRows(rowsPerCommit)
	benchCodecs(b, func(b *testing.B, codec log.Compression) {
		l := benchLog(b, codec)
		p, _, err := l.Producer(b.Context(), "bench")
		if err != nil {
			b.Fatal(err)
		}
		for range commits {
			commitRows(b, b.Context(), p, keys, values)
		}
		c, err := l.Consumer(b.Context(), log.ConsumerOptions{Group: "bench", Topics: []string{"orders"}})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		b.ResetTimer()
		start, before := time.Now(), cpu(b)
		for range b.N {
			for n := 0; n < commits*rowsPerCommit; {
				f, err := c.Poll(b.Context(), 5000)
				if err != nil {
					b.Fatal(err)
				}
				n += len(f.Records)
			}
			for tp := range c.Assignment() {
				if err := c.Seek(tp, 0); err != nil {
					b.Fatal(err)
				}
			}
		}
		report(b, commits*rowsPerCommit*b.N, time.Since(start), cpu(b)-before)
	})
}

// BenchmarkCommitToReadable commits one row at a time and measures until a consumer that waits has it.
func BenchmarkCommitToReadable(b *testing.B) {
	keys, values := jsonRows(1)
	l := benchLog(b, log.CompressionZstd)
	p, _, err := l.Producer(b.Context(), "bench")
	if err != nil {
		b.Fatal(err)
	}
	c, err := l.Consumer(b.Context(), log.ConsumerOptions{Group: "bench", Topics: []string{"orders"}})
	if err != nil {
		b.Fatal(err)
	}
	start, read := make(chan time.Time, 1), make(chan time.Duration, 1)
	go func() {
		for began := range start {
			for {
				f, err := c.Poll(b.Context(), 10)
				if err != nil {
					return
				}
				if len(f.Records) > 0 {
					break
				}
			}
			read <- time.Since(began)
		}
		close(read)
	}()
	var all, wake []time.Duration
	for b.Loop() {
		start <- time.Now()
		commitRows(b, b.Context(), p, keys, values)
		committed := time.Now()
		all = append(all, <-read)
		wake = append(wake, time.Since(committed))
	}
	close(start)
	<-read
	slices.Sort(all)
	slices.Sort(wake)
	b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-µs")
	b.ReportMetric(float64(wake[len(wake)/2].Microseconds()), "wake-p50-µs")
}

// BenchmarkLargeTransaction commits b.N rows in one transaction and reports the largest heap.
func BenchmarkLargeTransaction(b *testing.B) {
	keys, values := jsonRows(rowsPerCommit)
	l := benchLog(b, log.CompressionZstd)
	p, _, err := l.Producer(b.Context(), "bench")
	if err != nil {
		b.Fatal(err)
	}
	peak := uint64(0)
	b.ResetTimer()
	start, before := time.Now(), cpu(b)
	for i := range b.N {
		k := i % rowsPerCommit
		tp := log.TopicPartition{Topic: "orders", Partition: log.PartitionFor(keys[k], 4)}
		if err := p.Append(b.Context(), tp, log.Record{Key: keys[k], Value: values[k], Timestamp: 1769776496123}); err != nil {
			b.Fatal(err)
		}
		if i%100_000 == 0 {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			peak = max(peak, m.HeapInuse)
		}
	}
	if err := p.Commit(b.Context(), []byte("mark")); err != nil {
		b.Fatal(err)
	}
	report(b, b.N, time.Since(start), cpu(b)-before)
	b.ReportMetric(float64(peak)/(1<<20), "heap-MiB")
}
