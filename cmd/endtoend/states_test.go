package endtoend

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"github.com/trunkline/trunkline/connectors/conformance"
	"github.com/trunkline/trunkline/pipeline"
)

// troubled is one source or sink in trouble, as the page script wants it.
type troubled struct {
	Kind   string         `json:"kind"`
	Name   string         `json:"name"`
	State  pipeline.State `json:"state"`
	Reason string         `json:"reason"`
}

// remedy is the command that a reason names.
var remedy = regexp.MustCompile(`trunkline ((?:resume|resync) \S+)`)

// TestEachStateAndItsRemedy brings a source and four sinks of one daemon, whose page speaks TLS, into the states opening, retrying,
// paused, gap and failed. The command line and the page in a browser show the same reason, and what it names is followed to
// the letter. The screenshots and what the command line printed are kept in the folder that TRUNKLINE_SCREENSHOTS names.
func TestEachStateAndItsRemedy(t *testing.T) {
	t.Parallel()
	browser, tools := browserAndTools(t)
	source, replica, strict, away := newDatabase(t), newDatabase(t), newDatabase(t), newDatabase(t)
	source.exec("CREATE TABLE item (id int PRIMARY KEY, v text)", "INSERT INTO item VALUES (1, 'a')")
	strict.exec("CREATE TABLE item (id int PRIMARY KEY, v text, CONSTRAINT even CHECK (v <> 'odd'))")
	sinks := postgresSink(replica, "replica") + postgresSink(strict, "strict", "on_error: stop")
	u, err := url.Parse(away.URL)
	if err != nil {
		t.Fatal(err)
	}
	server := u.Host
	u.Host = freeAddress(t)
	sinks += fmt.Sprintf("  away:\n    type: postgres\n    dsn: %q\n    topics: [\"*\"]\n", u.String())
	mute := *u
	mute.Host = silent(t)
	sinks += fmt.Sprintf("  mute:\n    type: postgres\n    dsn: %q\n    topics: [\"*\"]\n", mute.String())
	l := newLine(t, postgresSource(source, "shop", "tables: [public.item]"), sinks)
	const password = "a password of the page"
	secure(t, l, password)
	l.start()
	equalRows(t, source, replica, "item")

	if code, out := l.run("pause", "shop"); code != 0 {
		t.Fatal(out)
	}
	source.exec("SELECT pg_drop_replication_slot('" + slotOf(source) + "')")
	l.status(t, "shop", pipeline.Paused)
	l.follow(t, "shop")
	l.status(t, "shop", pipeline.Gap)
	source.exec("INSERT INTO item VALUES (2, 'odd')") // the resync brings it, and strict refuses it
	gap := l.status(t, "shop", pipeline.Gap)
	if opening := l.status(t, "mute", pipeline.Opening); !strings.HasPrefix(opening.Reason, "waits for postgres to answer since ") {
		t.Errorf("mute: %+v", opening)
	}
	states := []troubled{{"sources", "shop", pipeline.Gap, gap.Reason}, {"sinks", "mute", pipeline.Opening, "waits for postgres to answer since "},
		{"sinks", "away", pipeline.Retrying, "connection refused"}, {"sinks", "replica", pipeline.Paused, "trunkline resume replica"}}
	if retrying := l.status(t, "away", pipeline.Retrying); !strings.Contains(retrying.Reason, "connection refused") || retrying.RetryAt.IsZero() {
		t.Errorf("away: %+v", retrying)
	}
	l.browse(t, browser, tools, password, "before", states)
	l.status(t, "replica", pipeline.Paused) // the browser paused it

	l.follow(t, "shop")
	failed := l.status(t, "strict", pipeline.Failed)
	l.browse(t, browser, tools, password, "failed", []troubled{{"sinks", "strict", pipeline.Failed, failed.Reason}})
	if !strings.Contains(failed.Reason, "put it right, then trunkline resume strict") {
		t.Errorf("strict: %s", failed.Reason)
	}
	strict.exec("ALTER TABLE item DROP CONSTRAINT even") // put it right
	l.follow(t, "strict")
	l.follow(t, "replica")
	forward(t, u.Host, server) // retrying ends by itself
	for _, d := range []*database{replica, strict, away} {
		equalRows(t, source, d, "item")
	}
	for _, name := range []string{"shop", "replica", "strict", "away"} {
		l.status(t, name, pipeline.CaughtUp)
	}
	if code := l.stop(); code != 0 {
		t.Errorf("drain ended with %d", code)
	}
}

