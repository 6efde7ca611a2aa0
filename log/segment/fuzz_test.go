package segment

import (
	"errors"
	"slices"
	"testing"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/batch"
)

// drain reads a segment to its end and returns how many batches and damaged places it saw. Offsets only grow.
func drain(t *testing.T, s *Segment) (batches, damaged int) {
	t.Helper()
	for at := (Mark{Offset: s.Base()}); at.Offset < s.End().Offset; {
		before := at.Offset
		run, err := s.Read(nil, at, s.End().Offset, 1<<10)
		var c *log.CorruptError
		switch {
		case errors.As(err, &c):
			damaged++
			at = Mark{Offset: c.Last + 1}
		case err != nil:
			t.Fatal(err)
		default:
			for rest := run.Bytes; len(rest) > 0; batches++ {
				if _, rest, err = batch.Parse(rest); err != nil {
					t.Fatal(err)
				}
			}
			at = run.End
		}
		if at.Offset <= before {
			t.Fatalf("no progress at offset %d", before)
		}
	}
	return batches, damaged
}

// Whatever stands in the file, recovery does not panic, a second one finds nothing to do, what it keeps is read to the
// end, and appending goes on.
func FuzzRecover(f *testing.F) {
	o := newOriginal(f, 40, 10)
	f.Add(o.bytes, int64(0))
	f.Add(o.bytes[:len(o.bytes)-9], int64(20))
	f.Add(append(slices.Clone(o.bytes), make([]byte, 100)...), int64(1000))
	middle := slices.Clone(o.bytes)
	middle[o.marks[1].Position+11] ^= 4
	f.Add(middle, int64(0))
	f.Fuzz(func(t *testing.T, b []byte, durable int64) {
		ro := RecoverOptions{Options: Options{IndexInterval: 1, MaxBatch: 1 << 20}, Durable: durable % (1 << 31)}
		m := onDisk(t, b)
		s, r, err := Recover(m, ".", 0, ro)
		if err != nil {
			t.Fatal(err)
		}
		end := s.End()
		drain(t, s)
		for _, ts := range []int64{0, 20, 1 << 40} {
			if _, _, err := s.OffsetAt(ts, end.Offset); err != nil {
				t.Fatal(err)
			}
		}
		again, r2, err := Recover(m, ".", 0, ro)
		if err != nil || r2.Cut != 0 || again.End() != end || r2.Batches != r.Batches {
			t.Fatalf("second recovery: %+v, first %+v, %v", r2, r, err)
		}
		if end.Offset < 1<<30 {
			fill(t, again, 10, 5, log.CompressionNone)
		}
		end = again.End()
		if err := again.Seal(); err != nil {
			t.Fatal(err)
		}
		sealed, err := Open(m, ".", 0, end.Offset, ro.Options)
		if err != nil {
			t.Fatal(err)
		}
		batches, _ := drain(t, sealed)
		report, err := Verify(m, ".", 0, end.Offset, ro.Options)
		if err != nil || int64(batches) < report.Batches {
			t.Fatalf("read %d batches of %d, %v", batches, report.Batches, err)
		}
	})
}
