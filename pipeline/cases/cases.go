// Package cases runs examples of what transforms do: rows in, rows out, written in YAML.
//
// It promises that an example passes through the same code as a row on its way into the log or out of it, and that a
// difference is shown line by line. It touches no log and no database. The command test calls it.
package cases

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/pipeline/config"
	"github.com/trunkline/trunkline/pipeline/spelling"
	"github.com/trunkline/trunkline/pipeline/transform"
)

// File is a file of examples.
type File struct {
	Tables map[string]Table `yaml:"tables"`
	Cases  []Case           `yaml:"tests"`
}

// Table describes a table, under its name schema.table.
type Table struct {
	Dialect string    `yaml:"dialect"` // postgres, mysql, sqlite; none: types are the configuration's own
	Key     []string  `yaml:"key"`
	Topic   string    `yaml:"topic"`
	Columns yaml.Node `yaml:"columns"` // {name: type}, in order
}

// Case is one example.
type Case struct {
	Name       string             `yaml:"name"`
	Sink       string             `yaml:"sink"`       // whose transforms are run
	Source     string             `yaml:"source"`     // likewise
	Transforms []transform.Step   `yaml:"transforms"` // instead of either
	Reference  map[string][]Event `yaml:"reference"`  // the rows in topics of lookups
	In         []Event            `yaml:"in"`
	Out        []Event            `yaml:"out"`
	Refused    []string           `yaml:"refused"` // of each row that is refused, a part of the reason
}

// Event is one change. What an expected one leaves out is not looked at.
type Event struct {
	Op     string    `yaml:"op"` // c, r, u, d, t; c
	Table  string    `yaml:"table"`
	Topic  string    `yaml:"topic"`
	Time   string    `yaml:"time"`
	Before yaml.Node `yaml:"before"`
	After  yaml.Node `yaml:"after"`
}

// Validate checks that a case can be run.
func (c *Case) Validate() error {
	given := 0
	for _, is := range []bool{c.Sink != "", c.Source != "", len(c.Transforms) > 0} {
		if is {
			given++
		}
	}
	switch {
	case given != 1:
		return errors.New("a test names one of sink, source and transforms")
	case len(c.In) == 0:
		return errors.New("in is missing: the rows that go in")
	}
	return nil
}

// Validate checks the operation.
func (e *Event) Validate() error {
	if e.Op != "" && (len(e.Op) != 1 || connectors.OpOf(e.Op[0]) == 0) {
		return errors.New("op is not one of c, r, u, d, t, m")
	}
	return nil
}

// Result is what came of one case.
type Result struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	Diff string `json:"diff,omitempty"` // lines that begin with a space, - (expected) or + (what came)
}

// Load reads a file of examples. The error is config.Errors where the file could be read.
func Load(path string, text []byte) (File, error) {
	var f File
	return f, config.Decode(path, text, &f)
}

// NeedsConfig reports whether a case names a source or sink.
func (f File) NeedsConfig() bool {
	return slices.ContainsFunc(f.Cases, func(c Case) bool { return len(c.Transforms) == 0 })
}

// Run runs every case. An error is about the file; what a case gives is in its result.
func (f File) Run(ctx context.Context, c config.Config) ([]Result, error) {
	tables := map[string]*connectors.Table{}
	for name, t := range f.Tables {
		table, err := t.table(name)
		if err != nil {
			return nil, fmt.Errorf("tables.%s: %w", name, err)
		}
		tables[name] = table
	}
	var out []Result
	for i := range f.Cases {
		one := &f.Cases[i]
		if one.Name == "" {
			one.Name = fmt.Sprintf("test %d", i+1)
		}
		diff, err := one.run(ctx, c, tables)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", one.Name, err)
		}
		out = append(out, Result{one.Name, diff == "", diff})
	}
	return out, nil
}

func (t Table) table(name string) (*connectors.Table, error) {
	schema, short, ok := strings.Cut(name, ".")
	if !ok {
		schema, short = "", name
	}
	out := &connectors.Table{Dialect: t.Dialect, Schema: schema, Name: short, Topic: t.Topic}
	if t.Columns.Kind != yaml.MappingNode {
		return nil, errors.New("columns is not {name: type}")
	}
	for i := 0; i+1 < len(t.Columns.Content); i += 2 {
		var typ transform.Type
		if err := typ.UnmarshalText([]byte(t.Columns.Content[i+1].Value)); err != nil {
			return nil, fmt.Errorf("line %d: type %q %w", t.Columns.Content[i].Line, t.Columns.Content[i+1].Value, err)
		}
		c := typ.Column(t.Dialect, t.Columns.Content[i].Value)
		c.ID = i/2 + 1
		out.Columns = append(out.Columns, c)
	}
	for _, k := range t.Key {
		i := out.Column(k)
		if i < 0 {
			return nil, fmt.Errorf("key names %q, which is no column", k)
		}
		out.Key = append(out.Key, i)
	}
	return out, nil
}

