package disk_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/disk"
	"github.com/trunkline/trunkline/log/vfs"
)

func orders(partition int32) log.TopicPartition {
	return log.TopicPartition{Topic: "orders", Partition: partition}
}

func createOrders(t *testing.T, l *disk.Log, c log.TopicConfig) {
	t.Helper()
	if c.Partitions == 0 {
		c.Partitions = 1
	}
	none := log.CompressionNone
	if c.Compression == nil {
		c.Compression = &none
	}
	if err := l.CreateTopic(t.Context(), "orders", c); err != nil {
		t.Fatal(err)
	}
}

func appendValues(t *testing.T, l log.Log, tp log.TopicPartition, values ...string) {
	t.Helper()
	for _, v := range values {
		if _, err := l.Append(t.Context(), tp, log.Record{Value: []byte(v)}); err != nil {
			t.Fatal(err)
		}
	}
}

// wantValues compares all committed records of a partition.
func wantValues(t *testing.T, l log.Log, tp log.TopicPartition, want ...string) {
	t.Helper()
	var got []string
	for _, r := range readPartition(t, l, tp) {
		got = append(got, string(r.Value))
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s-%d holds %q, want %q", tp.Topic, tp.Partition, got, want)
	}
}

func TestDirectoryInUseIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := open(t, dir, disk.Options{})
	if _, err := disk.Open(dir, disk.Options{}); !errors.Is(err, log.ErrLocked) {
		t.Errorf("second open: %v, want %v", err, log.ErrLocked)
	}
	closeLog(t, l)
	closeLog(t, open(t, dir, disk.Options{}))
}

// fillDisk appends until the disk is full and returns how many records were acknowledged, and what a transaction that
// was tried then was told.
func fillDisk(t *testing.T, l *disk.Log, value []byte) (acked int) {
	t.Helper()
	for {
		_, err := l.Append(t.Context(), orders(0), log.Record{Value: value})
		if errors.Is(err, log.ErrFull) {
			return acked
		}
		if err != nil {
			t.Fatal(err)
		}
		acked++
	}
}

func commitFull(t *testing.T, l *disk.Log, value []byte) {
	t.Helper()
	p, _, err := l.Producer(t.Context(), "source")
	if err == nil {
		for range 10 {
			if err = p.Append(t.Context(), orders(0), log.Record{Value: value}); err != nil {
				break
			}
		}
		if err == nil {
			err = p.Commit(t.Context(), []byte("never"))
		}
	}
	if !errors.Is(err, log.ErrFull) {
		t.Fatalf("commit on a full disk: %v, want %v", err, log.ErrFull)
	}
}

// checkAfterFull makes sure that the log reads while it is full, and writes by itself once there is room.
func checkAfterFull(t *testing.T, l *disk.Log, acked int, value []byte, makeRoom func()) {
	t.Helper()
	if n := len(readPartition(t, l, orders(0))); n != acked {
		t.Fatalf("%d records are readable on the full disk, want %d", n, acked)
	}
	makeRoom()
	p, mark, err := l.Producer(t.Context(), "source")
	if err != nil {
		t.Fatal(err)
	}
	if mark != nil {
		t.Fatalf("mark is %q, the commit that would have stored it failed", mark)
	}
	if err := p.Append(t.Context(), orders(0), log.Record{Value: value}); err != nil {
		t.Fatal(err)
	}
	if err := p.Commit(t.Context(), []byte("m")); err != nil {
		t.Fatal(err)
	}
	if n := len(readPartition(t, l, orders(0))); n != acked+1 {
		t.Fatalf("%d records are readable with room again, want %d", n, acked+1)
	}
}

func TestFullDiskStopsWritersOnly(t *testing.T) {
	t.Parallel()
	faults := vfs.NewFaults(vfs.NewMemory())
	l := open(t, "log", disk.Options{FS: faults, BatchBytes: 4 << 10})
	createOrders(t, l, log.TopicConfig{})
	value := make([]byte, 3000)
	faults.SetRoom(100_000)
	acked := fillDisk(t, l, value)
	commitFull(t, l, value)
	checkAfterFull(t, l, acked, value, func() { faults.SetRoom(1 << 20) })
	closeLog(t, l)
	l = open(t, "log", disk.Options{FS: faults})
	defer closeLog(t, l)
	if n := len(readPartition(t, l, orders(0))); n != acked+1 {
		t.Errorf("%d records after a reopen, want %d", n, acked+1)
	}
}

