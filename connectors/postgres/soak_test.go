package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/trunkline/trunkline/connectors"
)

// TestSoakOfExtracts: four writers with transactions of random length, up to 5 s in the long form, and random rollbacks
// against an extract every second, which is closed and opened again and again. After their end and one more run no row is
// missing, counted by key and value.
func TestSoakOfExtracts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ cursor, scan string }{{"at", scanAuto}, {"at", scanNever}, {"n", scanNever}} {
		t.Run("by "+c.cursor+", scan "+c.scan, func(t *testing.T) {
			t.Parallel()
			soak(t, c.cursor, c.scan, soakTime(t))
		})
	}
}

func soak(t *testing.T, cursor, scan string, d time.Duration) {
	h := newExtractHarness(t, "public.x", cursor, "CREATE SEQUENCE s", "CREATE TABLE x (id bigint PRIMARY KEY, n bigint NOT NULL, v text, at timestamptz NOT NULL)",
		"CREATE INDEX ON x (at, id)", "CREATE INDEX ON x (n, id)")
	h.env.Limits.BatchRows = 50
	h.env.Once = false
	h.config.Scan, h.config.Settle = scan, 0
	h.config.Poll = min(d/20, time.Second)
	stop := h.slowWriters(4, min(d/4, 5*time.Second),
		"INSERT INTO x VALUES (nextval('s'), nextval('s'), repeat('x', 1 + (random() * 20)::int), now())",
		"UPDATE x SET n = nextval('s'), v = v || 'y', at = clock_timestamp() WHERE id = (SELECT id FROM x ORDER BY random() LIMIT 1)")
	defer stop()
	h.open()
	for end := time.Now().Add(d); time.Now().Before(end); {
		ctx, cancel := context.WithTimeout(context.Background(), d/8)
		for {
			b, err := h.source.Read(ctx)
			if err != nil {
				break
			}
			for _, c := range b.Changes {
				c.After = connectors.CloneRow(c.After)
				h.changes = append(h.changes, c)
			}
			h.mark = append(h.mark[:0:0], b.Position...)
		}
		cancel()
		h.open() // as after a crash, from the last position
	}
	committed := stop()
	h.env.Once = true
	h.open()
	h.drain()
	h.wantTable("public.x", "id, n, v, (to_jsonb(at AT TIME ZONE 'UTC') #>> '{}') || 'Z'", "id")
	m, err := parseExtractMark(h.mark)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range m.Tables {
		if m.Floor == nil {
			t.Error("no run looked at a part of the table only")
		}
	}
	if committed == 0 {
		t.Error("no transaction was committed")
	}
	t.Logf("%d transactions, %d changes, %d rows", committed, len(h.changes), len(model(t, h.changes)["public.x"]))
}

// slowWriters write until stop is called, which tells how many transactions were committed. Each takes a random time up to
// the longest, and one in five rolls back.
func (h *harness) slowWriters(n int, longest time.Duration, insert, update string) (stop func() int64) {
	ctx, cancel := context.WithCancel(context.Background())
	var committed atomic.Int64
	var group sync.WaitGroup
	for range n {
		group.Go(func() {
			conn, err := pgx.Connect(ctx, h.dsn)
			if err != nil {
				return
			}
			defer conn.Close(context.Background())
			for ctx.Err() == nil {
				if slowly(ctx, conn, time.Duration(rand.Float64()*float64(longest)), insert, update) == nil {
					committed.Add(1)
				}
			}
		})
	}
	return func() int64 {
		cancel()
		group.Wait()
		return committed.Load()
	}
}

// slowly makes one transaction of a length. An error is a transaction that was not.
func slowly(ctx context.Context, conn *pgx.Conn, length time.Duration, insert, update string) error {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(context.Background()) //nolint:errcheck // after a commit there is nothing to roll back
	statements := 1 + rand.IntN(4)
	for i := range statements {
		sql := insert
		if rand.IntN(2) == 0 {
			sql = update
		}
		if i == 1 {
			sql = "SAVEPOINT a; " + sql
		}
		if _, err := tx.Exec(ctx, sql); err != nil { // a deadlock
			return err
		}
		if _, err := tx.Exec(ctx, fmt.Sprintf("SELECT pg_sleep(%f)", length.Seconds()/float64(statements))); err != nil {
			return err
		}
	}
	if rand.IntN(5) == 0 {
		return errors.New("rolled back on purpose")
	}
	return tx.Commit(ctx)
}

// soakTime is short, unless TRUNKLINE_SOAK says how long.
func soakTime(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("TRUNKLINE_SOAK")
	if text == "" {
		return 4 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
