package transform

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/trunkline/trunkline/connectors"
)

// Route names the table and the topic that changes go to. Names are templates: {database}, {schema}, {table}, or a column
// of the row.
type Route struct {
	Tables Tables `yaml:"tables"`
	Table  string `yaml:"table"` // schema.table, or table alone: the schema stays
	Topic  string `yaml:"topic"`
}

// Validate checks the templates.
func (r *Route) Validate() error {
	if r.Table == "" && r.Topic == "" {
		return errors.New("table and topic are missing: a route names one of them or both")
	}
	return errors.Join(checkTemplate("table", r.Table), checkTemplate("topic", r.Topic))
}

var placeholder = regexp.MustCompile(`\{([^{}]+)\}`)

func checkTemplate(key, template string) error {
	if strings.ContainsAny(placeholder.ReplaceAllString(template, ""), "{}") {
		return fmt.Errorf("%s has a brace that is no placeholder such as {table}", key)
	}
	return nil
}

func (r *Route) scope() []string { return r.Tables }

func (r *Route) columns() []namedColumn {
	return append(templateColumns("table", r.Table), templateColumns("topic", r.Topic)...)
}

// templateColumns lists the placeholders of a template that are columns.
func templateColumns(key, template string) []namedColumn {
	var out []namedColumn
	for _, m := range placeholder.FindAllStringSubmatch(template, -1) {
		if m[1] != "database" && m[1] != "schema" && m[1] != "table" {
			out = append(out, namedColumn{key, m[1]})
		}
	}
	return out
}

func (r *Route) bind(t *connectors.Table) (action, *connectors.Table, error) {
	var columns []int
	for _, c := range r.columns() {
		i, err := find(t, c.name)
		if err != nil {
			return nil, nil, err
		}
		if !slices.Contains(columns, i) {
			columns = append(columns, i)
		}
	}
	if len(columns) == 0 {
		return func(*rows, *connectors.Change) (bool, error) { return true, nil }, r.target(t, nil), nil
	}
	f := &fan{columns: columns, targets: map[string]*connectors.Table{}, make: func(row []connectors.Value) *connectors.Table { return r.target(t, row) }}
	return f.route, nil, nil
}

// target fills in the templates.
func (r *Route) target(t *connectors.Table, row []connectors.Value) *connectors.Table {
	out := clone(t)
	if r.Table != "" {
		name := fill(r.Table, t, row)
		if schema, table, ok := strings.Cut(name, "."); ok {
			out.Schema, out.Name = schema, table
		} else {
			out.Name = name
		}
	}
	if r.Topic != "" {
		out.Topic = fill(r.Topic, t, row)
	}
	return out
}

func fill(template string, t *connectors.Table, row []connectors.Value) string {
	return placeholder.ReplaceAllStringFunc(template, func(m string) string {
		switch name := m[1 : len(m)-1]; name {
		case "database":
			return t.Database
		case "schema":
			return t.Schema
		case "table":
			return t.Name
		default:
			return string(row[t.Column(name)].AppendText(nil))
		}
	})
}

// fan sends the rows of one table to many, by what is in columns of theirs.
type fan struct {
	columns []int
	targets map[string]*connectors.Table
	make    func(row []connectors.Value) *connectors.Table
	key     []byte
}

// target returns the table for a row; nil if the row does not carry what decides it.
func (f *fan) target(row []connectors.Value) *connectors.Table {
	f.key = f.key[:0]
	for _, i := range f.columns {
		if i >= len(row) || row[i].IsAbsent() {
			return nil
		}
		f.key = append(row[i].AppendText(f.key), 0)
	}
	t := f.targets[string(f.key)]
	if t == nil {
		if len(f.targets) >= maxTables {
			clear(f.targets)
		}
		t = f.make(row)
		f.targets[string(f.key)] = t
	}
	return t
}

// route finds the table of the newest image. A row that goes from one table to another is deleted from the first, where
// its old image tells that.
func (f *fan) route(r *rows, c *connectors.Change) (bool, error) {
	if c.Op == connectors.Truncate {
		return false, fmt.Errorf("a truncate of %s cannot be routed by a column; a step - filter: \"change.op != 't'\" before this one leaves it out: %w",
			c.Table.FullName(), connectors.ErrFatal)
	}
	row := c.After
	if row == nil {
		row = c.Before
	}
	to := f.target(row)
	if to == nil {
		return false, lacking(c.Table, f.columns[0])
	}
	if c.Op == connectors.Update && c.Before != nil && whole(c.After) {
		if from := f.target(c.Before); from != nil && from != to {
			gone := *c
			gone.Op, gone.After, gone.Table = connectors.Delete, nil, from
			r.split = &gone
			c.Op, c.Before = connectors.Insert, nil
		}
	}
	c.Table = to
	return true, nil
}
