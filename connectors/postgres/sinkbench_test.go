package postgres

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/postgres/localserver"
)

// The measure: rows of about 160 bytes in batches of 5,000, each committed, fsync on, one connection. Only the time of
// the writes counts; rows of the sink and buffers of the reference are made between them.
const (
	deliverRows  = 250_000
	deliverBatch = 5_000
)

const deliverTable = `CREATE TABLE orders (id bigint PRIMARY KEY, customer_id int, status text, amount numeric(12,2), note text,
	created_at timestamptz, updated_at timestamptz)`

// deliverStep writes the batch that begins with this id and returns the time that the write took.
type deliverStep func(first int) time.Duration

// BenchmarkDeliver compares Sink.Write with the bare statements that a person would write by hand for the same work. The
// two take turns, batch by batch, so that what else runs on the machine hits both alike; ratio is the sink's rate by
// the reference's.
func BenchmarkDeliver(b *testing.B) {
	server := localserver.StartForTest(b, localserver.Options{Settings: map[string]string{"shared_buffers": "1GB", "max_wal_size": "20GB",
		"checkpoint_timeout": "1h", "autovacuum": "off", "wal_level": "logical"}})
	merge := func(b *testing.B, url string) deliverStep { return deliverBare(b, url, deliverMerge, true) }
	sink := func(op connectors.Op, write string) func(*testing.B, string) deliverStep {
		return func(b *testing.B, url string) deliverStep { return deliverSink(b, url, op, write) }
	}
	for _, c := range []struct {
		name   string
		filled bool // the targets have all the keys
		bare   func(b *testing.B, url string) deliverStep
		sink   func(b *testing.B, url string) deliverStep
	}{
		{"insert", false, merge, sink(connectors.Insert, writeUpsert)},
		{"update", true, merge, sink(connectors.Update, writeUpsert)},
		{"again", true, merge, sink(connectors.Insert, writeUpsert)},
		{"partial", true, merge, sink(connectors.Update, deliverPartial)},
		{"delete", true, deliverDeletes, sink(connectors.Delete, writeUpsert)},
		{"append", false, func(b *testing.B, url string) deliverStep { return deliverBare(b, url, "", false) }, sink(connectors.Insert, writeAppend)},
	} {
		b.Run(c.name, func(b *testing.B) {
			var bare, ours time.Duration
			for range b.N {
				bareURL, dropBare := deliverDatabase(b, server, c.filled)
				ourURL, dropOurs := deliverDatabase(b, server, c.filled)
				reference, sink := c.bare(b, bareURL), c.sink(b, ourURL)
				for first := 0; first < deliverRows; first += deliverBatch {
					bare += reference(first)
					ours += sink(first)
				}
				dropBare()
				dropOurs()
			}
			rows := float64(deliverRows) * float64(b.N)
			b.ReportMetric(rows/bare.Seconds(), "bare-rows/s")
			b.ReportMetric(rows/ours.Seconds(), "sink-rows/s")
			b.ReportMetric(bare.Seconds()/ours.Seconds(), "ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}

const deliverMerge = `INSERT INTO orders SELECT * FROM stage ON CONFLICT (id) DO UPDATE SET customer_id = excluded.customer_id, status = excluded.status,
	amount = excluded.amount, note = excluded.note, created_at = excluded.created_at, updated_at = excluded.updated_at`

func deliverDatabase(b *testing.B, server *localserver.Server, filled bool) (url string, drop func()) {
	b.Helper()
	ctx := context.Background()
	name := "bench" + strconv.FormatInt(time.Now().UnixNano(), 36)
	url, err := server.CreateDatabase(ctx, name)
	if err != nil {
		b.Fatal(err)
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, deliverTable); err != nil {
		b.Fatal(err)
	}
	if filled {
		var buffer []byte
		for id := range deliverRows {
			buffer = deliverLine(buffer, id)
		}
		if _, err := conn.PgConn().CopyFrom(ctx, bytes.NewReader(buffer), "COPY orders FROM STDIN"); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := conn.Exec(ctx, "CHECKPOINT"); err != nil {
		b.Fatal(err)
	}
	return url, func() {
		if err := server.DropDatabase(ctx, name); err != nil {
			b.Fatal(err)
		}
	}
}

// deliverFields appends the seven fields of an order, each ended by end.
func deliverFields(dst []byte, id int, end func([]byte) []byte) []byte {
	dst = end(strconv.AppendInt(dst, int64(id), 10))
	dst = end(strconv.AppendInt(dst, int64(id%10007), 10))
	dst = end(append(dst, []string{"new", "paid", "shipped", "returned"}[id%4]...))
	dst = end(fmt.Appendf(dst, "%d.%02d", id%100000, id%100))
	dst = end(fmt.Appendf(dst, "note %8d lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eius", id))
	dst = end(fmt.Appendf(dst, "2026-01-%02dT%02d:%02d:%02d.%06dZ", 1+id%28, id%24, id%60, id%59, id%1000000))
	return end(fmt.Appendf(dst, "2026-02-%02dT%02d:%02d:%02d.%06dZ", 1+id%28, id%24, id%60, id%59, id%1000000))
}

func deliverLine(dst []byte, id int) []byte {
	dst = deliverFields(dst, id, func(b []byte) []byte { return append(b, '\t') })
	dst[len(dst)-1] = '\n'
	return dst
}

// deliverBare copies prepared lines, into the target itself or into a temporary table that is merged.
func deliverBare(b *testing.B, url, merge string, stage bool) deliverStep {
	ctx := context.Background()
	conn := deliverConn(b, url)
	exec := func(sql string) {
		if _, err := conn.PgConn().Exec(ctx, sql).ReadAll(); err != nil {
			b.Fatal(err)
		}
	}
	into := "orders"
	if stage {
		into = "stage"
		exec("CREATE TEMP TABLE stage ON COMMIT DELETE ROWS AS SELECT * FROM orders WITH NO DATA")
	} else {
		exec("ALTER TABLE orders DROP CONSTRAINT orders_pkey")
	}
	var buffer []byte
	return func(first int) time.Duration {
		buffer = buffer[:0]
		for id := first; id < first+deliverBatch; id++ {
			buffer = deliverLine(buffer, id)
		}
		start := time.Now()
		exec("BEGIN")
		if _, err := conn.PgConn().CopyFrom(ctx, bytes.NewReader(buffer), "COPY "+into+" FROM STDIN"); err != nil {
			b.Fatal(err)
		}
		exec(merge + "; COMMIT")
		return time.Since(start)
	}
}

func deliverConn(b *testing.B, url string) *pgx.Conn {
	b.Helper()
	conn, err := pgx.Connect(context.Background(), url)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// deliverPartial is write: upsert for updates that do not carry the note.
const deliverPartial = "partial"

// deliverDeletes deletes by arrays of keys.
func deliverDeletes(b *testing.B, url string) deliverStep {
	conn := deliverConn(b, url)
	keys := make([]int64, deliverBatch)
	return func(first int) time.Duration {
		for i := range keys {
			keys[i] = int64(first + i)
		}
		start := time.Now()
		if _, err := conn.Exec(context.Background(), "DELETE FROM orders WHERE id = ANY($1)", keys); err != nil {
			b.Fatal(err)
		}
		return time.Since(start)
	}
}

// deliverSink writes the same rows through the sink.
func deliverSink(b *testing.B, url string, op connectors.Op, write string) deliverStep {
	ctx := context.Background()
	config := DefaultSinkConfig()
	partial := write == deliverPartial
	if partial {
		write = writeUpsert
	}
	config.DSN, config.Write = url, write
	if err := config.Validate(); err != nil {
		b.Fatal(err)
	}
	s, err := newSink(ctx, config, connectors.NewEnv("bench"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close(context.Background()) })
	if write == writeAppend {
		if _, err := s.exec(ctx, "ALTER TABLE public.orders DROP CONSTRAINT orders_pkey"); err != nil {
			b.Fatal(err)
		}
	}
	table := deliverSchema()
	if err := s.Migrate(ctx, connectors.Migration{To: table}); err != nil {
		b.Fatal(err)
	}
	changes := make([]connectors.Change, deliverBatch)
	values := make([]connectors.Value, deliverBatch*len(table.Columns))
	var arena []byte
	return func(first int) time.Duration {
		arena = arena[:0]
		for i := range changes {
			row := values[i*7 : i*7+7 : i*7+7]
			arena = deliverRow(arena, table, row, first+i)
			changes[i] = connectors.Change{Op: op, Table: table, After: row}
			if partial {
				row[4] = absent
			}
			if op == connectors.Delete {
				changes[i].Before, changes[i].After = row, nil
			}
		}
		position := strconv.AppendInt(nil, int64(first+deliverBatch), 10)
		start := time.Now()
		if err := s.Write(ctx, connectors.Batch{Stream: "shop.public.orders/0", Changes: changes, Position: position}); err != nil {
			b.Fatal(err)
		}
		return time.Since(start)
	}
}

// deliverRow fills row with the values of an order; their bytes are appended to arena.
func deliverRow(arena []byte, table *connectors.Table, row []connectors.Value, id int) []byte {
	i, start := 0, len(arena)
	return deliverFields(arena, id, func(b []byte) []byte {
		data := b[start:len(b):len(b)]
		row[i] = connectors.DataValue(table.Columns[i].Kind, data)
		if table.Columns[i].Kind == connectors.Int {
			n, _ := strconv.ParseInt(string(data), 10, 64)
			row[i] = connectors.IntValue(n)
		}
		i, start = i+1, len(b)
		return b
	})
}

func deliverSchema() *connectors.Table {
	t := tableOf("orders", 1, "id bigint", "customer_id integer", "status text", "amount numeric(12,2)", "note text",
		"created_at timestamp with time zone", "updated_at timestamp with time zone")
	t.Columns[5].Kind, t.Columns[6].Kind = connectors.TimestampTZ, connectors.TimestampTZ
	return t
}

// BenchmarkEncode is the cost of one row on its way into COPY, without a server.
func BenchmarkEncode(b *testing.B) {
	table := deliverSchema()
	r := &route{table: table, target: &target{}, soft: -1, marks: -1}
	row := make([]connectors.Value, len(table.Columns))
	deliverRow(nil, table, row, 123456)
	for i, oid := range []uint32{20, 23, 25, 1700, 25, 1184, 1184} {
		r.target.columns = append(r.target.columns, targetColumn{oid: oid, binary: binaryForms[oid]})
		r.columns = append(r.columns, i)
	}
	l := r.layout(row)
	b.Run("binary", func(b *testing.B) {
		b.ReportAllocs()
		var buffer []byte
		for b.Loop() {
			buffer, _ = appendBinaryRow(buffer[:0], r, l.places, row, false)
		}
		b.SetBytes(int64(len(buffer)))
	})
	b.Run("text", func(b *testing.B) {
		b.ReportAllocs()
		var buffer []byte
		var e textEncoder
		for b.Loop() {
			buffer, _ = e.appendRow(buffer[:0], r, l, row, false)
		}
		b.SetBytes(int64(len(buffer)))
	})
	b.Run("net", func(b *testing.B) {
		b.ReportAllocs()
		var n effect
		r.key = []int{0}
		changes := make([]connectors.Change, 0, deliverBatch)
		for i := range deliverBatch {
			row := append([]connectors.Value{connectors.IntValue(int64(i))}, row[1:]...)
			changes = append(changes, connectors.Change{Op: connectors.Insert, Table: table, After: row})
		}
		for b.Loop() {
			n.reset(r)
			for i := range changes {
				n.add(&changes[i], false)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*deliverBatch), "ns/row")
	})
}
