package endtoend

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestRunsOfOneSourceDoNotOverlap starts two processes at a time that extract one source, each with a log of its own, while the
// table is locked so that a run lasts: one of them waits for the other. Then a run that was asked for by HTTP goes on,
// a second request is refused, and a process waits.
func TestRunsOfOneSourceDoNotOverlap(t *testing.T) {
	t.Parallel()
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		source := newDatabase(t)
		source.exec("CREATE TABLE ev (id int PRIMARY KEY)", "INSERT INTO ev SELECT generate_series(1, 100)")
		lock := connectTo(t, source.Database)
		testOverlap(t, overlap{
			source: fmt.Sprintf("  shop:\n    type: postgres\n    dsn: %q\n    mode: timestamp\n    schedule: off\n    tables: [{name: public.ev, cursor: id}]\n", source.URL),
			topic:  "shop.public.ev",
			lock:   func() { lock.exec("BEGIN", "LOCK TABLE ev IN ACCESS EXCLUSIVE MODE") },
			unlock: func() { lock.exec("COMMIT") },
			waits: func() bool {
				return slices.Equal(source.list("SELECT count(*)::text FROM pg_locks WHERE locktype = 'relation' AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"), []string{"1"})
			},
			refusal: "another process extracts source shop from this database",
		})
	})
	t.Run("MariaDB", func(t *testing.T) {
		t.Parallel()
		source := newMaria(t)
		// Rows of long ago lie below the bound, whatever other tests have open on the server.
		source.exec("CREATE TABLE ev (id int PRIMARY KEY, at datetime NOT NULL)", "INSERT INTO ev SELECT seq, '2020-01-01' FROM seq_1_to_100")
		conn, err := source.pool.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		exec := func(statement string) {
			if _, err := conn.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		testOverlap(t, overlap{
			source: fmt.Sprintf("  shop:\n    type: mysql\n    dsn: %q\n    mode: timestamp\n    schedule: off\n    tables: [{name: %s.ev, cursor: at}]\n", source.URL, source.Name),
			topic:  "shop." + source.Name + ".ev",
			lock:   func() { exec("LOCK TABLES ev WRITE") },
			unlock: func() { exec("UNLOCK TABLES") },
			waits: func() bool {
				return slices.Equal(source.list("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = '"+source.Name+"' AND STATE LIKE 'Waiting for table metadata lock%'"), []string{"1"})
			},
			refusal: "another process extracts source shop from this server",
		})
	})
}

// overlap is a source of 100 rows whose runs can be made to last.
type overlap struct {
	source, topic string
	lock, unlock  func()
	waits         func() bool // a run waits for the lock
	refusal       string      // what a process says that finds another one at it
}

func testOverlap(t *testing.T, o overlap) {
	const other = "  other:\n    type: postgres\n    dsn: postgres://nobody@127.0.0.1:1/nothing\n    mode: timestamp\n    tables: [{name: public.x, cursor: id}]\n" // --only leaves it alone
	newOne := func() *line { return newLine(t, o.source+other, fileSink) }
	first, second := newOne(), newOne()
	once := func(l *line) *begun { return l.begin("run", "--once", "--only", "shop") }

	o.lock()
	a := once(first)
	eventually(t, "the first run goes on", o.waits)
	b := once(second)
	eventually(t, "the second process finds the first one", func() bool { return strings.Contains(b.said(), o.refusal) })
	if a.ended() || b.ended() {
		t.Fatal("a process has ended, and the table is locked")
	}
	o.unlock()
	a.wantEnd(0)
	finish(b, o.refusal)
	for name, l := range map[string]*line{"first": first, "second": second} {
		if n := l.records(o.topic); n != 100 {
			t.Errorf("the log of the %s process has %d records, want 100", name, n)
		}
	}

	daemon := newOne()
	daemon.start()
	extract := func() int {
		response, err := http.Post("http://"+daemon.http+"/api/sources/shop/extract?wait=no", "", nil)
		if err != nil {
			return 0
		}
		response.Body.Close()
		return response.StatusCode
	}
	o.lock()
	eventually(t, "a run is taken on", func() bool { return extract()/100 == 2 })
	eventually(t, "the daemon's run goes on", o.waits)
	if code := extract(); code != http.StatusConflict {
		t.Errorf("a second request while a run goes on: %d, want 409", code)
	}
	b = once(second)
	eventually(t, "the process finds the daemon", func() bool { return strings.Contains(b.said(), o.refusal) })
	o.unlock()
	finish(b, o.refusal)
	eventually(t, "the run has ended, and another one is taken on", func() bool { return extract()/100 == 2 })
	if code := daemon.stop(); code != 0 {
		t.Errorf("a clean drain ended with %d", code)
	}
	if n := daemon.records(o.topic); n != 100 {
		t.Errorf("the daemon's log has %d records, want 100", n)
	}
}

// finish waits for a run to end well. One that gave up, because the other process was at it for too long, is made again, as cron
// does.
func finish(b *begun, refusal string) {
	b.l.t.Helper()
	for {
		eventually(b.l.t, "the command ends", b.ended)
		if b.cmd.ProcessState.ExitCode() == 0 || !strings.Contains(b.said(), "attempts without progress") || !strings.Contains(b.said(), refusal) {
			b.wantEnd(0)
			return
		}
		b = b.l.begin(b.cmd.Args[1 : len(b.cmd.Args)-2]...)
	}
}

// begun is a command that runs beside the test.
type begun struct {
	l    *line
	file string
	done chan struct{}
	cmd  *exec.Cmd
}

// begin starts a command of the program.
func (l *line) begin(args ...string) *begun {
	l.t.Helper()
	file, err := os.CreateTemp(l.dir, "begun")
	if err != nil {
		l.t.Fatal(err)
	}
	defer file.Close()
	b := &begun{l: l, file: file.Name(), done: make(chan struct{}), cmd: exec.Command(l.self, append(args, "-f", l.config)...)}
	b.cmd.Stdout, b.cmd.Stderr = file, file
	if err := b.cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	go func() {
		b.cmd.Wait()
		close(b.done)
	}()
	l.t.Cleanup(func() {
		b.cmd.Process.Kill()
		<-b.done
		if l.t.Failed() {
			l.t.Logf("what %v printed:\n%s", args, lastPart([]byte(b.said()), 3000))
		}
	})
	return b
}

// said is what it has printed so far.
func (b *begun) said() string {
	text, err := os.ReadFile(b.file)
	if err != nil {
		b.l.t.Fatal(err)
	}
	return string(text)
}

func (b *begun) ended() bool {
	select {
	case <-b.done:
		return true
	default:
		return false
	}
}

func (b *begun) wantEnd(code int) {
	b.l.t.Helper()
	eventually(b.l.t, "the command ends", b.ended)
	if got := b.cmd.ProcessState.ExitCode(); got != code {
		b.l.t.Errorf("%v ended with %d, want %d", b.cmd.Args[1:], got, code)
	}
}

// records counts the records of a topic in a log that nobody has open.
func (l *line) records(topic string) int {
	l.t.Helper()
	code, out := l.run("consume", topic, "--from", "earliest")
	if code != 0 {
		l.t.Fatalf("consume %s ended with %d: %s", topic, code, out)
	}
	return strings.Count(out, `"op":`)
}
