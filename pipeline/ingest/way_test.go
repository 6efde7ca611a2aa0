package ingest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/memory"
	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/pipeline/codec"
	"github.com/trunkline/trunkline/pipeline/ingest"
	"github.com/trunkline/trunkline/pipeline/trace"
)

// traced returns a tracer and where its spans end up.
func traced(sampler sdktrace.Sampler) (*trace.Tracer, *tracetest.SpanRecorder) {
	recorder := tracetest.NewSpanRecorder()
	return trace.New(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder), sdktrace.WithSampler(sampler))), recorder
}

// named returns the spans of that name that have ended.
func named(r *tracetest.SpanRecorder, name string) (out []sdktrace.ReadOnlySpan) {
	for _, s := range r.Ended() {
		if s.Name() == name {
			out = append(out, s)
		}
	}
	return out
}

// lines shows records without their offsets, which depend on what shares a commit.
func lines(records []log.Record) (out string) {
	for _, r := range records {
		out += fmt.Sprintf("%s %s %d", r.Key, r.Value, r.Timestamp)
		for _, h := range r.Headers {
			out += fmt.Sprintf(" %s=%s", h.Key, h.Value)
		}
		out += "\n"
	}
	return out
}

func TestRecordsAreTheSameButForTheTraceOfThoseThatAreTraced(t *testing.T) {
	t.Parallel()
	// written returns what stands in the log, without the time at which it was encoded.
	written := func(tracer *trace.Tracer) (out []log.Record) {
		l, f, at := openLog(t), memory.NewFeed(), time.UnixMilli(1769794496123)
		f.Append(insert(items, item(1, "a")), insert(items, item(2, "b")))
		f.Append(connectors.Change{Op: connectors.Update, Table: items, Before: item(1, "a"), After: item(3, "a"), Time: at},
			connectors.Change{Op: connectors.Delete, Table: items, Before: item(2, "b"), Time: at}, insert(keyless, []connectors.Value{text("x")}))
		o := options(l, f)
		o.Tracer = tracer
		if _, err := run(t, o); err != nil {
			t.Fatal(err)
		}
		for _, topic := range []string{"shop.public.item", "shop.public.event"} {
			for _, r := range slices.Concat(records(t, l, topic)...) {
				r.Value, _, _ = bytes.Cut(r.Value, []byte(`"transaction":`))
				for i := range r.Headers {
					if r.Headers[i].Key == codec.HeaderMove { // it is numbered by the clock
						r.Headers[i].Value = nil
					}
				}
				out = append(out, r)
			}
		}
		return out
	}
	off := written(nil)
	if len(off) < 5 {
		t.Fatalf("%d records", len(off))
	}
	never, none := traced(sdktrace.NeverSample())
	if got := written(never); lines(off) != lines(got) || len(none.Ended()) != 0 {
		t.Errorf("not sampled:\n%s\nwant\n%s", lines(got), lines(off))
	}
	always, all := traced(sdktrace.AlwaysSample())
	got := written(always)
	for i := range got {
		if parent := header(got[i], trace.Header); len(parent) != 55 {
			t.Errorf("a record with the trace %q", parent)
		}
		got[i].Headers = slices.DeleteFunc(got[i].Headers, func(h log.Header) bool { return h.Key == trace.Header })
	}
	if lines(off) != lines(got) {
		t.Errorf("traced:\n%s\nwant\n%s", lines(got), lines(off))
	}
	if len(named(all, "ingest shop")) == 0 {
		t.Error("no way was traced")
	}
}

