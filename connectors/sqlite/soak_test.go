package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
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
		return 3 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestSoakOfExtracts: four writers with transactions of random length, up to 5 s in the long form, and random rollbacks
// against an extract every second. After their end and one more run no row is missing, counted by key and value. SQLite has
// one writer at a time, so the others wait for the lock.
func TestSoakOfExtracts(t *testing.T) {
	t.Parallel()
	d := soakTime(t)
	f := newFile(t, "CREATE TABLE x (id INTEGER PRIMARY KEY AUTOINCREMENT, v TEXT NOT NULL, u TEXT NOT NULL)", "CREATE INDEX xu ON x (u)")
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var committed atomic.Int64
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() { committed.Add(f.write(ctx, w, min(d/20, 5*time.Second))) })
	}
	spec, env, got := connectors.TableSpec{Name: "x", Cursor: "u"}, connectors.NewEnv("shop"), map[string]string{}
	env.Limits.BatchRows = 20
	var at connectors.Position
	changes := 0
	read := func() {
		var lines []string
		lines, at = f.extract(t, env, at, spec)
		for _, line := range lines {
			parts := strings.SplitN(line, " ", 3)
			got[parts[1]] = parts[2]
			changes++
		}
	}
	for tick := time.NewTicker(min(d/20, time.Second)); ctx.Err() == nil; {
		read()
		select {
		case <-tick.C:
		case <-ctx.Done():
			tick.Stop()
		}
	}
	writers.Wait()
	read()
	want, _ := f.extract(t, env, nil, spec)
	for _, line := range want {
		parts := strings.SplitN(line, " ", 3)
		if got[parts[1]] != parts[2] {
			t.Errorf("row %s is %q, want %q", parts[1], got[parts[1]], parts[2])
		}
	}
	if len(want) != len(got) || committed.Load() == 0 {
		t.Errorf("%d rows, want %d; %d transactions were committed", len(got), len(want), committed.Load())
	}
	t.Logf("%d transactions, %d changes, %d rows", committed.Load(), changes, len(want))
}

var errRolledBack = errors.New("rolled back")

// write makes transactions until ctx ends, and returns how many were committed. One in five rolls back.
func (f *file) write(ctx context.Context, seed int, longest time.Duration) (committed int64) {
	random := rand.New(rand.NewPCG(uint64(seed), 1))
	db, err := open(ctx, &File{Path: f.path}, "_pragma=busy_timeout(60000)")
	if err != nil {
		return 0
	}
	defer db.close()
	for i := 0; ctx.Err() == nil; i++ {
		length, statements := time.Duration(random.Float64()*float64(longest)), 1+random.IntN(4)
		err := db.transact(ctx, func() error {
			for range statements {
				sql := "INSERT INTO x (v, u) VALUES ('new', strftime('%Y-%m-%d %H:%M:%f', 'now'))"
				if random.IntN(2) == 0 {
					sql = fmt.Sprintf("UPDATE x SET v = '%d %d', u = strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now') WHERE id = (SELECT id FROM x ORDER BY random() LIMIT 1)", seed, i)
				}
				if _, err := db.ExecContext(ctx, sql); err != nil {
					return err
				}
				if err := sleep(ctx, length/time.Duration(statements)); err != nil {
					return err
				}
			}
			if random.IntN(5) == 0 {
				return errRolledBack
			}
			return nil
		})
		if err == nil { // an error is a transaction that was not
			committed++
		}
	}
	return committed
}
