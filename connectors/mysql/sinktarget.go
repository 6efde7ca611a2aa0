package mysql

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/trunkline/trunkline/connectors"
)

// target is the table that rows of one version of a source's table go to.
type target struct {
	name    tableName
	source  *connectors.Table
	columns []int              // indexes of the source's columns that are written
	types   []columnType       // by the source's columns: of the target
	key     []int              // indexes of the source's key columns; none: rows are found by all of their values
	soft    bool               // a delete sets softColumn
	mark    bool               // has unchangedColumn
	folds   bool               // no unique key but ours: the order of rows does not matter
	enums   bool               // has columns that an invalid value may come for
	holds   []connectors.Holds // by the source's columns: what those of the target hold; nil: a table of MySQL's
	insert  string             // INSERT INTO … VALUES
	update  string             // ON DUPLICATE KEY UPDATE …
}

// targetColumn is a column of a target as it is now.
type targetColumn struct {
	name, typ string
	collation string // of texts
	json      bool   // MariaDB: a text that has to be JSON
	notNull   bool
	generated bool
}

// definition is what CHANGE COLUMN has to repeat of a column that keeps it.
func (c *targetColumn) definition() string {
	text := c.typ
	if c.collation != "" {
		text += " COLLATE " + c.collation
	}
	if c.notNull {
		return text + " NOT NULL"
	}
	return text + " NULL"
}

// target returns the table for rows of t, which Migrate has made fit.
func (s *Sink) target(ctx context.Context, t *connectors.Table) (*target, error) {
	if tg := s.targets[t]; tg != nil {
		return tg, nil
	}
	name, err := s.config.target(t, s.database)
	if err != nil {
		return nil, err
	}
	existing, err := s.columnsOf(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("describe table %s: %w", name.full(), settle(err))
	}
	if foreign(t) && s.dialect.maria {
		if err := s.jsonChecks(ctx, name, existing); err != nil {
			return nil, fmt.Errorf("describe table %s: %w", name.full(), settle(err))
		}
	}
	tg := s.newTarget(t, name, existing)
	if err := s.checkKeys(ctx, tg); err != nil {
		return nil, err
	}
	if len(s.targets) >= maxTargets {
		clear(s.targets)
	}
	s.targets[t] = tg
	return tg, nil
}

func (s *Sink) columnsOf(ctx context.Context, n tableName) ([]targetColumn, error) {
	rows, err := s.conn.QueryContext(ctx, "SELECT COLUMN_NAME, COLUMN_TYPE, COALESCE(COLLATION_NAME, ''), IS_NULLABLE = 'NO', EXTRA FROM information_schema.COLUMNS WHERE BINARY TABLE_SCHEMA = BINARY ? AND BINARY TABLE_NAME = BINARY ? ORDER BY ORDINAL_POSITION", n.schema, n.name)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []targetColumn
	for rows.Next() {
		var c targetColumn
		var extra string
		if err := rows.Scan(&c.name, &c.typ, &c.collation, &c.notNull, &extra); err != nil {
			return nil, err
		}
		extra = strings.ToUpper(extra)
		c.generated = strings.Contains(extra, "GENERATED") && !strings.Contains(extra, "DEFAULT_GENERATED")
		list = append(list, c)
	}
	return list, rows.Err()
}

// jsonChecks marks the texts that MariaDB checks to be JSON.
func (s *Sink) jsonChecks(ctx context.Context, n tableName, columns []targetColumn) error {
	rows, err := s.conn.QueryContext(ctx, "SELECT CHECK_CLAUSE FROM information_schema.CHECK_CONSTRAINTS WHERE BINARY CONSTRAINT_SCHEMA = BINARY ? AND BINARY TABLE_NAME = BINARY ? AND CHECK_CLAUSE LIKE 'json_valid(%'", n.schema, n.name)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var clause string
		if err := rows.Scan(&clause); err != nil {
			return err
		}
		for i := range columns {
			columns[i].json = columns[i].json || clause == "json_valid("+ident(columns[i].name)+")"
		}
	}
	return rows.Err()
}

