//go:build duckdb

package duckdb

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/conformance"
	"github.com/trunkline/trunkline/connectors/fold"
)

// store is an empty file.
type store struct {
	t *testing.T
	c *SinkConfig
}

func newStore(t *testing.T) *store {
	t.Helper()
	c := &SinkConfig{
		Path: filepath.Join(t.TempDir(), "store.db"), Table: "{schema}.{table}", Write: writeUpsert, Schema: connectors.FollowAll(connectors.Evolve),
		Unrepresentable: connectors.UnrepresentableText, Memory: 256 << 20, Threads: 1,
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	return &store{t, c}
}

func (s *store) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *store) open() *sink {
	s.t.Helper()
	opened, err := open(s.t.Context(), s.c, connectors.NewEnv("lake"))
	s.must(err)
	s.t.Cleanup(func() {
		if err := opened.Close(context.Background()); err != nil {
			s.t.Error(err)
		}
	})
	return opened.(*sink)
}

// with lends a connection of the test's own.
func (s *store) with(do func(db *database)) {
	s.t.Helper()
	db, err := connect(context.Background(), s.c, true)
	s.must(err)
	do(db)
	s.must(db.close())
}

func (s *store) exec(statements ...string) {
	s.t.Helper()
	s.with(func(db *database) {
		for _, statement := range statements {
			_, err := db.ExecContext(s.t.Context(), statement)
			s.must(err)
		}
	})
}

// lines returns the rows of a query, with | between the values in DuckDB's own text.
func (s *store) lines(query string) (out []string) {
	s.t.Helper()
	s.with(func(db *database) {
		rows, err := db.QueryContext(s.t.Context(), "SELECT CAST(COLUMNS(*) AS VARCHAR) FROM ("+query+")")
		s.must(err)
		defer rows.Close()
		columns, err := rows.Columns()
		s.must(err)
		for rows.Next() {
			texts, into := make([]*string, len(columns)), make([]any, len(columns))
			for i := range texts {
				into[i] = &texts[i]
			}
			s.must(rows.Scan(into...))
			var line []string
			for _, text := range texts {
				if text == nil {
					line = append(line, "NULL")
				} else {
					line = append(line, *text)
				}
			}
			out = append(out, strings.Join(line, "|"))
		}
		s.must(rows.Err())
	})
	return out
}

// rows reads a table back, each value in DuckDB's text.
func (s *store) rows(t *testing.T, table *connectors.Table) (out []conformance.Row) {
	t.Helper()
	schema, name := s.c.place(table)
	s.with(func(db *database) {
		if n, err := db.number(t.Context(), "SELECT count(*) FROM duckdb_tables() WHERE schema_name = ? AND table_name = ?", schema, name); err != nil || n == 0 {
			s.must(err)
			return
		}
		var list []string
		for _, c := range table.Columns {
			if c.Kind == connectors.Bytes {
				list = append(list, quote(c.Name))
			} else {
				list = append(list, "CAST("+quote(c.Name)+" AS VARCHAR)")
			}
		}
		rows, err := db.QueryContext(t.Context(), "SELECT "+strings.Join(list, ", ")+" FROM "+full(schema, name))
		s.must(err)
		defer rows.Close()
		for rows.Next() {
			values, into := make([][]byte, len(list)), make([]any, len(list))
			for i := range values {
				into[i] = &values[i]
			}
			s.must(rows.Scan(into...))
			row := conformance.Row{}
			for i, v := range values {
				if v != nil {
					row[table.Columns[i].Name] = string(v)
				}
			}
			out = append(out, row)
		}
		s.must(rows.Err())
	})
	return out
}

