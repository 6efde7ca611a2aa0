// Package trace makes the spans of a batch's way: from its commit in the source to its commit in the sink.
//
// It promises that what is not traced costs nothing: a nil Tracer and a nil Span are valid, and all of their methods do
// nothing. It promises that spans are made for batches and never for rows, and that no span carries a value of a row or
// the text of an error, which may quote one. It knows the interfaces of OpenTelemetry alone: who collects spans and where
// they are sent is decided by the program, in the command run. Packages ingest, deliver and pipeline call it.
//
// A batch that is traced names its trace in every record, in the header traceparent of W3C's Trace Context. So the trace
// goes on in the process that delivers it, whichever that is and whenever it does.
package trace

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/trunkline/trunkline/connectors"
)

// Header is the key of the record header that names the trace: 00-<trace id>-<span id>-<flags>, in hexadecimal digits
// (https://www.w3.org/TR/trace-context/).
const Header = "traceparent"

// scope is the name under which the spans are made.
const scope = "github.com/trunkline/trunkline"

// The kinds of spans: a step within the process, a call to another system, and a batch that comes from the log.
const (
	Internal = oteltrace.SpanKindInternal
	Client   = oteltrace.SpanKindClient
	Producer = oteltrace.SpanKindProducer
	Consumer = oteltrace.SpanKindConsumer
)

// Tracer begins traces. A nil one begins none. Its methods may be called from any goroutine.
type Tracer struct{ tracer oteltrace.Tracer }

// New returns a tracer whose spans go to the provider.
func New(p oteltrace.TracerProvider) *Tracer { return &Tracer{p.Tracer(scope)} }

// Now returns the time; zero when nothing is traced, which spares the clock.
func (t *Tracer) Now() time.Time {
	if t == nil {
		return time.Time{}
	}
	return time.Now()
}

// Begin begins a trace. It returns nil if this one is not among those that are sampled.
func (t *Tracer) Begin(verb, object string, start time.Time, attributes ...attribute.KeyValue) *Span {
	if t == nil {
		return nil
	}
	_, s := t.tracer.Start(context.Background(), verb+" "+object, oteltrace.WithTimestamp(start), oteltrace.WithAttributes(attributes...))
	if !s.IsRecording() {
		return nil
	}
	return &Span{span: s}
}

// Continue begins a span in each of the traces that the records of a batch name. The first trace gets the details; those
// of the others point to it by a link, and it to theirs. It returns nil if there is no trace to continue.
func (t *Tracer) Continue(from *Origins, verb, object string, start time.Time, attributes ...attribute.KeyValue) *Span {
	if t == nil || len(from.list) == 0 {
		return nil
	}
	begin := func(parent oteltrace.SpanContext, links []oteltrace.Link) oteltrace.Span {
		ctx := oteltrace.ContextWithRemoteSpanContext(context.Background(), parent)
		_, s := t.tracer.Start(ctx, verb+" "+object, oteltrace.WithSpanKind(Consumer), oteltrace.WithTimestamp(start),
			oteltrace.WithAttributes(attributes...), oteltrace.WithLinks(links...))
		return s
	}
	var links []oteltrace.Link
	for _, other := range from.list[1:] {
		links = append(links, oteltrace.Link{SpanContext: other})
	}
	main := &Span{span: begin(from.list[0], links)}
	if !main.span.IsRecording() {
		return nil
	}
	for _, other := range from.list[1:] {
		main.twins = append(main.twins, begin(other, []oteltrace.Link{{SpanContext: main.span.SpanContext()}}))
	}
	return main
}

// Span is one step of the way. A nil one does nothing. Its methods may be called from any goroutine.
type Span struct {
	span  oteltrace.Span
	twins []oteltrace.Span // of the same step, in other traces
}

// FromContext returns the span that ctx carries; nil if there is none.
func FromContext(ctx context.Context) *Span {
	s := oteltrace.SpanFromContext(ctx)
	if !s.IsRecording() {
		return nil
	}
	return &Span{span: s}
}

