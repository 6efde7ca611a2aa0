package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

// extract opens a bounded source, reads it to its end and returns each row as op and texts, and the last position.
func (f *file) extract(t *testing.T, env connectors.Env, from connectors.Position, tables ...connectors.TableSpec) ([]string, connectors.Position) {
	t.Helper()
	env.Once = true
	s, err := f.opener(tables...)(t.Context(), env, from)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	var out []string
	for {
		b, err := s.Read(t.Context())
		if errors.Is(err, io.EOF) {
			return out, from
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, texts(b.Changes)...)
		if b.Position != nil {
			from = slices.Clone(b.Position)
		}
	}
}

func texts(changes []connectors.Change) []string {
	var out []string
	for _, c := range changes {
		line := string(c.Op.Code())
		for _, v := range c.After {
			line += " " + string(connectors.AppendJSON(nil, v))
		}
		out = append(out, line)
	}
	return out
}

func wantLines(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %s\nwant: %s", what, strings.Join(got, " | "), strings.Join(want, " | "))
	}
}

func TestEqualTimesAcrossABatchEdge(t *testing.T) {
	t.Parallel()
	f := newFile(t, "CREATE TABLE x (id INTEGER PRIMARY KEY, updated_at TIMESTAMP NOT NULL)")
	for id := 1; id <= 10; id++ {
		f.exec("INSERT INTO x VALUES (?, '2026-01-01 00:00:00')", id)
	}
	f.exec("INSERT INTO x VALUES (11, '2026-01-01 00:00:01')")
	spec := connectors.TableSpec{Name: "x", Cursor: "updated_at"}
	env := connectors.NewEnv("shop")
	env.Limits.BatchRows = 4
	s, err := f.opener(spec)(t.Context(), env, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ids := len(b.Changes)
	position := slices.Clone(b.Position)
	if err := s.Close(t.Context()); err != nil { // as after kill -9: nothing but the position is left
		t.Fatal(err)
	}
	f.exec("INSERT INTO x VALUES (12, '2026-01-01 00:00:00')")
	rest, position := f.extract(t, env, position, spec)
	if ids+len(rest) != 12 {
		t.Errorf("%d rows and then %v, want 12 in all", ids, rest)
	}
	again, _ := f.extract(t, env, position, spec)
	wantLines(t, "read again", again)
}

func TestSameTick(t *testing.T) {
	t.Parallel()
	const tick = "2026-01-01 00:00:00"
	spec := connectors.TableSpec{Name: "x", Cursor: "u"}

	t.Run("a lower key and a second change in one tick are seen", func(t *testing.T) {
		t.Parallel()
		f := newFile(t, "CREATE TABLE x (id INTEGER PRIMARY KEY, v TEXT, u TEXT NOT NULL)")
		f.exec("INSERT INTO x VALUES (5, 'a', ?), (7, 'b', ?)", tick, tick)
		first, at := f.extract(t, connectors.NewEnv("shop"), nil, spec)
		wantLines(t, "first", first, `r 5 "a" "`+tick+`"`, `r 7 "b" "`+tick+`"`)
		f.exec("INSERT INTO x VALUES (3, 'late', ?)", tick)
		f.exec("UPDATE x SET v = 'changed' WHERE id = 7")
		second, at := f.extract(t, connectors.NewEnv("shop"), at, spec)
		wantLines(t, "second", second, `u 3 "late" "`+tick+`"`, `u 7 "changed" "`+tick+`"`)
		third, _ := f.extract(t, connectors.NewEnv("shop"), at, spec)
		wantLines(t, "third", third)
	})

	t.Run("more rows than are remembered are read once", func(t *testing.T) {
		t.Parallel()
		f := newFile(t, "CREATE TABLE x (id INTEGER PRIMARY KEY, v TEXT, u TEXT NOT NULL)")
		f.exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < ?) INSERT INTO x SELECT i, 'v', ? FROM n`, 2*maxSeen, tick)
		env := connectors.NewEnv("shop")
		env.Limits.BatchRows = 300
		first, at := f.extract(t, env, nil, spec)
		f.exec("INSERT INTO x VALUES (9999, 'next', ?)", tick)
		second, at := f.extract(t, env, at, spec)
		if len(first) != 2*maxSeen || len(second) != 1 {
			t.Errorf("%d and %d rows, want %d and 1", len(first), len(second), 2*maxSeen)
		}
		if len(at) > 500 {
			t.Errorf("a position of %d bytes", len(at))
		}
	})
}

func TestNullCursor(t *testing.T) {
	t.Parallel()
	f := newFile(t, "CREATE TABLE x (id INTEGER PRIMARY KEY, v TEXT, u TEXT)")
	f.exec("INSERT INTO x VALUES (1, 'a', NULL), (2, 'b', '2026-01-01'), (3, 'c', NULL)")
	spec := connectors.TableSpec{Name: "x", Cursor: "u"}
	env := connectors.NewEnv("shop")
	env.Limits.BatchRows = 1
	var reasons []string
	env.Report = func(r connectors.Report) {
		if r.Reason != "" {
			reasons = append(reasons, r.Reason)
		}
	}
	first, at := f.extract(t, env, nil, spec)
	wantLines(t, "first", first, `r 1 "a" null`, `r 3 "c" null`, `r 2 "b" "2026-01-01"`)
	if len(reasons) != 1 || !strings.HasPrefix(reasons[0], "2 rows have NULL in the cursor column u") {
		t.Errorf("reported %v", reasons)
	}
	f.exec("UPDATE x SET u = '2026-01-02' WHERE id = 1")
	f.exec("UPDATE x SET v = 'unseen' WHERE id = 3")
	second, _ := f.extract(t, env, at, spec)
	wantLines(t, "second", second, `u 1 "a" "2026-01-02"`)
	if len(reasons) != 2 || !strings.HasPrefix(reasons[1], "1 rows have NULL") {
		t.Errorf("reported %v", reasons)
	}
}

func TestLooseTypes(t *testing.T) {
	t.Parallel()
	f := newFile(t, "CREATE TABLE d (id INTEGER PRIMARY KEY, n INTEGER, b BOOLEAN, ts TIMESTAMP, txt TEXT, raw BLOB, dec DECIMAL(10,2), any)")
	f.exec("INSERT INTO d VALUES (1, '12abc', 'false', 1598313600, x'00ff', 'text', 1.10, 5)")
	f.exec("INSERT INTO d VALUES (2, 9007199254740993, 1, '2026-01-02 03:04:05', 'é', x'00ff', 123, x'01')")
	f.exec("INSERT INTO d VALUES (3, 1.5, 2, '2026-01-02T03:04:05.5', CAST(x'ff' AS TEXT), 7, 'n/a', NULL)")
	f.exec("INSERT INTO d VALUES (4, NULL, 0, 'tomorrow', '', x'', 9e999, 'x')")
	got, _ := f.extract(t, connectors.NewEnv("shop"), nil, connectors.TableSpec{Name: "d"})
	wantLines(t, "rows", got,
		`r 1 "12abc" "false" "1598313600" "X'00FF'" "dGV4dA==" "1.1" "5"`,
		`r 2 9007199254740993 true "2026-01-02T03:04:05" "é" "AP8=" "123" "X'01'"`,
		`r 3 "1.5" "2" "2026-01-02T03:04:05.5" "X'FF'" "Nw==" "n/a" null`,
		`r 4 null false "tomorrow" "" "" "Infinity" "x"`)
}

// TestCopy reads one file and writes another, through the JSON of each value, as the log does.
func TestCopy(t *testing.T) {
	t.Parallel()
	const schema = "CREATE TABLE d (id INTEGER PRIMARY KEY, n INTEGER, b BOOLEAN, ts TIMESTAMP, txt TEXT, raw BLOB, dec DECIMAL(10,2), r REAL, j JSON)"
	from, to := newFile(t, schema), newFile(t)
	from.exec("INSERT INTO d VALUES (1, '12abc', 'false', 1598313600, 'x', x'00ff', 1.10, 0.1, '{\"a\": 0.10}')")
	from.exec("INSERT INTO d VALUES (2, 9007199254740993, 1, '2026-01-02 03:04:05', '', x'', 123, 1e300, 5)")
	from.exec("INSERT INTO d VALUES (3, 1.5, 2, 'tomorrow', NULL, NULL, 'n/a', -5, 'not json')")
	src, err := from.opener(connectors.TableSpec{Name: "d"})(t.Context(), connectors.NewEnv("shop"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close(context.Background()) //nolint:errcheck // the test is about values
	b, err := src.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range b.Changes {
		row := b.Changes[i].After
		for k, v := range row {
			var arena []byte
			row[k], _, err = connectors.ParseJSON(b.Changes[i].Table.Columns[k].Kind, connectors.AppendJSON(nil, v), arena)
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	sink, err := to.sinkOpener()(t.Context(), connectors.NewEnv("copy"))
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close(context.Background()) //nolint:errcheck // the test is about values
	b.Stream = "d/0"
	if err := sink.Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	const all = "SELECT group_concat(typeof(n)||quote(n)||typeof(b)||quote(b)||typeof(ts)||quote(ts)||typeof(txt)||quote(txt)||typeof(raw)||quote(raw)||typeof(dec)||quote(dec)||quote(r)||typeof(j)||quote(j), char(10)) FROM d"
	var want, got string
	if err := from.db.QueryRowContext(t.Context(), all).Scan(&want); err != nil {
		t.Fatal(err)
	}
	if err := to.db.QueryRowContext(t.Context(), all).Scan(&got); err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("the copy has\n%s\nthe source\n%s", got, want)
	}
}

func TestSchemaChange(t *testing.T) {
	t.Parallel()
	f := newFile(t, "CREATE TABLE a (id INTEGER PRIMARY KEY AUTOINCREMENT, v TEXT)")
	f.exec("INSERT INTO a VALUES (1, 'one')")
	s, err := f.opener(connectors.TableSpec{Name: "*"})(t.Context(), connectors.NewEnv("shop"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background()) //nolint:errcheck // the test is about rows
	next := func(n int) []connectors.Change {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var out []connectors.Change
		for len(out) < n {
			b, err := s.Read(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range b.Changes {
				c.After = connectors.CloneRow(c.After)
				out = append(out, c)
			}
		}
		return out
	}
	first := next(1)
	f.exec("ALTER TABLE a ADD COLUMN extra INTEGER DEFAULT 11")
	f.exec("INSERT INTO a VALUES (2, 'two', 22)")
	second := next(1)
	f.exec("CREATE TABLE b (id INTEGER PRIMARY KEY)")
	f.exec("INSERT INTO b VALUES (1)")
	third := next(1)
	f.exec("INSERT INTO a VALUES (3, 'three', 33)")
	fourth := next(1)
	wantLines(t, "rows", texts(slices.Concat(first, second, third, fourth)), `r 1 "one"`, `c 2 "two" 22`, `r 1`, `c 3 "three" 33`)
	if second[0].Table == first[0].Table {
		t.Error("another version of the table has the same pointer")
	}
	if fourth[0].Table != second[0].Table {
		t.Error("the same version of the table has another pointer")
	}
	f.exec("DROP TABLE b")
	f.exec("ALTER TABLE a RENAME COLUMN v TO w")
	f.exec("INSERT INTO a VALUES (4, 'four', NULL)")
	if c := next(1)[0]; c.Table.Columns[1].Name != "w" {
		t.Errorf("the column is %q, want w", c.Table.Columns[1].Name)
	}
}

func TestResync(t *testing.T) {
	t.Parallel()
	f := newFile(t, "CREATE TABLE a (id INTEGER PRIMARY KEY, v TEXT)", "CREATE TABLE b (id INTEGER PRIMARY KEY)")
	f.exec("INSERT INTO a VALUES (1, 'one'), (2, 'two')")
	f.exec("INSERT INTO b VALUES (1)")
	s, err := f.opener(connectors.TableSpec{Name: "*"})(t.Context(), connectors.NewEnv("shop"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background()) //nolint:errcheck // the test is about rows
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	read := func(n int) (out []string) {
		t.Helper()
		for len(out) < n {
			b, err := s.Read(ctx)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, texts(b.Changes)...)
		}
		return out
	}
	wantLines(t, "first", read(3), `r 1 "one"`, `r 2 "two"`, `r 1`)
	f.exec("UPDATE a SET v = 'dos' WHERE id = 2") // which the cursor does not show
	resyncer := s.(connectors.Resyncer)
	if err := resyncer.Resync(ctx, "main.gone"); err != nil {
		t.Errorf("a table that the pattern takes: %v", err)
	}
	if err := resyncer.Resync(ctx, "main.a"); err != nil {
		t.Fatal(err)
	}
	wantLines(t, "anew", read(2), `r 1 "one"`, `r 2 "dos"`)
	f.exec("INSERT INTO a VALUES (3, 'three')")
	wantLines(t, "after it", read(1), `c 3 "three"`)
}

func TestTableFailsAlone(t *testing.T) {
	t.Parallel()
	f := newFile(t, "CREATE TABLE a (id INTEGER PRIMARY KEY)", "CREATE TABLE b (id INTEGER PRIMARY KEY)", "CREATE TABLE c (v TEXT)")
	f.exec("INSERT INTO a VALUES (1)")
	f.exec("INSERT INTO b VALUES (2)")
	env := connectors.NewEnv("shop")
	failed := map[string]string{}
	env.Report = func(r connectors.Report) {
		if r.Phase == connectors.PhaseFailed {
			failed[r.Table] = r.Reason
		}
	}
	got, _ := f.extract(t, env, nil,
		connectors.TableSpec{Name: "a", Where: "nonsense("}, connectors.TableSpec{Name: "main.b"},
		connectors.TableSpec{Name: "c"}, connectors.TableSpec{Name: "gone"})
	wantLines(t, "rows", got, "r 2")
	if len(failed) != 3 || failed["main.a"] == "" || failed["main.gone"] == "" || !strings.Contains(failed["main.c"], "cursor: updated_at") {
		t.Errorf("failed %v", failed)
	}
}

func TestSelection(t *testing.T) {
	t.Parallel()
	f := newFile(t, "CREATE TABLE a (id INTEGER PRIMARY KEY, code TEXT, secret TEXT, n INT, dbl GENERATED ALWAYS AS (n * 2))")
	f.exec("INSERT INTO a (id, code, secret, n) VALUES (1, 'x', 's', 1), (2, 'y', 's', 2), (3, 'z', 's', 3)")
	spec := connectors.TableSpec{Name: "a", Columns: []string{"code", "n", "dbl"}, Key: []string{"code"}, Where: "n > 1 OR n > 2", Topic: "t"}
	got, _ := f.extract(t, connectors.NewEnv("shop"), nil, spec)
	wantLines(t, "rows", got, `r "y" 2 "4"`, `r "z" 3 "6"`)
	list, _, err := catalog(t.Context(), f.db, f.source(spec))
	if err != nil {
		t.Fatal(err)
	}
	if table := list[0].Table; !slices.Equal(table.Key, []int{0}) || table.Topic != "t" || !table.Columns[2].Generated {
		t.Errorf("table %+v", table)
	}
	config := f.source(connectors.TableSpec{Name: "*"})
	config.Exclude = []string{"main.a"}
	if config.spec("a") != nil || config.spec("b") == nil {
		t.Error("exclude takes out something else than it says")
	}
}

// A condition is tried before a run does it, on a table and on a query.
func TestCheckTriesTheConditions(t *testing.T) {
	t.Parallel()
	f := newFile(t, "CREATE TABLE a (id INTEGER PRIMARY KEY, u TEXT)", "CREATE TABLE b (id INTEGER PRIMARY KEY, u TEXT)")
	q := connectors.TableSpec{Name: "main.q", Query: "SELECT id, u FROM a", Key: []string{"id"}, Cursor: "u"}
	wrong := q
	wrong.Name, wrong.Where = "main.w", "v IS NULL"
	q.Where = "u IS NOT NULL"
	config := f.source(connectors.TableSpec{Name: "a", Cursor: "u", Where: "u > 'x'"}, connectors.TableSpec{Name: "b", Cursor: "u", Where: "u > 'hidden"}, q, wrong)
	findings, err := checkSource(t.Context(), config, connectors.NewEnv("shop"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, x := range findings {
		if x.Severity == connectors.Fatal {
			got = append(got, x.Subject+" "+x.Key+": "+x.Problem)
		}
		if strings.Contains(x.Problem, "hidden") {
			t.Errorf("it shows a value: %s", x.Problem)
		}
	}
	if len(got) != 2 || !strings.HasPrefix(got[0], "main.b tables[1].where: has a condition that cannot be read: ") ||
		!strings.HasPrefix(got[1], "main.w tables[3].where: has a condition") || !strings.Contains(got[1], "no such column: v") {
		t.Errorf("found %q", got)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	f := newFile(t,
		"CREATE TABLE reused (id INTEGER PRIMARY KEY, v TEXT)",
		"CREATE TABLE auto (id INTEGER PRIMARY KEY AUTOINCREMENT, u TEXT NOT NULL)",
		"CREATE INDEX auto_u ON auto (u)",
		"CREATE TABLE nullable (id INTEGER PRIMARY KEY, u TEXT)")
	findings, err := checkSource(t.Context(), f.source(
		connectors.TableSpec{Name: "reused"}, connectors.TableSpec{Name: "auto", Cursor: "u"},
		connectors.TableSpec{Name: "nullable", Cursor: "u"}, connectors.TableSpec{Name: "gone"}), connectors.NewEnv("shop"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, x := range findings {
		got = append(got, fmt.Sprintf("%s %s: %.40s", x.Severity, x.Subject, x.Problem))
	}
	wantLines(t, "findings", got,
		"error main.gone: no table has this name",
		"info main.auto: deletes are not seen",
		"info main.nullable: deletes are not seen",
		"warning main.nullable: the cursor u can be NULL: such rows are ",
		"warning main.nullable: no index begins with the cursor u: every",
		"info main.reused: deletes are not seen",
		"warning main.reused: the cursor id is the row's own key: chan",
		"warning main.reused: the table is not AUTOINCREMENT: SQLite g")
}
