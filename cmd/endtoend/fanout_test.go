package endtoend

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	maria "github.com/trunkline/trunkline/connectors/mysql/localserver"
	"github.com/trunkline/trunkline/pipeline"
)

const (
	fanRows = 1000      // of each table, before the load
	fanKeys = 2000      // the load's ids are from 1 to this
	fanMark = 1_000_000 // the ids of marks begin here
)

// fanSource is one of the three sources, with the one table that it has.
type fanSource struct {
	name   string
	table  string
	upsert string // what an INSERT says to a key that is there
	db     *sql.DB
	counter
}

// counter numbers versions of rows.
type counter struct {
	mu   sync.Mutex
	last int
}

func (c *counter) next() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	return c.last
}

// fill makes the table, with rows from 1 to fanRows.
func (s *fanSource) fill(t *testing.T, create string) {
	t.Helper()
	rows := make([]string, fanRows)
	for i := range rows {
		rows[i] = fmt.Sprintf("(%d, %d, 'first %[1]d')", i+1, s.next())
	}
	for _, statement := range []string{create, "INSERT INTO " + s.table + " VALUES " + strings.Join(rows, ", ")} {
		if _, err := s.db.Exec(statement); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
	}
}

// load changes rows until ctx ends: upserts and deletes of random keys, a tenth of it rolled back.
func (s *fanSource) load(ctx context.Context) error {
	for ctx.Err() == nil {
		ids := rand.Perm(fanKeys)[:7]
		var rows []string
		for _, id := range ids[:6] {
			note := "NULL"
			if id%5 > 0 {
				note = "'" + strings.Repeat(strconv.Itoa(id)+" ä ", 40) + "'"
			}
			rows = append(rows, fmt.Sprintf("(%d, %d, %s)", id+1, s.next(), note))
		}
		tx, err := s.db.Begin()
		if err != nil {
			return err
		}
		for _, statement := range []string{"INSERT INTO " + s.table + " (id, n, note) VALUES " + strings.Join(rows, ", ") + s.upsert,
			fmt.Sprintf("DELETE FROM %s WHERE id = %d", s.table, ids[6]+1)} {
			if _, err := tx.Exec(statement); err != nil {
				return errors.Join(err, tx.Rollback())
			}
		}
		if rand.IntN(10) == 0 {
			err = tx.Rollback()
		} else {
			err = tx.Commit()
		}
		if err != nil {
			return err
		}
		time.Sleep(100 * time.Millisecond) // a steady load and not as much as the machine gives
	}
	return nil
}

// fan is the whole: three sources, the stores, and the program between them.
type fan struct {
	t       *testing.T
	l       *line
	pg      *database
	maria   *sql.DB
	wal     *countingProxy
	binlog  *countingProxy
	sources []*fanSource
	stores  []copied
	redis   interface{ Pid() int }
	broker  *folded
	marks   int
	kills   int
}

func newFan(t *testing.T) *fan {
	t.Helper()
	f := &fan{t: t, pg: newServerDatabase(t, map[string]string{"fsync": "off"})}
	server := maria.StartForTest(t, maria.Options{Unsafe: true, Settings: map[string]string{"userstat": "1", "binlog-annotate-row-events": "0"}})
	if _, err := server.CreateDatabase(t.Context(), "billing"); err != nil {
		t.Fatal(err)
	}
	var err error
	if f.maria, err = server.Open("billing", "charset=utf8mb4"); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	tills := filepath.Join(dir, "tills.db")
	lite := sql.OpenDB(sqliteFile("file:" + tills + "?_pragma=busy_timeout(30000)&_pragma=journal_mode(wal)"))
	config, err := pgx.ParseConfig(f.pg.URL)
	if err != nil {
		t.Fatal(err)
	}
	const conflict = " ON CONFLICT (id) DO UPDATE SET n = excluded.n, note = excluded.note"
	f.sources = []*fanSource{{name: "shop", table: "orders", upsert: conflict, db: stdlib.OpenDB(*config)},
		{name: "billing", table: "invoices", upsert: " ON DUPLICATE KEY UPDATE n = VALUES(n), note = VALUES(note)", db: f.maria},
		{name: "tills", table: "receipts", upsert: conflict, db: lite}}
	for _, s := range f.sources {
		t.Cleanup(func() { s.db.Close() })
		s.fill(t, "CREATE TABLE "+s.table+" (id bigint PRIMARY KEY, n bigint NOT NULL, note text)")
	}
	var wal, binlog string
	f.wal, wal = countReads(t, f.pg.URL, walReader)
	f.binlog, binlog = countReads(t, server.DSN("billing"), binlogReader)
	f.openStores(dir)
	sinks := ""
	for _, s := range f.stores {
		sinks += s.config
	}
	f.l = newLineOn(t, "  topics: {partitions: 2}\n",
		fmt.Sprintf("  shop:\n    type: postgres\n    dsn: %q\n    mode: cdc\n    heartbeat: 1s\n    tables: [public.orders]\n", wal)+
			fmt.Sprintf("  billing:\n    type: mysql\n    dsn: %q\n    mode: cdc\n    heartbeat: 1s\n    tables: [billing.invoices]\n", binlog)+
			fmt.Sprintf("  tills:\n    type: sqlite\n    path: %q\n    tables: [{name: receipts, cursor: n}]\n    poll: 200ms\n    deletes: detect\n    deletes_every: 2s\n", tills), sinks)
	return f
}

