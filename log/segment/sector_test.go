package segment

import (
	"fmt"
	"os"
	"testing"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/batch"
	"github.com/trunkline/trunkline/log/vfs"
)

// A power cut may keep the second sector of a batch and lose the first, of which the batch has only a few bytes.
func TestBatchThatLostTheSectorItBeginsInIsCut(t *testing.T) {
	t.Parallel()
	const base = 70_000 // an offset whose lowest three bytes are not zero
	for lost := 6; lost <= 40; lost++ {
		t.Run(fmt.Sprint(lost, " bytes lost"), func(t *testing.T) {
			t.Parallel()
			fsys := vfs.NewMemory()
			s, err := Create(fsys, ".", base, Options{})
			if err != nil {
				t.Fatal(err)
			}
			// The first batch ends that many bytes before the end of its sector.
			var b batch.Builder
			for size := 0; ; size++ {
				b.Reset()
				b.Append(&log.Record{Value: make([]byte, size)}, 1)
				if b.Size() == sector-lost {
					break
				}
			}
			run, err := b.Build(nil, log.CompressionNone, batch.NoProducer, false)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Append(run, 0); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if _, err := s.Append(makeBatch(t, 1, 3, log.CompressionNone), 0); err != nil {
					t.Fatal(err)
				}
			}
			f, err := fsys.Open(s.Path(), os.O_RDWR)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteAt(make([]byte, lost), int64(sector-lost)); err != nil {
				t.Fatal(err)
			}
			_, report, err := Recover(fsys, ".", base, RecoverOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if report.CutAt != int64(sector-lost) || len(report.Damage) != 0 {
				t.Errorf("cut at %d with damage %v, want a cut at %d and none", report.CutAt, report.Damage, sector-lost)
			}
		})
	}
}

// The good batch behind the hole begins with the last byte of the lost sector, which is the zero of its offset.
func TestHoleUpToTheFirstByteOfAGoodBatchIsCut(t *testing.T) {
	t.Parallel()
	fsys := vfs.NewMemory()
	s, err := Create(fsys, ".", 0, Options{})
	if err != nil {
		t.Fatal(err)
	}
	appendSized := func(size int) {
		t.Helper()
		var b batch.Builder
		for n := 0; b.Size() != size; n++ {
			b.Reset()
			b.Append(&log.Record{Value: make([]byte, n)}, 1)
		}
		run, err := b.Build(nil, log.CompressionNone, batch.NoProducer, false)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Append(run, 0); err != nil {
			t.Fatal(err)
		}
	}
	for _, size := range []int{294, sector - 1 - 294, 98} {
		appendSized(size)
	}
	f, err := fsys.Open(s.Path(), os.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(make([]byte, sector-294), 294); err != nil {
		t.Fatal(err)
	}
	_, report, err := Recover(fsys, ".", 0, RecoverOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if report.CutAt != 294 || len(report.Damage) != 0 {
		t.Errorf("cut at %d with damage %v, want a cut at 294 and none", report.CutAt, report.Damage)
	}
}

func TestTruncateWhoseSyncFailedHealsWhenItIsTriedAgain(t *testing.T) {
	t.Parallel()
	memory := vfs.NewMemory()
	if err := memory.Mkdir("d"); err != nil {
		t.Fatal(err)
	}
	faults := vfs.NewFaults(memory)
	s, err := Create(faults, ".", 0, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(makeBatch(t, 0, 3, log.CompressionNone), 0); err != nil {
		t.Fatal(err)
	}
	faults.SetRules(vfs.Rule{Op: vfs.OpSync, Times: 2})
	if _, err := s.Sync(); err == nil {
		t.Fatal("the sync was to fail")
	}
	if _, err := s.Truncate(0); err == nil {
		t.Fatal("the sync of the truncate was to fail")
	}
	if _, err := s.Truncate(0); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(makeBatch(t, 0, 3, log.CompressionNone), 0); err != nil {
		t.Fatal(err)
	}
	if mark, err := s.Sync(); err != nil || mark.Offset != 3 {
		t.Errorf("synced to %d, %v; want 3", mark.Offset, err)
	}
}
