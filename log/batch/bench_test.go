package batch

import (
	"fmt"
	"testing"
	"time"

	"github.com/trunkline/trunkline/log"
)

// rows returns n records as the pipeline writes them: Debezium's JSON of one row, about 560 bytes with the key.
func rows(n int) []log.Record {
	const before = `{"before":null,"after":{"id":%d,"customer_id":%d,"status":%q,"amount":"%d.%02d","note":%q,"created_at":"2026-01-30T12:%02d:%02d.%06dZ","updated_at":"2026-01-30T12:%02d:%02d.%06dZ"},` +
		`"source":{"version":"1.0.0","connector":"postgresql","name":"shop","ts_ms":%d,"snapshot":"false","db":"shop","sequence":"[\"%d\",\"%d\"]","schema":"public","table":"orders","txId":%d,"lsn":%d},"transaction":null,"op":"c","ts_ms":%d,"ts_us":%d000,"ts_ns":%d000000}`
	out := make([]log.Record, n)
	state := []string{"new", "paid", "packed", "shipped"}
	x := uint64(88172645463325252)
	next := func(m uint64) int { x ^= x << 13; x ^= x >> 7; x ^= x << 17; return int(x % m) }
	for i := range out {
		ts := int64(1769776496000 + i)
		lsn := 123456789012 + i*240
		out[i] = log.Record{
			Key: fmt.Appendf(nil, `{"id":%d}`, 1_000_000+i),
			Value: fmt.Appendf(nil, before, 1_000_000+i, next(100_000), state[next(4)], next(1000), next(100), fmt.Sprintf("%016x%08x", x, next(1<<32)),
				next(60), next(60), next(1e6), next(60), next(60), next(1e6), ts, lsn, lsn+56, 7_000_000+i/1000, lsn, ts, ts, ts),
			Headers:   []log.Header{{Key: "trunkline.schema", Value: []byte("12")}, {Key: "trunkline.position", Value: fmt.Appendf(nil, "%X/%X", lsn>>32, uint32(lsn))}},
			Timestamp: ts,
		}
	}
	return out
}

// fastest keeps the shortest round, which a busy machine disturbs least.
type fastest struct {
	began time.Time
	best  time.Duration
}

func (f *fastest) start() { f.began = time.Now() }

func (f *fastest) stop() {
	if d := time.Since(f.began); f.best == 0 || d < f.best {
		f.best = d
	}
}

func (f *fastest) report(b *testing.B, rows int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*rows), "ns/row")
	b.ReportMetric(float64(f.best.Nanoseconds())/float64(rows), "best-ns/row")
}

// BenchmarkBuild encodes and compresses batches of rows; ns/row is what one row costs. It goes round through many rows:
// the same few again and again would teach the processor's branch predictor and look a third faster.
func BenchmarkBuild(b *testing.B) {
	all := rows(20_000)
	for _, size := range []int{100, 1000} {
		for _, c := range codecs {
			b.Run(fmt.Sprintf("%d/%v", size, c), func(b *testing.B) {
				var bl Builder
				var out []byte
				b.ReportAllocs()
				at := 0
				var best fastest
				for b.Loop() {
					best.start()
					bl.Reset()
					rs := all[at : at+size]
					at = (at + size) % len(all)
					for i := range rs {
						bl.Append(&rs[i], rs[i].Timestamp)
					}
					out, _ = bl.Build(out[:0], c, NoProducer, false)
					best.stop()
				}
				best.report(b, size)
				b.ReportMetric(float64(len(out))/float64(size), "bytes/row")
			})
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	rs := rows(1000)
	for _, c := range codecs {
		b.Run(c.String(), func(b *testing.B) {
			v := build(b, c, rs)
			var d Decoder
			var got []log.Record
			b.ReportAllocs()
			var best fastest
			for b.Loop() {
				best.start()
				d.Reset()
				if err := v.Verify(); err != nil {
					b.Fatal(err)
				}
				var err error
				if got, err = d.Decode(got[:0], v); err != nil {
					b.Fatal(err)
				}
				best.stop()
			}
			best.report(b, len(rs))
		})
	}
}