// openStores starts the nine stores.
func (f *fan) openStores(dir string) {
	f.t.Helper()
	warehouse, reports := newDatabase(f.t), newMaria(f.t)
	config, err := pgx.ParseConfig(warehouse.URL)
	if err != nil {
		f.t.Fatal(err)
	}
	db := stdlib.OpenDB(*config)
	f.t.Cleanup(func() { db.Close() })
	path := filepath.Join(dir, "lite.db")
	cache, redis := redisCopy(f.t)
	partners, broker := kafkaCopy(f.t)
	f.redis, f.broker = redis, broker
	f.stores = []copied{
		{"warehouse", fanSink("warehouse", "postgres", fmt.Sprintf("dsn: %q", warehouse.URL), `table: "public.{table}"`), relational(db)},
		{"reports", fanSink("reports", "mysql", fmt.Sprintf("dsn: %q", reports.URL), fmt.Sprintf("table: %q", reports.Name+".{table}")), relational(reports.pool)},
		{"lite", fanSink("lite", "sqlite", fmt.Sprintf("path: %q", path)), relational(openSQLite(f.t, path))},
		cache, clickhouseCopy(f.t), searchCopy(f.t), parquetCopy(f.t, filepath.Join(dir, "lake")), webCopy(f.t), partners,
	}
}

// mark adds a row to each source and returns its id.
func (f *fan) mark() int {
	f.t.Helper()
	f.marks++
	id := fanMark + f.marks
	for _, s := range f.sources {
		if _, err := s.db.Exec(fmt.Sprintf("INSERT INTO %s VALUES (%d, %d, 'mark')", s.table, id, s.next())); err != nil {
			f.t.Fatalf("%s: %v", s.name, err)
		}
	}
	return id
}

// arrives waits until a mark of every source is in the named stores; none: in all.
func (f *fan) arrives(id int, names ...string) {
	f.t.Helper()
	for _, store := range f.stores {
		if len(names) > 0 && !slices.Contains(names, store.name) {
			continue
		}
		for _, s := range f.sources {
			f.patiently(fmt.Sprintf("mark %d of %s is in %s", id, s.name, store.name), func() bool { return len(store.rows(s.table, id)) > 0 })
		}
	}
}

