package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

// soakTime is short, unless TRUNKLINE_SOAK says how long.
func soakTime(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("TRUNKLINE_SOAK")
	if text == "" {
		return 4 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestSoakOfExtracts: four writers with transactions of random length, up to 5 s in the long form, and random rollbacks
// against an extract every second, which is closed and opened again and again. After their end and one more run no row is
// missing, counted by key and value.
func TestSoakOfExtracts(t *testing.T) {
	t.Parallel()
	for _, cursor := range []string{"updated_at", "seq"} {
		t.Run("by "+cursor, func(t *testing.T) {
			t.Parallel()
			h := extractHarness(t, extractServer(t), "soak_by_"+cursor, cursor,
				"CREATE TABLE x (seq bigint AUTO_INCREMENT PRIMARY KEY, v int, updated_at timestamp(6) NOT NULL DEFAULT NOW(6) ON UPDATE NOW(6), KEY (updated_at))")
			h.soak(soakTime(t), cursor == "updated_at")
			h.wantTable("x", "CONCAT(seq, ' ', v, ' ', REPLACE(updated_at - INTERVAL '5:30' HOUR_MINUTE, ' ', 'T'), 'Z')")
		})
	}
}

func (h *harness) soak(d time.Duration, updates bool) {
	h.config.Poll, h.env.Limits.BatchRows = min(d/20, time.Second), 50
	ctx, stop := context.WithTimeout(context.Background(), d)
	defer stop()
	var committed, undone atomic.Int64
	var writers sync.WaitGroup
	for range 4 {
		writers.Go(func() {
			for ctx.Err() == nil {
				if h.slowly(ctx, time.Duration(rand.Float64()*float64(min(d/4, 5*time.Second))), updates) {
					committed.Add(1)
				} else {
					undone.Add(1)
				}
			}
		})
	}
	runs := 0
	for ctx.Err() == nil {
		h.openExtract() // as after a crash, from the last position
		until, cancel := context.WithTimeout(ctx, d/8)
		for {
			b, err := h.source.Read(until)
			if err != nil {
				break
			}
			for _, c := range b.Changes {
				c.After = connectors.CloneRow(c.After)
				h.changes = append(h.changes, c)
			}
			h.mark = append(connectors.Position(nil), b.Position...)
			runs++
		}
		cancel()
		h.close()
	}
	writers.Wait()
	h.extractOnce()
	if committed.Load() == 0 {
		h.t.Error("no transaction was committed")
	}
	h.t.Logf("%d transactions, %d rolled back, %d batches, %d changes", committed.Load(), undone.Load(), runs, len(h.changes))
}

// slowly makes one transaction of a length, and reports whether it was committed.
func (h *harness) slowly(ctx context.Context, length time.Duration, updates bool) bool {
	tx, err := h.pool.BeginTx(context.WithoutCancel(ctx), nil)
	if err != nil {
		return false
	}
	defer tx.Rollback() //nolint:errcheck // after a commit there is nothing to roll back
	statements := 1 + rand.IntN(4)
	for range statements {
		_, err = tx.Exec(fmt.Sprintf("INSERT INTO x (v) VALUES (%d)", rand.IntN(1000)))
		if err == nil && updates {
			err = h.touch(tx)
		}
		if err != nil { // a deadlock, or a lock that was waited for in vain
			return false
		}
		timer := time.NewTimer(length / time.Duration(statements))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
	return rand.IntN(5) > 0 && tx.Commit() == nil
}

// touch changes a row that is likely to be there.
func (h *harness) touch(tx *sql.Tx) error {
	_, err := tx.Exec(fmt.Sprintf("UPDATE x SET v = v + 1000 WHERE seq = %d", 1+rand.IntN(100)))
	return err
}
