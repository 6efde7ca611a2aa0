package deliver

import (
	"context"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/pipeline/trace"
)

// traceJob continues the traces that the records of a job name. polled is when the poll that brought them began, zero if
// they are the rest of what an earlier job began; fetched is when there were records to decode.
func (r *run) traceJob(j *job, polled, fetched time.Time) {
	if r.o.Tracer == nil {
		return
	}
	var from trace.Origins
	newest := int64(0)
	for i := range j.records {
		newest = max(newest, j.records[i].Timestamp)
		for k := range j.records[i].Headers {
			if h := &j.records[i].Headers[k]; h.Key == trace.Header {
				from.Add(h.Value)
			}
		}
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
	if !polled.IsZero() {
		step := j.span.Child(trace.Client, "fetch", p.Topic, start)
		step.Set(trace.Messaging.String(trace.LogSystem), trace.ActType.String("receive"), trace.Act.String("poll"))
		step.End(nil, fetched)
	}
	step := j.span.Child(trace.Internal, "decode", "", fetched)
	step.Set(trace.Rows.Int(len(j.changes)))
	step.End(nil, time.Time{})
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
