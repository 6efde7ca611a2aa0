package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
)

// tableName names a table. The server may compare names without case; we never do.
type tableName struct{ schema, name string }

func (n tableName) full() string { return n.schema + "." + n.name }

func (n tableName) compare(o tableName) int {
	return cmp.Or(strings.Compare(n.schema, o.schema), strings.Compare(n.name, o.name))
}

func (n tableName) ident() string { return ident(n.schema) + "." + ident(n.name) }

// ident quotes a name for a statement.
func ident(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// MarshalText and UnmarshalText make names keys of the saved position: the two parts with a NUL between them, which no
// name can hold.
func (n tableName) MarshalText() ([]byte, error) { return []byte(n.schema + "\x00" + n.name), nil }

// UnmarshalText is the inverse of MarshalText.
func (n *tableName) UnmarshalText(text []byte) error {
	n.schema, n.name, _ = strings.Cut(string(text), "\x00")
	return nil
}

// definition is what a table looked like at a place in the binary log. It is immutable. Its JSON is part of the saved
// position.
type definition struct {
	Columns []columnDef `json:"c"`
	Key     []string    `json:"k,omitempty"` // primary key, else the first unique key without nullable columns
	Charset string      `json:"d,omitempty"` // what a new text column has
	Origin  uint64      `json:"o,omitempty"` // tells tables apart that had the name one after the other; 0: the first that we saw
	Last    int         `json:"l,omitempty"` // the highest identity that one of its columns ever had

	// Used: rows were handed over in it. Passed are the versions without rows since the last one that has some.
	Used   bool          `json:"u,omitempty"`
	Passed []*definition `json:"p,omitempty"`
}

// columnDef is one column of a definition.
type columnDef struct {
	Name      string `json:"n"`
	Type      string `json:"t"`           // as information_schema writes it
	Charset   string `json:"c,omitempty"` // of text, enum and set
	NotNull   bool   `json:"nn,omitempty"`
	Generated bool   `json:"g,omitempty"`
	JSON      bool   `json:"j,omitempty"` // MariaDB: a text with CHECK (json_valid(…))
	ID        int    `json:"i,omitempty"` // its identity, which a rename keeps and a column that takes its name lacks; 0: not given yet
}

// identified returns the definition with an identity for each column: one that it has, that of the column of its name in
// the version before, or a new one.
func (d *definition) identified(before *definition) *definition {
	out := *d
	out.Columns = slices.Clone(d.Columns)
	taken := map[int]bool{}
	for _, c := range out.Columns {
		taken[c.ID] = true
		out.Last = max(out.Last, c.ID)
	}
	if before != nil {
		out.Last = max(out.Last, before.Last)
		if out.Origin == 0 {
			out.Origin = before.Origin
		}
	}
	for i := range out.Columns {
		c := &out.Columns[i]
		if c.ID != 0 {
			continue
		}
		if before != nil && before.Origin == out.Origin {
			if at := before.column(c.Name); at >= 0 && !taken[before.Columns[at].ID] {
				c.ID = before.Columns[at].ID
			}
		}
		if c.ID == 0 {
			out.Last++
			c.ID = out.Last
		}
		taken[c.ID] = true
	}
	return &out
}

func (d *definition) column(name string) int {
	return slices.IndexFunc(d.Columns, func(c columnDef) bool { return strings.EqualFold(c.Name, name) })
}

// equal compares all that shapes a value or a name.
func (d *definition) equal(o *definition) bool {
	return slices.Equal(d.Columns, o.Columns) && slices.Equal(d.Key, o.Key) && d.Origin == o.Origin
}

// foundTable is a table as the catalog has it now.
type foundTable struct {
	name   tableName
	def    *definition
	rows   int64 // an estimate
	engine string
}

// server is what a source has to know about the one that it reads.
type server struct {
	maria    bool
	version  string
	number   int // 101119, 80036
	id       uint32
	uuid     string
	logBin   bool
	format   string // binlog_format
	image    string // binlog_row_image
	metadata string // binlog_row_metadata; empty: the server has no such thing
	gtids    bool
}

func loadServer(ctx context.Context, db *sql.DB) (*server, error) {
	vars, err := variables(ctx, db, "version", "server_id", "server_uuid", "log_bin", "binlog_format", "binlog_row_image", "binlog_row_metadata", "gtid_mode")
	if err != nil {
		return nil, fmt.Errorf("ask server for its settings: %w", settle(err))
	}
	s := &server{version: vars["version"], uuid: vars["server_uuid"], logBin: vars["log_bin"] == "ON", format: vars["binlog_format"],
		image: vars["binlog_row_image"], metadata: vars["binlog_row_metadata"]}
	s.maria = strings.Contains(strings.ToLower(s.version), "mariadb")
	s.gtids = s.maria || vars["gtid_mode"] == "ON"
	s.number = versionNumber(s.version)
	fmt.Sscanf(vars["server_id"], "%d", &s.id)
	return s, nil
}

// versionNumber turns 10.11.19-MariaDB into 101119.
func versionNumber(text string) int {
	var major, minor, patch int
	fmt.Sscanf(strings.TrimPrefix(text, "5.5.5-"), "%d.%d.%d", &major, &minor, &patch)
	return major*10000 + minor*100 + patch
}

func variables(ctx context.Context, db *sql.DB, names ...string) (map[string]string, error) {
	rows, err := db.QueryContext(ctx, "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('"+strings.Join(names, "','")+"')")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	found := map[string]string{}
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return nil, err
		}
		found[strings.ToLower(name)] = value
	}
	return found, rows.Err()
}

