package mysql

import (
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/mysql/localserver"
)

// F17 (c) on MySQL: the sets of all server UUIDs are kept, and nothing is read again or skipped.
func TestSeveralServersInOneGTIDSet(t *testing.T) {
	t.Parallel()
	db := mysqlDatabase(t)
	h := harnessOn(t, db.Server, db.Name, "g", "CREATE TABLE g (id int PRIMARY KEY)", "INSERT INTO g VALUES (1)")
	const a, b = "aaaaaaaa-0000-0000-0000-00000000000a", "bbbbbbbb-0000-0000-0000-00000000000b"
	as := func(gtid, statement string) {
		h.exec("SET SESSION gtid_next = '"+gtid+"'", statement, "SET SESSION gtid_next = 'AUTOMATIC'")
	}
	h.open()
	h.catchUp()
	as(a+":5", "INSERT INTO g VALUES (2)")
	as(b+":1", "INSERT INTO g VALUES (3)")
	h.untilCount(3)
	h.close()
	as(a+":1", "INSERT INTO g VALUES (4)") // a gap is filled while nobody reads
	h.exec("INSERT INTO g VALUES (5)")
	as(b+":2", "INSERT INTO g VALUES (6)")
	h.open()
	h.untilCount(6)
	h.catchUp()
	h.want("r g -> [1]", "c g -> [2]", "c g -> [3]", "c g -> [4]", "c g -> [5]", "c g -> [6]")
	p, err := parsePosition(h.mark)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{a + ":1:5", b + ":1-2"} {
		if !strings.Contains(p.GTID, part) {
			t.Errorf("GTIDs %s without %s", p.GTID, part)
		}
	}
}

// F17 (a): what was read of a transaction before its end was durable is read again, and the saved set of GTIDs has the
// transaction only once its end is durable.
func TestKilledInsideATransaction(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, start func(*testing.T) *localserver.Database) {
		db := start(t)
		h := harnessOn(t, db.Server, db.Name, "g", "CREATE TABLE g (id int PRIMARY KEY)")
		h.env.Limits.BatchRows = 2
		h.open()
		h.catchUp()
		h.exec("START TRANSACTION", "INSERT INTO g VALUES (1)", "INSERT INTO g VALUES (2)", "INSERT INTO g VALUES (3)", "COMMIT")
		for len(h.pending) < 2 {
			if _, err := h.read(); err != nil {
				t.Fatal(err)
			}
		}
		if len(h.changes) != 0 {
			t.Fatalf("a part of a transaction has a position: %s", h.texts())
		}
		before, err := parsePosition(h.mark)
		if err != nil {
			t.Fatal(err)
		}
		h.open() // as after kill -9: what was pending is forgotten
		h.untilCount(3)
		h.want("c g -> [1]", "c g -> [2]", "c g -> [3]")
		after, err := parsePosition(h.mark)
		if err != nil {
			t.Fatal(err)
		}
		if before.GTID == after.GTID || after.GTID == "" {
			t.Errorf("GTIDs %q before the end of the transaction, %q after it", before.GTID, after.GTID)
		}
		h.open()
		h.exec("INSERT INTO g VALUES (4)")
		h.untilCount(4)
	})
}

// F58: the end of the dump thread is an error that a new start mends, without loss and without a gap.
func TestDumpThreadIsKilled(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, start func(*testing.T) *localserver.Database) {
		db := start(t)
		h := harnessOn(t, db.Server, db.Name, "g", "CREATE TABLE g (id int PRIMARY KEY)")
		h.open()
		h.catchUp()
		for n := 1; n < 4; n++ {
			h.exec("INSERT INTO g VALUES (" + strconv.Itoa(n) + ")")
			h.untilCount(n)
			h.killDumps()
			h.exec("INSERT INTO g VALUES (-"+strconv.Itoa(n)+")", "DELETE FROM g WHERE id < 0")
			var err error
			for err == nil {
				_, err = h.read()
			}
			if errors.Is(err, connectors.ErrFatal) || errors.Is(err, connectors.ErrPositionLost) || errors.Is(err, io.EOF) || errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("the end of the thread was told as %v", err)
			}
			h.open()
			h.catchUp()
			h.changes = slices.DeleteFunc(h.changes, func(c connectors.Change) bool { return c.Op == connectors.Delete || c.After[0].Int() < 0 })
		}
		h.want("c g -> [1]", "c g -> [2]", "c g -> [3]")
	})
}

// killDumps ends the threads that send the binary log to sources of this harness's database.
func (h *harness) killDumps() {
	h.t.Helper()
	rows, err := h.conn.QueryContext(context.Background(), "SELECT ID FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog Dump%' AND DB = ?", h.name)
	if err != nil {
		h.t.Fatal(err)
	}
	var ids []int
	for rows.Next() {
		var id int
		if err := rows.Scan(&id); err != nil {
			h.t.Fatal(err)
		}
		ids = append(ids, id)
	}
	rows.Close()
	if len(ids) == 0 {
		h.t.Fatal("no thread sends the binary log")
	}
	for _, id := range ids {
		h.exec("KILL " + strconv.Itoa(id))
	}
}