// shows is DuckDB's text of a value.
func shows(v connectors.Value) (string, bool) {
	text := string(v.AppendText(nil))
	switch {
	case text == "NaN" || strings.HasSuffix(text, "Infinity"):
		return strings.ToLower(strings.TrimSuffix(text, "inity")), true
	case v.Kind() == connectors.Timestamp:
		return strings.Replace(text, "T", " ", 1), true
	case v.Kind() == connectors.TimestampTZ:
		return strings.NewReplacer("T", " ", "Z", "+00").Replace(text), true
	}
	return text, true
}

func TestSinkConformance(t *testing.T) {
	conformance.RunSink(t, conformance.SinkCase{Wide: 400, Shows: shows, New: func(t *testing.T) conformance.SinkSystem {
		s := newStore(t)
		return conformance.SinkSystem{
			Open: func(ctx context.Context, env connectors.Env) (connectors.Sink, error) { return open(ctx, s.c, env) },
			Rows: s.rows,
			Refuse: func(t *testing.T, table *connectors.Table) {
				// A CHECK comes only with a new table.
				name := full(table.Schema, table.Name)
				s.exec("CREATE TABLE shop.checked (id BIGINT PRIMARY KEY, name VARCHAR CHECK (name <> 'bad'), note VARCHAR, _unrepresentable VARCHAR)",
					"INSERT INTO shop.checked SELECT * FROM "+name, "DROP TABLE "+name, "ALTER TABLE shop.checked RENAME TO "+quote(table.Name))
			},
		}
	}})
}

// pairs is a table with a key.
func pairs(key ...int) *connectors.Table {
	return &connectors.Table{Schema: "shop", Name: "pair", Key: key, Columns: []connectors.Column{{Name: "a", Kind: connectors.Int}, {Name: "b", Kind: connectors.Text}}}
}

func pair(a int64, b string) []connectors.Value {
	return []connectors.Value{connectors.IntValue(a), connectors.DataValue(connectors.Text, []byte(b))}
}

func write(s connectors.Sink, changes ...connectors.Change) error {
	return s.Write(context.Background(), connectors.Batch{Stream: "shop.pair/0", Changes: changes, Position: connectors.Position("1")})
}