// catalog reads definitions from information_schema.
type catalog struct {
	db     *sql.DB
	config *SourceConfig
	maria  bool
}

const tablesQuery = `SELECT t.TABLE_SCHEMA, t.TABLE_NAME, COALESCE(t.TABLE_ROWS, 0), COALESCE(t.ENGINE, ''), COALESCE(c.CHARACTER_SET_NAME, '')
FROM information_schema.TABLES t LEFT JOIN information_schema.COLLATION_CHARACTER_SET_APPLICABILITY c ON %s = t.TABLE_COLLATION
WHERE t.TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED') AND t.TABLE_SCHEMA NOT IN ('mysql', 'information_schema', 'performance_schema', 'sys')
ORDER BY 1, 2`

// tables lists those that the configuration chooses, with their definitions.
func (c *catalog) tables(ctx context.Context) ([]*foundTable, error) {
	list, err := c.list(ctx)
	if err != nil {
		return nil, fmt.Errorf("list tables: %w", settle(err))
	}
	return list, nil
}

func (c *catalog) list(ctx context.Context) ([]*foundTable, error) {
	rows, err := c.db.QueryContext(ctx, fmt.Sprintf(tablesQuery, c.collationColumn(ctx)))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []*foundTable
	byName := map[tableName]*foundTable{}
	for rows.Next() {
		t := &foundTable{def: &definition{}}
		if err := rows.Scan(&t.name.schema, &t.name.name, &t.rows, &t.engine, &t.def.Charset); err != nil {
			return nil, err
		}
		if byName[t.name] == nil && c.config.spec(t.name) != nil {
			list = append(list, t)
			byName[t.name] = t
		}
	}
	if err := rows.Err(); err != nil || len(list) == 0 {
		return nil, err
	}
	return list, c.describe(ctx, byName)
}

// collationColumn: from MariaDB 10.10 on a collation's name may be short where its full name is needed.
func (c *catalog) collationColumn(ctx context.Context) string {
	if c.maria {
		var name string
		err := c.db.QueryRowContext(ctx, `SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'information_schema'
AND TABLE_NAME = 'COLLATION_CHARACTER_SET_APPLICABILITY' AND COLUMN_NAME = 'FULL_COLLATION_NAME'`).Scan(&name)
		if err == nil {
			return "c.FULL_COLLATION_NAME"
		}
	}
	return "c.COLLATION_NAME"
}

