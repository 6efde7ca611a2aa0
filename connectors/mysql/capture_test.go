package mysql

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/mysql/localserver"
)

// F14: what a partial row image leaves out is absent or what it was before, never NULL.
func TestPartialRowImages(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "m", "CREATE TABLE m (c int PRIMARY KEY, c2 int, c3 int)")
	h.open()
	h.exec("SET SESSION binlog_row_image = 'MINIMAL'", "INSERT INTO m VALUES (3, 4, NULL)", "UPDATE m SET c = 30 WHERE c = 3",
		"UPDATE m SET c2 = NULL WHERE c = 30", "INSERT INTO m (c) VALUES (5)", "DELETE FROM m")
	h.untilCount(6)
	h.want("c m -> [3 4 null]", "u m [3 ~ ~] -> [30 ~ ~]", "u m [30 ~ ~] -> [30 null ~]", "c m -> [5 ~ ~]", "d m [5 ~ ~]", "d m [30 ~ ~]")
}

// F22: unsigned keys are read once each, in chunks of one row.
func TestUnsignedKeysInChunksOfOne(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "u", "CREATE TABLE u (id bigint unsigned PRIMARY KEY, b64 bit(64))",
		"INSERT INTO u VALUES (18446744073709551615, 0x8000000000000001), (5, 0), (0, 1)", "ANALYZE TABLE u")
	h.config.SnapshotChunk = 1
	h.open()
	h.catchUp()
	if len(h.changes) != 3 {
		t.Errorf("%d rows: %s", len(h.changes), h.texts())
	}
	h.exec("UPDATE u SET b64 = 3 WHERE id = 18446744073709551615")
	h.untilCount(4)
	if got := valueText(h.changes[3].After[0]); got != "18446744073709551615" {
		t.Error(got)
	}
}

// F27: an instant and a wall clock mean the same whatever zones the server and the process have.
func TestZonesOfServerAndProcess(t *testing.T) {
	t.Parallel()
	server := localserver.StartForTest(t, localserver.Options{Unsafe: true, Settings: map[string]string{"default-time-zone": "-05:00"}})
	if _, err := server.CreateDatabase(t.Context(), "zones"); err != nil {
		t.Fatal(err)
	}
	h := harnessOn(t, server, "zones", "w", "CREATE TABLE w (id int PRIMARY KEY, ts timestamp NULL, dt datetime, n int)",
		"INSERT INTO w VALUES (1, '2026-01-30 12:34:56', '2026-01-30 12:34:56', 0), (2, NULL, '2026-03-08 02:30:00', 0)")
	h.open()
	h.catchUp()
	h.exec("UPDATE w SET n = 1 ORDER BY id")
	h.untilCount(4)
	h.want("r w -> [1 2026-01-30T17:34:56Z 2026-01-30T12:34:56 0]", "r w -> [2 null 2026-03-08T02:30:00 0]",
		"u w [1 2026-01-30T17:34:56Z 2026-01-30T12:34:56 0] -> [1 2026-01-30T17:34:56Z 2026-01-30T12:34:56 1]",
		"u w [2 null 2026-03-08T02:30:00 0] -> [2 null 2026-03-08T02:30:00 1]")
}

// F25: MariaDB's temporal formats from before MySQL 5.6.
func TestOldTemporalFormats(t *testing.T) {
	t.Parallel()
	server := localserver.StartForTest(t, localserver.Options{Unsafe: true, Settings: map[string]string{"mysql56-temporal-format": "0"}})
	if _, err := server.CreateDatabase(t.Context(), "old"); err != nil {
		t.Fatal(err)
	}
	create := "(id int PRIMARY KEY, t0 time, t1 time(1), t3 time(3), t6 time(6), d0 datetime, d2 datetime(2), d3 datetime(3), d6 datetime(6), s0 timestamp NULL, s3 timestamp(3) NULL, s6 timestamp(6) NULL)"
	h := harnessOn(t, server, "old", "a b", "CREATE TABLE a "+create, "CREATE TABLE b "+create)
	insert := func(table string) {
		h.exec("INSERT INTO "+table+" VALUES (1, '-838:59:59', '-00:00:00.1', '-00:00:01.250', '838:59:59.999999', '2026-01-30 12:34:56', '2026-01-30 12:34:56.25', '1000-01-01 00:00:00.125', '9999-12-31 23:59:59.999999', '2026-01-30 12:34:56', '2026-01-30 12:34:56.125', '2026-01-30 12:34:56.000001')",
			"INSERT INTO "+table+" VALUES (2, '24:00:00', '00:00:00.9', '100:00:00.001', '-00:00:00.000001', '0000-00-00', '0000-00-00', '0000-00-00', '2026-02-28 00:00:00', '0000-00-00', '0000-00-00', NULL)")
	}
	h.exec("SET SESSION sql_mode = ''")
	insert("a")
	h.open()
	h.catchUp()
	insert("b")
	h.untilCount(4)
	for i := range 2 {
		if a, b := rowText(h.changes[i].After), rowText(h.changes[2+i].After); a != b {
			t.Errorf("snapshot %s\nstream   %s", a, b)
		}
	}
}

