package mysql

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/conformance"
	"github.com/trunkline/trunkline/connectors/mysql/localserver"
)

// extractServer is one server for the tests of this mode: transactions of other tests would hold back what they read.
func extractServer(t *testing.T) *localserver.Server {
	t.Helper()
	return localserver.StartForTest(t, localserver.Options{Unsafe: true, Settings: map[string]string{"default-time-zone": "+05:30"}})
}

func extractHarness(t *testing.T, server *localserver.Server, name, cursor string, statements ...string) *harness {
	t.Helper()
	if _, err := server.CreateDatabase(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	h := harnessOn(t, server, name, "x", statements...)
	h.config.Mode, h.config.Tables[0].Cursor = modeTimestamp, cursor
	h.config.Poll = 50 * time.Millisecond
	return h
}

// extractOnce makes one run that ends.
func (h *harness) extractOnce() {
	h.t.Helper()
	env := h.env
	env.Once = true
	if err := h.config.Validate(); err != nil {
		h.t.Fatal(err)
	}
	h.close()
	s, err := newExtract(context.Background(), h.config, env, h.mark)
	if err != nil {
		h.t.Fatal(err)
	}
	h.source = s
	h.drain()
	h.close()
}

func TestExtracts(t *testing.T) {
	t.Parallel()
	t.Run("MariaDB", func(t *testing.T) { testExtracts(t, extractServer(t)) })
	t.Run("MySQL", func(t *testing.T) { testExtracts(t, mysqlExtractServer(t)) })
}

func testExtracts(t *testing.T, server *localserver.Server) {
	// F28: equal times across the edge of a batch, and a row that comes into the tie later.
	t.Run("ties across batches", func(t *testing.T) {
		t.Parallel()
		h := extractHarness(t, server, "ties", "updated_at", "CREATE TABLE x (id int PRIMARY KEY, updated_at timestamp NULL)",
			numbered("x", 10, "({n}, '2026-01-01 00:00:00')"), "INSERT INTO x VALUES (11, '2026-01-01 00:00:01')")
		h.env.Limits.BatchRows = 4
		h.extractOnce()
		if len(h.changes) != 11 {
			t.Fatalf("%d rows", len(h.changes))
		}
		h.mark, h.changes = nil, nil
		h.openExtract()
		h.until("the first batch", func() bool { return len(h.changes) >= 4 })
		h.exec("INSERT INTO x VALUES (12, '2026-01-01 00:00:00')")
		h.extractOnce()
		if len(h.changes) != 12 {
			t.Errorf("%d rows: %s", len(h.changes), h.texts())
		}
	})
	// F29: a row that commits late, by time and by number.
	t.Run("late commits", func(t *testing.T) {
		for _, cursor := range []string{"updated_at", "at", "id"} {
			h := extractHarness(t, server, "late_"+cursor, cursor, "CREATE TABLE x (id int AUTO_INCREMENT PRIMARY KEY, v int, updated_at timestamp(6) DEFAULT NOW(6), at datetime DEFAULT NOW())")
			other, err := h.pool.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range []string{"START TRANSACTION", "INSERT INTO x (v) VALUES (1)"} {
				if _, err := other.ExecContext(t.Context(), s); err != nil {
					t.Fatal(err)
				}
			}
			h.exec("INSERT INTO x (v) VALUES (2)")
			h.extractOnce()
			if len(h.changes) != 0 {
				t.Errorf("%s: rows above an open transaction: %s", cursor, h.texts())
			}
			if n := h.waiting(); n != 1 {
				t.Errorf("%s: %d rows wait, want 1", cursor, n)
			}
			if _, err := other.ExecContext(t.Context(), "COMMIT"); err != nil {
				t.Fatal(err)
			}
			other.Close()
			h.extractOnce()
			h.extractOnce()
			if len(h.changes) != 2 || h.waiting() != 0 {
				t.Errorf("%s: %d wait, %s", cursor, h.waiting(), h.texts())
			}
		}
	})
	// What is older than the bound is no reason to wait until the clock has left the present behind.
	t.Run("a run of old rows ends at once", func(t *testing.T) {
		t.Parallel()
		h := extractHarness(t, server, "oldrows", "at", "CREATE TABLE x (id int PRIMARY KEY, at datetime(6))", numbered("x", 10, "({n}, '2020-01-01 00:00:00')"))
		h.config.margin = 24 * time.Hour
		h.extractOnce()
		h.extractOnce()
		if len(h.changes) != 10 || h.waiting() != 0 {
			t.Errorf("%d wait, %s", h.waiting(), h.texts())
		}
	})
	// The server makes no new list of transactions as long as someone reads the old one all the time.
	t.Run("a list of transactions that is kept old", func(t *testing.T) {
		h := extractHarness(t, server, "oldlist", "at", "CREATE TABLE x (id int PRIMARY KEY, at datetime(6) DEFAULT NOW(6))")
		h.config.margin, h.config.Settle = time.Millisecond, time.Hour
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var readers sync.WaitGroup
		for range 3 { // a pause of one does not count
			readers.Go(func() {
				for ctx.Err() == nil {
					_, _ = h.pool.ExecContext(ctx, "DO (SELECT COUNT(*) FROM information_schema.INNODB_TRX)")
					time.Sleep(10 * time.Millisecond)
				}
			})
		}
		h.query("SELECT COUNT(*) FROM information_schema.INNODB_TRX")
		other, err := h.pool.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer other.Rollback() //nolint:errcheck // after a commit there is nothing to roll back
		if _, err := other.Exec("INSERT INTO x (id) VALUES (1)"); err != nil {
			t.Fatal(err)
		}
		h.exec("INSERT INTO x (id) VALUES (2)")
		h.extractOnce()
		if len(h.changes) != 0 {
			t.Errorf("rows above an open transaction: %s", h.texts())
		}
		stop()
		readers.Wait()
		if err := other.Commit(); err != nil {
			t.Fatal(err)
		}
		h.extractOnce()
		if len(h.changes) != 2 {
			t.Errorf("%d rows, want 2: %s", len(h.changes), h.texts())
		}
	})
	// A transaction that is open stamps rows with the day of today, which sort before this moment.
	t.Run("a day that is not over", func(t *testing.T) {
		t.Parallel()
		h := extractHarness(t, server, "days", "d", "CREATE TABLE x (id int PRIMARY KEY, d date)")
		for day, now := "", h.query("SELECT CURDATE()"); day != now; now = h.query("SELECT CURDATE()") { // once more at midnight
			day, h.mark, h.changes = now, nil, nil
			h.exec("DELETE FROM x", "INSERT INTO x VALUES (1, CURDATE() - INTERVAL 3 DAY), (2, CURDATE())")
			h.extractOnce()
		}
		if got := h.texts(); !strings.HasPrefix(got, "r x -> [1 ") || len(h.changes) != 1 {
			t.Errorf("rows %s, want the one of a day that is over", got)
		}
	})
	// F31: rows without a cursor.
	t.Run("rows without a cursor", func(t *testing.T) {
		t.Parallel()
		for choice, want := range map[string]int{nullFirst: 4, nullSkip: 2} {
			h := extractHarness(t, server, "nulls_"+choice, "at", "CREATE TABLE x (id int PRIMARY KEY, at datetime(6))", "INSERT INTO x VALUES (1, NULL), (2, '2026-01-01'), (3, NULL)")
			h.config.NullCursor = choice
			h.extractOnce()
			h.exec("UPDATE x SET at = '2026-01-02' WHERE id = 1")
			h.extractOnce()
			if len(h.changes) != want {
				t.Errorf("%s: %s", choice, h.texts())
			}
			var unseen []int64
			for _, r := range h.reports {
				if r.Unseen != nil {
					unseen = append(unseen, *r.Unseen)
				}
			}
			if !slices.Equal(unseen, []int64{2, 1}) {
				t.Errorf("%s: %v rows are not seen", choice, unseen)
			}
		}
	})
	t.Run("a clock that is set back hides nothing", func(t *testing.T) {
		t.Parallel()
		h := extractHarness(t, server, "back", "at", "CREATE TABLE x (id int PRIMARY KEY, at datetime(6) NOT NULL)", "INSERT INTO x VALUES (1, NOW(6) - INTERVAL 1 MINUTE)")
		h.extractOnce()
		m := extractMarkOf(h.mark)
		for _, table := range m.Tables { // as if the clock had been a day ahead
			table.Clock, table.After = "2999-01-01 00:00:00.000000", []string{"'2999-01-01 00:00:00.000000'", "7"}
		}
		var err error
		if h.mark, err = json.Marshal(m); err != nil {
			t.Fatal(err)
		}
		h.exec("INSERT INTO x VALUES (2, NOW(6) - INTERVAL 2 SECOND)")
		h.extractOnce()
		if n := strings.Count(h.texts(), "u x -> [2 "); n != 1 {
			t.Errorf("row 2 came %d times: %s", n, h.texts())
		}
		before := len(h.changes)
		h.extractOnce()
		if len(h.changes) != before {
			t.Errorf("the next run read more: %s", h.texts())
		}
		if !slices.ContainsFunc(h.reports, func(r connectors.Report) bool { return strings.Contains(r.Reason, "clock was set back") }) {
			t.Error("nobody heard of it")
		}
	})
	t.Run("a row of the future hides nothing, columns and where are minded", func(t *testing.T) {
		h := extractHarness(t, server, "future", "at", "CREATE TABLE x (id int PRIMARY KEY, at timestamp(3) NULL, a int, b int)", "INSERT INTO x VALUES (1, '2037-01-01', 1, 1), (2, NOW(), 2, 1), (3, NOW(), 3, 2)")
		h.config.Tables[0].Columns, h.config.Tables[0].Where = []string{"id", "a"}, "b = 1"
		h.extractOnce()
		h.exec("INSERT INTO x VALUES (0, NOW(3), 4, 1)", "UPDATE x SET a = 22, at = NOW(3) WHERE id = 2")
		h.extractOnce()
		h.want("r x -> [2 2]", "u x -> [0 4]", "u x -> [2 22]")
	})
}

// waiting is how many rows the last run left for the next.
func (h *harness) waiting() (n int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.reports {
		if r.Waiting != nil {
			n = *r.Waiting
		}
	}
	return n
}

func (h *harness) openExtract() {
	h.t.Helper()
	s, err := newExtract(context.Background(), h.config, h.env, h.mark)
	if err != nil {
		h.t.Fatal(err)
	}
	h.source = s
}

// Writers with transactions of random length and random rollbacks run against an extract every 50 ms. After their end and
// one more run no row is missing, counted by key and value.
func TestExtractLosesNothingUnderWriters(t *testing.T) {
	t.Parallel()
	t.Run("MariaDB", func(t *testing.T) { testExtractUnderWriters(t, extractServer(t), "updated_at", "seq") })
	t.Run("MySQL", func(t *testing.T) { testExtractUnderWriters(t, mysqlExtractServer(t), "updated_at") })
}

func testExtractUnderWriters(t *testing.T, server *localserver.Server, cursors ...string) {
	for _, cursor := range cursors {
		t.Run(cursor, func(t *testing.T) {
			h := extractHarness(t, server, "soak_"+cursor, cursor,
				"CREATE TABLE x (seq bigint AUTO_INCREMENT PRIMARY KEY, v int, updated_at timestamp(6) NOT NULL DEFAULT NOW(6) ON UPDATE NOW(6), KEY (updated_at))")
			h.openExtract()
			ctx, stop := context.WithTimeout(context.Background(), 4*time.Second)
			defer stop()
			var writers sync.WaitGroup
			failed := make(chan error, 4)
			for range 4 {
				writers.Add(1)
				go func() {
					defer writers.Done()
					failed <- write(ctx, h.pool, cursor == "updated_at")
				}()
			}
			go func() { writers.Wait(); close(failed) }()
			for ctx.Err() == nil {
				if b, err := h.source.Read(ctx); err == nil {
					for _, c := range b.Changes {
						c.After = connectors.CloneRow(c.After)
						h.changes = append(h.changes, c)
					}
					h.mark = append(connectors.Position(nil), b.Position...)
				}
			}
			for err := range failed {
				if err != nil {
					t.Fatal(err)
				}
			}
			h.close()
			h.extractOnce()
			h.extractOnce()
			h.wantTable("x", "CONCAT(seq, ' ', v, ' ', REPLACE(updated_at - INTERVAL '5:30' HOUR_MINUTE, ' ', 'T'), 'Z')")
		})
	}
}

// A table changes its mode in both directions under writers, and every row is there with its last value.
func TestModeChangesUnderWriters(t *testing.T) {
	t.Parallel()
	t.Run("MariaDB", func(t *testing.T) { testModeChanges(t, extractServer(t)) })
	t.Run("MySQL", func(t *testing.T) { testModeChanges(t, mysqlExtractServer(t)) })
}

func testModeChanges(t *testing.T, server *localserver.Server) {
	h := extractHarness(t, server, "modes", "updated_at",
		"CREATE TABLE x (seq bigint AUTO_INCREMENT PRIMARY KEY, v int, updated_at timestamp(6) NOT NULL DEFAULT NOW(6) ON UPDATE NOW(6), KEY (updated_at))", numbered("x (v)", 300, "({n})"))
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	done := make(chan error, 1)
	go func() { done <- write(ctx, h.pool, true) }()
	for _, mode := range []string{modeTimestamp, modeCDC, modeTimestamp, modeCDC} {
		h.inMode(mode)
		before := len(h.changes)
		h.until("changes in mode "+mode, func() bool { return len(h.changes) > before+15 })
		if mode == modeCDC && strings.Count(h.texts(), "r x ->") > 500 {
			t.Errorf("the table was read again: %d rows", strings.Count(h.texts(), "r x ->"))
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	h.catchUp()
	h.wantTable("x", "CONCAT(seq, ' ', v, ' ', REPLACE(updated_at - INTERVAL '5:30' HOUR_MINUTE, ' ', 'T'), 'Z')")
}

// TestNoVersionComesTwiceWhenTheModeChanges goes from one mode to the other and back under writers, by a time and by a number.
// Each version of a row is another one by its value, so that what comes twice shows.
func TestNoVersionComesTwiceWhenTheModeChanges(t *testing.T) {
	t.Parallel()
	for _, cursor := range []string{"updated_at", "seq"} {
		t.Run("by "+cursor, func(t *testing.T) {
			t.Parallel()
			h := extractHarness(t, extractServer(t), "twice_"+cursor, cursor,
				"CREATE TABLE x (seq bigint AUTO_INCREMENT PRIMARY KEY, v varchar(40), updated_at timestamp(6) NOT NULL DEFAULT NOW(6) ON UPDATE NOW(6), KEY (updated_at))", numbered("x (v)", 50, "('{n}')"))
			ctx, stop := context.WithCancel(context.Background())
			defer stop()
			var writers sync.WaitGroup
			for range 3 {
				writers.Go(func() {
					for ctx.Err() == nil {
						h.version(ctx, cursor == "updated_at")
					}
				})
			}
			for _, mode := range []string{modeTimestamp, modeCDC, modeTimestamp, modeCDC, modeTimestamp} {
				h.inMode(mode)
				before := len(h.changes)
				h.until("changes in mode "+mode, func() bool { return len(h.changes) > before+25 && (mode == modeCDC) == (extractMarkOf(h.mark) == nil) })
			}
			stop()
			writers.Wait()
			h.close()
			h.extractOnce()
			h.wantTable("x", "CONCAT(seq, ' ', v, ' ', REPLACE(updated_at - INTERVAL '5:30' HOUR_MINUTE, ' ', 'T'), 'Z')")
			seen := map[string]int{}
			for _, c := range h.changes {
				if c.After != nil {
					seen[rowText(c.After)]++
				}
			}
			for row, n := range seen {
				if n > 1 {
					t.Errorf("%s came %d times", row, n)
				}
			}
		})
	}
}

// inMode opens the source at the mark in a mode.
func (h *harness) inMode(mode string) {
	h.t.Helper()
	h.close()
	h.config.Mode = mode
	if mode == modeCDC {
		h.open()
		return
	}
	if err := h.config.Validate(); err != nil {
		h.t.Fatal(err)
	}
	h.openExtract()
}

// version makes one transaction of up to 300 ms whose rows are like no others.
func (h *harness) version(ctx context.Context, updates bool) {
	tx, err := h.pool.BeginTx(context.WithoutCancel(ctx), nil)
	if err != nil {
		return
	}
	defer tx.Rollback() //nolint:errcheck // after a commit there is nothing to roll back
	for range 1 + rand.IntN(3) {
		_, err = tx.Exec("INSERT INTO x (v) VALUES (UUID())")
		if err == nil && updates {
			_, err = tx.Exec(fmt.Sprintf("UPDATE x SET v = UUID() WHERE seq = %d", 1+rand.IntN(60)))
		}
		if err != nil { // a deadlock
			return
		}
		time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond)
	}
	if rand.IntN(5) > 0 {
		_ = tx.Commit() // one that was not is no version
	}
}

// With deletes: detect a change of the mode loses no delete either: not those since the last look, nor those between the two.
func TestModeChangesKeepDeletes(t *testing.T) {
	t.Parallel()
	h := extractHarness(t, extractServer(t), "modedeletes", "id", "CREATE TABLE x (id int PRIMARY KEY, v int)", numbered("x", 20, "({n}, 0)")).detecting()
	h.extractOnce()
	h.exec("DELETE FROM x WHERE id = 3") // no look sees it
	h.config.Mode = modeCDC
	h.open()
	h.until("the delete", func() bool { return strings.Contains(h.texts(), "d x [3 ~]") })
	h.exec("DELETE FROM x WHERE id = 4")
	h.until("the delete", func() bool { return strings.Contains(h.texts(), "d x [4 0]") })
	h.close()
	h.exec("DELETE FROM x WHERE id = 5", "INSERT INTO x VALUES (21, 0)") // the binary log has them
	h.config.Mode = modeTimestamp
	h.extractOnce()
	h.exec("DELETE FROM x WHERE id IN (6, 21)")
	h.extractOnce()
	h.wantTable("x", "CONCAT(id, ' ', v)")
	if n := strings.Count(h.texts(), "r x ->"); n != 20 {
		t.Errorf("%d rows were read, want the first 20 once", n)
	}
}

// write runs transactions of up to 400 ms until the context ends.
func write(ctx context.Context, pool *sql.DB, updates bool) error {
	for ctx.Err() == nil {
		tx, err := pool.Begin()
		if err != nil {
			return err
		}
		for range 1 + rand.IntN(3) {
			if _, err = tx.Exec(fmt.Sprintf("INSERT INTO x (v) VALUES (%d)", rand.IntN(1000))); err == nil && updates {
				_, err = tx.Exec(fmt.Sprintf("UPDATE x SET v = v + 1000 WHERE seq = %d", 1+rand.IntN(100)))
			}
			if err != nil { // a deadlock, or a lock that was waited for in vain
				break
			}
			time.Sleep(time.Duration(rand.IntN(130)) * time.Millisecond)
		}
		if err != nil || rand.IntN(5) == 0 {
			tx.Rollback()
			continue
		}
		if err := tx.Commit(); err != nil {
			return err
		}
	}
	return nil
}

// TestExtractConformance runs by itself: the suite counts goroutines.
func TestExtractConformance(t *testing.T) {
	t.Run("MariaDB", func(t *testing.T) { testExtractConformance(t, extractServer(t)) })
	t.Run("MySQL", func(t *testing.T) { testExtractConformance(t, mysqlExtractServer(t)) })
}

// mysqlExtractServer is extractServer with a real MySQL server.
func mysqlExtractServer(t *testing.T) *localserver.Server {
	t.Helper()
	options := mysqlOptions(t)
	options.Settings = map[string]string{"default-time-zone": "+05:30"}
	return localserver.StartForTest(t, options)
}

func testExtractConformance(t *testing.T, server *localserver.Server) {
	n := 0
	conformance.RunSource(t, conformance.SourceCase{New: func(t *testing.T) conformance.SourceSystem {
		n++
		h := extractHarness(t, server, fmt.Sprintf("conf%d", n), "at", "CREATE TABLE x (id int PRIMARY KEY, v text, at timestamp(6) NOT NULL DEFAULT NOW(6) ON UPDATE NOW(6))")
		h.config.Tables[0].Columns, h.config.margin = []string{"id", "v"}, time.Millisecond
		return conformance.SourceSystem{
			Open: func(ctx context.Context, env connectors.Env, from connectors.Position) (connectors.Source, error) {
				return newExtract(ctx, h.config, env, from)
			},
			Table: h.name + ".x",
			Insert: func(_ *testing.T, ids ...int) {
				var rows []string
				for _, id := range ids {
					rows = append(rows, fmt.Sprintf("(%d, 'v%[1]d')", id))
				}
				h.exec("INSERT INTO x (id, v) VALUES " + strings.Join(rows, ", "))
			},
			Update: func(_ *testing.T, id int, value string) {
				h.exec(fmt.Sprintf("UPDATE x SET v = '%s' WHERE id = %d", value, id))
			},
		}
	}})
}
