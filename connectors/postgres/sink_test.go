package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/postgres/localserver"
)

// bench is one test's database, with a connection to look at it.
type sinkTest struct {
	*testing.T
	url  string
	conn *pgx.Conn
}

func newSinkTest(t *testing.T) *sinkTest {
	t.Helper()
	t.Parallel()
	url := localserver.ForTest(t).URL
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	st := &sinkTest{T: t, url: url, conn: conn}
	st.exec("SET timezone = 'UTC'")
	return st
}

func (t *sinkTest) exec(sql string) {
	t.Helper()
	if _, err := t.conn.PgConn().Exec(t.Context(), sql).ReadAll(); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// open opens a sink; change may be nil.
func (t *sinkTest) open(change func(*SinkConfig)) *Sink {
	t.Helper()
	config := DefaultSinkConfig()
	config.DSN = t.url
	if change != nil {
		change(&config)
	}
	if err := config.Validate(); err != nil {
		t.Fatal(err)
	}
	s, err := newSink(t.Context(), config, connectors.NewEnv("test"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(context.Background()) })
	return s
}

func (t *sinkTest) migrate(s *Sink, from, to *connectors.Table) {
	t.Helper()
	if err := s.Migrate(t.Context(), connectors.Migration{From: from, To: to}); err != nil {
		t.Fatal(err)
	}
}

func (t *sinkTest) write(s *Sink, changes ...connectors.Change) {
	t.Helper()
	if err := s.Write(t.Context(), batchOf(changes...)); err != nil {
		t.Fatal(err)
	}
}

// query returns the rows of a query, one line for each, columns parted by bars.
func (t *sinkTest) query(sql string) string {
	t.Helper()
	results, err := t.conn.PgConn().Exec(t.Context(), sql).ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	var lines []string
	for _, row := range results[len(results)-1].Rows {
		var fields []string
		for _, f := range row {
			if f == nil {
				fields = append(fields, "NULL")
			} else {
				fields = append(fields, string(f))
			}
		}
		lines = append(lines, strings.Join(fields, "|"))
	}
	return strings.Join(lines, "\n")
}

func (t *sinkTest) want(sql, want string) {
	t.Helper()
	if got := t.query(sql); got != want {
		t.Errorf("%s\n got: %q\nwant: %q", sql, got, want)
	}
}

func batchOf(changes ...connectors.Change) connectors.Batch {
	return connectors.Batch{Stream: "shop.public.t/0", Changes: changes, Position: connectors.Position("1")}
}

// table makes a table of public from columns written as "name type"; the first keys of them are the key.
func tableOf(name string, keys int, columns ...string) *connectors.Table {
	t := &connectors.Table{Dialect: dialect, Schema: "public", Name: name}
	for i, c := range columns {
		column, typ, _ := strings.Cut(c, " ")
		kind := connectors.Text
		switch {
		case strings.HasSuffix(typ, "[]"):
			kind = connectors.Array
		case typ == "integer" || typ == "bigint" || typ == "smallint":
			kind = connectors.Int
		case strings.HasPrefix(typ, "numeric"):
			kind = connectors.Decimal
		case typ == "jsonb" || typ == "json":
			kind = connectors.JSON
		}
		t.Columns = append(t.Columns, connectors.Column{Name: column, Type: typ, Kind: kind})
		if i < keys {
			t.Key = append(t.Key, i)
		}
	}
	return t
}

var absent = connectors.Value{}

// row makes an image: ints and strings, nil for NULL, a Value for itself. A string takes the kind of its column.
func row(t *connectors.Table, values ...any) []connectors.Value {
	out := make([]connectors.Value, len(t.Columns))
	for i, v := range values {
		switch v := v.(type) {
		case nil:
			out[i] = connectors.NullValue()
		case int:
			out[i] = connectors.IntValue(int64(v))
		case string:
			kind := t.Columns[i].Kind
			if kind == connectors.Int {
				kind = connectors.Text
			}
			out[i] = connectors.DataValue(kind, []byte(v))
		case connectors.Value:
			out[i] = v
		default:
			panic(fmt.Sprintf("row: %T", v))
		}
	}
	return out
}

func inserted(t *connectors.Table, values ...any) connectors.Change {
	return connectors.Change{Op: connectors.Insert, Table: t, After: row(t, values...)}
}

func updated(t *connectors.Table, values ...any) connectors.Change {
	return connectors.Change{Op: connectors.Update, Table: t, After: row(t, values...)}
}

func deleted(t *connectors.Table, values ...any) connectors.Change {
	return connectors.Change{Op: connectors.Delete, Table: t, Before: row(t, values...)}
}

func truncated(t *connectors.Table) connectors.Change {
	return connectors.Change{Op: connectors.Truncate, Table: t}
}

func TestSinkCreatesUpsertsAndDeletes(t *testing.T) {
	st := newSinkTest(t)
	s := st.open(nil)
	table := tableOf("item", 1, "id integer", "name text", "price numeric(10,2)")
	st.migrate(s, nil, table)
	st.write(s, inserted(table, 1, "a\tb\\c\nd", "1.10"), inserted(table, 2, nil, "2.00"), inserted(table, 3, "", nil))
	st.write(s, inserted(table, 2, "again", "3.00"), updated(table, 3, "x", absent), deleted(table, 1))
	st.want("SELECT * FROM item ORDER BY id", "2|again|3.00\n3|x|NULL")
	st.want("SELECT format_type(atttypid, atttypmod), attnotnull FROM pg_attribute WHERE attrelid = 'item'::regclass AND attnum > 0 ORDER BY attnum",
		"integer|t\ntext|f\nnumeric(10,2)|f")
	st.want("SELECT sink, stream, convert_from(position, 'UTF8'), epoch FROM _trunkline_offsets", "test|shop.public.t/0|1|1")
}

// TestSinkNetsChangesOfOneKey is field case F46, first half: no statement may touch a row twice, and the last event wins.
func TestSinkNetsChangesOfOneKey(t *testing.T) {
	st := newSinkTest(t)
	table := tableOf("item", 1, "id integer", "name text", "big text")
	for name, c := range map[string]struct {
		changes []connectors.Change
		want    string
	}{
		"three updates, a delete, an insert": {[]connectors.Change{updated(table, 1, "a", "A"), updated(table, 1, "b", "B"), updated(table, 1, "c", "C"),
			deleted(table, 1), inserted(table, 1, "d", "D")}, "1|d|D\n9|old|kept"},
		"insert and delete":                   {[]connectors.Change{inserted(table, 1, "a", "A"), deleted(table, 1)}, "9|old|kept"},
		"insert, then an update with absent":  {[]connectors.Change{inserted(table, 1, "a", "A"), updated(table, 1, "b", absent)}, "1|b|A\n9|old|kept"},
		"two updates with absent":             {[]connectors.Change{updated(table, 9, absent, "new"), updated(table, 9, "n", absent)}, "9|n|new"},
		"delete, then an insert with absent":  {[]connectors.Change{deleted(table, 9), inserted(table, 9, "n", absent)}, "9|n|NULL"},
		"update with absent of an unseen row": {[]connectors.Change{updated(table, 1, "a", absent)}, "1|a|NULL\n9|old|kept"},
		"truncate between":                    {[]connectors.Change{inserted(table, 1, "a", "A"), truncated(table), inserted(table, 2, "b", "B")}, "2|b|B"},
		"delete of an unseen row":             {[]connectors.Change{deleted(table, 5)}, "9|old|kept"},
		"a new key": {[]connectors.Change{{Op: connectors.Update, Table: table, Before: row(table, 9), After: row(table, 10, "old", absent)}},
			"10|old|kept"},
	} {
		t.Run(name, func(t *testing.T) {
			st := &sinkTest{T: t, url: st.url, conn: st.conn}
			s := st.open(nil)
			st.exec("DROP TABLE IF EXISTS item")
			st.migrate(s, nil, table)
			st.write(s, inserted(table, 9, "old", "kept"))
			st.write(s, c.changes...)
			st.want("SELECT * FROM item ORDER BY id", c.want)
		})
	}
}

func TestSinkFencesTheOlderWriter(t *testing.T) {
	st := newSinkTest(t)
	table := tableOf("item", 1, "id integer")
	first, second := st.open(nil), st.open(nil)
	st.migrate(first, nil, table)
	if p, err := first.Committed(t.Context(), "shop.public.t/0"); p != nil || err != nil {
		t.Fatalf("a new stream: %q %v", p, err)
	}
	st.write(first, inserted(table, 1))
	if p, err := second.Committed(t.Context(), "shop.public.t/0"); string(p) != "1" || err != nil {
		t.Fatalf("after one batch: %q %v", p, err)
	}
	if err := first.Write(t.Context(), batchOf(inserted(table, 2))); !errors.Is(err, connectors.ErrFenced) {
		t.Fatalf("the older writer: %v", err)
	}
	if err := first.Write(t.Context(), batchOf(inserted(table, 2))); !errors.Is(err, connectors.ErrFenced) {
		t.Fatalf("the older writer, once more: %v", err)
	}
	st.migrate(second, nil, table)
	st.write(second, inserted(table, 3))
	st.want("SELECT id FROM item ORDER BY id", "1\n3")
}

// TestSinkNamesRefusedRows is field case F47: the good rows around a bad one land once the caller leaves it out.
func TestSinkNamesRefusedRows(t *testing.T) {
	st := newSinkTest(t)
	s := st.open(nil)
	table := tableOf("poison", 1, "id integer", "t text", "j jsonb")
	st.migrate(s, nil, table)
	var changes []connectors.Change
	for i := range 23 {
		changes = append(changes, inserted(table, i, "good "+strconv.Itoa(i), `{"k":"x\\u0000y"}`))
	}
	changes[5] = inserted(table, 5, "a\x00b", `{}`)
	changes[17] = inserted(table, 17, "good", `{"k":"secret\u0000y"}`)
	err := s.Write(t.Context(), batchOf(changes...))
	var refused *connectors.RowsError
	if !errors.As(err, &refused) || len(refused.Rows) != 2 || refused.Rows[0].Index != 5 || refused.Rows[1].Index != 17 {
		t.Fatalf("write: %v", err)
	}
	for _, r := range refused.Rows {
		if strings.Contains(r.Err.Error(), "secret") || strings.Contains(r.Err.Error(), "a\x00b") {
			t.Errorf("the reason holds a value: %v", r.Err)
		}
	}
	if want := `a character that the type cannot hold (22P05), column "j"`; refused.Rows[1].Err.Error() != want {
		t.Errorf("reason %q, want %q", refused.Rows[1].Err, want)
	}
	st.want("SELECT count(*) FROM poison", "0")
	changes = slices.Delete(changes, 17, 18)
	changes = slices.Delete(changes, 5, 6)
	st.write(s, changes...)
	st.want("SELECT count(*), count(*) FILTER (WHERE j->>'k' = 'x\\u0000y') FROM poison", "21|21")
}
