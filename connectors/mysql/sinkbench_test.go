package mysql

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/mysql/localserver"
)

// BenchmarkSink writes the same rows with the sink, and with LOAD DATA into a table that has its upsert's effect (REPLACE),
// each in transactions of as many rows. LOAD DATA LOCAL turns refused rows into warnings, and REPLACE deletes what it replaces,
// so it could not take the sink's place anyway.
func BenchmarkSink(b *testing.B) {
	const perBatch = 5000
	server := localserver.StartForTest(b, localserver.Options{Unsafe: true, Settings: map[string]string{"local-infile": "1"}})
	if _, err := server.CreateDatabase(b.Context(), "bench"); err != nil {
		b.Fatal(err)
	}
	table := &connectors.Table{Dialect: "mysql", Schema: "shop", Name: "row7", Key: []int{0}, Columns: []connectors.Column{
		{Name: "id", Type: "bigint", Kind: connectors.Int}, {Name: "n", Type: "int", Kind: connectors.Int}, {Name: "price", Type: "decimal(10,2)", Kind: connectors.Decimal},
		{Name: "name", Type: "varchar(50)", Kind: connectors.Text}, {Name: "note", Type: "text", Kind: connectors.Text}, {Name: "at", Type: "datetime(6)", Kind: connectors.Timestamp}, {Name: "ok", Type: "tinyint(1)", Kind: connectors.Int}}}
	text := func(kind connectors.Kind, format string, args ...any) connectors.Value {
		return connectors.DataValue(kind, fmt.Appendf(nil, format, args...))
	}
	batch := func(from int) []connectors.Change {
		var list []connectors.Change
		for id := from; id < from+perBatch; id++ {
			list = append(list, connectors.Change{Op: connectors.Insert, Table: table, Time: time.Now(), After: []connectors.Value{connectors.IntValue(int64(id)), connectors.IntValue(int64(id)),
				text(connectors.Decimal, "%d.50", id), text(connectors.Text, "name %d", id), text(connectors.Text, "a note that says something about row %d", id),
				text(connectors.Timestamp, "2026-01-30T12:34:56.123456"), connectors.IntValue(1)}})
		}
		return list
	}
	b.Run("sink", func(b *testing.B) {
		config := DefaultSinkConfig()
		config.DSN, config.Table = server.DSN("bench"), "bench.{table}"
		if err := config.Validate(); err != nil {
			b.Fatal(err)
		}
		s, err := newSink(b.Context(), config, connectors.NewEnv("bench"))
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close(context.Background())
		if _, err := s.Committed(b.Context(), "t/0"); err != nil {
			b.Fatal(err)
		}
		from := 0
		for b.Loop() {
			from += perBatch
			if err := s.Write(b.Context(), connectors.Batch{Stream: "t/0", Changes: batch(from), Position: fmt.Appendf(nil, "%d", from)}); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.N*perBatch)/b.Elapsed().Seconds(), "rows/s")
	})
	b.Run("load-data", func(b *testing.B) {
		db, err := server.Open("bench", "")
		if err != nil {
			b.Fatal(err)
		}
		defer db.Close()
		if _, err := db.Exec("CREATE TABLE loaded (id bigint PRIMARY KEY, n int, price decimal(10,2), name varchar(50), note text, at datetime(6), ok tinyint(1))"); err != nil {
			b.Fatal(err)
		}
		from := 0
		for b.Loop() {
			from += perBatch
			var lines bytes.Buffer
			for _, c := range batch(from) {
				for i, v := range c.After {
					if i > 0 {
						lines.WriteByte('\t')
					}
					lines.Write(v.AppendText(nil))
				}
				lines.WriteByte('\n')
			}
			driver.RegisterReaderHandler("rows", func() io.Reader { return &lines })
			if _, err := db.Exec("LOAD DATA LOCAL INFILE 'Reader::rows' REPLACE INTO TABLE loaded CHARACTER SET utf8mb4"); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.N*perBatch)/b.Elapsed().Seconds(), "rows/s")
	})
}
