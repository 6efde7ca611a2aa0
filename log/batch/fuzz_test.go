package batch

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/trunkline/trunkline/log"
)

// Hostile bytes never panic and never yield more than the limits; what decodes, encodes to the same records.
func FuzzDecode(f *testing.F) {
	paths, err := filepath.Glob(filepath.Join("testdata", "*.batch"))
	if err != nil || len(paths) == 0 {
		f.Fatal(err, len(paths))
	}
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	for _, c := range codecs {
		f.Add([]byte(build(f, c, samples()[:5])))
	}
	f.Add(AppendMarker(nil, Abort, 1, 1, 1, 1))
	const limit = 1 << 20
	f.Fuzz(func(t *testing.T, b []byte) {
		v, _, err := Parse(b)
		if err != nil {
			if !errors.Is(err, ErrShort) && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrMagic) {
				t.Fatalf("unnamed error: %v", err)
			}
			return
		}
		_ = v.Verify()
		_, _ = v.Marker()
		d := Decoder{MaxDecompressed: limit}
		records, err := d.Decode(nil, v)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrTooLarge) {
				t.Fatalf("unnamed error: %v", err)
			}
			return
		}
		if len(records) == 0 {
			return
		}
		var bl Builder
		for i := range records {
			delta := int32(records[i].Offset - v.BaseOffset())
			bl.AppendAt(&records[i], records[i].Timestamp, delta)
		}
		out, err := bl.Build(nil, log.CompressionNone, NoProducer, false)
		if err != nil {
			t.Fatal(err)
		}
		again, err := new(Decoder).Decode(nil, out)
		if err != nil {
			t.Fatal(err)
		}
		if err := equalRecords(again, records); err != nil {
			t.Fatal(err)
		}
	})
}

// Every length in a batch, set to what does not fit, is an error and not a panic or a large allocation.
func TestHostileLengthsAreRefused(t *testing.T) {
	t.Parallel()
	v := build(t, log.CompressionNone, samples()[:5])
	hostile := [][]byte{
		{0xff, 0xff, 0xff, 0xff, 0x0f}, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01},
		{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, {0x03}, {0x01}, {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00}, {0x80},
	}
	for at := HeaderSize; at < len(v); at++ {
		for _, h := range hostile {
			b := append(View(nil), v[:at]...)
			b = append(b, h...)
			b = append(b, v[min(len(v), at+1):]...)
			b[atLength], b[atLength+1], b[atLength+2], b[atLength+3] = 0, 0, byte((len(b)-PrefixSize)>>8), byte(len(b)-PrefixSize)
			if records, err := new(Decoder).Decode(nil, b); err == nil {
				total := 0
				for _, r := range records {
					total += len(r.Key) + len(r.Value)
				}
				if total > len(b) {
					t.Fatalf("byte %d: %d bytes of records", at, total)
				}
			} else if !errors.Is(err, ErrCorrupt) {
				t.Fatalf("byte %d: %v", at, err)
			}
		}
	}
	for _, count := range []byte{0x7f, 0xff} {
		b := bytes.Clone(v)
		b[atCount] = count
		if _, _, err := Parse(b); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("count: %v", err)
		}
		b[atLastOffsetDelta] = 0x7f
		if _, err := new(Decoder).Decode(nil, b); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("count: %v", err)
		}
	}
}
