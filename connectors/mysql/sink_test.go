package mysql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/conformance"
)

// sinkOn opens a sink that writes into databases named after the harness's.
func (h *harness) sinkOn(change func(*SinkConfig)) *Sink {
	h.t.Helper()
	config := DefaultSinkConfig()
	config.DSN = h.config.DSN
	config.Table = h.name + "_copy.{table}"
	if change != nil {
		change(&config)
	}
	if err := config.Validate(); err != nil {
		h.t.Fatal(err)
	}
	s, err := newSink(context.Background(), config, h.env)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		s.Close(context.Background())
		h.pool.Exec("DROP DATABASE IF EXISTS " + ident(h.name+"_copy"))
	})
	return s
}

func (h *harness) copied(table string) []conformance.Row {
	return sortRows(h.rows(tableName{h.name + "_copy", table}))
}

func sortRows(rows []conformance.Row) []conformance.Row {
	slices.SortFunc(rows, func(a, b conformance.Row) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return rows
}

// Every type of MariaDB arrives in MariaDB as it was, zero dates and invalid values of an enum included.
func TestEveryTypeReachesMariaDB(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "before_it after_it")
	fill := createTypes(h, typeCases)
	fill("before_it")
	h.open()
	h.catchUp()
	fill("after_it")
	h.untilCount(6)
	s := h.sinkOn(nil)
	if err := s.Write(t.Context(), connectors.Batch{Stream: "t/0", Changes: h.changes, Position: connectors.Position("1")}); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"before_it", "after_it"} {
		want, got := sortRows(h.rows(tableName{h.name, table})), h.copied(table)
		if len(got) != 3 {
			t.Fatalf("%d rows", len(got))
		}
		for i := range want {
			for k := range typeCases {
				name := fmt.Sprintf("c%d", k)
				a, aok := want[i][name]
				b, bok := got[i][name]
				if a != b || aok != bok {
					t.Errorf("%s: %q became %q", typeCases[k].column, a, b)
				}
			}
		}
	}
}

// A source's changes with partial images, moved keys and truncates end in the same rows.
func TestSinkFollowsASource(t *testing.T) {
	t.Parallel()
	for _, soft := range []bool{false, true} {
		t.Run(fmt.Sprintf("soft deletes %v", soft), func(t *testing.T) {
			h := newHarness(t, "r loose", "CREATE TABLE r (id int PRIMARY KEY, k int, v text)", "CREATE TABLE loose (id int, f float, v text)")
			h.open()
			h.exec("INSERT INTO r VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c')", "SET SESSION binlog_row_image = 'MINIMAL'", "UPDATE r SET k = 20 WHERE id = 2",
				"UPDATE r SET id = 30 WHERE id = 3", "UPDATE r SET v = 'aa' WHERE id = 1", "UPDATE r SET id = -id", "DELETE FROM r WHERE id = -1", "SET SESSION binlog_row_image = 'FULL'",
				"INSERT INTO loose VALUES (1, 0.1, 'x'), (1, 0.1, 'x'), (1, 0.1, 'X'), (2, NULL, NULL)", "UPDATE loose SET v = 'y' WHERE f = CAST(0.1 AS FLOAT) LIMIT 1", "DELETE FROM loose WHERE id = 2")
			h.untilCount(16)
			s := h.sinkOn(func(c *SinkConfig) {
				if soft {
					c.Deletes = deletesSoft
				}
			})
			for i := range h.changes { // in small batches, and all of it again
				if err := s.Write(t.Context(), connectors.Batch{Stream: "t/0", Changes: h.changes[i : i+1]}); err != nil {
					t.Fatalf("%s: %v", changeText(h.changes[i]), err)
				}
			}
			where := ""
			if soft {
				where = " WHERE NOT _deleted"
			}
			for table, list := range map[string]string{"r": "id, k, v", "loose": "id, f, v"} {
				query := "SELECT GROUP_CONCAT(CONCAT_WS('|', " + list + ") ORDER BY 1 SEPARATOR ' ') FROM (SELECT " + list + " FROM %s" + "%s ORDER BY " + list + ", BINARY v) AS x"
				want, got := h.query(fmt.Sprintf(query, ident(h.name)+"."+table, "")), h.query(fmt.Sprintf(query, ident(h.name+"_copy")+"."+table, where))
				if want != got {
					t.Errorf("%s: %s, want %s", table, got, want)
				}
			}
		})
	}
}

