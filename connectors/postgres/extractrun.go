package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/trunkline/trunkline/connectors"
)

// extractRun reads all tables at one moment, one after the other, in the order of (cursor, key). It pulls rows from the
// server as they are wanted: the server sends no more than the connection holds.
type extractRun struct {
	conn    *pgx.Conn
	seen    visibility // the moment
	taken   time.Time  // just after the moment
	at      time.Time
	origin  []byte
	queue   []*extractTable
	lookout lookout
	budget  int64 // bytes of tables that it may still look through

	reached string // the condition on the part of the table that is looked at

	table   *extractTable // whose pass goes on
	prefix  []step        // of what the interrupted pass handed over, which this one does not look at
	before  []step        // of the mark, for the places that are left
	now     step          // what this pass has handed over, up to the last row
	rest    int           // the index in before of the step that the last row is in
	from    place         // of the mark
	last    lastRow
	waiting int64
	keys    []string // of rows that were added since they were noted; only where deletes are detected
	detects bool
	highest []byte // of a query, the cursor of the last row
	part    part
	result  *pgconn.MultiResultReader // nil: the part is not begun
	rows    *pgconn.ResultReader

	cancel atomic.Pointer[context.CancelFunc] // of the query; also called when the context of a read ends
}

// errGone: the table was dropped, or is not ours to read any more.
var errGone = errors.New("the table is gone")

// snapshot begins the transaction, or begins another one.
func (r *extractRun) snapshot(ctx context.Context) error {
	if _, err := r.conn.Exec(ctx, "ROLLBACK"); err != nil {
		return fmt.Errorf("begin extract: %w", err)
	}
	if err := r.look(ctx); err != nil {
		return err
	}
	var text string
	for _, statement := range []string{"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", "SET LOCAL cursor_tuple_fraction = 1"} {
		if _, err := r.conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("begin extract: %w", err)
		}
	}
	if err := r.conn.QueryRow(ctx, "SELECT pg_current_snapshot()::text, clock_timestamp()").Scan(&text, &r.taken); err != nil {
		return fmt.Errorf("begin extract: %w", err)
	}
	r.at = r.lookout.clock.UTC()
	seen, err := parseVisibility(text)
	r.seen = seen
	r.origin = fmt.Appendf(nil, `"txId":null,"lsn":null,"xmin":%d`, seen.xmin)
	return err
}

// end ends the transaction. The connection can be used again unless rows were left.
func (r *extractRun) end(ctx context.Context) error {
	if r.result != nil { // to read the rest could take long
		r.stop()
		_ = r.conn.Close(ctx) // it is broken either way
		r.result = nil
		return nil
	}
	_, err := r.conn.Exec(ctx, "ROLLBACK")
	return err
}

// bound is the oldest transaction that may still be open: what older ones wrote is complete.
func (r *extractRun) bound() uint64 { return r.seen.xmin }

// begin takes up the pass of a table.
func (r *extractRun) begin(t *extractTable) {
	m := t.mark
	r.highest, r.last.known = r.highest[:0], false
	r.table, r.prefix, r.before, r.from, r.rest, r.waiting = t, nil, m.Steps, m.At, 0, 0
	r.part = withCursor
	if m.At != nil && len(m.Steps) > 0 {
		r.prefix, r.before = m.Steps[:1], m.Steps[1:]
		if i := slices.IndexFunc(m.Steps, func(s step) bool { return s.To.equal(m.At) }); i >= 0 {
			r.prefix, r.before = m.Steps[:i+1], m.Steps[i+1:]
		}
	}
	if t.reads(withoutCursor) && (m.At == nil || m.At[0] == nil) {
		r.part = withoutCursor
	}
	r.now = step{XID: r.bound()}
	for _, s := range m.Steps {
		for xid := range s.Seen.set {
			if xid >= r.bound() {
				r.now.Seen.add(xid)
			}
		}
	}
}

// open sends the query of the current part.
func (r *extractRun) open(ctx context.Context) error {
	newer := ""
	if oldest := oldestOf(r.before); oldest > 0 && r.seen.xmax-oldest < 1<<31 && !r.anew() {
		newer = "age(xmin) <= age('" + strconv.FormatUint(uint64(uint32(oldest)), 10) + "'::xid)"
	}
	reached := r.reached
	if r.part == withoutCursor {
		reached = ""
	}
	query, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r.cancel.Store(&cancel)
	if ctx.Err() != nil {
		cancel() // whoever watches the context may have looked before there was something to end
	}
	r.result = r.conn.PgConn().Exec(query, r.table.query(r.part, r.from, r.before, newer, reached))
	if !r.result.NextResult() {
		return r.finish()
	}
	r.rows = r.result.ResultReader()
	return nil
}

