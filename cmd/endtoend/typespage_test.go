package endtoend

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/trunkline/trunkline/connectors/conformance/duck"
)

// pageTables returns the rows of the tables below a heading of docs/types.md: of each cell what stands in backticks.
func pageTables(t *testing.T, heading string) [][][]string {
	t.Helper()
	page, err := os.ReadFile("../../docs/types.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(page), "\n### "+heading+"\n")
	if !found {
		t.Fatalf("docs/types.md has no heading %q", heading)
	}
	text, _, _ = strings.Cut(text, "\n### ")
	quoted := regexp.MustCompile("`([^`]*)`")
	var tables [][][]string
	inside := false
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "| `") {
			inside = inside && strings.HasPrefix(line, "|")
			continue
		}
		if !inside {
			tables = append(tables, nil)
			inside = true
		}
		for _, cell := range strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")[:2] {
			var words []string
			for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
				words = append(words, m[1])
			}
			if len(words) == 0 && strings.Contains(cell, "``") {
				words = []string{""}
			}
			tables[len(tables)-1] = append(tables[len(tables)-1], words)
		}
	}
	if len(tables) == 0 {
		t.Fatalf("no table below %q", heading)
	}
	return tables
}

// pageTypes returns the pairs of a table: types of the source, and the type of the target's column.
func pageTypes(t *testing.T, heading string) (types, columns []string) {
	t.Helper()
	cells := pageTables(t, heading)[0]
	for i := 0; i+1 < len(cells); i += 2 {
		for _, typ := range cells[i] {
			types, columns = append(types, typ), append(columns, cells[i+1][0])
		}
	}
	if len(types) < 10 {
		t.Fatalf("%q has %d types", heading, len(types))
	}
	return types, columns
}

// createAll writes a table with a column of each type: c0, c1, …
func createAll(types []string) string {
	var list []string
	for i, typ := range types {
		list = append(list, fmt.Sprintf("c%d %s NULL", i, typ))
	}
	return "CREATE TABLE every (id int PRIMARY KEY, " + strings.Join(list, ", ") + ")"
}

func wantColumns(t *testing.T, types, want []string, got func(column string) string) {
	t.Helper()
	for i, typ := range types {
		if g := got(fmt.Sprintf("c%d", i)); g != want[i] {
			t.Errorf("%s becomes %q, docs/types.md says %q", typ, g, want[i])
		}
	}
}

// mariaColumn reads the type of a column as one writes it: without the width of numbers, and json for what MariaDB checks to be JSON.
func mariaColumn(target *mariaDatabase, column string) string {
	list := target.list("SELECT COLUMN_TYPE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = '" + target.Name + "' AND TABLE_NAME = 'every' AND COLUMN_NAME = '" + column + "'")
	if len(list) != 1 {
		return "no column"
	}
	checks := target.list("SELECT CHECK_CLAUSE FROM information_schema.CHECK_CONSTRAINTS WHERE CONSTRAINT_SCHEMA = '" + target.Name + "' AND TABLE_NAME = 'every' AND CONSTRAINT_NAME = '" + column + "'")
	if len(checks) == 1 && strings.Contains(checks[0], "json_valid") {
		return "json"
	}
	return regexp.MustCompile(`^(smallint|mediumint|int|bigint)\(\d+\)`).ReplaceAllString(list[0], "$1")
}

func TestTypesPageFromPostgres(t *testing.T) {
	t.Parallel()
	source, target := newDatabase(t), newMaria(t)
	file := filepath.Join(t.TempDir(), "target.db")
	types, want := pageTypes(t, "PostgreSQL to MySQL, MariaDB")
	lite, liteWant := pageTypes(t, "PostgreSQL to SQLite")
	source.exec(createAll(types), "INSERT INTO every (id) VALUES (1)", strings.Replace(createAll(lite), "every", "light", 1), "INSERT INTO light (id) VALUES (1)")
	l := newLine(t, postgresSource(source, "shop", "tables: [public.*]"), target.sink("replica")+
		fmt.Sprintf("  lite:\n    type: sqlite\n    path: %q\n    topics: [shop.public.light]\n    table: \"{table}\"\n", file))
	l.once()
	wantColumns(t, types, want, func(column string) string { return mariaColumn(target, column) })
	wantColumns(t, lite, liteWant, sqliteColumns(t, file, "light"))
}

func TestTypesPageFromMariaDB(t *testing.T) {
	t.Parallel()
	source, target := newMaria(t), newDatabase(t)
	file := filepath.Join(t.TempDir(), "target.db")
	types, want := pageTypes(t, "MySQL, MariaDB to PostgreSQL")
	lite, liteWant := pageTypes(t, "MySQL, MariaDB to SQLite")
	source.exec(createAll(types), "INSERT INTO every (id) VALUES (1)", strings.Replace(createAll(lite), "every", "light", 1), "INSERT INTO light (id) VALUES (1)")
	l := newLine(t, source.source("shop"), postgresSink(target, "replica", "table: public.{table}")+
		fmt.Sprintf("  lite:\n    type: sqlite\n    path: %q\n    topics: [shop.%s.light]\n    table: \"{table}\"\n", file, source.Name))
	l.once()
	wantColumns(t, types, want, func(column string) string {
		return strings.Join(target.list("SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'every'::regclass AND attname = '"+column+"'"), "")
	})
	wantColumns(t, lite, liteWant, sqliteColumns(t, file, "light"))
}

