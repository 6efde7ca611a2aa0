package disk_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/batch"
	"github.com/trunkline/trunkline/log/disk"
	"github.com/trunkline/trunkline/log/vfs"
)

const pushedPartitions = 2

// pushers are clients that each have several requests on their way, some with a batch for one partition and some for all,
// so that their syncs are shared, wait for each other and run side by side.
type pushers struct {
	t     *testing.T
	l     *disk.Log
	round int

	mu    sync.Mutex
	acked map[log.TopicPartition]map[int64]string // the value of the first record by its offset
	tried atomic.Int64
	ended func() bool // no more is sent, and what is acknowledged from then on does not count
}

func (p *pushers) run(clients int) {
	p.acked = map[log.TopicPartition]map[int64]string{}
	var running sync.WaitGroup
	for c := range clients {
		running.Go(func() { p.client(c) })
	}
	running.Wait()
}

// client appends in one goroutine and waits in another, as a connection of the broker does.
func (p *pushers) client(c int) {
	type request struct {
		waits  []disk.Appended
		tps    []log.TopicPartition
		values []string
	}
	sent, answered := make(chan request, 4), make(chan struct{})
	go func() {
		defer close(answered)
		for r := range sent {
			for i, err := range disk.WaitAll(r.waits) {
				p.mu.Lock()
				if err == nil && !p.ended() {
					if p.acked[r.tps[i]] == nil {
						p.acked[r.tps[i]] = map[int64]string{}
					}
					p.acked[r.tps[i]][r.waits[i].First] = r.values[i]
				}
				p.mu.Unlock()
			}
		}
	}()
	for n := 0; !p.ended(); n++ {
		var r request
		for part := range int32(pushedPartitions) {
			if c%pushedPartitions != int(part) && n%3 > 0 {
				continue
			}
			tp, value := log.TopicPartition{Topic: "t", Partition: part}, fmt.Sprintf("%d-%d-%d", p.round, c, n)
			p.tried.Add(1)
			a, err := p.l.AppendBatch(tp, valueBatch(p.t, value))
			if err != nil {
				continue // of a sync that failed
			}
			r.waits, r.tps, r.values = append(r.waits, a), append(r.tps, tp), append(r.values, value)
		}
		sent <- r
	}
	close(sent)
	<-answered
}

// valueBatch is a batch of one record.
func valueBatch(t *testing.T, value string) []byte {
	var b batch.Builder
	b.Append(&log.Record{Value: []byte(value)}, 1000)
	out, err := b.Build(nil, log.CompressionNone, batch.NoProducer, false)
	if err != nil {
		t.Error(err)
	}
	return out
}

// check reads everything and looks for what was acknowledged.
func (p *pushers) check(l *disk.Log) {
	p.t.Helper()
	for part := range int32(pushedPartitions) {
		tp := log.TopicPartition{Topic: "t", Partition: part}
		got, seen := map[int64]string{}, map[string]bool{}
		for _, r := range readPartition(p.t, l, tp) {
			got[r.Offset] = string(r.Value)
			if seen[string(r.Value)] {
				p.t.Fatalf("round %d: %s is in partition %d twice", p.round, r.Value, part)
			}
			seen[string(r.Value)] = true
		}
		for offset, value := range p.acked[tp] {
			if got[offset] != value {
				p.t.Fatalf("round %d: %s was acknowledged at %d of partition %d, where there is %q", p.round, value, offset, part, got[offset])
			}
		}
	}
}

func (p *pushers) create() {
	p.t.Helper()
	err := p.l.CreateTopic(p.t.Context(), "t", log.TopicConfig{Partitions: pushedPartitions, SegmentBytes: 4 << 10})
	if err != nil && !errors.Is(err, log.ErrTopicExists) {
		p.t.Fatal(err)
	}
}

func TestWhatSharedSyncsAcknowledgedSurvivesAPowerCut(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(7, 8))
	memory := vfs.NewMemory()
	total := 0
	for round := range 25 {
		fsys := newCrashFS(memory)
		l := open(t, "log", disk.Options{FS: slowSync{fsys}})
		p := &pushers{t: t, l: l, round: round, ended: fsys.taken}
		p.create()
		fsys.arm(rng.IntN(80), rng.Float64(), rng.Uint64(), func() {})
		p.run(4)
		memory = fsys.disarm()
		closeLog(t, l)
		after := open(t, "log", disk.Options{FS: memory})
		p.check(after)
		closeLog(t, after)
		for _, m := range p.acked {
			total += len(m)
		}
	}
	if total < 50 {
		t.Errorf("only %d batches were acknowledged in all rounds", total)
	}
}

// A sync that fails is nobody's success, and those that come after it go on.
func TestSharedSyncThatFailsAcknowledgesNobody(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(9, 10))
	for round := range 10 {
		memory := vfs.NewMemory()
		faults := vfs.NewFaults(memory)
		l := open(t, "log", disk.Options{FS: slowSync{faults}})
		p := &pushers{t: t, l: l, round: round}
		p.ended = func() bool { return p.tried.Load() > 1000 || p.tried.Load() > 150 && l.Counters.WriteErrors.Load() > 0 }
		p.create()
		faults.SetRules(vfs.Rule{Op: vfs.OpSync, Path: "*.log", Nth: 1 + rng.IntN(8), Times: 1 + rng.IntN(3), Err: syscall.EIO})
		p.run(4)
		if l.Counters.WriteErrors.Load() == 0 {
			t.Fatalf("round %d: no sync has failed", round)
		}
		p.check(l)
		crashed := memory.Crash(0, nil)
		closeLog(t, l)
		after := open(t, "log", disk.Options{FS: crashed})
		p.check(after)
		closeLog(t, after)
	}
}
