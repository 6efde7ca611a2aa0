package clickhouse

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/fold"
)

// Columns of the sink's own in every target. A table without a key has streamColumn too, and the two that name a record are
// its key.
const (
	versionColumn = "_version" // the record's offset
	deletedColumn = "_deleted" // 1: the row is gone
	streamColumn  = "_stream"  // topic/partition
)

// server is what a version of ClickHouse has.
type server struct {
	modern  bool // Bool, Date32 and DateTime64 (22.1)
	deleted bool // ReplacingMergeTree(version, deleted) (23.2)
	async   bool // the setting async_insert (21.11)
	renames bool // RENAME COLUMN (20.4)
}

func serverOf(major, minor uint64) server {
	from := func(a, b uint64) bool { return major > a || major == a && minor >= b }
	return server{modern: from(22, 1), deleted: from(23, 2), async: from(21, 11), renames: from(20, 4)}
}

// target is a table of ClickHouse as it is for one version of a table of the source.
type target struct {
	name    [2]string          // database, table
	columns []column           // those of the source that are there, then the sink's own
	holds   []connectors.Holds // by the columns of the source's table
	keyless bool
	soft    bool     // rows that go stay with deletedColumn
	all     []string // every column that takes values, those of the table's owner too
	insert  string
}

// column is a column of a target with the values that wait for it.
type column struct {
	name  string
	kind  string // the server's type
	cells cells
}

func quote(name string) string {
	return "`" + strings.NewReplacer(`\`, `\\`, "`", "\\`").Replace(name) + "`"
}

func literal(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(text) + "'"
}

func (t *target) quoted() string { return quote(t.name[0]) + "." + quote(t.name[1]) }

// decimalType is how the sources' dialects write an exact number with a limit.
var decimalType = regexp.MustCompile(`(?i)^(?:numeric|decimal)\((\d+)(?:, ?(\d+))?\)`)

// maxPrecision is the most digits of a Decimal that every version has.
const maxPrecision = 38

// typeOf returns the type for a column that is made. Every type holds all values of the source's, or text does.
func (v server) typeOf(c *connectors.Column, kind connectors.Kind) string {
	switch kind {
	case connectors.Bool:
		if v.modern {
			return "Bool"
		}
		return "UInt8"
	case connectors.Int:
		return "Int64"
	case connectors.Uint:
		return "UInt64"
	case connectors.Float:
		return "Float64"
	case connectors.Decimal:
		if m := decimalType.FindStringSubmatch(c.Type); m != nil {
			precision, _ := strconv.Atoi(m[1])
			scale, _ := strconv.Atoi(m[2]) // none is 0
			if precision >= 1 && precision <= maxPrecision && scale <= precision {
				return fmt.Sprintf("Decimal(%d, %d)", precision, scale)
			}
		}
	case connectors.Date:
		if v.modern {
			return "Date32"
		}
	case connectors.Timestamp, connectors.TimestampTZ:
		if v.modern {
			return "DateTime64(6, 'UTC')"
		}
	}
	return "String"
}

// declare returns the type with what surrounds it. ClickHouse has no NULL in a key, and none in
// place of an array, so an array that can be NULL is its JSON.
func (v server) declare(t *connectors.Table, i int) string {
	c := &t.Columns[i]
	switch {
	case slices.Contains(t.Key, i):
		return v.typeOf(c, c.Kind)
	case c.Kind == connectors.Array && c.NotNull && v.modern && !slices.Contains([]connectors.Kind{connectors.Absent, connectors.Array, connectors.Map, connectors.Bytes}, c.Elem):
		return "Array(Nullable(" + v.typeOf(c, c.Elem) + "))"
	}
	return "Nullable(" + v.typeOf(c, c.Kind) + ")"
}

// create returns the statement that makes the table.
func (s *sink) create(t *connectors.Table, name [2]string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "CREATE TABLE IF NOT EXISTS %s.%s (", quote(name[0]), quote(name[1]))
	for i := range t.Columns {
		fmt.Fprintf(&b, "%s %s, ", quote(t.Columns[i].Name), s.server.declare(t, i))
	}
	var key []string
	for _, k := range t.Key {
		key = append(key, quote(t.Columns[k].Name))
	}
	if len(key) == 0 {
		fmt.Fprintf(&b, "%s String, ", streamColumn)
		key = []string{streamColumn, versionColumn}
	}
	engine := "ReplacingMergeTree(" + versionColumn
	if s.server.deleted && len(t.Key) > 0 && s.config.Deletes != softDeletes {
		engine += ", " + deletedColumn
	}
	fmt.Fprintf(&b, "%s UInt64, %s UInt8) ENGINE = %s) ORDER BY (%s)", versionColumn, deletedColumn, engine, strings.Join(key, ", "))
	return b.String()
}

