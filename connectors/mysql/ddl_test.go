package mysql

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/trunkline/trunkline/connectors/mysql/localserver"
)

// F16: statements that a parser might not know change what they say, and those about other databases nothing.
func TestDDLWhileTheSourceRuns(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "t", "CREATE TABLE t (id int PRIMARY KEY, z varchar(3), a enum('x','y'))", "INSERT INTO t VALUES (1, 'one', 'y')")
	h.open()
	h.catchUp()
	h.exec("CREATE DATABASE IF NOT EXISTS other", "CREATE TABLE IF NOT EXISTS other.v (n varchar(9))",
		"ALTER TABLE other.v MODIFY n varchar(40) NOT NULL CHECK (n<>'')", "ALTER DATABASE other CHARACTER SET = utf8mb4",
		"ALTER TABLE t ADD COLUMN IF NOT EXISTS w datetime NULL", "ALTER TABLE t MODIFY COLUMN t.z varchar(9)",
		"ALTER /* tool */ TABLE t\n# note\nADD COLUMN y int", "INSERT INTO t VALUES (2, 'nine', 'x', '2026-01-01 00:00:00', 9)",
		"ALTER TABLE t RENAME COLUMN y TO yy, ADD COLUMN `first one` bigint unsigned FIRST, DROP a", "INSERT INTO t VALUES (18446744073709551615, 3, 'z', NULL, 1)",
		"TRUNCATE t", "DROP TABLE t", "CREATE TABLE t (k char(2) PRIMARY KEY) /*!50000 CHARSET latin1 */", "INSERT INTO t VALUES ('é')")
	h.untilCount(6)
	// Rows of the table that had the name before may stand in targets, so it is emptied once more.
	h.want("r t -> [1 one y]", "c t -> [2 nine x 2026-01-01T00:00:00 9]", "c t -> [18446744073709551615 3 z null 1]", "t t", "t t", "c t -> [é]")
	var names []string
	for _, c := range h.changes[2].Table.Columns {
		names = append(names, c.Name+" "+c.Type)
	}
	if got := strings.Join(names, ", "); got != "first one bigint(20) unsigned, id int(11), z varchar(9), w datetime, yy int(11)" {
		t.Error(got)
	}
}

func TestDDLWhileTheSourceIsStopped(t *testing.T) {
	t.Parallel()
	onServers(t, testDDLWhileStopped)
}

func testDDLWhileStopped(t *testing.T, start func(*testing.T) *localserver.Database) {
	db := start(t)
	h := harnessOn(t, db.Server, db.Name, "e", "SET SESSION sql_mode = ''", "CREATE TABLE e (id int PRIMARY KEY, e enum('0','1','a,b'), s set('x','y','z'))",
		"INSERT INTO e VALUES (1, '1', 'x,z')")
	h.open()
	h.catchUp()
	h.exec("INSERT INTO e VALUES (2, '1', 'x,z')", "INSERT INTO e VALUES (3, 'bogus', '')")
	h.untilCount(3)
	h.close()
	h.exec("INSERT INTO e VALUES (4, '1', 'y')", "ALTER TABLE e MODIFY e enum('new','0','1','a,b')", "INSERT INTO e VALUES (5, '1', 'y')",
		"ALTER TABLE e ADD n int NOT NULL DEFAULT 7 AFTER id", "INSERT INTO e VALUES (6, 60, 'new', 'z')", "ALTER TABLE e CHANGE n m decimal(5,1) unsigned",
		"INSERT INTO e VALUES (7, 70, '0', 'z')", "ALTER TABLE e DROP m, CHANGE e f varchar(5) CHARACTER SET latin1", "INSERT INTO e VALUES (8, 'é', 'x')")
	h.open()
	h.untilCount(8)
	h.want("r e -> [1 1 x,z]", "c e -> [2 1 x,z]", "c e -> [3  ]", "c e -> [4 1 y]", "c e -> [5 1 y]", "c e -> [6 60 new z]", "c e -> [7 70.0 0 z]", "c e -> [8 é x]")
	names := func(i int) string {
		var out []string
		for _, c := range h.changes[i].Table.Columns {
			out = append(out, c.Name+" "+c.Type)
		}
		return strings.Join(out, ", ")
	}
	if got := names(6); got != "id int(11), m decimal(5,1) unsigned, e enum('new','0','1','a,b'), s set('x','y','z')" {
		t.Error(got)
	}
	if got := names(4); got != "id int(11), e enum('new','0','1','a,b'), s set('x','y','z')" {
		t.Error(got)
	}
}