// F17 (b): a server that was a replica begins where its own binary log is.
func TestBeginsAtTheServersOwnLog(t *testing.T) {
	t.Parallel()
	server := localserver.StartForTest(t, localserver.Options{Unsafe: true})
	if _, err := server.CreateDatabase(t.Context(), "promoted"); err != nil {
		t.Fatal(err)
	}
	h := harnessOn(t, server, "promoted", "g", "CREATE TABLE g (id int PRIMARY KEY)", "INSERT INTO g VALUES (1)", "SET GLOBAL gtid_slave_pos = '0-77-999999'")
	h.open()
	h.catchUp()
	h.exec("INSERT INTO g VALUES (2)")
	h.untilCount(2)

	// F17 (c): all domains are kept, and nothing is read again or skipped.
	h.exec("SET SESSION gtid_domain_id = 7", "INSERT INTO g VALUES (3)", "SET SESSION gtid_domain_id = 9", "INSERT INTO g VALUES (4)")
	h.untilCount(4)
	h.close()
	h.exec("SET SESSION gtid_domain_id = 7", "INSERT INTO g VALUES (5)", "SET SESSION gtid_domain_id = 0", "INSERT INTO g VALUES (6)")
	h.open()
	h.untilCount(6)
	h.catchUp()
	h.want("r g -> [1]", "c g -> [2]", "c g -> [3]", "c g -> [4]", "c g -> [5]", "c g -> [6]")
	p, err := parsePosition(h.mark)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(p.GTID, "0-1-") || !strings.Contains(p.GTID, ",7-1-") || !strings.Contains(p.GTID, ",9-1-") {
		t.Errorf("GTIDs %s", p.GTID)
	}
}

// A purged binary log and one that was begun anew are a gap, by GTID and by file and position.
func TestLostPositionsAreAGap(t *testing.T) {
	t.Parallel()
	t.Run("MariaDB", func(t *testing.T) { testLostPositions(t, localserver.Options{Unsafe: true}) })
	t.Run("MySQL", func(t *testing.T) { testLostPositions(t, mysqlOptions(t)) })
}

func testLostPositions(t *testing.T, options localserver.Options) {
	for _, gtid := range []string{gtidAuto, gtidOff} {
		t.Run("gtid "+gtid, func(t *testing.T) {
			t.Parallel()
			server := localserver.StartForTest(t, options)
			if _, err := server.CreateDatabase(t.Context(), "gap"); err != nil {
				t.Fatal(err)
			}
			h := harnessOn(t, server, "gap", "g", "CREATE TABLE g (id int PRIMARY KEY)", "INSERT INTO g VALUES (1)")
			h.config.GTID = gtid
			h.open()
			h.catchUp()
			h.exec("INSERT INTO g VALUES (2)")
			h.untilCount(2)
			h.close()
			before := h.mark
			h.exec("FLUSH BINARY LOGS", "INSERT INTO g VALUES (3)", "FLUSH BINARY LOGS")
			h.purge()
			h.wantGap("purged")

			h.mark = nil
			h.open()
			h.catchUp()
			h.close()
			if p, err := parsePosition(before); err != nil || p.Created == 0 {
				t.Fatalf("position %s: %v", before, err)
			} else { // a file is known by the second in which it was begun
				for h.query(fmt.Sprintf("SELECT UNIX_TIMESTAMP() > %d", p.Created)) != "1" {
					time.Sleep(10 * time.Millisecond)
				}
			}
			h.exec("RESET MASTER", "INSERT INTO g VALUES (10), (11), (12)")
			for i := 13; i < 40; i++ { // so that the new log reaches further than the old one did
				h.exec(fmt.Sprintf("INSERT INTO g VALUES (%d)", i))
			}
			h.wantGap("reset")
			h.mark = before
			h.wantGap("reset, older position")
		})
	}
}

