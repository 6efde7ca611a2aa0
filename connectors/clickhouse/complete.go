package clickhouse

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/fold"
)

// A statement that reads rows back is bounded, because the server refuses a longer one (max_query_size is 256 KiB).
const (
	maxSelects   = 50
	maxStatement = 128 << 10
)

// asked is a row that a statement looks for.
type asked struct {
	row   *fold.Row
	place int // in row.From: the lower is meant first
}

// answer is what the store has of a row, from the first of its places where there is one.
type answer struct {
	place int
	texts []*string // by lacking column; nil: NULL
}

// complete reads back what rows do not say.
func (s *sink) complete(ctx context.Context, g *group) error {
	var want []asked
	for _, r := range g.rows {
		for i := range r.From {
			want = append(want, asked{r, i})
		}
	}
	if len(want) == 0 {
		return nil
	}
	columns := g.target.lacking(g.rows)
	answers := map[*fold.Row]answer{}
	for len(want) > 0 {
		var selects []string
		size := 0
		for i, w := range want {
			one := g.target.find(columns, w.row, w.row.From[w.place], i)
			if size += len(one) + 16; i > 0 && (i == maxSelects || size > maxStatement) {
				break
			}
			selects = append(selects, one)
		}
		if err := s.recall(ctx, strings.Join(selects, " UNION ALL "), len(columns), want, answers); err != nil {
			return err
		}
		want = want[len(selects):]
	}
	for r, a := range answers {
		g.target.take(r, columns, a.texts)
	}
	return nil
}

// lacking returns the columns in which a row has no value, by their places in the target.
func (t *target) lacking(rows []*fold.Row) []int {
	var out []int
	for i := range t.columns {
		if slices.ContainsFunc(rows, func(r *fold.Row) bool {
			at := r.Table.Column(t.columns[i].name)
			return r.Missing() && at >= 0 && r.Values[at].IsAbsent()
		}) {
			out = append(out, i)
		}
	}
	return out
}

// find returns the SELECT of the row with a key: its number, and the columns as text.
func (t *target) find(columns []int, r *fold.Row, key fold.Key, number int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "SELECT toUInt32(%d)", number)
	for _, i := range columns {
		c := &t.columns[i]
		expression := "toString(%s)"
		switch {
		case strings.HasPrefix(c.kind, "Array("):
			expression = "toJSONString(%s)"
		case c.isFloat():
			expression = "toString(reinterpretAsInt64(%s))" // bits, because their text has been wrong in a release
		}
		fmt.Fprintf(&b, ", CAST("+expression+" AS Nullable(String))", quote(c.name))
	}
	fmt.Fprintf(&b, " FROM %s FINAL WHERE 1", t.quoted())
	if !t.soft { // what is gone stays as it was, also when its delete comes again
		fmt.Fprintf(&b, " AND %s = 0", deletedColumn)
	}
	for i, k := range r.Table.Key {
		name := r.Table.Columns[k].Name
		at := slices.IndexFunc(t.columns, func(c column) bool { return c.name == name })
		fmt.Fprintf(&b, " AND %s = CAST(%s AS %s)", quote(name), literal(t.columns[at].form(key.Values[i])), t.columns[at].kind)
	}
	return b.String()
}

func (c *column) isFloat() bool {
	return strings.Contains(c.kind, "Float64") && !strings.HasPrefix(c.kind, "Array(")
}

// form writes a value as the server reads its type.
func (c *column) form(v connectors.Value) string {
	text := string(v.AppendText(nil))
	switch {
	case strings.HasPrefix(c.kind, "DateTime"):
		return strings.TrimSuffix(strings.Replace(text, "T", " ", 1), "Z")
	case v.Kind() == connectors.Bool && c.kind == "UInt8":
		return strconv.Itoa(map[bool]int{true: 1}[v.Bool()])
	}
	return text
}

// recall runs a statement and notes what it finds.
func (s *sink) recall(ctx context.Context, statement string, columns int, want []asked, answers map[*fold.Row]answer) error {
	rows, err := s.conn.Query(ctx, statement)
	if err != nil {
		return fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var number uint32
		a := answer{texts: make([]*string, columns)}
		into := []any{&number}
		for i := range a.texts {
			into = append(into, &a.texts[i])
		}
		if err := rows.Scan(into...); err != nil {
			return err
		}
		a.place = want[number].place
		if known, ok := answers[want[number].row]; !ok || a.place < known.place {
			answers[want[number].row] = a
		}
	}
	return rows.Err()
}

// take completes a row.
func (t *target) take(r *fold.Row, columns []int, texts []*string) {
	r.Values = slices.Clone(r.Values)
	for i, c := range columns {
		at := r.Table.Column(t.columns[c].name)
		if at < 0 || !r.Values[at].IsAbsent() {
			continue
		}
		r.Values[at] = connectors.NullValue()
		if texts[i] != nil {
			r.Values[at] = t.columns[c].recalled(*texts[i])
		}
	}
}

// recalled is the value of what find has asked for.
func (c *column) recalled(text string) connectors.Value {
	if bits, err := strconv.ParseInt(text, 10, 64); err == nil && c.isFloat() {
		return connectors.DataValue(connectors.Float, strconv.AppendFloat(nil, math.Float64frombits(uint64(bits)), 'g', -1, 64))
	}
	kind := connectors.Text
	if strings.HasPrefix(c.kind, "Array(") {
		kind = connectors.Array
	}
	return connectors.DataValue(kind, []byte(text))
}
