package segment

import (
	"errors"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/batch"
	"github.com/trunkline/trunkline/log/vfs"
)

func TestFullDiskTakesNothingAndHeals(t *testing.T) {
	t.Parallel()
	m := vfs.NewMemory()
	f := vfs.NewFaults(m)
	s, err := Create(f, ".", 0, Options{})
	if err != nil {
		t.Fatal(err)
	}
	fill(t, s, 100, 10, log.CompressionNone)
	full := s.End()
	f.SetRoom(1000)
	if _, err := s.Append(makeBatch(t, 100, 40, log.CompressionNone), 0); !vfs.IsFull(err) {
		t.Fatalf("append to a full disk: %v", err)
	}
	if s.End() != full {
		t.Fatalf("end %+v, want %+v", s.End(), full)
	}
	if size, err := s.file.Size(); err != nil || size != full.Position {
		t.Fatalf("the failed append left the file at %d bytes, want %d, %v", size, full.Position, err)
	}
	// What cannot be cut at once is cut before the next write.
	f.SetRules(vfs.Rule{Op: vfs.OpTruncate, Times: 2})
	for range 2 {
		if _, err := s.Append(makeBatch(t, 100, 40, log.CompressionNone), 0); err == nil {
			t.Fatal("appended")
		}
	}
	got, _ := readAll(t, s, 0)
	wantRange(t, got, [2]int64{0, 100})
	f.SetRoom(-1)
	fill(t, s, 50, 5, log.CompressionNone)
	got, _ = readAll(t, s, 0)
	wantRange(t, got, [2]int64{0, 150})
	s, r := recovered(t, m.Crash(1, rand.New(rand.NewPCG(1, 1))), RecoverOptions{})
	if s.End().Offset != 150 || r.Cut != 0 {
		t.Fatalf("%+v %+v", s.End(), r)
	}
}

func TestFailedSyncStopsTheSegmentUntilItIsCut(t *testing.T) {
	t.Parallel()
	f := vfs.NewFaults(vfs.NewMemory())
	s, err := Create(f, ".", 0, Options{})
	if err != nil {
		t.Fatal(err)
	}
	fill(t, s, 20, 10, log.CompressionNone)
	durable, err := s.Sync()
	if err != nil {
		t.Fatal(err)
	}
	fill(t, s, 20, 10, log.CompressionNone)
	f.SetRules(vfs.Rule{Op: vfs.OpSync, Times: 1})
	if mark, err := s.Sync(); !errors.Is(err, syscall.EIO) || mark != durable || s.Synced() != durable {
		t.Fatalf("%+v %v", mark, err)
	}
	if _, err := s.Sync(); !errors.Is(err, ErrFailed) || !errors.Is(err, syscall.EIO) {
		t.Fatalf("second sync: %v", err)
	}
	if _, err := s.Append(makeBatch(t, 40, 1, log.CompressionNone), 0); !errors.Is(err, ErrFailed) {
		t.Fatalf("append: %v", err)
	}
	if _, err := s.Truncate(30); !errors.Is(err, ErrFailed) {
		t.Fatalf("truncate to what may not be on disk: %v", err)
	}
	if end, err := s.Truncate(20); err != nil || end != durable || s.End() != durable {
		t.Fatalf("%+v %v", end, err)
	}
	fill(t, s, 5, 5, log.CompressionNone)
	if mark, err := s.Sync(); err != nil || mark.Offset != 25 {
		t.Fatalf("%+v %v", mark, err)
	}
	got, _ := readAll(t, s, 0)
	wantRange(t, got, [2]int64{0, 25})
}

func TestTruncateCutsWholeBatches(t *testing.T) {
	t.Parallel()
	for to := int64(0); to <= 105; to++ {
		m := vfs.NewMemory()
		s, err := Create(m, ".", 0, Options{IndexInterval: 100})
		if err != nil {
			t.Fatal(err)
		}
		fill(t, s, 100, 10, log.CompressionNone)
		end, err := s.Truncate(to)
		if want := min(to/10*10, 100); err != nil || end.Offset != want || s.End() != end {
			t.Fatalf("to %d: %+v %v", to, end, err)
		}
		fill(t, s, 20, 10, log.CompressionNone)
		got, damage := readAll(t, s, 0)
		wantRange(t, got, [2]int64{0, end.Offset + 20})
		if err := s.Seal(); err != nil || len(damage) > 0 {
			t.Fatal(err, damage)
		}
		if r, err := Verify(m, ".", 0, end.Offset+20, Options{IndexInterval: 100}); err != nil || !r.OK() {
			t.Fatalf("to %d: %+v %v", to, r, err)
		}
	}
}

