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
)

// rewriting is a run of letters of one topic on its way into the sink.
type rewriting struct {
	letters []*Letter // by the offsets of their announcements, which are their changes' offsets
	first   int64     // the offset of the first announcement
	refused map[*Letter]bool
}

// of returns the letter whose change has that offset.
func (w *rewriting) of(offset int64) *Letter { return w.letters[offset-w.first] }

// rewrite announces letters of one topic, writes them, and marks them.
func (r *replay) rewrite(ctx context.Context, topic string, letters []*Letter) error {
	ids := make([]int64, len(letters))
	for i, l := range letters {
		ids[i] = l.ID
	}
	first, err := markLetters(ctx, r.o.Journal, r.o.Sink, letterReplaying, "", ids...)
	if err != nil {
		return err
	}
	w := &rewriting{letters: letters, first: first, refused: map[*Letter]bool{}}
	changes, err := r.changes(ctx, topic, w)
	if err != nil {
		return err
	}
	span := r.traceReplay(topic, letters)
	err = r.deliver(span.Context(ctx), topic, w, changes)
	span.End(err, time.Time{})
	if err != nil {
		return err
	}
	var written []int64
	for _, l := range letters {
		if !w.refused[l] {
			written = append(written, l.ID)
		}
	}
	if len(written) > 0 {
		if _, err := markLetters(ctx, r.o.Journal, r.o.Sink, letterReplayed, "", written...); err != nil {
			return err
		}
	}
	r.out.Written += len(written)
	return nil
}

// changes reads the letters, and leaves those out that are no row to write.
func (r *replay) changes(ctx context.Context, topic string, w *rewriting) ([]connectors.Change, error) {
	p := &partition{TopicPartition: log.TopicPartition{Topic: topic}}
	j := r.spare()
	records := make([]log.Record, len(w.letters))
	for i, l := range w.letters {
		records[i] = *r.copies[l.ID]
		records[i].Offset = w.first + int64(i)
	}
	j.reset(p, records)
	for i := range j.records {
		l, record := w.letters[i], &j.records[i]
		var c connectors.Change
		ok, err := r.decoder.Decode(ctx, record, &c, &j.arena)
		var unreadable *codec.RecordError
		switch {
		case errors.As(err, &unreadable):
			if err := r.refuse(ctx, w, l, unreadable.Err); err != nil {
				return nil, err
			}
			continue
		case err != nil:
			return nil, fmt.Errorf("decode dead letter %d: %w", l.ID, err)
		case !ok:
			continue
		}
		why, err := r.fit(ctx, p, record, &c)
		if err != nil {
			return nil, err
		}
		if why != "" {
			if err := r.putBack(ctx, w, l, why); err != nil {
				return nil, err
			}
			continue
		}
		r.adapt(p, &c)
		j.changes = append(j.changes, c)
	}
	return j.changes, nil
}

// fit makes sure that the sink has a version of the letter's table, or says why the letter is no row to write.
func (r *replay) fit(ctx context.Context, p *partition, record *log.Record, c *connectors.Change) (string, error) {
	if c.Op == connectors.Truncate {
		return leftTruncate, nil
	}
	if _, moved := codec.MoveOf(record); moved && r.keeper != nil {
		return leftMoved, nil
	}
	if r.migrator == nil || c.Op == connectors.Message {
		return "", nil
	}
	f, err := r.followed(ctx, tableKey{p.Topic, c.Table.FullName()})
	if err != nil {
		return "", err
	}
	id, _ := codec.SchemaOf(record)
	newer := id > f.id && (f.table == nil || !f.table.Equal(c.Table))
	switch {
	case newer && f.table != nil && r.keeper != nil:
		return leftNewer, nil
	case newer:
		into := r.made(ctx, c.Table)
		for _, to := range into {
			if err := r.migrateTo(ctx, connectors.Migration{From: sameTable(f.into, to), To: to}); err != nil {
				return "", fmt.Errorf("migrate table %s in sink %q: %w", c.Table.FullName(), r.o.Sink, err)
			}
		}
		*f = followed{id: id, table: c.Table, into: into, ready: true}
	case !f.ready:
		for _, to := range f.into {
			if err := r.migrateTo(ctx, connectors.Migration{From: to, To: to}); err != nil {
				return "", fmt.Errorf("ask sink %q for table %s: %w", r.o.Sink, c.Table.FullName(), err)
			}
		}
		f.ready = true
	}
	return "", nil
}

