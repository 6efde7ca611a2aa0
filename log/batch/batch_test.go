package batch

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/trunkline/trunkline/log"
)

var codecs = []log.Compression{
	log.CompressionNone, log.CompressionGzip, log.CompressionSnappy, log.CompressionLZ4, log.CompressionZstd,
}

// samples are the shapes a record can have.
func samples() []log.Record {
	return []log.Record{
		{Key: []byte("k1"), Value: []byte("v1"), Timestamp: 1000},
		{Key: nil, Value: []byte("no key"), Timestamp: 1005},
		{Key: []byte("tombstone"), Value: nil, Timestamp: 990},
		{Key: []byte{}, Value: []byte{}, Timestamp: 1 << 41},
		{Key: []byte("h"), Value: []byte("headers"), Timestamp: 1001, Headers: []log.Header{
			{Key: "a", Value: []byte("1")}, {Key: "", Value: nil}, {Key: "a", Value: []byte{}},
		}},
		{Key: []byte("big"), Value: bytes.Repeat([]byte("0123456789abcdef"), 20_000), Timestamp: 0},
	}
}

func build(t testing.TB, c log.Compression, records []log.Record) View {
	t.Helper()
	var b Builder
	for i := range records {
		b.Append(&records[i], records[i].Timestamp)
	}
	out, err := b.Build(nil, c, NoProducer, false)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func equalRecords(got, want []log.Record) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d records, want %d", len(got), len(want))
	}
	same := func(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }
	for i := range got {
		g, w := got[i], want[i]
		if !same(g.Key, w.Key) || !same(g.Value, w.Value) || g.Timestamp != w.Timestamp || len(g.Headers) != len(w.Headers) {
			return fmt.Errorf("record %d: got %.200v, want %.200v", i, g, w)
		}
		for j := range g.Headers {
			if g.Headers[j].Key != w.Headers[j].Key || !same(g.Headers[j].Value, w.Headers[j].Value) {
				return fmt.Errorf("record %d, header %d: got %v, want %v", i, j, g.Headers[j], w.Headers[j])
			}
		}
	}
	return nil
}

func TestRecordsComeBackInEveryCodec(t *testing.T) {
	t.Parallel()
	for _, c := range codecs {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			v := build(t, c, samples())
			v.SetBaseOffset(7)
			v.SetLeaderEpoch(3)
			if err := v.Verify(); err != nil {
				t.Fatal(err)
			}
			var d Decoder
			for range 3 { // the arena is used again
				got, err := d.Decode(nil, v)
				if err != nil {
					t.Fatal(err)
				}
				if err := equalRecords(got, samples()); err != nil {
					t.Fatal(err)
				}
				if got[0].Offset != 7 || got[5].Offset != 12 {
					t.Fatalf("offsets %d to %d", got[0].Offset, got[5].Offset)
				}
				d.Reset()
			}
		})
	}
}

func TestHeaderSaysWhatWasBuilt(t *testing.T) {
	t.Parallel()
	var b Builder
	rs := samples()
	for i := range rs {
		b.Append(&rs[i], rs[i].Timestamp)
	}
	p := Producer{ID: 9, Epoch: 2, Sequence: 40}
	prefix := []byte("before")
	out, err := b.Build(prefix, log.CompressionLZ4, p, true)
	if err != nil {
		t.Fatal(err)
	}
	v, rest, err := Parse(out[len(prefix):])
	if err != nil || len(rest) != 0 {
		t.Fatal(err, len(rest))
	}
	if v.Producer() != p || !v.Transactional() || v.IsControl() || v.Codec() != log.CompressionLZ4 || v.Count() != 6 ||
		v.LastOffset() != 5 || v.NextOffset() != 6 || v.BaseTimestamp() != 1000 || v.MaxTimestamp() != 1<<41 || v.Length() != int64(len(v)) {
		t.Fatalf("%+v", v[:HeaderSize])
	}
}

