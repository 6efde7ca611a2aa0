package transform

import (
	"errors"
	"fmt"

	"github.com/trunkline/trunkline/connectors"
)

// Filter keeps rows for which an expression is true.
//
// One that looks at columns alone keeps a set of rows: an update by which a row leaves the set becomes a delete, one by
// which it enters becomes an insert, as far as the old row is known. One that looks at change chooses events.
type Filter struct {
	Tables Tables     `yaml:"tables"`
	When   Expression `yaml:"when"`
}

// UnmarshalText lets a filter be written as its expression alone.
func (f *Filter) UnmarshalText(text []byte) error { return f.When.UnmarshalText(text) }

// Validate checks that there is an expression.
func (f *Filter) Validate() error {
	if f.When.text == "" {
		return errors.New("when is missing: an expression over the columns of a row")
	}
	return nil
}

func (f *Filter) scope() []string { return f.Tables }

func (f *Filter) columns() []namedColumn { return f.When.columns("when") }

func (e *Expression) columns(key string) []namedColumn {
	out := make([]namedColumn, len(e.names))
	for i, n := range e.names {
		out[i] = namedColumn{key, n}
	}
	return out
}

func (f *Filter) bind(t *connectors.Table) (action, *connectors.Table, error) {
	p, err := f.When.compile(t)
	if err != nil {
		return nil, nil, err
	}
	if f.When.event {
		return func(r *rows, c *connectors.Change) (bool, error) { return chooseEvent(p, c) }, t, nil
	}
	return func(r *rows, c *connectors.Change) (bool, error) { return keepRow(p, r, c) }, t, nil
}

// chooseEvent evaluates the newest image that a change has, or none.
func chooseEvent(p *program, c *connectors.Change) (bool, error) {
	row := c.After
	if row == nil {
		row = c.Before
	}
	if at := p.lacks(row); at >= 0 && row != nil && c.Op != connectors.Delete {
		return false, lacking(c.Table, at)
	}
	return p.truth(c, row)
}

func lacking(t *connectors.Table, column int) error {
	return fmt.Errorf("the change does not carry column %q, which the expression looks at: the source can send whole rows (PostgreSQL: REPLICA IDENTITY FULL)",
		t.Columns[column].Name)
}

// keepRow keeps a set of rows.
func keepRow(p *program, r *rows, c *connectors.Change) (bool, error) {
	switch c.Op {
	case connectors.Truncate:
		return true, nil // no row is left, in the set neither
	case connectors.Delete:
		if p.lacks(c.Before) >= 0 {
			return true, nil // whether it was in the set is not known, and to delete no row does no harm
		}
		return p.truth(c, c.Before)
	}
	if at := p.lacks(c.After); at >= 0 {
		return false, lacking(c.Table, at)
	}
	in, err := p.truth(c, c.After)
	if err != nil || c.Op != connectors.Update {
		return in, err
	}
	known, was := c.Before != nil && p.lacks(c.Before) < 0, false
	if known {
		if was, err = p.truth(c, c.Before); err != nil {
			return false, err
		}
	}
	switch {
	case in && known && !was && whole(c.After):
		c.Op, c.Before = connectors.Insert, nil
	case !in && known && !was:
		return false, nil
	case !in:
		return leave(r, c), nil
	}
	return true, nil
}

// leave makes a delete of an update. Without an old row it is of the row with the new one's key, which is the same; a
// row without key and old image cannot be named.
func leave(r *rows, c *connectors.Change) bool {
	if len(c.Table.Key) == 0 && c.Before == nil {
		return false
	}
	before := r.row(len(c.Table.Columns))
	copy(before, c.Before)
	for _, k := range c.Table.Key {
		if before[k].IsAbsent() {
			before[k] = c.After[k]
		}
	}
	c.Op, c.Before, c.After = connectors.Delete, before, nil
	return true
}

// whole reports that an image carries every column.
func whole(row []connectors.Value) bool {
	for i := range row {
		if row[i].IsAbsent() {
			return false
		}
	}
	return true
}
