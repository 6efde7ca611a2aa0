package bench

import (
	"context"
	"fmt"
	"testing"
)

// TestPeersDoTheWorkOfTheBenchmark runs the reference side of every comparison on a small table.
func TestPeersDoTheWorkOfTheBenchmark(t *testing.T) {
	ctx := context.Background()
	w, err := open(ctx, Options{Rows: 12_000, Rounds: 1, Out: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	if err := w.fill(ctx, "base", transaction); err != nil {
		t.Fatal(err)
	}
	var end string
	if err := w.db.QueryRow(ctx, "SELECT pg_current_wal_lsn()::text").Scan(&end); err != nil {
		t.Fatal(err)
	}
	if _, err := w.recvlogical(ctx, "base", end); err != nil {
		t.Error(err)
	}
	batches, err := w.copyBatches(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(len(batches)); got != "3" {
		t.Errorf("%s batches of 5,000 for 12,000 rows", got)
	}
	if _, err := w.bareUpsert(ctx, batches); err != nil {
		t.Error(err)
	}
	if _, err := w.bareCopy(ctx, batches); err != nil {
		t.Error(err)
	}
}

// TestExtractsAreMeasuredOnTheSameRows runs the reference side of the binary log and of the extracts on a small table.
func TestExtractsAreMeasuredOnTheSameRows(t *testing.T) {
	ctx := context.Background()
	w, err := open(ctx, Options{Rows: 4000, Rounds: 1, Out: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	m, err := w.openMaria(ctx)
	if err != nil || m == nil {
		t.Fatalf("no MariaDB: %v %v", err, w.notes)
	}
	start, err := m.end(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, open := range []func(context.Context) (*extracted, func(), error){w.extractPostgres, w.extractMaria, w.extractSQLite} {
		e, done, err := open(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer done()
		if _, err := e.read(ctx, "SELECT * FROM orders", w.Rows); err != nil {
			t.Errorf("%s: %v", e.name, err)
		}
		query, err := e.touch(ctx, 1)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.read(ctx, query, w.Rows/10); err != nil {
			t.Errorf("%s, a tenth: %v", e.name, err)
		}
	}
	if _, err := m.parse(ctx, start, w.Rows); err != nil {
		t.Error(err)
	}
}