// found is what the server says of a table.
type found struct {
	engine, sorting string            // the engine with its arguments
	columns         map[string]string // types by name
}

// look returns nil if there is no such table.
func (s *sink) look(ctx context.Context, name [2]string) (*found, error) {
	where := " WHERE database = " + literal(name[0]) + " AND "
	rows, err := s.conn.Query(ctx, "SELECT name, type FROM system.columns"+where+"table = "+literal(name[1])+" AND default_kind NOT IN ('MATERIALIZED', 'ALIAS')")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	f := &found{columns: map[string]string{}}
	for rows.Next() {
		var column, kind string
		if err := rows.Scan(&column, &kind); err != nil {
			return nil, err
		}
		f.columns[column] = kind
	}
	if err := rows.Err(); err != nil || len(f.columns) == 0 {
		return nil, err
	}
	if err := rows.Close(); err != nil {
		return nil, err
	}
	err = s.conn.QueryRow(ctx, "SELECT engine_full, sorting_key FROM system.tables"+where+"name = "+literal(name[1])).Scan(&f.engine, &f.sorting)
	return f, err
}

// target returns the target of a version of a table. One that no migration has prepared is compared with what is there.
func (s *sink) target(ctx context.Context, t *connectors.Table) (*target, error) {
	if tg := s.targets[t]; tg != nil {
		return tg, nil
	}
	return s.prepare(ctx, connectors.Migration{To: t})
}

// hiding is an engine to which FINAL leaves out the rows that deletedColumn marks.
var hiding = regexp.MustCompile("ReplacingMergeTree\\([^)]*" + deletedColumn)

// empty returns the statement of a truncate. Rows that stay are written again with the mark and the version that they
// have: of two rows with one version the last counts.
func (t *target) empty() string {
	if !t.soft {
		return "TRUNCATE TABLE " + t.quoted()
	}
	var names []string
	for _, name := range t.all {
		if name != deletedColumn {
			names = append(names, quote(name))
		}
	}
	list := strings.Join(names, ", ")
	return "INSERT INTO " + t.quoted() + " (" + list + ", " + deletedColumn + ") SELECT " + list + ", 1 FROM " + t.quoted() + " FINAL WHERE " + deletedColumn + " = 0"
}

// fits reports why rows of t can't live in the table that is there.
func (s *sink) fits(t *connectors.Table, f *found, name string) error {
	misfit := func(problem string) error {
		return &connectors.SchemaError{Target: name, Problem: problem,
			Statement: "RENAME TABLE " + name + " TO " + strings.TrimSuffix(name, "`") + "_old`, read the table anew (trunkline resync)"}
	}
	need := []string{versionColumn, deletedColumn}
	key := []string{}
	for _, k := range t.Key {
		key = append(key, t.Columns[k].Name)
	}
	if len(key) == 0 {
		need, key = append(need, streamColumn), []string{streamColumn, versionColumn}
	}
	for _, n := range need {
		if _, ok := f.columns[n]; !ok {
			return misfit("it has no column " + n)
		}
	}
	if !strings.Contains(f.engine, "ReplacingMergeTree") {
		engine, _, _ := strings.Cut(f.engine, " ")
		return misfit("its engine " + engine + " keeps the older rows of a key; it has to be ReplacingMergeTree(" + versionColumn + ")")
	}
	if s.config.Deletes == softDeletes && hiding.MatchString(f.engine) {
		return misfit("its engine hides the rows that " + deletedColumn + " marks, and with deletes: soft they are to be seen; it has to be ReplacingMergeTree(" + versionColumn + ")")
	}
	if strings.ContainsAny(strings.Join(key, ""), ", `()\"\\") {
		return nil // names that a list of names does not show plainly
	}
	sorted := strings.Split(strings.Trim(strings.ReplaceAll(f.sorting, "`", ""), "()"), ", ")
	slices.Sort(sorted)
	if expected := slices.Sorted(slices.Values(key)); slices.Equal(sorted, expected) {
		return nil
	}
	return misfit(fmt.Sprintf("its ORDER BY (%s) is not the key of the source (%s), so one row would be several or several one", f.sorting, strings.Join(key, ", ")))
}

