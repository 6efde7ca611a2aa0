package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/trunkline/trunkline/connectors"
)

// contents returns the rows of a table as the database and as the changes have them, sorted.
func (h *harness) contents(table string) (want, got []string) {
	h.t.Helper()
	rows, err := h.conn.Query(context.Background(), fmt.Sprintf("SELECT translate(t::text, '{}\"', '[]') FROM %s t", table))
	if err != nil {
		h.t.Fatal(err)
	}
	if want, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
		h.t.Fatal(err)
	}
	for _, row := range model(h.t, h.changes)[table] {
		var parts []string
		for _, v := range row {
			parts = append(parts, strings.ReplaceAll(strings.TrimPrefix(valueText(v), "null"), `"`, ""))
		}
		got = append(got, "("+strings.Join(parts, ",")+")")
	}
	slices.Sort(want)
	slices.Sort(got)
	return want, got
}

// untilSame reads until the changes of a table add up to what is in the database.
func (h *harness) untilSame(table string) {
	h.t.Helper()
	var want, got []string
	deadline := time.Now().Add(patience)
	for {
		if want, got = h.contents(table); slices.Equal(want, got) {
			return
		}
		if time.Now().After(deadline) {
			h.t.Fatalf("%s is\n%s, want\n%s%s", table, strings.Join(got, " "), strings.Join(want, " "), h.state())
		}
		if _, err := h.readWithin(100 * time.Millisecond); err != nil && !strings.Contains(err.Error(), "deadline") {
			h.t.Fatal(err)
		}
	}
}

// alteredTables are tables that an ALTER changes without a word in the stream.
var alteredTables = map[string]struct{ before, alter, after []string }{
	"filled": {[]string{`CREATE TABLE filled (id int PRIMARY KEY, v text)`, `INSERT INTO filled VALUES (1, 'a'), (2, 'b')`},
		[]string{`ALTER TABLE filled ADD c int DEFAULT 11`}, []string{`INSERT INTO filled VALUES (3, 'c', 22)`, `ALTER TABLE filled ALTER c SET DEFAULT 12`}},
	"numbered": {[]string{`CREATE TABLE numbered (id int PRIMARY KEY)`, `INSERT INTO numbered VALUES (1), (2)`},
		[]string{`ALTER TABLE numbered ADD c serial`}, []string{`INSERT INTO numbered VALUES (3)`}},
	"retyped": {[]string{`CREATE TABLE retyped (id int PRIMARY KEY, v text)`, `INSERT INTO retyped VALUES (1, '1'), (2, '2')`},
		[]string{`ALTER TABLE retyped ALTER v TYPE int USING v::int * 10`}, []string{`INSERT INTO retyped VALUES (3, 3)`}},
	"labelled": {[]string{`CREATE TYPE mood AS ENUM ('sad', 'ok')`, `CREATE TABLE labelled (id int PRIMARY KEY, v mood, w mood[])`, `INSERT INTO labelled VALUES (1, 'sad', '{sad,ok}'), (2, 'ok', NULL)`},
		[]string{`ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'`}, []string{`INSERT INTO labelled VALUES (3, 'blue', '{}')`}},
	"composed": {[]string{`CREATE TYPE pair AS (x int, y int)`, `CREATE TABLE composed (id int PRIMARY KEY, v pair)`, `INSERT INTO composed VALUES (1, '(1,2)')`},
		[]string{`ALTER TYPE pair ADD ATTRIBUTE z int`}, []string{`INSERT INTO composed VALUES (2, '(1,2,3)')`}},
	"rekeyed": {[]string{`CREATE TABLE rekeyed (id int PRIMARY KEY, code text NOT NULL)`, `INSERT INTO rekeyed VALUES (1, 'c1'), (2, 'c2')`},
		[]string{`ALTER TABLE rekeyed DROP CONSTRAINT rekeyed_pkey, ADD PRIMARY KEY (code)`},
		[]string{`INSERT INTO rekeyed VALUES (1, 'c3')`, `UPDATE rekeyed SET code = 'c4' WHERE code = 'c1'`}},
	"renamed": {[]string{`CREATE TABLE renamed (id int PRIMARY KEY, v text)`, `INSERT INTO renamed VALUES (1, 'a'), (2, 'b')`},
		[]string{`ALTER TABLE renamed RENAME TO renewed`, `CREATE TABLE renamed (id int PRIMARY KEY, w numeric)`}, []string{`INSERT INTO renewed VALUES (3, 'c')`, `INSERT INTO renamed VALUES (1, 1.5)`}},
	"reborn": {[]string{`CREATE TABLE reborn (id int PRIMARY KEY, v text)`, `INSERT INTO reborn VALUES (1, 'a'), (2, 'b')`},
		[]string{`DROP TABLE reborn`, `CREATE TABLE reborn (id int PRIMARY KEY, w numeric)`}, []string{`INSERT INTO reborn VALUES (3, 1.5)`}},
	"split": {[]string{`CREATE TABLE split (id int PRIMARY KEY) PARTITION BY RANGE (id)`, `CREATE TABLE split_low PARTITION OF split FOR VALUES FROM (0) TO (10)`, `INSERT INTO split VALUES (1), (2)`},
		[]string{`ALTER TABLE split ADD c int DEFAULT 3`}, []string{`INSERT INTO split VALUES (3)`}},
}

