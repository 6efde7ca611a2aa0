package segment

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/batch"
	"github.com/trunkline/trunkline/log/vfs"
)

// original is a segment that was written and synced, to be damaged in copies.
type original struct {
	bytes []byte
	marks []Mark // before each batch, and at the end
}

func newOriginal(t testing.TB, records, size int) original {
	t.Helper()
	dir := t.TempDir()
	s, err := Create(vfs.OS{}, dir, 0, Options{})
	if err != nil {
		t.Fatal(err)
	}
	o := original{marks: fill(t, s, records, size, log.CompressionNone)}
	if _, err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if o.bytes, err = os.ReadFile(filepath.Join(dir, Name(0, LogSuffix))); err != nil {
		t.Fatal(err)
	}
	return o
}

// onDisk writes a damaged copy into a file system of its own.
func onDisk(t testing.TB, b []byte) *vfs.Memory {
	t.Helper()
	m := vfs.NewMemory()
	f, err := m.Open(Name(0, LogSuffix), os.O_RDWR|os.O_CREATE)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(b, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	return m
}

func recovered(t testing.TB, fsys vfs.FS, o RecoverOptions) (*Segment, Recovery) {
	t.Helper()
	s, r, err := Recover(fsys, ".", 0, o)
	if err != nil {
		t.Fatal(err)
	}
	return s, r
}

// A tail that a crash tore is cut, and nothing else: all acknowledged records are there, and the next offset follows.
func TestTornTailIsCutAtTheLastGoodBatch(t *testing.T) {
	t.Parallel()
	const acked = 1000
	o := newOriginal(t, acked+10, 10)
	last := o.marks[len(o.marks)-2] // the batch of the last 10 was not acknowledged
	if last.Offset != acked {
		t.Fatalf("last batch begins at %d", last.Offset)
	}
	cases := map[string][]byte{}
	for n := last.Position; n < int64(len(o.bytes)); n++ {
		cases[fmt.Sprintf("cut at byte %d of the last batch", n-last.Position)] = o.bytes[:n]
	}
	for _, n := range []int32{0x7fffffff, -1, 0, 48, 49, 1 << 20} {
		b := slices.Clone(o.bytes)
		binary.BigEndian.PutUint32(b[last.Position+8:], uint32(n))
		cases[fmt.Sprintf("last length is %d", n)] = b
	}
	good := o.bytes[:last.Position]
	for n := 1; n <= 64; n++ {
		cases[fmt.Sprintf("%d zeros behind the end", n)] = append(slices.Clone(good), make([]byte, n)...)
	}
	for _, n := range []int{12, 17, 30, 60, 61} {
		cases[fmt.Sprintf("%d bytes of a header behind the end", n)] = append(slices.Clone(good), o.bytes[last.Position:last.Position+int64(n)]...)
	}
	for _, n := range []int{300, 512, 4096, 70000} {
		cases[fmt.Sprintf("%d zeros in place of the last batch", n)] = append(slices.Clone(good), make([]byte, n)...)
	}
	for i, name := range slices.Sorted(maps.Keys(cases)) {
		b := cases[name]
		m := onDisk(t, b)
		s, r := recovered(t, m, RecoverOptions{})
		if s.End() != last || s.Synced() != last || len(r.Damage) != 0 || r.Cut != int64(len(b))-last.Position || r.Batches != acked/10 {
			t.Fatalf("%s: end %+v, %+v", name, s.End(), r)
		}
		got, _ := readAll(t, s, 0)
		wantRange(t, got, [2]int64{0, acked})
		if i%16 != 0 {
			continue
		}
		fill(t, s, 20, 10, log.CompressionNone)
		got, damage := readAll(t, s, acked-1)
		wantRange(t, got, [2]int64{acked - 1, acked + 20})
		if len(damage) > 0 {
			t.Fatalf("%s: %v", name, damage)
		}
		// What was recovered survives the next power cut; what came after was not synced.
		s, _ = recovered(t, m.Crash(0, nil), RecoverOptions{})
		if s.End() != last {
			t.Fatalf("%s: after a second crash the end is %+v", name, s.End())
		}
	}
}

// The last batch may also end where a flipped length says so; whole batches cut off the end are only a shorter log.
func TestFileThatEndsWithABatchIsKeptWhole(t *testing.T) {
	t.Parallel()
	o := newOriginal(t, 100, 10)
	for i, m := range o.marks {
		s, r := recovered(t, onDisk(t, o.bytes[:m.Position]), RecoverOptions{})
		if s.End() != m || r.Cut != 0 || r.Batches != int64(i) {
			t.Fatalf("%+v: end %+v, %+v", m, s.End(), r)
		}
	}
}

// A flipped bit in the middle is told by file, byte and offsets; nothing is cut, and all around it is read.
func TestFlippedBitInTheMiddleLosesOneBatchAndTellsWhich(t *testing.T) {
	t.Parallel()
	o := newOriginal(t, 600, 10)
	bad, after := o.marks[42], o.marks[43]
	fields := map[string]int64{
		"base offset": 7, "high byte of the base offset": 0, "length": 11, "high byte of the length": 8, "magic": 16, "checksum": 18,
		"attributes": 22, "last offset delta": 26, "base timestamp": 30, "count": 60, "value": after.Position - bad.Position - 5,
	}
	for field, at := range fields {
		for bit := range 8 {
			b := slices.Clone(o.bytes)
			b[bad.Position+at] ^= 1 << bit
			for _, how := range []string{"recovered", "recovered below a checkpoint", "sealed"} {
				m := onDisk(t, b)
				var s *Segment
				var err error
				if how == "sealed" {
					if s, err = Open(m, ".", 0, 600, Options{}); err != nil {
						t.Fatal(err)
					}
				} else {
					ro := RecoverOptions{}
					if how != "recovered" {
						ro.Durable = 600
					}
					var r Recovery
					s, r = recovered(t, m, ro)
					if r.Cut != 0 || ro.Durable == 0 && (len(r.Damage) != 1 || r.Damage[0].First != bad.Offset) {
						t.Fatalf("%s of %s, bit %d: %+v", how, field, bit, r)
					}
				}
				if s.End().Offset != 600 {
					t.Fatalf("%s of %s, bit %d: end %+v", how, field, bit, s.End())
				}
				got, damage := readAll(t, s, 0)
				wantRange(t, got, [2]int64{0, bad.Offset}, [2]int64{after.Offset, 600})
				if len(damage) != 1 || damage[0].First != bad.Offset || damage[0].Last != after.Offset-1 ||
					damage[0].Position != bad.Position || damage[0].Path != s.Path() {
					t.Fatalf("%s of %s, bit %d: %v", how, field, bit, damage)
				}
				got, _ = readAll(t, s, 595)
				wantRange(t, got, [2]int64{595, 600})
			}
		}
	}
}

// Below what is known to be durable nothing is cut, whatever stands there.
func TestNothingKnownToBeDurableIsCut(t *testing.T) {
	t.Parallel()
	o := newOriginal(t, 100, 10)
	last := o.marks[9]
	zeros := append(slices.Clone(o.bytes[:last.Position]), make([]byte, 2000)...)
	flipped := slices.Clone(o.bytes)
	flipped[last.Position+70] ^= 1
	for name, b := range map[string][]byte{"zeros": zeros, "flipped": flipped, "short": o.bytes[:last.Position], "half": o.bytes[:last.Position+33]} {
		m := onDisk(t, b)
		// The checksum below the checkpoint is the readers' matter: the flipped batch is found by them.
		s, r := recovered(t, m, RecoverOptions{Durable: 100})
		if r.Cut != 0 || s.End() != (Mark{Position: int64(len(b)), Offset: 100}) {
			t.Fatalf("%s: %+v %+v", name, s.End(), r)
		}
		fill(t, s, 10, 10, log.CompressionNone)
		got, damage := readAll(t, s, 0)
		wantRange(t, got, [2]int64{0, 90}, [2]int64{100, 110})
		if name == "short" { // the file has no place that could be damaged: only recovery can tell
			damage = r.Damage
		}
		if len(damage) != 1 || damage[0].First != 90 || damage[0].Last != 99 {
			t.Fatalf("%s: %v", name, damage)
		}
	}
}

// A power cut may keep any of the blocks that were not synced. What was synced is there, what is left is a prefix of what
// was written, and a crash inside recovery changes nothing of that.
func TestPowerCutKeepsWhatWasSynced(t *testing.T) {
	t.Parallel()
	for seed := range uint64(150) {
		rng := rand.New(rand.NewPCG(seed, 1))
		m := vfs.NewMemory()
		s, err := Create(m, ".", 0, Options{})
		if err != nil {
			t.Fatal(err)
		}
		fill(t, s, 1+rng.IntN(200), 1+rng.IntN(20), log.Compression(rng.IntN(5)))
		synced, err := s.Sync()
		if err != nil {
			t.Fatal(err)
		}
		fill(t, s, 1+rng.IntN(200), 1+rng.IntN(20), log.CompressionNone)
		written := s.End()
		after := m.Crash([]float64{0, 0.3, 0.9, 1}[rng.IntN(4)], rng)
		for crash := range 3 { // the first two recoveries do not live to their end
			if crash < 2 {
				f := vfs.NewFaults(after, vfs.Rule{Op: []vfs.Op{vfs.OpSync, vfs.OpTruncate}[rng.IntN(2)]})
				if _, _, err := Recover(f, ".", 0, RecoverOptions{}); err == nil && f.Count(vfs.OpSync) == 0 {
					t.Fatalf("seed %d: served without a sync", seed)
				}
				after = after.Crash(rng.Float64(), rng)
				continue
			}
			s, r := recovered(t, after, RecoverOptions{})
			end := s.End()
			if end.Offset < synced.Offset || end.Offset > written.Offset || len(r.Damage) > 0 {
				t.Fatalf("seed %d: end %+v, synced %+v, written %+v, %+v", seed, end, synced, written, r)
			}
			got, damage := readAll(t, s, 0)
			wantRange(t, got, [2]int64{0, end.Offset})
			if len(damage) > 0 {
				t.Fatalf("seed %d: %v", seed, damage)
			}
		}
	}
}

func TestRecoveryShowsEveryBatchToItsCaller(t *testing.T) {
	t.Parallel()
	m := vfs.NewMemory()
	s, err := Create(m, ".", 0, Options{})
	if err != nil {
		t.Fatal(err)
	}
	fill(t, s, 30, 10, log.CompressionZstd)
	if _, err := s.Append(batch.AppendMarker(nil, batch.Commit, 7, 2, 0, 40), 0); err != nil {
		t.Fatal(err)
	}
	for _, durable := range []int64{0, 31} {
		var ends []int64
		_, _ = recovered(t, m, RecoverOptions{Durable: durable, Visit: func(v batch.View) error {
			ends = append(ends, v.NextOffset())
			if v.IsControl() {
				if m, err := v.Marker(); err != nil || m != batch.Commit || v.Producer().ID != 7 {
					t.Errorf("marker %v %v", m, err)
				}
			}
			return nil
		}})
		if !slices.Equal(ends, []int64{10, 20, 30, 31}) {
			t.Fatalf("%v", ends)
		}
	}
}