// anew reports that the rows of the part were left out so far.
func (r *extractRun) anew() bool { return r.part == withoutCursor && !r.table.mark.Nulls }

// stop ends the query from any goroutine. There may be none.
func (r *extractRun) stop() {
	if cancel := r.cancel.Load(); cancel != nil {
		(*cancel)()
	}
}

// finish ends the query.
func (r *extractRun) finish() error {
	err := r.result.Close()
	r.stop()
	r.result, r.rows = nil, nil
	return err
}

// read adds rows of the current table until the batch is full or the pass is complete.
func (r *extractRun) read(ctx context.Context, out *rows, limits connectors.Limits) (done bool, err error) {
	defer context.AfterFunc(ctx, r.stop)()
	for {
		if r.rows == nil {
			if err := r.open(ctx); err != nil {
				return false, err
			}
		}
		for r.rows != nil && r.rows.NextRow() {
			if err := r.row(out, r.rows.Values(), limits); err != nil {
				return false, err
			}
			if out.full(limits) {
				return false, nil
			}
		}
		if r.result != nil {
			if err := r.finish(); err != nil {
				return false, err
			}
		}
		if r.part == withCursor {
			return true, nil
		}
		r.part = withCursor
	}
}

// row adds a row, unless it was handed over before or has to wait.
func (r *extractRun) row(out *rows, values [][]byte, limits connectors.Limits) error {
	t := r.table
	n := len(t.shape.wire)
	if len(values) != n+1+len(t.tie)+2 {
		return fmt.Errorf("read table %s: a row does not have its %d columns", t.relation.full(), n)
	}
	tail := values[n:]
	if t.relation.spec.Query != "" {
		r.highest = append(r.highest[:0], tail[0]...)
		if len(tail[len(tail)-2]) != 1 || tail[len(tail)-2][0] != '1' {
			r.waiting++
			return nil
		}
		r.last.keep(tail[:len(tail)-2])
		return r.take(out, values, limits)
	}
	xid, err := widen(tail[len(tail)-2], r.seen.xmax)
	if err != nil {
		return err
	}
	index, err := strconv.Atoi(string(tail[len(tail)-1]))
	if err != nil || index > max(0, len(r.before)-1) {
		return fmt.Errorf("read table %s: a row is in no step", t.relation.full())
	}
	if len(r.before) > 0 && !r.anew() && r.before[index].handed(xid) {
		return nil
	}
	if xid >= r.bound() && !r.now.Seen.add(xid) {
		r.waiting++
		return nil
	}
	r.rest = index
	r.last.keep(tail[:len(tail)-2])
	return r.take(out, values, limits)
}

// take adds a row.
func (r *extractRun) take(out *rows, values [][]byte, limits connectors.Limits) error {
	t := r.table
	tail := values[len(t.shape.wire):]
	if r.detects && t.keyed() {
		if key, ok := t.keyOf(values); ok {
			r.keys = append(r.keys, key)
		}
	}
	size := len(out.arena)
	after := out.image(len(t.shape.table.Columns))
	for i, at := range t.shape.index {
		switch {
		case at < 0:
		case values[i] == nil:
			after[at] = connectors.NullValue()
		default:
			after[at] = t.shape.decoders[i].value(out, values[i])
		}
	}
	if size = len(out.arena) - size; size > limits.RowBytes {
		return tooLarge(t.shape.table, size, limits.RowBytes)
	}
	change := out.add(t.op(tail[0]), t.shape.table, r.at)
	start := len(out.arena)
	for i, v := range tail[:len(tail)-2] {
		if i > 0 {
			out.arena = append(out.arena, '/')
		}
		out.arena = append(out.arena, v...)
	}
	change.After, change.Origin, change.Position = after, r.origin, out.since(start)
	if t.unique {
		t.raise(tail[0])
	}
	return nil
}

// mark notes in the table's mark what was handed over so far.
func (r *extractRun) mark() {
	if !r.last.known {
		return
	}
	at := r.last.place()
	if r.table.relation.spec.Query != "" {
		r.table.mark.At = at
		return
	}
	now := r.now
	now.Seen = r.now.Seen.from(r.bound())
	now.To = at
	r.table.mark.At = at
	r.table.mark.Steps = capSteps(slices.Concat(r.prefix, []step{now}, r.before[min(r.rest, len(r.before)):]))
}

