package endtoend

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// follow starts a daemon from source to target and waits until the tables are equal.
func follow(t *testing.T, source, target *database, sourceSettings []string, tables ...string) *line {
	t.Helper()
	l := newLine(t, postgresSource(source, "shop", sourceSettings...), postgresSink(target, "replica"))
	l.start()
	equalRows(t, source, target, tables...)
	return l
}

// F01: a large column that an update does not touch is not in the stream, and stays as it is in the target.
func TestUnchangedLargeColumnsStay(t *testing.T) {
	t.Parallel()
	const create = "CREATE TABLE doc (id int PRIMARY KEY, n int, big text, arr text[])"
	rows := []string{"ALTER TABLE doc ALTER big SET STORAGE EXTERNAL, ALTER arr SET STORAGE EXTERNAL",
		"INSERT INTO doc VALUES (1, 1, repeat('x', 10000), ARRAY[repeat('y', 10000), NULL])"}
	updates := []string{"UPDATE doc SET n = 2", "UPDATE doc SET n = 3, big = NULL"}
	for _, identity := range []string{"DEFAULT", "FULL"} {
		t.Run("step by step under "+identity, func(t *testing.T) {
			t.Parallel()
			source, target := newDatabase(t), newDatabase(t)
			source.exec(create, "ALTER TABLE doc REPLICA IDENTITY "+identity)
			follow(t, source, target, []string{"tables: [public.doc]"}, "doc")
			for _, statement := range slices.Concat(rows, updates) {
				source.exec(statement)
				equalRows(t, source, target, "doc")
			}
		})
		t.Run("in one batch under "+identity, func(t *testing.T) {
			t.Parallel()
			source, target := newDatabase(t), newDatabase(t)
			source.exec(create, "ALTER TABLE doc REPLICA IDENTITY "+identity)
			l := newLine(t, postgresSource(source, "shop", "tables: [public.doc]"), postgresSink(target, "replica"))
			l.once()
			source.exec(slices.Concat(rows, updates)...)
			l.once()
			equalRows(t, source, target, "doc")
		})
	}
}

// F01: files have no row to leave a column in, so a line gets what it lacks from the log's own latest record of the row: from
// the same batch, after a restart, and when that record is long ago. Where that is switched off it names what it lacks.
func TestUnchangedLargeColumnsAreWholeInFiles(t *testing.T) {
	t.Parallel()
	big := `"big":"` + strings.Repeat("x", 10000) + `"`
	for _, c := range []struct{ identity, setting, want string }{
		{"DEFAULT", "", big}, {"FULL", "", big}, {"FULL", "complete: false", big}, {"DEFAULT", "complete: false", `"unchanged":["big"]`},
	} {
		t.Run(c.identity+" "+c.setting, func(t *testing.T) {
			t.Parallel()
			source := newDatabase(t)
			source.exec("CREATE TABLE doc (id int PRIMARY KEY, n int, big text)", "ALTER TABLE doc ALTER big SET STORAGE EXTERNAL",
				"ALTER TABLE doc REPLICA IDENTITY "+c.identity)
			dir := t.TempDir()
			l := newLine(t, postgresSource(source, "shop", "tables: [public.doc]"),
				"  archive:\n    type: file\n    path: "+dir+"\n    topics: ['*']\n    batch: {wait: 1ms}\n"+settings([]string{c.setting}))
			l.once()
			source.exec("INSERT INTO doc VALUES (1, 1, repeat('x', 10000))", "UPDATE doc SET n = 2", "INSERT INTO doc SELECT i, i FROM generate_series(2, 2000) AS i")
			l.once()
			source.exec("UPDATE doc SET n = 3 WHERE id = 1")
			l.once()
			if err := os.RemoveAll(filepath.Join(l.dir, "spill")); err != nil {
				t.Fatal(err)
			}
			source.exec("UPDATE doc SET n = 4 WHERE id = 1", "UPDATE doc SET n = 5 WHERE id = 1")
			l.once()
			files, err := filepath.Glob(dir + "/*/*/*.jsonl")
			if err != nil || len(files) == 0 {
				t.Fatalf("no file: %v", err)
			}
			updates := 0
			for _, name := range files {
				text, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				for line := range strings.Lines(string(text)) {
					if !strings.Contains(line, `"op":"u"`) {
						continue
					}
					updates++
					if _, after, _ := strings.Cut(line, `"after":`); !strings.Contains(after, c.want) || strings.Contains(line, `"big":null`) {
						t.Errorf("the line is %.300s", line)
					}
				}
			}
			if updates != 4 {
				t.Errorf("%d updates, want 4", updates)
			}
		})
	}
}

