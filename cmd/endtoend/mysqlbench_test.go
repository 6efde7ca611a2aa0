package endtoend

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"syscall"
	"testing"
	"time"

	wire "github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/mysql"
	"github.com/trunkline/trunkline/connectors/mysql/localserver"
	"github.com/trunkline/trunkline/log/disk"
	"github.com/trunkline/trunkline/pipeline/codec"
	"github.com/trunkline/trunkline/pipeline/ingest"
)

const (
	binlogRows        = 300_000
	binlogTransaction = 1000
)

// BenchmarkBinlogIntoLog carries rows of MariaDB's binary log into the durable log, and lets go-mysql's own parser decode the
// same ones, in turn, so that one machine at one time says both. vs-parser is the one rate divided by the other.
func BenchmarkBinlogIntoLog(b *testing.B) {
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
		b.Helper()
		if _, err := db.Exec(statement); err != nil {
			b.Fatal(err)
		}
	}
	exec("CREATE TABLE row7 (id bigint PRIMARY KEY, n int, price decimal(10,2), name varchar(50), note text, at datetime(6), ok tinyint(1))")
	var file string
	var pos uint32
	var none any
	if err := db.QueryRow("SHOW MASTER STATUS").Scan(&file, &pos, &none, &none); err != nil {
		b.Fatal(err)
	}
	config := mysql.DefaultSourceConfig()
	config.DSN, config.Snapshot, config.Tables = server.DSN("bench"), "never", []connectors.TableSpec{{Name: "bench.*"}}
	open, err := mysql.Connector().Source(func(into any) error {
		reflect.ValueOf(into).Elem().Set(reflect.ValueOf(config))
		return config.Validate()
	})
	if err != nil {
		b.Fatal(err)
	}
	var logs []*ingest.Ingest
	for range 3 { // each begins before the rows are written
		l, err := disk.Open(b.TempDir(), disk.Options{})
		if err != nil {
			b.Fatal(err)
		}
		defer l.Close()
		g, err := ingest.New(ingest.Options{Source: "bench", Connector: "mysql", Journal: l, Schemas: codec.NewSchemas(l), Open: open, Once: true, Dir: b.TempDir()})
		if err != nil {
			b.Fatal(err)
		}
		if err := g.Run(b.Context()); err != nil {
			b.Fatal(err)
		}
		logs = append(logs, g)
	}
	for from := 1; from < binlogRows; from += binlogTransaction {
		exec(fmt.Sprintf("INSERT INTO row7 SELECT seq, seq, seq / 7, CONCAT('name ', seq), CONCAT('a note that says something about row ', seq), NOW(6), seq %% 2 FROM seq_%d_to_%d", from, from+binlogTransaction-1))
	}
	b.ResetTimer()
	var ours, parser, oursCPU, parserCPU time.Duration
	for _, g := range logs {
		start, cpu := time.Now(), processTime(b)
		if err := g.Run(b.Context()); err != nil {
			b.Fatal(err)
		}
		ours += time.Since(start)
		oursCPU += processTime(b) - cpu
		if n := g.Status().Changes; n != binlogRows {
			b.Fatalf("%d changes, want %d", n, binlogRows)
		}
		start, cpu = time.Now(), processTime(b)
		parseBinlog(b, server.Port(), wire.Position{Name: file, Pos: pos})
		parser += time.Since(start)
		parserCPU += processTime(b) - cpu
	}
	b.ReportMetric(float64(len(logs)*binlogRows)/ours.Seconds(), "rows/s")
	b.ReportMetric(float64(len(logs)*binlogRows)/parser.Seconds(), "parser-rows/s")
	b.ReportMetric(float64(oursCPU.Nanoseconds())/float64(len(logs)*binlogRows), "cpu-ns/row")
	b.ReportMetric(float64(parserCPU.Nanoseconds())/float64(len(logs)*binlogRows), "parser-cpu-ns/row")
	b.ReportMetric(parser.Seconds()/ours.Seconds(), "vs-parser")
}

// processTime is the processor time that this process has had.
func processTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// parseBinlog lets the library's own parser decode every row.
func parseBinlog(b *testing.B, port int, from wire.Position) {
	b.Helper()
	syncer := replication.NewBinlogSyncer(replication.BinlogSyncerConfig{ServerID: 99, Flavor: "mariadb", Host: "127.0.0.1", Port: uint16(port), User: localserver.User,
		Logger: slog.New(slog.DiscardHandler)})
	defer syncer.Close()
	stream, err := syncer.StartSync(from)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	for n := 0; n < binlogRows; {
		e, err := stream.GetEvent(ctx)
		if err != nil {
			b.Fatal(err)
		}
		if rows, ok := e.Event.(*replication.RowsEvent); ok {
			n += len(rows.Rows)
		}
	}
}