// Context returns ctx with the span in it, for those below who make spans of their own.
func (s *Span) Context(ctx context.Context) context.Context {
	if s == nil {
		return ctx
	}
	return oteltrace.ContextWithSpan(ctx, s.span)
}

// Child begins a step of this one. An empty object is none; a zero start is now.
func (s *Span) Child(kind oteltrace.SpanKind, verb, object string, start time.Time) *Span {
	if s == nil {
		return nil
	}
	if object != "" {
		verb += " " + object
	}
	options := []oteltrace.SpanStartOption{oteltrace.WithSpanKind(kind)}
	if !start.IsZero() {
		options = append(options, oteltrace.WithTimestamp(start))
	}
	ctx := oteltrace.ContextWithSpan(context.Background(), s.span)
	_, child := s.span.TracerProvider().Tracer(scope).Start(ctx, verb, options...)
	return &Span{span: child}
}

// Set adds attributes. Callers that make them ask first whether the span is nil.
func (s *Span) Set(attributes ...attribute.KeyValue) {
	if s == nil {
		return
	}
	s.span.SetAttributes(attributes...)
	for _, t := range s.twins {
		t.SetAttributes(attributes...)
	}
}

// Event notes something that happened on the way.
func (s *Span) Event(name string, attributes ...attribute.KeyValue) {
	if s != nil {
		s.span.AddEvent(name, oteltrace.WithAttributes(attributes...))
	}
}

// End ends the span at a time; a zero one is now. Of an error it says the class and never the text. Only the first call
// counts.
func (s *Span) End(err error, at time.Time) {
	if s == nil {
		return
	}
	if at.IsZero() {
		at = time.Now()
	}
	if err != nil {
		s.Set(attribute.String("error.type", class(err)))
		s.span.SetStatus(codes.Error, "see the log of trunkline for the reason")
		for _, t := range s.twins {
			t.SetStatus(codes.Error, "see the log of trunkline for the reason")
		}
	}
	s.span.End(oteltrace.WithTimestamp(at))
	for _, t := range s.twins {
		t.End(oteltrace.WithTimestamp(at))
	}
}

// class says what kind of error it is, in the few words that OpenTelemetry asks of error.type; _OTHER is its own word.
func class(err error) string {
	var rows *connectors.RowsError
	if errors.As(err, &rows) {
		return "rows_refused"
	}
	for _, c := range []struct {
		err  error
		name string
	}{
		{connectors.ErrPositionLost, "position_lost"}, {connectors.ErrFenced, "fenced"}, {connectors.ErrFatal, "fatal"},
		{context.Canceled, "canceled"}, {context.DeadlineExceeded, "timeout"},
	} {
		if errors.Is(err, c.err) {
			return c.name
		}
	}
	return "_OTHER"
}

// Parent returns the value of Header that makes others continue this span; nil for a nil span.
func (s *Span) Parent() []byte {
	if s == nil {
		return nil
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(oteltrace.ContextWithSpan(context.Background(), s.span), carrier)
	return []byte(carrier[Header])
}

// maxOrigins bounds how many traces one batch continues. Those of the records behind are not continued.
const maxOrigins = 32

// Origins collects the traces that the records of a batch name. The zero value has none.
type Origins struct {
	list []oteltrace.SpanContext
	last []byte // the value that was seen last: records of one batch share it
}

// Add takes the value of a header in, which must stay as it is until the batch is dealt with. What is no valid value, or
// says that its trace is not sampled, counts for nothing: others may write headers too.
func (o *Origins) Add(value []byte) {
	if len(o.list) == maxOrigins || string(value) == string(o.last) {
		return
	}
	o.last = value
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{Header: string(value)})
	c := oteltrace.SpanContextFromContext(ctx)
	if !c.IsValid() || !c.IsSampled() {
		return
	}
	for _, known := range o.list {
		if known.SpanID() == c.SpanID() && known.TraceID() == c.TraceID() {
			return
		}
	}
	o.list = append(o.list, c)
}

// None reports that no record named a trace.
func (o *Origins) None() bool { return len(o.list) == 0 }
