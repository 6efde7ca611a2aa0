package postgres

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/conformance"
	"github.com/trunkline/trunkline/connectors/postgres/localserver"
)

func TestSourceConformance(t *testing.T) {
	conformance.RunSource(t, conformance.SourceCase{New: func(t *testing.T) conformance.SourceSystem {
		db := localserver.ForTest(t)
		exec := func(t *testing.T, sql string) {
			t.Helper()
			conn, err := pgx.Connect(context.Background(), db.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(context.Background())
			if _, err := conn.Exec(context.Background(), sql); err != nil {
				t.Fatal(err)
			}
		}
		exec(t, `CREATE TABLE t (id int PRIMARY KEY, v text)`)
		config := DefaultSourceConfig()
		config.DSN, config.Slot, config.Tables = db.URL, db.Name, []connectors.TableSpec{{Name: "public.t"}}
		return conformance.SourceSystem{
			Table: "public.t",
			Open: func(ctx context.Context, env connectors.Env, from connectors.Position) (connectors.Source, error) {
				return newSource(ctx, config, env, from)
			},
			Insert: func(t *testing.T, ids ...int) {
				var rows []string
				for _, id := range ids {
					rows = append(rows, fmt.Sprintf("(%d, 'v%d')", id, id))
				}
				exec(t, "INSERT INTO t VALUES "+strings.Join(rows, ", "))
			},
			Update: func(t *testing.T, id int, value string) {
				exec(t, fmt.Sprintf("UPDATE t SET v = '%s' WHERE id = %d", value, id))
			},
			Delete: func(t *testing.T, id int) { exec(t, fmt.Sprintf("DELETE FROM t WHERE id = %d", id)) },
		}
	}})
}
