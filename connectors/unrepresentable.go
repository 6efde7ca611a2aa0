package connectors

import (
	"fmt"
	"slices"
)

// Unrepresentable is what a sink does with a value that the column of its target cannot hold: NaN in a double of MySQL, a
// zero date in a date of PostgreSQL. It is the same whether the row comes from a snapshot, a stream or an extract.
type Unrepresentable string

// The policies.
const (
	// UnrepresentableDeadLetter refuses the row.
	UnrepresentableDeadLetter Unrepresentable = "dead_letter"
	// UnrepresentableText leaves the column NULL and keeps the value's text in UnrepresentableColumn.
	UnrepresentableText Unrepresentable = "text"
	// UnrepresentableNull leaves the column NULL.
	UnrepresentableNull Unrepresentable = "null"
)

// UnrepresentableColumn holds, in targets under UnrepresentableText, a JSON object of the texts of a row that its columns
// cannot hold; NULL: none.
const UnrepresentableColumn = "_unrepresentable"

// Validate checks the word.
func (u Unrepresentable) Validate() error {
	switch u {
	case UnrepresentableDeadLetter, UnrepresentableText, UnrepresentableNull:
		return nil
	}
	return fmt.Errorf("unrepresentable is not one of text, null, dead_letter")
}

// Holds reports whether a column of a target can hold a value that is neither null nor absent.
type Holds func(v Value) bool

// Fitter applies the policy of one sink to its batches. It belongs to the goroutine that writes.
type Fitter struct {
	policy Unrepresentable
	report func(Report)
	tables map[*Table]*Table // with UnrepresentableColumn at their end

	changes []Change
	values  []Value
	text    []byte
	counts  map[*Table]int64 // of the batch in hand
}

// maxFitted bounds the versions of tables that are remembered.
const maxFitted = 1024

// NewFitter returns the fitter of a sink. Without a policy it refuses rows.
func NewFitter(policy Unrepresentable, report func(Report)) *Fitter {
	if policy == "" {
		policy = UnrepresentableDeadLetter
	}
	return &Fitter{policy: policy, report: report, tables: map[*Table]*Table{}, counts: map[*Table]int64{}}
}

// Table returns the table as the target has it: under UnrepresentableText with one more column. foreign says that the
// target may lack values of the table at all.
func (f *Fitter) Table(t *Table, foreign bool) *Table {
	if f.policy != UnrepresentableText || !foreign || t == nil {
		return t
	}
	if n := len(t.Columns); n > 0 && t.Columns[n-1].Name == UnrepresentableColumn {
		return t // it is one of these
	}
	if out := f.tables[t]; out != nil {
		return out
	}
	if len(f.tables) >= maxFitted {
		clear(f.tables)
	}
	out := *t
	out.Columns = append(slices.Clone(t.Columns), Column{Name: UnrepresentableColumn, Kind: JSON})
	f.tables[t] = &out
	return &out
}

// Fit returns changes that the target can hold, for tables as Table returns them; holds has one entry for each column of a
// table, nil where it holds everything, and is nil for a table that needs no look. What is returned is valid until the
// next call. The changes themselves stay as they are, because they may be written again.
func (f *Fitter) Fit(changes []Change, foreign func(*Table) bool, holds func(*Table) ([]Holds, error)) ([]Change, error) {
	clear(f.counts)
	f.values, f.text = f.values[:0], f.text[:0]
	var refused []RowError
	lost := map[*Table]int64{}
	out := changes
	var last *Table
	var table *Table
	var check []Holds
	for i := range changes {
		c := &changes[i]
		if c.Op == Message || c.Table == nil {
			continue
		}
		if c.Table != last {
			var err error
			table = f.Table(c.Table, foreign(c.Table))
			if check, err = holds(table); err != nil {
				return nil, err
			}
			last = c.Table
		}
		if check == nil && table == c.Table {
			continue
		}
		fitted, err := f.change(*c, table, check)
		if err != nil {
			refused = append(refused, RowError{Index: i, Err: err})
			lost[c.Table]++
			continue
		}
		if fitted.Table != c.Table || !sameRow(fitted.After, c.After) || !sameRow(fitted.Before, c.Before) {
			if len(out) > 0 && &out[0] == &changes[0] {
				f.changes = append(f.changes[:0], changes...)
				out = f.changes
			}
			out[i] = fitted
		}
	}
	if len(refused) > 0 { // the other rows come again
		f.counts = lost
		f.Written()
		return nil, &RowsError{Rows: refused}
	}
	return out, nil
}

