package deliver

import (
	"context"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/pipeline/trace"
)

// traceJob continues the traces that the records of a job name. polled is when the poll that brought them began, zero if
// they are the rest of what an earlier job began; fetched is when there were records to decode.
func (r *run) traceJob(j *job, polled, fetched time.Time) {
	if r.o.Tracer == nil {
		return
	}
	moved := r.moved
	r.moved = nil
	var from trace.Origins
	newest := int64(0)
	for i := range j.records {
		newest = max(newest, j.records[i].Timestamp)
		addOrigin(&from, &j.records[i])
	}
	if from.None() {
		return
	}
	start := fetched
	if !polled.IsZero() {
		start = polled
		// A poll that waited begins with what it waited for.
		if written := time.UnixMilli(newest); written.After(polled) && written.Before(fetched) {
			start = written
		}
	}
	p := j.partition
	j.span = r.o.Tracer.Continue(&from, "deliver", r.o.Sink, start,
		trace.Sink.String(r.o.Sink), trace.Messaging.String(trace.LogSystem), trace.ActType.String("process"), trace.Act.String("deliver"),
		trace.Topic.String(p.Topic), trace.Partition.Int(int(p.Partition)), trace.Group.String(r.o.Group),
		trace.Offset.Int64(j.records[0].Offset), trace.Messages.Int(len(j.records)))
	for _, table := range moved {
		j.span.Event("migrate", trace.Table.String(table))
	}
	if !polled.IsZero() {
		step := j.span.Child(trace.Client, "fetch", p.Topic, start)
		step.Set(trace.Messaging.String(trace.LogSystem), trace.ActType.String("receive"), trace.Act.String("poll"))
		step.End(nil, fetched)
	}
	step := j.span.Child(trace.Internal, "decode", "", fetched)
	step.Set(trace.Rows.Int(len(j.changes)))
	step.End(nil, time.Time{})
}

// maxMoved bounds how many tables are noted from one job to the next.
const maxMoved = 32

// noteMigration notes that the sink was asked to follow a table to a version, which happens between two jobs.
func (r *run) noteMigration(t *connectors.Table) {
	if r.o.Tracer != nil && len(r.moved) < maxMoved {
		r.moved = append(r.moved, t.FullName())
	}
}

// addOrigin takes in the trace that a record names, if it does.
func addOrigin(from *trace.Origins, r *log.Record) {
	for i := range r.Headers {
		if r.Headers[i].Key == trace.Header {
			from.Add(r.Headers[i].Value)
		}
	}
}

// traceReplay continues the traces of dead letters of one topic that are written again.
func (r *replay) traceReplay(topic string, letters []*Letter) *trace.Span {
	if r.o.Tracer == nil {
		return nil
	}
	var from trace.Origins
	for _, l := range letters {
		addOrigin(&from, r.copies[l.ID])
	}
	return r.o.Tracer.Continue(&from, "replay", r.o.Sink, time.Now(), trace.Sink.String(r.o.Sink), trace.Messaging.String(trace.LogSystem),
		trace.ActType.String("process"), trace.Act.String("replay"), trace.Topic.String(topic), trace.Messages.Int(len(letters)))
}

// traceWrite begins the span of a write, if ctx is of a job that is traced.
func (r *run) traceWrite(ctx context.Context, b connectors.Batch) *trace.Span {
	step := trace.FromContext(ctx).Child(trace.Client, "write", r.o.Sink, time.Time{})
	if step == nil {
		return nil
	}
	step.Set(trace.System(r.o.Type)...)
	step.Set(trace.BatchRows.Int(len(b.Changes)), trace.WithRows.Bool(r.keeper != nil))
	return step
}

// traceSettled ends the way of a job whose records are dealt with. began is when its offsets were handed over.
func (r *run) traceSettled(j *job, began time.Time) {
	if j.span == nil {
		return
	}
	now := time.Now()
	if r.keeper == nil {
		step := j.span.Child(trace.Client, "commit", r.o.Group, began)
		step.Set(trace.Messaging.String(trace.LogSystem), trace.ActType.String("settle"), trace.Act.String("commit"), trace.Group.String(r.o.Group))
		step.End(nil, now)
	}
	j.span.Set(trace.Rows.Int(len(j.changes)))
	if n := len(j.changes); n > 0 && !j.changes[n-1].Time.IsZero() {
		j.span.Set(trace.AgeSeconds.Float64(max(0, j.written.Sub(j.changes[n-1].Time).Seconds())))
	}
	j.span.End(nil, now)
}
