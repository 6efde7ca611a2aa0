package endtoend

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// describe returns the columns of a table with their types, and its rows as text, whatever the order of the columns.
func describe(e evolver, table string) []string {
	columns := e.columns(table)
	slices.SortFunc(columns, func(a, b evolvingColumn) int { return strings.Compare(a.name, b.name) })
	return e.content(table, columns)
}

// wantTables waits until tables have the same columns and rows in both databases.
func wantTables(t *testing.T, source, target evolver, tables ...string) {
	t.Helper()
	for _, table := range tables {
		wantSame(t, table, func() []string { return describe(source, table) }, func() []string {
			columns := source.columns(table)
			slices.SortFunc(columns, func(a, b evolvingColumn) int { return strings.Compare(a.name, b.name) })
			return target.content(table, columns)
		})
	}
}

// F33: columns come, go, change their names and their types between the rows, and each record has those of its commit.
func TestSchemaChangesOfPostgres(t *testing.T) {
	t.Parallel()
	source, target := newDatabase(t), newDatabase(t)
	source.exec("CREATE TYPE mood AS ENUM ('sad', 'ok')", "CREATE TABLE ddl (id int PRIMARY KEY, a text, b int)", "INSERT INTO ddl VALUES (0, 'zero', 0)")
	l := newLine(t, postgresSource(source, "shop", "tables: [public.ddl]"), postgresSink(target, "replica")+
		"  small:\n    type: sqlite\n    path: DIR/small.db\n    topics: ['*']\n"+fileSink)
	l.start()
	equalRows(t, source, target, "ddl")
	source.exec("INSERT INTO ddl VALUES (1, 'a', 1)", "ALTER TABLE ddl RENAME a TO a2", "INSERT INTO ddl VALUES (2, 'b', 2)", "ALTER TABLE ddl DROP b", "INSERT INTO ddl VALUES (3, 'c')",
		"ALTER TABLE ddl ADD b text DEFAULT 'dflt'", "INSERT INTO ddl VALUES (4, 'd')", "ALTER TABLE ddl ALTER b TYPE varchar(20)", "INSERT INTO ddl VALUES (5, 'e', 'e')",
		"ALTER TABLE ddl ADD m mood", "INSERT INTO ddl VALUES (6, 'f', 'f', 'ok')", "ALTER TYPE mood ADD VALUE 'happy'", "INSERT INTO ddl VALUES (7, 'g', 'g', 'happy')")
	s, d := postgresEvolver{source}, postgresEvolver{target}
	wantTables(t, s, d, "ddl")
	if got := target.list("SELECT b FROM ddl WHERE id < 4 ORDER BY id"); !slices.Equal(got, []string{"dflt", "dflt", "dflt", "dflt"}) {
		t.Errorf("the new column holds %v in rows from before", got)
	}
	small := openSmall(t, l.dir+"/small.db")
	eventually(t, "SQLite has the last row", func() bool {
		return small("SELECT group_concat(id || coalesce(a2, '-') || coalesce(b, '-') || coalesce(m, '-'), ' ') FROM (SELECT * FROM ddl WHERE id > 3 ORDER BY id)") == "4ddflt- 5ee- 6ffok 7gghappy"
	})
	if got := small("SELECT group_concat(name, ' ') FROM pragma_table_info('ddl')"); got != "id a2 b m" {
		t.Errorf("SQLite has the columns %s", got)
	}
	if code := l.stop(); code != 0 {
		t.Errorf("the drain ended with %d", code)
	}
	lines := archiveLines(t, l.dir+"/archive")
	for _, want := range []string{`"op":"c".*"after":{"id":1,"a":"a","b":1}`, `"op":"c".*"after":{"id":2,"a2":"b","b":2}`, `"op":"c".*"after":{"id":3,"a2":"c"}`, `"op":"c".*"after":{"id":7,"a2":"g","b":"g","m":"happy"}`} {
		op, row, _ := strings.Cut(want, ".*")
		if !slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, op) && strings.Contains(line, row) }) {
			t.Errorf("no line has %s", row)
		}
	}
}

