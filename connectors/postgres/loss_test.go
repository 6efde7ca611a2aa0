package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/conformance"
	"github.com/trunkline/trunkline/connectors/postgres/localserver"
)

func (h *harness) wantLost(what string) {
	h.t.Helper()
	err := h.tryOpen()
	if !errors.Is(err, connectors.ErrPositionLost) {
		h.t.Fatalf("%s: %v, want a lost position", what, err)
	}
	p, _ := parsePosition(h.mark)
	for _, word := range []string{h.slot(), p.LSN.String(), "trunkline resync " + h.name} {
		if !strings.Contains(err.Error(), word) {
			h.t.Errorf("%s: %q does not name %s", what, err, word)
		}
	}
}

// F11: a slot that is gone, invalidated or moved on is a lost position; a lost mark is not.
func TestLostSlotIsAGap(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "public.t", `CREATE TABLE t (id int PRIMARY KEY)`, `INSERT INTO t VALUES (1)`)
	h.open()
	h.catchUp()
	h.close()
	h.exec(`INSERT INTO t VALUES (2)`)
	mark := h.mark
	h.mark = nil
	h.open()
	h.untilCount(2)
	if h.changes[1].Op != connectors.Insert {
		t.Errorf("without a mark: %s", h.texts())
	}
	h.close()
	h.mark = mark
	h.wantLost("slot moved on")
	h.until0(`SELECT (NOT active)::text FROM pg_replication_slots WHERE slot_name = '` + h.slot() + `'`)
	h.exec(fmt.Sprintf("SELECT pg_drop_replication_slot('%s')", h.slot()), `INSERT INTO t VALUES (3)`)
	h.wantLost("slot dropped")
	if n := h.query("SELECT count(*)::text FROM pg_replication_slots WHERE slot_name = '" + h.slot() + "'"); n != "0" {
		t.Error("the slot was created again")
	}
	h.mark = nil // what a resync does
	h.changes = nil
	h.open()
	h.catchUp()
	h.wantTable("public.t", "id", "id")
}

// until0 waits until a query says true.
func (h *harness) until0(sql string) {
	h.t.Helper()
	deadline := time.Now().Add(patience)
	for h.query(sql) != "true" {
		if time.Now().After(deadline) {
			h.t.Fatalf("waited in vain for %s", sql)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// A first start that ends before its first position is durable starts over; the slot that it left is no reason to skip the
// snapshot.
func TestStartThatWasNeverDurableStartsOver(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "public.t", `CREATE TABLE t (id int PRIMARY KEY)`, `INSERT INTO t VALUES (1)`)
	h.noAck = true
	h.open()
	h.until("a position", func() bool { return h.mark != nil })
	h.mark = nil
	h.close()
	h.until0(`SELECT (NOT active)::text FROM pg_replication_slots WHERE slot_name = '` + h.slot() + `'`)
	h.noAck = false
	h.open()
	h.catchUp()
	h.wantTable("public.t", "id", "id")
}

// F10 and F11b on a server of their own: WAL does not pile up for a quiet table, over crashes, and an invalidated slot is a gap.
func TestWALOfAQuietTable(t *testing.T) {
	t.Parallel()
	server := localserver.StartForTest(t, localserver.Options{Unsafe: true, Settings: map[string]string{"max_slot_wal_keep_size": "1MB", "checkpoint_timeout": "1h"}})
	dsn, err := server.CreateDatabase(t.Context(), "quiet")
	if err != nil {
		t.Fatal(err)
	}
	h := harnessOn(t, dsn, "quiet", "public.quiet", `CREATE TABLE quiet (id int PRIMARY KEY)`, `CREATE TABLE noise (id int, v text)`)
	for round := range 2 {
		h.open()
		h.catchUp()
		h.exec(`INSERT INTO noise SELECT i, repeat('n', 50) FROM generate_series(1, 15000) i`, fmt.Sprintf(`INSERT INTO quiet VALUES (%d)`, round),
			`INSERT INTO noise SELECT i, repeat('n', 50) FROM generate_series(1, 15000) i`)
		h.until("little retained WAL", func() bool {
			n, err := strconv.ParseInt(h.query("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn)::text FROM pg_replication_slots"), 10, 64)
			return err == nil && n < 1<<20
		})
		if len(h.changes) != round+1 {
			t.Errorf("round %d: %d changes", round, len(h.changes))
		}
		if err := server.Kill(); err != nil {
			t.Fatal(err)
		}
		if _, err := h.read(); err == nil {
			t.Error("reading from a killed server goes on")
		} else if errors.Is(err, connectors.ErrFatal) || errors.Is(err, connectors.ErrPositionLost) {
			t.Errorf("a killed server is for good: %v", err)
		}
		if err := server.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.conn.Close(context.Background())
		h.connect()
	}
	h.open()
	h.catchUp()
	h.close()
	for range 4 {
		h.exec(`INSERT INTO noise SELECT i, repeat('n', 150) FROM generate_series(1, 100) i`, `SELECT pg_switch_wal()`, `CHECKPOINT`)
	}
	h.until0(`SELECT (wal_status = 'lost')::text FROM pg_replication_slots`)
	h.wantLost("slot invalidated")
	h.mark, h.changes = nil, nil
	h.open()
	h.catchUp()
	h.wantTable("public.quiet", "id", "id")
}

// F58: a connection that is ended is won back; a slot in use is no reason to stop; a silent server is found out.
func TestLostConnections(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "public.t", `CREATE TABLE t (id int PRIMARY KEY)`)
	h.open()
	h.exec(`INSERT INTO t VALUES (0)`)
	h.untilCount(1)
	other := DefaultSourceConfig()
	other.DSN, other.Tables = h.dsn, h.config.Tables
	_, err := newSource(t.Context(), other, h.env, h.mark)
	if err == nil || errors.Is(err, connectors.ErrFatal) || errors.Is(err, connectors.ErrPositionLost) || !strings.Contains(err.Error(), "active") {
		t.Errorf("slot in use: %v", err)
	}
	h.exec(`INSERT INTO t VALUES (1)`, `SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = '`+h.slot()+`'`)
	for {
		if _, err = h.read(); err != nil {
			break
		}
	}
	if errors.Is(err, connectors.ErrFatal) || errors.Is(err, connectors.ErrPositionLost) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after the end of the connection: %v", err)
	}
	h.open()
	h.untilCount(2)
}

