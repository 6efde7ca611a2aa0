package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trunkline/trunkline/cmd/trunkline/command"
	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/clickhouse"
	"github.com/trunkline/trunkline/connectors/mysql"
	maria "github.com/trunkline/trunkline/connectors/mysql/localserver"
	"github.com/trunkline/trunkline/connectors/postgres"
	"github.com/trunkline/trunkline/connectors/redis"
	"github.com/trunkline/trunkline/connectors/sqlite"
)

// canary is a password with every awkward character: those of URLs, YAML, JSON, SQL, shells, HTML and format strings.
const canary = `pw@:/?#%25%s&=+ "'\` + "`" + `$HOME{}[]<b>|;,!*~^üß-canary`

// output keeps what a program prints. Any goroutine may write.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// TestAPasswordShowsNowhere lets sources and sinks fail at a wrong password, at an address where nobody listens and at a row
// that is refused, and looks for the password in all that the program says and keeps.
func TestAPasswordShowsNowhere(t *testing.T) {
	t.Parallel()
	db := maria.ForTest(t)
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	shop, copied := openSQLite(t, filepath.Join(dir, "shop.db")), openSQLite(t, filepath.Join(dir, "copy.db"))
	shop("CREATE TABLE orders (id integer primary key, note text, at integer not null)")
	shop("INSERT INTO orders VALUES (1, 'bad', 1)")
	copied("CREATE TABLE orders (id integer primary key, note text, at integer)")
	copied("CREATE TRIGGER picky BEFORE INSERT ON orders BEGIN SELECT raise(abort, 'not this note'); END")
	write("pw", canary)
	write("dsn", (&url.URL{Scheme: "postgres", User: url.UserPassword("nobody", canary), Host: "127.0.0.1:1", Path: "/db"}).String())
	file := filepath.Join(dir, "pipelines.yaml")
	write("pipelines.yaml", strings.NewReplacer("DIR", dir, "ADDRESS", address, "PORT", strconv.Itoa(db.Port())).Replace(`
log: {listen: off, dir: "DIR/log"}
http: {listen: "ADDRESS"}
tracing: {endpoint: "http://127.0.0.1:PORT", sample: 1, headers: {Authorization: "${file:DIR/pw}"}}
sources:
  shop: {type: sqlite, path: "DIR/shop.db", poll: 20ms, tables: [{name: orders, cursor: at}]}
  wrong: {type: mysql, host: 127.0.0.1, port: PORT, user: nobody, password: "${file:DIR/pw}", database: x, tables: ["x.*"]}
  away: {type: postgres, dsn: "${file:DIR/dsn}", tables: ["public.*"]}
sinks:
  copy: {type: sqlite, path: "DIR/copy.db", topics: ["shop.*"]}
  mysql: {type: mysql, host: 127.0.0.1, port: PORT, user: nobody, password: "${file:DIR/pw}", database: x, topics: ["shop.*"]}
  postgres: {type: postgres, host: 127.0.0.1, port: PORT, user: nobody, password: "${file:DIR/pw}", database: x, topics: ["shop.*"]}
  redis: {type: redis, host: 127.0.0.1, port: PORT, password: "${file:DIR/pw}", topics: ["shop.*"]}
  click: {type: clickhouse, host: 127.0.0.1, port: PORT, user: nobody, password: "${file:DIR/pw}", topics: ["shop.*"]}
`))
	o := command.Options{Connectors: []connectors.Connector{clickhouse.Connector(), mysql.Connector(), postgres.Connector(), redis.Connector(), sqlite.Connector()}}
	said := map[string]string{}
	run := func(args ...string) {
		var out output
		command.Run(t.Context(), o, append(args, "-f", file), strings.NewReader(""), &out, &out)
		said[strings.Join(args, " ")] = out.String()
	}
	run("check", "--connect")
	run("check", "--connect", "--json")
	if !strings.Contains(said["check --connect"], "nobody") {
		t.Errorf("check --connect met no wrong password: %s", said["check --connect"])
	}

	var daemon output
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		ended <- command.Run(ctx, o, []string{"run", "-f", file}, strings.NewReader(""), &daemon, &daemon)
	}()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		status := fetch(t, address, "/api/status")
		if strings.Count(status, `"last_error":`) >= 6 && strings.Contains(status, `"dead_letters":1`) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("not everything has failed: %s", status)
		}
		time.Sleep(50 * time.Millisecond) // between two looks at the condition
	}
	for _, path := range []string{"/", "/api/status", "/api/info", "/api/topics", "/api/groups", "/metrics", "/readyz", "/debug/pprof/cmdline", "/debug/pprof/goroutine?debug=2"} {
		said[path] = fetch(t, address, path)
	}
	for _, line := range []string{"status", "status --json", "topics list", "groups list", "deadletters list copy --values", "deadletters replay copy --all", "verify mysql", "resync wrong", "pause away", "resume wrong",
		"consume shop.main.orders", "consume _trunkline.deadletters.copy", "consume _trunkline.positions", "consume _trunkline.schemas"} {
		run(strings.Fields(line)...)
	}
	cancel()
	<-ended
	said["run"] = daemon.String()
	if !strings.Contains(said["run"], "traces cannot be sent") {
		t.Error("traces were taken by a database")
	}
	err = filepath.WalkDir(filepath.Join(dir, "log"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		said[path] = string(text)
		return err
	})
	if err != nil {
		t.Error(err)
	}
	quoted, _ := json.Marshal(canary)
	forms := []string{canary, url.QueryEscape(canary), url.PathEscape(canary), strings.Trim(strconv.Quote(canary), `"`), strings.Trim(string(quoted), `"`),
		strings.TrimPrefix(url.UserPassword("", canary).String(), ":"), "-canary"}
	for what, text := range said {
		for _, form := range forms {
			if i := strings.Index(text, form); i >= 0 {
				t.Errorf("%s shows the password as %s: …%s", what, form, text[max(0, i-200):i+len(form)])
				break
			}
		}
	}
}

// openSQLite returns a function that executes statements in a file.
func openSQLite(t *testing.T, path string) func(statement string) {
	t.Helper()
	return func(statement string) {
		t.Helper()
		db := sql.OpenDB(sqliteName("file:" + path))
		defer db.Close()
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(fmt.Errorf("%s: %w", statement, err))
		}
	}
}

// fetch returns the body of an answer, whatever its code; nothing while nobody listens.
func fetch(t *testing.T, address, path string) string {
	t.Helper()
	client := http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get("http://" + address + path)
	if err != nil {
		return ""
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Error(err)
	}
	return string(text)
}
