package endtoend

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"modernc.org/sqlite"
)

// TestExtractIsKilledAndChangesItsMode reads a table by its cursor under a mixed load with deletes, is killed with -9, goes
// on by logical replication, is killed again, and comes back to the cursor. The target has every row and no other.
func TestExtractIsKilledAndChangesItsMode(t *testing.T) {
	t.Parallel()
	source, target := newDatabase(t), newDatabase(t)
	source.exec("CREATE TABLE item (id bigint PRIMARY KEY, n int NOT NULL, note text, big text, at timestamptz NOT NULL DEFAULT clock_timestamp())",
		"CREATE INDEX ON item (at)",
		"CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.at := clock_timestamp(); RETURN NEW; END'",
		"CREATE TRIGGER touch BEFORE UPDATE ON item FOR EACH ROW EXECUTE FUNCTION touch()",
		"INSERT INTO item SELECT i, i, 'note ' || i FROM generate_series(1, 30000) AS i")
	by := func(mode string) string {
		return fmt.Sprintf("  shop:\n    type: postgres\n    dsn: %q\n    mode: %s\n    slot: %s\n    heartbeat: 1s\n    poll: 50ms\n    deletes: detect\n    deletes_every: 100ms\n"+
			"    tables: [{name: public.item, cursor: at}]\n", source.URL, mode, slotOf(source))
	}
	sink := postgresSink(target, "replica")
	l := newLine(t, by("timestamp"), sink)
	l.start()
	eventually(t, "the first extract is in the target", func() bool { return len(target.list("SELECT 'x' FROM item")) == 30000 })
	ctx, stop := context.WithCancel(context.Background())
	load := make(chan error, 1)
	last := 30000
	go func() { load <- mixedLoad(ctx, source.URL, &last) }()
	for _, mode := range []string{"timestamp", "cdc", "cdc", "timestamp", "timestamp"} {
		before := count(target)
		eventually(t, "changes arrive before the change to "+mode, func() bool { return count(target) > before+100 })
		l.kill()
		l.configure(by(mode), sink)
		l.start()
	}
	stop()
	if err := <-load; err != nil {
		t.Fatal(err)
	}
	equalRows(t, source, target, "item")
	if code := l.stop(); code != 0 {
		t.Errorf("a clean drain ended with %d", code)
	}
}

// TestMariaDBExtractIsKilledAndChangesItsMode does the same by the binary log of MariaDB.
func TestMariaDBExtractIsKilledAndChangesItsMode(t *testing.T) {
	t.Parallel()
	source, target := newMaria(t), newMaria(t)
	source.exec("CREATE TABLE item (id bigint PRIMARY KEY, n int NOT NULL, note varchar(50), price decimal(10,2), at timestamp(6) NOT NULL DEFAULT NOW(6) ON UPDATE NOW(6), KEY (at, id))",
		"INSERT INTO item (id, n, note, price) SELECT seq, seq, CONCAT('note ', seq), seq / 7 FROM seq_1_to_20000")
	by := func(mode string) string {
		return fmt.Sprintf("  shop:\n    type: mysql\n    dsn: %q\n    mode: %s\n    heartbeat: 1s\n    poll: 50ms\n    deletes: detect\n    deletes_every: 100ms\n"+
			"    tables: [{name: %s.item, cursor: at}]\n", source.URL, mode, source.Name)
	}
	l := newLine(t, by("timestamp"), target.sink("replica"))
	l.start()
	eventually(t, "the first extract is in the target", func() bool { return len(target.list("SELECT 'x' FROM item")) == 20000 })
	ctx, stop := context.WithCancel(context.Background())
	load := make(chan error, 1)
	last := 20000
	go func() { load <- mariaLoad(ctx, source.pool, &last) }()
	for _, mode := range []string{"timestamp", "cdc", "cdc", "timestamp", "timestamp"} {
		count := func() int { return len(target.list("SELECT 'x' FROM item WHERE id > 20000")) }
		before := count()
		eventually(t, "changes arrive before the change to "+mode, func() bool { return count() > before+100 })
		l.kill()
		l.configure(by(mode), target.sink("replica"))
		l.start()
	}
	stop()
	if err := <-load; err != nil {
		t.Fatal(err)
	}
	wantSame(t, "item", func() []string { return source.list(mariaItems) }, func() []string { return target.list(mariaItems) })
	if code := l.stop(); code != 0 {
		t.Errorf("a clean drain ended with %d", code)
	}
}