// steps returns the transforms of a case.
func (c *Case) steps(all config.Config) (steps []transform.Step, source bool, err error) {
	var names []string
	name := c.Sink + c.Source
	switch {
	case len(c.Transforms) > 0:
		return c.Transforms, false, nil
	case c.Sink != "":
		for _, s := range all.Sinks {
			if names = append(names, s.Name); s.Name == name {
				return s.Transforms, false, nil
			}
		}
	default:
		for _, s := range all.Sources {
			if names = append(names, s.Name); s.Name == name {
				return s.Transforms, true, nil
			}
		}
	}
	if hint := spelling.Nearest(name, names); hint != "" {
		return nil, false, fmt.Errorf("the configuration has no %q; did you mean %q?", name, hint)
	}
	return nil, false, fmt.Errorf("the configuration has no %q; it has %s", name, strings.Join(names, ", "))
}

// run returns the difference, empty if there is none.
func (c *Case) run(ctx context.Context, all config.Config, tables map[string]*connectors.Table) (string, error) {
	steps, source, err := c.steps(all)
	if err != nil {
		return "", err
	}
	open := func(topic string) (transform.Reference, error) { return c.reference(topic, tables) }
	chain, err := transform.New(steps, transform.Options{Source: source, Reference: open})
	if err != nil {
		return "", err
	}
	changes := make([]connectors.Change, len(c.In))
	for i := range c.In {
		if changes[i], err = c.In[i].change(tables); err != nil {
			return "", fmt.Errorf("in[%d]: %w", i, err)
		}
		changes[i].Offset = int64(i)
	}
	out, refused, err := apply(ctx, chain, changes)
	if err != nil {
		if !matches(c.Refused, []string{err.Error()}) {
			return diff(c.expectation(nil), []string{"stopped: " + err.Error()}), nil
		}
		return "", nil
	}
	reasons := make([]string, len(refused))
	for i := range refused {
		reasons[i] = refused[i].Err.Error()
	}
	if matches(c.Refused, reasons) {
		reasons = c.Refused
	}
	return diff(c.expectation(out), c.actual(out, reasons)), nil
}

// apply runs a chain as a delivery does: without the rows that it refuses.
func apply(ctx context.Context, chain *transform.Chain, changes []connectors.Change) ([]connectors.Change, []connectors.RowError, error) {
	out, err := chain.Apply(ctx, changes)
	var rows *connectors.RowsError
	if !errors.As(err, &rows) {
		return out, nil, err
	}
	var kept []connectors.Change
	for i := range changes {
		if !slices.ContainsFunc(rows.Rows, func(r connectors.RowError) bool { return r.Index == i }) {
			kept = append(kept, changes[i])
		}
	}
	out, err = chain.Apply(ctx, kept)
	return out, rows.Rows, err
}

// matches reports whether each reason has its part.
func matches(parts, reasons []string) bool {
	return len(parts) == len(reasons) && !slices.ContainsFunc(parts, func(part string) bool {
		return !slices.ContainsFunc(reasons, func(reason string) bool { return strings.Contains(reason, part) })
	})
}

// reference makes the table of a lookup from the rows in the case.
func (c *Case) reference(topic string, tables map[string]*connectors.Table) (transform.Reference, error) {
	r := &reference{rows: map[string][]connectors.Value{}}
	for i := range c.Reference[topic] {
		change, err := c.Reference[topic][i].change(tables)
		if err != nil {
			return nil, fmt.Errorf("reference.%s[%d]: %w", topic, i, err)
		}
		r.table = change.Table
		var key []byte
		for _, k := range change.Table.Key {
			key = append(change.After[k].AppendText(key), 0)
		}
		r.rows[string(key)] = change.After
	}
	return r, nil
}

// reference is a table that stands in the file.
type reference struct {
	table *connectors.Table
	rows  map[string][]connectors.Value
}

func (r *reference) CatchUp(context.Context) error     { return nil }
func (r *reference) Table() *connectors.Table          { return r.table }
func (r *reference) Row(key []byte) []connectors.Value { return r.rows[string(key)] }
