package postgres

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/trunkline/trunkline/connectors"
)

// route leads the rows of one version of a table into its target.
type route struct {
	table   *connectors.Table
	target  *target
	columns []int // for each column of the table its place in target.columns; -1: not written
	key     []int // the key's columns, as places in table.Columns; none: a table without a key
	match   []uniqueColumn
	soft    int    // place of softColumn in target.columns, -1 without
	marks   int    // place of unchangedColumn in target.columns, -1 without
	gone    string // the statement that removes or marks keys
	layouts []*layout
}

// routeFor returns the way of a table's rows. The table must have been migrated, or exist and fit.
func (s *Sink) routeFor(ctx context.Context, table *connectors.Table) (*route, error) {
	if r := s.routes[table]; r != nil {
		return r, nil
	}
	t, err := s.targetFor(ctx, table)
	if err != nil {
		return nil, err
	}
	if t == nil {
		schema, name := s.template.expand(table)
		return nil, fmt.Errorf("find table %s.%s: it does not exist", schema, name)
	}
	r := &route{table: table, target: t, columns: make([]int, len(table.Columns)), soft: -1, marks: -1}
	for i, c := range table.Columns {
		r.columns[i] = t.column(c.Name)
		if p := r.columns[i]; p >= 0 && (t.columns[p].generated || c.Generated && table.Dialect == dialect) {
			r.columns[i] = -1
		}
	}
	if s.config.Deletes == deletesSoft {
		if r.soft = t.column(softColumn); r.soft < 0 {
			return nil, &connectors.SchemaError{Target: t.schema + "." + t.name, Problem: "it has no column " + softColumn + " for deletes: soft",
				Statement: "ALTER TABLE " + t.sql + " ADD COLUMN " + softColumn + " boolean NOT NULL DEFAULT false", Err: connectors.ErrFatal}
		}
	}
	if s.config.Write == writeAppend {
		r.marks = t.column(unchangedColumn)
	}
	if s.config.Write == writeUpsert && len(table.Key) > 0 {
		if err := r.matchKey(); err != nil {
			return nil, err
		}
	}
	s.routes[table] = r
	return r, nil
}

// matchKey finds the target's unique index over the source's key.
func (r *route) matchKey() error {
	t := r.target
	places := make([]int, len(r.table.Key))
	names := make([]string, len(r.table.Key))
	for i, k := range r.table.Key {
		places[i], names[i] = r.columns[k], quote(r.table.Columns[k].Name)
	}
	u := t.keyed(places)
	if u == nil {
		list := strings.Join(names, ", ")
		return &connectors.SchemaError{Target: t.schema + "." + t.name, Problem: "it has no unique index on its source's key",
			Statement: "CREATE UNIQUE INDEX ON " + t.sql + " (" + list + ")", Err: connectors.ErrFatal}
	}
	r.key = r.table.Key
	for _, p := range places {
		i := slices.IndexFunc(u, func(k uniqueColumn) bool { return k.number == t.columns[p].number })
		r.match = append(r.match, u[i])
	}
	return nil
}

// layout is one choice of a route's columns, with the statements for it. Rows that carry every column share one
// layout; rows in which columns are absent have one for each set of columns that they do carry.
type layout struct {
	places []int   // in table.Columns
	whole  bool    // every column that the route writes
	binary bool    // every column has a binary form
	text   backoff // after values that have none
	marker []byte  // of unchangedColumn, as COPY reads it; nil: not written
	from   string  // the stage that the statements read
	copyTo string  // COPY into the target, up to the format
	stage  string  // COPY into the stage, likewise
	upsert string  // all at once, for rows that carry every column
	update string  // for rows whose key the target has; empty: the layout holds nothing but the key
	insert string  // for rows whose key the target does not have
}

// layout returns the layout of the columns that row carries.
func (r *route) layout(row []connectors.Value) *layout {
	for _, l := range r.layouts {
		if l.fits(r, row) {
			return l
		}
	}
	l := &layout{whole: true, binary: true}
	var lacking []byte
	for i, p := range r.columns {
		switch {
		case p < 0:
		case row[i].IsAbsent():
			l.whole = false
			lacking = appendQuoted(append(lacking, ','), []byte(r.table.Columns[i].Name))
		default:
			l.places = append(l.places, i)
			l.binary = l.binary && r.target.columns[p].binary != 0
		}
	}
	if r.marks >= 0 && !l.whole {
		lacking[0] = '{'
		l.marker = appendEscaped(nil, append(lacking, '}'))
		l.binary = false
	}
	if len(r.layouts) >= maxLayouts {
		r.layouts = r.layouts[:0]
	}
	r.layouts = append(r.layouts, l)
	return l
}