func TestSilentServerIsFoundOut(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "public.t", `CREATE TABLE t (id int PRIMARY KEY)`)
	server := "127.0.0.1:" + strconv.Itoa(localserver.ForTest(t).Port())
	proxy := conformance.NewProxy(t, server)
	direct := h.config.DSN
	h.config.DSN = strings.Replace(direct, server, proxy.Addr(), 1)
	h.config.Silence = 600 * time.Millisecond
	h.open()
	h.catchUp()
	proxy.Silence(true)
	for {
		if _, err := h.read(); err != nil {
			if !strings.Contains(err.Error(), "said nothing for 600ms") {
				t.Errorf("silent server: %v", err)
			}
			break
		}
	}
	h.config.DSN = direct
	h.exec(`INSERT INTO t VALUES (1)`, `SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = '`+h.slot()+`'`)
	h.open()
	h.untilCount(1)
}

// A reader that pauses for longer than wal_sender_timeout keeps its connection.
func TestPauseBetweenReads(t *testing.T) {
	t.Parallel()
	server := localserver.StartForTest(t, localserver.Options{Unsafe: true, Settings: map[string]string{"wal_sender_timeout": "1s"}})
	h := harnessOn(t, server.DSN("postgres"), "pause", "public.t", `CREATE TABLE t (id int PRIMARY KEY, v text)`)
	h.open()
	h.catchUp()
	h.exec(`INSERT INTO t SELECT i, repeat('v', 1000) FROM generate_series(1, 20000) i`)
	h.until("a piece", func() bool { return len(h.pending) > 0 })
	<-time.After(2500 * time.Millisecond)
	h.untilCount(20000)
}

// A server that is told to shut down waits until its replication clients have confirmed everything.
func TestServerShutsDownWhileTheSourceReads(t *testing.T) {
	t.Parallel()
	server := localserver.StartForTest(t, localserver.Options{Unsafe: true})
	h := harnessOn(t, server.DSN("postgres"), "shutdown", "public.t", `CREATE TABLE t (id int PRIMARY KEY)`, `CREATE TABLE noise (id int)`)
	h.open()
	h.catchUp()
	h.config.Heartbeat = time.Hour
	h.open()
	h.exec(`INSERT INTO t VALUES (1)`)
	h.untilCount(1)
	h.exec(`INSERT INTO noise SELECT generate_series(1, 1000)`)
	ended := make(chan error, 1)
	go func() {
		for {
			if _, err := h.read(); err != nil {
				ended <- err
				return
			}
		}
	}()
	start := time.Now()
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took > 4*time.Second {
		t.Errorf("the server needed %s to shut down", took)
	}
	if err := <-ended; errors.Is(err, connectors.ErrFatal) || errors.Is(err, connectors.ErrPositionLost) {
		t.Errorf("read: %v", err)
	}
}

