package endtoend

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trunkline/trunkline/connectors/conformance"
	maria "github.com/trunkline/trunkline/connectors/mysql/localserver"
)

// mariaDatabase is an empty database of MariaDB with a connection for the test's own statements.
type mariaDatabase struct {
	*maria.Database
	t    *testing.T
	pool *sql.DB
}

func newMaria(t *testing.T) *mariaDatabase {
	t.Helper()
	db := maria.ForTest(t)
	pool, err := db.Open(db.Name, "charset=utf8mb4")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	return &mariaDatabase{db, t, pool}
}

func (d *mariaDatabase) exec(statements ...string) {
	d.t.Helper()
	for _, s := range statements {
		if _, err := d.pool.Exec(s); err != nil {
			d.t.Fatalf("%s: %v", s, err)
		}
	}
}

// list returns the first column of a query, nil if the query fails (a table that is not there yet).
func (d *mariaDatabase) list(query string) []string {
	rows, err := d.pool.Query(query)
	if err != nil {
		return nil
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var s string
		if rows.Scan(&s) != nil {
			return nil
		}
		out = append(out, s)
	}
	return out
}

func (d *mariaDatabase) source(name string, more ...string) string {
	return fmt.Sprintf("  %s:\n    type: mysql\n    dsn: %q\n    mode: cdc\n    heartbeat: 1s\n    tables: [\"%s.*\"]\n%s", name, d.URL, d.Name, settings(more))
}

func (d *mariaDatabase) sink(name string, more ...string) string {
	return fmt.Sprintf("  %s:\n    type: mysql\n    dsn: %q\n    topics: [\"*\"]\n    table: %q\n%s", name, d.URL, d.Name+".{table}", settings(more))
}

