package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/trunkline/trunkline/connectors"
)

const tablesWithBig = `CREATE TABLE doc (id int PRIMARY KEY, n int, big text, arr text[]); ALTER TABLE doc ALTER big SET STORAGE EXTERNAL, ALTER arr SET STORAGE EXTERNAL`

// F01: an unchanged out-of-line value is absent, never NULL; under FULL it comes from the old row.
func TestUnchangedToast(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		identity string
		absent   bool
	}{"absent under default identity": {"DEFAULT", true}, "filled under full identity": {"FULL", false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, "public.doc", tablesWithBig, `ALTER TABLE doc REPLICA IDENTITY `+test.identity)
			h.open()
			h.catchUp()
			h.exec(`INSERT INTO doc VALUES (1, 1, repeat('x', 10000), ARRAY[repeat('y', 10000), NULL])`, `UPDATE doc SET n = 2`, `UPDATE doc SET n = 3, big = NULL`)
			h.untilCount(3)
			second := h.changes[1].After
			if second[2].IsAbsent() != test.absent || second[3].IsAbsent() != test.absent {
				t.Errorf("after step 2: %s", rowText(second))
			}
			row := model(t, h.changes)["public.doc"]["int\x001\x00"]
			if want := `["` + strings.Repeat("y", 10000) + `",null]`; !row[2].IsNull() || string(row[3].Data()) != want {
				t.Errorf("at the end: %s", rowText(row))
			}
		})
	}
}

// F02: the key is that of the primary key or of the identity's index, in both phases, and an old key is no row of NULLs.
func TestKeyComesFromTheRightPlace(t *testing.T) {
	t.Parallel()
	for identity, test := range map[string]struct {
		key  []int
		want string
	}{
		"DEFAULT":               {[]int{0}, "c -> [1 cccc…2500 1] | u -> [1 ~ 2] | u -> [1 k2 2] | d [1 ~ ~]"},
		"FULL":                  {[]int{0}, "c -> [1 cccc…2500 1] | u [1 cccc…2500 1] -> [1 cccc…2500 2] | u [1 cccc…2500 2] -> [1 k2 2] | d [1 k2 2]"},
		"USING INDEX acct_code": {[]int{1}, "c -> [1 cccc…2500 1] | u [~ cccc…2500 ~] -> [1 cccc…2500 2] | u [~ cccc…2500 ~] -> [1 k2 2] | d [~ k2 ~]"},
	} {
		t.Run(identity, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, "public.acct", `CREATE TABLE acct (id int PRIMARY KEY, code text NOT NULL, v int)`, `ALTER TABLE acct ALTER code SET STORAGE EXTERNAL`,
				`CREATE UNIQUE INDEX acct_code ON acct (code)`, `ALTER TABLE acct REPLICA IDENTITY `+identity, `INSERT INTO acct VALUES (7, 'seven', 7)`)
			h.open()
			h.catchUp()
			h.exec(`INSERT INTO acct VALUES (1, repeat('c', 2500), 1)`, `UPDATE acct SET v = 2 WHERE id = 1`, `UPDATE acct SET code = 'k2' WHERE id = 1`, `DELETE FROM acct WHERE id = 1`)
			h.untilCount(5)
			for _, c := range h.changes {
				if !slices.Equal(c.Table.Key, test.key) {
					t.Errorf("key %v, want %v", c.Table.Key, test.key)
				}
			}
			h.changes = h.changes[1:]
			if got := strings.ReplaceAll(h.texts(), " public.acct", ""); got != test.want {
				t.Errorf("changes %s\nwant    %s", got, test.want)
			}
		})
	}
}

