package mysql

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	wire "github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/mysql/localserver"
)

const benchRows = 300_000

// BenchmarkCapture reads the same rows as a snapshot, from the binary log, and with go-mysql's own parser.
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
	end, _, err := masterStatus(b.Context(), db)
	if err != nil {
		b.Fatal(err)
	}
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
	b.Run("go-mysql", func(b *testing.B) {
		for b.Loop() {
			parse(b, server.Port(), start, end)
		}
		b.ReportMetric(float64(benchRows*b.N)/b.Elapsed().Seconds(), "rows/s")
	})
}

// parse lets the library's own parser decode every row.
func parse(b *testing.B, port int, start, end place) {
	syncer := replication.NewBinlogSyncer(replication.BinlogSyncerConfig{ServerID: 99, Flavor: "mariadb", Host: "127.0.0.1", Port: uint16(port), User: "root",
		Logger: slog.New(slog.DiscardHandler)})
	defer syncer.Close()
	stream, err := syncer.StartSync(wire.Position{Name: start.File, Pos: uint32(start.Pos)})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	for n := 0; n < benchRows; {
		e, err := stream.GetEvent(ctx)
		if err != nil {
			b.Fatal(err)
		}
		if rows, ok := e.Event.(*replication.RowsEvent); ok {
			n += len(rows.Rows)
		}
	}
}
