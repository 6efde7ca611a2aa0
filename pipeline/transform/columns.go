package transform

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/trunkline/trunkline/connectors"
)

// Drop takes columns away.
type Drop struct {
	Tables  Tables   `yaml:"tables"`
	Columns []string `yaml:"columns"`
}

// Validate checks that there is something to do.
func (d *Drop) Validate() error { return someColumns(d.Columns) }

func someColumns(names []string) error {
	if len(names) == 0 || slices.Contains(names, "") {
		return errors.New("columns is missing or has an empty name")
	}
	return nil
}

func (d *Drop) scope() []string { return d.Tables }

func (d *Drop) columns() []namedColumn { return named("columns", d.Columns) }

// each tells that a step does the same to each of its columns, so that one without tables is for every table that has one
// of them.
func (d *Drop) each() {}

func named(key string, names []string) []namedColumn {
	out := make([]namedColumn, len(names))
	for i, n := range names {
		out[i] = namedColumn{fmt.Sprintf("%s[%d]", key, i), n}
	}
	return out
}

func (d *Drop) bind(t *connectors.Table) (action, *connectors.Table, error) {
	gone := make([]bool, len(t.Columns))
	for _, name := range d.Columns {
		i, err := findIn(t, d.Tables, name)
		if err != nil {
			return nil, nil, err
		}
		if i < 0 {
			continue
		}
		if isKey(t, i) {
			return nil, nil, refuseKey("drop", t, i)
		}
		gone[i] = true
	}
	var from []int
	for i := range t.Columns {
		if !gone[i] {
			from = append(from, i)
		}
	}
	return pick(t, from)
}

// pick keeps columns of a table, in that order.
func pick(t *connectors.Table, from []int) (action, *connectors.Table, error) {
	out := clone(t)
	out.Columns = make([]connectors.Column, len(from))
	for i, at := range from {
		out.Columns[i] = t.Columns[at]
	}
	for i, k := range t.Key {
		out.Key[i] = slices.Index(from, k)
	}
	act := func(r *rows, c *connectors.Change) (bool, error) {
		c.Before, c.After = r.pick(c.Before, from), r.pick(c.After, from)
		return true, nil
	}
	return act, out, nil
}

func (r *rows) pick(row []connectors.Value, from []int) []connectors.Value {
	if row == nil {
		return nil
	}
	out := r.row(len(from))
	for i, at := range from {
		out[i] = row[at]
	}
	return out
}

// Project keeps columns, in the order given.
type Project struct {
	Tables  Tables   `yaml:"tables"`
	Columns []string `yaml:"columns"`
}

// Validate checks that something is kept.
func (p *Project) Validate() error { return someColumns(p.Columns) }

func (p *Project) scope() []string        { return p.Tables }
func (p *Project) columns() []namedColumn { return named("columns", p.Columns) }

func (p *Project) bind(t *connectors.Table) (action, *connectors.Table, error) {
	var from []int
	for _, name := range p.Columns {
		i, err := find(t, name)
		if err != nil {
			return nil, nil, err
		}
		if slices.Contains(from, i) {
			return nil, nil, fmt.Errorf("column %q is named twice", name)
		}
		from = append(from, i)
	}
	for _, k := range t.Key {
		if !slices.Contains(from, k) {
			return nil, nil, refuseKey("leave out", t, k)
		}
	}
	return pick(t, from)
}

// Rename gives columns other names.
type Rename struct {
	Tables  Tables            `yaml:"tables"`
	Columns map[string]string `yaml:"columns"`
}

// Validate checks the names.
func (r *Rename) Validate() error {
	if len(r.Columns) == 0 {
		return errors.New("columns is missing: {old: new}")
	}
	for old, name := range r.Columns {
		if name == "" {
			return fmt.Errorf("columns gives %q no new name", old)
		}
	}
	return nil
}

func (r *Rename) scope() []string        { return r.Tables }
func (r *Rename) columns() []namedColumn { return keysOf(r.Columns) }
func (r *Rename) each()                  {}

// keysOf names the columns that are keys of a mapping columns, in order.
func keysOf[T any](columns map[string]T) []namedColumn {
	var out []namedColumn
	for _, name := range slices.Sorted(maps.Keys(columns)) {
		out = append(out, namedColumn{"columns." + name, name})
	}
	return out
}

func (r *Rename) bind(t *connectors.Table) (action, *connectors.Table, error) {
	out := clone(t)
	for old, name := range r.Columns {
		i, err := findIn(t, r.Tables, old)
		if err != nil {
			return nil, nil, err
		}
		if i >= 0 {
			out.Columns[i].Name = name
		}
	}
	if err := checkNames(out); err != nil {
		return nil, nil, err
	}
	return func(*rows, *connectors.Change) (bool, error) { return true, nil }, out, nil
}

// Cast gives columns other types.
type Cast struct {
	Tables  Tables          `yaml:"tables"`
	Columns map[string]Type `yaml:"columns"`
}

// Validate checks that there is something to do.
func (c *Cast) Validate() error {
	if len(c.Columns) == 0 {
		return errors.New("columns is missing: {name: type}")
	}
	return nil
}

func (c *Cast) scope() []string        { return c.Tables }
func (c *Cast) columns() []namedColumn { return keysOf(c.Columns) }
func (c *Cast) each()                  {}

func (c *Cast) bind(t *connectors.Table) (action, *connectors.Table, error) {
	out := clone(t)
	types := make([]*Type, len(t.Columns))
	for name, typ := range c.Columns {
		i, err := findIn(t, c.Tables, name)
		if err != nil {
			return nil, nil, err
		}
		if i < 0 {
			continue
		}
		if isKey(t, i) && !keepsApart(t.Columns[i].Kind, typ) {
			return nil, nil, refuseKey("cast", t, i)
		}
		types[i] = &typ
		column := typ.Column(t.Dialect, name)
		column.ID, column.NotNull = t.Columns[i].ID, t.Columns[i].NotNull
		out.Columns[i] = column
	}
	act := func(r *rows, c *connectors.Change) (bool, error) {
		return images(c, func(row []connectors.Value) ([]connectors.Value, error) {
			row = r.copy(row, 0)
			for i, typ := range types {
				if typ == nil {
					continue
				}
				v, err := cast(row[i], *typ)
				if err != nil {
					return nil, fmt.Errorf("column %q: %w", t.Columns[i].Name, err)
				}
				row[i] = v
			}
			return row, nil
		})
	}
	return act, out, nil
}

// keepsApart reports whether values of a kind that differ still differ after a cast.
func keepsApart(from connectors.Kind, to Type) bool {
	whole := from == connectors.Int || from == connectors.Uint
	switch to.kind {
	case connectors.Text:
		return to.modifier == ""
	case connectors.Int, connectors.Uint, connectors.Decimal:
		return whole
	}
	return from == to.kind
}