func TestATransactionInPiecesIsOneWay(t *testing.T) {
	t.Parallel()
	l := openLog(t)
	source := &pieces{rowSource: rowSource{batch: orders(5000), left: 6}}
	o := options(l, memory.NewFeed())
	o.Open = func(context.Context, connectors.Env, connectors.Position) (connectors.Source, error) {
		return source, nil
	}
	tracer, spans := traced(sdktrace.AlwaysSample())
	o.Tracer = tracer
	if _, err := run(t, o); err != nil {
		t.Fatal(err)
	}
	ways := named(spans, "ingest shop")
	if len(ways) != 1 || len(named(spans, "commit")) != 1 || len(named(spans, "append shop.public.orders")) == 0 {
		t.Fatalf("%d ways, %d commits", len(ways), len(named(spans, "commit")))
	}
	want := fmt.Sprintf("00-%s-%s-01", ways[0].SpanContext().TraceID(), ways[0].SpanContext().SpanID())
	for _, r := range slices.Concat(records(t, l, "shop.public.orders")...) {
		if got := header(r, trace.Header); got != want {
			t.Fatalf("record %d with the trace %q, want %q", r.Offset, got, want)
		}
	}
}

// breaking hands out a piece of a transaction and fails.
type breaking struct{ rowSource }

func (s *breaking) Read(ctx context.Context) (connectors.Batch, error) {
	if s.left == 0 {
		return connectors.Batch{}, errors.New("the connection broke at hunter2")
	}
	b, err := s.rowSource.Read(ctx)
	b.Position = nil
	return b, err
}

func TestAWayThatDoesNotArriveEndsWithAnError(t *testing.T) {
	t.Parallel()
	l := openLog(t)
	o := options(l, memory.NewFeed())
	source := &breaking{rowSource{batch: orders(10), left: 2}}
	o.Open = func(context.Context, connectors.Env, connectors.Position) (connectors.Source, error) {
		return source, nil
	}
	tracer, spans := traced(sdktrace.AlwaysSample())
	o.Tracer = tracer
	if _, err := run(t, o); err == nil {
		t.Fatal("the source did not fail")
	}
	ways := named(spans, "ingest shop")
	if len(ways) != 1 || ways[0].Status().Code.String() != "Error" {
		t.Fatalf("%d ways; %+v", len(ways), ways)
	}
	if text := fmt.Sprint(ways[0].Status(), ways[0].Attributes(), ways[0].Events()); bytes.Contains([]byte(text), []byte("hunter2")) {
		t.Errorf("the span quotes the error: %s", text)
	}
}

func TestAnEventKeepsTheTraceOfItsApplication(t *testing.T) {
	t.Parallel()
	events := &connectors.Table{Dialect: connectors.EventDialect, Schema: "public", Name: "outbox", Topic: "events",
		Columns: []connectors.Column{{Name: "key", Kind: connectors.Text}, {Name: "payload", Kind: connectors.Text}, {Name: trace.Header, Kind: connectors.Text}}}
	const theirs = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	l, f := openLog(t), memory.NewFeed()
	f.Append(insert(events, []connectors.Value{text("k"), text("p"), text(theirs)}), insert(events, []connectors.Value{text("k"), text("p"), connectors.NullValue()}))
	o := options(l, f)
	tracer, _ := traced(sdktrace.AlwaysSample())
	o.Tracer = tracer
	if _, err := run(t, o); err != nil {
		t.Fatal(err)
	}
	got := slices.Concat(records(t, l, "events")...)
	if len(got) != 2 || header(got[0], trace.Header) != theirs || header(got[1], trace.Header) != "" {
		t.Errorf("records %+v", got)
	}
}

// BenchmarkIngestTraced is BenchmarkIngest with a tracer: what tracing costs where nothing is sampled, one batch in a
// hundred, and everything.
func BenchmarkIngestTraced(b *testing.B) {
	const rows = 1000
	for name, share := range map[string]float64{"off": -1, "sample 0": 0, "sample 0.01": 0.01, "sample 1": 1} {
		b.Run(name, func(b *testing.B) {
			o := options(openLog(b), memory.NewFeed())
			if share >= 0 {
				o.Tracer = trace.New(sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.TraceIDRatioBased(share))))
			}
			source := &rowSource{batch: orders(rows), left: max(1, b.N/rows)}
			o.Open = func(context.Context, connectors.Env, connectors.Position) (connectors.Source, error) {
				return source, nil
			}
			g, err := ingest.New(o)
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