// F04: a table whose publication would break the application's writes is refused by name with the remedy.
func TestTablesWithoutIdentityAreRefused(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "public.*", `CREATE TABLE np (a int, b text)`, `INSERT INTO np VALUES (1, 'x'), (1, 'x')`,
		`CREATE TABLE nothing (a int PRIMARY KEY)`, `ALTER TABLE nothing REPLICA IDENTITY NOTHING`, `INSERT INTO nothing VALUES (1)`,
		`CREATE TABLE late (a int PRIMARY KEY DEFERRABLE)`, `INSERT INTO late VALUES (1)`,
		`CREATE UNLOGGED TABLE fast (a int PRIMARY KEY)`, `CREATE TABLE good (a int PRIMARY KEY)`)
	h.open()
	h.catchUp()
	h.exec(`UPDATE np SET b = 'y'`, `UPDATE nothing SET a = 2`, `UPDATE late SET a = 2`, `DELETE FROM np`, `INSERT INTO good VALUES (1)`)
	h.untilCount(1)
	for table, remedy := range map[string]string{"public.np": "add a primary key, or ALTER TABLE \"public\".\"np\" REPLICA IDENTITY FULL",
		"public.nothing": "REPLICA IDENTITY DEFAULT", "public.late": "REPLICA IDENTITY FULL", "public.fast": "SET LOGGED"} {
		if !slices.ContainsFunc(h.reports, func(r connectors.Report) bool {
			return r.Table == table && r.Phase == connectors.PhaseFailed && strings.Contains(r.Reason, remedy)
		}) {
			t.Errorf("table %s: no report with %q", table, remedy)
		}
	}
}

func TestTwinRowsWithoutKey(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "public.twin", `CREATE TABLE twin (a int, b text)`, `ALTER TABLE twin REPLICA IDENTITY FULL`, `INSERT INTO twin VALUES (1, 'x'), (1, 'x')`)
	h.open()
	h.catchUp()
	h.exec(`DELETE FROM twin WHERE ctid = (SELECT min(ctid) FROM twin)`)
	h.untilCount(3)
	if got := changeText(h.changes[2]); got != "d public.twin [1 x]" || h.changes[2].Table.Key != nil {
		t.Errorf("change %s with key %v", got, h.changes[2].Table.Key)
	}
}

// F05: partitions are one stream under their root, also those that come later.
func TestPartitionsAreOneStream(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "public.*", `CREATE TABLE ev (id int, d date, v text, PRIMARY KEY (id, d)) PARTITION BY RANGE (d)`,
		`CREATE TABLE ev_jan PARTITION OF ev FOR VALUES FROM ('2026-01-01') TO ('2026-02-01')`,
		`CREATE TABLE ev_feb (v text, gone int, d date NOT NULL, id int NOT NULL)`, `ALTER TABLE ev_feb DROP gone`,
		`ALTER TABLE ev ATTACH PARTITION ev_feb FOR VALUES FROM ('2026-02-01') TO ('2026-03-01')`,
		`INSERT INTO ev VALUES (1, '2026-01-01', 'a'), (2, '2026-02-01', 'b'), (3, '2026-01-03', 'c')`)
	h.open()
	h.catchUp()
	if n := len(h.changes); n != 3 {
		t.Errorf("snapshot of %d rows, want 3: %s", n, h.texts())
	}
	h.exec(`INSERT INTO ev VALUES (9, '2026-01-05', 'a')`, `UPDATE ev SET d = '2026-02-05' WHERE id = 9`,
		`CREATE TABLE ev_mar PARTITION OF ev FOR VALUES FROM ('2026-03-01') TO ('2026-04-01')`, `INSERT INTO ev VALUES (10, '2026-03-01', 'z')`)
	h.catchUp()
	h.wantTable("public.ev", "id, d, v", "id")
	for _, c := range h.changes {
		if c.Table.FullName() != "public.ev" {
			t.Errorf("a change of %s", c.Table.FullName())
		}
	}
}

// F07: nothing is lost and nothing comes twice at the edge of a transaction.
func TestStopsBetweenTransactions(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "public.t", `CREATE TABLE t (id int PRIMARY KEY)`)
	h.open()
	h.catchUp()
	h.env.Limits.BatchRows = 1
	for round := range 8 {
		h.exec(fmt.Sprintf(`INSERT INTO t VALUES (%d)`, 2*round), fmt.Sprintf(`INSERT INTO t VALUES (%d)`, 2*round+1))
		h.open()
		h.untilCount(2*round + 1)
		h.open()
		h.untilCount(2*round + 2)
	}
	for i, c := range h.changes {
		if c.After[0].Int() != int64(i) {
			t.Fatalf("change %d is of row %d", i, c.After[0].Int())
		}
	}
}

