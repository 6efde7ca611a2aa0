package postgres

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

// extractTable is a table that is read by its cursor.
type extractTable struct {
	relation  *relation
	shape     *shape
	mark      *tableMark
	cursor    attribute
	nullable  bool     // the cursor may be NULL
	withNulls bool     // rows without a cursor are read too
	tie       []string // quoted columns that tell apart rows of one cursor value, in order
	ties      []string // the types of tie
	unique    bool     // the cursor is the key
	indexed   bool     // an index begins with the cursor
	size      int64    // bytes, as the run found it
	keyWire   []int    // where the key's columns are on the wire; see keyed
	bounds    []string // of a query: a row is handed over when its cursor is not above one of them
	failed    bool
	rows      int64 // of the first extract
	waiting   int64 // rows that the last pass left for the next one
	nulls     int64 // rows without a cursor at the last count
	counted   time.Time
}

// newExtractTable finds cursor and key. The problem is empty when the table can be read.
func newExtractTable(r *relation, s *shape, nulls bool) (t *extractTable, problem, remedy string) {
	t = &extractTable{relation: r, shape: s, withNulls: nulls}
	if r.spec.Cursor == "" {
		return nil, "has no cursor", "name a column that grows with every change: cursor: updated_at"
	}
	i := slices.IndexFunc(r.columns, func(a attribute) bool { return a.name == r.spec.Cursor })
	if i < 0 {
		return nil, fmt.Sprintf("has no column %q, which cursor names", r.spec.Cursor), "correct cursor of the table in the configuration"
	}
	t.cursor = r.columns[i]
	t.nullable = !t.cursor.notNull
	for _, number := range r.primary {
		i := slices.IndexFunc(r.columns, func(a attribute) bool { return a.number == number })
		if number == t.cursor.number {
			continue
		}
		t.tie = append(t.tie, ident(r.columns[i].name))
		t.ties = append(t.ties, r.columns[i].text)
	}
	t.unique = len(r.primary) == 1 && r.primary[0] == t.cursor.number
	if len(r.primary) == 0 { // a row keeps its place in the file as long as it is not written again
		t.tie, t.ties = []string{"tableoid", "ctid"}, []string{"oid", "tid"}
	}
	return t, "", ""
}

// pass is one of the queries of a run: the rows without a cursor, or those with one.
type part int

const (
	withoutCursor part = iota
	withCursor
)

// query selects the columns, then the cursor, the tie, the transaction that wrote the row and the step that its place is
// in. Rows that were surely handed over are left out by the server; the exact rule is handover's.
func (t *extractTable) query(p part, at place, steps []step, conditions ...string) string {
	var b strings.Builder
	b.WriteString("SELECT ")
	for _, a := range t.shape.wire {
		b.WriteString(ident(a.name) + ", ")
	}
	cursor := ident(t.cursor.name)
	b.WriteString(cursor + ", ")
	for _, c := range t.tie {
		b.WriteString(c + ", ")
	}
	if t.relation.spec.Query != "" {
		b.WriteString(t.below() + ", 0")
	} else {
		b.WriteString("xmin, " + t.stepOf(p, steps))
	}
	b.WriteString(" FROM " + t.from() + " WHERE " + cursor)
	order := append([]string{cursor}, t.tie...)
	if p == withoutCursor {
		b.WriteString(" IS NULL")
		order = t.tie
	} else {
		b.WriteString(" IS NOT NULL")
	}
	if at != nil && (at[0] == nil) == (p == withoutCursor) {
		b.WriteString(" AND " + t.compare(">", at))
	}
	for _, c := range conditions {
		if c != "" {
			b.WriteString(" AND " + c)
		}
	}
	if t.relation.spec.Where != "" {
		b.WriteString(" AND (" + t.relation.spec.Where + ")")
	}
	if len(order) > 0 {
		b.WriteString(" ORDER BY " + strings.Join(order, ", "))
	}
	return b.String()
}

// stepOf is an expression for the index of the step that a row's place is in.
func (t *extractTable) stepOf(p part, steps []step) string {
	if len(steps) < 2 {
		return "0"
	}
	var b strings.Builder
	b.WriteString("CASE")
	for i, s := range steps[:len(steps)-1] {
		switch null := s.To[0] == nil; {
		case null && p == withCursor: // it ends before them
		case !null && p == withoutCursor:
			return b.String() + " WHEN true THEN " + strconv.Itoa(i) + " END"
		default:
			b.WriteString(" WHEN " + t.compare("<=", s.To) + " THEN " + strconv.Itoa(i))
		}
	}
	if b.Len() == len("CASE") {
		return strconv.Itoa(len(steps) - 1)
	}
	return b.String() + " ELSE " + strconv.Itoa(len(steps)-1) + " END"
}

// compare is the condition that a row stands before or after a place, among rows that have a cursor as it has or has not.
func (t *extractTable) compare(operator string, at place) string {
	columns := append([]string{ident(t.cursor.name)}, t.tie...)
	types := append([]string{t.cursor.text}, t.ties...)
	if at[0] == nil {
		columns, types, at = columns[1:], types[1:], at[1:]
	}
	if len(columns) == 0 {
		return strconv.FormatBool(operator == "<=")
	}
	values := make([]string, len(at))
	for i, text := range at {
		if text == nil { // cannot be: keys are not null
			values[i] = "NULL"
			continue
		}
		values[i] = "'" + quoteLiteral(*text) + "'::" + types[i]
	}
	return "((" + strings.Join(columns, ", ") + ") " + operator + " (" + strings.Join(values, ", ") + "))"
}

// fits reports whether the mark's places are of this table's order.
func (t *extractTable) fits(m *tableMark) bool {
	want := len(t.tie) + 1
	if m.Cursor != t.cursor.name || m.At != nil && len(m.At) != want {
		return false
	}
	return !slices.ContainsFunc(m.Steps, func(s step) bool { return s.To != nil && len(s.To) != want })
}

// op is Snapshot in the first extract, then Insert where the row can only be new, else Update: an extract cannot tell.
func (t *extractTable) op(cursor []byte) connectors.Op {
	if t.mark.First {
		return connectors.Snapshot
	}
	if t.unique && t.mark.High != "" {
		n, err := strconv.ParseInt(string(cursor), 10, 64)
		high, err2 := strconv.ParseInt(t.mark.High, 10, 64)
		if err == nil && err2 == nil && n > high {
			return connectors.Insert
		}
	}
	return connectors.Update
}

// reads reports whether a pass has the part.
func (t *extractTable) reads(p part) bool {
	return p == withCursor || t.nullable && t.withNulls
}