func TestFailedSyncIsNeverAcknowledged(t *testing.T) {
	t.Parallel()
	memory := vfs.NewMemory()
	faults := vfs.NewFaults(memory)
	l := open(t, "log", disk.Options{FS: faults, FlushInterval: time.Hour})
	createOrders(t, l, log.TopicConfig{})
	appendValues(t, l, orders(0), "a", "b")
	faults.SetRules(vfs.Rule{Op: vfs.OpSync, Times: 1})
	if _, err := l.Append(t.Context(), orders(0), log.Record{Value: []byte("lost")}); err == nil {
		t.Fatal("an append whose sync failed was acknowledged")
	}
	appendValues(t, l, orders(0), "c")
	wantValues(t, l, orders(0), "a", "b", "c")
	closeLog(t, l)
	l = open(t, "log", disk.Options{FS: memory})
	defer closeLog(t, l)
	wantValues(t, l, orders(0), "a", "b", "c")
}

func TestCommitWhoseSyncFailsLeavesNothing(t *testing.T) {
	t.Parallel()
	for nth, what := range []string{1: "of the data", 2: "of the decision"} {
		if what == "" {
			continue
		}
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			faults := vfs.NewFaults(vfs.NewMemory())
			l := open(t, "log", disk.Options{FS: faults, FlushInterval: time.Hour})
			defer closeLog(t, l)
			createOrders(t, l, log.TopicConfig{})
			p, _, err := l.Producer(t.Context(), "source")
			if err != nil {
				t.Fatal(err)
			}
			for i, v := range []string{"a", "lost"} {
				if err := p.Append(t.Context(), orders(0), log.Record{Value: []byte(v)}); err != nil {
					t.Fatal(err)
				}
				if i == 1 {
					faults.SetRules(vfs.Rule{Op: vfs.OpSync, Nth: nth, Times: 1})
				}
				if err := p.Commit(t.Context(), []byte(v)); (err == nil) != (i == 0) {
					t.Fatalf("commit of %s: %v", v, err)
				}
			}
			p, mark, err := l.Producer(t.Context(), "source")
			if err != nil {
				t.Fatal(err)
			}
			if string(mark) != "a" {
				t.Errorf("mark is %q, want a", mark)
			}
			if err := p.Append(t.Context(), orders(0), log.Record{Value: []byte("b")}); err != nil {
				t.Fatal(err)
			}
			if err := p.Commit(t.Context(), []byte("b")); err != nil {
				t.Fatal(err)
			}
			wantValues(t, l, orders(0), "a", "b")
		})
	}
}

// While nobody can say whether the decision is durable, the transaction stays open, and the id opens again only once
// that is known.
func TestUnknownOutcomeIsSettledBeforeTheProducerOpensAgain(t *testing.T) {
	t.Parallel()
	faults := vfs.NewFaults(vfs.NewMemory())
	l := open(t, "log", disk.Options{FS: faults, FlushInterval: time.Hour})
	defer closeLog(t, l)
	createOrders(t, l, log.TopicConfig{})
	p, _, err := l.Producer(t.Context(), "source")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Append(t.Context(), orders(0), log.Record{Value: []byte("lost")}); err != nil {
		t.Fatal(err)
	}
	faults.SetRules(vfs.Rule{Op: vfs.OpSync, Nth: 2}, vfs.Rule{Op: vfs.OpTruncate})
	if err := p.Commit(t.Context(), []byte("lost")); err == nil {
		t.Fatal("a commit whose decision is in doubt was acknowledged")
	}
	if _, _, err := l.Producer(t.Context(), "source"); err == nil {
		t.Fatal("the producer opened although the outcome of its last commit is not known")
	}
	wantValues(t, l, orders(0))
	faults.SetRules()
	if _, mark, err := l.Producer(t.Context(), "source"); err != nil || mark != nil {
		t.Fatalf("open with a good disk: mark %q, %v", mark, err)
	}
	appendValues(t, l, orders(0), "a")
	wantValues(t, l, orders(0), "a")
}

func TestWaitingPollEndsWhenTheLogCloses(t *testing.T) {
	t.Parallel()
	l := open(t, t.TempDir(), disk.Options{})
	createOrders(t, l, log.TopicConfig{})
	c, err := l.Consumer(t.Context(), log.ConsumerOptions{Group: "g", Topics: []string{"orders"}})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		_, err := c.Poll(context.Background(), 1)
		done <- err
	}()
	closeLog(t, l)
	if err := <-done; !errors.Is(err, log.ErrClosed) {
		t.Errorf("poll: %v, want %v", err, log.ErrClosed)
	}
}