// F08: a transaction that a crash cuts is read again from its start, whole, whether or not it is streamed.
func TestCrashInsideALargeTransaction(t *testing.T) {
	t.Parallel()
	for name, memory := range map[string]string{"sent at its commit": "64MB", "streamed before its commit": "64kB"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, "public.t", `CREATE TABLE t (id int PRIMARY KEY, v text)`)
			h.exec(fmt.Sprintf("ALTER DATABASE %s SET logical_decoding_work_mem = '%s'", ident(h.name), memory))
			h.env.Limits.BatchRows = 5000
			h.open()
			h.catchUp()
			h.exec(`INSERT INTO t SELECT i, repeat('v', 50) FROM generate_series(1, 12000) i`)
			h.until("a piece", func() bool { return len(h.pending) > 0 })
			if n := len(h.pending); n != 5000 || len(h.changes) != 0 {
				t.Errorf("first piece of %d rows", n)
			}
			confirmed, err := parseLSN(h.query(fmt.Sprintf("SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = '%s'", h.slot())))
			if err != nil {
				t.Fatal(err)
			}
			h.open()
			h.untilCount(12000)
			if p, err := parsePosition(h.mark); err != nil || p.LSN <= confirmed {
				t.Errorf("the server was told that rows are durable that were not: %s of %s", confirmed, p.LSN)
			}
			h.wantTable("public.t", "id, v", "id")
		})
	}
}

// Streamed transactions: subtransactions that were rolled back leave nothing, interleaved ones keep apart.
func TestStreamedTransactions(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "public.t public.u", `CREATE TABLE t (id int PRIMARY KEY, v text)`, `CREATE TABLE u (id int PRIMARY KEY, v text)`)
	h.exec(fmt.Sprintf("ALTER DATABASE %s SET logical_decoding_work_mem = '64kB'", ident(h.name)))
	h.open()
	h.catchUp()
	second, err := pgx.Connect(context.Background(), h.dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close(context.Background())
	also := func(sql string) {
		t.Helper()
		if _, err := second.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	rows := func(table string, from int) string {
		return fmt.Sprintf(`INSERT INTO %s SELECT i, repeat('v', 100) FROM generate_series(%d, %d) i`, table, from, from+1999)
	}
	h.exec(`BEGIN`, `SAVEPOINT a`, rows("u", 1), `ROLLBACK TO a`, rows("u", 10001))
	also(`BEGIN`)
	also(rows("t", 1))
	h.exec(`SAVEPOINT b`, rows("u", 20001), `ALTER TABLE u ADD w int`, `INSERT INTO u VALUES (99999, 'gone', 1)`)
	h.exec(`ROLLBACK TO b`, rows("u", 30001), `UPDATE u SET v = 'last' WHERE id = 30001`)
	also(rows("t", 40001))
	also(`COMMIT`)
	h.exec(`COMMIT`)
	also(`BEGIN`)
	also(rows("t", 50001))
	also(`ROLLBACK`)
	h.catchUp()
	h.wantTable("public.t", "id, v", "id")
	h.wantTable("public.u", "id, v", "id")
	if n := len(h.changes); n != 8001 {
		t.Errorf("%d changes, want 8001", n)
	}
}

// F13: generated columns are the same in both phases, though the stream leaves them out.
func TestGeneratedColumnsAreComputed(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "public.gen public.whole", `CREATE TABLE gen (id int PRIMARY KEY, up text GENERATED ALWAYS AS (upper(name)) STORED, name text, at timestamp, yesterday timestamp GENERATED ALWAYS AS (at - '24 hours'::interval) STORED, code char(3), twice text GENERATED ALWAYS AS (code || '|' || code) STORED)`,
		`CREATE TABLE whole (name text, up text GENERATED ALWAYS AS (upper(name)) STORED)`, `ALTER TABLE whole REPLICA IDENTITY FULL`,
		`INSERT INTO gen VALUES (1, DEFAULT, 'a', '2026-01-30 12:00', DEFAULT, 'x')`)
	h.open()
	h.catchUp()
	h.exec(`INSERT INTO gen VALUES (2, DEFAULT, E'it''s \\', NULL, DEFAULT, NULL)`, `UPDATE gen SET name = 'c', code = 'yyy'`, `ALTER TABLE gen RENAME name TO title`, `UPDATE gen SET title = 'd' WHERE id = 2`,
		`DELETE FROM gen WHERE id = 1`, `INSERT INTO whole VALUES ('x')`, `UPDATE whole SET name = 'y'`, `DELETE FROM whole`)
	h.untilCount(9)
	want := `r public.gen -> [1 A a 2026-01-30T12:00:00 2026-01-29T12:00:00 x   x|x] | c public.gen -> [2 IT'S \ it's \ null null null null] | ` +
		`u public.gen -> [1 C c 2026-01-30T12:00:00 2026-01-29T12:00:00 yyy yyy|yyy] | u public.gen -> [2 C c null null yyy yyy|yyy] | u public.gen -> [2 D d null null yyy yyy|yyy] | ` +
		`d public.gen [1 ~ ~ ~ ~ ~ ~] | c public.whole -> [x X] | u public.whole [x X] -> [y Y] | d public.whole [y Y]`
	if got := h.texts(); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	h.exec(`INSERT INTO gen (id, title) SELECT i, i::text FROM generate_series(10, 4000) i`, `ALTER TABLE gen ADD half int GENERATED ALWAYS AS (id / 2) STORED`, `INSERT INTO gen (id) VALUES (9999)`)
	h.untilSame("public.gen")
}