// What the target lacks is created, left out or refused, as the settings say.
func TestSinkSchemaModes(t *testing.T) {
	t.Parallel()
	first := &connectors.Table{Dialect: "mysql", Schema: "s", Name: "m", Key: []int{0}, Columns: []connectors.Column{
		{Name: "id", Type: "int(11)", Kind: connectors.Int}, {Name: "e", Type: "enum('a','b')", Kind: connectors.Text, Labels: []string{"a", "b"}}}}
	second := &connectors.Table{Dialect: "mysql", Schema: "s", Name: "m", Key: []int{0}, Columns: []connectors.Column{
		{Name: "id", Type: "bigint(20)", Kind: connectors.Int}, {Name: "e", Type: "enum('c','a','b')", Kind: connectors.Text, Labels: []string{"c", "a", "b"}}, {Name: "n", Type: "int(11)", Kind: connectors.Int}}}
	text := func(s string) connectors.Value { return connectors.DataValue(connectors.Text, []byte(s)) }
	for mode, want := range map[connectors.Follow]string{connectors.Evolve: "1|a| 9000000000|c|7", connectors.Lenient: "1|a", connectors.Freeze: "1|a"} {
		t.Run(string(mode), func(t *testing.T) {
			h := newHarness(t, "")
			s := h.sinkOn(nil)
			if err := s.Write(t.Context(), connectors.Batch{Stream: "t/0", Changes: []connectors.Change{{Op: connectors.Insert, Table: first, After: []connectors.Value{connectors.IntValue(1), text("a")}}}}); err != nil {
				t.Fatal(err)
			}
			s = h.sinkOn(func(c *SinkConfig) { c.Schema = connectors.FollowAll(mode) })
			err := s.Write(t.Context(), connectors.Batch{Stream: "t/0", Changes: []connectors.Change{{Op: connectors.Insert, Table: second, After: []connectors.Value{connectors.IntValue(9000000000), text("c"), connectors.IntValue(7)}}}})
			query := "SELECT GROUP_CONCAT(CONCAT_WS('|', id, e) ORDER BY id SEPARATOR ' ') FROM " + ident(h.name+"_copy") + ".m"
			if mode == connectors.Evolve {
				query = "SELECT GROUP_CONCAT(CONCAT(id, '|', e, '|', COALESCE(n, '')) ORDER BY id SEPARATOR ' ') FROM " + ident(h.name+"_copy") + ".m"
			}
			if got := h.query(query); got != want {
				t.Errorf("rows %s, want %s (%v)", got, want, err)
			}
			if (err == nil) != (mode == connectors.Evolve) {
				t.Errorf("error %v", err)
			}
			if mode == connectors.Freeze && !strings.Contains(fmt.Sprint(err), "ALTER TABLE") {
				t.Errorf("%v names no statement", err)
			}
		})
	}
}

// Append keeps each image, and names what an image does not carry.
func TestSinkAppends(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "r", "CREATE TABLE r (id int PRIMARY KEY, v text)")
	h.open()
	h.exec("INSERT INTO r VALUES (1, 'a')", "SET SESSION binlog_row_image = 'MINIMAL'", "UPDATE r SET id = 2", "DELETE FROM r")
	h.untilCount(3)
	s := h.sinkOn(func(c *SinkConfig) { c.Write, c.Deletes = writeAppend, deletesSoft })
	if err := s.Write(t.Context(), connectors.Batch{Stream: "t/0", Changes: h.changes}); err != nil {
		t.Fatal(err)
	}
	got := h.query("SELECT GROUP_CONCAT(CONCAT(id, '|', COALESCE(v, 'NULL'), '|', COALESCE(_unchanged, ''), '|', _deleted) ORDER BY id, _deleted SEPARATOR ' ') FROM " + ident(h.name+"_copy") + ".r")
	if got != `1|a||0 2|NULL|["v"]|0 2|NULL||1` {
		t.Error(got)
	}
}

