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

// load writes to a table from another connection until the test stops it.
func (h *harness) load(statements func(i int) []string) (stop func()) {
	conn, err := pgx.Connect(context.Background(), h.dsn)
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		defer conn.Close(context.Background())
		pace := time.NewTicker(3 * time.Millisecond)
		defer pace.Stop()
		for i := 0; ctx.Err() == nil; i++ {
			<-pace.C
			if _, err := conn.Exec(context.Background(), "BEGIN; "+strings.Join(statements(i), ";")+"; COMMIT"); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	return func() {
		cancel()
		if err := <-done; err != nil {
			h.t.Error(err)
		}
	}
}

// changesOf counts the changes of a table by operation.
func (h *harness) changesOf(table string, op connectors.Op) int {
	n := 0
	for _, c := range h.changes {
		if c.Table.FullName() == table && c.Op == op {
			n++
		}
	}
	return n
}

func addedTables() []string {
	return []string{`CREATE TABLE old (id int PRIMARY KEY, v text)`, `INSERT INTO old SELECT i, 'v' FROM generate_series(1, 10) i`,
		`CREATE TABLE added (id int PRIMARY KEY, n int, big text)`, `ALTER TABLE added ALTER big SET STORAGE EXTERNAL`,
		`INSERT INTO added SELECT i, 0, repeat(i::text, 1000) FROM generate_series(1, 3000) i`}
}

func addedLoad(i int) []string {
	return []string{
		fmt.Sprintf(`UPDATE added SET n = %d WHERE id %% 100 = %d`, i, i%100),
		fmt.Sprintf(`INSERT INTO added VALUES (%d, 1, repeat('n', 3000))`, 10000+i),
		fmt.Sprintf(`DELETE FROM added WHERE id = %d`, i+1),
		fmt.Sprintf(`INSERT INTO old VALUES (%d, 'w')`, 100+i),
	}
}

func TestTableAddedToTheConfigurationIsReadWhileOthersGoOn(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "public.old", addedTables()...)
	h.open()
	h.catchUp()
	h.config.Tables = append(h.config.Tables, connectors.TableSpec{Name: "public.added"})
	stop := h.load(addedLoad)
	h.open()
	h.until("rows of the new table", func() bool { return h.changesOf("public.added", connectors.Snapshot) >= 1000 })
	h.until("changes of the new table", func() bool { return h.changesOf("public.added", connectors.Update) > 100 })
	stop()
	h.catchUp()
	h.wantTable("public.added", "id, n, big", "id")
	h.wantTable("public.old", "id, v", "id")
	if n := h.changesOf("public.old", connectors.Snapshot); n != 10 {
		t.Errorf("%d snapshot rows of the old table, want 10", n)
	}
}

func TestTableThatAppearsIsRead(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "public.*", `CREATE TABLE old (id int PRIMARY KEY, v text)`)
	h.config.Rescan = 50 * time.Millisecond
	h.open()
	h.catchUp()
	other, err := pgx.Connect(context.Background(), h.dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close(context.Background())
	// A transaction that is open while the table is published, and has written to it before.
	h.exec(`CREATE TABLE late (id int PRIMARY KEY, v text)`)
	if _, err := other.Exec(t.Context(), "BEGIN; INSERT INTO late VALUES (1, 'early')"); err != nil {
		t.Fatal(err)
	}
	h.until("the table's publication", func() bool {
		return h.query(`SELECT count(*)::text FROM pg_publication_tables WHERE tablename = 'late'`) == "1"
	})
	if _, err := other.Exec(t.Context(), "INSERT INTO late VALUES (2, 'late'); COMMIT"); err != nil {
		t.Fatal(err)
	}
	h.exec(`INSERT INTO late VALUES (3, 'after')`)
	h.until("the rows", func() bool { return len(model(t, h.changes)["public.late"]) == 3 })
	h.exec(`CREATE TABLE bad (a int)`, `INSERT INTO late VALUES (4, 'more')`)
	h.until("the refusal", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return slices.ContainsFunc(h.reports, func(r connectors.Report) bool {
			return r.Table == "public.bad" && r.Phase == connectors.PhaseFailed && strings.Contains(r.Reason, "REPLICA IDENTITY FULL")
		})
	})
	h.exec(`INSERT INTO bad VALUES (1)`, `UPDATE bad SET a = 2`)
	h.catchUp()
	h.wantTable("public.late", "id, v", "id")
}

func TestResyncReadsATableAnew(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "public.old public.added", addedTables()...)
	h.open()
	h.catchUp()
	stop := h.load(addedLoad)
	if err := h.source.(connectors.Resyncer).Resync(t.Context(), "public.added"); err != nil {
		t.Fatal(err)
	}
	if err := h.source.(connectors.Resyncer).Resync(t.Context(), "public.nope"); err == nil {
		t.Error("an unknown table was accepted")
	}
	h.until("rows of the second reading", func() bool { return h.changesOf("public.added", connectors.Snapshot) >= 5000 })
	h.until("changes after it", func() bool {
		last := h.changes[len(h.changes)-1]
		return last.Op != connectors.Snapshot && last.Table.FullName() == "public.added"
	})
	stop()
	h.catchUp()
	h.wantTable("public.added", "id, n, big", "id")
	h.wantTable("public.old", "id, v", "id")
}

