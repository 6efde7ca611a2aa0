package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

var errRowTooLarge = errors.New("row is larger than the limit")

// step is one of the queries of an extract. All select the columns, then the cursor, then the tie columns; a unary plus
// keeps the driver from reading a declared type into the value.
type step int

const (
	nullRows  step = iota // rows whose cursor is NULL, by the tie columns; first extract only
	sameAgain             // rows of the last cursor value that lie behind: changed since, or new
	onward                // rows after the place
	ahead                 // rows after the clock
)

// query returns the text of a step and its parameters.
func (t *table) query(s step, limit int) (string, []any, error) {
	var b strings.Builder
	b.WriteString("SELECT ")
	for _, c := range t.columns {
		b.WriteString("+" + c + ", ")
	}
	cursor := quote(t.cursor)
	b.WriteString("+" + cursor)
	for _, c := range t.tie {
		b.WriteString(", +" + c)
	}
	b.WriteString(" FROM " + t.from + " WHERE ")
	at := make([]any, len(t.place.At))
	for i, c := range t.place.At {
		v, err := parseCell(c)
		if err != nil {
			return "", nil, fmt.Errorf("read place of %s: %w", t.Name, err)
		}
		at[i] = v
	}
	order := t.tie
	switch s {
	case nullRows:
		b.WriteString(cursor + " IS NULL")
		if len(at) > 0 {
			b.WriteString(" AND " + rowValue(t.tie) + " > " + marks(len(at)))
		}
	case sameAgain:
		b.WriteString(cursor + " = ? AND " + rowValue(t.tie) + " <= " + marks(len(at)-1))
	case onward:
		order = append([]string{cursor}, t.tie...)
		b.WriteString(cursor + " IS NOT NULL")
		if len(at) > 0 {
			b.WriteString(" AND " + rowValue(order) + " > " + marks(len(at)))
		}
		for _, limit := range []any{t.limit, t.now} {
			if limit != nil {
				b.WriteString(" AND " + cursor + " <= ?")
				at = append(at, limit)
			}
		}
	case ahead:
		order = append([]string{cursor}, t.tie...)
		b.WriteString(cursor + " > ?")
		at = []any{t.after}
		if t.limit != nil {
			b.WriteString(" AND " + cursor + " <= ?")
			at = append(at, t.limit)
		}
	}
	for _, c := range t.nullKeys { // NULL has no place in the order
		b.WriteString(" AND " + c + " IS NOT NULL")
	}
	if t.where != "" {
		b.WriteString(" AND (" + t.where + ")")
	}
	b.WriteString(" ORDER BY " + strings.Join(order, ", "))
	if limit > 0 {
		fmt.Fprintf(&b, " LIMIT %d", limit)
	}
	return b.String(), at, nil
}

func rowValue(columns []string) string { return "(" + strings.Join(columns, ", ") + ")" }

func marks(n int) string { return "(?" + strings.Repeat(", ?", n-1) + ")" }

// reader turns rows of a table into changes of one batch, whose memory is used again by the next one.
type reader struct {
	limits  connectors.Limits
	arena   arena
	values  []connectors.Value
	changes []connectors.Change
	cells   []any
	targets []any
	cell    []byte
	known   *seen // rows that were ahead of the clock before
	last    []any // cursor and tie of the last row that moved the place
	alone   []any // the last row, if it is the first one of its cursor and so is not in the table's seen yet
	now     time.Time
	keys    []string // of the rows of the batch; only where deletes are detected
	detects bool
}

func (r *reader) reset(t *table, now time.Time) {
	r.arena.bytes = r.arena.bytes[:0]
	r.values = r.values[:0]
	r.changes = r.changes[:0]
	r.last = r.last[:0]
	r.alone = r.alone[:0]
	r.keys = r.keys[:0]
	r.now = now
	n := len(t.columns) + 1 + len(t.tie)
	r.cells = make([]any, n)
	r.targets = make([]any, n)
	for i := range r.cells {
		r.targets[i] = &r.cells[i]
	}
}

// extract runs one step and moves the place. more says that the step was not finished.
func (r *reader) extract(ctx context.Context, tx *sql.Tx, t *table, s step) (more bool, err error) {
	limit := 0
	if s != sameAgain && s != ahead {
		limit = r.limits.BatchRows - len(r.changes)
		if limit <= 0 {
			return true, nil
		}
	}
	query, args, err := t.query(s, limit)
	if err != nil {
		return false, err
	}
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return false, fmt.Errorf("read %s: %w", t.FullName(), err)
	}
	defer rows.Close()
	defer r.move(t, s)
	defer r.remember(t)
	n := 0
	for rows.Next() {
		if err := rows.Scan(r.targets...); err != nil {
			return false, fmt.Errorf("read %s: %w", t.FullName(), err)
		}
		n++
		full, err := r.row(t, s)
		if err != nil {
			return false, err
		}
		if full && s != sameAgain && s != ahead {
			return true, nil
		}
	}
	if err := rows.Err(); err != nil {
		return false, fmt.Errorf("read %s: %w", t.FullName(), err)
	}
	return limit > 0 && n == limit, nil
}