// complete notes that the pass has come to its end. again says that the places before it need another one.
func (r *extractRun) complete() (again bool) {
	if r.table.relation.spec.Query != "" {
		r.mark()
		r.table.mark.First = r.table.mark.First && r.table.mark.At == nil // at first all rows wait for the bound
		r.table = nil
		return false
	}
	m := r.table.mark
	again = len(r.prefix) > 0
	now := r.now
	now.To = nil
	m.At, m.Steps = nil, append(slices.Clone(r.prefix), now)
	if !again {
		m.First, m.Nulls = false, !r.table.nullable || r.table.withNulls
	}
	r.table = nil
	return again
}

// handed reports whether a row that stands in the step was handed over.
func (s *step) handed(xid uint64) bool { return xid < s.XID || s.Seen.has(xid) }

func oldestOf(steps []step) uint64 {
	m := tableMark{Steps: steps}
	return m.oldest()
}

// firstXID is the first that is a transaction's; smaller ones stand for rows that are older than all.
const firstXID = 3

// widen gives a row's 32-bit transaction its upper half: it is the newest below the moment's end.
func widen(text []byte, xmax uint64) (uint64, error) {
	short, ok := parseUint(text)
	if !ok || short > 1<<32-1 {
		return 0, errors.New("read table: a row has no transaction")
	}
	if short < firstXID {
		return 0, nil
	}
	distance := uint64(uint32(xmax) - uint32(short))
	if distance > xmax {
		return 0, nil
	}
	return xmax - distance, nil
}

// lastRow is the place of a row as it came, in memory that the next row takes over.
type lastRow struct {
	known bool
	text  []byte
	ends  []int // of each value; -1: it is NULL
}

func (l *lastRow) keep(values [][]byte) {
	l.known, l.text, l.ends = true, l.text[:0], l.ends[:0]
	for _, v := range values {
		if v == nil {
			l.ends = append(l.ends, -1)
			continue
		}
		l.text = append(l.text, v...)
		l.ends = append(l.ends, len(l.text))
	}
}

func (l *lastRow) place() place {
	out, start := make(place, len(l.ends)), 0
	for i, end := range l.ends {
		if end >= 0 {
			text := string(l.text[start:end])
			out[i], start = &text, end
		}
	}
	return out
}

func (p place) equal(o place) bool {
	return slices.EqualFunc(p, o, func(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b })
}

// raise keeps the highest cursor of a key that is an integer.
func (t *extractTable) raise(cursor []byte) {
	n, ok := parseInt(cursor)
	high, known := parseInt([]byte(t.mark.High))
	if ok && (!known || n > high) {
		t.mark.High = string(cursor)
	}
}

// settle locks a table until the end of the transaction and reports whether its description is the one that we have.
func (r *extractRun) settle(ctx context.Context, t *extractTable) (same bool, err error) {
	if t.relation.spec.Query != "" {
		return r.sameQuery(ctx, t)
	}
	if _, err := r.conn.Exec(ctx, "LOCK TABLE "+t.relation.ident()+" IN ACCESS SHARE MODE"); err != nil {
		return false, err
	}
	var schema, name, columns string
	var intact bool
	const files = " FROM pg_class l WHERE l.oid = c.oid OR c.relkind = 'p' AND l.oid IN (SELECT relid FROM pg_partition_tree(c.oid::regclass))"
	err = r.conn.QueryRow(ctx, `SELECT n.nspname, c.relname,
  (SELECT coalesce(bool_and(l.relfilenode = coalesce(pg_relation_filenode(l.oid), 0)), true)`+files+`),
  (SELECT coalesce(sum(pg_relation_size(l.oid)), 0)::int8`+files+`),
  (SELECT string_agg(concat_ws(' ', attnum, attname, atttypid, atttypmod, attnotnull), ',' ORDER BY attnum) FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = $1::oid`, int64(t.relation.oid)).Scan(&schema, &name, &intact, &t.size, &columns)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, errGone
	}
	if err == nil && !intact {
		err = errRewritten
	}
	if err != nil {
		return false, err
	}
	return schema == t.relation.schema && name == t.relation.name && columns == signature(t.relation.columns), nil
}

// signature is the columns as settle asks for them.
func signature(columns []attribute) string {
	parts := make([]string, len(columns))
	for i, a := range columns {
		parts[i] = fmt.Sprintf("%d %s %d %d %.1s", a.number, a.name, a.typ.oid, a.typ.mod, strconv.FormatBool(a.notNull))
	}
	return strings.Join(parts, ",")
}
