package sqlite

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/trunkline/trunkline/connectors"
)

// versionOf is a table whose columns are written as "ID name type"; the first ones are the key.
func versionOf(keys int, columns ...string) *connectors.Table {
	t := &connectors.Table{Dialect: "postgres", Schema: "public", Name: "item", ID: 7}
	for i, c := range columns {
		var column connectors.Column
		if _, err := fmt.Sscan(c, &column.ID, &column.Name, &column.Type); err != nil {
			panic(err)
		}
		column.Kind = connectors.Text
		if column.Type == "integer" {
			column.Kind = connectors.Int
		}
		t.Columns = append(t.Columns, column)
		if i < keys {
			t.Key = append(t.Key, i)
		}
	}
	return t
}

func rowOf(values ...any) []connectors.Value {
	var row []connectors.Value
	for _, v := range values {
		switch v := v.(type) {
		case int:
			row = append(row, connectors.IntValue(int64(v)))
		case string:
			row = append(row, connectors.DataValue(connectors.Text, []byte(v)))
		default:
			row = append(row, connectors.NullValue())
		}
	}
	return row
}

// migrating is a sink with one target.
type migrating struct {
	*testing.T
	f *file
	s connectors.Sink
}

func newMigrating(t *testing.T, f *file, change func(*SinkConfig)) *migrating {
	t.Helper()
	c := f.sink()
	if change != nil {
		change(c)
	}
	s, err := openSink(t.Context(), c, connectors.NewEnv("target"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(t.Context()) })
	return &migrating{t, f, s}
}

func (m *migrating) migrate(from, to *connectors.Table, position string) error {
	return m.s.(connectors.Migrator).Migrate(m.Context(), connectors.Migration{From: from, To: to, Stream: "shop.item/-2/public.item", Position: []byte(position)})
}

func (m *migrating) must(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

func (m *migrating) put(t *connectors.Table, values ...any) {
	m.Helper()
	m.must(m.s.Write(m.Context(), connectors.Batch{Stream: "t/0", Changes: []connectors.Change{{Op: connectors.Insert, Table: t, After: rowOf(values...)}}}))
}

func (m *migrating) want(query, want string) {
	m.Helper()
	var got string
	if err := m.f.db.QueryRowContext(m.Context(), query).Scan(&got); err != nil || got != want {
		m.Errorf("%s gives %q, %v; want %q", query, got, err, want)
	}
}

func TestSinkFollowsColumns(t *testing.T) {
	t.Parallel()
	m := newMigrating(t, newFile(t), nil)
	one := versionOf(1, "1 id integer", "2 a text", "3 b integer", "4 c text", "6 n integer")
	two := versionOf(1, "1 no integer", "2 b text", "3 a integer", "5 c text", "6 n text")
	m.must(m.migrate(nil, one, "1"))
	m.put(one, 1, "x", 7, "y", 5)
	for range 2 { // the second time as after a crash
		m.must(m.migrate(one, two, "2"))
		m = newMigrating(t, m.f, nil)
	}
	m.put(two, 2, "z", 8, "c", "007")
	m.want("SELECT group_concat(no || '|' || b || '|' || a || '|' || coalesce(c, 'none') || '|' || n || typeof(n), ' ') FROM (SELECT * FROM item ORDER BY no)", "1|x|7|none|5text 2|z|8|c|007text")

	three := versionOf(2, "1 no integer", "2 b text", "3 a text", "5 c text")
	m.must(m.migrate(two, three, "3"))
	m.put(three, 2, "y", "x", "c")
	m.want("SELECT group_concat(no || '|' || b || '|' || a || typeof(a), ' ') FROM (SELECT * FROM item ORDER BY no, b)", "1|x|7text 2|y|xtext 2|z|8text")
	m.want("SELECT count(*) FROM pragma_table_info('item')", "4")
}

func TestSinkLeavesToAPersonWhatItMayNotDo(t *testing.T) {
	t.Parallel()
	one, two := versionOf(1, "1 id integer", "2 a text"), versionOf(1, "2 a text", "1 id integer")
	for name, c := range map[string]struct {
		own    string // what the target has besides
		change func(*SinkConfig)
		to     *connectors.Table
		want   string
	}{
		"a key under an index of its own": {"CREATE INDEX item_a ON item (a)", nil, two, "DROP TABLE"},
		"a rename that is frozen":         {"", func(c *SinkConfig) { c.Schema.Rename = connectors.Freeze }, versionOf(1, "1 id integer", "2 b text"), `RENAME COLUMN "a" TO "b"`},
		"a column under an index":         {"CREATE INDEX item_a ON item (a)", nil, versionOf(1, "1 id integer"), `DROP COLUMN "a"`},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFile(t)
			m := newMigrating(t, f, c.change)
			m.must(newMigrating(t, f, nil).migrate(nil, one, "1"))
			if c.own != "" {
				if _, err := f.db.ExecContext(t.Context(), c.own); err != nil {
					t.Fatal(err)
				}
			}
			m = newMigrating(t, f, c.change)
			var misfit *connectors.SchemaError
			if err := m.migrate(one, c.to, "2"); !errors.As(err, &misfit) || !strings.Contains(misfit.Statement, c.want) {
				t.Fatalf("error %v, want %s", err, c.want)
			}
			if c.own != "" {
				_, err := f.db.ExecContext(t.Context(), "DROP INDEX item_a")
				m.must(err)
			}
			if name == "a rename that is frozen" {
				_, err := f.db.ExecContext(t.Context(), misfit.Statement)
				m.must(err)
			}
			m.must(m.migrate(one, c.to, "2"))
		})
	}
}
