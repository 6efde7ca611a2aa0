package endtoend

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A log that was lost and begun anew counts its offsets from zero. A target that holds an offset of the old one must not
// take the first records of the new one for delivered.
func TestNewLogUnderAnOldTargetIsAGap(t *testing.T) {
	t.Parallel()
	source, target := newDatabase(t), newDatabase(t)
	source.exec("CREATE TABLE kept (id int PRIMARY KEY)", "INSERT INTO kept SELECT generate_series(1, 100)")
	l := newLine(t, postgresSource(source, "shop", "tables: [public.kept]"), postgresSink(target, "replica"))
	l.once()
	if err := os.RemoveAll(filepath.Join(l.dir, "log")); err != nil {
		t.Fatal(err)
	}
	source.exec("INSERT INTO kept SELECT generate_series(101, 300)")
	code, out := l.run("run", "--once")
	if code != 3 || !strings.Contains(out, "begun anew") || !strings.Contains(out, "groups reset replica --to earliest") {
		t.Errorf("exit code %d: %s", code, lastPart([]byte(out), 2000))
	}
	if code, out := l.run("groups", "reset", "replica", "--to", "earliest", "--topic", "shop.public.kept"); code != 0 {
		t.Fatalf("groups reset: exit code %d: %s", code, out)
	}
	l.once()
	equalRows(t, source, target, "kept")
}
