package sqlite

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/trunkline/trunkline/connectors"
)

// table is a table of the database with what is needed to read it by its cursor.
type table struct {
	*connectors.Table
	columns  []string // quoted, parallel to Columns
	id       string   // the name in the position
	from     string   // what stands after FROM
	cursor   string   // the cursor column's name
	nullable bool     // the cursor may be NULL
	unique   bool     // no two rows have the same cursor
	rowids   bool     // the cursor is the rowid and the table is not AUTOINCREMENT: SQLite may hand out a number again
	indexed  bool     // an index begins with the cursor
	tie      []string // quoted columns that tell apart rows of one cursor value, in order
	nullKeys []string // quoted columns of tie that may be NULL: rows of a query
	where    string
	spec     *connectors.TableSpec // its entry of tables

	place  *place
	seen   *seen
	ahead  *seen
	after  any   // rows after it are ahead of the clock
	now    any   // the clock as a cursor, which the place does not pass; nil: it follows the rows
	limit  any   // bounded reading: the highest cursor to read
	again  bool  // the extract begins: look at the rows of the last cursor value once more
	rows   int64 // of the snapshot, handed over so far
	total  int64 // rows that the snapshot will have, about
	nulls  int64 // rows without a cursor at the last count
	failed bool
	looked int64 // the data_version at which the keys were compared last
}

// column is a row of table_xinfo.
type column struct {
	name, declared string
	notNull        bool
	pk             int
	hidden         int
}

// catalog lists the tables that the settings take.
func catalog(ctx context.Context, q querier, c *SourceConfig) (list []*table, problems []connectors.Finding, err error) {
	rows, err := q.QueryContext(ctx, `SELECT l.name, l.wr, coalesce(m.sql, '') FROM pragma_table_list AS l
		JOIN main.sqlite_schema AS m ON m.name = l.name AND m.type = 'table'
		WHERE l.schema = 'main' AND l.type = 'table' AND l.name NOT LIKE 'sqlite\_%' ESCAPE '\'
		AND l.name NOT LIKE '\_trunkline\_%' ESCAPE '\' ORDER BY l.name`)
	if err != nil {
		return nil, nil, fmt.Errorf("list tables: %w", err)
	}
	type entry struct {
		name         string
		withoutRowid bool
		sql          string
	}
	var entries []entry
	for rows.Next() {
		var e entry
		if err := rows.Scan(&e.name, &e.withoutRowid, &e.sql); err != nil {
			return nil, nil, fmt.Errorf("list tables: %w", err)
		}
		entries = append(entries, e)
	}
	if err := rows.Err(); err != nil {
		return nil, nil, fmt.Errorf("list tables: %w", err)
	}
	for _, e := range entries {
		spec := c.spec(e.name)
		if spec == nil || spec.Query != "" {
			continue
		}
		columns, err := columnsOf(ctx, q, e.name)
		if err != nil {
			return nil, nil, err
		}
		t, problem := describe(e.name, e.withoutRowid, e.sql, columns, spec)
		if problem != nil {
			problems = append(problems, *problem)
			continue
		}
		if t.indexed, err = isIndexed(ctx, q, t); err != nil {
			return nil, nil, err
		}
		list = append(list, t)
	}
	queries, wrong, err := queries(ctx, q, c)
	if err != nil {
		return nil, nil, err
	}
	list, problems = append(list, queries...), append(problems, wrong...)
	return list, append(problems, missing(c, list, problems)...), nil
}

// missing names the tables that are listed by name and do not exist.
func missing(c *SourceConfig, list []*table, problems []connectors.Finding) []connectors.Finding {
	var out []connectors.Finding
	for _, s := range c.Tables {
		if s.Query != "" {
			continue
		}
		name := strings.TrimPrefix(s.Name, schemaName+".")
		known := slices.ContainsFunc(list, func(t *table) bool { return s.Matches(t.Name) || s.Matches(t.FullName()) }) ||
			slices.ContainsFunc(problems, func(f connectors.Finding) bool { return f.Subject == schemaName+"."+name })
		if !known {
			out = append(out, connectors.Finding{
				Severity: connectors.Fatal, Subject: schemaName + "." + name, Problem: "no table has this name",
				Remedy: "correct the name under tables, or create the table",
			})
		}
	}
	return out
}

func columnsOf(ctx context.Context, q querier, name string) ([]column, error) {
	rows, err := q.QueryContext(ctx, `SELECT name, type, "notnull", pk, hidden FROM pragma_table_xinfo(?)`, name)
	if err != nil {
		return nil, fmt.Errorf("read columns of %s: %w", name, err)
	}
	defer rows.Close()
	var out []column
	for rows.Next() {
		var c column
		if err := rows.Scan(&c.name, &c.declared, &c.notNull, &c.pk, &c.hidden); err != nil {
			return nil, fmt.Errorf("read columns of %s: %w", name, err)
		}
		out = append(out, c)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read columns of %s: %w", name, err)
	}
	return out, nil
}