// F34 and its kin: rows that an ALTER changed without a word in the stream are read anew, whether the source is running or
// not, and whether or not rows come after it.
func TestRowsThatAnAlterChanged(t *testing.T) {
	t.Parallel()
	for _, phase := range []string{"running", "running, no row after it", "stopped"} {
		t.Run(phase, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, "public.*")
			names := slices.Sorted(maps.Keys(alteredTables))
			same := func() {
				t.Helper()
				for _, name := range names {
					h.untilSame("public." + name)
				}
			}
			for _, name := range names {
				h.exec(alteredTables[name].before...)
			}
			h.config.Rescan = 100 * time.Millisecond
			h.open()
			same()
			if phase == "stopped" {
				h.catchUp()
				h.close()
			}
			for _, name := range names {
				h.exec(alteredTables[name].alter...)
				if phase != "running, no row after it" {
					h.exec(alteredTables[name].after...)
				}
			}
			if phase == "stopped" {
				h.open()
			}
			names = append(names, "renewed")
			same()
			if phase == "running, no row after it" {
				for _, name := range names {
					h.exec(alteredTables[name].after...)
				}
				same()
			}
			for _, name := range names { // whatever was in doubt meanwhile, the stream goes on
				h.exec(`DELETE FROM ` + name)
			}
			same()
		})
	}
}

// Nothing is read anew for a change that leaves the stored rows as they are.
func TestAltersThatLeaveRowsAlone(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "public.*", `CREATE TYPE mood AS ENUM ('sad')`, `CREATE TABLE a (id int PRIMARY KEY, v varchar(5), m mood, n text)`,
		`INSERT INTO a VALUES (1, 'a', 'sad', 'n'), (2, 'b', NULL, NULL)`)
	h.config.Rescan = 50 * time.Millisecond
	h.open()
	h.untilSame("public.a")
	h.exec(`ALTER TABLE a ADD plain text`, `ALTER TABLE a ALTER v TYPE text`, `ALTER TYPE mood ADD VALUE 'glad'`, `ALTER TABLE a DROP n`,
		`ALTER TABLE a RENAME m TO mood`, `ALTER TABLE a ALTER plain SET DEFAULT 'later'`, `INSERT INTO a (id, mood) VALUES (3, 'glad')`, `ANALYZE a`)
	h.untilCount(3)
	looks := func() bool { // the catalog was judged as it is now
		s := h.source.(*Source)
		list, err := s.catalog.relations(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		now := imprintOf(list[0])
		s.imprints.mu.Lock()
		defer s.imprints.mu.Unlock()
		old := s.imprints.known[list[0].oid]
		old.of, now.of = nil, nil
		return old == now
	}
	h.until("a look at the catalog", looks)
	h.exec(`VACUUM FULL a`)
	h.until("another look at the catalog", looks)
	h.exec(`INSERT INTO a VALUES (4)`)
	h.untilCount(4)
	if n := h.changesOf("public.a", connectors.Snapshot); n != 2 {
		t.Errorf("%d rows were read, want 2: %s", n, h.texts())
	}
}

// Rows without a key are replaced as a whole when they are read anew.
func TestRowsWithoutKeyAreReplaced(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "public.k", `CREATE TABLE k (a int, b text)`, `ALTER TABLE k REPLICA IDENTITY FULL`, `INSERT INTO k VALUES (1, 'x'), (1, 'x')`)
	h.open()
	h.catchUp()
	h.exec(`ALTER TABLE k ADD c int DEFAULT 7`, `INSERT INTO k VALUES (2, 'y', 8)`)
	h.untilCount(7)
	if got := strings.ReplaceAll(h.texts(), " public.k", ""); got != "r -> [1 x] | r -> [1 x] | c -> [2 y 8] | t | r -> [1 x 7] | r -> [1 x 7] | r -> [2 y 8]" {
		t.Error(got)
	}
}

// With altered: warn, the table is left as it is and said to be so.
func TestAlteredRowsAreWarnedOf(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "public.a", `CREATE TABLE a (id int PRIMARY KEY)`, `INSERT INTO a VALUES (1)`)
	h.config.Altered = alteredWarn
	h.open()
	h.catchUp()
	h.exec(`ALTER TABLE a ADD c int DEFAULT 7`, `INSERT INTO a VALUES (2)`)
	h.until("the warning", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return slices.ContainsFunc(h.reports, func(r connectors.Report) bool {
			return r.Table == "public.a" && strings.Contains(r.Reason, "trunkline resync "+h.name+"/public.a")
		})
	})
	h.untilCount(2)
}

// A crash while a table is read anew ends like no crash.
func TestCrashWhileATableIsReadAnew(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "public.a", `CREATE TABLE a (id int PRIMARY KEY, v text)`, `INSERT INTO a SELECT i, 'v' FROM generate_series(1, 2000) i`)
	h.env.Limits.BatchRows = 100
	h.open()
	h.untilSame("public.a")
	h.exec(`ALTER TABLE a ADD c int DEFAULT 7`, `DELETE FROM a WHERE id % 2 = 0`)
	for range 4 {
		h.until("some rows", func() bool {
			return slices.ContainsFunc(h.changes, func(c connectors.Change) bool { return len(c.After) == 3 })
		})
		h.exec(`DELETE FROM a WHERE id = (SELECT max(id) FROM a)`)
		h.open()
	}
	h.untilSame("public.a")
}