// sameRow compares where two images stand in memory.
func sameRow(a, b []Value) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// Written reports what was replaced, once it is durable.
func (f *Fitter) Written() {
	for t, n := range f.counts {
		f.report(Report{Table: t.FullName(), Unrepresentable: n})
	}
	clear(f.counts)
}

// change makes one change fit.
func (f *Fitter) change(c Change, table *Table, check []Holds) (Change, error) {
	source := c.Table
	n := int64(0)
	var err error
	if c.After, n, err = f.row(c.After, source, table, check, false); err != nil {
		return c, err
	}
	if c.Before, _, err = f.row(c.Before, source, table, check, true); err != nil {
		return c, err
	}
	if n > 0 {
		f.counts[source] += n
	}
	c.Table = table
	return c, nil
}

// row makes an image fit, and counts what it replaced. An old image of a table with a key is there for its key alone.
func (f *Fitter) row(row []Value, source, table *Table, check []Holds, old bool) ([]Value, int64, error) {
	if row == nil {
		return nil, 0, nil
	}
	var out []Value
	if table != source {
		out = f.clone(row, NullValue())
		if old {
			out[len(row)] = Value{}
		}
	}
	n := int64(0)
	start := len(f.text)
	open := false // a column that might hold such a value is absent: what the target keeps of it stays
	for i := range min(len(row), len(check)) {
		v := row[i]
		if check[i] == nil || v.kind == Null {
			continue
		}
		if v.kind == Absent {
			open = true
			continue
		}
		if check[i](v) {
			continue
		}
		key := slices.Contains(source.Key, i)
		if key || f.policy == UnrepresentableDeadLetter && !(old && len(source.Key) > 0) {
			f.text = f.text[:start]
			return nil, 0, misfit(source, i, key)
		}
		if f.policy == UnrepresentableDeadLetter {
			continue
		}
		if out == nil {
			out = f.clone(row)
		}
		out[i] = NullValue()
		if table != source && !old {
			f.keep(source.Columns[i].Name, v, n == 0)
		}
		n++
	}
	switch {
	case out == nil:
		return row, 0, nil
	case table != source && !old && n > 0:
		f.text = append(f.text, '}')
		out[len(row)] = DataValue(JSON, f.text[start:len(f.text):len(f.text)])
	case table != source && open:
		out[len(row)] = Value{}
	}
	return out, n, nil
}

// misfit says which column, and never what the value is.
func misfit(t *Table, column int, key bool) error {
	name := t.Columns[column].Name
	if key {
		return fmt.Errorf("the target's column %q cannot hold the value, and it is part of the key", name)
	}
	return fmt.Errorf("the target's column %q cannot hold the value; unrepresentable: text keeps it beside the row, or give the column a type of texts", name)
}

// clone copies a row, and puts more behind it.
func (f *Fitter) clone(row []Value, more ...Value) []Value {
	n := len(row) + len(more)
	if cap(f.values)-len(f.values) < n {
		f.values = make([]Value, 0, max(n, 4096, 2*cap(f.values)))
	}
	start := len(f.values)
	f.values = append(append(f.values, row...), more...)
	return f.values[start : start+n : start+n]
}

// keep adds a member to the object of the row.
func (f *Fitter) keep(name string, v Value, first bool) {
	if first {
		f.text = append(f.text, '{')
	} else {
		f.text = append(f.text, ',')
	}
	f.text = append(AppendJSONString(f.text, []byte(name)), ':')
	f.text = AppendJSONString(f.text, v.AppendText(nil))
}