// purge removes all files of the binary log but the last, once nobody reads them any more.
func (h *harness) purge() {
	h.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		end, _, err := masterStatus(context.Background(), h.conn)
		if err != nil {
			h.t.Fatal(err)
		}
		h.exec("PURGE BINARY LOGS TO '" + end.File + "'")
		if h.firstLog() == end.File {
			return
		}
		if time.Now().After(deadline) {
			h.t.Fatal("the binary log is not purged")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (h *harness) firstLog() string {
	h.t.Helper()
	rows, err := h.conn.QueryContext(context.Background(), "SHOW BINARY LOGS")
	if err != nil {
		h.t.Fatal(err)
	}
	defer rows.Close()
	var name string
	var size int64
	if rows.Next() {
		if err := rows.Scan(&name, &size); err != nil {
			h.t.Fatal(err)
		}
	}
	return name
}

func (h *harness) wantGap(what string) {
	h.t.Helper()
	err := h.tryOpen()
	for i := 0; err == nil && i < 50; i++ {
		_, err = h.read()
	}
	if !errors.Is(err, connectors.ErrPositionLost) || !strings.Contains(err.Error(), "trunkline resync") {
		h.t.Errorf("%s: %v, want a lost position and what to do", what, err)
	}
	h.close()
}

// A quiet table survives a purge, because the position moves on with what else happens.
func TestQuietTableSurvivesAPurge(t *testing.T) {
	t.Parallel()
	server := localserver.StartForTest(t, localserver.Options{Unsafe: true})
	if _, err := server.CreateDatabase(t.Context(), "quiet"); err != nil {
		t.Fatal(err)
	}
	h := harnessOn(t, server, "quiet", "q", "CREATE TABLE q (id int PRIMARY KEY)", "CREATE TABLE loud (id int PRIMARY KEY)")
	h.open()
	h.catchUp()
	h.exec("INSERT INTO loud VALUES (1)", "FLUSH BINARY LOGS", "INSERT INTO loud VALUES (2)")
	h.catchUp()
	h.close()
	h.purge()
	h.exec("INSERT INTO q VALUES (1)")
	h.open()
	h.untilCount(1)
}

// The source is opened again at every position that it gives out, while others write.
func TestResumesAtEveryPositionUnderWrites(t *testing.T) {
	t.Parallel()
	onServers(t, testResumes)
}

// numbered is a statement that inserts rows numbered from 1 on; {n} stands for the number.
func numbered(table string, rows int, row string) string {
	var list []string
	for n := range rows {
		list = append(list, strings.ReplaceAll(row, "{n}", strconv.Itoa(n+1)))
	}
	return "INSERT INTO " + table + " VALUES " + strings.Join(list, ", ")
}

func testResumes(t *testing.T, start func(*testing.T) *localserver.Database) {
	for _, key := range []string{"id int PRIMARY KEY, k int", "id int, k int, PRIMARY KEY (id, k)", "id varchar(20) PRIMARY KEY, k int"} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			db := start(t)
			h := harnessOn(t, db.Server, db.Name, "r loose", "CREATE TABLE r ("+key+", v text)", "CREATE TABLE loose (id int, v text)",
				numbered("r", 300, "({n}, 1, 'old')"), numbered("loose", 100, "({n}, 'x')"), "ANALYZE TABLE r")
			h.config.SnapshotChunk = 40
			h.env.Limits.BatchRows = 25
			ctx, stop := context.WithCancel(context.Background())
			done := make(chan error, 1)
			go func() { done <- disturb(ctx, h) }()
			for range 60 {
				h.open()
				for range 2 {
					if _, err := h.read(); err != nil {
						t.Fatal(err)
					}
				}
			}
			stop()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			h.catchUp()
			h.wantTable("r", "CONCAT_WS(' ', id, k, v)")
			h.wantLoose()
		})
	}
}

// disturb changes rows of both tables until the context ends.
func disturb(ctx context.Context, h *harness) error {
	conn, err := h.pool.Conn(context.Background())
	if err != nil {
		return err
	}
	defer conn.Close()
	for i := 1000; ctx.Err() == nil; i++ {
		a, b := 1+rand.IntN(300), 1+rand.IntN(300)
		for _, s := range []string{"START TRANSACTION", fmt.Sprintf("INSERT INTO r VALUES (%d, 1, 'new')", i), fmt.Sprintf("UPDATE r SET v = 'u%d' WHERE id = '%d'", i, a),
			fmt.Sprintf("DELETE FROM r WHERE id = '%d'", b), fmt.Sprintf("UPDATE r SET id = %d WHERE id = '%d'", -i, 1+rand.IntN(300)),
			fmt.Sprintf("INSERT INTO loose VALUES (%d, 'n')", i), fmt.Sprintf("DELETE FROM loose WHERE id = %d", b), "COMMIT"} {
			if _, err := conn.ExecContext(context.Background(), s); err != nil {
				return fmt.Errorf("%s: %w", s, err)
			}
		}
		time.Sleep(2 * time.Millisecond)
	}
	return nil
}