func TestSettings(t *testing.T) {
	insert := connectors.Change{Op: connectors.Insert, Table: pairs(0), After: pair(1, "x")}
	second := connectors.Change{Op: connectors.Insert, Table: insert.Table, After: pair(2, "y")}
	remove := connectors.Change{Op: connectors.Delete, Table: insert.Table, Before: pair(1, "x")}
	truncate := connectors.Change{Op: connectors.Truncate, Table: insert.Table}
	with := func(t *testing.T, writes, deletes string) (*store, *sink) {
		s := newStore(t)
		s.c.Write, s.c.Deletes = writes, deletes
		s.must(s.c.Validate())
		return s, s.open()
	}
	want := func(s *store, rows string) {
		s.t.Helper()
		if got := strings.Join(s.lines("SELECT * EXCLUDE (_unrepresentable) FROM shop.pair ORDER BY ALL"), " "); got != rows {
			s.t.Errorf("rows %s, want %s", got, rows)
		}
	}

	t.Run("append keeps every row", func(t *testing.T) {
		s, w := with(t, writeAppend, "")
		s.must(write(w, insert, insert, remove, truncate))
		want(s, "1|x 1|x")
	})
	t.Run("an append can mark what was deleted", func(t *testing.T) {
		s, w := with(t, writeAppend, softDeletes)
		s.must(write(w, insert, remove))
		want(s, "1|x|false 1|x|true")
	})
	t.Run("deletes can be ignored", func(t *testing.T) {
		s, w := with(t, writeUpsert, ignoreDeletes)
		s.must(write(w, insert, remove, truncate))
		want(s, "1|x")
	})
	t.Run("deletes can leave a mark", func(t *testing.T) {
		s, w := with(t, writeUpsert, softDeletes)
		for _, step := range []struct {
			changes []connectors.Change
			want    string
		}{
			{[]connectors.Change{insert, second, remove}, "1|x|true 2|y|false"}, // as if in two batches
			{[]connectors.Change{insert}, "1|x|false 2|y|false"},
			{[]connectors.Change{remove}, "1|x|true 2|y|false"},
			{[]connectors.Change{remove, {Op: connectors.Delete, Table: insert.Table, Before: pair(9, "never there")}}, "1|x|true 2|y|false"},
			{[]connectors.Change{{Op: connectors.Update, Table: insert.Table, After: []connectors.Value{connectors.IntValue(2), {}}}, {Op: connectors.Delete, Table: insert.Table, Before: pair(2, "")}}, "1|x|true 2|y|true"},
			{[]connectors.Change{second, {Op: connectors.Insert, Table: insert.Table, After: pair(3, "z")}, truncate, insert}, "1|x|false 2|y|true 3|z|true"},
			{[]connectors.Change{insert, remove, insert}, "1|x|false 2|y|true 3|z|true"},
			{[]connectors.Change{second, truncate}, "1|x|true 2|y|true 3|z|true"},
			{[]connectors.Change{{Op: connectors.Update, Table: insert.Table, After: []connectors.Value{connectors.IntValue(2), {}}}}, "1|x|true 2|y|false 3|z|true"},
		} {
			s.must(write(w, step.changes...))
			want(s, step.want)
		}
	})
	t.Run("apply needs upsert", func(t *testing.T) {
		s := newStore(t)
		s.c.Write, s.c.Deletes = writeAppend, "apply"
		if err := s.c.Validate(); err == nil || !strings.Contains(err.Error(), "deletes: apply needs write: upsert") {
			t.Errorf("validate: %v", err)
		}
	})
	t.Run("a lenient schema leaves out what the target lacks", func(t *testing.T) {
		s := newStore(t)
		s.c.Schema = connectors.FollowAll(connectors.Lenient)
		s.exec("CREATE SCHEMA shop", "CREATE TABLE shop.pair (a INTEGER PRIMARY KEY, own VARCHAR)", "INSERT INTO shop.pair VALUES (1, 'mine')")
		w := s.open()
		s.must(write(w, insert, second))
		if got := strings.Join(s.lines("SELECT * FROM shop.pair ORDER BY a"), " "); got != "1|mine 2|NULL" {
			t.Errorf("rows %s", got)
		}
	})
	t.Run("a frozen schema stops the table and names the statement", func(t *testing.T) {
		s := newStore(t)
		s.c.Schema = connectors.FollowAll(connectors.Freeze)
		var misfit *connectors.SchemaError
		if err := write(s.open(), insert); !errors.As(err, &misfit) || !strings.Contains(misfit.Statement, "CREATE TABLE") {
			t.Errorf("write: %v", err)
		}
	})
	t.Run("a target without the key stops the table", func(t *testing.T) {
		s := newStore(t)
		s.exec("CREATE SCHEMA shop", "CREATE TABLE shop.pair (a INTEGER, b VARCHAR, _unrepresentable VARCHAR)")
		w := s.open()
		var misfit *connectors.SchemaError
		if err := write(w, insert); !errors.As(err, &misfit) || !strings.Contains(misfit.Statement, "CREATE UNIQUE INDEX") {
			t.Fatalf("write: %v", err)
		}
		_, err := w.db.ExecContext(t.Context(), misfit.Statement)
		s.must(err)
		s.must(write(w, insert, insert, second))
		want(s, "1|x 2|y")
	})
	t.Run("a table without a key takes inserts alone", func(t *testing.T) {
		_, w := with(t, writeUpsert, "")
		keyless := pairs()
		i := connectors.Change{Op: connectors.Insert, Table: keyless, After: pair(1, "x")}
		d := connectors.Change{Op: connectors.Delete, Table: keyless, Before: pair(1, "x")}
		var rows *connectors.RowsError
		if err := write(w, i, i, d); !errors.As(err, &rows) || !errors.Is(rows.Rows[0].Err, fold.ErrNoOldRow) || rows.Rows[0].Index != 2 {
			t.Errorf("write: %v", err)
		}
	})
}

