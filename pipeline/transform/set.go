package transform

import (
	"errors"
	"fmt"

	"github.com/trunkline/trunkline/connectors"
)

// Set computes columns, new ones or others. All expressions see the row as it came.
type Set struct {
	Tables  Tables              `yaml:"tables"`
	When    Expression          `yaml:"when"` // only for rows for which this is true; a new column is NULL in the others
	Columns map[string]Computed `yaml:"columns"`
}

// Computed is what a column becomes.
type Computed struct {
	Value Expression `yaml:"value"`
	Type  *Type      `yaml:"type"` // default: the column's own, or what the expression gives
}

// UnmarshalText lets a column be written as its expression alone.
func (c *Computed) UnmarshalText(text []byte) error { return c.Value.UnmarshalText(text) }

// Validate checks that there is an expression.
func (c *Computed) Validate() error {
	if c.Value.text == "" {
		return errors.New("value is missing: an expression over the columns of a row")
	}
	return nil
}

// Validate checks that there is something to do.
func (s *Set) Validate() error {
	if len(s.Columns) == 0 {
		return errors.New("columns is missing: {name: expression}")
	}
	return nil
}

func (s *Set) scope() []string { return s.Tables }

func (s *Set) columns() []namedColumn {
	out := s.When.columns("when")
	for _, c := range keysOf(s.Columns) {
		value := s.Columns[c.name].Value
		out = append(out, value.columns(c.key)...)
	}
	return out
}

// computed is one column of a set that was bound.
type computed struct {
	*program
	to  int
	typ Type
	is  bool // the column was there before
}

func (s *Set) bind(t *connectors.Table) (action, *connectors.Table, error) {
	out := clone(t)
	var list []computed
	for _, c := range keysOf(s.Columns) {
		one, err := s.column(t, out, c.name)
		if err != nil {
			return nil, nil, fmt.Errorf("column %q: %w", c.name, err)
		}
		list = append(list, one)
	}
	var when *program
	if s.When.text != "" {
		var err error
		if when, err = s.When.compile(t); err != nil {
			return nil, nil, err
		}
	}
	more := len(out.Columns) - len(t.Columns)
	act := func(r *rows, c *connectors.Change) (bool, error) {
		before, err := compute(r, c, c.Before, list, when, more, false)
		if err != nil {
			return false, err
		}
		after, err := compute(r, c, c.After, list, when, more, true)
		c.Before, c.After = before, after
		return err == nil, err
	}
	return act, out, nil
}

// column compiles the expression of one column and puts the column into out.
func (s *Set) column(t, out *connectors.Table, name string) (computed, error) {
	spec := s.Columns[name]
	p, err := spec.Value.compile(t)
	if err != nil {
		return computed{}, err
	}
	one := computed{program: p, to: t.Column(name)}
	one.is = one.to >= 0
	if one.is && isKey(t, one.to) {
		return one, refuseKey("set", t, one.to)
	}
	switch {
	case spec.Type != nil:
		one.typ = *spec.Type
	case one.is:
		one.typ = typeOf(t.Columns[one.to])
	default:
		if one.typ, err = p.result(); err != nil {
			return one, err
		}
	}
	column := one.typ.Column(t.Dialect, name)
	switch {
	case !one.is:
		one.to = len(out.Columns)
		out.Columns = append(out.Columns, column)
	case spec.Type != nil:
		column.ID = t.Columns[one.to].ID
		out.Columns[one.to] = column
	default:
		out.Columns[one.to].NotNull, out.Columns[one.to].Generated = false, false
	}
	return one, nil
}

// typeOf returns the type of a column in the terms of a configuration, with the limits that its own type shows.
func typeOf(c connectors.Column) Type {
	if t, err := parseType(c.Type); err == nil && t.kind == c.Kind {
		return t
	}
	return Type{kind: c.Kind, elem: c.Elem, scale: -1}
}

// result finds out what an expression gives by trying it on a row.
func (p *program) result() (Type, error) {
	sample := make([]connectors.Value, len(p.table.Columns))
	for i := range sample {
		sample[i] = sampleOf(p.table.Columns[i].Kind)
	}
	out, err := p.run(&connectors.Change{Op: connectors.Insert, Table: p.table, After: sample}, sample)
	if kind, ok := kindOf(out); ok && err == nil {
		t := Type{kind: kind, scale: -1}
		if kind == connectors.TimestampTZ { // which of the moments it is shows in the column that it came from
			for _, i := range p.columns {
				if k := p.table.Columns[i].Kind; k == connectors.Date || k == connectors.Time || k == connectors.Timestamp {
					t.kind = k
				}
			}
		}
		return t, nil
	}
	return Type{}, errors.New("its type does not show in the expression; name it: {value: …, type: text}")
}

// compute returns a row with the columns set; nil stays nil. What an old image does not carry makes the column absent there.
func compute(r *rows, c *connectors.Change, row []connectors.Value, list []computed, when *program, more int, newest bool) ([]connectors.Value, error) {
	if row == nil {
		return nil, nil
	}
	out := r.copy(row, more)
	do := true
	if when != nil {
		at := when.lacks(row)
		switch {
		case at >= 0 && newest:
			return nil, lacking(c.Table, at)
		case at >= 0:
			return out, nil
		}
		var err error
		if do, err = when.truth(c, row); err != nil {
			return nil, err
		}
	}
	for i := range list {
		one := &list[i]
		if !do {
			if !one.is {
				out[one.to] = connectors.NullValue()
			}
			continue
		}
		if at := one.lacks(row); at >= 0 {
			if newest {
				return nil, lacking(c.Table, at)
			}
			out[one.to] = connectors.Value{}
			continue
		}
		result, err := one.run(c, row)
		if err == nil {
			out[one.to], err = fromExpr(result, one.typ)
		}
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", nameOf(c.Table, one), err)
		}
	}
	return out, nil
}

func nameOf(t *connectors.Table, c *computed) string {
	if c.is {
		return t.Columns[c.to].Name
	}
	return c.expression.text
}
