package endtoend

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"
)

// TestEveryPageAndButtonInABrowser lets a headless browser open every page of a real daemon, at 360 and 2560 pixels, in
// light and dark, and press every button. Each page is checked by axe; what it finds is printed. The screenshots are
// kept in the folder that TRUNKLINE_SCREENSHOTS names.
func TestEveryPageAndButtonInABrowser(t *testing.T) {
	t.Parallel()
	browser, tools := browserAndTools(t)
	dir := t.TempDir()
	fill(t, filepath.Join(dir, "copy.db"), "create table orders(id integer primary key, state text not null check (state <> 'odd'), at integer not null)")
	fill(t, filepath.Join(dir, "shop.db"),
		"create table orders(id integer primary key, state text not null, at integer not null)",
		"create table customers(id integer primary key, name text, at integer not null)",
		"insert into orders with recursive n(i) as (select 1 union all select i+1 from n where i < 500) select i, 'new', i from n",
		"update orders set state = 'odd' where id in (7, 8)", // what the sink refuses
		"insert into customers values (1, 'Anne', 1), (2, 'Ben', 2)")
	const password = "a password of the page"
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	text := fmt.Sprintf(`
log: {dir: data/log, listen: "off"}
http: {listen: "%s", users: [{name: anne, password: "%s", role: operator}]}
sources:
  shop: {type: sqlite, path: shop.db, tables: [{name: orders, cursor: at, key: [id]}, {name: customers, cursor: at}]}
  nightly: {type: sqlite, path: shop.db, schedule: "0 3 1 1 *", tables: [{name: customers, cursor: at}]}
sinks:
  copy: {type: sqlite, path: copy.db, topics: ["shop.*"]}
  archive: {type: file, path: archive, topics: ["*"]}
  broken: {type: postgres, dsn: "postgres://me:a-hidden-word@127.0.0.1:1/none", topics: ["shop.*"]}
`, address, hash)
	if err := os.WriteFile(filepath.Join(dir, "pipelines.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	runDaemon(t, dir)
	shots := os.Getenv("TRUNKLINE_SCREENSHOTS")
	if shots == "" {
		shots = t.TempDir()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, "node", "testdata/page/page.mjs", "http://"+address, tools, shots, browser, "anne", password).CombinedOutput()
	if err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}

// fill makes a database.
func fill(t *testing.T, path string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range statements {
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// runDaemon runs the program on the configuration in dir until the test ends, and returns once its page is there.
func runDaemon(t *testing.T, dir string) {
	t.Helper()
	daemon := exec.Command(program(t), "run", "--log", "plain")
	daemon.Dir = dir
	messages, err := daemon.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	up, ended := make(chan struct{}, 1), make(chan struct{})
	var said strings.Builder
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(messages); lines.Scan(); {
			if fmt.Fprintln(&said, lines.Text()); strings.Contains(lines.Text(), "started") {
				select {
				case up <- struct{}{}:
				default: // it was said
				}
			}
		}
	}()
	t.Cleanup(func() {
		_ = daemon.Process.Signal(os.Interrupt)
		<-ended
		_ = daemon.Wait()
		if t.Failed() {
			t.Log(said.String())
		}
	})
	select {
	case <-up:
	case <-ended:
		t.Fatalf("the daemon ended: %s", said.String())
	}
}
