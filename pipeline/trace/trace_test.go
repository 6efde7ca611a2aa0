package trace

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/trunkline/trunkline/connectors"
)

func TestWhatIsNotTracedAllocatesNothing(t *testing.T) {
	ctx := t.Context()
	unsampled := New(sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample())))
	for name, way := range map[string]func(){
		"no tracer": func() {
			var tracer *Tracer
			if !tracer.Now().IsZero() {
				t.Error("a tracer that is not there looks at the clock")
			}
			span := tracer.Begin("ingest", "shop", time.Time{})
			span.End(nil, time.Time{})
		},
		"no span": func() {
			var span *Span
			below := span.Context(ctx)
			step := FromContext(below).Child(Client, "write", "warehouse", time.Time{})
			step.Set()
			step.Event("dead letters")
			step.End(context.Canceled, time.Time{})
			if below != ctx || step != nil || span.Parent() != nil {
				t.Error("a span that is not there did something")
			}
		},
		"a record without a trace": func() {
			var from Origins
			if from.Add(nil); !from.None() || unsampled.Continue(&from, "deliver", "warehouse", time.Time{}) != nil {
				t.Error("a trace comes from nowhere")
			}
		},
	} {
		if n := testing.AllocsPerRun(100, way); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	if unsampled.Begin("ingest", "shop", time.Now()) != nil {
		t.Error("a trace that is not sampled has a span")
	}
}

func TestOriginsTakeWhatIsValidAndSampled(t *testing.T) {
	t.Parallel()
	const trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	for name, header := range map[string]string{
		"empty": "", "words": "not a trace", "cut": "00-" + trace + "-" + span, "not sampled": "00-" + trace + "-" + span + "-00",
		"no trace": "00-00000000000000000000000000000000-" + span + "-01", "no span": "00-" + trace + "-0000000000000000-01",
		"forbidden version": "ff-" + trace + "-" + span + "-01", "upper case": "00-0AF7651916CD43DD8448EB211C80319C-" + span + "-01",
	} {
		var from Origins
		if from.Add([]byte(header)); !from.None() {
			t.Errorf("%s: %q is taken for a trace", name, header)
		}
	}
	var from Origins
	for i := range 3 * maxOrigins {
		for range 2 { // also when it comes again later
			from.Add(fmt.Appendf(nil, "00-%s-%016x-01", trace, i%(2*maxOrigins)+1))
		}
	}
	if len(from.list) != maxOrigins {
		t.Errorf("%d traces, want %d", len(from.list), maxOrigins)
	}
}

func TestEachTraceOfABatchHasItsEnd(t *testing.T) {
	t.Parallel()
	recorder := tracetest.NewSpanRecorder()
	tracer := New(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)))
	var from Origins
	var ways []*Span
	for range 3 {
		way := tracer.Begin("ingest", "shop", time.Now())
		from.Add(way.Parent())
		ways = append(ways, way)
	}
	deliver := tracer.Continue(&from, "deliver", "warehouse", time.Now())
	deliver.End(&connectors.RowsError{}, time.Time{})
	deliver.End(nil, time.Time{}) // changes nothing any more
	ended := recorder.Ended()
	if len(ended) != 3 {
		t.Fatalf("%d spans ended", len(ended))
	}
	for i, way := range ways {
		var found sdktrace.ReadOnlySpan
		for _, s := range ended {
			if s.Parent().SpanID() == way.span.SpanContext().SpanID() && s.SpanContext().TraceID() == way.span.SpanContext().TraceID() {
				found = s
			}
		}
		if found == nil {
			t.Errorf("trace %d has no delivery", i)
			continue
		}
		links := 1 // to the one with the details
		if i == 0 {
			links = 2 // to the ways of the others
		}
		if len(found.Links()) != links || found.Status().Code.String() != "Error" {
			t.Errorf("trace %d: %d links, status %v", i, len(found.Links()), found.Status())
		}
	}
}

func TestErrorsAreClassesWithoutText(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"rows_refused": fmt.Errorf("write: %w", &connectors.RowsError{}), "fatal": fmt.Errorf("x: %w", connectors.ErrFatal),
		"position_lost": connectors.ErrPositionLost, "canceled": context.Canceled, "_OTHER": errors.New("password hunter2"),
	} {
		if got := class(err); got != want {
			t.Errorf("%v is %s, want %s", err, got, want)
		}
	}
}
