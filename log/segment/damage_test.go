package segment

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/batch"
	"github.com/trunkline/trunkline/log/vfs"
)

// Whatever bytes are hit, exactly the batches that hold them are lost, and told, wherever reading starts.
func TestDamageLosesOnlyTheBatchesThatWereHit(t *testing.T) {
	t.Parallel()
	o := newOriginal(t, 400, 10)
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 2))
		b := slices.Clone(o.bytes)
		hit := map[int]bool{}
		for range 1 + rng.IntN(3) {
			i := rng.IntN(len(o.marks) - 2) // not the last: without a next one a longer offset is as good as the right one
			hit[i] = true
			at, size := o.marks[i].Position, o.marks[i+1].Position-o.marks[i].Position
			switch p := at + rng.Int64N(size); rng.IntN(3) {
			case 0:
				b[p] ^= 1 << rng.IntN(8)
			case 1:
				b[at+rng.Int64N(61)] ^= byte(1 + rng.IntN(255))
			case 2:
				for q := p; q < min(p+1+rng.Int64N(30), at+size); q++ {
					b[q] ^= byte(1 + rng.IntN(255))
				}
			}
		}
		delete(hit, -1)
		var want [][2]int64
		for i := range len(o.marks) - 1 {
			unseen := o.marks[i].Position+12 <= o.marks[i+1].Position && slices.Equal(b[o.marks[i].Position:o.marks[i+1].Position],
				o.bytes[o.marks[i].Position:o.marks[i+1].Position]) // two flips of the same bit
			epoch := onlyEpoch(o, b, i)
			if !hit[i] || unseen || epoch {
				want = append(want, [2]int64{o.marks[i].Offset, o.marks[i+1].Offset})
			}
		}
		s, err := Open(onDisk(t, b), ".", 0, 400, Options{IndexInterval: 1 + rng.IntN(5000)})
		if err != nil {
			t.Fatal(err)
		}
		from := rng.Int64N(400)
		got, _ := readAll(t, s, from)
		wantRange(t, got, clip(want, from)...)
		got, damage := readAll(t, s, 0)
		wantRange(t, got, want...)
		for _, c := range damage {
			if !slices.ContainsFunc(o.marks, func(m Mark) bool { return m.Position == c.Position && m.Offset == c.First }) {
				t.Fatalf("seed %d: damage is told at no batch: %v", seed, c)
			}
		}
	}
}

// onlyEpoch reports whether batch i differs in the leader epoch alone, which nothing protects and nobody reads here.
func onlyEpoch(o original, b []byte, i int) bool {
	from, to := o.marks[i].Position, o.marks[i+1].Position
	return slices.Equal(b[from:from+12], o.bytes[from:from+12]) && slices.Equal(b[from+16:to], o.bytes[from+16:to])
}

func clip(ranges [][2]int64, from int64) (out [][2]int64) {
	for _, r := range ranges {
		if r[1] > from {
			out = append(out, [2]int64{max(r[0], from), r[1]})
		}
	}
	return out
}

// An index that is missing, cut or wrong is built anew; it never decides what is read.
func TestIndexIsBuiltAnewWhenItIsWrong(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := Create(vfs.OS{}, dir, 0, Options{})
	if err != nil {
		t.Fatal(err)
	}
	fill(t, s, 600, 3, log.CompressionNone)
	if err := s.Seal(); err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, suffix := range []string{LogSuffix, IndexSuffix, TimeIndexSuffix} {
		if files[suffix], err = os.ReadFile(filepath.Join(dir, Name(0, suffix))); err != nil {
			t.Fatal(err)
		}
	}
	for _, suffix := range []string{IndexSuffix, TimeIndexSuffix} {
		whole := files[suffix]
		cases := map[string][]byte{
			"missing": nil, "empty": {}, "zeros": make([]byte, len(whole)), "one byte": whole[:1], "a byte less": whole[:len(whole)-1],
			"an entry less": whole[:len(whole)-len(whole)/(len(whole)/12)], "half": whole[:len(whole)/24*12], "twice": slices.Concat(whole, whole),
			"sparse tail": slices.Concat(whole, make([]byte, 1200)),
		}
		for i := 0; i < len(whole); i += 11 {
			b := slices.Clone(whole)
			b[i] ^= 0x10
			cases["byte "+string(rune('0'+i%10))] = b
		}
		for name, b := range cases {
			m := onDisk(t, files[LogSuffix])
			for other, content := range files {
				if other == suffix {
					content = b
				}
				if other != LogSuffix && content != nil {
					if err := vfs.WriteFile(m, Name(0, other), content); err != nil {
						t.Fatal(err)
					}
				}
			}
			s, err := Open(m, ".", 0, 600, Options{})
			if err != nil {
				t.Fatal(err)
			}
			for from := int64(0); from < 600; from += 31 {
				got, damage := readAll(t, s, from)
				wantRange(t, got, [2]int64{from, 600})
				o, ok, err := s.OffsetAt(from, s.End().Offset)
				if len(damage) > 0 || err != nil || !ok || o != from {
					t.Fatalf("%s %s: from %d: %v, offset at it %d %v %v", suffix, name, from, damage, o, ok, err)
				}
			}
			if ts, err := s.MaxTimestamp(); err != nil || ts != 599 {
				t.Fatalf("%s %s: max timestamp %d, %v", suffix, name, ts, err)
			}
		}
	}
}

