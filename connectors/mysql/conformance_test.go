package mysql

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/conformance"
	"github.com/trunkline/trunkline/connectors/mysql/localserver"
)

// onServers runs a test against a real server of each kind, one after the other.
func onServers(t *testing.T, test func(t *testing.T, start func(*testing.T) *localserver.Database)) {
	t.Run("MariaDB", func(t *testing.T) {
		test(t, func(t *testing.T) *localserver.Database { return localserver.ForTest(t) })
	})
	t.Run("MySQL", func(t *testing.T) { test(t, mysqlDatabase) })
}

// mysqlDatabase is an empty database on a real MySQL server.
func mysqlDatabase(t *testing.T) *localserver.Database {
	t.Helper()
	needMySQL(t)
	return localserver.MySQLForTest(t)
}

// needMySQL skips the test where there is no MySQL server to be had. Where there is one to be had and it is missing, the
// test fails.
func needMySQL(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		if os.Getenv(localserver.MySQLDirVar) == "" {
			t.Skipf("scripts/setup has a MySQL server for Linux on x86-64 only; set %s to run this test on %s/%s", localserver.MySQLDirVar, runtime.GOOS, runtime.GOARCH)
		}
	}
}

// mysqlOptions are those of a MySQL server of the test's own.
func mysqlOptions(t *testing.T) localserver.Options {
	t.Helper()
	needMySQL(t)
	b, err := localserver.FindMySQL()
	if err != nil {
		t.Fatal(err)
	}
	return localserver.Options{Unsafe: true, Binaries: b}
}

// TestSourceConformance runs by itself: the suite counts goroutines.
func TestSourceConformance(t *testing.T) { onServers(t, testSourceConformance) }

func testSourceConformance(t *testing.T, start func(*testing.T) *localserver.Database) {
	conformance.RunSource(t, conformance.SourceCase{New: func(t *testing.T) conformance.SourceSystem {
		db := start(t)
		h := harnessOn(t, db.Server, db.Name, "item", "CREATE TABLE item (id int PRIMARY KEY, v text)")
		h.config.SnapshotChunk = 5
		return conformance.SourceSystem{
			Open: func(ctx context.Context, env connectors.Env, from connectors.Position) (connectors.Source, error) {
				return newSource(ctx, h.config, env, from)
			},
			Table: h.name + ".item",
			Insert: func(_ *testing.T, ids ...int) {
				var rows []string
				for _, id := range ids {
					rows = append(rows, fmt.Sprintf("(%d, 'v%[1]d')", id))
				}
				h.exec("INSERT INTO item VALUES " + strings.Join(rows, ", "))
			},
			Update: func(_ *testing.T, id int, value string) {
				h.exec(fmt.Sprintf("UPDATE item SET v = '%s' WHERE id = %d", value, id))
			},
			Delete: func(_ *testing.T, id int) { h.exec(fmt.Sprintf("DELETE FROM item WHERE id = %d", id)) },
		}
	}})
}

// TestSinkConformance runs by itself: the suite counts goroutines.
func TestSinkConformance(t *testing.T) { onServers(t, testSinkConformance) }

func testSinkConformance(t *testing.T, start func(*testing.T) *localserver.Database) {
	conformance.RunSink(t, conformance.SinkCase{Wide: 900, Shows: showsInMySQL, New: func(t *testing.T) conformance.SinkSystem {
		db := start(t)
		h := harnessOn(t, db.Server, db.Name, "")
		return conformance.SinkSystem{
			Open: func(ctx context.Context, env connectors.Env) (connectors.Sink, error) {
				config := DefaultSinkConfig()
				config.DSN = h.config.DSN
				config.Table = h.name + "_{schema}.{table}"
				if err := config.Validate(); err != nil {
					return nil, err
				}
				t.Cleanup(func() { h.exec("DROP DATABASE IF EXISTS " + ident(h.name+"_shop")) })
				s, err := newSink(ctx, config, env)
				if err != nil {
					return nil, err
				}
				return s, s.exec(ctx, "SET SESSION innodb_lock_wait_timeout = 1")
			},
			Rows: func(t *testing.T, table *connectors.Table) []conformance.Row {
				return h.rows(tableName{h.name + "_" + table.Schema, table.Name})
			},
			Busy: func(t *testing.T, table *connectors.Table) func() {
				pool, err := db.Open(db.Name, "") // its connections are not counted among those of the harness
				if err != nil {
					t.Fatal(err)
				}
				tx, err := pool.Begin()
				if err == nil {
					_, err = tx.Exec("SELECT * FROM " + tableName{h.name + "_" + table.Schema, table.Name}.ident() + " WHERE id = 1 FOR UPDATE")
				}
				if err != nil {
					t.Fatal(err)
				}
				return func() {
					if err := errors.Join(tx.Rollback(), pool.Close()); err != nil {
						t.Error(err)
					}
				}
			},
			Refuse: func(t *testing.T, table *connectors.Table) {
				target := tableName{h.name + "_" + table.Schema, table.Name}
				if strings.Contains(h.server.Version(), "MariaDB") {
					h.exec("ALTER TABLE " + target.ident() + " ADD CHECK (name <> 'bad')")
					return
				}
				for _, event := range []string{"INSERT", "UPDATE"} { // MySQL 5.6 reads CHECK and forgets it
					h.exec("CREATE TRIGGER " + ident(target.schema) + ".refuse_" + event + " BEFORE " + event + " ON " + target.ident() +
						" FOR EACH ROW IF NEW.name = 'bad' THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no'; END IF")
				}
			},
		}
	}})
}

// showsInMySQL: a boolean is a number there, a time has six digits, an instant no zone, and nothing is infinite.
func showsInMySQL(v connectors.Value) (string, bool) {
	text := string(v.AppendText(nil))
	switch v.Kind() {
	case connectors.Bool:
		return map[string]string{"true": "1", "false": "0"}[text], true
	case connectors.Float:
		return text, isNumber(v.Data())
	case connectors.Time:
		return text + "00000", true
	case connectors.TimestampTZ:
		return strings.TrimSuffix(text, "Z"), true
	}
	return text, true
}

// rows reads a table back, in canonical form.
func (h *harness) rows(n tableName) []conformance.Row {
	h.t.Helper()
	e, err := h.config.address().endpoint()
	if err != nil {
		h.t.Fatal(err)
	}
	pool, err := e.pool()
	if err != nil {
		h.t.Fatal(err)
	}
	defer pool.Close()
	c := &catalog{db: pool, config: &SourceConfig{}, maria: strings.Contains(h.server.Version(), "MariaDB")}
	def, err := c.table(context.Background(), n)
	if err != nil {
		h.t.Fatal(err)
	}
	if def == nil {
		return nil
	}
	shape, err := newShape(n, def, &connectors.TableSpec{}, &charsets{db: pool})
	if err != nil {
		h.t.Fatal(err)
	}
	conn, err := e.dial(context.Background())
	if err != nil {
		h.t.Fatal(err)
	}
	r := newReader(conn)
	defer r.close()
	var list []conformance.Row
	k := &task{table: &snapshotTable{name: n, shape: shape}}
	err = r.each(context.Background(), k.statement(nil, 0), func(row [][]byte) error {
		out := conformance.Row{}
		for i, text := range row {
			if text != nil {
				out[def.Columns[i].Name] = string(shape.decoders[i].text(&rows{}, text).AppendText(nil))
			}
		}
		list = append(list, out)
		return nil
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return list
}
