package ingest_test

import (
	"context"
	"io"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/memory"
	"github.com/trunkline/trunkline/log/disk"
	"github.com/trunkline/trunkline/pipeline/codec"
	"github.com/trunkline/trunkline/pipeline/ingest"
)

// rowSource hands out the same batch again and again: what is measured is everything behind the source.
type rowSource struct {
	batch connectors.Batch
	left  int
}

func (s *rowSource) Read(ctx context.Context) (connectors.Batch, error) {
	if s.left == 0 {
		return connectors.Batch{}, io.EOF
	}
	s.left--
	return s.batch, ctx.Err()
}

func (s *rowSource) Ack(context.Context, connectors.Position) error { return nil }

func (s *rowSource) Close(context.Context) error { return nil }

// orders is a batch of rows of seven columns with about 200 bytes of values each.
func orders(rows int) connectors.Batch {
	kinds := []connectors.Kind{connectors.Int, connectors.Int, connectors.Text, connectors.Decimal, connectors.TimestampTZ, connectors.Bool, connectors.Text}
	t := &connectors.Table{Dialect: "postgres", Database: "shop", Schema: "public", Name: "orders", Key: []int{0}}
	for i, k := range kinds {
		t.Columns = append(t.Columns, connectors.Column{Name: "column_" + strconv.Itoa(i), Kind: k})
	}
	b := connectors.Batch{Position: []byte("1")}
	for i := range rows {
		n := strconv.Itoa(i * 7919)
		b.Changes = append(b.Changes, connectors.Change{
			Op: connectors.Insert, Table: t, Time: time.Now(), Origin: []byte(`"txId":771,"lsn":24023128`), Position: []byte("0/16E7F18"),
			After: []connectors.Value{
				connectors.IntValue(int64(i)), connectors.IntValue(42), text("customer" + n + "@example.com"), connectors.DataValue(connectors.Decimal, []byte(n+".50")),
				connectors.DataValue(connectors.TimestampTZ, []byte("2026-01-30T17:34:56.123456Z")), connectors.BoolValue(true), text(strings.Repeat(n+" note ", 10)),
			},
		})
	}
	return b
}

// pieces hands out one transaction in many pieces, and looks at the heap between them.
type pieces struct {
	rowSource
	peak uint64
}

func (s *pieces) Read(ctx context.Context) (connectors.Batch, error) {
	var m runtime.MemStats
	if s.left%10 == 0 {
		runtime.GC()
		runtime.ReadMemStats(&m)
		s.peak = max(s.peak, m.HeapAlloc)
	}
	b, err := s.rowSource.Read(ctx)
	if s.left > 0 {
		b.Position = nil
	}
	return b, err
}

func TestMemoryStaysFlatWithTheSizeOfATransaction(t *testing.T) {
	peak := func(rows int) uint64 {
		l := openLog(t)
		source := &pieces{rowSource: rowSource{batch: orders(5000), left: rows / 5000}}
		o := options(l, memory.NewFeed())
		o.Open = func(context.Context, connectors.Env, connectors.Position) (connectors.Source, error) {
			return source, nil
		}
		g, err := run(t, o)
		if err != nil {
			t.Fatal(err)
		}
		if n := g.Status().Changes; n != int64(rows) {
			t.Fatalf("%d rows", n)
		}
		return source.peak
	}
	small := peak(100_000)                            // enough to fill every buffer that is used again
	if large := peak(250_000); large > small+24<<20 { // the rows that are more are 30 MB, their records 75
		t.Errorf("the heap grew from %d to %d MB", small>>20, large>>20)
	}
}

func BenchmarkIngest(b *testing.B) {
	for _, rows := range []int{1000, 5000} {
		b.Run(strconv.Itoa(rows)+" rows a transaction", func(b *testing.B) {
			l, err := disk.Open(b.TempDir(), disk.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			batch := orders(rows)
			source := &rowSource{batch: batch, left: max(1, b.N/rows)}
			g, err := ingest.New(ingest.Options{
				Source: "shop", Connector: "bench", Journal: l, Schemas: codec.NewSchemas(l),
				Open: func(context.Context, connectors.Env, connectors.Position) (connectors.Source, error) {
					return source, nil
				},
			})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.ResetTimer()
			if err := g.Run(b.Context()); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(g.Status().Changes)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}
