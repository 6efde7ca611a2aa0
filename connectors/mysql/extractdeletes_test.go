package mysql

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/mysql/localserver"
)

// detecting makes the harness look for deletes in every run, and wait for nothing.
func (h *harness) detecting() *harness {
	h.config.Deletes, h.config.DeletesEvery, h.config.margin = deletesDetect, connectors.Every(time.Nanosecond), time.Millisecond
	return h
}

// TestDeletesAreDetected with keys of several columns and types: their text in SQL is what a row has on the wire.
func TestDeletesAreDetected(t *testing.T) {
	t.Parallel()
	t.Run("MariaDB", func(t *testing.T) { testDeletesDetected(t, extractServer(t)) })
	t.Run("MySQL", func(t *testing.T) { testDeletesDetected(t, mysqlExtractServer(t)) })
}

func testDeletesDetected(t *testing.T, server *localserver.Server) {
	for _, c := range []struct{ name, columns, row, third, seventh string }{
		{"number", "id int(8) unsigned zerofill PRIMARY KEY, v text", "{n}, 'v'", "[3 ~ ~]", "[7 ~ ~]"},
		{"text", "id varchar(20) CHARACTER SET latin1 PRIMARY KEY, v text", "'ü{n} ', 'v'", "[ü3  ~ ~]", "[ü7  ~ ~]"},
		{"bytes", "id binary(4) PRIMARY KEY, v text", "CONCAT(x'ff00', '{n}'), 'v'", "[0xff003300 ~ ~]", "[0xff003700 ~ ~]"},
		{"two", "id varchar(10), d decimal(6,2), v text, PRIMARY KEY (d, id)", "'3:a{n}', {n}.5, 'v'", "[3:a3 3.50 ~ ~]", "[3:a7 7.50 ~ ~]"},
		{"instant", "id timestamp(3) PRIMARY KEY DEFAULT '2000-01-01 00:00:00', v text", "'2026-01-01 05:30:00.5' + INTERVAL {n} DAY, 'v'",
			"[2026-01-04T00:00:00.500Z ~ ~]", "[2026-01-08T00:00:00.500Z ~ ~]"},
		{"mixed", "a date, b bigint, v text, PRIMARY KEY (a, b)", "'2026-01-01' + INTERVAL {n} DAY, -{n}, 'v'", "[2026-01-04 -3 ~ ~]", "[2026-01-08 -7 ~ ~]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := extractHarness(t, server, "gone_"+c.name, "c", "CREATE TABLE x ("+c.columns+", c int NOT NULL)", numbered("x", 20, "("+c.row+", {n})")).detecting()
			h.extractOnce()
			h.exec("DELETE FROM x WHERE c IN (3, 7)")
			h.changes = nil
			h.extractOnce()
			got := h.texts()
			if len(h.changes) != 2 || !strings.Contains(got, "d x "+c.third) || !strings.Contains(got, "d x "+c.seventh) {
				t.Errorf("the run after the deletes read %s", got)
			}
			h.changes = nil
			h.extractOnce()
			if len(h.changes) != 0 {
				t.Errorf("the next run read %s", h.texts())
			}
		})
	}
}

// TestDeletesAreExactAfterACrash at each position, and when the file of the keys is lost.
func TestDeletesAreExactAfterACrash(t *testing.T) {
	t.Parallel()
	h := extractHarness(t, extractServer(t), "crash", "id", "CREATE TABLE x (id int PRIMARY KEY, v int)", numbered("x", 100, "({n}, 0)")).detecting()
	h.env.Limits.BatchRows = 7
	for range 12 { // each start has the store of the one before, and what it handed over is not known to be durable
		h.restartExtract()
		for range 2 {
			b, err := h.source.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			h.take(b)
		}
	}
	h.extractOnce()
	h.exec("DELETE FROM x WHERE id % 2 = 0")
	h.restartExtract()
	for range 3 {
		if _, err := h.read(); err != nil {
			t.Fatal(err)
		}
	}
	h.exec("INSERT INTO x VALUES (102, 1), (104, 1)", "DELETE FROM x WHERE id = 1")
	h.extractOnce()
	h.extractOnce()
	h.wantTable("x", "CONCAT(id, ' ', v)")
	if err := os.Remove(filepath.Join(h.env.Dir, "keys.db")); err != nil {
		t.Fatal(err)
	}
	h.exec("DELETE FROM x WHERE id = 3")
	h.extractOnce()
	told := false
	for _, r := range h.reports {
		told = told || strings.Contains(r.Reason, "keys that were known are lost")
	}
	if !told {
		t.Error("nobody heard that the keys are lost")
	}
	h.changes = nil
	h.exec("DELETE FROM x WHERE id = 5")
	h.extractOnce()
	h.want("d x [5 ~]")
}

// restartExtract opens the source at the mark again.
func (h *harness) restartExtract() {
	h.t.Helper()
	h.close()
	h.openExtract()
}

// take notes a batch without telling the source.
func (h *harness) take(b connectors.Batch) {
	for _, c := range b.Changes {
		c.Before, c.After = connectors.CloneRow(c.Before), connectors.CloneRow(c.After)
		h.changes = append(h.changes, c)
	}
	if b.Position != nil {
		h.mark = append(connectors.Position(nil), b.Position...)
	}
}