// Rows that the server refuses are all named, values stay out of the errors, and nothing is written.
func TestSinkNamesRefusedRows(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "")
	s := h.sinkOn(nil)
	table := &connectors.Table{Schema: "s", Name: "d", Key: []int{0}, Columns: []connectors.Column{{Name: "id", Kind: connectors.Int}, {Name: "d", Kind: connectors.Date}, {Name: "f", Kind: connectors.Float}}}
	var changes []connectors.Change
	for i := range 300 {
		date, float := "2026-01-30", "0.5"
		switch i {
		case 7:
			date = "infinity"
		case 130:
			date = "0044-03-15 BC"
		case 299:
			float = "NaN"
		}
		changes = append(changes, connectors.Change{Op: connectors.Insert, Table: table, After: []connectors.Value{connectors.IntValue(int64(i)),
			connectors.DataValue(connectors.Date, []byte(date)), connectors.DataValue(connectors.Float, []byte(float))}})
	}
	err := s.Write(t.Context(), connectors.Batch{Stream: "t/0", Changes: changes})
	refused, ok := err.(*connectors.RowsError)
	if !ok || len(refused.Rows) != 3 || refused.Rows[0].Index != 7 || refused.Rows[1].Index != 130 || refused.Rows[2].Index != 299 {
		t.Fatalf("%v", err)
	}
	if text := refused.Rows[0].Err.Error(); strings.Contains(text, "infinity") || !strings.Contains(text, `"d"`) {
		t.Errorf("the error is %s", text)
	}
	if n := h.query("SELECT COUNT(*) FROM " + ident(h.name+"_copy") + ".d"); n != "0" {
		t.Errorf("%s rows were written", n)
	}
}

// versionOf is a table of s whose columns are written as "ID name type"; the first ones are the key.
func versionOf(keys int, columns ...string) *connectors.Table {
	t := &connectors.Table{Dialect: "mysql", Schema: "s", Name: "item"}
	for i, c := range columns {
		id, rest, _ := strings.Cut(c, " ")
		name, typ, _ := strings.Cut(rest, " ")
		kind := connectors.Text
		if strings.Contains(typ, "int") {
			kind = connectors.Int
		}
		t.Columns = append(t.Columns, connectors.Column{Name: name, Type: typ, Kind: kind, ID: number(id)})
		if i < keys {
			t.Key = append(t.Key, i)
		}
	}
	return t
}

// put writes a row of texts and numbers.
func (h *harness) put(s *Sink, t *connectors.Table, values ...any) {
	h.t.Helper()
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
	if err := s.Write(h.t.Context(), connectors.Batch{Stream: "t/0", Changes: []connectors.Change{{Op: connectors.Insert, Table: t, After: row}}}); err != nil {
		h.t.Fatal(err)
	}
}

func (h *harness) wantItems(columns, want string) {
	h.t.Helper()
	got := h.query("SELECT GROUP_CONCAT(CONCAT_WS('|', " + columns + ") ORDER BY 1 SEPARATOR ' ') FROM " + ident(h.name+"_copy") + ".item")
	if got != want {
		h.t.Errorf("rows %s, want %s", got, want)
	}
}

// A step is carried out once, however often it comes: names that change places would change back.
func TestSinkFollowsAStepOnce(t *testing.T) {
	t.Parallel()
	one := versionOf(1, "1 id int(11)", "2 a varchar(10)", "3 b int(11)", "4 c varchar(10)", "6 e text")
	two := versionOf(1, "1 no int(11)", "2 b varchar(10)", "3 a int(11)", "5 c int(11)", "4 d varchar(20)")
	step := connectors.Migration{From: one, To: two, Stream: "shop.item/-2/s.item", Position: []byte("2 x")}
	for _, crash := range []string{"after it", "between the change and its position"} {
		t.Run(crash, func(t *testing.T) {
			h := newHarness(t, "")
			s := h.sinkOn(nil)
			h.put(s, one, 1, "x", 7, "y", "z")
			if crash == "after it" {
				if err := s.Migrate(t.Context(), step); err != nil {
					t.Fatal(err)
				}
			} else {
				name, _ := s.config.target(one, s.database)
				if _, err := s.Committed(t.Context(), step.Stream); err != nil {
					t.Fatal(err)
				}
				if err := s.locked(t.Context(), func() error { return s.alter(t.Context(), step, name) }); err != nil {
					t.Fatal(err)
				}
			}
			h.wantItems("no, b, a, COALESCE(c, 'none'), d", "1|x|7|none|y")
			old := s
			s = h.sinkOn(nil)
			if err := s.Migrate(t.Context(), step); err != nil {
				t.Fatal(err)
			}
			h.put(s, two, 1, "x", 8, 9, "longer than ten")
			h.wantItems("no, b, a, c, d", "1|x|8|9|longer than ten")
			held, err := s.Committed(t.Context(), step.Stream)
			if err != nil || string(held) != "2 x" {
				t.Errorf("position %q, %v", held, err)
			}
			three := versionOf(1, "1 no int(11)")
			if err := old.Migrate(t.Context(), connectors.Migration{From: two, To: three, Stream: step.Stream, Position: []byte("3 x")}); !errors.Is(err, connectors.ErrFenced) {
				t.Errorf("a writer that another one has followed: %v", err)
			}
			h.wantItems("no, b, a, c, d", "1|x|8|9|longer than ten")
		})
	}
}

