package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/trunkline/trunkline/connectors"
)

// TestSinkKeepsUnchangedToast is field case F01 (b): insert and updates with unchanged columns in one batch, and (a), one
// by one.
func TestSinkKeepsUnchangedToast(t *testing.T) {
	st := newSinkTest(t)
	table := tableOf("doc", 1, "id integer", "n integer", "big text", "arr text[]")
	big, arr := strings.Repeat("x", 10000), `["`+strings.Repeat("y", 10000)+`",null]`
	changes := []connectors.Change{inserted(table, 1, 1, big, arr), updated(table, 1, 2, absent, absent), updated(table, 1, 3, nil, absent)}
	const state = "SELECT n, big IS NULL, length(big), length(arr[1]), arr[2] IS NULL FROM doc"
	for name, step := range map[string]int{"one batch": 3, "step by step": 1} {
		s := st.open(nil)
		st.exec("DROP TABLE IF EXISTS doc")
		st.migrate(s, nil, table)
		for i := 0; i < len(changes); i += step {
			st.write(s, changes[i:i+step]...)
			if i == 1 {
				st.want(state, "2|f|10000|10000|t")
			}
		}
		t.Log(name)
		st.want(state, "3|t|NULL|10000|t")
	}
	// A column that allows no NULL is no obstacle where the row is there.
	st.exec("ALTER TABLE doc ALTER arr SET NOT NULL")
	s := st.open(nil)
	st.migrate(s, nil, table)
	st.write(s, updated(table, 1, 4, "new", absent))
	st.want(state, "4|f|3|10000|t")
}

// TestSinkFollowsKeyChanges is the sink's part of field case F03, with a replay of everything.
func TestSinkFollowsKeyChanges(t *testing.T) {
	st := newSinkTest(t)
	table := tableOf("item", 1, "id integer", "v text")
	s := st.open(nil)
	st.migrate(s, nil, table)
	history := []connectors.Change{
		inserted(table, 1, "a"), inserted(table, 5, "p"), inserted(table, 6, "q"),
		deleted(table, 1), inserted(table, 1001, "a"),
		inserted(table, 3, "c"), deleted(table, 3), inserted(table, 4, "c"),
		deleted(table, 5), inserted(table, -5, "p"), deleted(table, 6), inserted(table, 5, "q"), deleted(table, -5), inserted(table, 6, "p"),
	}
	for _, size := range []int{len(history), 1, 3, 5} {
		for i := 0; i < len(history); i += size {
			st.write(s, history[i:min(i+size, len(history))]...)
		}
		st.want("SELECT id, v FROM item ORDER BY id", "4|c\n5|q\n6|p\n1001|a")
	}
}

// TestSinkMovesARowWhoseNewKeyIsThere is what a replay meets.
func TestSinkMovesARowWhoseNewKeyIsThere(t *testing.T) {
	st := newSinkTest(t)
	table := tableOf("item", 1, "id integer", "v text", "big text")
	s := st.open(nil)
	st.migrate(s, nil, table)
	move := updated(table, 3, "moved", absent)
	move.Before = row(table, 1)
	for range 2 {
		st.write(s, inserted(table, 1, "a", "big"))
		st.write(s, move)
		st.write(s, inserted(table, 1, "b", "small"))
		st.want("SELECT * FROM item ORDER BY id", "1|b|small\n3|moved|big")
	}
}

func TestSinkSoftDeletes(t *testing.T) {
	st := newSinkTest(t)
	s := st.open(func(c *SinkConfig) { c.Deletes = deletesSoft })
	table := tableOf("item", 1, "id integer", "v text")
	st.migrate(s, nil, table)
	st.write(s, inserted(table, 1, "a"), inserted(table, 2, "b"), deleted(table, 2), inserted(table, 3, "c"))
	st.write(s, deleted(table, 1))
	st.want("SELECT * FROM item ORDER BY id", "1|a|t\n2|b|t\n3|c|f")
	st.write(s, inserted(table, 1, "a2"), updated(table, 3, absent), deleted(table, 9))
	st.want("SELECT * FROM item ORDER BY id", "1|a2|f\n2|b|t\n3|c|f")
	st.write(s, truncated(table), inserted(table, 4, "d"))
	st.want("SELECT * FROM item ORDER BY id", "1|a2|t\n2|b|t\n3|c|t\n4|d|f")
	table = tableOf("loose", 0, "v text")
	st.migrate(s, nil, table)
	st.write(s, inserted(table, "a"), inserted(table, "a"), deleted(table, "a"))
	st.want("SELECT * FROM loose ORDER BY 2", "a|f\na|t")
}