// build lists the columns. Those that another version of the table had before stay, so that one INSERT takes both.
func (t *target) build(table *connectors.Table, f *found, before *target) error {
	add := func(name string) error {
		kind, ok := f.columns[name]
		if !ok || slices.ContainsFunc(t.columns, func(c column) bool { return c.name == name }) {
			return nil
		}
		cells, err := newCells(kind)
		if err != nil {
			return fmt.Errorf("column %q: %w", name, err)
		}
		t.columns = append(t.columns, column{name, kind, cells})
		return nil
	}
	for i := range table.Columns {
		if strings.Contains(table.Columns[i].Name, `\`) {
			return fmt.Errorf("column %q: a name with a backslash can't be written; leave the column out with columns: at the table of the source", table.Columns[i].Name)
		}
		if err := add(table.Columns[i].Name); err != nil {
			return err
		}
		t.holds = append(t.holds, holdsOf(f.columns[table.Columns[i].Name]))
	}
	if before != nil {
		for i := range before.columns {
			if err := add(before.columns[i].name); err != nil {
				return err
			}
		}
	}
	for _, name := range []string{streamColumn, versionColumn, deletedColumn} {
		if err := add(name); err != nil {
			return err
		}
	}
	t.all = slices.Sorted(maps.Keys(f.columns))
	names := make([]string, len(t.columns))
	for i := range t.columns {
		names[i] = quote(t.columns[i].name)
	}
	t.insert = "INSERT INTO " + t.quoted() + " (" + strings.Join(names, ", ") + ")"
	return nil
}

// holdsOf reports the values that a type has; nil for a column that is not there, and for one with neither NULL nor
// the empty array, which has nothing to hold in place of a value: fill refuses the row.
func holdsOf(kind string) connectors.Holds {
	scratch, err := newCells(kind)
	if err != nil || !strings.HasPrefix(kind, "Nullable(") && !strings.HasPrefix(kind, "Array(") {
		return nil
	}
	return func(v connectors.Value) bool {
		scratch.reset()
		return scratch.add(v) == nil
	}
}

// fill puts rows into the columns, and notes those that don't fit.
func (t *target) fill(rows []*fold.Row, refused refusals) {
	for i := range t.columns {
		t.columns[i].cells.reset()
	}
	for i := range t.columns {
		c := &t.columns[i]
		ours := c.name == versionColumn || c.name == deletedColumn || c.name == streamColumn
		at, of := -1, (*connectors.Table)(nil)
		for _, r := range rows {
			if r.Table != of {
				at, of = r.Table.Column(c.name), r.Table
			}
			var v connectors.Value
			if at >= 0 && r.Values != nil && !ours {
				v = r.Values[at]
			} else {
				v = t.value(c, r, at)
			}
			if v.IsNull() || v.IsAbsent() {
				c.cells.null()
				continue
			}
			if err := c.cells.add(v); err != nil {
				refused.add(r.Index, fmt.Errorf("column %q of type %s: %w", c.name, c.kind, err))
				c.cells.null()
			}
		}
	}
}

// value returns what a row has in a column. at is the column's index in the row's table.
func (t *target) value(c *column, r *fold.Row, at int) connectors.Value {
	switch c.name {
	case versionColumn:
		return connectors.UintValue(uint64(r.Offset))
	case deletedColumn:
		if r.Values == nil || r.Gone {
			return connectors.UintValue(1)
		}
		return connectors.UintValue(0)
	case streamColumn:
		if t.keyless {
			return connectors.DataValue(connectors.Text, []byte(r.Key[:strings.LastIndexByte(r.Key, '/')]))
		}
	}
	if r.Values != nil && at >= 0 {
		return r.Values[at]
	}
	if at >= 0 { // the row is gone, and its key stays
		if k := slices.Index(r.Table.Key, at); k >= 0 {
			return r.Keys[k]
		}
	}
	return connectors.NullValue()
}