// row adds the scanned row, unless it was read before, and reports whether the batch is full.
func (r *reader) row(t *table, s step) (full bool, err error) {
	cells := r.cells[:len(t.columns)]
	at := r.cells[len(t.columns):]
	if s != sameAgain && s != ahead {
		if s == onward && !t.unique && !r.sameCursor(t, at[0]) {
			r.alone = r.alone[:0]
			t.seen.reset()
		}
		r.last = append(r.last[:0], at...)
	}
	if s == onward && !t.unique && len(t.ahead.hashes) == 0 { // most rows are alone with their cursor: nobody asks for their hash
		r.remember(t)
		r.alone = append(r.alone[:0], r.cells...)
	} else if s != nullRows && !t.unique {
		h := r.hash(r.cells)
		if s == ahead {
			t.ahead.add(h)
			if _, known := r.known.hashes[h]; known {
				return false, nil
			}
		} else if !t.seen.add(h) && s == sameAgain {
			return false, nil
		} else if _, known := t.ahead.hashes[h]; known { // it was handed over when it was ahead
			return false, nil
		}
	}
	if r.detects && len(t.Key) > 0 {
		r.keys = append(r.keys, keyOf(cells, t.Key))
	}
	start, first := len(r.values), len(r.arena.bytes)
	for i, c := range cells {
		r.values = append(r.values, r.arena.value(t.Columns[i].Kind, c))
	}
	if len(r.arena.bytes)-first > r.limits.RowBytes {
		return false, errRowTooLarge
	}
	place := len(r.arena.bytes)
	for i, c := range at {
		if i > 0 {
			r.arena.bytes = append(r.arena.bytes, '/')
		}
		r.arena.value(connectors.Text, c)
	}
	r.changes = append(r.changes, connectors.Change{
		Op: t.op(), Table: t.Table, After: r.values[start:len(r.values):len(r.values)], Time: r.now,
		Position: connectors.Position(r.arena.bytes[place:len(r.arena.bytes):len(r.arena.bytes)]),
	})
	return len(r.changes) >= r.limits.BatchRows || len(r.arena.bytes) >= r.limits.BatchBytes, nil
}

// op is Snapshot in the first extract, then Insert where a row can only be new, else Update: an extract cannot tell.
func (t *table) op() connectors.Op {
	switch {
	case t.place.Snapshot:
		return connectors.Snapshot
	case t.unique:
		return connectors.Insert
	}
	return connectors.Update
}

// sameCursor reports whether the row before this one, in this batch or the last, had the same cursor.
func (r *reader) sameCursor(t *table, cursor any) bool {
	if len(r.last) > 0 {
		switch before := r.last[0].(type) {
		case string:
			now, ok := cursor.(string)
			return ok && now == before
		case int64:
			now, ok := cursor.(int64)
			return ok && now == before
		}
	}
	r.cell = appendCell(r.cell[:0], cursor)
	switch {
	case len(r.last) > 0:
		n := len(r.cell)
		r.cell = appendCell(r.cell, r.last[0])
		return bytes.Equal(r.cell[:n], r.cell[n:])
	case len(t.place.At) > 0:
		return t.place.At[0] == string(r.cell)
	}
	return false
}

// move sets the place to the last row of a step.
func (r *reader) move(t *table, s step) {
	if s == sameAgain || s == ahead || len(r.last) == 0 {
		return
	}
	at := r.last
	if s == nullRows {
		at = at[1:]
	}
	to := make([]string, len(at))
	for i, c := range at {
		r.cell = appendCell(r.cell[:0], c)
		to[i] = string(r.cell)
	}
	t.place.At, r.last = to, r.last[:0]
}

// remember adds the last row to the table's seen.
func (r *reader) remember(t *table) {
	if len(r.alone) > 0 {
		t.seen.add(r.hash(r.alone))
		r.alone = r.alone[:0]
	}
}

// hash is FNV-1a over the cells with their classes.
func (r *reader) hash(cells []any) uint64 {
	h := fnv.New64a()
	r.cell = r.cell[:0]
	for _, c := range cells {
		r.cell = append(appendCell(r.cell, c), 0)
	}
	_, _ = h.Write(r.cell) // a hash never fails
	return h.Sum64()
}
