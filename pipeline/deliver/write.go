package deliver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/pipeline/codec"
	"github.com/trunkline/trunkline/pipeline/trace"
)

// deal carries a fetch into the sink, cut where a truncate, half of a move or a new version of a table stands. The last write may still be in flight afterwards.
func (r *run) deal(hard context.Context, p *partition, f log.Fetch) error {
	records := f.Records
	polled, fetched := r.polled, r.fetched
	for len(records) > 0 {
		if p.cover != nil && p.cover.full() {
			if err := r.join(hard); err != nil {
				return err
			}
			if err := r.settleRows(hard, p); err != nil {
				return err
			}
		}
		j := r.spare()
		cut, err := r.decode(hard, p, j, r.o.Batch.within(records))
		if err != nil {
			return err
		}
		if cut.n > 0 {
			r.traceJob(j, polled, fetched)
		}
		polled, fetched = time.Time{}, r.o.Tracer.Now() // the fetch belongs to the first run of its records
		written, err := r.await()
		if err != nil {
			return err
		}
		next := nextOffset(records[max(1, cut.n):], f.Next)
		if cut.n > 0 {
			j.next, j.refused = next, cut.refused
			r.launch(hard, j)
		}
		if err := r.settle(hard, written); err != nil {
			return err
		}
		if cut.n == 0 {
			if cut.version {
				return r.meetVersion(hard, p, cut.barrier.Table, &records[0], next)
			}
			if waiting, err := r.meet(hard, p, &cut.barrier, &records[0], next); err != nil || waiting {
				return err
			}
		}
		records = records[max(1, cut.n):]
	}
	if r.flying != nil && f.Next < f.HighWatermark {
		return nil // there is more to read while the sink writes
	}
	if err := r.join(hard); err != nil {
		return err
	}
	if p.next < f.Next {
		if err := r.advance(hard, p, f.Next); err != nil {
			return err
		}
	}
	return r.settleRows(hard, p)
}

// within returns the first of the records that are a batch: as many as the sink takes in bytes, and at least one. The log
// hands out batches of its own whole, which may be larger.
func (b Batch) within(records []log.Record) []log.Record {
	size := 0
	for i := range records {
		if size += recordBytes(&records[i]); size > b.Bytes && i > 0 {
			return records[:i]
		}
	}
	return records
}

// nextOffset is where reading goes on before these records.
func nextOffset(records []log.Record, end int64) int64 {
	if len(records) > 0 {
		return records[0].Offset
	}
	return end
}

// refusal is a record that goes to the dead letters.
type refusal struct {
	record *log.Record
	reason error
}

// cut is a run of records without one that concerns other partitions, or such a one alone.
type cut struct {
	n       int // records; they and their changes are in the job
	refused []refusal
	barrier connectors.Change // if n is 0
	version bool              // if n is 0: it is one for its version's sake
}

// decode copies records into a job, up to the next one that concerns other partitions, and reads them.
func (r *run) decode(ctx context.Context, p *partition, j *job, records []log.Record) (cut, error) {
	var out cut
	j.reset(p, records)
	for i := range j.records {
		var c connectors.Change
		record := &j.records[i]
		ok, err := r.decoder.Decode(ctx, record, &c, &j.arena)
		var unreadable *codec.RecordError
		switch {
		case errors.As(err, &unreadable):
			out.refused = append(out.refused, refusal{record, unreadable.Err})
		case err != nil:
			return out, fmt.Errorf("decode %s: %w", p.stream, err)
		case ok && (r.outdated(p, record, &c) || c.Op == connectors.Truncate || r.crosses(p, record)):
			if i == 0 {
				out.barrier, out.version = c, r.outdated(p, record, &c)
			}
			j.records = j.records[:i]
			return out, nil
		case ok:
			if err := r.complete(ctx, p, record, &c); err != nil {
				return out, err
			}
			if err := r.take(ctx, j, record, &c); err != nil {
				out.refused = append(out.refused, refusal{record, err})
			}
		}
		out.n++
	}
	return out, nil
}

