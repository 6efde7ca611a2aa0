package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
)

// batchRows is the size of a batch on both sides of the comparison.
const batchRows = 5000

// sink is a sink into the same server, in a schema of its own.
func (w *world) sink(write string) string {
	return fmt.Sprintf("  target:\n    type: postgres\n    dsn: %q\n    topics: [bench.public.orders]\n    table: \"target.orders\"\n    write: %s\n    batch: {rows: %d}\n",
		w.server.DSN("bench"), write, batchRows)
}

// deliver fills a log once and empties it into a fresh table each round.
func deliver(ctx context.Context, w *world) error {
	dir, err := w.newDir("deliver")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := w.fill(ctx, "deliver", transaction); err != nil {
		return err
	}
	config, err := w.configure(dir, w.cdcSource("deliver", "never"), "")
	if err != nil {
		return err
	}
	if _, err := w.counted(ctx, config, "run", "--once", "-f", config); err != nil {
		return err
	}
	if err := w.dropSlot(ctx, "deliver"); err != nil {
		return err
	}
	batches, err := w.copyBatches(ctx)
	if err != nil {
		return err
	}
	for _, r := range []struct {
		result
		write  string
		theirs func(context.Context, [][]byte) (sample, error)
	}{
		{result{what: "deliver, upsert", peer: "temp table, ON CONFLICT", aim: "0.9"}, "upsert", w.bareUpsert},
		{result{what: "deliver, append", peer: "COPY", aim: "0.9"}, "append", w.bareCopy},
	} {
		round := 0
		ours := func() (sample, error) {
			round++
			return w.deliverOnce(ctx, dir, r.write, fmt.Sprintf("%s%d", r.write, round))
		}
		if err := w.pairs(r.result, ours, func() (sample, error) { return r.theirs(ctx, batches) }); err != nil {
			return err
		}
	}
	return nil
}

// deliverOnce empties the log in dir into a fresh table, as a consumer group of its own.
func (w *world) deliverOnce(ctx context.Context, dir, write, group string) (sample, error) {
	if err := w.freshTarget(ctx, write == "upsert"); err != nil {
		return sample{}, err
	}
	config, err := w.configure(dir, "", w.sink(write)+"    group: "+group+"\n")
	if err != nil {
		return sample{}, err
	}
	s, err := w.trunkline(ctx, w.Rows, "run", "--once", "-f", config)
	if err != nil {
		return s, err
	}
	return s, w.checkTarget(ctx)
}

func (w *world) freshTarget(ctx context.Context, keyed bool) error {
	create := "CREATE TABLE target.orders " + ordersTable
	if !keyed {
		create = "CREATE TABLE target.orders (LIKE orders)"
	}
	return w.exec(ctx, "DROP TABLE IF EXISTS _trunkline_offsets", "DROP SCHEMA IF EXISTS target CASCADE", "CREATE SCHEMA target", create, "CHECKPOINT")
}

func (w *world) checkTarget(ctx context.Context) error {
	var n int
	if err := w.db.QueryRow(ctx, "SELECT count(*) FROM target.orders").Scan(&n); err != nil {
		return fmt.Errorf("count the target: %w", err)
	}
	if n != w.Rows {
		return fmt.Errorf("the target holds %d rows of %d", n, w.Rows)
	}
	return nil
}

// copyBatches returns all rows as COPY text, ready in memory, cut into batches.
func (w *world) copyBatches(ctx context.Context) ([][]byte, error) {
	var all bytes.Buffer
	if _, err := w.db.PgConn().CopyTo(ctx, &all, "COPY (SELECT * FROM orders ORDER BY id) TO STDOUT"); err != nil {
		return nil, fmt.Errorf("read the rows: %w", err)
	}
	var batches [][]byte
	rest := all.Bytes()
	for len(rest) > 0 {
		n := 0
		for range batchRows {
			i := bytes.IndexByte(rest[n:], '\n')
			if i < 0 {
				break
			}
			n += i + 1
		}
		batches = append(batches, rest[:n])
		rest = rest[n:]
	}
	return batches, nil
}

// bareUpsert is the bare form of what a sink does: COPY into a temporary table, one INSERT … ON CONFLICT, commit.
func (w *world) bareUpsert(ctx context.Context, batches [][]byte) (sample, error) {
	const merge = `INSERT INTO target.orders SELECT * FROM staged ON CONFLICT (id) DO UPDATE SET customer_id = excluded.customer_id, status = excluded.status,
	  amount = excluded.amount, note = excluded.note, created_at = excluded.created_at, updated_at = excluded.updated_at`
	return w.bare(ctx, true, batches, func(conn *pgx.Conn, batch []byte) error {
		if _, err := conn.PgConn().CopyFrom(ctx, bytes.NewReader(batch), "COPY staged FROM STDIN"); err != nil {
			return err
		}
		_, err := conn.Exec(ctx, merge)
		return err
	})
}

func (w *world) bareCopy(ctx context.Context, batches [][]byte) (sample, error) {
	return w.bare(ctx, false, batches, func(conn *pgx.Conn, batch []byte) error {
		_, err := conn.PgConn().CopyFrom(ctx, bytes.NewReader(batch), "COPY target.orders FROM STDIN")
		return err
	})
}

// bare times one write for each batch, each in a transaction of its own.
func (w *world) bare(ctx context.Context, keyed bool, batches [][]byte, write func(*pgx.Conn, []byte) error) (sample, error) {
	if err := w.freshTarget(ctx, keyed); err != nil {
		return sample{}, err
	}
	conn, err := w.connect(ctx)
	if err != nil {
		return sample{}, err
	}
	defer conn.Close(ctx)
	start := time.Now()
	if _, err := conn.Exec(ctx, "CREATE TEMPORARY TABLE staged (LIKE orders) ON COMMIT DELETE ROWS"); err != nil {
		return sample{}, fmt.Errorf("create the temporary table: %w", err)
	}
	for _, batch := range batches {
		err := pgx.BeginFunc(ctx, conn, func(pgx.Tx) error { return write(conn, batch) })
		if err != nil {
			return sample{}, fmt.Errorf("write a batch: %w", err)
		}
	}
	s := sample{rows: w.Rows, wall: time.Since(start)}
	return s, w.checkTarget(ctx)
}

// line times slot to keyed table in one process, beside the bare upsert of the same rows.
func line(ctx context.Context, w *world) error {
	if err := w.fill(ctx, "line", transaction); err != nil {
		return err
	}
	batches, err := w.copyBatches(ctx)
	if err != nil {
		return err
	}
	ours := func() (sample, error) {
		slot, err := w.copySlot(ctx, "line")
		if err != nil {
			return sample{}, err
		}
		defer w.dropSlot(ctx, slot)
		if err := w.freshTarget(ctx, true); err != nil {
			return sample{}, err
		}
		dir, err := w.newDir("line")
		if err != nil {
			return sample{}, err
		}
		defer os.RemoveAll(dir)
		config, err := w.configure(dir, w.cdcSource(slot, "never"), w.sink("upsert"))
		if err != nil {
			return sample{}, err
		}
		s, err := w.trunkline(ctx, w.Rows, "run", "--once", "-f", config)
		if err != nil {
			return s, err
		}
		return s, w.checkTarget(ctx)
	}
	err = w.pairs(result{what: "line, slot to keyed table", peer: "temp table, ON CONFLICT", aim: "0.7"}, ours,
		func() (sample, error) { return w.bareUpsert(ctx, batches) })
	if err != nil {
		return err
	}
	return w.dropSlot(ctx, "line")
}