func TestSinkTruncatesATableThatOthersReferTo(t *testing.T) {
	st := newSinkTest(t)
	st.exec("CREATE TABLE item (id int PRIMARY KEY); CREATE TABLE child (item int REFERENCES item)")
	s := st.open(nil)
	table := tableOf("item", 1, "id integer")
	st.migrate(s, nil, table)
	st.write(s, inserted(table, 1), truncated(table), inserted(table, 2))
	st.write(s, truncated(table), inserted(table, 3))
	st.want("SELECT * FROM item", "3")
}

func TestSinkTakesUnchangedColumnsFromTheOldImage(t *testing.T) {
	st := newSinkTest(t)
	s := st.open(nil)
	table := tableOf("item", 1, "code text", "n integer", "big text")
	st.migrate(s, nil, table)
	change := updated(table, absent, 2, absent)
	change.Before = row(table, "long key", 1, "big")
	st.write(s, change)
	st.want("SELECT * FROM item", "long key|2|big")
}

func TestSinkIgnoresDeletes(t *testing.T) {
	st := newSinkTest(t)
	s := st.open(func(c *SinkConfig) { c.Deletes = deletesIgnore })
	table := tableOf("item", 1, "id integer", "v text")
	st.migrate(s, nil, table)
	st.write(s, inserted(table, 1, "a"), deleted(table, 1), truncated(table), inserted(table, 2, "b"))
	st.want("SELECT * FROM item ORDER BY id", "1|a\n2|b")
}

func TestSinkAppends(t *testing.T) {
	for deletes, want := range map[string]string{
		deletesIgnore: "1|a\n1|b\n1|c",
		deletesSoft:   "1|a|f\n1|b|f\n1|c|f\n1|NULL|t",
	} {
		t.Run(deletes, func(t *testing.T) {
			st := newSinkTest(t)
			s := st.open(func(c *SinkConfig) { c.Write, c.Deletes = writeAppend, deletes })
			table := tableOf("item", 1, "id integer", "v text")
			st.migrate(s, nil, table)
			kept := updated(table, 1, absent)
			kept.Before = row(table, 1, "c")
			st.write(s, inserted(table, 1, "a"), updated(table, 1, "b"), kept, deleted(table, 1), truncated(table))
			st.want("SELECT * FROM item ORDER BY ctid", want)
			st.exec("TRUNCATE item")
			st.write(s, updated(table, 7, absent), updated(table, 8, "x"))
			st.want("SELECT id, v, _unchanged FROM item ORDER BY ctid", "7|NULL|{v}\n8|x|NULL")
			st.exec("TRUNCATE item")
			moved := updated(table, 9, absent)
			moved.Before = row(table, 8, absent)
			st.write(s, moved)
			st.want("SELECT string_agg(id::text, ' ' ORDER BY ctid) FROM item", map[string]string{deletesIgnore: "9", deletesSoft: "8 9"}[deletes])
		})
	}
}

func TestSinkFollowsTablesWithoutAKey(t *testing.T) {
	st := newSinkTest(t)
	s := st.open(nil)
	table := tableOf("loose", 0, "a integer", "b text", "n numeric", "j json")
	st.migrate(s, nil, table)
	twin := []any{1, "x", "1.10", `{"a": 1}`}
	st.write(s, inserted(table, twin...), inserted(table, twin...), inserted(table, twin...), inserted(table, 1, "x", "1.1", nil), inserted(table, nil, nil, nil, nil))
	st.write(s, deleted(table, twin...))
	st.want("SELECT * FROM loose ORDER BY n DESC NULLS LAST, j::text", "1|x|1.10|{\"a\": 1}\n1|x|1.10|{\"a\": 1}\n1|x|1.1|NULL\nNULL|NULL|NULL|NULL")
	change := updated(table, 2, "y", "2", nil)
	change.Before = row(table, twin...)
	st.write(s, change, deleted(table, nil, nil, nil, nil), inserted(table, 3, nil, nil, nil), deleted(table, 3, nil, nil, nil))
	st.want("SELECT * FROM loose ORDER BY a, j::text", "1|x|1.10|{\"a\": 1}\n1|x|1.1|NULL\n2|y|2|NULL")
	empty := updated(table, 4, "", "1", nil)
	empty.Before = row(table, 3, "", "1", nil)
	st.write(s, inserted(table, 3, "", "1", nil), empty)
	st.want("SELECT * FROM loose WHERE b = ''", "4||1|NULL")
	st.write(s, truncated(table), inserted(table, 9, nil, nil, nil))
	st.want("SELECT a FROM loose", "9")
	err := s.Write(t.Context(), batchOf(inserted(table, 10, nil, nil, nil), updated(table, 11, nil, nil, nil)))
	var refused *connectors.RowsError
	if !errors.As(err, &refused) || len(refused.Rows) != 1 || refused.Rows[0].Index != 1 {
		t.Errorf("an update without the old row: %v", err)
	}
}

