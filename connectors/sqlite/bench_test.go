package sqlite

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/trunkline/trunkline/connectors"
)

// BenchmarkSource reads rows of seven columns and about 200 bytes, by a time that is indexed.
func BenchmarkSource(b *testing.B) {
	const rows = 100_000
	f := &File{Path: filepath.Join(b.TempDir(), "b.db")}
	db, err := open(b.Context(), f)
	if err != nil {
		b.Fatal(err)
	}
	defer db.close() //nolint:errcheck // a benchmark
	for _, s := range []string{
		"CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT, n INTEGER, r REAL, d DECIMAL(10,2), v TEXT, u TIMESTAMP NOT NULL)",
		"CREATE INDEX t_u ON t (u)",
		"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < " + strconv.Itoa(rows) + ") " +
			"INSERT INTO t SELECT i, 'name ' || i, i*7, i/3.0, i/4.0, hex(randomblob(60)), datetime(1700000000 + i/10, 'unixepoch') FROM n",
	} {
		if _, err := db.ExecContext(b.Context(), s); err != nil {
			b.Fatal(err)
		}
	}
	env := connectors.NewEnv("b")
	env.Once = true
	c := &SourceConfig{File: *f, Mode: "timestamp", Poll: 1, Tables: []connectors.TableSpec{{Name: "t", Cursor: "u"}}}
	for b.Loop() {
		s, err := openSource(b.Context(), c, env, nil)
		if err != nil {
			b.Fatal(err)
		}
		n := 0
		for {
			batch, err := s.Read(b.Context())
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				b.Fatal(err)
			}
			n += len(batch.Changes)
		}
		if n != rows {
			b.Fatalf("%d rows", n)
		}
		if err := s.Close(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
}

// BenchmarkSink upserts batches of 5,000 rows by key.
func BenchmarkSink(b *testing.B) {
	t := &connectors.Table{Schema: "s", Name: "t", Key: []int{0}, Columns: []connectors.Column{{Name: "id", Kind: connectors.Int}}}
	for i := range 6 {
		t.Columns = append(t.Columns, connectors.Column{Name: "c" + strconv.Itoa(i), Kind: connectors.Text})
	}
	text := connectors.DataValue(connectors.Text, []byte(strings.Repeat("x", 30)))
	changes := make([]connectors.Change, 5000)
	s, err := openSink(b.Context(), &SinkConfig{File: File{Path: filepath.Join(b.TempDir(), "b.db")}, Table: "{table}", Write: Upsert, Deletes: ApplyDeletes, Schema: connectors.FollowAll(connectors.Evolve)}, connectors.NewEnv("b"))
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close(context.Background()) //nolint:errcheck // a benchmark
	id := int64(0)
	for b.Loop() {
		for i := range changes {
			id++
			changes[i] = connectors.Change{Op: connectors.Insert, Table: t, After: []connectors.Value{connectors.IntValue(id), text, text, text, text, text, text}}
		}
		if err := s.Write(b.Context(), connectors.Batch{Stream: "t/0", Changes: changes, Position: connectors.Position("1")}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/5000, "ns/row")
}
