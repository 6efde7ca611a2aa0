package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/memory"
	"github.com/trunkline/trunkline/connectors/postgres"
	"github.com/trunkline/trunkline/connectors/postgres/localserver"
	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/disk"
	"github.com/trunkline/trunkline/pipeline"
	"github.com/trunkline/trunkline/pipeline/config"
)

// guardPatience is how long the guard and the server may take; the guard looks every five seconds.
const guardPatience = 2 * time.Minute

// TestTheSlotOfAPausedSourceIsReleasedBeforeTheDiskIsFull pauses a source of a server of its own, writes WAL until
// max_retained is reached, and follows the remedy.
func TestTheSlotOfAPausedSourceIsReleasedBeforeTheDiskIsFull(t *testing.T) {
	t.Parallel()
	server := localserver.StartForTest(t, localserver.Options{Unsafe: true})
	for _, policy := range []string{config.RetainStop, config.RetainResync} {
		t.Run(policy, func(t *testing.T) {
			url, err := server.CreateDatabase(t.Context(), "guard_"+policy)
			if err != nil {
				t.Fatal(err)
			}
			g := newGuarded(t, url, policy)
			g.sql("CREATE TABLE orders (id int PRIMARY KEY, note text)")
			g.sql("INSERT INTO orders SELECT i, 'early' FROM generate_series(1, 3) i")
			g.sql("CREATE TABLE quiet (id int PRIMARY KEY)")
			g.sql("INSERT INTO quiet VALUES (1), (2)")
			g.run()
			g.until("the rows are in the sink", func() bool { return g.rows() == 3 && g.written("public.quiet") == 2 })
			g.until("the stream goes on", func() bool { return g.status().State == pipeline.CaughtUp })
			target := pipeline.Target{Role: pipeline.RoleSource, Name: "shop"}
			if err := g.pipeline.Pause(t.Context(), target); err != nil {
				t.Fatal(err)
			}
			g.sql("INSERT INTO orders VALUES (4, 'in the gap')")
			g.wal(20)
			g.until("half of max_retained is warned of", func() bool { return strings.Contains(g.status().Warning, "max_retained") })
			if g.slots() != 1 {
				t.Fatal("the slot is gone before its time")
			}
			g.wal(20)
			if policy == config.RetainStop {
				g.until("the slot is released", func() bool { return g.slots() == 0 })
				g.until("the source stands before the gap", func() bool { return g.status().State == pipeline.Gap })
				if reason := g.status().Reason; !strings.Contains(reason, "trunkline resync shop") || !strings.Contains(reason, "max_retained") {
					t.Errorf("reason %q", reason)
				}
				if err := g.pipeline.Resync(t.Context(), target); err != nil {
					t.Fatal(err)
				}
				if state := g.status().State; state != pipeline.Paused {
					t.Errorf("state %s after the resync, want paused", state)
				}
			} else {
				g.until("the gap is recorded", func() bool { return strings.Contains(g.status().LastError, "more than max_retained") })
				if text := g.status().LastError; !strings.HasSuffix(text, "it reads these tables anew: public.orders") {
					t.Errorf("the tables of the gap: %s", text)
				}
				g.until("the server keeps little", func() bool { return g.status().Retained < 16<<20 })
				if state := g.status().State; state != pipeline.Paused {
					t.Errorf("state %s, want paused", state)
				}
			}
			if err := g.pipeline.Resume(t.Context(), target); err != nil {
				t.Fatal(err)
			}
			g.until("the tables are read anew", func() bool { return g.rows() == 4 })
			want := 2 // a table without a change in the gap is left alone, unless all of them are read anew
			if policy == config.RetainStop {
				want = 4
			}
			g.until("the quiet table is as it should be", func() bool { return g.written("public.quiet") == want })
			g.sql("INSERT INTO orders VALUES (5, 'after')")
			g.until("the stream goes on", func() bool { return g.rows() == 5 })
		})
	}
}

// guarded is a pipeline from one database into memory.
type guarded struct {
	t        *testing.T
	conn     *pgx.Conn
	store    *memory.Store
	pipeline *pipeline.Pipeline
}

func newGuarded(t *testing.T, url, policy string) *guarded {
	t.Helper()
	g := &guarded{t: t}
	var err error
	if g.conn, err = pgx.Connect(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.conn.Close(context.Background()) })
	space := memory.NewSpace()
	g.store = space.Store("copy")
	registry, err := connectors.NewRegistry(postgres.Connector(), space.Connector())
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf(`
sources:
  shop: {type: postgres, dsn: %q, tables: [public.orders, public.quiet], slot: guard_%s, max_retained: 32MiB, on_max_retained: %s}
sinks:
  copy: {type: memory, topics: ["shop.*"], batch: {wait: 1ms}}
`, url, policy, policy)
	c, err := config.Parse("p.yaml", []byte(text), registry, func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	c.Log.Dir = filepath.Join(t.TempDir(), "log")
	journal, err := disk.Open(c.Log.Dir, disk.Options{Defaults: log.TopicConfig{Partitions: 2}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := journal.Close(); err != nil {
			t.Error(err)
		}
	})
	if g.pipeline, err = pipeline.New(c, journal, pipeline.Options{}); err != nil {
		t.Fatal(err)
	}
	return g
}

func (g *guarded) run() {
	ctx, cancel := context.WithCancel(g.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- g.pipeline.Run(ctx) }()
	g.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			g.t.Error(err)
		}
		// The slot would hold WAL that the next subtest counts as its own.
		if _, err := g.conn.Exec(context.Background(), "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active"); err != nil {
			g.t.Log(err)
		}
	})
}

func (g *guarded) sql(statement string) {
	g.t.Helper()
	if _, err := g.conn.Exec(g.t.Context(), statement); err != nil {
		g.t.Fatal(err)
	}
}

// wal makes the server write so many MiB that concern no table.
func (g *guarded) wal(mib int) {
	g.t.Helper()
	for range mib {
		g.sql("SELECT pg_logical_emit_message(true, 'filling', repeat('x', 1048576))")
	}
}

func (g *guarded) slots() (n int) {
	g.t.Helper()
	if err := g.conn.QueryRow(g.t.Context(), "SELECT count(*) FROM pg_replication_slots WHERE database = current_database() AND slot_name LIKE 'guard_%'").Scan(&n); err != nil {
		g.t.Fatal(err)
	}
	return n
}

func (g *guarded) rows() int { return g.store.Count("public.orders") }

// written counts the rows of a table that the sink was given, again and again.
func (g *guarded) written(table string) (n int) {
	for _, e := range g.store.Log() {
		if e.Table == table {
			n++
		}
	}
	return n
}

func (g *guarded) status() pipeline.MemberStatus {
	g.t.Helper()
	s, err := g.pipeline.Status(g.t.Context())
	if err != nil {
		g.t.Fatal(err)
	}
	return s.Sources[0]
}

func (g *guarded) until(what string, cond func() bool) {
	g.t.Helper()
	deadline := time.Now().Add(guardPatience)
	for !cond() {
		if time.Now().After(deadline) {
			s := g.status()
			g.t.Fatalf("never: %s: %s, %s; warning %q; last error %q; %d bytes; %d rows", what, s.State, s.Reason, s.Warning, s.LastError, s.Retained, g.rows())
		}
		time.Sleep(20 * time.Millisecond) // between two looks at the condition
	}
}
