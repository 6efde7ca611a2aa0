package endtoend

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

// SIGHUP takes up a changed configuration and touches nothing that did not change.
func TestReload(t *testing.T) {
	t.Parallel()
	source, target, second := newDatabase(t), newDatabase(t), newDatabase(t)
	source.exec("CREATE TABLE item (id int PRIMARY KEY, v text)", "CREATE TABLE more (id int PRIMARY KEY)", "INSERT INTO item VALUES (1, 'a')", "INSERT INTO more VALUES (1)")
	item := postgresSource(source, "shop", "tables: [public.item]")
	l := newLine(t, item, postgresSink(target, "replica"))
	l.start()
	equalRows(t, source, target, "item")
	output := func() string {
		text, err := os.ReadFile(l.output)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	hangup := func(want string) {
		t.Helper()
		said := len(output())
		if err := l.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		eventually(t, want, func() bool { return strings.Contains(output()[said:], want) })
	}
	hangup("the configuration is the same")
	l.configure(item+"  bad:\n    type: nonsense\n", postgresSink(target, "replica"))
	hangup("the old one stays")
	l.configure(item, postgresSink(target, "replica")+postgresSink(second, "second"))
	hangup(`"added":"sink second"`)
	equalRows(t, source, second, "item")
	if n := strings.Count(output(), `"source opened"`); n != 1 {
		t.Errorf("a new sink made the source open %d times", n)
	}
	l.configure(postgresSource(source, "shop", "tables: [public.item, public.more]"), postgresSink(second, "second"))
	hangup(`"removed":"sink replica"`)
	equalRows(t, source, second, "item", "more")
	source.exec("INSERT INTO item VALUES (2, 'b')")
	equalRows(t, source, second, "item")
	if n := strings.Count(output(), `"sink opened","sink":"second"`); n != 1 {
		t.Errorf("a changed source made the sink open %d times", n)
	}
	if got := target.rows("item"); len(got) != 1 {
		t.Errorf("the sink that is gone still writes: %v", got)
	}
	if code := l.stop(); code != 0 {
		t.Errorf("drain ended with %d", code)
	}
}