// fits reports whether the row carries the layout's columns and no others.
func (l *layout) fits(r *route, row []connectors.Value) bool {
	n := 0
	for i, p := range r.columns {
		if p < 0 || row[i].IsAbsent() {
			continue
		}
		if n >= len(l.places) || l.places[n] != i {
			return false
		}
		n++
	}
	return n == len(l.places)
}

// write makes the statements for the target's present stage.
//
// Rows that carry every column take one INSERT ... ON CONFLICT. The others take an UPDATE and then an INSERT of what it
// did not find: ON CONFLICT would refuse an absent column that allows no NULL before it looks for the conflict.
func (r *route) write(l *layout) {
	t := r.target
	if l.copyTo != "" && l.from == t.stage {
		return
	}
	l.from = t.stage
	var list, taken, excluded, staged []string
	always := false
	for _, c := range r.written(l) {
		list = append(list, c.sql)
		taken = append(taken, "s."+c.sql)
		always = always || c.always
		if !c.always && !r.isKey(c) {
			excluded = append(excluded, c.sql+" = excluded."+c.sql)
			staged = append(staged, c.sql+" = s."+c.sql)
		}
	}
	columns := strings.Join(list, ", ")
	l.copyTo = "COPY " + t.sql + " (" + columns + ") FROM STDIN (FORMAT "
	l.stage = "COPY " + t.stage + " (" + columns + ") FROM STDIN (FORMAT "
	insert := "INSERT INTO " + t.sql + " (" + columns + ")"
	if always {
		insert += " OVERRIDING SYSTEM VALUE"
	}
	insert += " SELECT " + strings.Join(taken, ", ") + " FROM " + t.stage + " AS s"
	if len(r.key) == 0 {
		l.upsert = insert
		return
	}
	action := " DO NOTHING"
	if len(excluded) > 0 {
		action = " DO UPDATE SET " + strings.Join(excluded, ", ")
	}
	l.upsert = insert + " ON CONFLICT (" + strings.Join(r.keyColumns(), ", ") + ")" + action
	l.insert = insert + " WHERE NOT EXISTS (SELECT FROM " + t.sql + " AS t WHERE " + r.matching("s.%s") + ")"
	if len(staged) > 0 {
		l.update = "UPDATE " + t.sql + " AS t SET " + strings.Join(staged, ", ") + " FROM " + t.stage + " AS s WHERE " + r.matching("s.%s")
	}
}

// written returns the target's columns of a layout, in the order of the encoder.
func (r *route) written(l *layout) []*targetColumn {
	var list []*targetColumn
	for _, place := range l.places {
		list = append(list, &r.target.columns[r.columns[place]])
	}
	if r.soft >= 0 {
		list = append(list, &r.target.columns[r.soft])
	}
	if l.marker != nil {
		list = append(list, &r.target.columns[r.marks])
	}
	return list
}

func (r *route) isKey(c *targetColumn) bool {
	return slices.ContainsFunc(r.match, func(u uniqueColumn) bool { return u.number == c.number })
}

func (r *route) keyColumns() []string {
	var list []string
	for _, k := range r.key {
		list = append(list, r.target.columns[r.columns[k]].sql)
	}
	return list
}

// matching returns the condition under which a row of the target, t, has the key that other names; %s stands for the
// column.
func (r *route) matching(other string) string {
	var list []string
	for i, c := range r.keyColumns() {
		list = append(list, "t."+c+" "+r.match[i].operator+" "+strings.Replace(other, "%s", c, 1))
	}
	return strings.Join(list, " AND ")
}

// removal returns the statement that removes or marks the keys in its parameters, one array for each column of the key:
// of the column's own type, which is half the work of a cast from text, or of texts where unnest would take the arrays
// of a key apart.
func (r *route) removal() string {
	if r.gone != "" {
		return r.gone
	}
	var arrays, names, casts []string
	for i, k := range r.key {
		n := strconv.Itoa(i + 1)
		names = append(names, "k"+n)
		c := r.target.columns[r.columns[k]]
		if c.elem == 0 && !c.domain && c.delimiter == ',' {
			arrays = append(arrays, "$"+n+"::"+c.cast+"[]")
			casts = append(casts, "k"+n+" AS "+c.sql)
			continue
		}
		arrays = append(arrays, "$"+n+"::text[]")
		casts = append(casts, "k"+n+"::"+c.cast+" AS "+c.sql)
	}
	keys := "(SELECT " + strings.Join(casts, ", ") + " FROM unnest(" + strings.Join(arrays, ", ") + ") AS a(" + strings.Join(names, ", ") + ")) AS k"
	if r.soft >= 0 {
		r.gone = "UPDATE " + r.target.sql + " AS t SET " + softColumn + " = true FROM " + keys + " WHERE " + r.matching("k.%s")
	} else {
		r.gone = "DELETE FROM " + r.target.sql + " AS t USING " + keys + " WHERE " + r.matching("k.%s")
	}
	return r.gone
}
