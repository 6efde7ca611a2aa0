package segment

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/batch"
	"github.com/trunkline/trunkline/log/vfs"
)

// makeBatch returns a batch of n records that are known by their number from first on; the timestamp is the number too.
func makeBatch(t testing.TB, first, n int, c log.Compression) []byte {
	t.Helper()
	var b batch.Builder
	for i := first; i < first+n; i++ {
		b.Append(&log.Record{Key: keyOf(i), Value: valueOf(i)}, int64(i))
	}
	out, err := b.Build(nil, c, batch.NoProducer, false)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func keyOf(i int) []byte   { return fmt.Appendf(nil, "key-%06d", i) }
func valueOf(i int) []byte { return fmt.Appendf(nil, "value of record %d: %0*d", i, i%97, i) }

// known holds keys and values that are asked for again and again.
var known = sync.OnceValue(func() [][2][]byte {
	list := make([][2][]byte, 1100)
	for i := range list {
		list[i] = [2][]byte{keyOf(i), valueOf(i)}
	}
	return list
})

func expected(i int) (key, value []byte) {
	if list := known(); i < len(list) {
		return list[i][0], list[i][1]
	}
	return keyOf(i), valueOf(i)
}

// fill appends n records in batches of up to size, and returns the marks before each batch and at the end.
func fill(t testing.TB, s *Segment, n, size int, c log.Compression) []Mark {
	t.Helper()
	var marks []Mark
	for i := 0; i < n; i += size {
		marks = append(marks, s.End())
		at := int(s.End().Offset)
		if _, err := s.Append(makeBatch(t, at, min(size, n-i), c), 1); err != nil {
			t.Fatal(err)
		}
	}
	return append(marks, s.End())
}

// readAll reads everything from an offset on and returns the offsets of records and the damage on the way.
func readAll(t testing.TB, s *Segment, from int64) (offsets []int64, damage []*log.CorruptError) {
	t.Helper()
	var d batch.Decoder
	var buf []byte
	at := Mark{Offset: from}
	for reads := 0; at.Offset < s.End().Offset; reads++ {
		if reads > 1000 {
			t.Fatalf("reading makes no progress at offset %d: %v", at.Offset, damage)
		}
		run, err := s.Read(buf, at, s.End().Offset, 8<<10)
		var c *log.CorruptError
		if errors.As(err, &c) {
			damage = append(damage, c)
			at = Mark{Offset: c.Last + 1}
			continue
		}
		if err != nil {
			t.Fatalf("read from %d: %v", at.Offset, err)
		}
		buf = run.Bytes
		d.Reset()
		for rest := run.Bytes; len(rest) > 0; {
			var v batch.View
			if v, rest, err = batch.Parse(rest); err != nil {
				t.Fatal(err)
			}
			records, err := d.Decode(nil, v)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range records {
				if key, value := expected(int(r.Offset)); !bytes.Equal(r.Key, key) || !bytes.Equal(r.Value, value) {
					t.Fatalf("record %d has key %q, value %q", r.Offset, r.Key, r.Value)
				}
				if r.Offset >= from {
					offsets = append(offsets, r.Offset)
				}
			}
		}
		at = run.End
	}
	return offsets, damage
}

func wantRange(t testing.TB, got []int64, ranges ...[2]int64) {
	t.Helper()
	i := 0
	for _, r := range ranges {
		for o := r[0]; o < r[1]; o++ {
			if i >= len(got) || got[i] != o {
				t.Fatalf("record %d of %d is not offset %d", i, len(got), o)
			}
			i++
		}
	}
	if i != len(got) {
		t.Fatalf("%d records, want %d", len(got), i)
	}
}

func TestAppendedBatchesAreReadFromEveryOffset(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := Create(vfs.OS{}, dir, 500, Options{})
	if err != nil {
		t.Fatal(err)
	}
	fill(t, s, 1000, 7, log.CompressionNone)
	for from := int64(500); from < 1500; from += 3 {
		got, _ := readAll(t, s, from)
		wantRange(t, got, [2]int64{from, 1500})
	}
	if err := s.Seal(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := Verify(vfs.OS{}, dir, 500, 1500, Options{})
	if err != nil || !r.OK() || r.Records != 1000 || r.Batches != 143 || r.MaxTimestamp != 1499 || r.End.Offset != 1500 {
		t.Fatalf("%+v %v", r, err)
	}
	for _, lost := range []string{"", IndexSuffix, TimeIndexSuffix} {
		if lost != "" {
			if err := os.Remove(filepath.Join(dir, Name(500, lost))); err != nil {
				t.Fatal(err)
			}
		}
		s, err = Open(vfs.OS{}, dir, 500, 1500, Options{})
		if err != nil {
			t.Fatal(err)
		}
		got, _ := readAll(t, s, 777)
		wantRange(t, got, [2]int64{777, 1500})
		for _, ts := range []int64{0, 500, 501, 1111, 1499, 1500} {
			o, ok, err := s.OffsetAt(ts, s.End().Offset)
			if err != nil || ok != (ts < 1500) || ok && o != max(ts, 500) {
				t.Fatalf("offset at %d: %d %v %v", ts, o, ok, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestReadersRunBesideTheWriter(t *testing.T) {
	t.Parallel()
	s, err := Create(vfs.OS{}, t.TempDir(), 0, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const n = 3000
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			var buf []byte
			for at := (Mark{}); at.Offset < n; {
				run, err := s.Read(buf, at, s.End().Offset, 4<<10)
				if err != nil {
					t.Error(err)
					return
				}
				if len(run.Bytes) == 0 {
					continue
				}
				if run.Start.Offset != at.Offset {
					t.Errorf("run starts at %d, want %d", run.Start.Offset, at.Offset)
					return
				}
				buf, at = run.Bytes, run.End
			}
		})
	}
	fill(t, s, n, 10, log.CompressionNone)
	wg.Wait()
}