// write makes a run of records durable: those that cannot be read as dead letters, the others in the sink.
func (r *run) write(hard context.Context, j *job) error {
	p, records := j.partition, j.records
	if err := r.bury(hard, p, j.refused); err != nil {
		return err
	}
	changes, err := r.transform(hard, j)
	if err != nil {
		return err
	}
	wrote := false
	for len(changes) > 0 {
		n, err := r.admit(hard, changes)
		if err != nil {
			return err
		}
		end := j.next
		if n < len(changes) {
			end = changes[n].Offset
		}
		if err := r.put(hard, p, records, changes[:n], end); err != nil {
			return err
		}
		changes, wrote = changes[n:], true
	}
	if !wrote && r.keeper != nil {
		// The sink's position is the truth, so it has to pass what became a dead letter or nothing at all.
		return r.send(hard, p, connectors.Batch{Stream: p.stream, Position: position(j.next)})
	}
	return nil
}

// transform applies the hook. What it refuses becomes dead letters.
func (r *run) transform(hard context.Context, j *job) ([]connectors.Change, error) {
	changes := j.changes
	if r.o.Transform != nil {
		step := trace.FromContext(hard).Child(trace.Internal, "transform", "", time.Time{})
		defer step.End(nil, time.Time{})
	}
	for r.o.Transform != nil && len(changes) > 0 {
		out, err := r.o.Transform(hard, changes)
		var rows *connectors.RowsError
		if !errors.As(err, &rows) {
			if err != nil {
				return nil, fmt.Errorf("transform %s: %w", j.partition.stream, err)
			}
			return out, nil
		}
		if changes, err = r.drop(hard, j.partition, j.records, changes, rows); err != nil {
			return nil, err
		}
	}
	return changes, nil
}

// recordAt finds the record with that offset.
func recordAt(records []log.Record, offset int64) *log.Record {
	i := sort.Search(len(records), func(i int) bool { return records[i].Offset >= offset })
	return &records[min(i, len(records)-1)]
}

// put writes changes, without those that the sink refuses.
func (r *run) put(hard context.Context, p *partition, records []log.Record, changes []connectors.Change, end int64) error {
	for {
		if len(changes) == 0 && r.keeper == nil {
			return nil
		}
		err := r.send(hard, p, connectors.Batch{Stream: p.stream, Changes: changes, Position: position(end)})
		var rows *connectors.RowsError
		if !errors.As(err, &rows) {
			return err
		}
		if changes, err = r.drop(hard, p, records, changes, rows); err != nil {
			return err
		}
	}
}

// send is the one place that calls Write.
func (r *run) send(hard context.Context, p *partition, b connectors.Batch) error {
	r.meter.writing(true)
	defer r.meter.writing(false)
	step := r.traceWrite(hard, b)
	err := r.sink.Write(step.Context(hard), b)
	step.End(err, time.Time{})
	if err != nil {
		return fmt.Errorf("write %s to sink %q: %w", p.stream, r.o.Sink, err)
	}
	return nil
}

// drop buries the records of refused changes and returns the changes of all others, in a new slice.
func (r *run) drop(hard context.Context, p *partition, records []log.Record, changes []connectors.Change, rows *connectors.RowsError) ([]connectors.Change, error) {
	var refused []refusal
	var offsets []int64
	for _, row := range rows.Rows {
		if row.Index < 0 || row.Index >= len(changes) {
			return nil, fmt.Errorf("write %s to sink %q: it refused row %d of %d: %w", p.stream, r.o.Sink, row.Index, len(changes), connectors.ErrFatal)
		}
		offset := changes[row.Index].Offset
		if slices.Contains(offsets, offset) {
			continue
		}
		offsets = append(offsets, offset)
		refused = append(refused, refusal{recordAt(records, offset), row.Err})
	}
	if len(refused) == 0 {
		return nil, fmt.Errorf("write %s to sink %q: it refused rows without naming one: %w", p.stream, r.o.Sink, connectors.ErrFatal)
	}
	if err := r.bury(hard, p, refused); err != nil {
		return nil, err
	}
	slices.Sort(offsets)
	kept := make([]connectors.Change, 0, len(changes))
	for _, c := range changes {
		if _, found := slices.BinarySearch(offsets, c.Offset); !found {
			kept = append(kept, c)
		}
	}
	return kept, nil
}