// TestTypesPageOfStores reads the types that ClickHouse and DuckDB, for Parquet, say that the columns have.
func TestTypesPageOfStores(t *testing.T) {
	t.Parallel()
	pg, mariaDB, ch := newDatabase(t), newMaria(t), startClickHouse(t)
	duckDB := duck.Start(t, "../..")
	wants := map[string]map[string]string{} // by table, of the types
	create := func(from, store, table string, exec func(...string)) {
		types, columns := pageTypes(t, from+" to "+store)
		exec(strings.Replace(createAll(types), "every", table, 1), "INSERT INTO "+table+" (id) VALUES (1)")
		wants[table] = map[string]string{}
		for i, typ := range types {
			wants[table][fmt.Sprintf("c%d", i)] = columns[i] + "\x00" + typ
		}
	}
	create("PostgreSQL", "ClickHouse", "pg_click", pg.exec)
	create("PostgreSQL", "Parquet", "pg_parquet", pg.exec)
	create("MySQL, MariaDB", "ClickHouse", "my_click", mariaDB.exec)
	create("MySQL, MariaDB", "Parquet", "my_parquet", mariaDB.exec)
	l := newLine(t, postgresSource(pg, "pg", "tables: [public.*]")+mariaDB.source("my"),
		fmt.Sprintf("  click:\n    type: clickhouse\n    dsn: http://%s/default\n    table: \"types.{table}\"\n    topics: [\"*_click\"]\n", ch)+
			"  lake:\n    type: file\n    format: parquet\n    path: DIR/lake\n    topics: [\"*_parquet\"]\n")
	l.once()
	got := map[string]map[string]string{}
	add := func(table, column, typ string) {
		if got[table] == nil {
			got[table] = map[string]string{}
		}
		got[table][column] = typ
	}
	for _, r := range askClickHouse(t, ch, "SELECT table, name, type FROM system.columns WHERE database = 'types'") {
		add(*r[0], *r[1], *r[2])
	}
	parquetFiles(t, filepath.Join(l.dir, "lake"), func(path string) {
		r := duckDB.Query(t, "SELECT * FROM read_parquet('"+path+"')")
		_, table, _ := strings.Cut(*r.Rows[0][3], ".")
		for i, column := range r.Columns {
			add(table, column, r.Types[i])
		}
	})
	for table, columns := range wants {
		for column, want := range columns {
			want, typ, _ := strings.Cut(want, "\x00")
			if g := got[table][column]; g != want {
				t.Errorf("%s: %s becomes %q, docs/types.md says %q", table, typ, g, want)
			}
		}
	}
}

// sqliteColumns reads the declared types of a table.
func sqliteColumns(t *testing.T, file, table string) func(string) string {
	t.Helper()
	db := sql.OpenDB(sqliteFile(file))
	defer db.Close()
	rows, err := db.Query("SELECT name, type FROM pragma_table_info(?)", table)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	types := map[string]string{}
	for rows.Next() {
		var name, typ string
		if err := rows.Scan(&name, &typ); err != nil {
			t.Fatal(err)
		}
		types[name] = typ
	}
	return func(column string) string {
		if typ, ok := types[column]; ok {
			return typ
		}
		return "no column"
	}
}

// pageValue is a row of a table of values: in JSON, what the type makes of a text.
type pageValue struct{ typ, text, json string }

func pageValues(t *testing.T, table int) []pageValue {
	t.Helper()
	page, err := os.ReadFile("../../docs/types.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "\n### To JSON lines\n")
	text, _, _ = strings.Cut(text, "\n### ")
	parts := strings.Split(text, "|---|---|---|\n")
	var out []pageValue
	for line := range strings.Lines(parts[table]) {
		if m := regexp.MustCompile("^\\| `(.*?)` \\| `(.*?)` \\| `(.*)` \\|\n$").FindStringSubmatch(line); m != nil {
			out = append(out, pageValue{m[1], m[2], m[3]})
		}
	}
	if len(out) < 8 {
		t.Fatalf("found %d values", len(out))
	}
	return out
}

// wantValues reads the one line of an archive.
func wantValues(t *testing.T, l *line, values []pageValue) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(l.dir, "archive", "*", "*", "*.jsonl"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %v: %v", files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	var row struct{ After map[string]json.RawMessage }
	if err := json.Unmarshal(text, &row); err != nil {
		t.Fatal(err)
	}
	for i, v := range values {
		if got := string(row.After[fmt.Sprintf("c%d", i)]); got != v.json {
			t.Errorf("%s of a %s is %s, docs/types.md says %s", v.text, v.typ, got, v.json)
		}
	}
}

func TestTypesPageOfLines(t *testing.T) {
	t.Parallel()
	insert := func(values []pageValue) (create, insert string) {
		var types, texts []string
		for _, v := range values {
			types = append(types, v.typ)
			texts = append(texts, "'"+strings.ReplaceAll(v.text, "'", "''")+"'")
		}
		return createAll(types), "INSERT INTO every VALUES (1, " + strings.Join(texts, ", ") + ")"
	}
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		source, values := newDatabase(t), pageValues(t, 1)
		create, row := insert(values)
		source.exec(create, row)
		l := newLine(t, postgresSource(source, "shop", "tables: [public.*]"), fileSink)
		l.once()
		wantValues(t, l, values)
	})
	t.Run("MariaDB", func(t *testing.T) {
		t.Parallel()
		source, values := newMaria(t), pageValues(t, 2)
		create, row := insert(values)
		row = strings.Replace(row, "'5'", "5", 1) // of a bit, which takes a number
		source.exec(create, "SET STATEMENT sql_mode = '' FOR "+row)
		l := newLine(t, source.source("shop"), fileSink)
		l.once()
		wantValues(t, l, values)
	})
}