// openSmall returns a function that asks a database of SQLite for one text; empty while there is no answer.
func openSmall(t *testing.T, path string) func(query string) string {
	t.Helper()
	db := sql.OpenDB(sqliteFile("file:" + path + "?mode=ro&_pragma=busy_timeout(10000)"))
	t.Cleanup(func() { db.Close() })
	return func(query string) string {
		var got sql.NullString
		if db.QueryRow(query).Scan(&got) != nil {
			return ""
		}
		return got.String
	}
}

func TestSchemaChangesOfMariaDB(t *testing.T) {
	t.Parallel()
	source, target := newMaria(t), newMaria(t)
	source.exec("CREATE TABLE ddl (id int PRIMARY KEY, a text, b int, e enum('sad','ok'))", "INSERT INTO ddl VALUES (0, 'zero', 0, 'ok')")
	l := newLine(t, source.source("shop"), target.sink("replica"))
	l.start()
	s, d := mariaEvolver{source}, mariaEvolver{target}
	wantTables(t, s, d, "ddl")
	source.exec("INSERT INTO ddl VALUES (1, 'a', 1, 'sad')", "ALTER TABLE ddl RENAME COLUMN a TO a2", "INSERT INTO ddl VALUES (2, 'b', 2, NULL)", "ALTER TABLE ddl DROP b",
		"INSERT INTO ddl VALUES (3, 'c', 'ok')", "ALTER TABLE ddl ADD b text AFTER id, CHANGE e `m n` enum('sad','ok','happy')", "INSERT INTO ddl VALUES (4, 'd', 'd', 'happy')",
		"ALTER TABLE ddl MODIFY b varchar(20), MODIFY id bigint", "INSERT INTO ddl VALUES (5000000000, 'e', 'e', NULL)", "UPDATE ddl SET b = 'x' WHERE b IS NULL",
		"ALTER TABLE ddl DROP PRIMARY KEY, ADD PRIMARY KEY (id, b)",
		"INSERT INTO ddl VALUES (4, 'again', NULL, NULL)")
	wantTables(t, s, d, "ddl")
}

// A migration that waits for a lock when the daemon is killed is carried out once: names that change places would change
// back.
func TestKilledInsideAMigrationOfPostgres(t *testing.T) {
	t.Parallel()
	source, target := newDatabase(t), newDatabase(t)
	source.exec("CREATE TABLE swap (id int PRIMARY KEY, a text, b text)", "INSERT INTO swap VALUES (1, 'a', 'b')")
	l := follow(t, source, target, []string{"tables: [public.swap]"}, "swap")
	reader := connectTo(t, target.Database)
	reader.exec("BEGIN", "SELECT * FROM swap")
	source.exec("BEGIN", "ALTER TABLE swap RENAME a TO c", "ALTER TABLE swap RENAME b TO a", "ALTER TABLE swap RENAME c TO b", "INSERT INTO swap VALUES (2, 'b2', 'a2')", "COMMIT")
	waits := func() bool {
		return len(target.list("SELECT query FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database() AND query LIKE 'ALTER TABLE%'")) > 0
	}
	eventually(t, "the migration waits", waits)
	l.kill()
	l.start()
	reader.exec("COMMIT")
	wantTables(t, postgresEvolver{source}, postgresEvolver{target}, "swap")
}

