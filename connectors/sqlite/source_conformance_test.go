package sqlite

import (
	"context"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/conformance"
)

// file is a database of a test with a connection that writes into it.
type file struct {
	t    *testing.T
	path string
	db   *database
}

func newFile(t *testing.T, statements ...string) *file {
	t.Helper()
	f := &file{t: t, path: filepath.Join(t.TempDir(), "a b%?#.db")}
	db, err := open(context.Background(), &File{Path: f.path}, "_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	f.db = db
	t.Cleanup(func() {
		if err := db.close(); err != nil {
			t.Error(err)
		}
	})
	f.exec("PRAGMA journal_mode = wal")
	for _, s := range statements {
		f.exec(s)
	}
	return f
}

func (f *file) exec(query string, args ...any) {
	f.t.Helper()
	if _, err := f.db.ExecContext(context.Background(), query, args...); err != nil {
		f.t.Fatalf("%s: %v", query, err)
	}
}

// source returns settings for the tables, each polled often.
func (f *file) source(tables ...connectors.TableSpec) *SourceConfig {
	return &SourceConfig{File: File{Path: f.path}, Mode: "timestamp", Poll: time.Millisecond, Tables: tables}
}

func (f *file) opener(tables ...connectors.TableSpec) connectors.OpenSource {
	c := f.source(tables...)
	return func(ctx context.Context, env connectors.Env, from connectors.Position) (connectors.Source, error) {
		return openSource(ctx, c, env, from)
	}
}

func TestSourceConformance(t *testing.T) {
	const now = "strftime('%Y-%m-%d %H:%M:%f', 'now')"
	cases := []struct {
		name, schema, insert, update string
		cursor                       string
	}{
		{"by a time with thousandths", "CREATE TABLE item (id INTEGER PRIMARY KEY, v TEXT, u TEXT NOT NULL)",
			"INSERT INTO item VALUES (?1, ?2, " + now + ")", "UPDATE item SET v = ?2, u = " + now + " WHERE id = ?1", "u"},
		{"by a time with whole seconds", "CREATE TABLE item (id INTEGER PRIMARY KEY, v TEXT, u TIMESTAMP NOT NULL)",
			"INSERT INTO item VALUES (?1, ?2, CURRENT_TIMESTAMP)", "UPDATE item SET v = ?2, u = CURRENT_TIMESTAMP WHERE id = ?1", "u"},
		{"by its key", "CREATE TABLE item (id INTEGER PRIMARY KEY AUTOINCREMENT, v TEXT)",
			"INSERT INTO item VALUES (?1, ?2)", "", ""},
		{"by a nullable time with a text key", "CREATE TABLE item (id TEXT PRIMARY KEY, v TEXT, u TEXT)",
			"INSERT INTO item VALUES (?1, ?2, CURRENT_TIMESTAMP)", "", "u"},
		{"without rowid", "CREATE TABLE item (id INT, v TEXT, u TEXT NOT NULL, PRIMARY KEY (id, u)) WITHOUT ROWID",
			"INSERT INTO item VALUES (?1, ?2, CURRENT_TIMESTAMP)", "", "u"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			conformance.RunSource(t, conformance.SourceCase{New: func(t *testing.T) conformance.SourceSystem {
				f := newFile(t, c.schema)
				s := conformance.SourceSystem{
					Open:  f.opener(connectors.TableSpec{Name: "item", Cursor: c.cursor}),
					Table: "main.item",
					Insert: func(_ *testing.T, ids ...int) {
						f.exec("BEGIN IMMEDIATE")
						for _, id := range ids {
							f.exec(c.insert, id, "v"+strconv.Itoa(id))
						}
						f.exec("COMMIT")
					},
				}
				if c.update != "" {
					s.Update = func(_ *testing.T, id int, v string) { f.exec(c.update, id, v) }
				}
				return s
			}})
		})
	}
}
