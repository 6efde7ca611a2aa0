package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/conformance"
)

// sink returns settings that write into the file.
func (f *file) sink() *SinkConfig {
	return &SinkConfig{File: File{Path: f.path}, Table: "{table}", Write: Upsert, Deletes: ApplyDeletes, Schema: connectors.FollowAll(connectors.Evolve)}
}

func (f *file) sinkOpener() connectors.OpenSink {
	return func(ctx context.Context, env connectors.Env) (connectors.Sink, error) {
		return openSink(ctx, f.sink(), env)
	}
}

// rows reads a table back with the canonical text of each value.
func (f *file) rows(t *testing.T, table *connectors.Table) []conformance.Row {
	t.Helper()
	columns, err := columnsOf(context.Background(), f.db, table.Name)
	if err != nil {
		t.Fatal(err)
	}
	if len(columns) == 0 {
		return nil
	}
	query := "SELECT "
	for i, c := range columns {
		if i > 0 {
			query += ", "
		}
		query += "+" + quote(c.name)
	}
	rows, err := f.db.QueryContext(context.Background(), query+" FROM "+quote(table.Name))
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var out []conformance.Row
	for rows.Next() {
		cells := make([]any, len(columns))
		targets := make([]any, len(columns))
		for i := range cells {
			targets[i] = &cells[i]
		}
		if err := rows.Scan(targets...); err != nil {
			t.Fatal(err)
		}
		row := conformance.Row{}
		for i, c := range columns {
			kind := connectors.Text
			if at := table.Column(c.name); at >= 0 {
				kind = table.Columns[at].Kind
			}
			switch v := cells[i].(type) {
			case nil:
			case float64:
				row[c.name] = string(appendFloat(nil, v, kind))
			case int64:
				row[c.name] = fmt.Sprint(v)
				if kind == connectors.Bool {
					row[c.name] = fmt.Sprint(v == 1)
				}
			case []byte:
				row[c.name] = string(v)
			default:
				row[c.name] = fmt.Sprint(v)
			}
		}
		out = append(out, row)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestSinkConformance(t *testing.T) {
	conformance.RunSink(t, conformance.SinkCase{New: func(t *testing.T) conformance.SinkSystem {
		f := newFile(t)
		return conformance.SinkSystem{
			Open: func(ctx context.Context, env connectors.Env) (connectors.Sink, error) {
				s, err := f.sinkOpener()(ctx, env)
				if err == nil {
					_, err = s.(*sink).db.ExecContext(ctx, "PRAGMA busy_timeout = 500")
				}
				return s, err
			},
			Rows: f.rows,
			Busy: func(*testing.T, *connectors.Table) func() {
				f.exec("BEGIN IMMEDIATE")
				return func() { f.exec("ROLLBACK") }
			},
			Refuse: func(t *testing.T, table *connectors.Table) {
				for _, when := range []string{"INSERT", "UPDATE"} {
					f.exec(fmt.Sprintf(`CREATE TRIGGER refuse_%[1]s BEFORE %[1]s ON %[2]s WHEN NEW.name = 'bad'
						BEGIN SELECT RAISE(ABORT, 'refused'); END`, when, quote(table.Name)))
				}
			},
		}
	}})
}

func TestBindValue(t *testing.T) {
	if v := bindValue("", connectors.DataValue(connectors.Float, []byte("Infinity")), false); v != math.Inf(1) {
		t.Errorf("infinity is bound as %v", v)
	}
	if v := bindValue("", connectors.UintValue(math.MaxUint64), false); v != "18446744073709551615" {
		t.Errorf("the largest unsigned integer is bound as %v", v)
	}
}

// writer opens a sink and returns a function that writes changes of one stream.
func (f *file) writer(t *testing.T, c *SinkConfig) func(...connectors.Change) error {
	t.Helper()
	s, err := openSink(t.Context(), c, connectors.NewEnv("target"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return func(changes ...connectors.Change) error {
		return s.Write(t.Context(), connectors.Batch{Stream: "x/0", Changes: changes, Position: connectors.Position("1")})
	}
}

func pair(a int64, b string) []connectors.Value {
	return []connectors.Value{connectors.IntValue(a), connectors.DataValue(connectors.Text, []byte(b))}
}

func newPairs(key ...int) *connectors.Table {
	return &connectors.Table{Schema: "shop", Name: "pair", Key: key, Columns: []connectors.Column{{Name: "a", Kind: connectors.Int}, {Name: "b", Kind: connectors.Text}}}
}

func TestKeyless(t *testing.T) {
	t.Parallel()
	f := newFile(t)
	table := newPairs()
	write := f.writer(t, f.sink())
	insert := connectors.Change{Op: connectors.Insert, Table: table, After: pair(1, "x")}
	other := connectors.Change{Op: connectors.Insert, Table: table, After: pair(2, "y")}
	for _, changes := range [][]connectors.Change{
		{insert, insert, insert, other},
		{{Op: connectors.Delete, Table: table, Before: pair(1, "x")}},
		{{Op: connectors.Update, Table: table, Before: pair(2, "y"), After: pair(3, "z")}},
	} {
		if err := write(changes...); err != nil {
			t.Fatal(err)
		}
	}
	if got := fmt.Sprint(f.rows(t, table)); got != "[map[a:1 b:x] map[a:1 b:x] map[a:3 b:z]]" {
		t.Errorf("rows %s", got)
	}
	var rows *connectors.RowsError
	if err := write(insert, connectors.Change{Op: connectors.Update, Table: table, After: pair(1, "y")}); !errors.As(err, &rows) || rows.Rows[0].Index != 1 {
		t.Errorf("an update without the old row: %v, want row 1 refused", err)
	}
}

func TestSinkSettings(t *testing.T) {
	t.Parallel()
	insert := connectors.Change{Op: connectors.Insert, Table: newPairs(0), After: pair(1, "x")}
	remove := connectors.Change{Op: connectors.Delete, Table: insert.Table, Before: pair(1, "x")}

	t.Run("append keeps every row", func(t *testing.T) {
		t.Parallel()
		f, c := newFile(t), (*SinkConfig)(nil)
		c = f.sink()
		c.Write, c.Deletes, c.Table = Append, IgnoreDeletes, "{schema}.{table}"
		if err := f.writer(t, c)(insert, insert, remove); err != nil {
			t.Fatal(err)
		}
		if n := len(f.rows(t, &connectors.Table{Name: "shop.pair"})); n != 2 {
			t.Errorf("%d rows, want 2", n)
		}
	})

	t.Run("deletes can be ignored", func(t *testing.T) {
		t.Parallel()
		f := newFile(t)
		c := f.sink()
		c.Deletes = IgnoreDeletes
		if err := f.writer(t, c)(insert, remove); err != nil {
			t.Fatal(err)
		}
		if n := len(f.rows(t, insert.Table)); n != 1 {
			t.Errorf("%d rows, want 1", n)
		}
	})

	t.Run("deletes can leave a mark", func(t *testing.T) {
		t.Parallel()
		f := newFile(t)
		c := f.sink()
		c.Deletes = SoftDeletes
		write := f.writer(t, c)
		second := connectors.Change{Op: connectors.Insert, Table: insert.Table, After: pair(2, "y")}
		for _, step := range []struct {
			changes []connectors.Change
			want    string
		}{
			{[]connectors.Change{insert, second, remove}, "[map[_deleted:1 a:1 b:x] map[_deleted:0 a:2 b:y]]"},
			{[]connectors.Change{insert, remove, insert}, "[map[_deleted:0 a:1 b:x] map[_deleted:0 a:2 b:y]]"},
			{[]connectors.Change{{Op: connectors.Truncate, Table: insert.Table}}, "[map[_deleted:1 a:1 b:x] map[_deleted:1 a:2 b:y]]"},
			{[]connectors.Change{{Op: connectors.Update, Table: insert.Table, After: []connectors.Value{connectors.IntValue(2), {}}}},
				"[map[_deleted:1 a:1 b:x] map[_deleted:0 a:2 b:y]]"},
			{[]connectors.Change{{Op: connectors.Update, Table: insert.Table, After: pair(2, "z")}}, "[map[_deleted:1 a:1 b:x] map[_deleted:0 a:2 b:z]]"},
		} {
			if err := write(step.changes...); err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(f.rows(t, insert.Table)); got != step.want {
				t.Errorf("rows %s, want %s", got, step.want)
			}
		}
	})

	t.Run("an append can mark what was deleted", func(t *testing.T) {
		t.Parallel()
		f := newFile(t)
		c := f.sink()
		c.Write, c.Deletes = Append, SoftDeletes
		if err := f.writer(t, c)(insert, remove); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(f.rows(t, insert.Table)); got != "[map[_deleted:0 a:1 b:x] map[_deleted:1 a:1 b:x]]" {
			t.Errorf("rows %s", got)
		}
	})

	t.Run("a lenient schema leaves out what the target lacks", func(t *testing.T) {
		t.Parallel()
		f := newFile(t, "CREATE TABLE pair (a INTEGER PRIMARY KEY)")
		for _, schema := range []connectors.Follow{connectors.Lenient, connectors.Ignore} {
			c := f.sink()
			c.Schema = connectors.FollowAll(schema)
			if err := f.writer(t, c)(insert); err != nil {
				t.Fatal(err)
			}
		}
		if got := fmt.Sprint(f.rows(t, insert.Table)); got != "[map[a:1]]" {
			t.Errorf("rows %s", got)
		}
		c := f.sink()
		c.Schema, c.Deletes = connectors.FollowAll(connectors.Ignore), SoftDeletes
		if err := f.writer(t, c)(insert); !errors.Is(err, connectors.ErrFatal) || !strings.Contains(err.Error(), "ADD COLUMN _deleted") {
			t.Errorf("write: %v", err)
		}
	})

	t.Run("a frozen schema stops the sink and names the statement", func(t *testing.T) {
		t.Parallel()
		f := newFile(t)
		c := f.sink()
		c.Schema = connectors.FollowAll(connectors.Freeze)
		err := f.writer(t, c)(insert)
		var misfit *connectors.SchemaError
		if !errors.As(err, &misfit) || !strings.Contains(misfit.Statement, "CREATE TABLE") {
			t.Errorf("write: %v", err)
		}
	})

	t.Run("a target without the key stops the sink", func(t *testing.T) {
		t.Parallel()
		f := newFile(t, "CREATE TABLE pair (a INTEGER, b TEXT)")
		err := f.writer(t, f.sink())(insert)
		if !errors.Is(err, connectors.ErrFatal) || !strings.Contains(err.Error(), "CREATE UNIQUE INDEX") {
			t.Errorf("write: %v", err)
		}
	})

	t.Run("a unique index will do, and what the target computes is left to it", func(t *testing.T) {
		t.Parallel()
		f := newFile(t, "CREATE TABLE pair (z INTEGER PRIMARY KEY, a INTEGER, b TEXT AS (a || '!'))", "CREATE UNIQUE INDEX pair_a ON pair (a)")
		write := f.writer(t, f.sink())
		if err := write(insert, insert); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(f.rows(t, insert.Table)); got != "[map[a:1 b:1! z:1]]" {
			t.Errorf("rows %s", got)
		}
	})

	t.Run("every refused row is named at once", func(t *testing.T) {
		t.Parallel()
		f := newFile(t, "CREATE TABLE pair (a INTEGER PRIMARY KEY, b TEXT CHECK (b <> 'bad'))")
		var changes []connectors.Change
		for id := range int64(200) {
			b := "good"
			if id%50 == 7 {
				b = "bad"
			}
			changes = append(changes, connectors.Change{Op: connectors.Insert, Table: insert.Table, After: pair(id, b)})
		}
		changes = append(changes, connectors.Change{Op: connectors.Insert, Table: insert.Table, After: []connectors.Value{connectors.NullValue(), connectors.NullValue()}})
		err := f.writer(t, f.sink())(changes...)
		var rows *connectors.RowsError
		if !errors.As(err, &rows) {
			t.Fatalf("write: %v", err)
		}
		var got []int
		for _, r := range rows.Rows {
			got = append(got, r.Index)
		}
		if !slices.Equal(got, []int{7, 57, 107, 157, 200}) {
			t.Errorf("refused %v", got)
		}
		if n := len(f.rows(t, insert.Table)); n != 0 {
			t.Errorf("%d rows are left", n)
		}
	})
}