func TestCompactedBatchesKeepTheirOffsets(t *testing.T) {
	t.Parallel()
	m := vfs.NewMemory()
	s, err := Create(m, ".", 0, Options{IndexInterval: 200})
	if err != nil {
		t.Fatal(err)
	}
	var want [][2]int64
	for _, first := range []int64{0, 10, 40, 45, 300} {
		b := batch.View(makeBatch(t, int(first), 5, log.CompressionLZ4))
		b.SetBaseOffset(first)
		if _, err := s.Copy(b); err != nil {
			t.Fatal(err)
		}
		want = append(want, [2]int64{first, first + 5})
	}
	if _, err := s.Copy(makeBatch(t, 0, 5, log.CompressionNone)); err == nil {
		t.Fatal("copied a batch that lies behind the end")
	}
	for range 2 {
		for from := int64(0); from < 305; from++ {
			got, damage := readAll(t, s, from)
			wantRange(t, got, clip(want, from)...)
			if len(damage) > 0 {
				t.Fatal(damage)
			}
		}
		if err := s.Seal(); err != nil {
			t.Fatal(err)
		}
		if s, err = Open(m, ".", 0, 400, Options{}); err != nil { // records at the end were dropped too
			t.Fatal(err)
		}
	}
	if run, err := s.Read(nil, Mark{Offset: 310}, 400, 100); err != nil || len(run.Bytes) > 0 || run.End.Offset != 400 {
		t.Fatalf("%+v %v", run, err)
	}
	if run, err := s.Read(nil, Mark{Offset: 20}, 40, 1000); err != nil || len(run.Bytes) > 0 || run.End.Offset != 40 {
		t.Fatalf("%+v %v", run, err)
	}
	if run, err := s.Read(nil, Mark{Offset: 20}, 45, 1000); err != nil || run.Start.Offset != 40 || run.End.Offset != 45 {
		t.Fatalf("%+v %v", run, err)
	}
}

func TestLargeBatchIsReturnedWhole(t *testing.T) {
	t.Parallel()
	m := vfs.NewMemory()
	s, err := Create(m, ".", 0, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var b batch.Builder
	b.Append(&log.Record{Value: make([]byte, 3<<20)}, 1)
	big, err := b.Build(nil, log.CompressionNone, batch.NoProducer, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(big, 0); err != nil {
		t.Fatal(err)
	}
	run, err := s.Read(nil, Mark{}, 1, 10)
	if err != nil || len(run.Bytes) != len(big) {
		t.Fatalf("%d bytes, %v", len(run.Bytes), err)
	}
}

func TestDumpAndVerifyTellTailFromDamage(t *testing.T) {
	t.Parallel()
	o := newOriginal(t, 100, 10)
	half := o.bytes[:len(o.bytes)-20]
	m := onDisk(t, half)
	r, err := Verify(m, ".", 0, -1, Options{})
	if err != nil || !r.OK() || r.Tail != int64(len(half))-o.marks[9].Position || r.Records != 90 || r.End != o.marks[9] {
		t.Fatalf("%+v %v", r, err)
	}
	if r, err = Verify(m, ".", 0, 100, Options{}); err != nil || r.OK() || len(r.Damage) != 1 || r.Damage[0].First != 90 || r.Damage[0].Last != 99 {
		t.Fatalf("%+v %v", r, err)
	}
	bad := append([]byte(nil), o.bytes...)
	bad[o.marks[3].Position+80] ^= 4
	var starts []int64
	for item, err := range Dump(onDisk(t, bad), Name(0, LogSuffix), Options{}) {
		if err != nil {
			t.Fatal(err)
		}
		i := len(starts)
		starts = append(starts, item.Position)
		if item.Position != o.marks[i].Position || item.Size != o.marks[i+1].Position-o.marks[i].Position || (item.Damage != nil) != (i == 3) {
			t.Fatalf("item %d: %+v", i, item)
		}
		if item.Batch.BaseOffset() != o.marks[i].Offset {
			t.Fatalf("item %d: base offset %d", i, item.Batch.BaseOffset())
		}
	}
	if len(starts) != 10 {
		t.Fatalf("%d items", len(starts))
	}
	for _, err := range Dump(m, "a.log", Options{}) {
		if err == nil {
			t.Fatal("dumped a file that is no segment")
		}
	}
}
