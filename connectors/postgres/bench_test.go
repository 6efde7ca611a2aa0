package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/postgres/localserver"
)

const benchTable = `CREATE TABLE orders (id bigint PRIMARY KEY, customer int, status text, total numeric(12,2), created timestamptz, note text, paid boolean)`

const benchRow = `SELECT i, i %% 50000, (ARRAY['new','paid','shipped'])[1 + i %% 3], (i %% 100000) / 100.0, '2026-01-01'::timestamptz + i * interval '1 second', rpad(md5(i::text), 90, 'x'), i %% 2 = 0 FROM generate_series(%d, %d) i`

// benchShape is the table of the benchmarks as a relation message describes it.
func benchShape() *shape {
	s := &shape{table: &connectors.Table{Schema: "public", Name: "orders", Key: []int{0}}}
	for i, oid := range []uint32{20, 23, 25, 1700, 1184, 25, 16} {
		d := builtin[oid]
		if d == nil {
			d = textDecoder
		}
		s.decoders = append(s.decoders, d)
		s.index = append(s.index, i)
		s.identity = append(s.identity, i == 0)
		s.table.Columns = append(s.table.Columns, connectors.Column{Name: fmt.Sprintf("c%d", i), Kind: d.kind})
		s.streamed++
	}
	return s
}

func benchMessage() []byte {
	body := []byte{'N', 0, 7}
	for _, text := range []string{"1234567", "4711", "shipped", "1234.50", "2026-01-30 12:34:56.123456+00", "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890", "t"} {
		body = append(body, 't')
		body = binary.BigEndian.AppendUint32(body, uint32(len(text)))
		body = append(body, text...)
	}
	return body
}

// BenchmarkDecode decodes one insert of seven columns.
func BenchmarkDecode(b *testing.B) {
	shape, body := benchShape(), benchMessage()
	st := &stream{rows: &rows{}, tx: transaction{xid: 771}}
	at := time.Now()
	for range 5000 {
		readChange(msgInsert, body, st.rows, shape, at)
	}
	st.rows.reset()
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		if n++; n%5000 == 0 {
			st.rows.reset()
			st.stamp = stamp{}
		}
		change := readChange(msgInsert, body, st.rows, shape, at)
		change.Origin, change.Position = st.stampOf(lsn(n))
	}
}

func BenchmarkCopyRow(b *testing.B) {
	r := &copyReader{shape: benchShape(), limits: connectors.Limits{}.WithDefaults(), rows: &rows{}}
	r.full = func() error { r.rows.reset(); return nil }
	line := []byte("1234567\t4711\tshipped\t1234.50\t2026-01-30 12:34:56.123456+00\t0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890\tt\n")
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Write(line); err != nil {
			b.Fatal(err)
		}
	}
}

// cpu is what this process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// peak is the most memory that this process had resident, in bytes; 0 where the system does not tell.
func peak() (kib float64) {
	status, _ := os.ReadFile("/proc/self/status")
	if _, after, ok := strings.Cut(string(status), "VmHWM:"); ok {
		fmt.Sscan(after, &kib)
	}
	return kib * 1024
}

// benchSource makes a server with a million rows in the WAL of a slot and in the table, and opens the source on it.
func benchSource(b *testing.B, snapshot bool, transactions int) (*Source, int) {
	const rows = 1_000_000
	server := localserver.StartForTest(b, localserver.Options{Unsafe: true, Settings: map[string]string{"max_wal_size": "4GB", "shared_buffers": "256MB"}})
	conn, err := pgx.Connect(b.Context(), server.DSN("postgres"))
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close(b.Context())
	config := DefaultSourceConfig()
	config.DSN, config.Tables = server.DSN("postgres"), []connectors.TableSpec{{Name: "public.orders"}}
	env := connectors.NewEnv("bench")
	env.Dir, env.Once = b.TempDir(), true
	if _, err := conn.Exec(b.Context(), benchTable); err != nil {
		b.Fatal(err)
	}
	var mark connectors.Position
	if !snapshot {
		s, err := newSource(b.Context(), config, env, nil)
		if err != nil {
			b.Fatal(err)
		}
		mark, _ = readAll(b, s)
	}
	for i := range transactions {
		if _, err := conn.Exec(b.Context(), "INSERT INTO orders "+fmt.Sprintf(benchRow, i*(rows/transactions)+1, (i+1)*(rows/transactions))); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := conn.Exec(b.Context(), "CHECKPOINT"); err != nil {
		b.Fatal(err)
	}
	s, err := newSource(b.Context(), config, env, mark)
	if err != nil {
		b.Fatal(err)
	}
	return s, rows
}

// readAll reads to the end, and closes the source.
func readAll(b *testing.B, s *Source) (mark connectors.Position, n int) {
	for {
		batch, err := s.Read(b.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			b.Fatal(err)
		}
		n += len(batch.Changes)
		if batch.Position != nil {
			mark = batch.Position
			if err := s.Ack(b.Context(), mark); err != nil {
				b.Fatal(err)
			}
		}
	}
	s.Close(context.Background())
	return mark, n
}

// BenchmarkDrain drains a slot of a real server, or reads a snapshot.
func BenchmarkDrain(b *testing.B) {
	for name, test := range map[string]struct {
		snapshot     bool
		transactions int
	}{"snapshot": {true, 1}, "transactions of 1000": {false, 1000}, "one transaction": {false, 1}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				s, want := benchSource(b, test.snapshot, test.transactions)
				used, start := cpu(), time.Now()
				b.StartTimer()
				_, n := readAll(b, s)
				b.StopTimer()
				if n != want {
					b.Fatalf("%d rows, want %d", n, want)
				}
				b.ReportMetric(float64(n)/time.Since(start).Seconds(), "rows/s")
				b.ReportMetric(float64((cpu()-used).Nanoseconds())/float64(n)/1e3, "cpu-µs/row")
				b.ReportMetric(peak()/1e6, "MB-peak")
				b.StartTimer()
			}
		})
	}
}

// BenchmarkExtract reads a table by its cursor, and with the plain driver's SELECT, which makes Go values as a program would.
func BenchmarkExtract(b *testing.B) {
	const rows = 200_000
	db := localserver.ForTest(b)
	conn, err := pgx.Connect(b.Context(), db.URL)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close(context.Background())
	for _, s := range []string{benchTable, "INSERT INTO orders " + fmt.Sprintf(benchRow, 1, rows), "CREATE INDEX ON orders (created, id)", "VACUUM ANALYZE orders"} {
		if _, err := conn.Exec(b.Context(), s); err != nil {
			b.Fatal(err)
		}
	}
	config := DefaultSourceConfig()
	config.DSN, config.Mode, config.Tables = db.URL, modeTimestamp, []connectors.TableSpec{{Name: "public.orders", Cursor: "created"}}
	b.Run("extract", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			env := connectors.NewEnv("bench")
			env.Once, env.Dir = true, b.TempDir()
			s, err := newExtract(b.Context(), config, env, nil)
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
			if err := s.Close(b.Context()); err != nil || n != rows {
				b.Fatalf("%d rows, %v", n, err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
	})
	b.Run("driver", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			result, err := conn.Query(b.Context(), "SELECT * FROM orders")
			if err != nil {
				b.Fatal(err)
			}
			for result.Next() {
				if _, err := result.Values(); err != nil {
					b.Fatal(err)
				}
			}
			if err := result.Err(); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
	})
}
