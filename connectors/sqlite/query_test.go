package sqlite

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

const orders = "SELECT o.id, w.name, o.u, upper(w.name) AS loud FROM o JOIN w ON w.id = o.who -- with a comment"

// TestAQueryIsReadLikeATable: its rows come once, ties and rows in batches too, and where and deletes are minded.
func TestAQueryIsReadLikeATable(t *testing.T) {
	t.Parallel()
	f := newFile(t, "CREATE TABLE o (id INTEGER PRIMARY KEY, who INTEGER, u TEXT)", "CREATE TABLE w (id INTEGER PRIMARY KEY, name TEXT)",
		"INSERT INTO w VALUES (1, 'ann'), (2, 'bob')", "INSERT INTO o VALUES (1, 1, '2026-01-01'), (2, 2, '2026-01-01'), (3, 1, '2026-01-01'), (4, 1, '2026-01-02'), (5, 1, NULL)")
	spec := connectors.TableSpec{Name: "report.orders", Cursor: "u", Key: []string{"id"}, Query: orders, Where: "id <> 4"}
	env := connectors.NewEnv("shop")
	env.Limits.BatchRows, env.Dir = 2, t.TempDir()
	got, at := f.extract(t, env, nil, spec)
	wantLines(t, "first", got, `r 5 "ann" null "ANN"`, `r 1 "ann" "2026-01-01" "ANN"`, `r 2 "bob" "2026-01-01" "BOB"`, `r 3 "ann" "2026-01-01" "ANN"`)
	f.exec("INSERT INTO o VALUES (0, 2, '2026-01-01'), (6, 2, '2026-01-03')")
	f.exec("UPDATE o SET who = 2, u = '2026-01-04' WHERE id = 3")
	got, at = f.extract(t, env, at, spec)
	wantLines(t, "then", got, `u 0 "bob" "2026-01-01" "BOB"`, `u 6 "bob" "2026-01-03" "BOB"`, `u 3 "bob" "2026-01-04" "BOB"`)
	got, _ = f.extract(t, env, at, spec)
	wantLines(t, "and then", got)
	env.Once = true
	_, at = f.detecting(env, nil, spec)
	f.exec("DELETE FROM o WHERE id = 2")
	got, _ = f.detecting(env, at, spec)
	wantLines(t, "a row that is gone", got, `d 2 null`)
}

func TestAQueryNamesItsRecords(t *testing.T) {
	t.Parallel()
	f := newFile(t, "CREATE TABLE o (id INTEGER PRIMARY KEY, at DATETIME)", "INSERT INTO o VALUES (1, '2026-01-01 00:00:00')")
	for name, want := range map[string]string{"o": "main.o", "main.o2": "main.o2", "report.o": "report.o"} {
		list, problems, err := catalog(t.Context(), f.db, f.source(connectors.TableSpec{Name: name, Cursor: "at", Key: []string{"id"}, Query: "SELECT * FROM o"}, connectors.TableSpec{Name: "nothing*"}))
		if err != nil || len(problems) > 1 || len(list) != 1 || list[0].FullName() != want || list[0].Columns[0].Kind != connectors.Int || list[0].Columns[1].Kind != connectors.Timestamp {
			t.Errorf("%s: %+v, %v, %v", name, list, problems, err)
		}
	}
}

// TestAQueryWithoutAKeyInARow: NULL has no place in the order, so such rows are counted.
func TestAQueryWithoutAKeyInARow(t *testing.T) {
	t.Parallel()
	f := newFile(t, "CREATE TABLE o (id INTEGER, u INTEGER)", "INSERT INTO o VALUES (1, 1), (NULL, 1), (2, 1), (NULL, NULL), (3, NULL)")
	env := connectors.NewEnv("shop")
	var unseen int64
	env.Report = func(r connectors.Report) {
		if r.Unseen != nil {
			unseen = *r.Unseen
		}
	}
	got, _ := f.extract(t, env, nil, connectors.TableSpec{Name: "q", Cursor: "u", Key: []string{"id"}, Query: "SELECT * FROM o"})
	wantLines(t, "rows with a key", got, "r 3 null", "r 1 1", "r 2 1")
	if unseen != 3 {
		t.Errorf("%d rows are not seen, want 3", unseen)
	}
}

func TestQueriesThatDoNotWork(t *testing.T) {
	t.Parallel()
	f := newFile(t, "CREATE TABLE o (id INTEGER PRIMARY KEY, u INTEGER)")
	for want, spec := range map[string]connectors.TableSpec{
		"no such table":                   {Query: "SELECT * FROM nowhere"},
		"syntax error":                    {Query: "SELECT 1; DROP TABLE o"},
		"no column u, which cursor names": {Query: "SELECT id FROM o"},
		"the column id is not there":      {Query: "SELECT u FROM o"},
	} {
		spec.Name, spec.Cursor, spec.Key = "q", "u", []string{"id"}
		findings, err := checkSource(t.Context(), f.source(spec), connectors.NewEnv("shop"))
		if err != nil || len(findings) == 0 || !strings.Contains(findings[0].Problem, want) || findings[0].Subject != "main.q" {
			t.Errorf("%s: %v, %v", spec.Query, findings, err)
		}
		_, err = openSource(t.Context(), f.source(spec), connectors.NewEnv("shop"), nil)
		if !errors.Is(err, connectors.ErrFatal) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "correct ") {
			t.Errorf("%s: start: %v, want an error that is final and names the remedy", spec.Query, err)
		}
	}
	for want, spec := range map[string]connectors.TableSpec{
		"without wildcards":    {Name: "q*", Cursor: "u", Key: []string{"id"}, Query: "SELECT 1"},
		"needs cursor and key": {Name: "q", Cursor: "u", Query: "SELECT 1"},
	} {
		c := SourceConfig{File: File{Path: f.path}, Mode: "timestamp", Poll: time.Second, Tables: []connectors.TableSpec{spec}, Deletes: deletesIgnore, NullCursor: NullFirst}
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", spec, err)
		}
	}
}
