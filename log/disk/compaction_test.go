package disk_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/disk"
	"github.com/trunkline/trunkline/log/vfs"
)

var compacted = log.TopicConfig{Compact: true, SegmentBytes: 400}

func appendKeyed(t *testing.T, l *disk.Log, key, value string) {
	t.Helper()
	r := log.Record{Key: []byte(key), Value: []byte(value)}
	if value == "" {
		r.Value = nil
	}
	if _, err := l.Append(t.Context(), orders(0), r); err != nil {
		t.Fatal(err)
	}
}

// newest folds a partition as a reader of a compacted topic does.
func newest(t *testing.T, l *disk.Log) (state map[string]string, records int) {
	t.Helper()
	state = map[string]string{}
	for _, r := range readPartition(t, l, orders(0)) {
		records++
		if r.Value == nil {
			delete(state, string(r.Key))
			continue
		}
		state[string(r.Key)] = fmt.Sprintf("%s at %d", r.Value, r.Offset)
	}
	return state, records
}

func TestCompactionKeepsTheNewestOfEachKeyAtItsOffset(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := open(t, dir, disk.Options{})
	createOrders(t, l, compacted)
	p, _, err := l.Producer(t.Context(), "source")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 60 {
		appendKeyed(t, l, fmt.Sprint("k", i%5), fmt.Sprint("v", i))
		if i%7 == 0 {
			if err := p.Append(t.Context(), orders(0), log.Record{Key: []byte("in transactions"), Value: fmt.Append(nil, i)}); err != nil {
				t.Fatal(err)
			}
			if err := p.Commit(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	appendKeyed(t, l, "k0", "")
	for i := range 5 {
		appendKeyed(t, l, "filler", fmt.Sprint(i))
	}
	want, before := newest(t, l)
	now := time.Now()
	l.Maintain(now)
	got, after := newest(t, l)
	if !maps.Equal(got, want) {
		t.Errorf("compaction changed what a reader sees: %v, want %v", got, want)
	}
	if after >= before/2 {
		t.Errorf("%d of %d records are left", after, before)
	}
	hasTombstone := func() bool {
		for _, r := range readPartition(t, l, orders(0)) {
			if r.Value == nil {
				return true
			}
		}
		return false
	}
	if !hasTombstone() {
		t.Error("the tombstone went at once")
	}
	closeLog(t, l)
	l = open(t, dir, disk.Options{})
	defer closeLog(t, l)
	if got, n := newest(t, l); !maps.Equal(got, want) || n != after {
		t.Errorf("after a reopen %d records: %v, want %d: %v", n, got, after, want)
	}
	for i := range 40 {
		appendKeyed(t, l, "filler", fmt.Sprint(i))
	}
	want, _ = newest(t, l)
	l.Maintain(now.Add(25 * time.Hour))
	if got, _ := newest(t, l); !maps.Equal(got, want) {
		t.Errorf("the second compaction changed what a reader sees: %v, want %v", got, want)
	}
	if hasTombstone() {
		t.Error("the tombstone is still there after a day")
	}
	if p := partitionOf(t, l, "orders"); p.Segments > 6 {
		t.Errorf("%d segments are left", p.Segments)
	}
}

func TestPowerCutInCompactionChangesNothing(t *testing.T) {
	t.Parallel()
	for calls := 0; ; calls++ {
		fs := newCrashFS(vfs.NewMemory())
		o := disk.Options{FS: fs, FlushInterval: time.Hour, MaintenanceInterval: time.Hour}
		l := open(t, "log", o)
		createOrders(t, l, compacted)
		for i := range 25 {
			appendKeyed(t, l, fmt.Sprint("k", i%3), fmt.Sprint("v", i))
		}
		want, _ := newest(t, l)
		fs.arm(calls, []float64{0, 0.5, 1}[calls%3], uint64(calls), func() {})
		l.Maintain(time.Now())
		picture := fs.disarm()
		closeLog(t, l)
		if picture == nil {
			if calls < 10 {
				t.Fatalf("compaction took %d calls", calls)
			}
			return
		}
		o.FS = picture
		l = open(t, "log", o)
		if got, _ := newest(t, l); !maps.Equal(got, want) {
			t.Errorf("a power cut at call %d: %v, want %v", calls, got, want)
		}
		l.Maintain(time.Now())
		if got, _ := newest(t, l); !maps.Equal(got, want) {
			t.Errorf("compaction after a power cut at call %d: %v, want %v", calls, got, want)
		}
		closeLog(t, l)
	}
}

func TestPositionsAreCompactedAndStayKnown(t *testing.T) {
	t.Parallel()
	memory := vfs.NewMemory()
	l := open(t, "log", disk.Options{FS: memory})
	createOrders(t, l, log.TopicConfig{})
	p, _, err := l.Producer(t.Context(), "source")
	if err != nil {
		t.Fatal(err)
	}
	mark := make([]byte, 64<<10)
	for i := range 600 { // 38 MiB of marks
		mark[0] = byte(i)
		if err := p.Append(t.Context(), orders(0), log.Record{Value: mark[:1]}); err != nil {
			t.Fatal(err)
		}
		if err := p.Commit(t.Context(), mark); err != nil {
			t.Fatal(err)
		}
	}
	l.Maintain(time.Now())
	if b := partitionOf(t, l, "_trunkline.positions").Bytes; b > 17<<20 {
		t.Errorf("positions take %d bytes after compaction", b)
	}
	closeLog(t, l)
	l = open(t, "log", disk.Options{FS: memory})
	defer closeLog(t, l)
	_, got, err := l.Producer(t.Context(), "source")
	if err != nil || len(got) != len(mark) || got[0] != mark[0] {
		t.Errorf("the mark is %d bytes, %v", len(got), err)
	}
	if n := len(readPartition(t, l, orders(0))); n != 600 {
		t.Errorf("%d records, want 600", n)
	}
}