// A table that comes back to the configuration is read anew, without the rows that have gone meanwhile.
func TestTableThatWasLeftOutForAWhile(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "public.*", `CREATE TABLE old (id int PRIMARY KEY, v text)`, `CREATE TABLE left_out (id int PRIMARY KEY, v text)`,
		`INSERT INTO left_out SELECT i, 'v' FROM generate_series(1, 10) i`)
	h.open()
	h.catchUp()
	h.config.Tables[0].Name = "public.old"
	h.open()
	h.exec(`DELETE FROM left_out WHERE id < 5`, `UPDATE left_out SET v = 'w' WHERE id = 7`, `INSERT INTO left_out VALUES (11, 'x')`, `INSERT INTO old VALUES (1, 'v')`)
	h.catchUp()
	h.config.Tables[0].Name = "public.*"
	h.open()
	h.exec(`DELETE FROM left_out WHERE id = 10`, `INSERT INTO left_out VALUES (12, 'y')`)
	h.untilSame("public.left_out")
	h.catchUp()
	h.wantTable("public.left_out", "id, v", "id")
	h.wantTable("public.old", "id, v", "id")
}

// What is done to a table while the moment is chosen at which it is read anew may be later than that moment: it is looked at
// again as soon as the moment is known, and not when the tables are looked for the next time.
func TestAlterWhileTheMomentIsChosen(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "public.*", `CREATE TYPE mood AS ENUM ('sad', 'ok')`, `CREATE TABLE moody (id int PRIMARY KEY, v mood)`, `INSERT INTO moody VALUES (1, 'sad'), (2, 'ok')`)
	h.config.Rescan = time.Hour
	h.open()
	h.catchUp()
	source := h.source.(*Source)
	open, altered := source.syncs.open, false
	source.syncs.open = func(ctx context.Context, target syncTarget) (*syncSource, error) {
		s, err := open(ctx, target)
		if err == nil && !altered {
			altered = true
			h.exec(`ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'`)
			err = source.rescan(ctx, map[uint32]string{})
		}
		return s, err
	}
	if err := source.Resync(t.Context(), "public.moody"); err != nil {
		t.Fatal(err)
	}
	h.until("the rows a second and a third time", func() bool { return h.changesOf("public.moody", connectors.Snapshot) >= 6 })
	h.untilSame("public.moody")
}

func TestSyncStartsAgainAfterACrash(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "public.old", addedTables()...)
	h.open()
	h.catchUp()
	h.config.Tables = append(h.config.Tables, connectors.TableSpec{Name: "public.added"})
	h.env.Limits.BatchRows = 200
	stop := h.load(addedLoad)
	for round := range 3 {
		h.open()
		h.until("some rows of the new table", func() bool { return h.changesOf("public.added", connectors.Snapshot) > round*500 })
	}
	h.open()
	h.until("changes of the new table", func() bool { return h.changesOf("public.added", connectors.Update) > 100 })
	stop()
	h.catchUp()
	h.wantTable("public.added", "id, n, big", "id")
}

// What fails is asked for again with a pause that grows, and one that waits long keeps no other one back.
func TestFailedSyncsWaitLongerEachTime(t *testing.T) {
	t.Parallel()
	q := &syncs{backoff: syncBackoff(time.Second)}
	now := time.Unix(1000, 0)
	r := syncRequest{oid: 1, keys: [][]connectors.Value{{connectors.IntValue(1)}}}
	for _, full := range []time.Duration{100, 200, 400, 800, 1000, 1000} {
		q.postpone(r, now)
		next := q.requestDue(now)
		if wait := next.Sub(now); wait < full*time.Millisecond/2 || wait > full*time.Millisecond {
			t.Fatalf("after %d attempts it waits for %v, want between a half and the whole of %v", r.failed+1, wait, full*time.Millisecond)
		}
		if got := q.requestDue(next.Add(-1)); !got.Equal(next) || len(q.waiting) > 0 {
			t.Fatalf("a nanosecond early the next is due at %v and %d are asked for, want %v and none", got, len(q.waiting), next)
		}
		if got := q.requestDue(next); !got.IsZero() {
			t.Fatalf("one more is due at %v, want none", got)
		}
		var asked bool
		if r, asked = q.next(); !asked || len(r.keys) != 1 {
			t.Fatal("the repair is not asked for when it is due")
		}
		now = next
	}
	q.postpone(r, now)
	q.postpone(syncRequest{oid: 2}, now)
	if next := q.requestDue(now.Add(100 * time.Millisecond)); next.Sub(now) < 500*time.Millisecond {
		t.Errorf("the next is due after %v, want the one that failed often", next.Sub(now))
	}
	if other, asked := q.next(); !asked || other.oid != 2 {
		t.Errorf("table %d is asked for, want 2", other.oid)
	}
}

func TestVisibilityOfWrappedTransactionIds(t *testing.T) {
	t.Parallel()
	v, err := parseVisibility("4294967290:4294967300:4294967295,4294967297")
	if err != nil {
		t.Fatal(err)
	}
	for xid, want := range map[uint32]bool{4294967280: true, 4294967290: true, 4294967295: false, 0: true, 1: false, 3: true, 4: false, 5: false} {
		if got := v.sees(xid); got != want {
			t.Errorf("transaction %d seen: %v, want %v", xid, got, want)
		}
	}
}