// TestValues brings values of every type, and shows them in DuckDB's words. What a column cannot hold stands beside it.
func TestValues(t *testing.T) {
	s := newStore(t)
	table := &connectors.Table{Dialect: "postgres", Schema: "main", Name: "v", Key: []int{0}, Columns: []connectors.Column{
		{Name: "id", Kind: connectors.Int},
		{Name: "price", Type: "numeric(10,2)", Kind: connectors.Decimal},
		{Name: "free", Type: "numeric", Kind: connectors.Decimal},
		{Name: "day", Type: "date", Kind: connectors.Date},
		{Name: "clock", Type: "time", Kind: connectors.Time},
		{Name: "at", Type: "timestamp without time zone", Kind: connectors.Timestamp},
		{Name: "zoned", Type: "timestamp with time zone", Kind: connectors.TimestampTZ},
		{Name: "id2", Type: "uuid", Kind: connectors.Text},
		{Name: "ints", Type: "integer[]", Kind: connectors.Array, Elem: connectors.Int},
		{Name: "texts", Type: "text[]", Kind: connectors.Array, Elem: connectors.Text},
		{Name: "days", Type: "date[]", Kind: connectors.Array, Elem: connectors.Date},
		{Name: "prices", Type: "numeric(10,2)[]", Kind: connectors.Array, Elem: connectors.Decimal},
		{Name: "map", Type: "hstore", Kind: connectors.Map},
		{Name: "doc", Type: "json", Kind: connectors.JSON},
		{Name: "f", Type: "double precision", Kind: connectors.Float},
		{Name: "u", Type: "bigint unsigned", Kind: connectors.Uint},
		{Name: "raw", Type: "bytea", Kind: connectors.Bytes},
		{Name: "txt", Type: "text", Kind: connectors.Text},
	}}
	var changes []connectors.Change
	add := func(texts ...string) {
		row := []connectors.Value{connectors.IntValue(int64(len(changes)))}
		for i, text := range texts {
			c := &table.Columns[i+1]
			v := connectors.DataValue(c.Kind, []byte(text))
			switch {
			case text == "NULL":
				v = connectors.NullValue()
			case c.Kind == connectors.Uint:
				n, _ := strconv.ParseUint(text, 10, 64)
				v = connectors.UintValue(n)
			case c.Kind == connectors.Array && text[0] != '[':
				v = connectors.DataValue(connectors.Text, []byte(text))
			}
			row = append(row, v)
		}
		changes = append(changes, connectors.Change{Op: connectors.Insert, Table: table, Offset: int64(len(changes)), After: row})
	}
	add("-12345678.90", "1e400", "0044-03-15 BC", "24:00:00", "2026-01-30T12:34:56.123456", "2026-01-30T17:34:56.5Z", "00112233-4455-6677-8899-aabbccddeeff",
		"[1,null,-3]", `["a,\"b\"",null,"","{}"]`, `["2026-01-30","infinity"]`, `["1.10",null]`, `{"k":"v","n":null,"":"\"q\""}`, `{"a":1,  "a":2}`, "-0.0", "18446744073709551615", "\x00\xff", "tab\té 🙂")
	add("0.05", "1.000", "infinity", "00:00:00", "-infinity", "infinity", "NULL", "[]", "[]", "[]", "[]", "{}", `"\u0000 \ud800"`, "NaN", "0", "", "a\x00b")
	add("NaN", "NaN", "5874897-12-31", "23:59:59.999999", "0044-03-15T12:00:00 BC", "0044-03-15 12:00:00+00 BC", "NULL", "[[1],[2]]", "[0:1]={a,b}", `["0044-03-15 BC"]`, `["123456789012.00"]`, "NULL", "null", "5e-324", "1", "NULL", "")
	add("123456789.00", "0", "2026-02-30", "25:00:00", "294276-12-31T23:59:59", "294246-12-31T23:59:59Z", "00112233-4455-6677-8899-AABBCCDDEEFF", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "Infinity", "2", "NULL", "NULL")
	w := s.open()
	s.must(write(w, changes...))
	wants := []string{
		`0|-12345678.90|1e400|0044-03-15 (BC)|24:00:00|2026-01-30 12:34:56.123456|2026-01-30 17:34:56.5+00|00112233-4455-6677-8899-aabbccddeeff|[1, NULL, -3]|a,"b"/NULL//{}|[2026-01-30, infinity]|[1.10, NULL]|{"k":"v","n":null,"":"\"q\""}|{"a":1,  "a":2}|-0.0|18446744073709551615|00FF|tab` + "\té 🙂|NULL",
		`1|0.05|1.000|infinity|00:00:00|-infinity|infinity|NULL|[]||[]|[]|{}|"\u0000 \ud800"|nan|0||a` + "\x00" + `b|NULL`,
		`2|NULL|NaN|5874897-12-31|23:59:59.999999|0044-03-15 (BC) 12:00:00|0044-03-15 (BC) 12:00:00+00|NULL|NULL|NULL|['0044-03-15 (BC)']|NULL|NULL|null|5e-324|1|NULL||{"price":"NaN","ints":"[[1],[2]]","texts":"[0:1]={a,b}","prices":"[\"123456789012.00\"]"}`,
		`3|NULL|0|NULL|NULL|NULL|294246-12-31 23:59:59+00|NULL|NULL|NULL|NULL|NULL|NULL|NULL|inf|2|NULL|NULL|{"price":"123456789.00","day":"2026-02-30","clock":"25:00:00","at":"294276-12-31T23:59:59","id2":"00112233-4455-6677-8899-AABBCCDDEEFF"}`,
	}
	query := `SELECT * REPLACE (array_to_string(list_transform(texts, lambda x: coalesce(x, 'NULL')), '/') AS texts, to_json("map") AS "map", hex(raw) AS raw) FROM main.v ORDER BY id`
	check := func(when string) {
		t.Helper()
		got := s.lines(query)
		for i, want := range wants {
			if i >= len(got) || got[i] != want {
				t.Errorf("%s, row %d:\n%q\nwant\n%q", when, i, slices.Concat(got, make([]string, 4))[i], want)
			}
		}
	}
	check("after an insert")
	var updates []connectors.Change
	for id := range changes {
		after := make([]connectors.Value, len(table.Columns))
		after[0] = connectors.IntValue(int64(id))
		updates = append(updates, connectors.Change{Op: connectors.Update, Table: table, Offset: int64(100 + id), After: after})
	}
	s.must(write(w, updates...))
	check("after an update that carries the key alone")
	for _, by := range []int64{1000, -1000} {
		var moves []connectors.Change
		for id := range changes {
			old := int64(id) + (1000-by)/2
			before, after := make([]connectors.Value, len(table.Columns)), make([]connectors.Value, len(table.Columns))
			before[0], after[0] = connectors.IntValue(old), connectors.IntValue(old+by)
			moves = append(moves, connectors.Change{Op: connectors.Update, Table: table, Offset: int64(200 + id), Before: before, After: after})
		}
		s.must(write(w, moves...))
	}
	check("after the keys went and came back")
}