// maxLooks bounds how often tables are described again that changed while they were.
const maxLooks = 20

// describe fills in columns and keys. They are read one after the other, so a statement in between may leave a key of
// columns that were not there before: then both are read again.
func (c *catalog) describe(ctx context.Context, byName map[tableName]*foundTable) error {
	for look := 1; ; look++ {
		if err := c.look(ctx, byName); err != nil {
			return err
		}
		torn := false
		for _, t := range byName {
			if len(t.def.Columns) > 0 && slices.ContainsFunc(t.def.Key, func(k string) bool { return t.def.column(k) < 0 }) {
				torn = true
			}
		}
		if !torn || look == maxLooks {
			return nil
		}
		for _, t := range byName {
			t.def.Columns, t.def.Key = nil, nil
		}
	}
}

// look reads columns and keys once. Conditions on names only narrow down: the server compares them without case.
func (c *catalog) look(ctx context.Context, byName map[tableName]*foundTable) error {
	where, args := narrow(byName)
	if err := c.columns(ctx, byName, where, args); err != nil {
		return err
	}
	if c.maria {
		if err := c.jsonChecks(ctx, byName); err != nil {
			return err
		}
	}
	if err := c.keys(ctx, byName, where, args); err != nil {
		return err
	}
	for _, t := range byName {
		if err := c.labels(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// labels asks the rows for labels in which information_schema, which is in three-byte UTF-8, has a question mark for a
// character. A label that no row has stays as it is, unless the binary log has it (binlog_row_metadata = FULL).
func (c *catalog) labels(ctx context.Context, t *foundTable) error {
	for i, d := range t.def.Columns {
		typ := parseType(d.Type)
		if typ.base != "enum" || !slices.ContainsFunc(typ.labels, func(l string) bool { return strings.Contains(l, "?") }) {
			continue
		}
		name := ident(d.Name)
		rows, err := c.db.QueryContext(ctx, "SELECT DISTINCT "+name+" + 0, "+name+" FROM "+t.name.ident()+" WHERE "+name+" + 0 > 0")
		if err != nil {
			return err
		}
		for rows.Next() {
			var index float64
			var label string
			if err := rows.Scan(&index, &label); err != nil {
				rows.Close()
				return err
			}
			if n := int(index); n <= len(typ.labels) {
				typ.labels[n-1] = label
			}
		}
		rows.Close()
		if err := rows.Err(); err != nil {
			return err
		}
		t.def.Columns[i].Type = labelType("enum", typ.labels)
	}
	return nil
}

// narrow returns the condition for the databases, and for the table when there is one only.
func narrow(byName map[tableName]*foundTable) (where string, args []any) {
	schemas := map[string]bool{}
	var only tableName
	for n := range byName {
		schemas[n.schema], only = true, n
	}
	var marks []string
	for s := range schemas {
		marks, args = append(marks, "?"), append(args, s)
	}
	where = "TABLE_SCHEMA IN (" + strings.Join(marks, ", ") + ")"
	if len(byName) == 1 {
		where, args = where+" AND TABLE_NAME = ?", append(args, only.name)
	}
	return where, args
}

func (c *catalog) columns(ctx context.Context, byName map[tableName]*foundTable, where string, args []any) error {
	rows, err := c.db.QueryContext(ctx, `SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, COLUMN_TYPE, COALESCE(CHARACTER_SET_NAME, ''), IS_NULLABLE, EXTRA
FROM information_schema.COLUMNS WHERE `+where+" ORDER BY TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION", args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var n tableName
		var d columnDef
		var nullable, extra string
		if err := rows.Scan(&n.schema, &n.name, &d.Name, &d.Type, &d.Charset, &nullable, &extra); err != nil {
			return err
		}
		d.NotNull = nullable == "NO"
		d.Generated = strings.Contains(strings.ToUpper(extra), "GENERATED") && !strings.Contains(strings.ToUpper(extra), "DEFAULT_GENERATED")
		if t := byName[n]; t != nil {
			t.def.Columns = append(t.def.Columns, d)
		}
	}
	return rows.Err()
}

// jsonChecks marks the columns that MariaDB made of the type JSON.
func (c *catalog) jsonChecks(ctx context.Context, byName map[tableName]*foundTable) error {
	rows, err := c.db.QueryContext(ctx, "SELECT CONSTRAINT_SCHEMA, TABLE_NAME, CHECK_CLAUSE FROM information_schema.CHECK_CONSTRAINTS WHERE CHECK_CLAUSE LIKE 'json_valid(%'")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var n tableName
		var clause string
		if err := rows.Scan(&n.schema, &n.name, &clause); err != nil {
			return err
		}
		t := byName[n]
		name, ok := strings.CutPrefix(clause, "json_valid(`")
		if t == nil || !ok {
			continue
		}
		if i := t.def.column(strings.ReplaceAll(strings.TrimSuffix(name, "`)"), "``", "`")); i >= 0 {
			t.def.Columns[i].JSON = true
		}
	}
	return rows.Err()
}

func (c *catalog) keys(ctx context.Context, byName map[tableName]*foundTable, where string, args []any) error {
	rows, err := c.db.QueryContext(ctx, `SELECT TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, COALESCE(COLUMN_NAME, ''), NULLABLE = 'YES'
FROM information_schema.STATISTICS WHERE NON_UNIQUE = 0 AND `+where+" ORDER BY TABLE_SCHEMA, TABLE_NAME, INDEX_NAME <> 'PRIMARY', INDEX_NAME, SEQ_IN_INDEX", args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	indexes := map[tableName][]*index{}
	for rows.Next() {
		var n tableName
		var name, column string
		var nullable bool
		if err := rows.Scan(&n.schema, &n.name, &name, &column, &nullable); err != nil {
			return err
		}
		list := indexes[n]
		if len(list) == 0 || list[len(list)-1].name != name {
			list = append(list, &index{name: name})
			indexes[n] = list
		}
		last := list[len(list)-1]
		last.columns, last.nullable = append(last.columns, column), last.nullable || nullable || column == ""
	}
	for n, list := range indexes {
		if i := slices.IndexFunc(list, func(x *index) bool { return !x.nullable }); i >= 0 && byName[n] != nil {
			byName[n].def.Key = list[i].columns
		}
	}
	return rows.Err()
}

// index is a unique one.
type index struct {
	name     string
	columns  []string
	nullable bool
}

// table reads the definition of one table as it is now; nil when it is gone.
func (c *catalog) table(ctx context.Context, n tableName) (*definition, error) {
	t := &foundTable{name: n, def: &definition{}}
	if err := c.describe(ctx, map[tableName]*foundTable{n: t}); err != nil {
		return nil, fmt.Errorf("describe table %s: %w", n.full(), settle(err))
	}
	if len(t.def.Columns) == 0 {
		return nil, nil
	}
	query := `SELECT COALESCE(c.CHARACTER_SET_NAME, '') FROM information_schema.TABLES t LEFT JOIN information_schema.COLLATION_CHARACTER_SET_APPLICABILITY c ON ` +
		c.collationColumn(ctx) + " = t.TABLE_COLLATION WHERE t.TABLE_SCHEMA = ? AND t.TABLE_NAME = ? LIMIT 1"
	if err := c.db.QueryRowContext(ctx, query, n.schema, n.name).Scan(&t.def.Charset); err != nil && err != sql.ErrNoRows {
		return nil, fmt.Errorf("describe table %s: %w", n.full(), settle(err))
	}
	return t.def, nil
}
