package mysql

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/mysql/localserver"
)

const benchRows = 300_000

// BenchmarkCapture reads the same rows as a snapshot and from the binary log. The parser of go-mysql stands beside it in cmd/endtoend.
func BenchmarkCapture(b *testing.B) {
	server := localserver.StartForTest(b, localserver.Options{Unsafe: true})
	if _, err := server.CreateDatabase(b.Context(), "bench"); err != nil {
		b.Fatal(err)
	}
	db, err := server.Open("bench", "")
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	exec := func(statement string) {
		if _, err := db.Exec(statement); err != nil {
			b.Fatal(err)
		}
	}
	exec("CREATE TABLE row7 (id bigint PRIMARY KEY, n int, price decimal(10,2), name varchar(50), note text, at datetime(6), ok tinyint(1))")
	start, _, err := masterStatus(b.Context(), db)
	if err != nil {
		b.Fatal(err)
	}
	for from := 1; from < benchRows; from += 1000 {
		exec(fmt.Sprintf("INSERT INTO row7 SELECT seq, seq, seq / 7, CONCAT('name ', seq), CONCAT('a note that says something about row ', seq), NOW(6), seq %% 2 FROM seq_%d_to_%d", from, from+999))
	}
	exec("ANALYZE TABLE row7")
	config := DefaultSourceConfig()
	config.DSN = server.DSN("bench")
	config.Tables = []connectors.TableSpec{{Name: "bench.*"}}
	read := func(b *testing.B, config SourceConfig, from connectors.Position) {
		for b.Loop() {
			env := connectors.NewEnv("bench")
			env.Once = true
			s, err := newSource(b.Context(), config, env, from)
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
			s.Close(b.Context())
			if n != benchRows {
				b.Fatalf("%d rows", n)
			}
		}
		b.ReportMetric(float64(benchRows*b.N)/b.Elapsed().Seconds(), "rows/s")
	}
	b.Run("snapshot", func(b *testing.B) { c := config; c.Snapshot = snapshotOnly; read(b, c, nil) })
	b.Run("binlog", func(b *testing.B) {
		c := config
		c.GTID, c.Snapshot = gtidOff, snapshotNever
		p := &position{Server: 1, File: start.File, Pos: start.Pos}
		read(b, c, p.encode())
	})
}
