// Package endtoend holds the tests that run the program itself, as a process, between real databases.
package endtoend

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/trunkline/trunkline/connectors/postgres/localserver"
)

// patience bounds every wait for something that has to happen. It is long: tests share the machine and a server, on which the
// slot of one waits for the transactions of the others.
const patience = 3 * time.Minute

var built struct {
	once sync.Once
	path string
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if built.path != "" {
		os.RemoveAll(filepath.Dir(built.path))
	}
	os.Exit(code)
}

// program builds the program once for all tests.
func program(t *testing.T) string {
	t.Helper()
	built.once.Do(func() {
		dir, err := os.MkdirTemp("", "trunkline-program-")
		if err != nil {
			built.err = err
			return
		}
		built.path = filepath.Join(dir, "trunkline")
		if out, err := exec.Command("go", "build", "-o", built.path, "../trunkline").CombinedOutput(); err != nil {
			built.err = fmt.Errorf("build the program: %w: %s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.path
}

// line is one configuration and the process that runs it.
type line struct {
	t      *testing.T
	self   string
	dir    string
	config string
	output string
	http   string
	log    string   // the log's settings
	zone   string   // of the daemon; empty: the test's
	env    []string // of the daemon, beside the test's
	cmd    *exec.Cmd
	ended  chan struct{}
}

// newLine writes a configuration with the given sources and sinks below a log and a status page of its own. DIR in the
// text stands for the test's folder.
func newLine(t *testing.T, sources, sinks string) *line {
	t.Helper()
	return newLineOn(t, "", sources, sinks)
}

// newLineOn is newLine with further settings of the log.
func newLineOn(t *testing.T, log, sources, sinks string) *line {
	t.Helper()
	dir := t.TempDir()
	l := &line{t: t, self: program(t), dir: dir, output: filepath.Join(dir, "output"), http: freeAddress(t), log: log}
	l.configure(sources, sinks)
	t.Cleanup(func() {
		l.kill()
		if t.Failed() {
			if out, err := os.ReadFile(l.output); err == nil {
				t.Logf("what the program printed:\n%s", lastPart(out, 6000))
			}
		}
	})
	return l
}

func lastPart(b []byte, n int) []byte { return b[max(0, len(b)-n):] }

func (l *line) configure(sources, sinks string) {
	l.t.Helper()
	text := fmt.Sprintf("log:\n  dir: DIR/log\n  listen: off\n%shttp:\n  listen: %s\nsources:\n%ssinks:\n%s", l.log, l.http, sources, sinks)
	l.config = filepath.Join(l.dir, "pipelines.yaml")
	if err := os.WriteFile(l.config, []byte(strings.ReplaceAll(text, "DIR", l.dir)), 0o600); err != nil {
		l.t.Fatal(err)
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// start runs the daemon.
func (l *line) start() {
	l.t.Helper()
	file, err := os.OpenFile(l.output, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		l.t.Fatal(err)
	}
	defer file.Close()
	l.cmd = exec.Command(l.self, "run", "-f", l.config)
	l.cmd.Stdout, l.cmd.Stderr = file, file
	l.cmd.Env = append(os.Environ(), l.env...)
	if l.zone != "" {
		l.cmd.Env = append(l.cmd.Env, "TZ="+l.zone)
	}
	if err := l.cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	l.ended = make(chan struct{})
	go func(cmd *exec.Cmd, ended chan struct{}) {
		cmd.Wait()
		close(ended)
	}(l.cmd, l.ended)
}

// kill ends the daemon with SIGKILL; nothing happens if none runs.
func (l *line) kill() {
	if l.cmd == nil {
		return
	}
	l.cmd.Process.Kill()
	<-l.ended
	l.cmd = nil
}

// stop lets the daemon drain and returns its exit code.
func (l *line) stop() int {
	l.t.Helper()
	l.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-l.ended:
	case <-time.After(patience):
		l.t.Fatal("the daemon does not drain")
	}
	code := l.cmd.ProcessState.ExitCode()
	l.cmd = nil
	return code
}

// run calls a command of the program to its end and returns its exit code and what it printed.
func (l *line) run(args ...string) (int, string) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, l.self, append(args, "-f", l.config)...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		l.t.Fatalf("run %v: %v", args, err)
	}
	if file, err := os.OpenFile(l.output, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); err == nil {
		file.Write(out)
		file.Close()
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// once reads every source to its end and delivers all of it.
func (l *line) once() {
	l.t.Helper()
	if code, out := l.run("run", "--once"); code != 0 {
		l.t.Fatalf("run --once ended with %d: %s", code, lastPart([]byte(out), 3000))
	}
}

// database is an empty database with a connection for the test's own statements.
type database struct {
	*localserver.Database
	t    *testing.T
	conn *pgx.Conn
}

func newDatabase(t *testing.T) *database {
	t.Helper()
	return connectTo(t, localserver.ForTest(t))
}

func connectTo(t *testing.T, db *localserver.Database) *database {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), db.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return &database{Database: db, t: t, conn: conn}
}

// exec runs statements, each on its own.
func (d *database) exec(statements ...string) {
	d.t.Helper()
	for _, s := range statements {
		if _, err := d.conn.Exec(context.Background(), s); err != nil {
			d.t.Fatalf("%s: %v", s, err)
		}
	}
}

// list returns the first column of a query, nil if the query fails (a table that is not there yet).
func (d *database) list(query string) []string {
	rows, err := d.conn.Query(context.Background(), query)
	if err != nil {
		return nil
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil
	}
	return list
}

// rows returns a table as text, sorted.
func (d *database) rows(table string) []string {
	return d.list("SELECT t::text FROM " + table + " AS t ORDER BY 1")
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("after %v still not: %s", patience, what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// equalRows waits until the table is the same in both databases.
func equalRows(t *testing.T, source, target *database, tables ...string) {
	t.Helper()
	for _, table := range tables {
		var want, got []string
		deadline := time.Now().Add(patience)
		for {
			want, got = source.rows(table), target.rows(table)
			if want != nil && slices.Equal(want, got) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: %d rows in the source, %d in the target; first difference: %s", table, len(want), len(got), firstDifference(want, got))
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
}

func firstDifference(want, got []string) string {
	for i := range max(len(want), len(got)) {
		switch {
		case i >= len(got):
			return "missing " + want[i]
		case i >= len(want):
			return "too many " + got[i]
		case want[i] != got[i]:
			return got[i] + " instead of " + want[i]
		}
	}
	return "none"
}

// postgresSource is a source that captures tables from the database. Slots belong to a server, which tests share.
func postgresSource(db *database, name string, more ...string) string {
	if !strings.Contains(strings.Join(more, " "), "slot:") {
		more = append(more, "slot: "+slotOf(db))
	}
	return fmt.Sprintf("  %s:\n    type: postgres\n    dsn: %q\n    mode: cdc\n    heartbeat: 1s\n%s", name, db.URL, settings(more))
}

func slotOf(db *database) string { return "slot_" + strings.ToLower(db.Name) }

// postgresSink is a sink that takes all topics into the database.
func postgresSink(db *database, name string, more ...string) string {
	return fmt.Sprintf("  %s:\n    type: postgres\n    dsn: %q\n    topics: [\"*\"]\n%s", name, db.URL, settings(more))
}

const fileSink = "  archive:\n    type: file\n    path: DIR/archive\n    format: jsonl\n    topics: [\"*\"]\n"

func settings(lines []string) string {
	var text strings.Builder
	for _, s := range lines {
		text.WriteString("    " + s + "\n")
	}
	return text.String()
}