func TestParseDDLReadsWhatServersAccept(t *testing.T) {
	t.Parallel()
	old := &definition{Charset: "utf8mb4", Key: []string{"id"}, Columns: []columnDef{{Name: "id", Type: "int(11)", NotNull: true}, {Name: "v", Type: "varchar(5)", Charset: "utf8mb4"}}}
	for _, c := range []struct{ statement, want string }{
		{"ALTER TABLE t CHANGE v w int, ADD v bigint AFTER w, ADD x int AFTER v", "id int(11), w int(11), v bigint(20), x int(11)"},
		{"ALTER TABLE t ADD (a int, b bool not null)", "id int(11), v varchar(5), a int(11), b tinyint(1)"},
		{"ALTER TABLE t ADD a dec(5) unsigned zerofill COMMENT 'it''s, (x' AFTER id, ADD INDEX (a), ADD CONSTRAINT c CHECK (a > 1), ADD UNIQUE KEY u (v)", "id int(11), a decimal(5,0) unsigned zerofill, v varchar(5)"},
		{"ALTER TABLE `t` CHANGE COLUMN `v` `w x` text(70000) CHARACTER SET latin1 FIRST", "w x mediumtext, id int(11)"},
		{"alter table d.t modify v enum('a\\'b', \"c\") default 'c' not null, algorithm=inplace, lock=none", "id int(11), v enum('a''b','c')"},
		{"ALTER TABLE t ADD p point NOT NULL SRID 4326, ADD s serial, ADD g int GENERATED ALWAYS AS (id * (2 + 1)) STORED", "id int(11), v varchar(5), p point, s bigint(20) unsigned, g int(11)"},
		{"ALTER TABLE t DROP FOREIGN KEY f, DROP INDEX i, DROP COLUMN IF EXISTS nope, RENAME INDEX a TO b, DROP v", "id int(11)"},
		{"ALTER TABLE t ADD a double precision, ADD b character varying(3), ADD c national varchar(4), ADD d char(2) byte, ADD e long varbinary", "id int(11), v varchar(5), a double, b varchar(3), c varchar(4), d binary(2), e mediumblob"},
		{"ALTER ONLINE TABLE IF EXISTS t ADD COLUMN IF NOT EXISTS v int, ADD u uuid, ADD i inet6, ADD c blob COMPRESSED", "id int(11), v varchar(5), u uuid, i inet6, c blob /*M!100301 COMPRESSED*/"},
		{"SET STATEMENT max_statement_time=60 FOR ALTER TABLE t /*!80000 ADD a year */ /*M!100000 , ADD b json */", "id int(11), v varchar(5), a year(4), b longtext"},
		{"ALTER TABLE t ADD a timestamp(3) NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3), ADD b varchar(9) DEFAULT (concat('a', ',')) COLLATE latin1_bin", "id int(11), v varchar(5), a timestamp(3), b varchar(9)"},
	} {
		d := parseDDL(c.statement, "d", false, false)
		if d == nil {
			t.Errorf("%s: not understood", c.statement)
			continue
		}
		def, _, ok := d.apply(dialect{maria: true, number: 101100}, old)
		if !ok {
			t.Errorf("%s: does not apply", c.statement)
			continue
		}
		var got []string
		for _, x := range def.Columns {
			got = append(got, x.Name+" "+x.Type)
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.statement, text, c.want)
		}
		if d.table != (tableName{"d", "t"}) || !slices.Equal(def.Key, []string{"id"}) {
			t.Errorf("%s: table %v, key %v", c.statement, d.table, def.Key)
		}
	}
}

// A column keeps its identity under another name, and a column that takes a name has its own: across restarts, from the
// statement and from the catalog.
func TestColumnsHaveAnIdentity(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "s", "CREATE TABLE s (id int PRIMARY KEY, a varchar(9), b varchar(9))", "INSERT INTO s VALUES (0, 'a', 'b')")
	h.open()
	h.catchUp()
	h.close()
	h.exec("alter /* x */ table s -- y\n rename column a to b, rename column b to a # both at once", "INSERT INTO s VALUES (1, 'now b', 'now a')",
		"ALTER TABLE s CHANGE a b varchar(9), CHANGE b a varchar(9)", "INSERT INTO s VALUES (2, 'now a', 'now b')")
	h.open()
	h.untilCount(3)
	h.exec("ALTER TABLE s DROP b, ADD b int", "INSERT INTO s VALUES (3, 'a', 3)", "ALTER TABLE s DROP b", "ALTER TABLE s ADD c int FIRST, CHANGE a b text", "INSERT INTO s VALUES (4, 4, 'b')")
	h.untilCount(5)
	h.exec("DROP TABLE s", "CREATE TABLE s (id int PRIMARY KEY, b text)", "INSERT INTO s VALUES (5, 'b')")
	h.untilCount(7) // a truncate comes before the rows of a table that takes a name
	for i, want := range []string{"id#1 a#2 b#3", "id#1 b#2 a#3", "id#1 a#2 b#3", "id#1 a#2 b#4", "c#5 id#1 b#2", "id#1 b#2", "id#1 b#2"} {
		table := h.changes[i].Table
		var names []string
		for _, c := range table.Columns {
			names = append(names, fmt.Sprintf("%s#%d", c.Name, c.ID))
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("row %d: %s, want %s", i, got, want)
		}
		if (table.ID != 0) != (i >= 5) {
			t.Errorf("row %d: table %d", i, table.ID)
		}
	}
}

func FuzzParseDDL(f *testing.F) {
	f.Add("CREATE OR REPLACE TABLE a.b (id int(5) PRIMARY KEY, `x``y` enum('a','b') -- c\n) CHARSET=latin1", false, false)
	f.Add("ALTER TABLE t ADD (a int, b", true, true)
	f.Add("RENAME TABLE a TO b, c.d TO e", false, true)
	f.Fuzz(func(t *testing.T, text string, ansi, raw bool) {
		if d := parseDDL(text, "s", ansi, raw); d != nil {
			d.apply(dialect{maria: true}, &definition{Columns: []columnDef{{Name: "id", Type: "int(11)"}}})
		}
	})
}