// deliver writes the changes, without those that the transforms or the sink refuse.
func (r *replay) deliver(ctx context.Context, topic string, w *rewriting, changes []connectors.Change) error {
	for r.o.Transform != nil && len(changes) > 0 {
		out, err := r.o.Transform(ctx, changes)
		if err == nil {
			changes = out
			break
		}
		if changes, err = r.without(ctx, w, changes, err); err != nil {
			return fmt.Errorf("transform dead letters of %s: %w", topic, err)
		}
	}
	end := w.first + int64(len(w.letters))
	for len(changes) > 0 {
		n, err := r.admit(ctx, changes)
		if err != nil {
			return err
		}
		next := end
		if n < len(changes) {
			next = changes[n].Offset
		}
		part := changes[:n]
		changes = changes[n:]
		for len(part) > 0 {
			b := connectors.Batch{Stream: ReplayStream(topic), Changes: part, Position: position(next)}
			step := r.traceWrite(ctx, b)
			err := r.sink.Write(step.Context(ctx), b)
			step.End(err, time.Time{})
			if err == nil {
				break
			}
			if part, err = r.without(ctx, w, part, err); err != nil {
				return fmt.Errorf("write dead letters of %s to sink %q: %w", topic, r.o.Sink, err)
			}
		}
	}
	return nil
}

// without marks the letters whose rows were refused and returns the changes of all others, in a new slice. An error that
// refuses no row is returned as it is.
func (r *replay) without(ctx context.Context, w *rewriting, changes []connectors.Change, err error) ([]connectors.Change, error) {
	var rows *connectors.RowsError
	if !errors.As(err, &rows) {
		return nil, err
	}
	before := len(w.refused)
	for _, row := range rows.Rows {
		if row.Index < 0 || row.Index >= len(changes) {
			return nil, fmt.Errorf("row %d of %d was refused: %w", row.Index, len(changes), connectors.ErrFatal)
		}
		if err := r.refuse(ctx, w, w.of(changes[row.Index].Offset), row.Err); err != nil {
			return nil, err
		}
	}
	if len(w.refused) == before {
		return nil, fmt.Errorf("rows were refused without naming one: %w", connectors.ErrFatal)
	}
	kept := slices.Clone(changes)
	return slices.DeleteFunc(kept, func(c connectors.Change) bool { return w.refused[w.of(c.Offset)] }), nil
}

// refuse notes that the sink does not want the row now either.
func (r *replay) refuse(ctx context.Context, w *rewriting, l *Letter, why error) error {
	if w.refused[l] {
		return nil
	}
	w.refused[l] = true
	reason := why.Error()
	if len(reason) > maxReason {
		reason = reason[:maxReason]
	}
	r.out.Refused = append(r.out.Refused, Unwritten{l.ID, reason})
	_, err := markLetters(ctx, r.o.Journal, r.o.Sink, letterRefused, reason, l.ID)
	return err
}

// putBack takes back the announcement of a letter that is no row to write. Its reason stays.
func (r *replay) putBack(ctx context.Context, w *rewriting, l *Letter, why string) error {
	w.refused[l] = true
	r.out.Left = append(r.out.Left, Unwritten{l.ID, why})
	sort.Slice(r.out.Left, func(i, j int) bool { return r.out.Left[i].ID < r.out.Left[j].ID })
	_, err := markLetters(ctx, r.o.Journal, r.o.Sink, letterRefused, "", l.ID)
	return err
}