func TestSinkSwapsUniqueValues(t *testing.T) {
	st := newSinkTest(t)
	st.exec("CREATE TABLE item (id int PRIMARY KEY, code text UNIQUE)")
	s := st.open(nil)
	table := tableOf("item", 1, "id integer", "code text")
	st.migrate(s, nil, table)
	st.write(s, inserted(table, 1, "a"), inserted(table, 2, "b"))
	st.write(s, updated(table, 1, "tmp"), updated(table, 2, "a"), updated(table, 1, "b"))
	st.want("SELECT * FROM item ORDER BY id", "1|b\n2|a")
	st.write(s, deleted(table, 1), inserted(table, 3, "b"))
	st.want("SELECT * FROM item ORDER BY id", "2|a\n3|b")
}

func TestSinkNamesRowsThatTheTargetRefuses(t *testing.T) {
	st := newSinkTest(t)
	st.exec(`CREATE TABLE parent (id int PRIMARY KEY);
		CREATE TABLE item (id int PRIMARY KEY, v varchar(5) NOT NULL, n int CHECK (n > 0), code text UNIQUE, p int REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
		CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF new.v = 'no' THEN RAISE 'not % at all', new.v; END IF; RETURN new; END $$;
		CREATE TRIGGER no BEFORE INSERT OR UPDATE ON item FOR EACH ROW EXECUTE FUNCTION no()`)
	s := st.open(func(config *SinkConfig) { config.Role = roleOrigin })
	table := tableOf("item", 1, "id integer", "v text", "n integer", "code text", "p integer")
	st.migrate(s, nil, table)
	st.write(s, inserted(table, 100, "a", 1, "taken", nil))
	for name, c := range map[string]struct {
		bad  []any
		want string
	}{
		"too long":     {[]any{50, "secret", 1, nil, nil}, `value too long for the column (22001), column "v"`},
		"not a number": {[]any{50, "a", "secret", nil, nil}, `not a valid value for the type (22P02), column "n"`},
		"null":         {[]any{50, nil, 1, nil, nil}, `NULL in a column that allows none (23502), column "v"`},
		"check":        {[]any{50, "a", -7, nil, nil}, `a check constraint is violated (23514), constraint "item_n_check"`},
		"unique":       {[]any{50, "a", 1, "taken", nil}, `another row has the same unique value (23505), constraint "item_code_key"`},
		"foreign key":  {[]any{50, "a", 1, nil, 77}, `the row that a foreign key names does not exist (23503), constraint "item_p_fkey"`},
		"trigger":      {[]any{50, "no", 1, nil, nil}, "refused by a trigger (P0001)"},
		"no key":       {[]any{absent, "a", 1, nil, nil}, "the change does not carry its key"},
		"null key":     {[]any{nil, "a", 1, nil, nil}, `NULL in a column that allows none (23502), column "id"`},
	} {
		for _, op := range []connectors.Op{connectors.Insert, connectors.Update} {
			var changes []connectors.Change
			for i := range 9 {
				changes = append(changes, inserted(table, i, "a", 1, nil, nil))
			}
			changes[4] = connectors.Change{Op: op, Table: table, After: row(table, c.bad...)}
			err := s.Write(t.Context(), batchOf(changes...))
			var refused *connectors.RowsError
			if !errors.As(err, &refused) || len(refused.Rows) != 1 || refused.Rows[0].Index != 4 {
				t.Errorf("%s, %v: %v", name, op, err)
				continue
			}
			if got := refused.Rows[0].Err.Error(); got != c.want {
				t.Errorf("%s, %v: %q, want %q", name, op, got, c.want)
			}
		}
	}
	st.want("SELECT count(*) FROM item", "1")
}

