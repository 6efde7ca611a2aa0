package endtoend

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A newcomer's way: init, check --connect, run. It is the way of docs/quickstart.md.
func TestFromADatabaseToALine(t *testing.T) {
	t.Parallel()
	source := newDatabase(t)
	source.exec("CREATE TABLE orders (id int PRIMARY KEY, note text, updated_at timestamptz)", "INSERT INTO orders VALUES (1, 'one', now())",
		"CREATE TABLE log (n int)", `CREATE TABLE "odd: name" (id int PRIMARY KEY)`, `INSERT INTO "odd: name" VALUES (7)`)
	u, err := url.Parse(source.URL)
	if err != nil {
		t.Fatal(err)
	}
	const password = `p@ss/"wörd' #{}$%`
	source.exec(`CREATE ROLE newcomer_` + strings.ToLower(source.Name) + ` LOGIN SUPERUSER PASSWORD 'p@ss/"wörd'' #{}$%'`)
	u.User = url.UserPassword("newcomer_"+strings.ToLower(source.Name), password)
	dir := t.TempDir()
	self := program(t)
	run := func(args ...string) string {
		cmd := exec.Command(self, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "SHOP_PASSWORD="+password)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args[0], err, out)
		}
		if strings.Contains(string(out), "wörd") {
			t.Errorf("%s shows the password: %s", args[0], out)
		}
		return string(out)
	}
	if out := run("init", u.String(), "--name", "shop"); !strings.Contains(out, "2 tables, 1 left out") || !strings.Contains(out, "export SHOP_PASSWORD=") {
		t.Errorf("init said: %s", out)
	}
	text, err := os.ReadFile(filepath.Join(dir, "pipelines.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"password: ${SHOP_PASSWORD}", "- public.orders", "rows, key id", "# - public.log # left out:", "REPLICA IDENTITY FULL", "'public.odd: name'", "GRANT SELECT ON ALL TABLES IN SCHEMA"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(string(text), "wörd") {
		t.Error("the file holds the password")
	}
	if out := run("check", "--connect"); !strings.Contains(out, "pipelines.yaml works") {
		t.Errorf("check said: %s", out)
	}
	run("run", "--once")
	lines, _ := filepath.Glob(dir + "/data/archive/shop.public.*/*/*.jsonl")
	if len(lines) != 2 {
		t.Errorf("the archive has %q", lines)
	}
	t.Cleanup(func() { source.exec("SELECT pg_drop_replication_slot('trunkline_shop')") })
	cmd := exec.Command(self, "init", u.String())
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err == nil || cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "is there already") {
		t.Errorf("a second init: %v %s", err, out)
	}
}
