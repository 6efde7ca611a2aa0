package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	"github.com/jackc/pgx/v5"
)

// transaction is the size of the transactions of the workload, in rows.
const transaction = 1000

// cdcSource is a source that drains a slot and reads nothing else.
func (w *world) cdcSource(slot, snapshot string) string {
	return fmt.Sprintf("  bench:\n    type: postgres\n    dsn: %q\n    mode: cdc\n    tables: [public.orders]\n    snapshot: %s\n    slot: %s\n    publication: bench\n",
		w.server.DSN("bench"), snapshot, slot)
}

func capture(ctx context.Context, w *world) error {
	for _, part := range []func(context.Context, *world) error{slot, binlog, extract} {
		if err := part(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

func slot(ctx context.Context, w *world) error {
	return w.drain(ctx, result{what: "PostgreSQL slot, transactions of 1,000", peer: "pg_recvlogical", aim: "1.5"}, "small", transaction)
}

func slotBig(ctx context.Context, w *world) error {
	return w.drain(ctx, result{what: "PostgreSQL slot, one transaction", peer: "pg_recvlogical", aim: "0.9 of slot"}, "large", 0)
}

func (w *world) drain(ctx context.Context, r result, slot string, size int) error {
	if err := w.fill(ctx, slot, size); err != nil {
		return err
	}
	var end string
	if err := w.db.QueryRow(ctx, "SELECT pg_current_wal_lsn()::text").Scan(&end); err != nil {
		return fmt.Errorf("ask for the end of the WAL: %w", err)
	}
	theirs := func() (sample, error) { return w.recvlogical(ctx, slot, end) }
	ours := func() (sample, error) { return w.drainOnce(ctx, slot) }
	if err := w.pairs(r, ours, theirs); err != nil {
		return err
	}
	return w.dropSlot(ctx, slot)
}

// recvlogical times the reference reader on a copy of the slot.
func (w *world) recvlogical(ctx context.Context, slot, end string) (sample, error) {
	name, err := w.copySlot(ctx, slot)
	if err != nil {
		return sample{}, err
	}
	defer w.dropSlot(ctx, name)
	tool, err := w.server.Binaries().Tool("pg_recvlogical")
	if err != nil {
		return sample{}, err
	}
	return timed(exec.CommandContext(ctx, tool, "-d", w.server.DSN("bench"), "--slot", name, "--start", "--no-loop", "--endpos", end,
		"-o", "proto_version=1", "-o", "publication_names=bench", "-f", os.DevNull), w.Rows)
}

// drainOnce times run --once on a copy of the slot, and checks that every row is in the log.
func (w *world) drainOnce(ctx context.Context, slot string) (sample, error) {
	name, err := w.copySlot(ctx, slot)
	if err != nil {
		return sample{}, err
	}
	defer w.dropSlot(ctx, name)
	dir, err := w.newDir("capture")
	if err != nil {
		return sample{}, err
	}
	defer os.RemoveAll(dir)
	config, err := w.configure(dir, w.cdcSource(name, "never"), "")
	if err != nil {
		return sample{}, err
	}
	return w.counted(ctx, config, "run", "--once", "-f", config)
}

// counted runs the program and fails unless the log holds each row once.
func (w *world) counted(ctx context.Context, config string, args ...string) (sample, error) {
	return w.countedIn(ctx, "bench.public.orders", config, args...)
}

func (w *world) countedIn(ctx context.Context, topic, config string, args ...string) (sample, error) {
	s, err := w.trunkline(ctx, w.Rows, args...)
	if err != nil {
		return s, err
	}
	n, err := w.records(ctx, config, topic)
	if err != nil {
		return s, err
	}
	if n != w.Rows {
		return s, fmt.Errorf("the log holds %d records for %d rows", n, w.Rows)
	}
	return s, nil
}

func snapshot(ctx context.Context, w *world) error {
	if err := w.fill(ctx, "unused", transaction); err != nil {
		return err
	}
	if err := w.dropSlot(ctx, "unused"); err != nil {
		return err
	}
	psql, err := w.server.Binaries().Tool("psql")
	if err != nil {
		return err
	}
	theirs := func() (sample, error) {
		return timed(exec.CommandContext(ctx, psql, "-X", "-d", w.server.DSN("bench"), "-c", "COPY (SELECT * FROM orders) TO STDOUT"), w.Rows)
	}
	round := 0
	ours := func() (sample, error) {
		round++
		dir, err := w.newDir("snapshot")
		if err != nil {
			return sample{}, err
		}
		defer os.RemoveAll(dir)
		slot := fmt.Sprintf("snapshot_%d", round)
		defer w.dropSlot(ctx, slot)
		config, err := w.configure(dir, w.cdcSource(slot, "only"), "")
		if err != nil {
			return sample{}, err
		}
		return w.counted(ctx, config, "run", "--once", "-f", config)
	}
	return w.pairs(result{what: "snapshot", peer: "psql COPY", aim: "0.9"}, ours, theirs)
}

// connect opens one more connection to the benchmark's database.
func (w *world) connect(ctx context.Context) (*pgx.Conn, error) {
	conn, err := pgx.Connect(ctx, w.server.DSN("bench"))
	if err != nil {
		return nil, fmt.Errorf("connect to the private server: %w", err)
	}
	return conn, nil
}
