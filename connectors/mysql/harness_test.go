package mysql

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/mysql/localserver"
)

// patience is how long a test waits for something that has to come. Extracts stay below the open transactions of the whole
// server, those of other tests too.
const patience = 4 * time.Minute

// harness is a database, a source's settings, and what was read so far.
type harness struct {
	t      *testing.T
	server *localserver.Server
	name   string // of the database, and so of the source
	pool   *sql.DB
	conn   *sql.Conn
	config SourceConfig
	env    connectors.Env

	source  connectors.Source
	mark    connectors.Position // of the last batch with one
	changes []connectors.Change // all that were read, copied
	pending []connectors.Change // those since the last position

	mu      sync.Mutex
	reports []connectors.Report
}

// newHarness makes a database of its own on the shared server and runs the statements there. Tables are named without
// their database.
func newHarness(t *testing.T, tables string, statements ...string) *harness {
	t.Helper()
	db := localserver.ForTest(t)
	return harnessOn(t, db.Server, db.Name, tables, statements...)
}

func harnessOn(t *testing.T, server *localserver.Server, name, tables string, statements ...string) *harness {
	t.Helper()
	h := &harness{t: t, server: server, name: name}
	h.config = DefaultSourceConfig()
	h.config.DSN = server.DSN(name)
	h.config.Heartbeat = 100 * time.Millisecond
	for pattern := range strings.FieldsSeq(tables) {
		h.config.Tables = append(h.config.Tables, connectors.TableSpec{Name: name + "." + pattern})
	}
	h.env = connectors.NewEnv(name)
	h.env.Dir = t.TempDir()
	h.env.Report = func(r connectors.Report) {
		h.mu.Lock()
		h.reports = append(h.reports, r)
		h.mu.Unlock()
	}
	if testing.Verbose() {
		h.env.Logger = slog.New(slog.NewTextHandler(logWriter{t}, nil))
	}
	h.connect()
	h.exec(statements...)
	t.Cleanup(func() {
		h.close()
		h.conn.Close()
		h.pool.Close()
	})
	return h
}

func (h *harness) connect() {
	h.t.Helper()
	var err error
	if h.pool, err = h.server.Open(h.name, "multiStatements=true&charset=utf8mb4&timeout=10s"); err != nil {
		h.t.Fatal(err)
	}
	h.takeConn()
}

func (h *harness) openPool(connector driver.Connector) {
	h.t.Helper()
	h.pool = sql.OpenDB(connector)
	h.takeConn()
}

func (h *harness) takeConn() {
	h.t.Helper()
	var err error
	if h.conn, err = h.pool.Conn(context.Background()); err != nil {
		h.t.Fatal(err)
	}
}

type logWriter struct{ t *testing.T }

func (w logWriter) Write(p []byte) (int, error) {
	w.t.Log(string(bytes.TrimSpace(p)))
	return len(p), nil
}

func (h *harness) exec(statements ...string) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, s := range statements {
		if _, err := h.conn.ExecContext(ctx, s); err != nil {
			h.t.Fatalf("%.300s: %v", s, err)
		}
	}
}

// query returns one text.
func (h *harness) query(statement string) string {
	h.t.Helper()
	var out sql.NullString
	if err := h.conn.QueryRowContext(context.Background(), statement).Scan(&out); err != nil {
		h.t.Fatalf("%s: %v", statement, err)
	}
	if !out.Valid {
		return "NULL"
	}
	return out.String
}

// open opens the source at the mark.
func (h *harness) open() {
	h.t.Helper()
	if err := h.tryOpen(); err != nil {
		h.t.Fatal(err)
	}
}

func (h *harness) tryOpen() error {
	h.t.Helper()
	h.close()
	if err := h.config.Validate(); err != nil {
		return err
	}
	source, err := newSource(context.Background(), h.config, h.env, h.mark)
	if err == nil {
		h.source = source
	}
	return err
}

func (h *harness) close() {
	if h.source != nil {
		h.source.Close(context.Background())
		h.source = nil
	}
	h.pending = nil
}

// read reads one batch, within the patience.
func (h *harness) read() (connectors.Batch, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	b, err := h.source.Read(ctx)
	if err != nil {
		return b, err
	}
	for _, c := range b.Changes {
		c.Before, c.After = connectors.CloneRow(c.Before), connectors.CloneRow(c.After)
		c.Origin, c.Position = bytes.Clone(c.Origin), bytes.Clone(c.Position)
		h.pending = append(h.pending, c)
	}
	if b.Position != nil {
		h.mark = bytes.Clone(b.Position)
		h.changes = append(h.changes, h.pending...)
		h.pending = nil
		if err := h.source.Ack(ctx, h.mark); err != nil {
			return b, err
		}
	}
	return b, nil
}

// until reads until the condition holds.
func (h *harness) until(what string, condition func() bool) {
	h.t.Helper()
	deadline := time.Now().Add(patience)
	for !condition() {
		if time.Now().After(deadline) {
			h.t.Fatalf("waited in vain for %s; mark %s", what, h.mark)
		}
		if _, err := h.read(); err != nil {
			h.t.Fatalf("%s: %v; mark %s", what, err, h.mark)
		}
	}
}

// untilCount reads until so many changes were read.
func (h *harness) untilCount(n int) {
	h.t.Helper()
	h.until(fmt.Sprintf("%d changes", n), func() bool { return len(h.changes) >= n })
	if len(h.changes) > n {
		h.t.Fatalf("%d changes, want %d: %s", len(h.changes), n, h.texts())
	}
}

// catchUp reads until all that is in the database now has come.
func (h *harness) catchUp() {
	h.t.Helper()
	end, _, err := masterStatus(context.Background(), h.conn)
	if err != nil {
		h.t.Fatal(err)
	}
	h.until("the end of the binary log", func() bool {
		if h.mark == nil {
			return false
		}
		p, err := parsePosition(h.mark)
		return err == nil && p.Snapshot == nil && !(place{p.File, p.Pos}).before(end)
	})
}

// drain reads to the end of a bounded source.
func (h *harness) drain() {
	h.t.Helper()
	for {
		if _, err := h.read(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			h.t.Fatal(err)
		}
	}
}

func (h *harness) texts() string {
	var out []string
	for _, c := range h.changes {
		out = append(out, changeText(c))
	}
	return strings.Join(out, " | ")
}

// changeText writes a change for comparison: u t [1] -> [1 x ~].
func changeText(c connectors.Change) string {
	s := string(c.Op.Code()) + " " + c.Table.Name
	if c.Before != nil {
		s += " " + rowText(c.Before)
	}
	if c.After != nil {
		s += " -> " + rowText(c.After)
	}
	return s
}

func rowText(row []connectors.Value) string {
	var parts []string
	for _, v := range row {
		parts = append(parts, valueText(v))
	}
	return "[" + strings.Join(parts, " ") + "]"
}

// valueText shortens long values; ~ is absent.
func valueText(v connectors.Value) string {
	switch {
	case v.IsAbsent():
		return "~"
	case v.IsNull():
		return "null"
	case v.Kind() == connectors.Bytes:
		return fmt.Sprintf("0x%x", v.Data())
	}
	text := string(v.AppendText(nil))
	if len(text) > 200 {
		return fmt.Sprintf("%s…%d", text[:4], len(text))
	}
	return text
}

// want compares all changes so far.
func (h *harness) want(list ...string) {
	h.t.Helper()
	if got := strings.Split(h.texts(), " | "); !slices.Equal(got, list) {
		h.t.Errorf("changes:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(list, "\n"))
	}
}
