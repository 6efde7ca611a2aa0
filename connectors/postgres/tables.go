package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/trunkline/trunkline/connectors"
)

// shape is one version of a table together with the way from the columns on the wire to those of the table.
type shape struct {
	table    *connectors.Table
	wire     []attribute // as they come; generated ones, which the stream leaves out, stand last
	streamed int         // how many of wire the stream has
	decoders []*decoder  // parallel to wire
	index    []int       // parallel to wire: the column of table; -1: not wanted
	identity []bool      // parallel to wire: part of the replica identity, so an old row carries it
	inputs   *inputs     // of generated columns; nil: there are none
}

// columns are those that the stream has.
func (s *shape) columns() []attribute { return s.wire[:s.streamed] }

// shapeOf describes the relation as the catalog has it now.
func (c *catalog) shapeOf(ctx context.Context, r *relation) (*shape, error) {
	return c.shape(ctx, r, r.streamed())
}

// shape builds the version of a table that has exactly these columns in the stream, and the generated ones that follow from
// them.
func (c *catalog) shape(ctx context.Context, r *relation, streamed []attribute) (*shape, error) {
	wire := append(slices.Clone(streamed), r.computable(streamed)...)
	infos, err := c.complete(ctx, wire)
	if err != nil {
		return nil, fmt.Errorf("describe table %s: %w", r.full(), err)
	}
	t := &connectors.Table{Dialect: "postgres", Database: c.database, Schema: r.schema, Name: r.name, ID: uint64(r.oid), Topic: r.spec.Topic}
	s := &shape{table: t, wire: wire, streamed: len(streamed), decoders: make([]*decoder, len(wire)), index: make([]int, len(wire)), identity: make([]bool, len(wire))}
	for _, i := range inOrder(wire, len(streamed)) {
		a, info := wire[i], infos[i]
		s.decoders[i] = info.decoder
		s.identity[i] = i < len(streamed) && r.identifies(a.number)
		if len(r.spec.Columns) > 0 && !slices.Contains(r.spec.Columns, a.name) {
			s.index[i] = -1
			continue
		}
		s.index[i] = len(t.Columns)
		column := connectors.Column{Name: a.name, Type: a.text, Kind: info.decoder.kind, ID: int(a.number), NotNull: a.notNull, Labels: info.labels}
		if info.decoder.elem != nil {
			column.Elem = info.decoder.elem.kind
		}
		t.Columns = append(t.Columns, column)
	}
	t.Key = r.key(t)
	s.setInputs(r)
	return s, nil
}

// inOrder returns the places on the wire in the order of the table: generated columns by their number among the others.
func inOrder(wire []attribute, streamed int) []int {
	var order []int
	next := streamed
	for i := range streamed {
		for next < len(wire) && wire[i].number != 0 && wire[next].number < wire[i].number {
			order = append(order, next)
			next++
		}
		order = append(order, i)
	}
	for ; next < len(wire); next++ {
		order = append(order, next)
	}
	return order
}

// identifies reports whether the replica identity holds the column.
func (r *relation) identifies(number int16) bool {
	switch r.identity {
	case 'f':
		return true
	case 'i':
		return slices.Contains(r.index, number)
	case 'd':
		return slices.Contains(r.primary, number)
	}
	return false
}

// key returns the key columns of a version of the table: those that the user chose, else those of the identity's index,
// else those of the primary key, which stays the key under REPLICA IDENTITY FULL. A version that lacks one of them has
// no key.
func (r *relation) key(t *connectors.Table) []int {
	var key []int
	find := func(i int) bool {
		key = append(key, i)
		return i >= 0
	}
	if len(r.spec.Key) > 0 {
		for _, name := range r.spec.Key {
			if !find(t.Column(name)) {
				return nil
			}
		}
		return key
	}
	numbers := r.primary
	if r.identity == 'i' {
		numbers = r.index
	}
	for _, number := range numbers {
		if !find(slices.IndexFunc(t.Columns, func(c connectors.Column) bool { return c.ID == int(number) })) {
			return nil
		}
	}
	return key
}

// problem says why the table cannot be captured and what to do, in two texts; empty when it can.
func (r *relation) problem(streams bool) (problem, remedy string) {
	if !r.readable {
		return "may not be read by user " + r.user, fmt.Sprintf("GRANT USAGE ON SCHEMA %s TO %s; GRANT SELECT ON %s TO %[2]s", ident(r.schema), ident(r.user), r.ident())
	}
	if r.hidden {
		return "has row level security that would hide rows from user " + r.user, "let a superuser run: ALTER ROLE " + ident(r.user) + " BYPASSRLS"
	}
	for _, name := range r.spec.Columns {
		if !slices.ContainsFunc(r.columns, func(a attribute) bool { return a.name == name }) {
			return fmt.Sprintf("has no column %q, which columns names", name), "correct columns of the table in the configuration"
		}
	}
	for _, name := range r.spec.Key {
		i := slices.IndexFunc(r.columns, func(a attribute) bool { return a.name == name })
		switch {
		case i < 0:
			return fmt.Sprintf("has no column %q, which key names", name), "correct key of the table in the configuration"
		case len(r.spec.Columns) > 0 && !slices.Contains(r.spec.Columns, name):
			return fmt.Sprintf("its key column %q is not among columns", name), "add it to columns"
		case streams && !r.identifies(r.columns[i].number):
			return fmt.Sprintf("its key column %q is not part of the replica identity, so deletes would not carry it", name), r.alter("REPLICA IDENTITY FULL")
		}
	}
	if !streams {
		return "", ""
	}
	if r.unlogged {
		return "is unlogged: its changes are in no WAL", r.alter("SET LOGGED") + ", or leave it out with exclude"
	}
	if r.published {
		return "", "" // it gets inserts alone, as the server refuses all else
	}
	remedy = "add a primary key, or " + r.alter("REPLICA IDENTITY FULL") + "; or leave it out with exclude"
	switch {
	case r.identity == 'n':
		return "has REPLICA IDENTITY NOTHING: once published, the server would refuse the application's UPDATE and DELETE", r.alter("REPLICA IDENTITY DEFAULT") + " (or FULL)"
	case r.identity == 'i' && len(r.index) == 0:
		return "has a replica identity whose index is gone: once published, the server would refuse the application's UPDATE and DELETE", remedy
	case r.identity == 'd' && len(r.primary) == 0:
		return "has no primary key and no replica identity: once published, the server would refuse the application's UPDATE and DELETE", remedy
	case r.identity == 'd' && !r.immediate:
		return "has a deferrable primary key, which is no replica identity: once published, the server would refuse the application's UPDATE and DELETE", r.alter("REPLICA IDENTITY FULL")
	}
	return "", ""
}

func (r *relation) alter(what string) string { return "ALTER TABLE " + r.ident() + " " + what }

// left names the generated columns that neither snapshot nor stream carries: those of the key.
func (r *relation) left() []string {
	var out []string
	for _, a := range r.columns {
		if a.generated && (slices.Contains(r.primary, a.number) || slices.Contains(r.index, a.number)) {
			out = append(out, a.name)
		}
	}
	return out
}
