package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/postgres/localserver"
)

// patience is how long a test waits for something that has to come.
const patience = 4 * time.Minute

// bench is a database, a source's settings, and what was read so far.
type harness struct {
	t      *testing.T
	dsn    string
	name   string // of the database, and so of the source
	conn   *pgx.Conn
	config SourceConfig
	env    connectors.Env

	source  connectors.Source
	mark    connectors.Position // of the last batch with one
	changes []connectors.Change // all that were read, copied
	pending []connectors.Change // those since the last position
	noAck   bool

	mu      sync.Mutex
	reports []connectors.Report
}

// newHarness makes a database of its own and runs the statements there.
func newHarness(t *testing.T, tables string, statements ...string) *harness {
	t.Helper()
	db := localserver.ForTest(t)
	return harnessOn(t, db.URL, db.Name, tables, statements...)
}

func harnessOn(t *testing.T, dsn, name, tables string, statements ...string) *harness {
	t.Helper()
	h := &harness{t: t, dsn: dsn, name: name}
	h.config = DefaultSourceConfig()
	h.config.DSN = dsn
	h.config.Heartbeat = 100 * time.Millisecond
	for pattern := range strings.FieldsSeq(tables) {
		h.config.Tables = append(h.config.Tables, connectors.TableSpec{Name: pattern})
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
		h.conn.Close(context.Background())
	})
	return h
}

func (h *harness) connect() {
	h.t.Helper()
	conn, err := pgx.Connect(context.Background(), h.dsn)
	if err != nil {
		h.t.Fatal(err)
	}
	h.conn = conn
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
	for _, sql := range statements {
		if _, err := h.conn.Exec(ctx, sql); err != nil {
			h.t.Fatalf("%s: %v", sql, err)
		}
	}
}

// query returns one text.
func (h *harness) query(sql string) string {
	h.t.Helper()
	var out *string
	if err := h.conn.QueryRow(context.Background(), sql).Scan(&out); err != nil {
		h.t.Fatalf("%s: %v", sql, err)
	}
	if out == nil {
		return "NULL"
	}
	return *out
}

func (h *harness) slot() string { return h.config.named(h.name).Slot }

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
	deadline := time.Now().Add(patience)
	for {
		source, err := openMode(context.Background(), h.config, h.env, h.mark)
		if err == nil {
			h.source = source
			return nil
		}
		if !strings.Contains(err.Error(), "is active") && !strings.Contains(err.Error(), "in use") || time.Now().After(deadline) {
			return err
		}
		time.Sleep(10 * time.Millisecond) // the server has not noticed yet that the last connection ended
	}
}

func (h *harness) close() {
	if h.source != nil {
		h.source.Close(context.Background())
		h.source = nil
	}
	h.pending = nil
}

// read reads one batch, within the patience.
func (h *harness) read() (connectors.Batch, error) { return h.readWithin(patience) }

func (h *harness) readWithin(d time.Duration) (connectors.Batch, error) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
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
		if !h.noAck {
			if err := h.source.Ack(ctx, h.mark); err != nil {
				return b, err
			}
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
			h.t.Fatalf("waited in vain for %s", what)
		}
		if _, err := h.readWithin(200 * time.Millisecond); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			h.t.Fatalf("%s: %v%s", what, err, h.state())
		}
	}
}

// state is where the source stands, for messages.
func (h *harness) state() string {
	s := fmt.Sprintf(" (mark %s", h.mark)
	if st := h.source.(*Source).stream.Load(); st != nil {
		s += fmt.Sprintf(", end %s, server's end %s, in transaction %v, low water %v, heard %s ago", st.end, st.serverEnd, st.inTx, st.wal.busy, time.Since(st.wal.heard))
	}
	return s + ")"
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
	end, err := parseLSN(h.query("SELECT pg_current_wal_insert_lsn()::text"))
	if err != nil {
		h.t.Fatal(err)
	}
	h.until("the end of the WAL", func() bool {
		if h.mark == nil || h.source.(*Source).stream.Load() == nil {
			return false
		}
		p, err := parsePosition(h.mark)
		return err == nil && p.Snapshot == nil && p.LSN+longPageHeader >= end
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

// changeText writes a change for comparison: u public.t [1] -> [1 x ~].
func changeText(c connectors.Change) string {
	s := string(c.Op.Code()) + " " + c.Table.FullName()
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
	}
	text := string(v.AppendText(nil))
	if len(text) > 200 {
		return fmt.Sprintf("%s…%d", text[:4], len(text))
	}
	return text
}

// model applies changes as a keyed sink does. Absent values keep what was there.
func model(t *testing.T, changes []connectors.Change) map[string]map[string][]connectors.Value {
	t.Helper()
	out := map[string]map[string][]connectors.Value{}
	for _, c := range changes {
		rows := out[c.Table.FullName()]
		if rows == nil {
			rows = map[string][]connectors.Value{}
			out[c.Table.FullName()] = rows
		}
		key := func(row []connectors.Value) string {
			var b []byte
			for _, i := range c.Table.Key {
				b = append(append(b, row[i].Kind().String()...), 0)
				b = append(row[i].AppendText(b), 0)
			}
			return string(b)
		}
		switch c.Op {
		case connectors.Truncate:
			clear(rows)
		case connectors.Delete:
			delete(rows, key(c.Before))
		default:
			k := key(c.After)
			old := rows[k]
			if c.Before != nil && key(c.Before) != k {
				old = rows[key(c.Before)]
				delete(rows, key(c.Before))
			}
			row := slices.Clone(c.After)
			for i := range row {
				if row[i].IsAbsent() && i < len(old) {
					row[i] = old[i]
				}
			}
			rows[k] = row
		}
	}
	return out
}

// wantTable compares the model of a table with the database.
func (h *harness) wantTable(table, columns, order string) {
	h.t.Helper()
	var want []string
	rows, err := h.conn.Query(context.Background(), fmt.Sprintf("SELECT concat_ws(' ', %s) FROM %s ORDER BY %s", columns, table, order))
	if err != nil {
		h.t.Fatal(err)
	}
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			h.t.Fatal(err)
		}
		want = append(want, s)
	}
	var got []string
	for _, row := range model(h.t, h.changes)[table] {
		var parts []string
		for _, v := range row {
			if v.IsAbsent() {
				parts = append(parts, "~")
			} else if !v.IsNull() {
				parts = append(parts, string(v.AppendText(nil)))
			}
		}
		got = append(got, strings.Join(parts, " "))
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		missing, extra := 0, 0
		for _, w := range want {
			if _, ok := slices.BinarySearch(got, w); !ok {
				if missing++; missing <= 3 {
					h.t.Errorf("table %s: missing %.200s", table, w)
				}
			}
		}
		for _, g := range got {
			if _, ok := slices.BinarySearch(want, g); !ok {
				if extra++; extra <= 3 {
					h.t.Errorf("table %s: extra %.200s", table, g)
				}
			}
		}
		h.t.Fatalf("table %s: %d rows, want %d; %d missing, %d extra", table, len(got), len(want), missing, extra)
	}
}