func findColumn(list []targetColumn, name string) int {
	return slices.IndexFunc(list, func(c targetColumn) bool { return strings.EqualFold(c.name, name) })
}

func (s *Sink) newTarget(t *connectors.Table, name tableName, existing []targetColumn) *target {
	tg := &target{name: name, source: t, types: make([]columnType, len(t.Columns)), soft: s.config.Deletes == deletesSoft,
		mark: s.config.Write == writeAppend && findColumn(existing, unchangedColumn) >= 0}
	if foreign(t) {
		tg.holds = make([]connectors.Holds, len(t.Columns))
	}
	var names []string
	for i, c := range t.Columns {
		at := findColumn(existing, c.Name)
		if at < 0 || existing[at].generated {
			continue
		}
		tg.columns = append(tg.columns, i)
		tg.types[i] = parseType(existing[at].typ)
		if foreign(t) {
			tg.holds[i] = columnHolds(t.Dialect, &t.Columns[i], &tg.types[i], existing[at].json)
		}
		names = append(names, ident(c.Name))
		tg.enums = tg.enums || len(c.Labels) > 0 && t.Dialect == "mysql"
	}
	if s.config.Write == writeUpsert {
		tg.key = t.Key
	}
	if tg.soft {
		names = append(names, ident(softColumn))
	}
	tg.insert = "INSERT INTO " + name.ident() + " (" + strings.Join(names, ", ") + ") VALUES "
	if len(tg.key) > 0 {
		var sets []string
		for _, n := range names {
			sets = append(sets, n+" = VALUES("+n+")")
		}
		tg.update = " ON DUPLICATE KEY UPDATE " + strings.Join(sets, ", ")
	}
	return tg
}

// checkKeys makes sure that the target tells rows apart by the same columns, and learns whether by others too.
func (s *Sink) checkKeys(ctx context.Context, tg *target) error {
	if len(tg.key) == 0 {
		return nil
	}
	indexes, err := s.uniqueKeys(ctx, tg.name)
	if err != nil {
		return err
	}
	var want []string
	for _, k := range tg.key {
		want = append(want, strings.ToLower(tg.source.Columns[k].Name))
	}
	slices.Sort(want)
	found := false
	for _, columns := range indexes {
		slices.Sort(columns)
		found = found || slices.Equal(columns, want)
	}
	tg.folds = found && len(indexes) == 1
	if !found {
		return &connectors.SchemaError{Target: tg.name.full(), Problem: "it has no primary key or unique index on its source's key",
			Statement: "ALTER TABLE " + tg.name.ident() + " ADD UNIQUE KEY (" + strings.Join(s.keyParts(tg.source), ", ") + ")", Err: connectors.ErrFatal}
	}
	return nil
}

// uniqueKeys returns the columns of each unique index, in lower case.
func (s *Sink) uniqueKeys(ctx context.Context, name tableName) (map[string][]string, error) {
	rows, err := s.conn.QueryContext(ctx, "SELECT INDEX_NAME, LOWER(COALESCE(COLUMN_NAME, '')) FROM information_schema.STATISTICS WHERE NON_UNIQUE = 0 AND BINARY TABLE_SCHEMA = BINARY ? AND BINARY TABLE_NAME = BINARY ? ORDER BY INDEX_NAME, SEQ_IN_INDEX",
		name.schema, name.name)
	if err != nil {
		return nil, fmt.Errorf("describe table %s: %w", name.full(), settle(err))
	}
	defer rows.Close()
	indexes := map[string][]string{}
	for rows.Next() {
		var index, column string
		if err := rows.Scan(&index, &column); err != nil {
			return nil, fmt.Errorf("describe table %s: %w", name.full(), err)
		}
		indexes[index] = append(indexes[index], column)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("describe table %s: %w", name.full(), err)
	}
	return indexes, nil
}