func TestVerifyTellsWhatIsWrongWithAnIndex(t *testing.T) {
	t.Parallel()
	m := vfs.NewMemory()
	s, err := Create(m, ".", 0, Options{})
	if err != nil {
		t.Fatal(err)
	}
	fill(t, s, 600, 3, log.CompressionNone)
	if err := s.Seal(); err != nil {
		t.Fatal(err)
	}
	if r, err := Verify(m, ".", 0, 600, Options{}); err != nil || !r.OK() || r.Records != 600 {
		t.Fatalf("%+v %v", r, err)
	}
	for suffix, at := range map[string]int{IndexSuffix: 8 + 7, TimeIndexSuffix: 12 + 7} {
		good, err := vfs.ReadFile(m, Name(0, suffix), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		bad := slices.Clone(good)
		bad[at] ^= 1
		for _, b := range [][]byte{bad, {}, {1}, slices.Concat(good, good), good[:len(good)-12]} {
			if err := vfs.WriteFile(m, Name(0, suffix), b); err != nil {
				t.Fatal(err)
			}
			// A short index of offsets is only slower; the last time must be there.
			fine := suffix == IndexSuffix && (len(b) == 0 || len(b)%8 == 0 && len(b) < len(good))
			if r, err := Verify(m, ".", 0, 600, Options{}); err != nil || r.OK() != fine || len(r.Damage) > 0 {
				t.Fatalf("%s of %d bytes: %+v %v", suffix, len(b), r, err)
			}
		}
		if err := vfs.WriteFile(m, Name(0, suffix), good); err != nil {
			t.Fatal(err)
		}
	}
}

func TestIndexFilesFollowKafkasRule(t *testing.T) {
	t.Parallel()
	m := vfs.NewMemory()
	s, err := Create(m, ".", 1000, Options{})
	if err != nil {
		t.Fatal(err)
	}
	marks := fill(t, s, 300, 10, log.CompressionNone)
	if err := s.Seal(); err != nil {
		t.Fatal(err)
	}
	var index []entry
	var times []timeEntry
	since := int64(0)
	for i, mark := range marks[:len(marks)-1] {
		last := uint32(marks[i+1].Offset - 1 - 1000)
		if since > 4096 {
			index = append(index, entry{relative: last, position: uint32(mark.Position)})
			times = append(times, timeEntry{timestamp: 1000 + int64(last), relative: last})
			since = 0
		}
		since += marks[i+1].Position - mark.Position
	}
	if last := (timeEntry{timestamp: 1299, relative: 299}); times[len(times)-1] != last {
		times = append(times, last)
	}
	gotIndex, err := s.readIndex()
	if err != nil || !slices.Equal(gotIndex, index) || len(index) < 5 {
		t.Errorf("index %v, want %v, %v", gotIndex, index, err)
	}
	gotTimes, err := s.readTimeIndex()
	if err != nil || !slices.Equal(gotTimes, times) {
		t.Errorf("time index %v, want %v, %v", gotTimes, times, err)
	}
	b, err := vfs.ReadFile(m, Name(1000, IndexSuffix), 1<<20)
	if err != nil || len(b) != 8*len(index) || b[3] != byte(index[0].relative) {
		t.Errorf("index file % x, %v", b, err)
	}
}

// Records near 1 MB have batches and index entries of their own.
func TestLostIndexOfLargeRecordsIsBuiltAnew(t *testing.T) {
	t.Parallel()
	m := vfs.NewMemory()
	s, err := Create(m, ".", 0, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var b batch.Builder
	for i := range int64(12) {
		b.Reset()
		b.Append(&log.Record{Key: keyOf(int(i)), Value: make([]byte, 1<<20-int(i)*100)}, 1000+i)
		run, err := b.Build(nil, log.CompressionNone, batch.NoProducer, false)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Append(run, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Seal(); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int64{-1, 0, 5, 8, 16, 80} {
		for _, suffix := range []string{IndexSuffix, TimeIndexSuffix} {
			if err := vfs.RemoveAll(m, Name(0, suffix)); err != nil {
				t.Fatal(err)
			}
			if size >= 0 {
				if err := vfs.WriteFile(m, Name(0, suffix), make([]byte, size)); err != nil {
					t.Fatal(err)
				}
			}
		}
		s, err := Open(m, ".", 0, 12, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range int64(12) {
			run, err := s.Read(nil, Mark{Offset: i}, 12, 1)
			if err != nil || run.Start.Offset != i || run.End.Offset != i+1 {
				t.Fatalf("index of %d bytes: offset %d: %+v to %+v, %v", size, i, run.Start, run.End, err)
			}
			if o, ok, err := s.OffsetAt(1000+i, 12); o != i || !ok || err != nil {
				t.Fatalf("index of %d bytes: time of %d: %d %v %v", size, i, o, ok, err)
			}
		}
	}
}
