package ingest

import (
	"context"
	"slices"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/pipeline/trace"
)

// way is what is known of a load for its trace. Without a tracer it stays zero.
//
// The span of the way begins when the first of its batches is read and ends when all of them are durable. Whether it is
// traced is decided with the first batch that holds a change, because what joins that load shares its commit. A
// transaction in pieces is one way through several loads.
type way struct {
	decided bool
	span    *trace.Span // nil: it is not traced
	parent  []byte      // for the records

	began, got, encoded time.Time // the first read, its end, and the end of the last encoding
	batches             int64     // in this load
}

// follow takes a batch in that joins a load. whole says that the batch ends a transaction.
func (r *run) follow(l *load, began, got time.Time, changes []connectors.Change, whole bool) {
	if r.o.Tracer == nil || len(changes) == 0 && !r.piece.decided {
		return
	}
	if !l.way.decided {
		began = sinceCommit(began, got, changes)
		l.way = r.piece
		if !l.way.decided {
			span := r.o.Tracer.Begin("ingest", r.o.Source, began, trace.Source.String(r.o.Source))
			l.way = way{decided: true, span: span, parent: span.Parent()}
			if span != nil {
				r.begun = span
			}
		}
		l.way.began, l.way.got = began, got
	}
	l.way.batches++
	r.piece = way{}
	if !whole {
		r.piece = way{decided: true, span: l.way.span, parent: l.way.parent}
	}
}

// sinceCommit returns when the way of a batch begins: a read that waited for something to happen begins when it did, in
// as far as both clocks agree.
func sinceCommit(began, got time.Time, changes []connectors.Change) time.Time {
	if len(changes) == 0 {
		return began
	}
	committed := changes[len(changes)-1].Time
	if committed.After(began) && committed.Before(got) {
		return committed
	}
	return began
}

// traceAppend makes the spans of a load that was appended.
func (l *load) traceAppend(source, connector string, began time.Time) {
	w := &l.way
	if w.span == nil {
		return
	}
	now := time.Now()
	read := w.span.Child(trace.Client, "read", source, w.began)
	read.Set(trace.System(connector)...)
	read.End(nil, w.got)
	encode := w.span.Child(trace.Internal, "encode", "", w.got)
	encode.Set(trace.Batches.Int64(w.batches), trace.Rows.Int64(l.numbers.changes))
	encode.End(nil, w.encoded)
	topic, messages, topics := "", 0, []string(nil)
	for i := range l.parts {
		messages += len(l.parts[i].records)
		if !slices.Contains(topics, l.parts[i].Topic) {
			topics = append(topics, l.parts[i].Topic)
		}
	}
	if len(topics) == 1 {
		topic = topics[0]
	}
	step := w.span.Child(trace.Producer, "append", topic, began)
	step.Set(trace.Messaging.String(trace.LogSystem), trace.ActType.String("send"), trace.Act.String("append"), trace.Messages.Int(messages), trace.Topics.Int(len(topics)))
	if topic != "" {
		step.Set(trace.Topic.String(topic))
	}
	step.End(nil, now)
}

// traceCommit makes the span of a commit and ends the way. numbers are those of the whole transaction.
func (l *load) traceCommit(began time.Time, numbers batch) {
	w := &l.way
	if w.span == nil {
		return
	}
	now := time.Now()
	step := w.span.Child(trace.Client, "commit", "", began)
	step.Set(trace.Messaging.String(trace.LogSystem), trace.Act.String("commit"))
	step.End(nil, now)
	w.span.Set(trace.Rows.Int64(numbers.changes), trace.Bytes.Int64(numbers.bytes))
	if !numbers.time.IsZero() {
		w.span.Set(trace.AgeSeconds.Float64(max(0, now.Sub(numbers.time).Seconds())))
	}
	w.span.End(nil, now)
}

// abandon ends the way of what was read and did not become durable. Both goroutines have ended, and only the newest way
// can be without an end: commit ends that of the load which it could not store.
func (r *run) abandon(read, failed error) {
	err := failed
	if err == nil {
		err = read
	}
	if err == nil {
		err = context.Canceled // the source ended within a transaction
	}
	r.begun.End(err, time.Time{})
}

// carriesTrace reports whether the rows of a table are events with a traceparent among their columns: it is the
// application's, and goes into the header instead of ours.
func carriesTrace(t *connectors.Table) bool {
	return t.Dialect == connectors.EventDialect && slices.ContainsFunc(t.Columns, func(c connectors.Column) bool { return c.Name == trace.Header })
}
