package disk_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/batch"
	"github.com/trunkline/trunkline/log/disk"
	"github.com/trunkline/trunkline/log/vfs"
)

// countedSync is the real disk with a count of syncs.
type countedSync struct {
	vfs.OS
	syncs *atomic.Int64
}

type countedFile struct {
	vfs.File
	syncs *atomic.Int64
}

func (f countedSync) Open(name string, flag int) (vfs.File, error) {
	file, err := f.OS.Open(name, flag)
	return countedFile{file, f.syncs}, err
}

func (f countedFile) Sync() error {
	f.syncs.Add(1)
	return f.File.Sync()
}

// clientBatch is the batch that Kafka's producer sends by default, and clientRequests how many requests it has in flight.
const clientBatch, clientRequests = 16 << 10, 5

// maxPlain is how many batches are enough to know what one costs.
const maxPlain = 1000

// BenchmarkAlways does what the broker does under fsync: always for one client that pushes as Kafka's producer does: each
// request has a batch for every partition and is answered once all are durable. Beside it a plain loop writes the same
// batches to one file, each with a sync of its own; vs-plain is the ratio of bytes per second.
func BenchmarkAlways(b *testing.B) {
	for _, partitions := range []int32{1, 12} {
		b.Run(fmt.Sprintf("partitions=%d", partitions), func(b *testing.B) {
			run := alwaysBatch(b)
			syncs := new(atomic.Int64)
			l, err := disk.Open(b.TempDir(), disk.Options{FS: countedSync{syncs: syncs}})
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			if err := l.CreateTopic(b.Context(), "t", log.TopicConfig{Partitions: partitions}); err != nil {
				b.Fatal(err)
			}
			before := syncs.Load()
			b.SetBytes(int64(len(run)) * int64(partitions))
			b.ResetTimer()
			took := push(b, l, partitions, run)
			b.StopTimer()
			batches := float64(b.N) * float64(partitions)
			b.ReportMetric(float64(syncs.Load()-before)/batches, "syncs/batch")
			b.ReportMetric(float64(syncs.Load()-before)/took.Seconds(), "syncs/s")
			count := min(int(batches), maxPlain)
			plain := plainLoop(b, count, run).Seconds() / float64(count)
			b.ReportMetric(plain/(took.Seconds()/batches), "vs-plain")
		})
	}
}

func alwaysBatch(b *testing.B) []byte {
	var builder batch.Builder
	for i := 0; builder.Size() < clientBatch; i++ {
		builder.Append(&log.Record{Value: fmt.Appendf(nil, "%0100d", i)}, 1000)
	}
	run, err := builder.Build(nil, log.CompressionNone, batch.NoProducer, false)
	if err != nil {
		b.Fatal(err)
	}
	return run
}

// push sends b.N requests through a connection: a byte stands for a request, and a byte for its answer, so that the way
// between client and log takes its time.
func push(b *testing.B, l *disk.Log, partitions int32, run []byte) time.Duration {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer listener.Close()
	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	server, err := listener.Accept()
	if err != nil {
		b.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- serveBatches(server, l, partitions, run) }()
	start := time.Now()
	one := make([]byte, 1)
	for i := range b.N + clientRequests {
		if i >= clientRequests {
			if _, err := io.ReadFull(client, one); err != nil {
				b.Fatal(errors.Join(err, <-served))
			}
		}
		if i < b.N {
			if _, err := client.Write(one); err != nil {
				b.Fatal(err)
			}
		}
		if i-clientRequests >= b.N-1 {
			break
		}
	}
	took := time.Since(start)
	client.Close()
	if err := <-served; err != nil {
		b.Fatal(err)
	}
	return took
}

// serveBatches is the broker's side: one goroutine reads and appends, another waits and answers.
func serveBatches(conn net.Conn, l *disk.Log, partitions int32, run []byte) error {
	defer conn.Close()
	waiting, answered := make(chan []disk.Appended, clientRequests), make(chan error, 1)
	go func() {
		var failed error
		for list := range waiting {
			failed = errors.Join(failed, errors.Join(disk.WaitAll(list)...))
			if _, err := conn.Write([]byte{0}); err != nil {
				failed = errors.Join(failed, err)
			}
		}
		answered <- failed
	}()
	one := make([]byte, 1)
	for {
		if _, err := io.ReadFull(conn, one); err != nil { // the client has gone
			close(waiting)
			return <-answered
		}
		list := make([]disk.Appended, partitions)
		for p := range partitions {
			var err error
			if list[p], err = l.AppendBatch(log.TopicPartition{Topic: "t", Partition: p}, run); err != nil {
				close(waiting)
				return errors.Join(err, <-answered)
			}
		}
		waiting <- list
	}
}

// plainLoop writes batches to a file and syncs after each.
func plainLoop(b *testing.B, batches int, run []byte) time.Duration {
	f, err := vfs.OS{}.Open(filepath.Join(b.TempDir(), "plain"), os.O_RDWR|os.O_CREATE)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	start := time.Now()
	for i := range batches {
		if _, err := f.WriteAt(run, int64(i*len(run))); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
	}
	return time.Since(start)
}