// TestScheduledExtract runs by its schedule, and when it is asked; its status names the next run.
func TestScheduledExtract(t *testing.T) {
	t.Parallel()
	source, target := newDatabase(t), newDatabase(t)
	source.exec("CREATE TABLE ev (id int PRIMARY KEY)", "INSERT INTO ev VALUES (1)")
	by := func(schedule string) string {
		return fmt.Sprintf("  shop:\n    type: postgres\n    dsn: %q\n    mode: timestamp\n    schedule: %q\n    tables: [{name: public.ev, cursor: id}]\n", source.URL, schedule)
	}
	l := newLine(t, by("@every 1s"), postgresSink(target, "replica"))
	l.start()
	equalRows(t, source, target, "ev")
	source.exec("INSERT INTO ev VALUES (2)")
	equalRows(t, source, target, "ev")
	if code := l.stop(); code != 0 {
		t.Errorf("a clean drain ended with %d", code)
	}
	l.configure(by("CRON_TZ=UTC 0 0 1 1 *"), postgresSink(target, "replica"))
	source.exec("INSERT INTO ev VALUES (3)")
	l.start()
	eventually(t, "the status names the next run", func() bool {
		_, out := l.run("status")
		return strings.Contains(out, "next run at "+time.Date(time.Now().UTC().Year()+1, 1, 1, 0, 0, 0, 0, time.UTC).Local().Format(time.DateTime))
	})
	if n := len(target.list("SELECT 'x' FROM ev")); n != 2 {
		t.Fatalf("%d rows before the next run, want 2", n)
	}
	l.kill()
	l.once()
	equalRows(t, source, target, "ev")
}

// extracts are three sources by a cursor, one for each database: pg, my and lite.
func extracts(pg *database, my *mariaDatabase, pgTable, myTable, liteTable string) string {
	return fmt.Sprintf("  pg:\n    type: postgres\n    dsn: %q\n    mode: timestamp\n    poll: 50ms\n    settle: 0s\n    tables: [%s]\n"+
		"  my:\n    type: mysql\n    dsn: %q\n    mode: timestamp\n    poll: 50ms\n    tables: [%s]\n"+
		"  lite:\n    type: sqlite\n    path: DIR/lite.db\n    poll: 50ms\n    tables: [%s]\n", pg.URL, pgTable, my.URL, myTable, liteTable)
}

