package disk_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/disk"
	"github.com/trunkline/trunkline/log/segment"
	"github.com/trunkline/trunkline/log/vfs"
)

// flip changes one bit of a file.
func flip(t *testing.T, path string, at int64) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[at] ^= 0x10
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestFlippedBitIsToldAndTheRestIsReadable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what string
		at   int64 // in the second batch of a segment
	}{{"in a value", 90}, {"in the length", 10}} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			l := open(t, dir, disk.Options{})
			defer func() { closeLog(t, l) }()
			createOrders(t, l, log.TopicConfig{SegmentBytes: 2000})
			for range 30 {
				appendValues(t, l, orders(0), strings.Repeat("x", 100))
			}
			if n := partitionOf(t, l, "orders").Segments; n < 3 {
				t.Fatalf("%d segments, want 3 or more", n)
			}
			files, err := filepath.Glob(filepath.Join(dir, "orders-0", "*.log"))
			if err != nil {
				t.Fatal(err)
			}
			closeLog(t, l)
			info, err := os.Stat(files[0])
			if err != nil {
				t.Fatal(err)
			}
			size := info.Size() / (baseOf(files[1]) - baseOf(files[0])) // all batches are of one size
			flip(t, files[1], size+c.at)

			damage := verifyOrders(t, dir).damage
			bad := baseOf(files[1]) + 1
			if len(damage) != 1 || damage[0].Path != files[1] || damage[0].First != bad || damage[0].Last != bad {
				t.Fatalf("verify found %v, want offset %d of %s", damage, bad, files[1])
			}
			l = open(t, dir, disk.Options{})
			wantAllBut(t, l, 30, bad)
		})
	}
}

func baseOf(path string) (base int64) {
	for _, c := range strings.TrimSuffix(filepath.Base(path), ".log") {
		base = base*10 + int64(c-'0')
	}
	return base
}

// wantAllBut reads a partition with one damaged record.
func wantAllBut(t *testing.T, l *disk.Log, n, damaged int64) {
	t.Helper()
	c, err := l.Consumer(t.Context(), log.ConsumerOptions{Partitions: []log.TopicPartition{orders(0)}})
	if err != nil {
		t.Fatal(err)
	}
	var got []int64
	told := 0
	for c.Assignment()[orders(0)] < n {
		f, err := c.Poll(t.Context(), 7)
		var bad *log.CorruptError
		if errors.As(err, &bad) {
			told++
			if bad.First != damaged || bad.Last != damaged {
				t.Fatalf("poll: %v, want offset %d", err, damaged)
			}
			if err := c.Seek(orders(0), bad.Last+1); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range f.Records {
			got = append(got, r.Offset)
		}
	}
	if told != 1 || int64(len(got)) != n-1 {
		t.Errorf("%d records and %d errors, want %d and 1", len(got), told, n-1)
	}
}

func TestVerifyOfALogInUseFindsNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := open(t, dir, disk.Options{BatchBytes: 500})
	defer closeLog(t, l)
	createOrders(t, l, log.TopicConfig{SegmentBytes: 2000, Partitions: 2})
	p, _, err := l.Producer(t.Context(), "source")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		if err := p.Append(t.Context(), orders(int32(i%2)), log.Record{Key: []byte("k"), Value: make([]byte, 100)}); err != nil {
			t.Fatal(err)
		}
		if i%10 == 9 {
			if err := p.Commit(t.Context(), []byte("m")); err != nil {
				t.Fatal(err)
			}
		}
	}
	v := verifyOrders(t, dir)
	if v.records != 100 || len(v.damage) != 0 || len(v.index) != 0 || v.tail != 0 {
		t.Errorf("verify found %+v, want 100 records and nothing wrong", v)
	}
}

// verified is what segment.Verify found in all segments of the topic orders.
type verified struct {
	records, tail int64
	damage        []*log.CorruptError
	index         []string
}

func verifyOrders(t *testing.T, dir string) (v verified) {
	t.Helper()
	for _, partition := range []string{"orders-0", "orders-1"} {
		files, err := filepath.Glob(filepath.Join(dir, partition, "*.log"))
		if err != nil {
			t.Fatal(err)
		}
		for i, file := range files {
			next := int64(-1)
			if i+1 < len(files) {
				next = baseOf(files[i+1])
			}
			r, err := segment.Verify(vfs.OS{}, filepath.Dir(file), baseOf(file), next, segment.Options{})
			if err != nil {
				t.Fatal(err)
			}
			v.records, v.tail = v.records+r.Records, v.tail+r.Tail
			v.damage, v.index = append(v.damage, r.Damage...), append(v.index, r.Index...)
		}
	}
	return v
}