// TestMigrations changes a table in every way while rows are there, each step twice.
func TestMigrations(t *testing.T) {
	s := newStore(t)
	w := s.open()
	version := func(keys int, columns ...string) *connectors.Table {
		t := &connectors.Table{Dialect: "postgres", Schema: "shop", Name: "pair", ID: 7}
		for i, c := range columns {
			var column connectors.Column
			if _, err := fmt.Sscan(c, &column.ID, &column.Name, &column.Type); err != nil {
				panic(err)
			}
			column.Kind = connectors.Text
			if column.Type == "integer" {
				column.Kind = connectors.Int
			}
			if t.Columns = append(t.Columns, column); i < keys {
				t.Key = append(t.Key, i)
			}
		}
		return t
	}
	steps := []struct {
		table *connectors.Table
		want  string
	}{
		{version(1, "1 id integer", "2 a integer", "3 b text"), "1|5|five"},
		{version(1, "1 id integer", "2 a integer", "3 b text", "4 c text"), "1|5|five|NULL"},
		{version(1, "1 id integer", "2 b integer", "3 a text", "4 c text"), "1|5|five|NULL"}, // two take each other's names
		{version(1, "1 id integer", "2 amount integer", "3 a text"), "1|5|five"},
		{version(1, "1 id integer", "2 amount text", "3 a text"), "1|5|five"},
		{version(2, "1 id integer", "2 amount text", "3 a text"), "1|5|five"}, // another key
		{version(1, "1 id text", "2 amount text", "3 a text"), "1|5|five"},    // and another, of another type
	}
	var before *connectors.Table
	for i, step := range steps {
		for range 2 {
			s.must(w.Migrate(t.Context(), connectors.Migration{From: before, To: step.table, Stream: "m", Position: []byte{byte(i)}}))
		}
		if i == 0 {
			s.must(write(w, connectors.Change{Op: connectors.Insert, Table: step.table, After: []connectors.Value{connectors.IntValue(1), connectors.IntValue(5), connectors.DataValue(connectors.Text, []byte("five"))}}))
		}
		before = step.table
		if got := strings.Join(s.lines("SELECT * EXCLUDE (_unrepresentable) FROM shop.pair"), " "); got != step.want {
			t.Errorf("step %d: rows %s, want %s", i, got, step.want)
		}
	}
	after := connectors.Change{Op: connectors.Insert, Table: before, After: []connectors.Value{connectors.DataValue(connectors.Text, []byte("1")), connectors.DataValue(connectors.Text, []byte("6")), connectors.NullValue()}}
	s.must(write(w, after))
	if got := strings.Join(s.lines("SELECT * EXCLUDE (_unrepresentable) FROM shop.pair"), " "); got != "1|6|NULL" {
		t.Errorf("rows %s after a write under the last key", got)
	}
}