// What cannot be done is a statement to run, and the table goes on once it was run.
func TestSinkAsksForWhatItCannotDo(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "")
	s := h.sinkOn(nil)
	one, two := versionOf(1, "1 id int(11)", "2 a varchar(10)"), versionOf(1, "1 id int(11)", "2 a int(11)")
	h.put(s, one, 1, "secret")
	step := connectors.Migration{From: one, To: two, Stream: "shop.item/-2/s.item", Position: []byte("2 x")}
	for range 2 {
		var misfit *connectors.SchemaError
		if err := s.Migrate(t.Context(), step); !errors.As(err, &misfit) || !strings.Contains(misfit.Statement, "MODIFY COLUMN `a` int(11)") || strings.Contains(err.Error(), "secret") {
			t.Fatalf("error %v", err)
		}
	}
	h.exec("UPDATE "+ident(h.name+"_copy")+".item SET a = '5'", strings.ReplaceAll("ALTER TABLE X.item MODIFY COLUMN a int(11)", "X", ident(h.name+"_copy")))
	if err := s.Migrate(t.Context(), step); err != nil {
		t.Fatal(err)
	}
	h.put(s, two, 2, 6)
	h.wantItems("id, a", "1|5 2|6")
}

func TestSinkFollowsKeys(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "")
	s := h.sinkOn(nil)
	one, two := versionOf(1, "1 id int(11)", "2 a varchar(10)"), versionOf(2, "1 nr int(11)", "2 a varchar(10)")
	three, four := versionOf(1, "2 a varchar(10)", "1 nr int(11)"), versionOf(0, "2 a varchar(10)", "1 nr int(11)")
	h.put(s, one, 1, "x")
	migrate := func(from, to *connectors.Table) {
		t.Helper()
		if err := s.Migrate(t.Context(), connectors.Migration{From: from, To: to}); err != nil {
			t.Fatal(err)
		}
	}
	migrate(one, two)
	h.put(s, two, 1, "y")
	h.put(s, two, 1, "y")
	h.wantItems("nr, a", "1|x 1|y")
	migrate(two, three)
	h.put(s, three, "y", 2)
	h.wantItems("nr, a", "1|x 2|y")
	migrate(three, four)
	h.put(s, four, "y", 2)
	h.put(s, four, nil, nil)
	h.wantItems("COALESCE(nr, 0), COALESCE(a, '')", "0| 1|x 2|y 2|y")
}

// A server that does not know how to bound waits is written to all the same, and one that does not know what the rows depend on
// is not. A connection that is gone is neither.
func TestSinkGoesWithoutSettingsThatItCan(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "x", "CREATE TABLE x (id int PRIMARY KEY)")
	s := h.sinkOn(nil)
	const unknown = "no_server_knows_this = 60"
	if err := s.setUp(t.Context(), []string{"foreign_key_checks = 0"}, []string{unknown, "lock_wait_timeout = 61", "innodb_lock_wait_timeout = 'long'"}); err != nil {
		t.Errorf("without settings that bound waits: %v", err)
	}
	var waits int
	if err := s.conn.QueryRowContext(t.Context(), "SELECT @@lock_wait_timeout").Scan(&waits); err != nil || waits != 61 {
		t.Errorf("the setting after one that is refused: %d, %v", waits, err)
	}
	if err := s.setUp(t.Context(), []string{unknown}, nil); code(err) != 1193 || !strings.Contains(err.Error(), unknown) {
		t.Errorf("without a setting that rows depend on: %v", err)
	}
	h.exec("KILL " + strconv.FormatInt(s.connectionID(t), 10))
	if err := s.setUp(t.Context(), nil, []string{unknown}); err == nil || code(err) == 1193 {
		t.Errorf("without a connection: %v", err)
	}
}

// connectionID is the server's number of the connection that writes.
func (s *Sink) connectionID(t *testing.T) (id int64) {
	t.Helper()
	if err := s.conn.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id); err != nil {
		t.Fatal(err)
	}
	return id
}
