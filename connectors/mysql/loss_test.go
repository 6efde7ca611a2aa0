package mysql

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/conformance"
	"github.com/trunkline/trunkline/connectors/mysql/localserver"
)

// Sources of one server that were given no server_id have different ones, and one keeps its own from start to start.
func TestSourcesHaveServerIDsOfTheirOwn(t *testing.T) {
	t.Parallel()
	c := DefaultSourceConfig()
	c.DSN = "mysql://root@127.0.0.1:3306/shop"
	seen := map[uint32]string{}
	for i := range 1000 {
		name := fmt.Sprintf("source%d", i)
		id := c.serverID(name)
		if other, taken := seen[id]; taken || id < 1<<28 || id != c.serverID(name) {
			t.Errorf("server_id %d of %s is taken by %q, below 2^28, or another one each time", id, name, other)
		}
		seen[id] = name
	}
	elsewhere := c
	elsewhere.DSN = "mysql://root@127.0.0.2:3306/shop"
	if c.serverID("shop") == elsewhere.serverID("shop") {
		t.Error("two servers see one server_id")
	}
	c.ServerID = 17
	if got := c.serverID("shop"); got != 17 {
		t.Errorf("server_id 17 is %d", got)
	}
}

// The server ends the older of two connections with one server_id. Its source stops and names the setting; the newer one is
// not disturbed.
func TestTwoSourcesWithOneServerID(t *testing.T) {
	t.Parallel()
	onServers(t, testOneServerID)
}

func testOneServerID(t *testing.T, start func(*testing.T) *localserver.Database) {
	db := start(t)
	older := harnessOn(t, db.Server, db.Name, "g", "CREATE TABLE g (id int PRIMARY KEY)")
	newer := harnessOn(t, db.Server, db.Name, "g")
	older.config.ServerID, newer.config.ServerID = 4711, 4711
	older.open()
	older.exec("INSERT INTO g VALUES (1)")
	older.untilCount(1)
	newer.open()
	newer.catchUp()
	older.exec("INSERT INTO g VALUES (2)")
	newer.untilCount(2)
	var err error
	for err == nil {
		_, err = older.read()
	}
	if !errors.Is(err, connectors.ErrFatal) || errors.Is(err, connectors.ErrPositionLost) {
		t.Errorf("the older source: %v, want an error that is final and no gap", err)
	}
	for _, word := range []string{"server_id 4711", "set server_id of source " + db.Name, "another source or replica"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q does not say %q", err, word)
		}
	}
	newer.exec("INSERT INTO g VALUES (3)")
	newer.untilCount(3)

	older.config.ServerID = 0 // what the error says: another one
	older.open()
	older.catchUp()
	newer.exec("INSERT INTO g VALUES (4)")
	newer.untilCount(4)
	older.untilCount(4)
	if got := older.texts(); !strings.HasSuffix(got, "c g -> [2] | c g -> [3] | c g -> [4]") {
		t.Errorf("the older source has read %s", got)
	}
}

// F58: a connection that has gone silent is noticed, and the binary log is taken up anew: nothing is lost and nothing comes
// twice, also when the silence begins in the middle of a transaction that is on its way.
func TestSilentServerIsFoundOut(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "g", "CREATE TABLE g (id int PRIMARY KEY, v text)")
	direct := fmt.Sprintf("127.0.0.1:%d", h.server.Port())
	proxy := conformance.NewProxy(t, direct)
	if h.config.DSN = strings.Replace(h.config.DSN, direct, proxy.Addr(), 1); !strings.Contains(h.config.DSN, proxy.Addr()) {
		t.Fatal("the source goes past the proxy")
	}
	h.config.Silence = time.Second
	h.env.Limits.BatchRows = 100
	h.open()
	h.catchUp()
	rows := 0
	insert := func(n int) {
		h.exec(fmt.Sprintf("INSERT INTO g SELECT seq, REPEAT('v', 2000) FROM seq_%d_to_%d", rows+1, rows+n))
		rows += n
	}
	for range 2 {
		insert(10)
		h.untilCount(rows)
		insert(8000) // more than is under way at once, so that some of it is cut off
		h.until("a piece of the large transaction", func() bool { return len(h.pending) > 0 })
		proxy.Silence(true)
		insert(10)
		var err error
		for err == nil {
			_, err = h.read()
		}
		if !strings.Contains(err.Error(), "said nothing for 1s") || errors.Is(err, connectors.ErrFatal) || errors.Is(err, connectors.ErrPositionLost) {
			t.Fatalf("a silent server: %v", err)
		}
		proxy.Silence(false)
		h.open()
		h.until("all rows", func() bool { return len(h.changes) >= rows })
	}
	h.catchUp()
	if len(h.changes) != rows {
		t.Errorf("%d changes, want %d", len(h.changes), rows)
	}
	for i, c := range h.changes {
		if got := valueText(c.After[0]); got != fmt.Sprint(i+1) {
			t.Fatalf("change %d is of row %s", i+1, got)
		}
	}
}

// The changes of an event that spans batches say where it stands, and which of its rows they are.
func TestAnEventOfSeveralBatchesKeepsItsPlace(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "g", "CREATE TABLE g (id int PRIMARY KEY)")
	h.env.Limits.BatchRows = 7
	h.open()
	h.catchUp()
	h.exec("INSERT INTO g SELECT seq FROM seq_1_to_100", "INSERT INTO g SELECT seq FROM seq_101_to_200")
	h.untilCount(200)
	for i, c := range h.changes {
		first := h.changes[i/100*100]
		file, pos, _ := strings.Cut(string(c.Position), ":")
		want := fmt.Sprintf(`"file":"%s","pos":%s,"row":%d,"thread":`, file, pos, i%100)
		if string(c.Position) != string(first.Position) || !strings.Contains(string(c.Origin), want) || !strings.HasPrefix(string(c.Origin), `"server_id":1,"gtid":"0-1-`) {
			t.Fatalf("change %d: position %s, origin %s; want %s at %s", i, c.Position, c.Origin, want, first.Position)
		}
	}
	if string(h.changes[0].Position) == string(h.changes[100].Position) {
		t.Error("two events stand at one place")
	}
}