// patiently is eventually for questions that cost a store something.
func (f *fan) patiently(what string, condition func() bool) {
	f.t.Helper()
	deadline := time.Now().Add(patience)
	for !condition() {
		if time.Now().After(deadline) {
			f.t.Fatalf("after %v still not: %s", patience, what)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// kill ends the program with SIGKILL at a moment that is nobody's choice, and starts it again.
func (f *fan) kill() {
	f.t.Helper()
	time.Sleep(rand.N(2 * time.Second)) // in the middle of whatever is under way
	f.l.kill()
	f.kills++
	f.l.start()
}

// equal waits until each store holds the rows of each source.
func (f *fan) equal() {
	f.t.Helper()
	for _, s := range f.sources {
		want := relational(s.db)(s.table, 0)
		if len(want) == 0 {
			f.t.Fatalf("%s has no rows", s.name)
		}
		for _, store := range f.stores {
			var got []string
			deadline := time.Now().Add(patience)
			for !slices.Equal(got, want) {
				if time.Now().After(deadline) {
					f.t.Fatalf("%s: %d rows of %s in the source, %d in the store; first difference: %s", store.name, len(want), s.table, len(got), firstDifference(want, got))
				}
				if got = store.rows(s.table, 0); !slices.Equal(got, want) {
					time.Sleep(200 * time.Millisecond)
				}
			}
		}
	}
}

// TestFanOut runs three sources into nine sinks in one configuration under load, and kills the program at random moments.
// All stores are equal at the end; each source was read once, as it counts itself; and while one store accepts
// everything and answers nothing (F45), the others get what comes. It takes two minutes; TRUNKLINE_SOAK=1 runs the long form:
// kills for nine minutes, or as long as it says (20m), and a minute of silence.
func TestFanOut(t *testing.T) {
	t.Parallel()
	silence, length := 8*time.Second, 80*time.Second
	if soak := os.Getenv("TRUNKLINE_SOAK"); soak != "" {
		silence, length = time.Minute, 9*time.Minute
		if d, err := time.ParseDuration(soak); err == nil {
			length = d
		}
	}
	f := newFan(t)
	f.l.start()
	for _, s := range f.sources {
		for _, store := range f.stores {
			f.patiently("the snapshot of "+s.name+" is in "+store.name, func() bool { return len(store.rows(s.table, 0)) == fanRows })
		}
	}
	f.snapshotsWereReadOnce()
	reads := f.beginToCount()
	stop := f.startLoad()
	for begin, round := time.Now(), 0; round < 2 || time.Since(begin) < length; round++ {
		f.arrives(f.mark(), "hook", "partners")
		f.kill()
	}
	f.oneIsSilent(silence)
	f.kill()
	stop()
	f.arrives(f.mark(), "hook", "partners")
	f.equal()
	reads.wereOne()
	f.logHasEachOnce()
	if code := f.l.stop(); code != 0 {
		t.Errorf("a clean drain ended with %d", code)
	}
}

// startLoad writes into all sources until the function is called that it returns.
func (f *fan) startLoad() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var writers sync.WaitGroup
	for _, s := range f.sources {
		writers.Go(func() {
			if err := s.load(ctx); err != nil {
				f.t.Errorf("load of %s: %v", s.name, err)
			}
		})
	}
	f.t.Cleanup(cancel)
	return func() {
		cancel()
		writers.Wait()
	}
}

// oneIsSilent stops Redis, whose connections stay open and are still accepted, for a while. What is written meanwhile comes
// to all others, the sources hear that it is durable, and the silent one shows how far it is behind, and goes on by itself.
func (f *fan) oneIsSilent(silence time.Duration) {
	f.t.Helper()
	var others []string
	for _, s := range f.stores {
		if s.name != "cache" {
			others = append(others, s.name)
		}
	}
	f.arrives(f.mark()) // so every sink is open
	if err := syscall.Kill(f.redis.Pid(), syscall.SIGSTOP); err != nil {
		f.t.Fatal(err)
	}
	defer func() { // a server that stands still does not end either
		if err := syscall.Kill(f.redis.Pid(), syscall.SIGCONT); err != nil {
			f.t.Error(err)
		}
	}()
	begin := time.Now()
	confirmed := func() string {
		return strings.Join(f.pg.list("SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name <> 'control'"), " ")
	}
	killed := false
	for round := 0; round < 2 || time.Since(begin) < silence; round++ {
		before := confirmed()
		f.arrives(f.mark(), others...)
		f.patiently("the slot moves on", func() bool { return confirmed() != before })
		metrics := []string{"trunkline_sink_lag_rows", "trunkline_sink_write_seconds"}
		if killed {
			metrics = metrics[:1] // it can't be opened now, so nothing is being written
		}
		for _, metric := range metrics {
			f.patiently("the silent sink shows in "+metric, func() bool {
				n, err := strconv.ParseFloat(f.l.metric(metric, "cache"), 64)
				if err != nil || n > 0 {
					return err == nil
				}
				// On a slow machine the write has been given up by now, and the store does not answer the next attempt either.
				return metric == "trunkline_sink_write_seconds" && (stateOf(f.l, "cache") == pipeline.Opening || stateOf(f.l, "cache") == pipeline.Retrying)
			})
		}
		if !killed {
			f.kill()
			killed = true
		}
	}
}
