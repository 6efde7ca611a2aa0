//go:build duckdb

package duckdb

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/trunkline/trunkline/connectors"
)

// target is the table that rows of one version of a source's table go to.
type target struct {
	name    string // schema and table, quoted
	names   []string
	columns []int  // indexes of the source's columns that are written
	cells   []cell // parallel to columns
	key     []int  // places in columns, in key order; none: rows are only added
	holds   []connectors.Holds
	append  bool
	soft    bool
}

// softColumn is true in rows that the source has no more, with deletes: soft.
const (
	softColumn     = "_deleted"
	softDefinition = softColumn + " BOOLEAN DEFAULT false"
)

// maxTargets bounds the versions of tables that are remembered.
const maxTargets = 10_000

// place returns schema and name of the table that rows of t go to.
func (c *SinkConfig) place(t *connectors.Table) (schema, name string) {
	fill := strings.NewReplacer("{database}", t.Database, "{schema}", t.Schema, "{table}", t.Name).Replace
	schema, name, found := strings.Cut(c.Table, ".")
	if !found {
		schema, name = "", schema
	}
	if schema = fill(schema); schema == "" {
		schema = "main"
	}
	return schema, fill(name)
}

func full(schema, name string) string { return quote(schema) + "." + quote(name) }

// target returns the target of a table as the fitter has it. One that no migration has prepared is made to fit first.
func (s *sink) target(ctx context.Context, t *connectors.Table) (*target, error) {
	if tg := s.targets[t]; tg != nil {
		return tg, nil
	}
	if err := s.Migrate(ctx, connectors.Migration{To: t}); err != nil {
		return nil, err
	}
	return s.targets[s.fitter.Table(t, true)], nil
}

// learn builds the target of a table from the columns that are there.
func (s *sink) learn(ctx context.Context, t *connectors.Table) error {
	schema, name := s.config.place(t)
	existing, err := s.columnsOf(ctx, schema, name)
	if err != nil {
		return err
	}
	tg := &target{name: full(schema, name), append: s.config.Write == writeAppend, soft: s.config.Deletes == softDeletes, holds: make([]connectors.Holds, len(t.Columns))}
	if tg.soft && find(existing, softColumn) < 0 {
		return &connectors.SchemaError{Target: tg.name, Problem: "it has no column " + softColumn + " for deletes: soft",
			Statement: "ALTER TABLE " + tg.name + " ADD COLUMN " + softDefinition}
	}
	for i := range t.Columns {
		at := find(existing, t.Columns[i].Name)
		if at < 0 {
			continue
		}
		c, err := cellOf(existing[at][1])
		if err != nil {
			return &connectors.SchemaError{Target: tg.name, Problem: fmt.Sprintf("column %s: %v", quote(t.Columns[i].Name), err),
				Statement: "ALTER TABLE " + tg.name + " ALTER COLUMN " + quote(t.Columns[i].Name) + " TYPE " + typeOf(&t.Columns[i])}
		}
		tg.holds[i] = func(v connectors.Value) bool { _, ok := c.parse(v); return ok }
		tg.names, tg.columns, tg.cells = append(tg.names, existing[at][0]), append(tg.columns, i), append(tg.cells, c)
	}
	if !tg.append && len(t.Key) > 0 {
		if err := s.checkKey(ctx, t, tg, schema, name); err != nil {
			return err
		}
	}
	if len(s.targets) >= maxTargets {
		clear(s.targets)
	}
	s.targets[t] = tg
	return nil
}

// columnsOf returns names and types of a table's columns, none if there is no such table. DuckDB's names have no case.
func (s *sink) columnsOf(ctx context.Context, schema, name string) ([][2]string, error) {
	out, err := s.db.names(ctx, `SELECT column_name, data_type FROM duckdb_columns()
		WHERE database_name = current_database() AND lower(schema_name) = lower(?) AND lower(table_name) = lower(?) ORDER BY column_index`, schema, name)
	if err != nil {
		return nil, fmt.Errorf("read columns of %s: %w", full(schema, name), err)
	}
	return out, nil
}

func find(columns [][2]string, name string) int {
	return slices.IndexFunc(columns, func(c [2]string) bool { return strings.EqualFold(c[0], name) })
}

// checkKey makes sure that the target tells rows apart by the same columns.
func (s *sink) checkKey(ctx context.Context, t *connectors.Table, tg *target, schema, name string) error {
	var want, key []string
	for _, k := range t.Key {
		at := slices.Index(tg.columns, k)
		if at < 0 {
			return &connectors.SchemaError{Target: tg.name, Problem: "it has no column " + quote(t.Columns[k].Name) + ", which is part of its source's key",
				Statement: "ALTER TABLE " + tg.name + " ADD COLUMN " + quote(t.Columns[k].Name) + " " + typeOf(&t.Columns[k])}
		}
		tg.key, key = append(tg.key, at), append(key, t.Columns[k].Name)
		want = append(want, strings.ToLower(t.Columns[k].Name))
	}
	keys, err := s.keysOf(ctx, schema, name)
	if err != nil {
		return err
	}
	slices.Sort(want)
	for _, k := range keys {
		if slices.Sort(k); slices.Equal(k, want) {
			return nil
		}
	}
	return &connectors.SchemaError{Target: tg.name, Problem: "it has no primary key or unique index on its source's key",
		Statement: "CREATE UNIQUE INDEX " + quote(name+"_key") + " ON " + tg.name + " (" + quoteAll(key) + ")"}
}