// isIndexed reports whether the cursor can be followed without reading the whole table.
func isIndexed(ctx context.Context, q querier, t *table) (bool, error) {
	if t.unique {
		return true, nil
	}
	var n int
	err := q.QueryRowContext(ctx, `SELECT count(*) FROM pragma_index_list(?) AS l, pragma_index_info(l.name) AS i
		WHERE l.partial = 0 AND i.seqno = 0 AND i.name = ?`, t.Name, t.cursor).Scan(&n)
	if err != nil {
		return false, fmt.Errorf("read indexes of %s: %w", t.Name, err)
	}
	return n > 0, nil
}

var autoincrement = regexp.MustCompile(`(?i)\bAUTOINCREMENT\b`)

// describe makes a table of what the database and the settings say. A finding says why it cannot be read.
func describe(name string, withoutRowid bool, sql string, columns []column, spec *connectors.TableSpec) (*table, *connectors.Finding) {
	t := &table{
		Table: &connectors.Table{Dialect: dialect, Schema: schemaName, Name: name, Topic: spec.Topic},
		id:    name, from: "main." + quote(name), cursor: spec.Cursor, where: spec.Where, spec: spec,
	}
	refuse := func(problem, remedy string) (*table, *connectors.Finding) {
		return nil, &connectors.Finding{Severity: connectors.Fatal, Subject: t.FullName(), Problem: problem, Remedy: remedy}
	}
	primary := primaryKey(columns)
	rowid := rowidAlias(primary, withoutRowid)
	if t.cursor == "" {
		t.cursor = rowid
	}
	if t.cursor == "" {
		return refuse("no cursor: the table has no INTEGER PRIMARY KEY to follow by itself",
			"name a column that grows with every change: cursor: updated_at")
	}
	at := slices.IndexFunc(columns, func(c column) bool { return strings.EqualFold(c.name, t.cursor) && c.hidden != 1 })
	if at < 0 {
		return refuse("the cursor column "+t.cursor+" does not exist", "correct cursor")
	}
	t.cursor = columns[at].name
	t.unique = t.cursor == rowid || len(primary) == 1 && primary[0].name == t.cursor && (withoutRowid || primary[0].notNull)
	t.nullable = !columns[at].notNull && !t.unique
	t.rowids = t.cursor == rowid && !autoincrement.MatchString(sql)
	if problem := t.choose(columns, spec); problem != "" {
		return refuse(problem, "correct columns or key")
	}
	t.setKey(primary, spec.Key)
	t.tie = tieOf(primary, rowid, withoutRowid, t.cursor)
	return t, nil
}

// choose takes over the columns, all or those that the settings name.
func (t *table) choose(columns []column, spec *connectors.TableSpec) (problem string) {
	wanted := func(name string) bool {
		if len(spec.Columns) == 0 {
			return true
		}
		return slices.ContainsFunc(spec.Columns, func(w string) bool { return strings.EqualFold(w, name) })
	}
	for _, c := range columns {
		if c.hidden == 1 || !wanted(c.name) {
			continue
		}
		t.columns = append(t.columns, quote(c.name))
		t.Columns = append(t.Columns, connectors.Column{
			Name: c.name, Type: c.declared, Kind: kindOf(c.declared), NotNull: c.notNull, Generated: c.hidden > 1,
		})
	}
	for _, name := range slices.Concat(spec.Columns, spec.Key) {
		if !slices.ContainsFunc(t.Columns, func(c connectors.Column) bool { return strings.EqualFold(c.Name, name) }) {
			return "the column " + name + " is not there"
		}
	}
	return ""
}

// setKey sets the record's key: what the settings say, else the primary key if all of it is read.
func (t *table) setKey(primary []column, names []string) {
	if len(names) == 0 {
		for _, p := range primary {
			names = append(names, p.name)
		}
	}
	var key []int
	for _, name := range names {
		at := slices.IndexFunc(t.Columns, func(c connectors.Column) bool { return strings.EqualFold(c.Name, name) })
		if at < 0 {
			return
		}
		key = append(key, at)
	}
	t.Key = key
}

// primaryKey returns the columns of the primary key in key order.
func primaryKey(columns []column) []column {
	var out []column
	for _, c := range columns {
		if c.pk > 0 {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b column) int { return a.pk - b.pk })
	return out
}

// rowidAlias returns the column that is the rowid under another name.
func rowidAlias(primary []column, withoutRowid bool) string {
	if !withoutRowid && len(primary) == 1 && strings.EqualFold(primary[0].declared, "INTEGER") {
		return primary[0].name
	}
	return ""
}

// tieOf returns what tells rows of one cursor value apart: the primary key, unless it can hold NULL, which no comparison
// passes; then the rowid, which only VACUUM renumbers.
func tieOf(primary []column, rowid string, withoutRowid bool, cursor string) []string {
	usable := len(primary) > 0
	for _, p := range primary {
		usable = usable && (p.notNull || withoutRowid || p.name == rowid)
	}
	if !usable {
		return []string{"_rowid_"}
	}
	var out []string
	for _, p := range primary {
		if p.name != cursor {
			out = append(out, quote(p.name))
		}
	}
	return out
}