// wantTable compares what a keyed sink would have with the database.
func (h *harness) wantTable(table, text string) {
	h.t.Helper()
	for _, problem := range h.differences(table, text) {
		h.t.Error(problem)
	}
}

// differences says what a keyed sink would have otherwise than the database.
func (h *harness) differences(table, text string) (problems []string) {
	h.t.Helper()
	got := map[string]string{}
	for _, c := range h.changes {
		if c.Table.Name != table {
			continue
		}
		key := func(row []connectors.Value) string {
			var b []byte
			for _, k := range c.Table.Key {
				b = append(row[k].AppendText(b), 0)
			}
			return string(b)
		}
		if c.Op == connectors.Truncate {
			clear(got)
			continue
		}
		if c.Before != nil {
			delete(got, key(c.Before))
		}
		if c.After != nil {
			got[key(c.After)] = strings.Trim(rowText(c.After), "[]")
		}
	}
	rows, err := h.conn.QueryContext(context.Background(), "SELECT "+text+" FROM "+table)
	if err != nil {
		h.t.Fatal(err)
	}
	defer rows.Close()
	have := map[string]bool{}
	for _, row := range got {
		have[row] = true
	}
	n := 0
	for rows.Next() {
		var row string
		if err := rows.Scan(&row); err != nil {
			h.t.Fatal(err)
		}
		n++
		if !have[row] {
			problems = append(problems, fmt.Sprintf("row %s is missing", row))
		}
	}
	if len(got) != n {
		problems = append(problems, fmt.Sprintf("%d rows of %s, want %d", len(got), table, n))
	}
	return problems
}

// wantLoose checks that a table without a key has each row as often as the database.
func (h *harness) wantLoose() {
	h.t.Helper()
	counts := map[string]int{}
	for _, c := range h.changes {
		if c.Table.Name != "loose" {
			continue
		}
		if c.Op == connectors.Truncate {
			clear(counts)
		}
		if c.Before != nil {
			counts[rowText(c.Before)]--
		}
		if c.After != nil {
			counts[rowText(c.After)]++
		}
	}
	rows, err := h.conn.QueryContext(context.Background(), "SELECT CONCAT('[', id, ' ', v, ']') FROM loose")
	if err != nil {
		h.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var row string
		if err := rows.Scan(&row); err != nil {
			h.t.Fatal(err)
		}
		counts[row]--
	}
	for row, n := range counts {
		if n != 0 {
			h.t.Errorf("row %s is there %d times too often", row, n)
		}
	}
}

// XA transactions count when they are committed, and their rows come then.
func TestXATransactions(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "x", "CREATE TABLE x (id int PRIMARY KEY)")
	h.open()
	h.exec("XA START 'a'", "INSERT INTO x VALUES (1)", "XA END 'a'", "XA COMMIT 'a' ONE PHASE",
		"XA START 'b'", "INSERT INTO x VALUES (2)", "XA END 'b'", "XA PREPARE 'b'", "XA ROLLBACK 'b'",
		"XA START 'c'", "INSERT INTO x VALUES (3)", "XA END 'c'", "XA PREPARE 'c'")
	other, err := h.pool.Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := other.ExecContext(context.Background(), "INSERT INTO x VALUES (4)"); err != nil {
		t.Fatal(err)
	}
	h.untilCount(2)
	h.catchUp()
	h.open()
	h.exec("XA COMMIT 'c'", "INSERT INTO x VALUES (5)")
	h.untilCount(4)
	h.open()
	h.catchUp()
	h.want("c x -> [1]", "c x -> [4]", "c x -> [3]", "c x -> [5]")
}

// Compressed events carry the same rows.
func TestCompressedBinaryLog(t *testing.T) {
	t.Parallel()
	server := localserver.StartForTest(t, localserver.Options{Unsafe: true, Settings: map[string]string{"log-bin-compress": "ON", "log-bin-compress-min-len": "10", "binlog-checksum": "NONE"}})
	if _, err := server.CreateDatabase(t.Context(), "small"); err != nil {
		t.Fatal(err)
	}
	h := harnessOn(t, server, "small", "c", "CREATE TABLE c (id int PRIMARY KEY, v text)")
	h.open()
	h.exec("INSERT INTO c VALUES (1, REPEAT('x', 150))", "UPDATE c SET v = REPEAT('y', 150)", "ALTER TABLE c ADD COLUMN n int, COMMENT '"+strings.Repeat("z", 300)+"'",
		"DELETE FROM c")
	h.untilCount(3)
	x, y := strings.Repeat("x", 150), strings.Repeat("y", 150)
	h.want("c c -> [1 "+x+"]", "u c [1 "+x+"] -> [1 "+y+"]", "d c [1 "+y+" null]")
}