func TestKilledInsideAMigrationOfMariaDB(t *testing.T) {
	t.Parallel()
	source, target := newMaria(t), newMaria(t)
	source.exec("CREATE TABLE swap (id int PRIMARY KEY, a varchar(9), b varchar(9))", "INSERT INTO swap VALUES (1, 'a', 'b')")
	l := newLine(t, source.source("shop"), target.sink("replica"))
	l.start()
	s, d := mariaEvolver{source}, mariaEvolver{target}
	wantTables(t, s, d, "swap")
	reader, err := target.pool.Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	hold := func(statement string) {
		t.Helper()
		if _, err := reader.ExecContext(context.Background(), statement); err != nil {
			t.Fatal(err)
		}
	}
	hold("START TRANSACTION")
	hold("SELECT * FROM " + target.Name + ".swap")
	source.exec("ALTER TABLE swap RENAME COLUMN a TO b, RENAME COLUMN b TO a", "INSERT INTO swap VALUES (2, 'b2', 'a2')")
	eventually(t, "the migration waits", func() bool {
		return len(target.list("SELECT INFO FROM information_schema.PROCESSLIST WHERE STATE LIKE 'Waiting for table metadata lock%' AND INFO LIKE 'ALTER TABLE `"+target.Name+"`%'")) > 0
	})
	l.kill()
	l.start()
	hold("COMMIT") // now the statement of the dead daemon goes on, and the new one has to wait for it
	wantTables(t, s, d, "swap")
}

// A change that the target does not take stops its table alone, names the statement, and goes on by itself.
func TestATableOfPostgresWaitsForAPerson(t *testing.T) {
	t.Parallel()
	source, target := newDatabase(t), newDatabase(t)
	source.exec("CREATE TABLE item (id int PRIMARY KEY, v text, w text)", "CREATE TABLE other (id int PRIMARY KEY)", "INSERT INTO item VALUES (1, 'v', 'w')")
	l := follow(t, source, target, []string{"tables: [public.*]"}, "item")
	target.exec("CREATE VIEW looks AS SELECT w FROM item")
	source.exec("ALTER TABLE item DROP w", "INSERT INTO item VALUES (2, 'v')")
	asks(t, l, `ALTER TABLE "public"."item" DROP COLUMN "w"`)
	source.exec("INSERT INTO other VALUES (1)")
	equalRows(t, source, target, "other")
	target.exec("DROP VIEW looks")
	wantTables(t, postgresEvolver{source}, postgresEvolver{target}, "item")
}

func TestATableOfMariaDBWaitsForAPerson(t *testing.T) {
	t.Parallel()
	source, target := newMaria(t), newMaria(t)
	source.exec("CREATE TABLE item (id int PRIMARY KEY, v varchar(9))", "CREATE TABLE other (id int PRIMARY KEY)", "INSERT INTO item VALUES (1, '7')")
	l := newLine(t, source.source("shop"), target.sink("replica", "schema: {rename: freeze}"))
	l.start()
	s, d := mariaEvolver{source}, mariaEvolver{target}
	wantTables(t, s, d, "item")
	target.exec("INSERT INTO item VALUES (99, 'none')")
	source.exec("ALTER TABLE item MODIFY v int", "INSERT INTO item VALUES (2, 8)")
	asks(t, l, "MODIFY COLUMN `v` int(11)")
	source.exec("INSERT INTO other VALUES (1)")
	wantTables(t, s, d, "other")
	target.exec("DELETE FROM item WHERE id = 99")
	wantTables(t, s, d, "item")
	source.exec("ALTER TABLE item RENAME COLUMN v TO n", "INSERT INTO item VALUES (3, 9)")
	asks(t, l, "CHANGE COLUMN `v` `n` int(11)")
	target.exec("ALTER TABLE item CHANGE v n int(11)")
	wantTables(t, s, d, "item")
}

// archiveLines returns all lines of an archive.
func archiveLines(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(dir + "/*/*/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("no file in %s: %v", dir, err)
	}
	var lines []string
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, strings.Split(strings.TrimSpace(string(text)), "\n")...)
	}
	return lines
}

// asks waits until the status of the line names a statement.
func asks(t *testing.T, l *line, statement string) {
	t.Helper()
	var out string
	eventually(t, "status names "+statement, func() bool {
		_, out = l.run("status")
		return strings.Contains(out, statement) && strings.Contains(out, "failed")
	})
}

