package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/trunkline/trunkline/connectors/mysql/localserver"
)

// zoneServer has the zone Test/Fall, whose clocks went back from 03:00 (+02:00) to 02:00 (+01:00) at 01:00 UTC of 2026-10-25, and
// forth from 02:00 (+01:00) to 03:00 (+02:00) at 01:00 UTC of 2026-03-29.
func zoneServer(t *testing.T) *localserver.Server {
	t.Helper()
	server := localserver.StartForTest(t, localserver.Options{Unsafe: true})
	db, err := server.Open("mysql", "multiStatements=true")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	spring, fall := time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC).Unix(), time.Date(2026, 10, 25, 1, 0, 0, 0, time.UTC).Unix()
	for _, statement := range []string{"INSERT INTO time_zone VALUES (900, 'N')", "INSERT INTO time_zone_name VALUES ('Test/Fall', 900)",
		"INSERT INTO time_zone_transition_type VALUES (900, 0, 7200, 1, 'S'), (900, 1, 3600, 0, 'W')",
		fmt.Sprintf("INSERT INTO time_zone_transition VALUES (900, 0, 1), (900, %d, 0), (900, %d, 1)", spring, fall), "SET GLOBAL time_zone = 'Test/Fall'"} {
		if _, err := db.Exec(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	return server
}

// What is open for longer than the wall says, because the clocks went back meanwhile, is as old as it is; and a bound on the wall
// is never above the one of its instant.
func TestAgesAreTrueThroughAChangeOfTheZone(t *testing.T) {
	t.Parallel()
	server := zoneServer(t)
	e, err := address{dsn: server.DSN("mysql")}.endpoint()
	if err != nil {
		t.Fatal(err)
	}
	db, err := e.pool()
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, c := range []struct {
		now         string        // UTC
		age         time.Duration // of the bound
		wall        float64       // seconds between the times on the wall
		least, most float64       // that have passed
		safe        string
		onWall      string
	}{
		{now: "2026-06-01 12:00:00", wall: 90, least: 90, most: 90, age: 90 * time.Second, safe: "2026-06-01 11:58:30.000000", onWall: "2026-06-01 13:58:30.000000"},
		{now: "2026-06-01 12:00:00", wall: -0.5, least: 0, most: 0, safe: "2026-06-01 12:00:00.000000", onWall: "2026-06-01 14:00:00.000000"},
		{now: "2026-10-25 01:10:00", wall: 20*60 - 3600, least: 20 * 60, most: 20 * 60, age: 20 * time.Minute, safe: "2026-10-25 00:50:00.000000", onWall: "2026-10-25 01:50:00.000000"},
		{now: "2026-10-25 01:10:00", wall: 60, least: 60, most: 3660, age: time.Minute, safe: "2026-10-25 01:09:00.000000", onWall: "2026-10-25 02:09:00.000000"},
		{now: "2026-10-25 02:30:00", wall: 100*60 - 3600, least: 100 * 60, most: 100 * 60, age: 100 * time.Minute, safe: "2026-10-25 00:50:00.000000", onWall: "2026-10-25 01:50:00.000000"},
		{now: "2026-03-29 01:10:00", wall: 20*60 + 3600, least: 20 * 60, most: 20*60 + 3600, age: 20 * time.Minute, safe: "2026-03-29 00:50:00.000000", onWall: "2026-03-29 01:50:00.000000"},
	} {
		t.Run(fmt.Sprintf("%s %gs", c.now, c.wall), func(t *testing.T) {
			for _, s := range []string{"SET time_zone = '+00:00'", "SET timestamp = UNIX_TIMESTAMP('" + c.now + "')", "SET time_zone = 'Test/Fall'"} {
				if _, err := conn.ExecContext(t.Context(), s); err != nil {
					t.Fatal(err)
				}
			}
			got, err := trueAge(t.Context(), conn, c.wall)
			if err != nil {
				t.Fatal(err)
			}
			if got < c.least || got > c.most {
				t.Errorf("%g seconds, want %g to %g", got, c.least, c.most)
			}
			var here string
			if err := conn.QueryRowContext(t.Context(), "SELECT CAST(NOW(6) AS CHAR)").Scan(&here); err != nil {
				t.Fatal(err)
			}
			safe, wall, err := before(t.Context(), conn, c.now+".000000", here, c.age)
			if err != nil {
				t.Fatal(err)
			}
			if safe != c.safe || wall != c.onWall {
				t.Errorf("%s before: %s, on the wall %s; want %s and %s", c.age, safe, wall, c.safe, c.onWall)
			}
		})
	}
}

// A statement that waits for the lock of a table's definition has its time, but no transaction yet. When it has ended and its
// transaction goes on, the bound stays below what it stamped.
func TestATransactionThatIsYoungerThanWhatItStamped(t *testing.T) {
	t.Parallel()
	server := localserver.StartForTest(t, localserver.Options{Unsafe: true})
	h := extractHarness(t, server, "stalled", "at", "CREATE TABLE x (id int PRIMARY KEY, at timestamp(6) NOT NULL DEFAULT NOW(6))")
	h.openExtract()
	s := h.source.(*extract)
	look := func() opened {
		t.Helper()
		o, err := s.look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	h.exec("LOCK TABLES x WRITE")
	late, err := h.pool.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close()
	if _, err := late.ExecContext(t.Context(), "START TRANSACTION"); err != nil {
		t.Fatal(err)
	}
	stored := make(chan error, 1)
	go func() {
		_, err := late.ExecContext(context.Background(), "INSERT INTO x (id) VALUES (1)")
		stored <- err
	}()
	deadline := time.Now().Add(patience)
	for h.query("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE LIKE 'Waiting for table metadata lock%' AND TIME_MS > 2500") == "0" {
		if time.Now().After(deadline) {
			t.Fatal("the insert does not wait")
		}
		time.Sleep(20 * time.Millisecond)
	}
	waits := look()
	h.exec("UNLOCK TABLES")
	if err := <-stored; err != nil {
		t.Fatal(err)
	}
	var stamp string
	if err := late.QueryRowContext(t.Context(), "SELECT CAST(CONVERT_TZ(at, @@session.time_zone, '+00:00') AS CHAR) FROM x").Scan(&stamp); err != nil {
		t.Fatal(err)
	}
	if waits.safe >= stamp {
		t.Errorf("while it waits the bound is %s, and it stamps %s", waits.safe, stamp)
	}
	for range 3 {
		if o := look(); o.safe >= stamp {
			t.Errorf("while its transaction is open the bound is %s, and it has stamped %s", o.safe, stamp)
		}
	}
	if _, err := late.ExecContext(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	for look().safe < stamp {
		if time.Now().After(deadline) {
			t.Fatal("the bound does not go on")
		}
	}
}

// The same between two runs of a schedule, so that nobody sees the statement wait: each run is a source of its own. What another
// transaction stamps meanwhile is not handed over before what the statement stamped.
func TestAWaitBetweenTwoRuns(t *testing.T) {
	t.Parallel()
	t.Run("MariaDB", func(t *testing.T) {
		testAWaitBetweenTwoRuns(t, localserver.StartForTest(t, localserver.Options{Unsafe: true}))
	})
	t.Run("MySQL", func(t *testing.T) { testAWaitBetweenTwoRuns(t, mysqlExtractServer(t)) })
}

func testAWaitBetweenTwoRuns(t *testing.T, server *localserver.Server) {
	h := extractHarness(t, server, "between", "at", "CREATE TABLE x (id int PRIMARY KEY, at timestamp(6) NOT NULL DEFAULT NOW(6))", "INSERT INTO x VALUES (0, NOW(6) - INTERVAL 1 HOUR)")
	deadline := time.Now().Add(patience)
	h.extractOnce()
	if len(h.changes) != 1 {
		t.Fatalf("%d rows: %s", len(h.changes), h.texts())
	}
	holder, late := h.session(), h.session()
	exec := func(conn *sql.Conn, statement string) {
		t.Helper()
		if _, err := conn.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	exec(holder, "LOCK TABLES x WRITE")
	exec(late, "START TRANSACTION")
	stored := make(chan error, 1)
	go func() {
		_, err := late.ExecContext(context.Background(), "INSERT INTO x (id) VALUES (1)")
		stored <- err
	}()
	for h.query("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE LIKE 'Waiting for table metadata lock%'") == "0" {
		if time.Now().After(deadline) {
			t.Fatal("the insert does not wait")
		}
		time.Sleep(20 * time.Millisecond)
	}
	exec(holder, "INSERT INTO x (id) VALUES (2)")
	for old := false; !old; time.Sleep(20 * time.Millisecond) { // than the margin and the whole seconds of the lists
		if err := holder.QueryRowContext(t.Context(), "SELECT at < NOW(6) - INTERVAL 2500000 MICROSECOND FROM x WHERE id = 2").Scan(&old); err != nil {
			t.Fatal(err)
		}
	}
	exec(holder, "UNLOCK TABLES")
	if err := <-stored; err != nil {
		t.Fatal(err)
	}
	h.extractOnce() // the transaction began after row 2 was stamped, and stamped row 1 before it
	h.extractOnce()
	if len(h.changes) != 1 || h.waiting() != 1 {
		t.Errorf("while the transaction is open %d rows wait, want 1: %s", h.waiting(), h.texts())
	}
	exec(late, "COMMIT")
	h.extractOnce()
	if len(h.changes) != 3 || h.waiting() != 0 {
		t.Errorf("when it has ended %d rows wait: %s", h.waiting(), h.texts())
	}
}

// session is a connection of its own.
func (h *harness) session() *sql.Conn {
	h.t.Helper()
	conn, err := h.pool.Conn(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { conn.Close() })
	return conn
}