// F33: every change has the names and types that were valid when it was committed, also when they are read much later.
func TestSchemaChangesInTheStream(t *testing.T) {
	t.Parallel()
	for _, phase := range []string{"live", "after the fact"} {
		t.Run(phase, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, "public.ddl", `CREATE TYPE mood AS ENUM ('sad')`, `CREATE TABLE ddl (id int PRIMARY KEY, a text, b int, m mood)`)
			h.config.Altered = alteredWarn
			h.open()
			h.catchUp()
			steps := [][]string{{`INSERT INTO ddl VALUES (1, 'a', 1, 'sad')`}, {`ALTER TABLE ddl RENAME a TO a2`, `INSERT INTO ddl VALUES (2, 'a', 2)`},
				{`ALTER TABLE ddl DROP b`, `INSERT INTO ddl VALUES (3, 'a')`}, {`ALTER TABLE ddl ADD b text DEFAULT 'dflt'`, `INSERT INTO ddl VALUES (4)`},
				{`ALTER TABLE ddl ALTER b TYPE varchar(20)`, `INSERT INTO ddl VALUES (5)`}, {`ALTER TYPE mood ADD VALUE 'glad'`, `INSERT INTO ddl VALUES (6, 'x', 'glad')`}}
			for i, step := range steps {
				h.exec(step...)
				if phase == "live" {
					h.untilCount(i + 1)
				}
			}
			h.untilCount(6)
			want := []string{"id:integer a:text b:integer m:public.mood", "id:integer a2:text b:integer m:public.mood", "id:integer a2:text m:public.mood",
				"id:integer a2:text m:public.mood b:text", "id:integer a2:text m:public.mood b:character varying(20)", "id:integer a2:text m:public.mood b:character varying(20)"}
			for i, c := range h.changes {
				var columns []string
				for _, column := range c.Table.Columns {
					columns = append(columns, column.Name+":"+column.Type)
				}
				if got := strings.Join(columns, " "); got != want[i] {
					t.Errorf("row %d has %s, want %s", i+1, got, want[i])
				}
			}
			if id := func(i, column int) int { return h.changes[i].Table.Columns[column].ID }; id(0, 1) != 2 || id(1, 1) != 2 || id(3, 3) == 3 {
				t.Errorf("ids: a %d, a2 %d, old b %d, new b %d", id(0, 1), id(1, 1), id(0, 2), id(3, 3))
			}
			if got := changeText(h.changes[5]); got != "c public.ddl -> [6 x glad dflt]" {
				t.Error(got)
			}
			if labels := h.changes[5].Table.Columns[2].Labels; !slices.Equal(labels, []string{"sad", "glad"}) {
				t.Errorf("labels %v", labels)
			}
		})
	}
}