func TestSinkNamesEveryRowOfABadBatch(t *testing.T) {
	st := newSinkTest(t)
	s := st.open(nil)
	table := tableOf("item", 1, "id integer", "v integer")
	st.migrate(s, nil, table)
	var changes []connectors.Change
	for i := range 500 {
		changes = append(changes, inserted(table, i, "no number"))
	}
	var refused *connectors.RowsError
	if err := s.Write(t.Context(), batchOf(changes...)); !errors.As(err, &refused) || len(refused.Rows) != 500 {
		t.Fatalf("write: %v", err)
	}
	for i, r := range refused.Rows {
		if r.Index != i {
			t.Fatalf("row %d stands at %d", r.Index, i)
		}
	}
}

// TestSinkInsertsOverExistingKeys checks that new rows which are not new after all are found out, batch after batch.
func TestSinkInsertsOverExistingKeys(t *testing.T) {
	st := newSinkTest(t)
	s := st.open(nil)
	table := tableOf("item", 1, "id integer", "v text")
	st.migrate(s, nil, table)
	for round := range 5 {
		for first := 0; first < 60; first += 20 {
			var changes []connectors.Change
			for i := range 20 {
				changes = append(changes, inserted(table, first+i, strconv.Itoa(round)))
			}
			st.write(s, changes...)
		}
		st.want("SELECT count(*), min(v), max(v) FROM item", fmt.Sprintf("60|%d|%d", round, round))
	}
	// 1.0 and 1.00 are one key for the server and two for anyone who compares text.
	table = tableOf("money", 1, "n numeric", "v text")
	st.migrate(s, nil, table)
	st.write(s, inserted(table, "1.0", "a"), updated(table, "1.00", "b"), updated(table, "1", "c"))
	st.want("SELECT n, v FROM money", "1.0|c")
}

func TestSinkWritesSeveralTablesAndVersionsInOneBatch(t *testing.T) {
	st := newSinkTest(t)
	s := st.open(nil)
	a, b := tableOf("a", 1, "id integer", "v text"), tableOf("b", 1, "id integer")
	a2 := tableOf("a", 1, "id integer", "v text", "w text")
	st.migrate(s, nil, a)
	st.migrate(s, nil, b)
	st.migrate(s, a, a2)
	st.write(s, inserted(a, 1, "x"), inserted(b, 1), inserted(a2, 1, "y", "z"), truncated(b), updated(a, 1, "last"), inserted(b, 2),
		connectors.Change{Op: connectors.Message}, inserted(a2, 2, absent, "w"))
	st.want("SELECT * FROM a ORDER BY id", "1|last|z\n2|NULL|w")
	st.want("SELECT * FROM b", "2")
}

func TestSinkStoresAPositionAlone(t *testing.T) {
	st := newSinkTest(t)
	s := st.open(func(c *SinkConfig) { c.Offsets = "Bookkeeping" })
	for _, p := range []connectors.Position{connectors.Position("7"), connectors.Position("\x00\xff'\\")} {
		if err := s.Write(t.Context(), connectors.Batch{Stream: "it's/0", Position: p}); err != nil {
			t.Fatal(err)
		}
		got, err := s.Committed(t.Context(), "it's/0")
		if err != nil || string(got) != string(p) {
			t.Errorf("position %q %v, want %q", got, err, p)
		}
	}
	st.want(`SELECT stream, epoch FROM "Bookkeeping"._trunkline_offsets`, "it's/0|3")
}

// TestSinkKeepsFewStages writes more tables than a session has stages for, with transactions that fail between.
func TestSinkKeepsFewStages(t *testing.T) {
	st := newSinkTest(t)
	s := st.open(nil)
	var tables []*connectors.Table
	for i := range maxStages + 6 {
		tables = append(tables, tableOf("t"+strconv.Itoa(i), 1, "id integer", "v integer"))
		st.exec("CREATE TABLE t" + strconv.Itoa(i) + " (id int PRIMARY KEY, v int)")
	}
	for round := range 3 {
		for i, table := range tables {
			st.write(s, updated(table, 1, round))
			if i%20 == 0 {
				bad := tables[(i+7)%len(tables)]
				var refused *connectors.RowsError
				if err := s.Write(t.Context(), batchOf(updated(bad, 2, "x"), updated(table, 1, round))); !errors.As(err, &refused) {
					t.Fatal(err)
				}
			}
		}
	}
	var all []connectors.Change // more than there may be, in one transaction
	for _, table := range tables {
		all = append(all, updated(table, 3, 3))
	}
	st.write(s, all...)
	for i := range tables {
		st.want(fmt.Sprintf("SELECT id, v FROM t%d ORDER BY id", i), "1|2\n3|3")
	}
	if n, err := s.exec(t.Context(), "SELECT FROM pg_class WHERE relname LIKE 'trunkline\\_stage\\_%' AND relnamespace = pg_my_temp_schema()"); err != nil || int(n) != len(s.staged) {
		t.Errorf("%d stages are there and %d are known: %v", n, len(s.staged), err)
	}
}