// F02: under every replica identity an update and a delete find their row in the target.
func TestRowsAreFoundByTheIdentitysKey(t *testing.T) {
	t.Parallel()
	for _, identity := range []string{"DEFAULT", "FULL", "USING INDEX acct_code"} {
		t.Run(identity, func(t *testing.T) {
			t.Parallel()
			source, target := newDatabase(t), newDatabase(t)
			source.exec("CREATE TABLE acct (id int PRIMARY KEY, code text NOT NULL, v int)", "ALTER TABLE acct ALTER code SET STORAGE EXTERNAL",
				"CREATE UNIQUE INDEX acct_code ON acct (code)", "ALTER TABLE acct REPLICA IDENTITY "+identity, "INSERT INTO acct VALUES (7, 'seven', 7)")
			follow(t, source, target, []string{"tables: [public.acct]"}, "acct")
			for _, statement := range []string{"INSERT INTO acct VALUES (1, repeat('c', 2500), 1), (2, 'two', 2)", "UPDATE acct SET v = 2 WHERE id = 1",
				"UPDATE acct SET code = 'k2' WHERE id = 1", "UPDATE acct SET id = 8 WHERE id = 7", "DELETE FROM acct WHERE id = 1"} {
				source.exec(statement)
				equalRows(t, source, target, "acct")
			}
		})
	}
}

// F03: a changed key takes the old row away, whatever partitions the two keys are in, also when all is read again.
func TestKeyChanges(t *testing.T) {
	t.Parallel()
	source, target := newDatabase(t), newDatabase(t)
	source.exec("CREATE TABLE item (id int PRIMARY KEY, v text)", "INSERT INTO item VALUES (1, 'a'), (5, 'p'), (6, 'q')")
	l := follow(t, source, target, []string{"tables: [public.item]"}, "item")
	source.exec("UPDATE item SET id = 1001 WHERE id = 1",
		"BEGIN", "INSERT INTO item VALUES (3, 'c')", "UPDATE item SET id = 4 WHERE id = 3", "COMMIT",
		"BEGIN", "UPDATE item SET id = -5 WHERE id = 5", "UPDATE item SET id = 5 WHERE id = 6", "UPDATE item SET id = 6 WHERE id = -5", "COMMIT",
		"INSERT INTO item VALUES (99, 'done')")
	eventually(t, "the last row is there", func() bool { return len(target.list("SELECT v FROM item WHERE id = 99")) == 1 })
	want := []string{"(1001,a)", "(4,c)", "(5,q)", "(6,p)", "(99,done)"}
	eventually(t, "the four keys are right", func() bool { return slices.Equal(target.rows("item"), want) })
	if code := l.stop(); code != 0 {
		t.Fatalf("drain ended with %d", code)
	}
	again := newDatabase(t)
	l.configure(postgresSource(source, "shop", "tables: [public.item]"), postgresSink(again, "again"))
	l.once()
	if got := again.rows("item"); !slices.Equal(got, want) {
		t.Errorf("after reading the whole log again: %v", got)
	}
}

// F05: a partitioned table is one stream, rows move between partitions, and partitions that appear later belong to it.
func TestPartitionedTableIsOneStream(t *testing.T) {
	t.Parallel()
	source, target := newDatabase(t), newDatabase(t)
	source.exec("CREATE TABLE ev (id int, d date, v text, PRIMARY KEY (id, d)) PARTITION BY RANGE (d)",
		"CREATE TABLE ev_jan PARTITION OF ev FOR VALUES FROM ('2026-01-01') TO ('2026-02-01')",
		"CREATE TABLE ev_feb PARTITION OF ev FOR VALUES FROM ('2026-02-01') TO ('2026-03-01')",
		"INSERT INTO ev VALUES (1, '2026-01-10', 'x'), (2, '2026-01-11', 'y'), (3, '2026-02-12', 'z')")
	l := follow(t, source, target, []string{"tables: [public.ev]"}, "ev")
	source.exec("INSERT INTO ev VALUES (9, '2026-01-05', 'a')", "UPDATE ev SET d = '2026-02-05' WHERE id = 9",
		"CREATE TABLE ev_mar PARTITION OF ev FOR VALUES FROM ('2026-03-01') TO ('2026-04-01')", "INSERT INTO ev VALUES (10, '2026-03-01', 'z')")
	eventually(t, "the row of the new partition is there", func() bool { return len(target.list("SELECT v FROM ev WHERE id = 10")) == 1 })
	equalRows(t, source, target, "ev")
	if _, out := l.run("topics", "list"); !strings.Contains(out, "shop.public.ev") || strings.Contains(out, "ev_jan") {
		t.Errorf("topics: %s", out)
	}
}