func TestColumnsWhereAndKeyOfATable(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "", `CREATE TABLE part (id int PRIMARY KEY, region text NOT NULL, code text NOT NULL, secret text)`, `ALTER TABLE part REPLICA IDENTITY FULL`,
		`INSERT INTO part VALUES (1, 'EU', 'a', 's'), (2, 'US', 'b', 's')`)
	h.config.Tables = []connectors.TableSpec{{Name: "public.part", Columns: []string{"region", "code"}, Where: "region = 'EU'", Key: []string{"code"}, Topic: "parts"}}
	h.open()
	h.catchUp()
	h.exec(`INSERT INTO part VALUES (3, 'EU', 'c', 's'), (4, 'US', 'd', 's')`, `UPDATE part SET region = 'US' WHERE id = 3`, `DELETE FROM part WHERE id = 1`)
	h.untilCount(4)
	if got := strings.ReplaceAll(h.texts(), " public.part", ""); got != "r -> [EU a] | c -> [EU c] | d [EU c] | d [EU a]" {
		t.Error(got)
	}
	if table := h.changes[0].Table; table.Topic != "parts" || !slices.Equal(table.Key, []int{1}) {
		t.Errorf("topic %q, key %v", table.Topic, table.Key)
	}
}

func TestOnceEndsAtThePresent(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "public.t", `CREATE TABLE t (id int PRIMARY KEY)`, `INSERT INTO t SELECT generate_series(1, 100)`)
	h.env.Once = true
	for round, want := range []int{100, 101, 101} {
		if round == 1 {
			h.exec(`INSERT INTO t VALUES (1000)`)
		}
		h.open()
		h.drain()
		if len(h.changes) != want {
			t.Errorf("round %d: %d changes, want %d", round, len(h.changes), want)
		}
	}
}

func TestSnapshotOnlyAndNever(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "public.t", `CREATE TABLE t (id int)`, `INSERT INTO t SELECT generate_series(1, 100)`)
	h.config.Snapshot = snapshotOnly
	for range 2 {
		h.open()
		h.drain()
		if len(h.changes) != 100 {
			t.Errorf("only: %d changes", len(h.changes))
		}
	}
	if n := h.query(fmt.Sprintf("SELECT count(*)::text FROM pg_replication_slots WHERE slot_name = '%s'", h.slot())); n != "0" {
		t.Error("a snapshot alone created a slot")
	}
	h.exec(`ALTER TABLE t ADD PRIMARY KEY (id)`)
	h.mark, h.changes, h.config.Snapshot = nil, nil, snapshotNever
	h.open()
	h.exec(`INSERT INTO t VALUES (1000)`)
	h.untilCount(1)
}

// A commit on an idle source arrives at once.
func TestIdleCommitArrivesAtOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "public.t", `CREATE TABLE t (id int PRIMARY KEY)`)
	h.open()
	h.catchUp()
	arrived := make(chan time.Time)
	go func() {
		defer close(arrived)
		for n := 0; n < 50; {
			b, err := h.source.Read(context.Background())
			if err != nil {
				return
			}
			if n += len(b.Changes); len(b.Changes) > 0 {
				arrived <- time.Now()
			}
		}
	}()
	var delays []time.Duration
	for i := range 50 {
		h.exec(fmt.Sprintf(`INSERT INTO t VALUES (%d)`, i))
		committed := time.Now()
		at, ok := <-arrived
		if !ok {
			t.Fatal("the source ended")
		}
		delays = append(delays, at.Sub(committed))
	}
	slices.Sort(delays)
	t.Logf("from commit to batch: median %s, worst %s", delays[25], delays[49])
	if delays[25] > 10*time.Millisecond {
		t.Errorf("median of %s from commit to batch", delays[25])
	}
}
