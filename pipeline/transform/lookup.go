package transform

import (
	"context"
	"errors"
	"fmt"

	"github.com/trunkline/trunkline/connectors"
)

// Reference is a table kept from a topic: the newest row of each key. It belongs to the goroutine of its chain.
type Reference interface {
	// CatchUp reads to the present end of the topic.
	CatchUp(ctx context.Context) error
	// Table returns the newest version of the table, nil if there was no row yet.
	Table() *connectors.Table
	// Row returns the row of a key, whose text is that of the key columns in key order, each ended by a zero byte.
	// nil if there is none.
	Row(key []byte) []connectors.Value
}

// Lookup adds columns of a reference table that is kept from another topic.
type Lookup struct {
	Tables  Tables            `yaml:"tables"`
	Topic   string            `yaml:"topic"`   // of the reference table
	On      map[string]string `yaml:"on"`      // column of the row: key column of the reference
	Columns map[string]string `yaml:"columns"` // new column: column of the reference
}

// Validate checks that nothing is missing.
func (l *Lookup) Validate() error {
	if l.Topic == "" || len(l.On) == 0 || len(l.Columns) == 0 {
		return errors.New("topic, on or columns is missing: {topic: T, on: {column: key of the reference}, columns: {new: column of the reference}}")
	}
	return nil
}

func (l *Lookup) scope() []string { return l.Tables }
func (l *Lookup) columns() []namedColumn {
	out := keysOf(l.On)
	for i := range out {
		out[i].key = "on." + out[i].name
	}
	return out
}

// bind serves the check, which knows no reference: its columns are of no kind in particular.
func (l *Lookup) bind(t *connectors.Table) (action, *connectors.Table, error) {
	out := clone(t)
	for _, c := range keysOf(l.Columns) {
		out.Columns = append(out.Columns, columnOfKind(t.Dialect, c.name, connectors.Text))
	}
	for _, c := range l.columns() {
		if _, err := find(t, c.name); err != nil {
			return nil, nil, err
		}
	}
	return func(*rows, *connectors.Change) (bool, error) { return true, nil }, out, checkNames(out)
}

// reference is a lookup with its table at hand.
type reference struct {
	*Lookup
	table Reference
	known *connectors.Table // what the bindings were made with
}

func (l *Lookup) open(open func(topic string) (Reference, error)) (kind, error) {
	if open == nil {
		return l, nil
	}
	table, err := open(l.Topic)
	if err != nil {
		return nil, err
	}
	return &reference{Lookup: l, table: table}, nil
}

// catchUp reports whether the reference has another version than before.
func (l *reference) catchUp(ctx context.Context) (changed bool, err error) {
	if err := l.table.CatchUp(ctx); err != nil {
		return false, err
	}
	now := l.table.Table()
	if now == nil {
		return false, fmt.Errorf("topic %s has no row yet, from which the columns of the lookup could be known", l.Topic)
	}
	changed = now != l.known
	l.known = now
	return changed, nil
}

func (l *reference) bind(t *connectors.Table) (action, *connectors.Table, error) {
	ref, out := l.known, clone(t)
	key := make([]int, len(ref.Key))
	for i, k := range ref.Key {
		key[i] = -1
		for column, name := range l.On {
			if name == ref.Columns[k].Name {
				at, err := find(t, column)
				if err != nil {
					return nil, nil, err
				}
				key[i] = at
			}
		}
		if key[i] < 0 {
			return nil, nil, fmt.Errorf("on does not name key column %q of %s", ref.Columns[k].Name, l.Topic)
		}
	}
	if len(key) != len(l.On) || len(key) == 0 {
		return nil, nil, fmt.Errorf("on has to name the key columns of %s and no others", l.Topic)
	}
	var from []int
	for _, c := range keysOf(l.Columns) {
		at, err := find(ref, l.Columns[c.name])
		if err != nil {
			return nil, nil, err
		}
		from = append(from, at)
		column := ref.Columns[at]
		if ref.Dialect != t.Dialect {
			column = columnOfKind(t.Dialect, c.name, column.Kind)
		}
		column.Name, column.ID, column.NotNull, column.Generated = c.name, 0, false, false
		out.Columns = append(out.Columns, column)
	}
	if err := checkNames(out); err != nil {
		return nil, nil, err
	}
	var text []byte
	act := func(r *rows, c *connectors.Change) (bool, error) {
		return images(c, func(row []connectors.Value) ([]connectors.Value, error) {
			wide := r.copy(row, len(from))
			text = text[:0]
			for _, k := range key {
				if row[k].IsAbsent() {
					return wide, nil // the new columns are absent too
				}
				text = append(row[k].AppendText(text), 0)
			}
			found := l.table.Row(text)
			for i, at := range from {
				v := connectors.NullValue()
				if at < len(found) && !found[at].IsAbsent() {
					v = found[at]
				}
				wide[len(row)+i] = v
			}
			return wide, nil
		})
	}
	return act, out, nil
}
