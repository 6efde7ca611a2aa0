// Package transform changes what a change holds, on its way into the log or out of it.
//
// It promises that the shape of a row follows from the table and never from the row's values: the same *Table comes out
// for the same *Table that went in, so versions of schemas stay what they are. It promises that each result is a function
// of its change alone (a lookup: and of its reference table), keeps the change's offset and position, and that the input
// is left as it was. What a step cannot do to one row refuses that row; what it cannot do to a table, because a column is
// missing or the key would be lost, is an error that names the column. It reads and writes nothing. Package config
// decodes the steps, the pipeline runs a Chain in ingest and deliver, and the commands check and test call it alone.
package transform

import (
	"context"
	"errors"
	"fmt"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/pipeline/spelling"
)

// Step is one entry of transforms: exactly one of its fields is set.
type Step struct {
	Filter  *Filter  `yaml:"filter"`
	Project *Project `yaml:"project"`
	Drop    *Drop    `yaml:"drop"`
	Rename  *Rename  `yaml:"rename"`
	Mask    *Mask    `yaml:"mask"`
	Cast    *Cast    `yaml:"cast"`
	Set     *Set     `yaml:"set"`
	Route   *Route   `yaml:"route"`
	Flatten *Flatten `yaml:"flatten"`
	Unwrap  *Unwrap  `yaml:"unwrap"`
	Outbox  *Outbox  `yaml:"outbox"`
	Lookup  *Lookup  `yaml:"lookup"`
}

// kind is what every kind of step has.
type kind interface {
	// scope returns the globs of tables that the step is for; none: every table that has its columns.
	scope() []string
	// columns returns the columns of the table that the step names, each with the key of the configuration that names it.
	columns() []namedColumn
	// bind prepares the step for one version of a table, and returns the version that comes out; nil where that depends
	// on the row.
	bind(t *connectors.Table) (action, *connectors.Table, error)
}

type namedColumn struct{ key, name string }

// action does a step to changes of one version of a table. It returns false to leave the change out.
type action func(r *rows, c *connectors.Change) (bool, error)

// of returns the one that is set and its name.
func (s *Step) of() (kind, string) {
	switch {
	case s.Filter != nil:
		return s.Filter, "filter"
	case s.Project != nil:
		return s.Project, "project"
	case s.Drop != nil:
		return s.Drop, "drop"
	case s.Rename != nil:
		return s.Rename, "rename"
	case s.Mask != nil:
		return s.Mask, "mask"
	case s.Cast != nil:
		return s.Cast, "cast"
	case s.Set != nil:
		return s.Set, "set"
	case s.Route != nil:
		return s.Route, "route"
	case s.Flatten != nil:
		return s.Flatten, "flatten"
	case s.Unwrap != nil:
		return s.Unwrap, "unwrap"
	case s.Outbox != nil:
		return s.Outbox, "outbox"
	case s.Lookup != nil:
		return s.Lookup, "lookup"
	}
	return nil, ""
}

// count tells how many are set.
func (s *Step) count() int {
	n := 0
	for _, set := range []bool{s.Filter != nil, s.Project != nil, s.Drop != nil, s.Rename != nil, s.Mask != nil, s.Cast != nil, s.Set != nil,
		s.Route != nil, s.Flatten != nil, s.Unwrap != nil, s.Outbox != nil, s.Lookup != nil} {
		if set {
			n++
		}
	}
	return n
}

// Validate checks that an entry is one step.
func (s *Step) Validate() error {
	switch s.count() {
	case 0:
		return errors.New("a step is missing, such as - drop: {columns: [ssn]}")
	case 1:
		return nil
	}
	return errors.New("an entry of transforms is one step: write a list of them")
}

// Tables are the globs of tables that a step is for: schema.table, where * and ? are wildcards.
type Tables []string

func (t Tables) names(table *connectors.Table) bool {
	for _, pattern := range t {
		if connectors.MatchName(pattern, table.FullName()) {
			return true
		}
	}
	return false
}

// columnError says that a step names a column that a table does not have.
type columnError struct {
	Table  *connectors.Table
	Column string
}

func (e *columnError) Error() string {
	text := fmt.Sprintf("table %s has no column %q", e.Table.FullName(), e.Column)
	if hint := e.hint(); hint != "" {
		return text + fmt.Sprintf("; did you mean %q?", hint)
	}
	return text
}

