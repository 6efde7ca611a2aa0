package sqlite

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/trunkline/trunkline/connectors"
)

// target is the table that rows of one version of a source's table go to.
type target struct {
	name    string             // quoted
	columns []int              // indexes of the source's columns that are written
	numeric []bool             // by source column: a decimal is bound as a number
	key     []int              // indexes of the source's key columns
	soft    bool               // a delete sets softColumn
	multi   map[int]string     // the statement for so many whole rows
	holds   []connectors.Holds // by source column; nil: a table of SQLite's
}

// softColumn is 1 in rows that the source has no more, with deletes: soft.
const softColumn = "_deleted"

// target returns the table for rows of t, which Migrate has made fit.
func (s *sink) target(ctx context.Context, t *connectors.Table) (*target, error) {
	if tg, ok := s.targets[t]; ok {
		return tg, nil
	}
	name := s.config.target(t)
	existing, err := columnsOf(ctx, s.db, name)
	if err != nil {
		return nil, err
	}
	if s.config.Deletes == SoftDeletes && findColumn(existing, softColumn) < 0 {
		return nil, &connectors.SchemaError{Target: name, Problem: "it has no column " + softColumn + " for deletes: soft",
			Statement: "ALTER TABLE main." + quote(name) + " ADD COLUMN " + softDefinition, Err: connectors.ErrFatal}
	}
	tg := newTarget(t, name, existing, s.config)
	if foreign(t) {
		strict, err := isStrict(ctx, s.db, name)
		if err != nil {
			return nil, err
		}
		tg.holds = make([]connectors.Holds, len(t.Columns))
		for _, i := range tg.columns {
			tg.holds[i] = columnHolds(&t.Columns[i], existing[findColumn(existing, t.Columns[i].Name)].declared, strict)
		}
	}
	if len(tg.key) > 0 {
		if err := s.checkKey(ctx, t, name, existing); err != nil {
			return nil, err
		}
	}
	if len(s.targets) >= maxTargets {
		clear(s.targets)
	}
	s.targets[t] = tg
	return tg, nil
}

// maxTargets bounds the versions of tables that are remembered.
const maxTargets = 10_000

const softDefinition = softColumn + " BOOLEAN NOT NULL DEFAULT 0"

func createTable(t *connectors.Table, name string, config *SinkConfig) string {
	var parts, key []string
	keyed := config.Write == Upsert
	for i := range t.Columns {
		parts = append(parts, definition(t, i, keyed && slices.Contains(t.Key, i)))
	}
	if config.Deletes == SoftDeletes {
		parts = append(parts, softDefinition)
	}
	if keyed && len(t.Key) > 0 {
		for _, k := range t.Key {
			key = append(key, t.Columns[k].Name)
		}
		parts = append(parts, "PRIMARY KEY ("+quoteAll(key)+")")
	}
	return "CREATE TABLE main." + quote(name) + " (" + strings.Join(parts, ", ") + ")"
}

// definition returns name and type of a column. Nothing but the key is NOT NULL, because a change may not carry a
// column, and a column added later has no value in the rows that are there.
func definition(t *connectors.Table, i int, key bool) string {
	c := &t.Columns[i]
	out := quote(c.Name)
	if typ := typeOf(t.Dialect, c); typ != "" {
		out += " " + typ
	}
	if key {
		out += " NOT NULL"
	}
	return out
}

func findColumn(list []column, name string) int {
	return slices.IndexFunc(list, func(c column) bool { return strings.EqualFold(c.name, name) })
}

func newTarget(t *connectors.Table, name string, existing []column, config *SinkConfig) *target {
	tg := &target{name: "main." + quote(name), soft: config.Deletes == SoftDeletes, numeric: make([]bool, len(t.Columns)), multi: map[int]string{}}
	for i, c := range t.Columns {
		at := findColumn(existing, c.Name)
		if at < 0 || existing[at].hidden != 0 {
			continue // the target computes it
		}
		tg.columns = append(tg.columns, i)
		tg.numeric[i] = c.Kind == connectors.Decimal && isNumeric(existing[at].declared)
	}
	if config.Write == Upsert {
		tg.key = t.Key
	}
	return tg
}

// checkKey makes sure that the target tells rows apart by the same columns.
func (s *sink) checkKey(ctx context.Context, t *connectors.Table, name string, existing []column) error {
	var want, primary []string
	for _, k := range t.Key {
		want = append(want, strings.ToLower(t.Columns[k].Name))
	}
	for _, c := range existing {
		if c.pk > 0 {
			primary = append(primary, strings.ToLower(c.name))
		}
	}
	keys, err := uniqueIndexes(ctx, s.db, name)
	if err != nil {
		return err
	}
	slices.Sort(want)
	for _, key := range append(keys, primary) {
		slices.Sort(key)
		if slices.Equal(key, want) {
			return nil
		}
	}
	var key []string
	for _, k := range t.Key {
		key = append(key, t.Columns[k].Name)
	}
	return &connectors.SchemaError{Target: name, Problem: "it has no primary key or unique index on its source's key",
		Statement: "CREATE UNIQUE INDEX main." + quote(name+"_key") + " ON " + quote(name) + " (" + quoteAll(key) + ")", Err: connectors.ErrFatal}
}

// uniqueIndexes returns the columns of each unique index, in lower case.
func uniqueIndexes(ctx context.Context, q querier, name string) ([][]string, error) {
	rows, err := q.QueryContext(ctx, `SELECT l.seq, coalesce(lower(i.name), '') FROM pragma_index_list(?) AS l, pragma_index_info(l.name) AS i
		WHERE l."unique" AND NOT l.partial ORDER BY l.seq`, name)
	if err != nil {
		return nil, fmt.Errorf("read indexes of %s: %w", name, err)
	}
	defer rows.Close()
	var out [][]string
	last := -1
	for rows.Next() {
		var seq int
		var column string // empty: an expression
		if err := rows.Scan(&seq, &column); err != nil {
			return nil, fmt.Errorf("read indexes of %s: %w", name, err)
		}
		if seq != last {
			out, last = append(out, nil), seq
		}
		out[len(out)-1] = append(out[len(out)-1], column)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read indexes of %s: %w", name, err)
	}
	return out, nil
}

// typeOf returns the declared type for a column: the source's own from SQLite, else one whose affinity keeps every
// value as it is. Decimals are text, because SQLite's numbers would round them; unsigned integers have no affinity,
// because those above the signed range are text.
func typeOf(from string, c *connectors.Column) string {
	if from == dialect {
		return c.Type
	}
	switch c.Kind {
	case connectors.Bool:
		return "BOOLEAN"
	case connectors.Int:
		return "INTEGER"
	case connectors.Uint:
		return ""
	case connectors.Float:
		return "REAL"
	case connectors.Bytes:
		return "BLOB"
	}
	return "TEXT"
}

// isNumeric reports SQLite's affinity NUMERIC: none of the other rules applies.
func isNumeric(declared string) bool {
	name := strings.ToUpper(declared)
	if name == "" {
		return false
	}
	for _, part := range []string{"INT", "CHAR", "CLOB", "TEXT", "BLOB", "REAL", "FLOA", "DOUB"} {
		if strings.Contains(name, part) {
			return false
		}
	}
	return true
}
