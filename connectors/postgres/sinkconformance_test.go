package postgres

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/conformance"
	"github.com/trunkline/trunkline/connectors/postgres/localserver"
)

// TestSinkConformance runs by itself: the suite counts goroutines.
func TestSinkConformance(t *testing.T) {
	conformance.RunSink(t, conformance.SinkCase{Wide: 1000, New: func(t *testing.T) conformance.SinkSystem {
		url := localserver.ForTest(t).URL
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close(context.Background()) })
		st := &sinkTest{T: t, url: url, conn: conn}
		st.exec("SET timezone = 'UTC'")
		open, err := openSink(func(into any) error {
			config := into.(*SinkConfig)
			config.DSN = url
			return config.Validate()
		})
		if err != nil {
			t.Fatal(err)
		}
		return conformance.SinkSystem{
			Open: func(ctx context.Context, env connectors.Env) (connectors.Sink, error) {
				s, err := open(ctx, env)
				if err == nil {
					_, err = s.(*Sink).conn.Exec(ctx, "SET lock_timeout = 300")
				}
				return s, err
			},
			Rows: st.rows,
			Busy: func(_ *testing.T, table *connectors.Table) func() {
				st.exec("BEGIN; SELECT * FROM " + qualified(table.Schema, table.Name) + " WHERE id = 1 FOR UPDATE")
				return func() { st.exec("ROLLBACK") }
			},
			Refuse: func(t *testing.T, table *connectors.Table) {
				st.exec("ALTER TABLE " + qualified(table.Schema, table.Name) + " ADD CHECK (name <> 'bad')")
			},
		}
	}})
}

// rows reads a table back, in canonical form.
func (t *sinkTest) rows(_ *testing.T, table *connectors.Table) []conformance.Row {
	t.Helper()
	name := qualified(table.Schema, table.Name)
	if t.query("SELECT to_regclass("+literal(name)+") IS NULL") == "t" {
		return nil
	}
	results, err := t.conn.PgConn().Exec(context.Background(), "SELECT * FROM "+name).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var list []conformance.Row
	for _, fields := range results[0].Rows {
		out, arena := conformance.Row{}, &rows{}
		for i, f := range fields {
			column := results[0].FieldDescriptions[i]
			d := builtin[column.DataTypeOID]
			if d == nil {
				d = textDecoder
			}
			if f != nil {
				out[column.Name] = string(d.value(arena, f).AppendText(nil))
			}
		}
		list = append(list, out)
	}
	return list
}
