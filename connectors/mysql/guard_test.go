package mysql

import (
	"testing"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/mysql/localserver"
)

// The guard tells how much is to be read behind a position, and how near that is to what the server purges next.
func TestGuardTellsWhatThePurgeComesTo(t *testing.T) {
	t.Parallel()
	t.Run("MariaDB", func(t *testing.T) { testGuard(t, localserver.Options{Unsafe: true}) })
	t.Run("MySQL", func(t *testing.T) { testGuard(t, mysqlOptions(t)) })
}

func testGuard(t *testing.T, options localserver.Options) {
	server := localserver.StartForTest(t, options)
	if _, err := server.CreateDatabase(t.Context(), "guarded"); err != nil {
		t.Fatal(err)
	}
	h := harnessOn(t, server, "guarded", "g", "CREATE TABLE g (id int PRIMARY KEY, filling mediumtext)")
	h.exec("FLUSH BINARY LOGS", "FLUSH BINARY LOGS", "INSERT INTO g VALUES (1, 'x')")
	h.open()
	h.catchUp()
	h.exec("INSERT INTO g VALUES (2, 'x')")
	h.untilCount(2)
	h.close()
	g := guard{h.config}
	ahead := func() connectors.Ahead {
		t.Helper()
		a, err := g.Ahead(t.Context(), connectors.NewEnv("shop"), h.mark)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	if a := ahead(); a.Older < 2 || a.Newer != 0 || a.Purged || a.Bytes > 4096 {
		t.Errorf("at the end: %+v", a)
	}
	h.exec("INSERT INTO g VALUES (3, repeat('x', 1 << 20))", "FLUSH BINARY LOGS", "INSERT INTO g VALUES (4, 'x')")
	if a := ahead(); a.Older < 2 || a.Newer != 1 || a.Purged || a.Bytes < 1<<20 || a.Bytes > 2<<20 {
		t.Errorf("a file behind: %+v", a)
	}
	p, err := parsePosition(h.mark)
	if err != nil {
		t.Fatal(err)
	}
	h.exec("PURGE BINARY LOGS TO '" + p.File + "'")
	if a := ahead(); a.Older != 0 || a.Newer != 1 || a.Purged {
		t.Errorf("in the oldest file: %+v", a)
	}
	h.exec("FLUSH BINARY LOGS")
	h.purge()
	if a := ahead(); !a.Purged {
		t.Errorf("after the purge: %+v", a)
	}
	if a, err := g.Ahead(t.Context(), connectors.NewEnv("shop"), connectors.Position(`{"mode":"timestamp"}`)); err != nil || a != (connectors.Ahead{}) {
		t.Errorf("a position of mode timestamp: %+v, %v", a, err)
	}
}