// F08: a large transaction whose reader is killed is delivered whole, each row once.
func TestKilledInsideALargeTransaction(t *testing.T) {
	t.Parallel()
	source, target := newDatabase(t), newDatabase(t)
	source.exec("CREATE TABLE big (id int PRIMARY KEY, v text)")
	l := follow(t, source, target, []string{"tables: [public.big]"}, "big")
	for round := range 3 {
		source.exec("INSERT INTO big SELECT i, repeat('v', 200) FROM generate_series(" + []string{"1, 12000", "12001, 24000", "24001, 36000"}[round] + ") AS i")
		l.kill()
		l.start()
	}
	equalRows(t, source, target, "big")
	if n := len(target.rows("big")); n != 36000 {
		t.Errorf("the target has %d rows", n)
	}
}

// F11: a slot that was dropped is a gap: nothing goes on in silence, and the message says what to do.
func TestDroppedSlotIsAGap(t *testing.T) {
	t.Parallel()
	source, target := newDatabase(t), newDatabase(t)
	source.exec("CREATE TABLE kept (id int PRIMARY KEY)", "INSERT INTO kept VALUES (1)")
	l := follow(t, source, target, []string{"tables: [public.kept]"}, "kept")
	if code := l.stop(); code != 0 {
		t.Fatalf("drain ended with %d", code)
	}
	source.exec("SELECT pg_drop_replication_slot('"+slotOf(source)+"')", "INSERT INTO kept VALUES (2), (3)")
	code, out := l.run("run", "--once")
	if code != 3 {
		t.Errorf("exit code %d, want 3", code)
	}
	for _, word := range []string{slotOf(source), "resync shop"} {
		if !strings.Contains(out, word) {
			t.Errorf("the message does not name %q: %s", word, out)
		}
	}
	if got := target.rows("kept"); len(got) != 1 {
		t.Errorf("the target went on: %v", got)
	}
}

// F13: a generated column is never written and never turns NULL.
func TestGeneratedColumns(t *testing.T) {
	t.Parallel()
	const create = "CREATE TABLE gen (id int PRIMARY KEY, name text, up text GENERATED ALWAYS AS (upper(name)) STORED)"
	source, target := newDatabase(t), newDatabase(t)
	source.exec(create, "INSERT INTO gen VALUES (1, 'one')")
	target.exec(create)
	follow(t, source, target, []string{"tables: [public.gen]"}, "gen")
	source.exec("INSERT INTO gen VALUES (2, 'two')", "UPDATE gen SET name = 'uno' WHERE id = 1")
	equalRows(t, source, target, "gen")
	if got := target.rows("gen"); !slices.Equal(got, []string{"(1,uno,UNO)", "(2,two,TWO)"}) {
		t.Errorf("target: %v", got)
	}
}

// F33: each row has the names and types that were valid at its commit, and the target follows.
func TestColumnsChangeInTheStream(t *testing.T) {
	t.Parallel()
	source, target := newDatabase(t), newDatabase(t)
	source.exec("CREATE TABLE ddl (id int PRIMARY KEY, a text)", "INSERT INTO ddl VALUES (1, 'one')")
	follow(t, source, target, []string{"tables: [public.ddl]"}, "ddl")
	source.exec("ALTER TABLE ddl ADD b int", "INSERT INTO ddl VALUES (2, 'two', 22)", "UPDATE ddl SET b = 11 WHERE id = 1")
	equalRows(t, source, target, "ddl")
}

// TRUNCATE takes effect between what was before it and what comes after it, in every partition.
func TestTruncate(t *testing.T) {
	t.Parallel()
	source, target := newDatabase(t), newDatabase(t)
	source.exec("CREATE TABLE tr (id int PRIMARY KEY, v text)", "INSERT INTO tr SELECT i, 'old' FROM generate_series(1, 500) AS i")
	follow(t, source, target, []string{"tables: [public.tr]"}, "tr")
	source.exec("UPDATE tr SET v = 'changed'", "TRUNCATE tr", "INSERT INTO tr SELECT i, 'new' FROM generate_series(400, 600) AS i",
		"BEGIN", "DELETE FROM tr WHERE id < 450", "TRUNCATE tr", "INSERT INTO tr VALUES (7, 'after')", "COMMIT", "INSERT INTO tr VALUES (8, 'last')")
	equalRows(t, source, target, "tr")
}

// A slot of another database on the same server is not ours to take or to drop.
func TestSlotOfAnotherDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	first, second, target := newDatabase(t), newDatabase(t), newDatabase(t)
	for _, db := range []*database{first, second} {
		db.exec("CREATE TABLE own (id int PRIMARY KEY)", "INSERT INTO own VALUES (1)")
	}
	l := newLine(t, postgresSource(first, "shop", "tables: [public.own]"), postgresSink(target, "replica"))
	l.once()
	first.exec("INSERT INTO own VALUES (2)")
	other := newLine(t, postgresSource(second, "shop", "tables: [public.own]", "slot: "+slotOf(first)), fileSink)
	code, out := other.run("run", "--once")
	if code != 1 || !strings.Contains(out, "belongs to database") {
		t.Errorf("exit code %d: %s", code, out)
	}
	l.once()
	equalRows(t, first, target, "own")
}
