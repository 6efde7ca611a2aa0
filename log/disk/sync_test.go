package disk_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/disk"
	"github.com/trunkline/trunkline/log/vfs"
)

// slowSync is a disk whose sync takes as long as that of a real one.
type slowSync struct{ vfs.FS }

type slowFile struct{ vfs.File }

func (f slowSync) Open(name string, flag int) (vfs.File, error) {
	file, err := f.FS.Open(name, flag)
	if err != nil {
		return nil, err
	}
	return slowFile{file}, nil
}

func (f slowFile) Sync() error {
	<-time.After(time.Millisecond)
	return f.File.Sync()
}

func TestConcurrentAppendsShareSyncs(t *testing.T) {
	t.Parallel()
	const writers, each = 16, 20
	faults := vfs.NewFaults(vfs.NewMemory())
	l := open(t, "log", disk.Options{FS: slowSync{faults}})
	defer closeLog(t, l)
	createOrders(t, l, log.TopicConfig{})
	before := faults.Count(vfs.OpSync)
	var wait sync.WaitGroup
	for w := range writers {
		wait.Go(func() {
			for i := range each {
				if _, err := l.Append(t.Context(), orders(0), log.Record{Value: fmt.Appendf(nil, "%d %d", w, i)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	if n := len(readPartition(t, l, orders(0))); n != writers*each {
		t.Errorf("%d records, want %d", n, writers*each)
	}
	if syncs := faults.Count(vfs.OpSync) - before; syncs > writers*each/4 {
		t.Errorf("%d appends took %d syncs", writers*each, syncs)
	}
}

// A start needs no room, not even to end the transaction that a crash left open.
func TestFullDiskOpensAfterACrash(t *testing.T) {
	t.Parallel()
	memory := vfs.NewMemory()
	l := open(t, "log", disk.Options{FS: memory, BatchBytes: 64, FlushInterval: time.Hour})
	createOrders(t, l, log.TopicConfig{})
	p, _, err := l.Producer(t.Context(), "source")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := p.Append(t.Context(), orders(0), log.Record{Value: make([]byte, 200)}); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			if err := p.Commit(t.Context(), []byte("m")); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := p.Append(t.Context(), orders(0)); err != nil {
		t.Fatal(err)
	}
	crashed := memory.Crash(1, rand.New(rand.NewPCG(1, 1)))
	closeLog(t, l)

	faults := vfs.NewFaults(crashed)
	faults.SetRoom(0)
	l = open(t, "log", disk.Options{FS: faults, FlushInterval: time.Millisecond})
	if n := len(readPartition(t, l, orders(0))); n != 1 {
		t.Errorf("%d records, want the one that was committed", n)
	}
	faults.SetRoom(1 << 20)
	appendValues(t, l, orders(0), "a")
	if n := len(readPartition(t, l, orders(0))); n != 2 {
		t.Errorf("%d records with room again, want 2", n)
	}
	closeLog(t, l)
	l = open(t, "log", disk.Options{FS: crashed})
	defer closeLog(t, l)
	if n := len(readPartition(t, l, orders(0))); n != 2 {
		t.Errorf("%d records after a reopen, want 2", n)
	}
}

// After a clean end nothing is read of what is large.
func TestCleanStartReadsLittle(t *testing.T) {
	t.Parallel()
	memory := vfs.NewMemory()
	l := open(t, "log", disk.Options{FS: memory})
	createOrders(t, l, log.TopicConfig{})
	value := make([]byte, 1<<20)
	for range 40 {
		appendValues(t, l, orders(0), string(value))
	}
	closeLog(t, l)
	faults := vfs.NewFaults(memory)
	l = open(t, "log", disk.Options{FS: faults})
	defer closeLog(t, l)
	if n := faults.Count(vfs.OpRead); n > 30 {
		t.Errorf("a start after a clean end read %d times", n)
	}
	if n := len(readPartition(t, l, orders(0))); n != 40 {
		t.Errorf("%d records, want 40", n)
	}
}