// Names of any characters, changed keys, rows without a key and equal to each other, partitions, and TRUNCATE with and without
// what it takes along.
func TestRowsOfAnyTableOfPostgres(t *testing.T) {
	t.Parallel()
	source, target := newDatabase(t), newDatabase(t)
	tables := []string{`"Odd ""Table"". 表"`, "loose", "parted", "parent", "child", "alone"}
	source.exec(`CREATE TABLE "Odd ""Table"". 表" ("select" int PRIMARY KEY, "a.b" text, "quo""te'" text)`, "CREATE TABLE loose (a int, f real, v text)", "ALTER TABLE loose REPLICA IDENTITY FULL",
		"CREATE TABLE parted (id int, k int, v text, PRIMARY KEY (id, k)) PARTITION BY LIST (k)", "CREATE TABLE parted_1 PARTITION OF parted FOR VALUES IN (1)", "CREATE TABLE parted_2 PARTITION OF parted FOR VALUES IN (2)",
		"CREATE TABLE parent (id int PRIMARY KEY)", "CREATE TABLE child (id int PRIMARY KEY, p int REFERENCES parent)", "CREATE TABLE alone (id int PRIMARY KEY)")
	source.exec("INSERT INTO parent VALUES (1)", "INSERT INTO child VALUES (1, 1)", "INSERT INTO alone VALUES (1)", "INSERT INTO parted VALUES (1, 1, 'x')", "INSERT INTO loose VALUES (1, 1, '1')",
		`INSERT INTO "Odd ""Table"". 表" VALUES (1, 'one', NULL)`)
	l := newLine(t, postgresSource(source, "shop", "tables: [public.*]", `exclude: ["public.parted_*"]`), postgresSink(target, "replica"))
	l.start()
	equalRows(t, source, target, tables...)
	source.exec(`INSERT INTO "Odd ""Table"". 表" VALUES (2, 'x', 'y')`, `UPDATE "Odd ""Table"". 表" SET "select" = -"select"`, `DELETE FROM "Odd ""Table"". 表" WHERE "a.b" = 'x'`,
		"INSERT INTO loose VALUES (1, 0.1, 'x'), (1, 0.1, 'x'), (1, 0.1, 'x'), (2, NULL, NULL), (2, NULL, NULL)", "DELETE FROM loose WHERE ctid = (SELECT min(ctid) FROM loose WHERE v = 'x')",
		"UPDATE loose SET v = 'y' WHERE ctid = (SELECT max(ctid) FROM loose WHERE v = 'x')", "DELETE FROM loose WHERE ctid = (SELECT min(ctid) FROM loose WHERE f IS NULL)",
		"INSERT INTO parted VALUES (2, 1, 'moves')", "UPDATE parted SET k = 2 WHERE id = 2", "INSERT INTO parent VALUES (2)", "INSERT INTO child VALUES (2, 2)", "INSERT INTO alone VALUES (2)")
	equalRows(t, source, target, tables...)
	source.exec("TRUNCATE parent CASCADE", "INSERT INTO parent VALUES (3)", "TRUNCATE alone", "TRUNCATE parted")
	equalRows(t, source, target, tables...)
	if got := target.rows("child"); len(got) != 0 {
		t.Errorf("TRUNCATE CASCADE left %v", got)
	}
}