func TestPasswordsAreInNoError(t *testing.T) {
	t.Parallel()
	const secret = "hunter2secret"
	for name, config := range map[string]SourceConfig{
		"bad url":       {DSN: "postgres://u:" + secret + "%zz@127.0.0.1:1/x"},
		"bad port":      {DSN: "postgres://u:" + secret + "@127.0.0.1:port/x"},
		"no server":     {DSN: "postgres://u:" + secret + "@127.0.0.1:1/x"},
		"bad keyword":   {DSN: "host=127.0.0.1 password=" + secret + " port=x"},
		"bad mode":      {DSN: "postgres://u:" + secret + "@127.0.0.1:1/x?sslmode=verify_full"},
		"fields":        {Host: "127.0.0.1", Port: 1, User: "u", Password: secret, Database: "x"},
		"odd password":  {Host: "127.0.0.1", Port: 1, User: "u", Password: secret + `' \`, Database: "x"},
		"misspelt tls":  {DSN: "postgres://u:" + secret + "@127.0.0.1:1/x", TLS: "verify_full"},
		"no such files": {DSN: "postgres://u:" + secret + "@127.0.0.1:1/x", TLS: "verify-full", SSLRootCert: "/nowhere"},
	} {
		t.Run(name, func(t *testing.T) {
			full := DefaultSourceConfig()
			full.DSN, full.Host, full.Port, full.User, full.Password, full.Database = config.DSN, config.Host, config.Port, config.User, config.Password, config.Database
			full.TLS, full.SSLRootCert, full.Tables = config.TLS, config.SSLRootCert, []connectors.TableSpec{{Name: "public.t"}}
			err := full.Validate()
			if err == nil {
				_, err = newSource(t.Context(), full, connectors.NewEnv("x"), nil)
			}
			if err == nil || strings.Contains(err.Error(), secret) {
				t.Errorf("error: %v", err)
			}
		})
	}
}

func TestCheckNamesWhatWouldNotWork(t *testing.T) {
	t.Parallel()
	server := localserver.StartForTest(t, localserver.Options{Unsafe: true, Settings: map[string]string{"wal_level": "replica", "max_replication_slots": "0"}})
	h := harnessOn(t, server.DSN("postgres"), "check", "public.*", `CREATE TABLE np (a int)`, `CREATE UNLOGGED TABLE fast (a int PRIMARY KEY)`,
		`CREATE TABLE gen (a int, b int GENERATED ALWAYS AS (a) STORED PRIMARY KEY)`, `CREATE TABLE closed (a int PRIMARY KEY)`,
		`CREATE ROLE reader LOGIN`, `GRANT SELECT ON np, fast, gen TO reader`)
	h.config.DSN = strings.Replace(h.config.DSN, "postgres@", "reader@", 1)
	findings, err := check(t.Context(), h.config, h.env)
	if err != nil {
		t.Fatal(err)
	}
	for subject, remedy := range map[string]string{"wal_level": "wal_level = logical", "user reader": "REPLICATION", "max_replication_slots": "raise",
		"table public.np": "REPLICA IDENTITY FULL", "table public.fast": "SET LOGGED", "table public.gen": "name key columns", "table public.closed": "GRANT SELECT"} {
		if !slices.ContainsFunc(findings, func(f connectors.Finding) bool { return f.Subject == subject && strings.Contains(f.Remedy, remedy) }) {
			t.Errorf("no finding about %s with %q in %+v", subject, remedy, findings)
		}
	}
	if err := h.tryOpen(); !errors.Is(err, connectors.ErrFatal) || !strings.Contains(err.Error(), "wal_level") {
		t.Errorf("open: %v", err)
	}
	h.config.Snapshot = snapshotOnly // needs none of it
	h.open()
	if _, err := h.read(); err != nil && !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}
