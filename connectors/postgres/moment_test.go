package postgres

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/postgres/localserver"
)

// begin begins a snapshot with one worker, which waits with the rows of the first table until they are read.
func (h *harness) begin() {
	h.t.Helper()
	h.config.SnapshotWorkers = 1
	h.open()
}

// alteredInSnapshot are tables, and what is done to them while the snapshot is taken.
var alteredInSnapshot = map[string][]string{
	"retyped": {`INSERT INTO retyped VALUES (3, '3')`, `ALTER TABLE retyped ALTER v TYPE int USING v::int * 10`, `INSERT INTO retyped VALUES (4, 4)`},
	"renamed": {`UPDATE renamed SET v = 'before' WHERE id = 1`, `ALTER TABLE renamed RENAME v TO w`, `INSERT INTO renamed VALUES (4, 'after')`},
	"dropped": {`DELETE FROM dropped WHERE id = 1`, `ALTER TABLE dropped DROP v`, `INSERT INTO dropped VALUES (4)`},
	"added":   {`INSERT INTO added VALUES (3, '3')`, `ALTER TABLE added ADD n int DEFAULT 7`, `INSERT INTO added VALUES (4, '4', 4)`},
	"rekeyed": {`UPDATE rekeyed SET v = 'x' WHERE id = 1`, `ALTER TABLE rekeyed DROP CONSTRAINT rekeyed_pkey, ADD PRIMARY KEY (v)`, `UPDATE rekeyed SET id = 9 WHERE v = 'x'`},
	"plain":   {`INSERT INTO plain VALUES (3, '3')`, `DELETE FROM plain WHERE id = 1`},
}

func alteredSetup() (list []string) {
	list = []string{`CREATE TABLE a (id int PRIMARY KEY)`, `INSERT INTO a VALUES (1)`}
	for name := range alteredInSnapshot {
		list = append(list, `CREATE TABLE `+name+` (id int PRIMARY KEY, v text NOT NULL)`, `INSERT INTO `+name+` VALUES (1, '1'), (2, '2')`)
	}
	return list
}

// wantAltered waits until all tables are as they are in the database, and makes sure that no row of an old shape came behind
// one of a new one, where a sink could not write it any more.
func (h *harness) wantAltered() {
	h.t.Helper()
	for name := range alteredInSnapshot {
		h.untilSame("public." + name)
	}
	latest := map[string][]string{}
	for _, c := range h.changes {
		var shape []string
		for _, column := range c.Table.Columns {
			shape = append(shape, column.Name+" "+column.Type)
		}
		text, seen := strings.Join(shape, ", "), latest[c.Table.Name]
		if i := slices.Index(seen, text); i < 0 {
			latest[c.Table.Name] = append(seen, text)
		} else if i < len(seen)-1 {
			h.t.Errorf("a change of table %s with %s came behind one with %s", c.Table.Name, text, seen[len(seen)-1])
			return
		}
	}
}

// Tables that are altered while the first snapshot is taken come right by themselves.
func TestAltersDuringTheFirstSnapshot(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "public.*", alteredSetup()...)
	h.begin()
	for _, statements := range alteredInSnapshot {
		h.exec(statements...)
	}
	h.wantAltered()
	if n := h.changesOf("public.plain", connectors.Snapshot); n != 2 {
		t.Errorf("%d rows of the table that was not altered were read, want 2", n)
	}
}

// So do those that were read when a crash ended the snapshot, and are altered until it goes on.
func TestAltersWhileAnEndedSnapshotWaits(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "public.*", append(alteredSetup(), `CREATE TABLE z (id int PRIMARY KEY)`, `INSERT INTO z VALUES (1)`)...)
	h.begin()
	h.until("the rows of the other tables", func() bool { return len(h.changes) >= 1+2*len(alteredInSnapshot) })
	h.close()
	for _, statements := range alteredInSnapshot {
		h.exec(statements...)
	}
	h.open()
	h.wantAltered()
	h.untilSame("public.z")
}

// A change can be handed over a moment before other sessions see it, here for as long as its commit waits for a standby. A
// repair does not read the row as it was before.
func TestRepairOfARowThatNobodySeesYet(t *testing.T) {
	t.Parallel()
	server := localserver.StartForTest(t, localserver.Options{Unsafe: true})
	dsn, err := server.CreateDatabase(t.Context(), "unseen")
	if err != nil {
		t.Fatal(err)
	}
	h := harnessOn(t, dsn, "unseen", "public.r", `CREATE TABLE r (id int PRIMARY KEY, v text)`, `INSERT INTO r VALUES (1, 'old')`)
	h.config.Rescan = 50 * time.Millisecond
	h.open()
	h.catchUp()
	h.until("the note of the snapshot is gone", func() bool { return h.source.(*Source).watch.durable.Load() })
	h.exec(`ALTER SYSTEM SET synchronous_standby_names = 'nobody'`, `SELECT pg_reload_conf()`)
	h.until("the setting", func() bool { return h.query("SHOW synchronous_standby_names") == "nobody" })
	other, err := pgx.Connect(context.Background(), h.dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close(context.Background())
	committed := make(chan error, 1)
	go func() {
		_, err := other.Exec(context.Background(), `UPDATE r SET v = 'new'`)
		committed <- err
	}()
	h.until("the change", func() bool { return h.changesOf("public.r", connectors.Update) == 1 })
	key := []connectors.Value{connectors.IntValue(1)}
	if err := h.source.(connectors.Repairer).Repair(t.Context(), "public.r", [][]connectors.Value{key}); err != nil {
		t.Fatal(err)
	}
	h.until("the repair waits for its third attempt, or is done", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		refused := 0
		for _, r := range h.reports {
			if strings.Contains(r.Reason, errUnseen.Error()) {
				refused++
			}
		}
		return h.changesOf("public.r", connectors.Snapshot) == 2 || refused >= 2
	})
	h.exec(`ALTER SYSTEM RESET synchronous_standby_names`, `SELECT pg_reload_conf()`)
	if err := <-committed; err != nil {
		t.Fatal(err)
	}
	h.until("the row", func() bool { return h.changesOf("public.r", connectors.Snapshot) == 2 })
	h.untilSame("public.r")
}