func (e *columnError) hint() string {
	var names []string
	for _, c := range e.Table.Columns {
		names = append(names, c.Name)
	}
	return spelling.Nearest(e.Column, names)
}

// maxTables bounds the versions of tables that a step remembers; beyond it, the step starts afresh.
const maxTables = 4096

// Chain is a list of steps that runs. It belongs to one goroutine.
type Chain struct {
	source bool
	nodes  []*node
	rows   rows
	out    []connectors.Change
	hands  []*connectors.Change // what is worked on, one for each depth of splits
}

// node is one step with what it knows of each table.
type node struct {
	kind
	path  string // transforms[0].drop
	bound map[*connectors.Table]*binding
	last  *binding
}

type binding struct {
	in     *connectors.Table
	out    *connectors.Table
	action action // nil: the step is not for this table
}

// Options says where a chain runs.
type Options struct {
	// Source: changes go into the log. A row that is refused then stops everything, because nothing may be lost.
	Source bool

	// Reference opens the reference table of a lookup. nil: there are none.
	Reference func(topic string) (Reference, error)
}

// New makes a chain of steps that Validate has seen.
func New(steps []Step, o Options) (*Chain, error) {
	c := &Chain{source: o.Source}
	for i := range steps {
		k, name := steps[i].of()
		if l, ok := k.(*Lookup); ok {
			bound, err := l.open(o.Reference)
			if err != nil {
				return nil, fmt.Errorf("transforms[%d].lookup: %w", i, err)
			}
			k = bound
		}
		c.nodes = append(c.nodes, &node{kind: k, path: fmt.Sprintf("transforms[%d].%s", i, name), bound: map[*connectors.Table]*binding{}})
	}
	return c, nil
}

// Apply runs the steps over changes, in order. What it returns is valid until the next call, and points into the input.
// A *connectors.RowsError names the rows that a step refuses; any other error is about a whole table.
func (c *Chain) Apply(ctx context.Context, changes []connectors.Change) ([]connectors.Change, error) {
	c.rows.reset()
	for _, n := range c.nodes {
		if r, ok := n.kind.(*reference); ok {
			changed, err := r.catchUp(ctx)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", n.path, err)
			}
			if changed {
				clear(n.bound)
				n.last = nil
			}
		}
	}
	c.out = c.out[:0]
	defer func() { c.rows.split = nil }()
	var refused []connectors.RowError
	for i := range changes {
		before := len(c.out)
		err := c.change(c.nodes, changes[i], 0)
		switch {
		case errors.Is(err, connectors.ErrFatal):
			return nil, err
		case err != nil:
			c.out = c.out[:before]
			refused = append(refused, connectors.RowError{Index: i, Err: err})
		}
	}
	if len(refused) == 0 {
		return c.out, nil
	}
	if c.source {
		first := refused[0]
		return nil, fmt.Errorf("transform a row of %s: %w: %w", changes[first.Index].Table.FullName(), first.Err, connectors.ErrFatal)
	}
	return nil, &connectors.RowsError{Rows: refused}
}

// change runs a change through nodes and adds what comes out. depth counts the splits that it came from.
func (c *Chain) change(nodes []*node, in connectors.Change, depth int) error {
	if depth == len(c.hands) {
		c.hands = append(c.hands, new(connectors.Change))
	}
	change := c.hands[depth]
	*change = in
	for i, n := range nodes {
		b, err := n.binding(change.Table)
		if err != nil {
			return err
		}
		if b.action == nil {
			continue
		}
		c.rows.split = nil
		keep, err := b.action(&c.rows, change)
		if err != nil {
			return fmt.Errorf("%s: %w", n.path, err)
		}
		if first := c.rows.split; first != nil {
			if err := c.change(nodes[i+1:], *first, depth+1); err != nil {
				return err
			}
		}
		if !keep {
			return nil
		}
		if b.out != nil {
			change.Table = b.out
		}
	}
	c.out = append(c.out, *change)
	return nil
}

func (n *node) binding(t *connectors.Table) (*binding, error) {
	if n.last != nil && n.last.in == t {
		return n.last, nil
	}
	b := n.bound[t]
	if b == nil {
		var err error
		if b, err = n.bindTo(t); err != nil {
			return nil, fmt.Errorf("%s: %w: %w", n.path, err, connectors.ErrFatal)
		}
		if len(n.bound) >= maxTables {
			clear(n.bound)
		}
		n.bound[t] = b
	}
	n.last = b
	return b, nil
}

