package segment

import (
	"testing"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/batch"
	"github.com/trunkline/trunkline/log/vfs"
)

// run64K returns a batch of about 64 KiB, the size in which the log appends when it is busy.
func run64K(b *testing.B) []byte {
	var bl batch.Builder
	for i := range 128 {
		bl.Append(&log.Record{Key: keyOf(i), Value: make([]byte, 480)}, int64(i))
	}
	out, err := bl.Build(nil, log.CompressionNone, batch.NoProducer, false)
	if err != nil {
		b.Fatal(err)
	}
	return out
}

func benchSegment(b *testing.B, size int) *Segment {
	s, err := Create(vfs.OS{}, b.TempDir(), 0, Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	for run := run64K(b); s.End().Position < int64(size); {
		if _, err := s.Append(run, 0); err != nil {
			b.Fatal(err)
		}
	}
	return s
}

func BenchmarkAppend64K(b *testing.B) {
	for _, sync := range []bool{false, true} {
		name := "page cache"
		if sync {
			name = "synced"
		}
		b.Run(name, func(b *testing.B) {
			run := run64K(b)
			s := benchSegment(b, 0)
			b.SetBytes(int64(len(run)))
			b.ReportAllocs()
			for b.Loop() {
				if s.End().Position > 1<<30 {
					b.StopTimer()
					s = benchSegment(b, 0)
					b.StartTimer()
				}
				if _, err := s.Append(run, 0); err != nil {
					b.Fatal(err)
				}
				if sync {
					if _, err := s.Sync(); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

func BenchmarkReadRunsOf1MiB(b *testing.B) {
	s := benchSegment(b, 64<<20)
	var run Run
	var err error
	b.SetBytes(1 << 20)
	b.ReportAllocs()
	for b.Loop() {
		if run, err = s.Read(run.Bytes, run.End, s.End().Offset, 1<<20); err != nil {
			b.Fatal(err)
		}
		if len(run.Bytes) == 0 {
			run.End = Mark{}
		}
	}
}

func BenchmarkReadAtAnOffset(b *testing.B) {
	s := benchSegment(b, 64<<20)
	var run Run
	var err error
	n := s.End().Offset
	b.ReportAllocs()
	for at := int64(0); b.Loop(); at = (at + 7919) % n {
		if run, err = s.Read(run.Bytes, Mark{Offset: at}, n, 1); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRecover64MiB(b *testing.B) {
	s := benchSegment(b, 64<<20)
	b.SetBytes(64 << 20)
	for b.Loop() {
		r, _, err := Recover(vfs.OS{}, s.dir, 0, RecoverOptions{})
		if err != nil {
			b.Fatal(err)
		}
		r.Close()
	}
}