func TestRowsOfAnyTableOfMariaDB(t *testing.T) {
	t.Parallel()
	source, target := newMaria(t), newMaria(t)
	source.exec("CREATE TABLE `Odd 'Table' 表` (`select` int PRIMARY KEY, `a.b` text, `quo\"te` text)", "CREATE TABLE loose (a int, f float, v varchar(9))",
		"CREATE TABLE parted (id int, k int, v text, PRIMARY KEY (id, k)) PARTITION BY LIST (k) (PARTITION p1 VALUES IN (1), PARTITION p2 VALUES IN (2))",
		"CREATE TABLE parent (id int PRIMARY KEY)", "CREATE TABLE child (id int PRIMARY KEY, p int, FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE)")
	l := newLine(t, source.source("shop"), target.sink("replica"))
	if code, out := l.run("check", "--connect"); !strings.Contains(out, "child") || !strings.Contains(strings.ToLower(out), "cascade") {
		t.Errorf("check --connect says nothing about the cascade of child (exit code %d): %s", code, out)
	}
	l.start()
	source.exec("INSERT INTO `Odd 'Table' 表` VALUES (1, 'x', 'y'), (2, 'z', NULL)", "UPDATE `Odd 'Table' 表` SET `select` = -`select`", "DELETE FROM `Odd 'Table' 表` WHERE `a.b` = 'x'",
		"INSERT INTO loose VALUES (1, 0.1, 'x'), (1, 0.1, 'x'), (1, 0.1, 'X'), (2, NULL, NULL), (2, NULL, NULL)", "DELETE FROM loose WHERE v = BINARY 'x' LIMIT 1", "UPDATE loose SET v = 'y' WHERE v = BINARY 'x' LIMIT 1",
		"DELETE FROM loose WHERE f IS NULL LIMIT 1", "INSERT INTO parted VALUES (1, 1, 'stays'), (2, 1, 'moves')", "UPDATE parted SET k = 2 WHERE id = 2",
		"INSERT INTO parent VALUES (1), (2)", "INSERT INTO child VALUES (1, 1), (2, 2)")
	s, d := mariaEvolver{source}, mariaEvolver{target}
	for _, table := range []string{"loose", "parted", "parent", "child"} {
		wantTables(t, s, d, table)
	}
	odd := func(db *mariaDatabase) func() []string {
		return func() []string {
			return db.list("SELECT CONCAT_WS('|', `select`, `a.b`, COALESCE(`quo\"te`, '-')) FROM `Odd 'Table' 表` ORDER BY 1")
		}
	}
	wantSame(t, "odd names", odd(source), odd(target))
	source.exec("TRUNCATE TABLE child", "INSERT INTO child VALUES (3, 1)", "TRUNCATE TABLE loose", "INSERT INTO loose VALUES (9, 9, '9')")
	wantTables(t, s, d, "child", "loose")
	if got := fmt.Sprint(target.list("SELECT id FROM child")); got != "[3]" {
		t.Errorf("child holds %s", got)
	}
}

// Columns that came, went and changed their names while the source was away, several times in a table: no value lands under
// the name of another column.
func TestColumnsThatCameAndWentWhileTheSourceWasAway(t *testing.T) {
	t.Parallel()
	source, target := newDatabase(t), newDatabase(t)
	changes := map[string][]string{
		"came":    {"ADD b text", "INSERT INTO came VALUES (2, 'a', 'b')", "DROP b", "ADD c text", "INSERT INTO came VALUES (3, 'a', 'c')"},
		"taken":   {"RENAME a TO b", "INSERT INTO taken VALUES (2, 'x')", "DROP b", "ADD b text", "INSERT INTO taken VALUES (3, 'y')"},
		"again":   {"DROP a", "INSERT INTO again VALUES (2)", "ADD a text", "INSERT INTO again VALUES (3, 'z')"},
		"moved":   {"RENAME a TO b", "INSERT INTO moved VALUES (2, 'x')", "ADD a text", "ALTER b TYPE varchar(9)", "INSERT INTO moved VALUES (3, 'y', 'z')", "RENAME b TO c"},
		"swapped": {"ADD b text", "INSERT INTO swapped VALUES (2, 'a', 'b')", "RENAME a TO c", "RENAME b TO a", "INSERT INTO swapped VALUES (3, 'c', 'a')", "RENAME c TO b", "INSERT INTO swapped VALUES (4, 'b', 'a')"},
	}
	var tables []string
	for name := range changes {
		source.exec("CREATE TABLE "+name+" (id int PRIMARY KEY, a text)", "INSERT INTO "+name+" VALUES (1, 'one')")
		tables = append(tables, name)
	}
	l := newLine(t, postgresSource(source, "shop", "tables: [public.*]"), postgresSink(target, "replica"))
	l.start()
	equalRows(t, source, target, tables...)
	l.kill()
	for name, statements := range changes {
		for _, statement := range statements {
			if !strings.HasPrefix(statement, "INSERT") {
				statement = "ALTER TABLE " + name + " " + statement
			}
			source.exec(statement)
		}
	}
	l.start()
	wantTables(t, postgresEvolver{source}, postgresEvolver{target}, tables...)
}

