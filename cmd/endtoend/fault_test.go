package endtoend

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/trunkline/trunkline/connectors/postgres/localserver"
)

// newServerDatabase returns an empty database on a server of its own, which the test may restart and kill.
func newServerDatabase(t *testing.T, settings map[string]string) *database {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	server, err := localserver.Start(ctx, localserver.Options{Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	url, err := server.CreateDatabase(ctx, "source")
	if err != nil {
		t.Fatal(err)
	}
	return connectTo(t, &localserver.Database{Server: server, Name: "source", URL: url})
}

// reconnect opens the test's own connection again after the server was gone.
func (d *database) reconnect() {
	d.t.Helper()
	eventually(d.t, "the server answers", func() bool {
		conn, err := pgx.Connect(context.Background(), d.URL)
		if err == nil {
			d.conn = conn
			d.t.Cleanup(func() { conn.Close(context.Background()) })
		}
		return err == nil
	})
}

// F58: a source whose connection is cut, or whose server restarts or crashes, goes on by itself and loses nothing.
func TestSourceComesBackByItself(t *testing.T) {
	t.Parallel()
	source, target := newServerDatabase(t, nil), newDatabase(t)
	source.exec("CREATE TABLE ev (id int PRIMARY KEY)", "INSERT INTO ev VALUES (1)")
	l := follow(t, source, target, []string{"tables: [public.ev]"}, "ev")
	source.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_replication", "INSERT INTO ev VALUES (2)")
	equalRows(t, source, target, "ev")

	if err := source.Restart(context.Background()); err != nil {
		t.Fatal(err)
	}
	source.reconnect()
	source.exec("INSERT INTO ev VALUES (3)")
	equalRows(t, source, target, "ev")

	if err := source.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := source.Restart(context.Background()); err != nil {
		t.Fatal(err)
	}
	source.reconnect()
	source.exec("INSERT INTO ev VALUES (4)")
	equalRows(t, source, target, "ev")
	if code := l.stop(); code != 0 {
		t.Errorf("drain ended with %d", code)
	}
}

// A target that is away is waited for; what came meanwhile arrives once it is back.
func TestSinkComesBackByItself(t *testing.T) {
	t.Parallel()
	source, target := newDatabase(t), newServerDatabase(t, nil)
	source.exec("CREATE TABLE ev (id int PRIMARY KEY)", "INSERT INTO ev VALUES (1)")
	follow(t, source, target, []string{"tables: [public.ev]"}, "ev")
	if err := target.Kill(); err != nil {
		t.Fatal(err)
	}
	source.exec("INSERT INTO ev VALUES (2), (3)", "DELETE FROM ev WHERE id = 1")
	if err := target.Restart(context.Background()); err != nil {
		t.Fatal(err)
	}
	target.reconnect()
	equalRows(t, source, target, "ev")
}

// F10: WAL that no captured table wrote, in this database or another of the server, does not pile up behind the slot.
func TestQuietTableHoldsNoWALBack(t *testing.T) {
	t.Parallel()
	source, target := newServerDatabase(t, nil), newDatabase(t)
	source.exec("CREATE TABLE quiet (id int PRIMARY KEY)", "INSERT INTO quiet VALUES (1)", "CREATE TABLE noise (v text)")
	follow(t, source, target, []string{"tables: [public.quiet]"}, "quiet")
	url, err := source.Server.CreateDatabase(t.Context(), "elsewhere")
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := connectTo(t, &localserver.Database{Server: source.Server, Name: "elsewhere", URL: url})
	elsewhere.exec("CREATE TABLE noise (v text)")
	const held = `SELECT coalesce(max(pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn)), 0)::bigint::text FROM pg_replication_slots`
	for range 2 {
		source.exec("INSERT INTO noise SELECT repeat('n', 100) FROM generate_series(1, 50000)")
		elsewhere.exec("INSERT INTO noise SELECT repeat('n', 100) FROM generate_series(1, 50000)")
		eventually(t, "less than 1 MB of WAL is held back", func() bool {
			list := source.list(held)
			if len(list) != 1 {
				return false
			}
			n, err := strconv.Atoi(list[0])
			return err == nil && n < 1<<20
		})
		if err := source.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := source.Restart(context.Background()); err != nil {
			t.Fatal(err)
		}
		source.reconnect()
		elsewhere.reconnect()
	}
	source.exec("INSERT INTO quiet VALUES (2)")
	equalRows(t, source, target, "quiet")
}

// F04: a table whose updates the application would lose by our publication is refused by name, and nothing is changed.
func TestTableWithoutIdentityIsRefused(t *testing.T) {
	t.Parallel()
	source, target := newDatabase(t), newDatabase(t)
	source.exec("CREATE TABLE np (a int, b text)", "INSERT INTO np VALUES (1, 'x'), (1, 'x')")
	l := newLine(t, postgresSource(source, "shop", "tables: [public.np]"), postgresSink(target, "replica"))
	code, out := l.run("run", "--once")
	if code == 0 || !strings.Contains(out, "public.np") || !strings.Contains(out, "REPLICA IDENTITY") {
		t.Errorf("exit code %d: %s", code, out)
	}
	source.exec("UPDATE np SET b = 'y'")
	code, out = l.run("check", "--connect")
	if code == 0 || !strings.Contains(out, "public.np") {
		t.Errorf("check --connect: exit code %d: %s", code, out)
	}
	source.exec("ALTER TABLE np REPLICA IDENTITY FULL")
	l.once()
	source.exec("DELETE FROM np WHERE ctid = (SELECT min(ctid) FROM np)", "INSERT INTO np VALUES (2, NULL)", "UPDATE np SET b = 'z' WHERE a = 1")
	l.once()
	equalRows(t, source, target, "np")
}

// One transaction that is larger than all of our memory goes through with a flat heap. The long form has 5,000,000 rows.
func TestLargeTransactionNeedsNoMemory(t *testing.T) {
	rows := 300_000
	if os.Getenv("TRUNKLINE_SOAK") != "" {
		rows = 5_000_000
	}
	source, target := newServerDatabase(t, map[string]string{"logical_decoding_work_mem": "4MB", "max_wal_size": "16GB"}), newDatabase(t)
	source.exec("CREATE TABLE wide (id int PRIMARY KEY, v text)")
	l := follow(t, source, target, []string{"tables: [public.wide]"}, "wide")
	source.exec(fmt.Sprintf("INSERT INTO wide SELECT i, md5(i::text) || repeat('w', 150) FROM generate_series(1, %d) AS i", rows))
	deadline := time.Now().Add(20 * patience)
	for n := "0"; n != strconv.Itoa(rows); {
		if list := target.list("SELECT count(*)::text FROM wide"); len(list) == 1 {
			n = list[0]
		}
		if time.Now().After(deadline) {
			t.Fatalf("the target has %s rows of %d", n, rows)
		}
		time.Sleep(100 * time.Millisecond)
	}
	if peak := peakMemory(t, l.cmd.Process.Pid); peak > 256<<20 {
		t.Errorf("the program took %d MiB", peak>>20)
	}
}

// peakMemory returns the peak resident size of a process in bytes; zero where the system has no /proc.
func peakMemory(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if kib, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(kib), "kB")))
			if err != nil {
				t.Fatal(err)
			}
			return n << 10
		}
	}
	return 0
}