// TestRefusedRowsShowNoValues: DuckDB's own words of a constraint show the row.
func TestRefusedRowsShowNoValues(t *testing.T) {
	s := newStore(t)
	s.exec("CREATE SCHEMA shop", "CREATE TABLE shop.pair (a BIGINT PRIMARY KEY, b VARCHAR UNIQUE, _unrepresentable VARCHAR)", "INSERT INTO shop.pair VALUES (9, 'secret', NULL)")
	w := s.open()
	insert := func(a int64, b string) connectors.Change {
		return connectors.Change{Op: connectors.Insert, Table: pairs(0), After: pair(a, b)}
	}
	var rows *connectors.RowsError
	err := write(w, insert(1, "x"), insert(2, "secret"), insert(3, "y"))
	if !errors.As(err, &rows) || len(rows.Rows) != 1 || rows.Rows[0].Index != 1 || strings.Contains(err.Error(), "secret") {
		t.Errorf("write: %v", err)
	}
	if got := s.lines("SELECT count(*) FROM shop.pair"); got[0] != "1" {
		t.Errorf("%s rows are left", got[0])
	}
}

func TestAFileThatAnotherProcessHasIsSaidSo(t *testing.T) {
	s := newStore(t)
	conformance.KillVictim(t, 1, func() {
		findings, err := check(t.Context(), s.c, connectors.NewEnv("lake"))
		if err != nil || len(findings) != 1 || !strings.Contains(findings[0].Problem, "another process has it open") {
			t.Errorf("check: %v, %v", findings, err)
		}
	}, s.c.Path)
}