// liteFile is a SQLite file in the folder of a line.
func liteFile(t *testing.T, l *line, statements ...string) func(string) {
	t.Helper()
	db := sql.OpenDB(liteName("file:" + filepath.Join(l.dir, "lite.db") + "?_pragma=busy_timeout(60000)"))
	t.Cleanup(func() { db.Close() })
	exec := func(statement string) {
		t.Helper()
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range statements {
		exec(s)
	}
	return exec
}

type liteName string

func (n liteName) Connect(context.Context) (driver.Conn, error) { return n.Driver().Open(string(n)) }
func (n liteName) Driver() driver.Driver                        { return &sqlite.Driver{} }

// TestExtractsDoNotCareForTheZoneOfTheProcess runs far from the zones of the databases, east and west of them: rows that are
// stamped now come at once, and every moment is the same in the target.
func TestExtractsDoNotCareForTheZoneOfTheProcess(t *testing.T) {
	t.Parallel()
	for _, zone := range []string{"Asia/Tokyo", "Pacific/Honolulu"} {
		t.Run(zone, func(t *testing.T) {
			t.Parallel()
			pg, my, target := newDatabase(t), newMaria(t), newDatabase(t)
			pg.exec("ALTER DATABASE "+pg.Name+" SET timezone = 'America/New_York'", "CREATE TABLE pe (id int PRIMARY KEY, at timestamptz NOT NULL DEFAULT now(), plain timestamp NOT NULL DEFAULT (now() AT TIME ZONE 'America/New_York'))")
			my.exec("CREATE TABLE me (id int PRIMARY KEY, at timestamp(6) NOT NULL DEFAULT NOW(6), plain datetime(6) NOT NULL DEFAULT NOW(6))")
			l := newLine(t, extracts(pg, my, "{name: public.pe, cursor: plain}", "{name: "+my.Name+".me, cursor: plain}", "{name: le, cursor: at}"), postgresSink(target, "replica", `table: "public.{table}"`))
			l.zone = zone
			lite := liteFile(t, l, "CREATE TABLE le (id INTEGER PRIMARY KEY, at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP)")
			insert := func(id int) {
				pg.exec(fmt.Sprintf("INSERT INTO pe (id) VALUES (%d)", id))
				my.exec(fmt.Sprintf("INSERT INTO me (id) VALUES (%d)", id))
				lite(fmt.Sprintf("INSERT INTO le (id) VALUES (%d)", id))
			}
			insert(1)
			l.start()
			for n := 1; n <= 3; n++ {
				for _, table := range []string{"pe", "me", "le"} {
					eventually(t, fmt.Sprintf("row %d of %s", n, table), func() bool { return len(target.list("SELECT 'x' FROM "+table)) == n })
				}
				insert(n + 1)
			}
			const text = "SELECT id || ' ' || to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US') || ' ' || plain FROM %s WHERE id < 4 ORDER BY id"
			wantSame(t, "PostgreSQL", func() []string { return pg.list(fmt.Sprintf(text, "pe")) }, func() []string { return target.list(fmt.Sprintf(text, "pe")) })
			wantSame(t, "MariaDB", func() []string {
				return my.list("SELECT CONCAT(id, ' ', CONVERT_TZ(at, @@session.time_zone, '+00:00'), ' ', plain) FROM me WHERE id < 4 ORDER BY id")
			}, func() []string {
				return target.list("SELECT id || ' ' || to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US') || ' ' || to_char(plain, 'YYYY-MM-DD HH24:MI:SS.US') FROM me WHERE id < 4 ORDER BY id")
			})
		})
	}
}

// TestRowsThatWaitAreCounted: those above a transaction that is open, until it has ended. With SQLite's one writer none waits.
func TestRowsThatWaitAreCounted(t *testing.T) {
	t.Parallel()
	pg, my, target := newDatabase(t), newMaria(t), newDatabase(t)
	pg.exec("CREATE TABLE pe (id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, v text, at timestamptz NOT NULL DEFAULT clock_timestamp())")
	my.exec("CREATE TABLE me (id bigint AUTO_INCREMENT PRIMARY KEY, v text, at timestamp(6) NOT NULL DEFAULT NOW(6))")
	l := newLine(t, extracts(pg, my, "{name: public.pe, cursor: at, key: [id], query: SELECT * FROM public.pe}", "{name: "+my.Name+".me, cursor: at}", "{name: le, cursor: id}"),
		postgresSink(target, "replica", `table: "public.{table}"`))
	liteFile(t, l, "CREATE TABLE le (id INTEGER PRIMARY KEY AUTOINCREMENT, v TEXT)", "INSERT INTO le VALUES (1, 'a')")
	l.start()
	waiting := func(source string, n int) bool {
		response, err := http.Get("http://" + l.http + "/metrics")
		if err != nil {
			return false
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		return err == nil && strings.Contains(string(text), fmt.Sprintf("trunkline_source_waiting_rows{source=%q} %d\n", source, n))
	}
	eventually(t, "SQLite's row", func() bool { return len(target.list("SELECT 'x' FROM le")) == 1 })
	for _, source := range []string{"pg", "my", "lite"} {
		eventually(t, "no row of "+source+" waits", func() bool { return waiting(source, 0) })
	}
	late, err := pgx.Connect(t.Context(), pg.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close(context.Background())
	if _, err := late.Exec(t.Context(), "BEGIN; INSERT INTO pe (v) VALUES ('late')"); err != nil {
		t.Fatal(err)
	}
	tx, err := my.pool.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.Exec("INSERT INTO me (v) VALUES ('late')"); err != nil {
		t.Fatal(err)
	}
	pg.exec("INSERT INTO pe (v) VALUES ('b'), ('c')")
	my.exec("INSERT INTO me (v) VALUES ('b'), ('c'), ('d')")
	eventually(t, "two rows of PostgreSQL wait", func() bool { return waiting("pg", 2) })
	eventually(t, "three rows of MariaDB wait", func() bool { return waiting("my", 3) })
	if _, err := late.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	for table, n := range map[string]int{"pe": 3, "me": 4} {
		eventually(t, "all rows of "+table, func() bool { return len(target.list("SELECT 'x' FROM "+table)) == n })
	}
	for _, source := range []string{"pg", "my"} {
		eventually(t, "no row of "+source+" waits any more", func() bool { return waiting(source, 0) })
	}
}