// browserAndTools returns where Chromium and the scripts' modules are.
func browserAndTools(t *testing.T) (browser, tools string) {
	t.Helper()
	browser, err := exec.LookPath("chromium")
	tools, pathErr := filepath.Abs("../../bin/page")
	if pathErr != nil {
		t.Fatal(pathErr)
	}
	if _, npmErr := os.Stat(filepath.Join(tools, "node_modules", "playwright-core")); err != nil || npmErr != nil {
		if os.Getenv("TRUNKLINE_SKIP_CLIENTS") != "" {
			t.Skip("browsers are left out (TRUNKLINE_SKIP_CLIENTS)")
		}
		t.Fatal("no chromium or no bin/page/node_modules: scripts/setup installs both")
	}
	return browser, tools
}

// secure lets the page of a line speak TLS, with a login for the browser and a token for the commands.
func secure(t *testing.T, l *line, password string) {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	cert, key := conformance.Certificate(t, "127.0.0.1")
	for name, block := range map[string]string{"page.crt": cert, "page.key": key} {
		if err := os.WriteFile(filepath.Join(l.dir, name), []byte(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(l.config)
	if err != nil {
		t.Fatal(err)
	}
	door := fmt.Sprintf("http:\n  tls: {cert: %[1]s/page.crt, key: %[1]s/page.key}\n  token: a token of the commands\n  users: [{name: anne, password: %[2]q, role: operator}]\n", l.dir, hash)
	if err := os.WriteFile(l.config, []byte(strings.Replace(string(text), "http:\n", door, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// status waits until trunkline status says that a source or sink is in a state.
func (l *line) status(t *testing.T, name string, state pipeline.State) (found pipeline.MemberStatus) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s is %s", name, state), func() bool {
		code, out := l.run("status", "--json")
		var s pipeline.Status
		if code != 0 || json.Unmarshal([]byte(out), &s) != nil {
			return false
		}
		for _, m := range append(s.Sources, s.Sinks...) {
			if m.Name == name {
				found = m
			}
		}
		return found.State == state
	})
	return found
}

// follow runs the command that the reason of a source or sink names.
func (l *line) follow(t *testing.T, name string) {
	t.Helper()
	code, out := l.run("status")
	if code != 0 {
		t.Fatal(out)
	}
	for text := range strings.Lines(out) {
		if !strings.HasPrefix(text, name+" ") {
			continue
		}
		m := remedy.FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("no remedy in %q", text)
		}
		if code, out := l.run(strings.Fields(m[1])...); code != 0 {
			t.Fatalf("%s: %s", m[0], out)
		}
		return
	}
	t.Fatalf("no %s in %s", name, out)
}

// browse lets the browser look at what is in trouble, and keeps what the command line says at that moment.
func (l *line) browse(t *testing.T, browser, tools, password, what string, states []troubled) {
	t.Helper()
	shots := os.Getenv("TRUNKLINE_SCREENSHOTS")
	if shots == "" {
		shots = t.TempDir()
	}
	wanted, err := json.Marshal(states)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, "node", "testdata/page/states.mjs", "https://"+l.http, tools, shots, browser, "anne", password, string(wanted)).CombinedOutput()
	if err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
	if _, said := l.run("status"); os.WriteFile(filepath.Join(shots, "states-"+what+".txt"), []byte(said), 0o600) != nil {
		t.Error("the output of trunkline status could not be kept")
	}
}

// silent returns the address of a server that takes connections and never says anything, until the test ends.
func silent(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0") // the system takes connections that nobody accepts
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener.Addr().String()
}

// forward passes connections to an address on to a server until the test ends.
func forward(t *testing.T, address, server string) {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	var open sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	open.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			upstream, err := net.Dial("tcp", server)
			if err != nil {
				client.Close()
				continue
			}
			mu.Lock()
			conns = append(conns, client, upstream)
			mu.Unlock()
			for _, pair := range [][2]net.Conn{{client, upstream}, {upstream, client}} {
				open.Go(func() {
					_, _ = io.Copy(pair[0], pair[1]) // the end of one side is the end of both
					client.Close()
					upstream.Close()
				})
			}
		}
	})
	t.Cleanup(func() {
		listener.Close()
		mu.Lock()
		for _, c := range conns {
			c.Close()
		}
		mu.Unlock()
		open.Wait()
	})
}