// Of two changes of a type with no row between them, the target's old values go through both.
func TestTypesThatNoRowHadOfMariaDB(t *testing.T) {
	t.Parallel()
	source, target := newMaria(t), newMaria(t)
	source.exec("CREATE TABLE cast (id int PRIMARY KEY, a int, b double, c varchar(20))", "INSERT INTO cast VALUES (1, 7, 3.14159, '5'), (2, 42, 2.5, NULL)")
	l := newLine(t, source.source("shop"), target.sink("replica"))
	l.start()
	s, d := mariaEvolver{source}, mariaEvolver{target}
	wantTables(t, s, d, "cast")
	source.exec("ALTER TABLE cast MODIFY a decimal(8,2)", "ALTER TABLE cast MODIFY a varchar(20), MODIFY b decimal(8,2)", "ALTER TABLE cast MODIFY b varchar(20), CHANGE c d int", "ALTER TABLE cast MODIFY d varchar(9)",
		"INSERT INTO cast VALUES (3, 'a', 'b', 'd')")
	wantTables(t, s, d, "cast")
	l.kill()
	source.exec("ALTER TABLE cast MODIFY d char(4)", "DELETE FROM cast WHERE id = 3", "ALTER TABLE cast MODIFY a decimal(8,2)", "ALTER TABLE cast MODIFY a varchar(20)", "INSERT INTO cast VALUES (4, '1', '2', '3')")
	l.start()
	wantTables(t, s, d, "cast")
}

// A key that changes while the source is away, when the rows that the target has do not fit the new one yet.
func TestKeyThatChangedWhileTheSourceWasAway(t *testing.T) {
	t.Parallel()
	away := []string{"UPDATE rekeyed SET a = id", "DELETE FROM rekeyed WHERE id = 2", "INSERT INTO rekeyed VALUES (4, 14)"}
	create := []string{"CREATE TABLE rekeyed (id int PRIMARY KEY, a int NOT NULL)", "INSERT INTO rekeyed VALUES (1, 7), (2, 7), (3, 7)"}
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		source, target := newDatabase(t), newDatabase(t)
		source.exec(create...)
		l := newLine(t, postgresSource(source, "shop", "tables: [public.*]"), postgresSink(target, "replica"))
		l.start()
		equalRows(t, source, target, "rekeyed")
		l.kill()
		source.exec(away...)
		source.exec("ALTER TABLE rekeyed DROP CONSTRAINT rekeyed_pkey, ADD PRIMARY KEY (a)", "INSERT INTO rekeyed VALUES (1, 15)")
		l.start()
		wantTables(t, postgresEvolver{source}, postgresEvolver{target}, "rekeyed")
	})
	t.Run("MariaDB", func(t *testing.T) {
		t.Parallel()
		source, target := newMaria(t), newMaria(t)
		source.exec(create...)
		l := newLine(t, source.source("shop"), target.sink("replica"))
		l.start()
		wantTables(t, mariaEvolver{source}, mariaEvolver{target}, "rekeyed")
		l.kill()
		source.exec(away...)
		source.exec("ALTER TABLE rekeyed DROP PRIMARY KEY, ADD PRIMARY KEY (a)", "INSERT INTO rekeyed VALUES (1, 15)")
		l.start()
		wantTables(t, mariaEvolver{source}, mariaEvolver{target}, "rekeyed")
	})
}