// bindTo decides whether the step is for a table. One that names its tables has to fit each of them; one that does not
// is for the tables that have its columns.
func (n *node) bindTo(t *connectors.Table) (*binding, error) {
	if !n.concerns(t) {
		return &binding{in: t, out: t}, nil
	}
	act, out, err := n.bind(t)
	if err != nil {
		return nil, err
	}
	return &binding{in: t, out: out, action: act}, nil
}

func (n *node) concerns(t *connectors.Table) bool { return concerns(n.kind, t) }

func concerns(k kind, t *connectors.Table) bool {
	if scope := k.scope(); len(scope) > 0 {
		return Tables(scope).names(t)
	}
	_, each := k.(interface{ each() })
	for _, c := range k.columns() {
		if has := t.Column(c.name) >= 0; has == each {
			return has
		}
	}
	return !each
}

// find returns the index of a column, or an error with the nearest name.
func find(t *connectors.Table, name string) (int, error) {
	if i := t.Column(name); i >= 0 {
		return i, nil
	}
	return 0, &columnError{Table: t, Column: name}
}

// findIn is find for a step that names its tables. Without, a column that the table does not have is -1.
func findIn(t *connectors.Table, tables Tables, name string) (int, error) {
	if len(tables) > 0 {
		return find(t, name)
	}
	return t.Column(name), nil
}

// isKey reports whether a column is part of the key.
func isKey(t *connectors.Table, column int) bool {
	for _, k := range t.Key {
		if k == column {
			return true
		}
	}
	return false
}

// clone copies a table so that its columns can be changed.
func clone(t *connectors.Table) *connectors.Table {
	out := *t
	out.Columns = append([]connectors.Column(nil), t.Columns...)
	out.Key = append([]int(nil), t.Key...)
	return &out
}

// checkNames makes sure that no two columns have one name.
func checkNames(t *connectors.Table) error {
	seen := make(map[string]bool, len(t.Columns))
	for _, c := range t.Columns {
		if seen[c.Name] {
			return fmt.Errorf("table %s would have two columns %q", t.FullName(), c.Name)
		}
		seen[c.Name] = true
	}
	return nil
}

// rows is the memory of what Apply makes.
type rows struct {
	values []connectors.Value
	bytes  []byte
	split  *connectors.Change // an action sets it to a change that goes before its own, with its table set
}

const (
	valueChunk = 4 << 10
	byteChunk  = 64 << 10
)

func (r *rows) reset() { r.values, r.bytes = r.values[:0], r.bytes[:0] }

// row returns n absent values. Rows are cut from chunks that never move.
func (r *rows) row(n int) []connectors.Value {
	if cap(r.values)-len(r.values) < n {
		r.values = make([]connectors.Value, 0, max(n, valueChunk, min(2*cap(r.values), 1<<17)))
	}
	start := len(r.values)
	r.values = r.values[:start+n]
	row := r.values[start : start+n : start+n]
	clear(row)
	return row
}

// copy returns a row that can be changed; nil stays nil. It has room for more columns behind.
func (r *rows) copy(row []connectors.Value, more int) []connectors.Value {
	if row == nil {
		return nil
	}
	out := r.row(len(row) + more)
	copy(out, row)
	return out
}

// room makes sure that n more bytes go into the current chunk.
func (r *rows) room(n int) {
	if cap(r.bytes)-len(r.bytes) < n {
		r.bytes = make([]byte, 0, max(n, byteChunk, min(2*cap(r.bytes), 1<<22)))
	}
}

// kept returns what was appended to bytes since start as a value's bytes.
func (r *rows) kept(start int) []byte { return r.bytes[start:len(r.bytes):len(r.bytes)] }

// images calls f with both images of a row.
func images(c *connectors.Change, f func(row []connectors.Value) ([]connectors.Value, error)) (bool, error) {
	var err error
	if c.Before != nil {
		if c.Before, err = f(c.Before); err != nil {
			return false, err
		}
	}
	if c.After != nil {
		if c.After, err = f(c.After); err != nil {
			return false, err
		}
	}
	return true, nil
}

// refuseKey is the error of a step that would make rows of a table alike.
func refuseKey(what string, t *connectors.Table, column int) error {
	return fmt.Errorf("%s column %q of %s: it is part of the key, and rows could no longer be told apart", what, t.Columns[column].Name, t.FullName())
}
