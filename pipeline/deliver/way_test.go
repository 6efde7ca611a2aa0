package deliver_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/pipeline/deliver"
	"github.com/trunkline/trunkline/pipeline/ingest"
	"github.com/trunkline/trunkline/pipeline/trace"
)

// tracedLine is a line whose batches are all traced.
type tracedLine struct {
	*line
	tracer *trace.Tracer
	spans  *tracetest.SpanRecorder
}

func newTracedLine(t *testing.T) *tracedLine {
	t.Helper()
	s := &tracedLine{line: newLine(t), spans: tracetest.NewSpanRecorder()}
	s.topics = log.TopicConfig{Partitions: 1}
	s.tracer = trace.New(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(s.spans)))
	return s
}

// ingest carries what the feed holds now into the log, as a way of its own.
func (s *tracedLine) ingest() {
	s.t.Helper()
	g, err := ingest.New(ingest.Options{Source: "shop", Connector: "memory", Open: s.feed.Open, Journal: s.log, Schemas: s.schemas, Topics: s.topics, Tracer: s.tracer, Once: true})
	if err != nil {
		s.t.Fatal(err)
	}
	if err := g.Run(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

func (s *tracedLine) options() deliver.Options {
	o := s.line.options()
	o.Tracer, o.Type = s.tracer, "memory"
	return o
}

// named returns the spans of that name that have ended.
func (s *tracedLine) named(name string) (out []sdktrace.ReadOnlySpan) {
	for _, span := range s.spans.Ended() {
		if span.Name() == name {
			out = append(out, span)
		}
	}
	return out
}

// within returns the names of the spans below another.
func (s *tracedLine) within(of sdktrace.ReadOnlySpan) string {
	var names []string
	for _, span := range s.spans.Ended() {
		if span.Parent().SpanID() == of.SpanContext().SpanID() {
			names = append(names, span.Name())
		}
	}
	return strings.Join(names, ", ")
}

// events shows what happened on the way of a span.
func events(span sdktrace.ReadOnlySpan) (out string) {
	for _, e := range span.Events() {
		out += e.Name
		for _, a := range e.Attributes {
			out += fmt.Sprintf(" %s=%s", a.Key, a.Value.String())
		}
		out += "\n"
	}
	return out
}

func TestABatchOfTwoTracesIsDeliveredInBoth(t *testing.T) {
	t.Parallel()
	s := newTracedLine(t)
	s.feed.Append(insert(1, "a"))
	s.ingest()
	s.feed.Append(insert(2, "b"))
	s.ingest()
	s.mustDeliver(s.options())
	ways, deliveries := s.named("ingest shop"), s.named("deliver target")
	if len(ways) != 2 || len(deliveries) != 2 {
		t.Fatalf("%d ways, %d deliveries", len(ways), len(deliveries))
	}
	for i, d := range deliveries {
		if d.Parent().SpanID() != ways[i].SpanContext().SpanID() || d.SpanContext().TraceID() != ways[i].SpanContext().TraceID() || len(d.Links()) != 1 {
			t.Errorf("delivery %d has parent %s and %d links", i, d.Parent().SpanID(), len(d.Links()))
		}
	}
	if got, want := s.within(deliveries[0]), "fetch "+itemTopic+", decode, write target"; got != want {
		t.Errorf("the first delivery has %q, want %q", got, want)
	}
	if got := s.within(deliveries[1]); got != "" {
		t.Errorf("the second delivery has steps of its own: %s", got)
	}
	if got, want := events(deliveries[0]), "migrate trunkline.table=public.item\n"; got != want {
		t.Errorf("events %q, want %q", got, want)
	}
}

func TestDeadLettersAreEventsAndTheirReplayIsPartOfTheTrace(t *testing.T) {
	t.Parallel()
	s := newTracedLine(t)
	poison(s.store)
	s.feed.Append(insert(1, "a"), insert(2, "poison-hunter2"))
	s.ingest()
	s.mustDeliver(s.options())
	d := s.named("deliver target")
	if len(d) != 1 || !strings.Contains(events(d[0]), "dead letters trunkline.rows=1 messaging.kafka.offset=1\n") {
		t.Fatalf("%d deliveries, events %q", len(d), events(d[0]))
	}
	s.store.Refuse(nil)
	s.replay(s.options(), everything)
	replay := s.named("replay target")
	if len(replay) != 1 || replay[0].SpanContext().TraceID() != d[0].SpanContext().TraceID() || s.within(replay[0]) != "write target" {
		t.Fatalf("%d replays, with steps %q", len(replay), s.within(replay[0]))
	}
	if text := fmt.Sprintf("%+v", tracetest.SpanStubsFromReadOnlySpans(s.spans.Ended())); strings.Contains(text, "hunter2") {
		t.Error("a span holds what a row holds")
	}
}

func TestADeliveryThatFailsEndsWithAnErrorAndTheNextIsInTheSameTrace(t *testing.T) {
	t.Parallel()
	s := newTracedLine(t)
	s.feed.Append(insert(1, "a"))
	s.ingest()
	o := s.options()
	open := o.Open
	broken := errors.New("connection lost at hunter2")
	o.Open = func(ctx context.Context, env connectors.Env) (connectors.Sink, error) {
		sink, err := open(ctx, env)
		return failing{sink, broken}, err
	}
	if _, err := s.deliver(o); !errors.Is(err, broken) {
		t.Fatalf("the delivery ended with %v", err)
	}
	o.Open = s.store.OpenPlain
	s.mustDeliver(o)
	d := s.named("deliver target")
	if len(d) != 2 || d[0].Status().Code.String() != "Error" || d[1].Status().Code.String() != "Unset" || d[0].SpanContext().TraceID() != d[1].SpanContext().TraceID() {
		t.Fatalf("deliveries %+v", tracetest.SpanStubsFromReadOnlySpans(d))
	}
	if got, want := s.within(d[1]), "fetch "+itemTopic+", decode, write target, commit target"; got != want {
		t.Errorf("a sink without positions has %q, want %q", got, want)
	}
	if text := fmt.Sprintf("%+v", tracetest.SpanStubsFromReadOnlySpans(s.spans.Ended())); strings.Contains(text, "hunter2") {
		t.Error("a span quotes an error")
	}
}

// failing is a sink that fails at each write.
type failing struct {
	connectors.Sink
	err error
}

func (f failing) Write(context.Context, connectors.Batch) error { return f.err }

func TestASinkBeginsNoTrace(t *testing.T) {
	t.Parallel()
	s := newTracedLine(t)
	s.feed.Append(insert(1, "a"))
	s.line.ingest() // without a tracer
	s.mustDeliver(s.options())
	if n := len(s.spans.Ended()); n != 0 {
		t.Errorf("%d spans of a batch that nobody traces", n)
	}
	s.want(map[string]string{"1": "a"})
}
