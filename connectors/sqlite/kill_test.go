package sqlite

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/conformance"
)

func TestMain(m *testing.M) {
	conformance.RunVictim(openVictim)
	os.Exit(m.Run())
}

// openVictim opens a sink that writes to a table without a key, in which a row that is written twice stands twice.
func openVictim(ctx context.Context, args []string) (conformance.Promiser, error) {
	s, err := openSink(ctx, &SinkConfig{File: File{Path: args[0]}, Table: "{table}", Write: Upsert, Deletes: ApplyDeletes, Schema: connectors.FollowAll(connectors.Evolve)}, connectors.NewEnv("target"))
	table := newPairs()
	return conformance.Promiser{Sink: s, Stream: "pair/0", Batch: func(first, count int64) connectors.Batch {
		var changes []connectors.Change
		for n := first; n < first+count; n++ {
			changes = append(changes, connectors.Change{Op: connectors.Insert, Table: table, Offset: n, After: pair(n, "x")})
		}
		return connectors.Batch{Stream: "pair/0", Changes: changes, Position: strconv.AppendInt(nil, first+count, 10)}
	}}, err
}

func TestKill(t *testing.T) {
	t.Parallel()
	t.Run("every row that was promised is there once", func(t *testing.T) {
		t.Parallel()
		f := newFile(t)
		promised := int64(0)
		for round := range 5 {
			promised = conformance.KillVictim(t, promised+200, nil, f.path)
			var rows, different, last int64
			err := f.db.QueryRowContext(t.Context(), "SELECT count(*), count(DISTINCT a), max(a) FROM pair").Scan(&rows, &different, &last)
			if err != nil {
				t.Fatal(err)
			}
			if rows != different || rows != last+1 || rows < promised {
				t.Fatalf("round %d: %d rows, %d different, the last is %d, %d were promised", round, rows, different, last, promised)
			}
		}
	})
}

func TestMissingFile(t *testing.T) {
	t.Parallel()
	c := &SourceConfig{File: File{Path: t.TempDir() + "/gone.db"}, Tables: []connectors.TableSpec{{Name: "*"}}}
	if _, err := openSource(t.Context(), c, connectors.NewEnv("shop"), nil); err == nil || !strings.Contains(err.Error(), c.Path+": it does not exist") {
		t.Errorf("open: %v", err)
	}
	if _, err := os.Stat(c.Path); err == nil {
		t.Error("the source made the file")
	}
}