func TestSeveralBatchesShareTheArena(t *testing.T) {
	t.Parallel()
	var d Decoder
	for range 3 {
		d.Reset()
		var got, want []log.Record
		for i := range 20 {
			rs := []log.Record{{Key: fmt.Append(nil, i), Value: []byte(strings.Repeat("x", 1000*i)), Timestamp: int64(i)}}
			var err error
			if got, err = d.Decode(got, build(t, codecs[i%len(codecs)], rs)); err != nil {
				t.Fatal(err)
			}
			want = append(want, rs...)
		}
		if err := equalRecords(got, want); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMarkersComeBack(t *testing.T) {
	t.Parallel()
	for _, m := range []Marker{Abort, Commit} {
		v := View(AppendMarker(nil, m, 5, 1, 0, 77))
		if err := errors.Join(CheckHeader(v), v.Verify()); err != nil {
			t.Fatal(err)
		}
		got, err := v.Marker()
		if err != nil || got != m || !v.IsControl() || !v.Transactional() || v.Producer().ID != 5 || v.MaxTimestamp() != 77 {
			t.Fatalf("%v %v", got, err)
		}
	}
	if _, err := build(t, log.CompressionNone, samples()).Marker(); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("marker of a batch of records: %v", err)
	}
}

func TestRebuildKeepsOffsetsAndProducer(t *testing.T) {
	t.Parallel()
	rs := samples()
	var b Builder
	for i := range rs {
		b.Append(&rs[i], rs[i].Timestamp)
	}
	old, err := b.Build(nil, log.CompressionZstd, Producer{ID: 1, Epoch: 2, Sequence: 3}, true)
	if err != nil {
		t.Fatal(err)
	}
	View(old).SetBaseOffset(100)
	for _, kept := range [][]int{{1, 4}, {}, {0, 1, 2, 3, 4, 5}} {
		for _, horizon := range []int64{0, 5_000} {
			b.ResetFor(old, horizon)
			var want []log.Record
			for _, i := range kept {
				b.AppendAt(&rs[i], rs[i].Timestamp, int32(i))
				want = append(want, rs[i])
			}
			out, err := b.Rebuild(nil)
			if err != nil {
				t.Fatal(err)
			}
			v := View(out)
			var d Decoder
			got, err := d.Decode(nil, v)
			if err := errors.Join(err, v.Verify(), equalRecords(got, want)); err != nil {
				t.Fatal(err)
			}
			if v.BaseOffset() != 100 || v.LastOffset() != 105 || v.Producer() != View(old).Producer() || !v.Transactional() {
				t.Fatal("the header changed")
			}
			if v.HasDeleteHorizon() != (horizon != 0) || horizon != 0 && v.BaseTimestamp() != horizon {
				t.Fatal("the horizon is lost")
			}
			for i := range got {
				if got[i].Offset != 100+int64(kept[i]) {
					t.Fatalf("offset %d of record %d", got[i].Offset, kept[i])
				}
			}
		}
	}
}

func TestFlippedBitsAreFound(t *testing.T) {
	t.Parallel()
	v := build(t, log.CompressionNone, samples()[:5])
	for i := atCRC; i < len(v); i++ {
		for bit := range 8 {
			v[i] ^= 1 << bit
			if err := v.Verify(); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("byte %d bit %d: %v", i, bit, err)
			}
			v[i] ^= 1 << bit
		}
	}
}

func TestCutBatchIsShort(t *testing.T) {
	t.Parallel()
	v := build(t, log.CompressionNone, samples()[:5])
	for n := range v {
		if _, _, err := Parse(v[:n]); !errors.Is(err, ErrShort) {
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
}

func TestDecompressionHasALimit(t *testing.T) {
	t.Parallel()
	bomb := []log.Record{{Value: make([]byte, 4<<20)}}
	for _, c := range codecs[1:] {
		v := build(t, c, bomb)
		d := Decoder{MaxDecompressed: 1 << 20}
		if _, err := d.Decode(nil, v); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%v: %v", c, err)
		}
		d.MaxDecompressed = 5 << 20
		if _, err := d.Decode(nil, v); err != nil {
			t.Errorf("%v: %v", c, err)
		}
	}
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector empties pools")
	}
	rs := samples()[:5]
	for _, c := range []log.Compression{log.CompressionNone, log.CompressionSnappy, log.CompressionZstd} {
		var b Builder
		var d Decoder
		var out []byte
		var got []log.Record
		round := func() {
			b.Reset()
			d.Reset()
			for i := range rs {
				b.Append(&rs[i], rs[i].Timestamp)
			}
			var err error
			if out, err = b.Build(out[:0], c, NoProducer, false); err != nil {
				t.Fatal(err)
			}
			if got, err = d.Decode(got[:0], out); err != nil {
				t.Fatal(err)
			}
		}
		round()
		if n := testing.AllocsPerRun(50, round); n > 0 {
			t.Errorf("%v: %v allocations", c, n)
		}
	}
}
