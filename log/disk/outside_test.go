package disk_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/batch"
	"github.com/trunkline/trunkline/log/disk"
	"github.com/trunkline/trunkline/log/vfs"
)

// outsideBatch is a batch as a client makes it, of three records that say the number.
func outsideBatch(t *testing.T, owner batch.Producer, transactional bool, number int) []byte {
	t.Helper()
	var b batch.Builder
	for range 3 {
		b.Append(&log.Record{Value: fmt.Append(nil, number)}, time.Now().UnixMilli())
	}
	out, err := b.Build(nil, log.CompressionNone, owner, transactional)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// etl is a client that moves numbers: each transaction writes one to two partitions and commits an offset with it.
type etl struct {
	t         *testing.T
	l         *disk.Log
	producer  disk.Outside
	sequences [2]int32
}

func startETL(t *testing.T, l *disk.Log) *etl {
	t.Helper()
	producer, err := l.BeginEpoch("etl", nil)
	if err != nil {
		t.Fatal(err)
	}
	return &etl{t: t, l: l, producer: producer}
}

// transact writes a number and ends with it.
func (e *etl) transact(number int, commit bool) error {
	end := disk.Ending{Transaction: "etl", Producer: e.producer, Commit: commit,
		Offsets: map[string]map[log.TopicPartition]disk.Commit{"g": {{Topic: "in"}: {Offset: int64(number + 1), Metadata: "note"}}}}
	for i := range e.sequences {
		tp := log.TopicPartition{Topic: "out", Partition: int32(i)}
		b := outsideBatch(e.t, batch.Producer{ID: e.producer.ID, Epoch: e.producer.Epoch, Sequence: e.sequences[i]}, true, number)
		e.sequences[i] += 3
		a, err := e.l.AppendBatch(tp, b)
		if err != nil {
			return err
		}
		if err := a.Wait(); err != nil {
			return err
		}
		end.Partitions = append(end.Partitions, tp)
	}
	return e.l.EndTransaction(end)
}

// committedNumbers counts what committed readers see.
func committedNumbers(t *testing.T, l *disk.Log) map[string]int {
	t.Helper()
	seen := map[string]int{}
	for p := range int32(2) {
		tp := log.TopicPartition{Topic: "out", Partition: p}
		bounds, err := l.Bounds(tp)
		if err != nil {
			t.Fatal(err)
		}
		if bounds.LastStable < bounds.HighWatermark-2 {
			t.Fatalf("partition %d: a transaction is open at %d of %d", p, bounds.LastStable, bounds.HighWatermark)
		}
		c, err := l.Consumer(t.Context(), log.ConsumerOptions{Partitions: []log.TopicPartition{tp}})
		if err != nil {
			t.Fatal(err)
		}
		for next := bounds.LogStart; next < bounds.LastStable; {
			f, err := c.Poll(t.Context(), 1000)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range f.Records {
				seen[string(r.Value)]++
			}
			next = f.Next
		}
		if err := c.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return seen
}

func TestClientsTransactionsSurvivePowerCutsWhole(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	memory := vfs.NewMemory()
	number := 0
	for round := range 60 {
		fsys := newCrashFS(memory)
		open := func(fs vfs.FS) *disk.Log {
			l, err := disk.Open("log", disk.Options{FS: fs, FlushInterval: time.Millisecond})
			if err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			return l
		}
		l := open(fsys)
		for name, n := range map[string]int32{"in": 1, "out": 2} {
			err := l.CreateTopic(t.Context(), name, log.TopicConfig{Partitions: n, SegmentBytes: 2 << 10})
			if err != nil && !errors.Is(err, log.ErrTopicExists) {
				t.Fatal(err)
			}
		}
		e := startETL(t, l)
		var cut atomic.Bool
		fsys.arm(rng.IntN(60), rng.Float64(), rng.Uint64(), func() { cut.Store(true) })
		acked := number
		for !cut.Load() {
			if rng.IntN(4) == 0 {
				if err := e.transact(1_000_000+number, false); err != nil {
					t.Fatal(err)
				}
			}
			if err := e.transact(number, true); err != nil {
				t.Fatal(err)
			}
			if !cut.Load() {
				acked = number + 1
			}
			number++
		}
		memory = fsys.disarm()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		after := open(memory)
		got := after.Committed("g")[log.TopicPartition{Topic: "in"}]
		if got.Offset < int64(acked) || got.Offset > int64(number) || got.Offset > 0 && got.Metadata != "note" {
			t.Fatalf("round %d: the offset is %+v, %d was acknowledged of %d", round, got, acked, number)
		}
		seen := committedNumbers(t, after)
		for n := range int(got.Offset) {
			if seen[fmt.Sprint(n)] != 6 {
				t.Fatalf("round %d: %d is in the log %d times, the offset says %d", round, n, seen[fmt.Sprint(n)], got.Offset)
			}
		}
		if len(seen) != int(got.Offset) {
			t.Fatalf("round %d: %d numbers, the offset says %d", round, len(seen), got.Offset)
		}
		number = int(got.Offset)
		if err := after.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestIdempotentBatchesAreKnownAfterAPowerCut(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(5, 6))
	memory := vfs.NewMemory()
	tp := log.TopicPartition{Topic: "t"}
	next, id := 0, int64(0)
	for round := range 40 {
		l, err := disk.Open("log", disk.Options{FS: memory, Defaults: log.TopicConfig{Partitions: 1, SegmentBytes: 1 << 10}})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.CreateTopic(t.Context(), "t", log.TopicConfig{}); err != nil && !errors.Is(err, log.ErrTopicExists) {
			t.Fatal(err)
		}
		if id == 0 {
			id = l.NewProducerID()
		} else if fresh := l.NewProducerID(); fresh <= id {
			t.Fatalf("round %d: producer id %d was given after %d", round, fresh, id)
		}
		end := next + 1 + rng.IntN(8)
		for again := max(0, next-1); again < end; again++ {
			a, err := l.AppendBatch(tp, outsideBatch(t, batch.Producer{ID: id, Sequence: int32(3 * again)}, false, again))
			if err == nil {
				err = a.Wait()
			}
			if err != nil || a.First != int64(3*again) || a.Duplicate != (again < next) {
				t.Fatalf("round %d: batch %d is at %d, again %v, %v", round, again, a.First, a.Duplicate, err)
			}
			next = max(next, again+1)
		}
		if rng.IntN(3) == 0 {
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			continue
		}
		picture := memory.Crash(rng.Float64(), rng)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		memory = picture
	}
}