func TestSinkStopsAtAMigrationThatTheServerRefuses(t *testing.T) {
	st := newSinkTest(t)
	s := st.open(nil)
	without, with := tableOf("item", 0, "id integer", "v integer"), tableOf("item", 1, "id integer", "v integer")
	st.migrate(s, nil, without)
	st.write(s, inserted(without, 1, 1), inserted(without, 1, 1))
	st.refuses(s, without, with, `ALTER TABLE "public"."item" ADD PRIMARY KEY ("id")`)
	st.exec("CREATE VIEW looks AS SELECT v FROM item")
	wider := tableOf("item", 0, "id integer", "v bigint")
	st.refuses(s, without, wider, `ALTER TABLE "public"."item" ALTER COLUMN "v" TYPE bigint`)
}

// Rows of several topics come in no order among them, and a trigger's rows come by themselves: as under PostgreSQL's own
// subscriptions, foreign keys are not checked again and triggers do not fire.
func TestSinkDoesNotRepeatForeignKeysAndTriggers(t *testing.T) {
	st := newSinkTest(t)
	st.exec(`CREATE TABLE parent (id int PRIMARY KEY);
		CREATE TABLE child (id int PRIMARY KEY, p int REFERENCES parent ON DELETE CASCADE);
		CREATE TABLE audit (id int);
		CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.audit VALUES (new.id); RETURN new; END $$;
		CREATE TRIGGER note AFTER INSERT ON child FOR EACH ROW EXECUTE FUNCTION note()`)
	parent, child := tableOf("parent", 1, "id integer"), tableOf("child", 1, "id integer", "p integer")
	s := st.open(nil)
	st.migrate(s, nil, child)
	st.migrate(s, nil, parent)
	st.write(s, inserted(child, 1, 10), inserted(child, 2, 10))
	st.write(s, inserted(parent, 10))
	st.write(s, connectors.Change{Op: connectors.Delete, Table: parent, Before: row(parent, 10)})
	st.want("SELECT * FROM child ORDER BY id", "1|10\n2|10") // until their own deletes come
	st.want("SELECT count(*) FROM audit", "0")
}

// A user who may not set the role of its session writes all the same, and the report says what is missing.
func TestSinkOfAPlainUserChecksForeignKeys(t *testing.T) {
	st := newSinkTest(t)
	user := quote("writer of " + t.Name())
	st.exec("CREATE ROLE " + user + ` LOGIN; GRANT ALL ON SCHEMA public TO ` + user + `; GRANT CREATE ON DATABASE ` + quote(st.conn.Config().Database) + ` TO ` + user + `; CREATE TABLE parent (id int PRIMARY KEY);
		CREATE TABLE child (id int PRIMARY KEY, p int REFERENCES parent); GRANT ALL ON child TO ` + user)
	t.Cleanup(func() {
		st.conn.Exec(context.Background(), "DROP OWNED BY "+user+"; DROP ROLE "+user)
	})
	config := DefaultSinkConfig()
	config.DSN = strings.Replace(st.url, "postgres@", url.PathEscape("writer of "+t.Name())+"@", 1)
	var reports []string
	env := connectors.NewEnv("test")
	env.Report = func(r connectors.Report) { reports = append(reports, r.Reason) }
	s, err := newSink(t.Context(), config, env)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background())
	child := tableOf("child", 1, "id integer", "p integer")
	st.migrate(s, nil, child)
	if len(reports) != 1 || !strings.Contains(reports[0], "GRANT SET ON PARAMETER session_replication_role") {
		t.Errorf("reports %q", reports)
	}
	var refused *connectors.RowsError
	if err := s.Write(t.Context(), batchOf(inserted(child, 1, 10))); !errors.As(err, &refused) {
		t.Errorf("a row without a parent: %v", err)
	}
}