// wantSame waits until two lists are the same.
func wantSame(t *testing.T, what string, want, got func() []string) {
	t.Helper()
	var a, b []string
	deadline := time.Now().Add(patience)
	for {
		a, b = want(), got()
		if a != nil && slices.Equal(a, b) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %d rows in the source, %d in the target; first difference: %s", what, len(a), len(b), firstDifference(a, b))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

const mariaItems = "SELECT CONCAT_WS('|', id, n, COALESCE(note, 'NULL'), COALESCE(price, 'NULL')) FROM item ORDER BY id"

// TestMariaDBKilledThreeTimes takes a snapshot of 20,000 rows from MariaDB into MariaDB, PostgreSQL and files, then kills
// the daemon with -9 three times under a mixed load.
func TestMariaDBKilledThreeTimes(t *testing.T) {
	t.Parallel()
	source, target, other := newMaria(t), newMaria(t), newDatabase(t)
	source.exec("CREATE TABLE item (id bigint PRIMARY KEY, n int NOT NULL, note varchar(50) CHARACTER SET latin1, price decimal(10,2))",
		"INSERT INTO item SELECT seq, seq, CONCAT('nöte ', seq), seq / 7 FROM seq_1_to_20000")
	l := newLine(t, source.source("shop"), target.sink("replica")+postgresSink(other, "elsewhere", `table: "public.{table}"`)+fileSink)
	l.start()
	eventually(t, "the snapshot is in the target", func() bool { return len(target.list("SELECT 'x' FROM item")) == 20000 })
	ctx, stop := context.WithCancel(context.Background())
	load := make(chan error, 1)
	last := 20000
	go func() { load <- mariaLoad(ctx, source.pool, &last) }()
	for range 3 {
		count := func() int { return len(target.list("SELECT 'x' FROM item WHERE id > 20000")) }
		before := count()
		eventually(t, "changes arrive", func() bool { return count() > before+200 })
		l.kill()
		l.start()
	}
	stop()
	if err := <-load; err != nil {
		t.Fatal(err)
	}
	source.exec("INSERT INTO item VALUES (-1, 0, 'the last one', NULL)")
	rows := func() []string { return source.list(mariaItems) }
	wantSame(t, "MariaDB", rows, func() []string { return target.list(mariaItems) })
	wantSame(t, "PostgreSQL", rows, func() []string {
		return other.list("SELECT concat_ws('|', id, n, coalesce(note, 'NULL'), coalesce(price::text, 'NULL')) FROM item ORDER BY id")
	})
	key := func(id int) string { return fmt.Sprintf(`shop.%s.item {"id":%d}`, source.Name, id) }
	eventually(t, "the archive has the last row", func() bool { return readArchive(t, filepath.Join(l.dir, "archive")).inserts[key(-1)] == 1 })
	if code := l.stop(); code != 0 {
		t.Errorf("a clean drain ended with %d", code)
	}
	a := readArchive(t, filepath.Join(l.dir, "archive"))
	for at, n := range a.places {
		if n != 1 {
			t.Errorf("%s stands %d times in the archive", at, n)
		}
	}
	for id := 1; id <= last; id++ {
		if n := a.inserts[key(id)]; n != 1 {
			t.Fatalf("the insert of id %d stands %d times in the archive", id, n)
		}
	}
}

// mariaLoad inserts ids above 20,000 without a hole, updates, deletes and rolls back, until ctx ends. last becomes the last
// id that was committed.
func mariaLoad(ctx context.Context, pool *sql.DB, last *int) error {
	for ctx.Err() == nil {
		first, n := *last+1, 1+rand.IntN(20)
		var values []string
		for id := first; id < first+n; id++ {
			values = append(values, fmt.Sprintf("(%d, %[1]d, 'new', 1.5)", id))
		}
		tx, err := pool.Begin()
		if err != nil {
			return err
		}
		for _, statement := range []string{"INSERT INTO item (id, n, note, price) VALUES " + strings.Join(values, ", "),
			fmt.Sprintf("UPDATE item SET n = n + 1 WHERE id %% 997 = %d", rand.IntN(997)), fmt.Sprintf("DELETE FROM item WHERE id = %d", 1+rand.IntN(first))} {
			if _, err := tx.Exec(statement); err != nil {
				return err
			}
		}
		if rand.IntN(10) == 0 {
			err = tx.Rollback()
		} else if err = tx.Commit(); err == nil {
			*last = first + n - 1
		}
		if err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

// PostgreSQL's types find a place in MariaDB, and keep their text there.
func TestPostgresIntoMariaDB(t *testing.T) {
	t.Parallel()
	source, target := newDatabase(t), newMaria(t)
	source.exec(`CREATE TABLE kinds (k text PRIMARY KEY, b bool, i int, big bigint, n numeric(20,5), any_n numeric, f float8, d date, ts timestamp, tz timestamptz, u uuid, j jsonb, a int[], data bytea)`,
		`INSERT INTO kinds VALUES ('a', true, -5, 9007199254740993, 1.10, 1.10, 0.1, '2026-01-30', '2026-01-30 12:34:56.123456', '2026-01-30 12:34:56+05',
		'123e4567-e89b-12d3-a456-426655440000', '{"n": 1234567890123456789}', '{1,NULL,3}', '\x00ff'), ('A ', false, NULL, NULL, NULL, 'NaN', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)`)
	l := newLine(t, postgresSource(source, "shop", "tables: [public.kinds]"), target.sink("replica"))
	l.once()
	source.exec("UPDATE kinds SET i = 7 WHERE k = 'A '", "INSERT INTO kinds (k, f) VALUES ('bad', 'Infinity')")
	l.once()
	got := target.list("SELECT CONCAT_WS('|', BINARY k, b, i, big, n, BINARY any_n, f, d, ts, tz, CAST(u AS CHAR), BINARY j, BINARY a, HEX(data)) FROM kinds ORDER BY k")
	want := []string{"A |0|7|NaN", `a|1|-5|9007199254740993|1.10000|1.10|0.1|2026-01-30|2026-01-30 12:34:56.123456|2026-01-30 07:34:56.000000|123e4567-e89b-12d3-a456-426655440000|{"n": 1234567890123456789}|[1,null,3]|00FF`}
	if !slices.Equal(got, want) {
		t.Errorf("the target has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if code, out := l.run("consume", "_trunkline.deadletters.replica", "--from", "earliest"); code != 0 || !strings.Contains(out, "Infinity") {
		t.Errorf("dead letters: %d %s", code, out)
	}
}

// F58: a source whose dump thread is killed, whose connection falls silent, or whose server restarts or crashes, goes on by itself and loses nothing.
func TestMariaDBSourceComesBackByItself(t *testing.T) {
	t.Parallel()
	server := maria.StartForTest(t, maria.Options{})
	url, err := server.CreateDatabase(context.Background(), "source")
	if err != nil {
		t.Fatal(err)
	}
	pool, err := server.Open("source", "charset=utf8mb4")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	source := &mariaDatabase{&maria.Database{Server: server, Name: "source", URL: url}, t, pool}
	target := newMaria(t)
	source.exec("CREATE TABLE ev (id int PRIMARY KEY)", "INSERT INTO ev VALUES (1)")
	direct := fmt.Sprintf("127.0.0.1:%d", server.Port())
	proxy := conformance.NewProxy(t, direct)
	config := strings.Replace(source.source("shop", "silence: 2s"), direct, proxy.Addr(), 1)
	if !strings.Contains(config, proxy.Addr()) {
		t.Fatal("the source goes past the proxy")
	}
	l := newLine(t, config, target.sink("replica"))
	l.start()
	ids := func(d *mariaDatabase) func() []string {
		return func() []string { return d.list("SELECT id FROM ev ORDER BY id") }
	}
	wantSame(t, "snapshot", ids(source), ids(target))
	dumps := source.list("SELECT ID FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog Dump%'")
	if len(dumps) != 1 {
		t.Fatalf("%d threads send the binary log", len(dumps))
	}
	source.exec("KILL "+dumps[0], "INSERT INTO ev VALUES (2)")
	wantSame(t, "after the thread was killed", ids(source), ids(target))
	proxy.Silence(true) // what is under way now never arrives, and nobody hears of it
	source.exec("INSERT INTO ev VALUES (3)")
	eventually(t, "the silence is noticed", func() bool {
		out, err := os.ReadFile(l.output)
		return err == nil && strings.Contains(string(out), "the server has said nothing for 2s")
	})
	source.exec("INSERT INTO ev VALUES (4)")
	proxy.Silence(false)
	wantSame(t, "after a silence", ids(source), ids(target))
	for _, how := range []string{"shutdown", "crash"} {
		if how == "crash" {
			if err := server.Kill(); err != nil {
				t.Fatal(err)
			}
		}
		if err := server.Restart(context.Background()); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the server answers", func() bool { return pool.Ping() == nil })
		source.exec("INSERT INTO ev SELECT MAX(id) + 1 FROM ev")
		wantSame(t, "after a "+how, ids(source), ids(target))
	}
	if code := l.stop(); code != 0 {
		t.Errorf("a clean drain ended with %d", code)
	}
}
