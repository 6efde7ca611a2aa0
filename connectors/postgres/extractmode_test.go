package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/trunkline/trunkline/connectors"
)

// writers write to table x until stop is called. Each transaction takes up to some milliseconds, and some roll back.
func (h *harness) writers(n int, statements ...string) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	for w := range n {
		group.Go(func() {
			conn, err := pgx.Connect(ctx, h.dsn)
			if err != nil {
				return
			}
			defer conn.Close(context.Background())
			for i := 0; ctx.Err() == nil; i++ {
				tx, err := conn.Begin(ctx)
				if err != nil {
					return
				}
				for j := range 1 + (i+w)%3 {
					sql := statements[(i+j+w)%len(statements)]
					if _, err := tx.Exec(ctx, sql); err != nil {
						break
					}
				}
				if i%5 == 4 {
					_ = tx.Rollback(ctx)
				} else {
					_ = tx.Commit(ctx)
				}
			}
		})
	}
	return func() {
		cancel()
		group.Wait()
	}
}

// TestTheModeChangesUnderLoad: from timestamp to cdc and back, with no row missing and no version of a row twice.
func TestTheModeChangesUnderLoad(t *testing.T) {
	t.Parallel()
	h := newExtractHarness(t, "public.x", "at", "CREATE SEQUENCE s", "CREATE TABLE x (id bigint PRIMARY KEY, v bigint NOT NULL, at timestamptz NOT NULL)",
		"INSERT INTO x SELECT nextval('s'), nextval('s'), now() FROM generate_series(1, 500)")
	update := "UPDATE x SET v = nextval('s'), at = now() WHERE id = (SELECT id FROM x ORDER BY random() LIMIT 1)"
	insert := "INSERT INTO x VALUES (nextval('s'), nextval('s'), now())"
	stop := h.writers(3, insert, update, insert, "SELECT pg_sleep(0.005)")
	defer stop()
	for round := range 3 {
		h.config.Mode = modeTimestamp
		h.open()
		h.drain()
		h.open()
		h.drain()
		h.config.Mode = modeCDC
		h.open()
		h.drain()
		h.open()
		h.drain()
		if round == 2 {
			stop()
		}
	}
	h.config.Mode = modeTimestamp
	h.open()
	h.drain()
	h.close()
	if n := h.query("SELECT count(*)::text FROM pg_replication_slots WHERE database = current_database()"); n != "0" {
		t.Errorf("%s slots are left", n)
	}
	h.wantTable("public.x", "id, v, (to_jsonb(at AT TIME ZONE 'UTC') #>> '{}') || 'Z'", "id")
	versions, twice := map[string]string{}, 0
	for i, c := range h.changes {
		key := fmt.Sprint(c.After[0].Int(), " ", c.After[1].Int())
		if first, ok := versions[key]; ok {
			if twice++; twice < 4 {
				t.Errorf("%s came as %s and as %s", key, first, fmt.Sprint(i, " ", string(c.Op.Code()), " ", string(c.Origin)))
			}
		}
		versions[key] = fmt.Sprint(i, " ", string(c.Op.Code()), " ", string(c.Origin))
	}
	if twice > 0 {
		t.Errorf("%d of %d versions came twice", twice, len(versions))
	}
	t.Logf("%d changes, %d rows", len(h.changes), len(model(t, h.changes)["public.x"]))
}

// TestDeletesBeforeTheModeChangesAreSeen: what is in the slot is read to its end.
func TestDeletesBeforeTheModeChangesAreSeen(t *testing.T) {
	t.Parallel()
	h := newExtractHarness(t, "public.x", "c", "CREATE TABLE x (id int PRIMARY KEY, c int)", "INSERT INTO x VALUES (1, 1), (2, NULL), (3, 3)")
	h.config.NullCursor = nullSkip
	h.config.Mode = modeCDC
	h.open()
	h.drain()
	h.close()
	h.exec("DELETE FROM x WHERE id = 3", "INSERT INTO x VALUES (4, 4)")
	h.config.Mode = modeTimestamp
	h.extract()
	if got := h.texts(); !strings.Contains(got, "d public.x [3 ~]") || !strings.Contains(got, "c public.x -> [4 4]") || len(h.changes) != 2 {
		t.Fatalf("after the change of mode: %s", got)
	}
	h.exec("INSERT INTO x VALUES (5, 5), (6, NULL)")
	if got := h.extract(); got != "u public.x -> [5 5]" {
		t.Fatalf("the next run: %s", got)
	}
	h.config.Mode = modeCDC
	h.exec("INSERT INTO x VALUES (7, 7)")
	h.extract()
	got := h.texts() // rows without a cursor were not read meanwhile, so all of them come
	for _, want := range []string{"r public.x -> [2 null]", "r public.x -> [6 null]", "r public.x -> [7 7]"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is missing: %s", want, got)
		}
	}
	if len(h.changes) != 3 {
		t.Errorf("%d changes, want 3: %s", len(h.changes), got)
	}
}

// TestARowFilterDoesNotStopTheApplication: a table whose filter the server could not apply to a DELETE is not published.
func TestARowFilterDoesNotStopTheApplication(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "public.x", "CREATE TABLE x (id int PRIMARY KEY, v text)", "INSERT INTO x VALUES (1, 'a'), (2, 'b')")
	h.config.Tables[0].Where = "v = 'a'"
	if err := h.tryOpen(); !errors.Is(err, connectors.ErrFatal) || !strings.Contains(err.Error(), "REPLICA IDENTITY FULL") {
		t.Fatalf("opened: %v", err)
	}
	h.exec("DELETE FROM x WHERE id = 2", "ALTER TABLE x REPLICA IDENTITY FULL")
	h.open()
	h.untilCount(1)
	h.exec("UPDATE x SET v = 'z'")
}
