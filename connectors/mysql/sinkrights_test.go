package mysql

import (
	"strings"
	"testing"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/conformance"
)

// TestDocumentedRightsOfASinkAreEnough runs a sink as the user of docs/sinks/mysql.md.
func TestDocumentedRightsOfASinkAreEnough(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "")
	copied := h.name + "_copy"
	h.exec("CREATE DATABASE " + ident(copied))
	user := "etl" + h.name[len(h.name)-min(len(h.name), 20):]
	h.exec(conformance.DocumentedStatements(t, "../../docs/sinks/mysql.md", "etl", "'"+user+"'@'127.0.0.1'", " BY '…'", " BY ''", "shop.", ident(copied)+".")...)
	t.Cleanup(func() {
		if _, err := h.pool.Exec("DROP USER '" + user + "'@'127.0.0.1'"); err != nil {
			t.Error(err)
		}
	})
	s := h.sinkOn(func(c *SinkConfig) {
		c.DSN = strings.NewReplacer("root@", user+"@", h.name, copied).Replace(c.DSN)
	})
	narrow := &connectors.Table{Dialect: "mysql", Schema: "s", Name: "r", Key: []int{0}, Columns: []connectors.Column{
		{Name: "id", Type: "int(11)", Kind: connectors.Int}, {Name: "name", Type: "varchar(20)", Kind: connectors.Text}}}
	wide := *narrow
	wide.Columns = append(append([]connectors.Column(nil), narrow.Columns...), connectors.Column{Name: "n", Type: "int(11)", Kind: connectors.Int})
	row := func(id int64, name string, more ...connectors.Value) []connectors.Value {
		return append([]connectors.Value{connectors.IntValue(id), connectors.DataValue(connectors.Text, []byte(name))}, more...)
	}
	write := func(changes ...connectors.Change) {
		t.Helper()
		if err := s.Write(t.Context(), connectors.Batch{Stream: "t/0", Changes: changes, Position: connectors.Position("1")}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Migrate(t.Context(), connectors.Migration{To: narrow}); err != nil {
		t.Fatal(err)
	}
	write(connectors.Change{Op: connectors.Insert, Table: narrow, After: row(9, "gone")})
	write(connectors.Change{Op: connectors.Truncate, Table: narrow}, connectors.Change{Op: connectors.Insert, Table: narrow, After: row(1, "a")},
		connectors.Change{Op: connectors.Insert, Table: narrow, After: row(2, "b")})
	if err := s.Migrate(t.Context(), connectors.Migration{From: narrow, To: &wide}); err != nil {
		t.Fatal(err)
	}
	write(connectors.Change{Op: connectors.Delete, Table: &wide, Before: row(1, "a", connectors.NullValue())},
		connectors.Change{Op: connectors.Update, Table: &wide, After: row(2, "B", connectors.IntValue(7))})
	if err := s.Migrate(t.Context(), connectors.Migration{From: &wide, To: narrow}); err != nil {
		t.Fatal(err)
	}
	write(connectors.Change{Op: connectors.Insert, Table: narrow, After: row(3, "c")})
	if got := h.query("SELECT GROUP_CONCAT(CONCAT_WS('|', id, name) ORDER BY id SEPARATOR ' ') FROM " + ident(copied) + ".r"); got != "2|B 3|c" {
		t.Errorf("rows %s", got)
	}
}