// keysOf returns the columns of the primary key and of each unique constraint and index, in lower case. The primary key
// comes first where there is one.
func (s *sink) keysOf(ctx context.Context, schema, name string) ([][]string, error) {
	where := ` WHERE database_name = current_database() AND lower(schema_name) = lower(?) AND lower(table_name) = lower(?)`
	list, err := s.db.names(ctx, `SELECT * FROM (
		SELECT lower(array_to_string(constraint_column_names, chr(10))) AS names, constraint_type AS kind FROM duckdb_constraints()`+where+` AND constraint_type IN ('PRIMARY KEY', 'UNIQUE')
		UNION ALL SELECT lower(replace(trim(expressions, '[]'), ', ', chr(10))), 'INDEX' FROM duckdb_indexes()`+where+` AND is_unique AND NOT is_primary) ORDER BY kind = 'PRIMARY KEY' DESC`,
		schema, name, schema, name)
	if err != nil {
		return nil, fmt.Errorf("read keys of %s: %w", full(schema, name), err)
	}
	var out [][]string
	for _, k := range list {
		columns := strings.Split(k[0], "\n")
		for i := range columns {
			columns[i] = strings.Trim(columns[i], `'"`) // an index shows odd names so
		}
		out = append(out, columns)
	}
	return out, nil
}

// conditions returns what joins the target, called t, with another table by the key.
func (t *target) conditions(column func(place int) string) string {
	parts := make([]string, len(t.key))
	for i, k := range t.key {
		parts[i] = "t." + quote(t.names[k]) + " = " + t.cells[k].convert(column(i))
	}
	return strings.Join(parts, " AND ")
}

// staged names a column of the stage.
func (t *target) staged(place int) string { return fmt.Sprintf("s.c%d", place) }

// empty returns what a truncate does.
func (t *target) empty() string {
	if t.soft {
		return "UPDATE " + t.name + " SET " + softColumn + " = true"
	}
	return "DELETE FROM " + t.name
}

// merge returns the statements that bring the stage into the target. A key stands in the stage once, so rows that go and
// rows that come are not in each other's way.
func (t *target) merge() []string {
	names, values := slices.Clone(t.names), make([]string, len(t.names))
	var sets []string
	for i, c := range t.cells {
		values[i] = c.convert(t.staged(i))
		if !slices.Contains(t.key, i) {
			sets = append(sets, quote(t.names[i])+" = excluded."+quote(t.names[i]))
		}
	}
	if t.soft {
		names, values, sets = append(names, softColumn), append(values, "s.gone"), append(sets, softColumn+" = excluded."+softColumn)
	}
	insert := "INSERT INTO " + t.name + " (" + quoteAll(names) + ") SELECT " + strings.Join(values, ", ") + " FROM " + stageTable + " s"
	if t.append {
		return []string{insert + " ORDER BY s.n"}
	}
	if len(t.key) == 0 {
		return []string{insert + " WHERE NOT s.bare ORDER BY s.n"}
	}
	join := t.conditions(func(i int) string { return t.staged(t.key[i]) })
	gone := "DELETE FROM " + t.name + " AS t USING " + stageTable + " s WHERE s.bare AND " + join
	if t.soft {
		gone = "UPDATE " + t.name + " AS t SET " + softColumn + " = true FROM " + stageTable + " s WHERE s.bare AND " + join
	}
	key := make([]string, len(t.key))
	for i, k := range t.key {
		key[i] = t.names[k]
	}
	conflict := " ON CONFLICT (" + quoteAll(key) + ") DO NOTHING"
	if len(sets) > 0 {
		conflict = " ON CONFLICT (" + quoteAll(key) + ") DO UPDATE SET " + strings.Join(sets, ", ")
	}
	return []string{gone, insert + " WHERE NOT s.bare ORDER BY s.n" + conflict}
}

// fill returns the statement that completes the rows of the stage that lack a set of columns. The first place at which the
// target has a row is found by NOT EXISTS: DuckDB 1.5 makes an aggregate of row_number() = 1, which turns -0 into 0.
func (t *target) fill(set int, columns []int) string {
	var sets, values []string
	for _, c := range columns {
		sets = append(sets, fmt.Sprintf("c%d = f.c%d", c, c))
		value := "t." + quote(t.names[c])
		if t.cells[c].stage != t.cells[c].kind {
			value = "CAST(" + value + " AS " + t.cells[c].stage + ")"
		}
		values = append(values, fmt.Sprintf("%s AS c%d", value, c))
	}
	key := func(table string) string {
		return t.conditions(func(i int) string { return fmt.Sprintf("%s.k%d", table, i) })
	}
	return fmt.Sprintf(`UPDATE %s AS s SET %s FROM (SELECT l.n, %s FROM %s l JOIN %s t ON %s WHERE l.lacks = %d
		AND NOT EXISTS (SELECT 1 FROM %[4]s o JOIN %[5]s t ON %[8]s WHERE o.n = l.n AND o.place < l.place)) f WHERE s.n = f.n`,
		stageTable, strings.Join(sets, ", "), strings.Join(values, ", "), lackTable, t.name, key("l"), set, key("o"))
}