// TestOnlyDifferingBucketsAreRead: the keys of a bucket come from the server only when its sum is another.
func TestOnlyDifferingBucketsAreRead(t *testing.T) {
	t.Parallel()
	h := extractHarness(t, extractServer(t), "buckets", "id", "CREATE TABLE x (id int PRIMARY KEY)", "INSERT INTO x SELECT seq FROM seq_1_to_3000").detecting()
	h.extractOnce()
	h.exec("DELETE FROM x WHERE id = 1234")
	h.openExtract()
	s := h.source.(*extract)
	r, err := s.snapshot(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	differing, err := s.deletes.compare(t.Context(), r, s.tables[0].keys, s.tables[0].mark.Keys)
	if err != nil || len(differing) != 1 {
		t.Errorf("%d buckets differ, want the one of the row that is gone: %v", len(differing), err)
	}
}

// Runs of one source do not overlap, whichever process makes them; the lock ends with its session.
func TestRunsOfOneSourceDoNotOverlap(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, start func(*testing.T) *localserver.Database) {
		db := start(t)
		h := harnessOn(t, db.Server, db.Name, "x", "CREATE TABLE x (id int PRIMARY KEY)", "INSERT INTO x VALUES (1)")
		h.config.Mode, h.config.Tables[0].Cursor, h.config.margin, h.config.Poll = modeTimestamp, "id", time.Millisecond, 50*time.Millisecond
		h.openExtract()
		h.untilCount(1)
		second, err := newExtract(t.Context(), h.config, h.env, h.mark)
		if err != nil {
			t.Fatal(err)
		}
		defer second.Close(context.Background())
		read := func() error {
			for {
				if b, err := second.Read(t.Context()); err != nil || len(b.Changes) > 0 {
					return err
				}
			}
		}
		if err := read(); err == nil || !strings.Contains(err.Error(), "another process extracts source") {
			t.Fatalf("a second run beside the first: %v", err)
		}
		h.close()
		h.exec("INSERT INTO x VALUES (2)")
		if err := read(); err != nil {
			t.Errorf("after the first has ended: %v", err)
		}
		h.exec("KILL " + h.query("SELECT IS_USED_LOCK('"+second.lock.name+"')"))
		h.exec("INSERT INTO x VALUES (3)")
		if err := read(); err != nil {
			t.Errorf("after its session was killed: %v", err)
		}
	})
}

// A query stands for a table, with the key and the cursor that are named.
func TestQueriesAreExtracted(t *testing.T) {
	t.Parallel()
	t.Run("MariaDB", func(t *testing.T) { testQueries(t, extractServer(t)) })
	t.Run("MySQL", func(t *testing.T) { testQueries(t, mysqlExtractServer(t)) })
}

func testQueries(t *testing.T, server *localserver.Server) {
	h := extractHarness(t, server, "queries", "at", "CREATE TABLE buyer (id int PRIMARY KEY, name varchar(20) CHARACTER SET latin1, kind enum('a','b'))",
		"CREATE TABLE sale (id bigint unsigned PRIMARY KEY, buyer int, price decimal(9,2), day date, at timestamp(6) NOT NULL DEFAULT NOW(6) ON UPDATE NOW(6), raw varbinary(4), flag bit(3))",
		"INSERT INTO buyer VALUES (1, 'Zoë', 'b'), (2, 'Bo', NULL)", "INSERT INTO sale (id, buyer, price, day, raw, flag) VALUES (18446744073709551615, 1, 1.50, '2026-01-30', x'00ff', b'101'), (7, 2, -3, NULL, NULL, 0)").detecting()
	h.config.Tables = []connectors.TableSpec{{Name: h.name + ".sales", Key: []string{"id"}, Cursor: "at", Where: "price <> 0",
		Query: "SELECT s.id, b.name, b.kind, s.price, s.price * 2e0 AS twice, s.day, s.raw, s.flag, s.at FROM " + h.name + ".sale s JOIN " + h.name + ".buyer b ON b.id = s.buyer"}}
	h.config.Tables[0].Columns = []string{"id", "name", "kind", "price", "twice", "day", "raw", "flag"}
	h.extractOnce()
	h.exec("UPDATE sale SET price = 4 WHERE id = 7", "INSERT INTO sale (id, buyer, price) VALUES (8, 1, 0), (9, 1, 2)")
	h.extractOnce()
	h.exec("DELETE FROM sale WHERE id > 9")
	h.extractOnce()
	got := strings.Split(h.texts(), " | ")
	want := map[string]bool{"r sales -> [18446744073709551615 Zoë b 1.50 3 2026-01-30 0x00ff 101]": true, "r sales -> [7 Bo null -3.00 -6 null null 000]": true,
		"u sales -> [7 Bo null 4.00 8 null null 000]": true, "u sales -> [9 Zoë b 2.00 4 null null null]": true, "d sales [18446744073709551615 ~ ~ ~ ~ ~ ~ ~]": true}
	for _, text := range got {
		if !want[text] {
			t.Errorf("not wanted: %s", text)
		}
		delete(want, text)
	}
	for text := range want {
		t.Errorf("missing: %s", text)
	}
	if typ := h.changes[0].Table.Columns[3].Type; typ != "decimal(9,2)" {
		t.Errorf("the price is of type %s", typ)
	}
}
