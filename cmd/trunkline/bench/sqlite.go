package bench

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"path/filepath"

	"modernc.org/sqlite"
)

// sqliteFile opens connections without the driver's global registration.
type sqliteFile string

func (f sqliteFile) Connect(context.Context) (driver.Conn, error) { return f.Driver().Open(string(f)) }

func (f sqliteFile) Driver() driver.Driver { return &sqlite.Driver{} }

// extractSQLite makes a file with the table orders.
func (w *world) extractSQLite(ctx context.Context) (*extracted, func(), error) {
	dir, err := w.newDir("sqlite")
	if err != nil {
		return nil, nil, err
	}
	path := filepath.Join(dir, "bench.db")
	db := sql.OpenDB(sqliteFile("file:" + path + "?_pragma=journal_mode(wal)&_pragma=synchronous(normal)&_pragma=busy_timeout(10000)"))
	db.SetMaxOpenConns(1)
	done := func() { db.Close() }
	exec := func(statements ...string) error {
		for _, s := range statements {
			if _, err := db.ExecContext(ctx, s); err != nil {
				return fmt.Errorf("prepare the benchmark: %w", err)
			}
		}
		return nil
	}
	if err := exec(`CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INT NOT NULL, status TEXT NOT NULL, amount DECIMAL(12,2) NOT NULL,
			note TEXT, created_at TIMESTAMP NOT NULL, updated_at TIMESTAMP NOT NULL)`,
		fmt.Sprintf(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) INSERT INTO orders SELECT i, i %% 50000,
			substr('new    paid   packed shipped', 1 + 7 * (i %% 4), 7), (i %% 100000) / 100.0, printf('%%016x%%016x%%016x%%016x%%016x', i, i * 7, i * 13, i * 31, i * 37),
			datetime('2020-01-01', '+' || i || ' seconds'), datetime('2020-01-01', '+' || i || ' seconds') || printf('.%%03d', i %% 1000) FROM n`, w.Rows),
		"CREATE INDEX orders_updated_at ON orders (updated_at, id)", "ANALYZE"); err != nil {
		done()
		return nil, nil, err
	}
	return &extracted{
		name: "SQLite", topic: "bench.main.orders",
		source: fmt.Sprintf("  bench:\n    type: sqlite\n    path: %q\n    tables: [{name: orders, cursor: updated_at}]\n", path),
		read: func(ctx context.Context, query string, rows int) (sample, error) {
			return selectFrom(ctx, db, query, rows)
		},
		touch: func(ctx context.Context, round int) (string, error) {
			at := fmt.Sprintf("'2022-01-%02d'", round)
			return "SELECT * FROM orders WHERE updated_at > " + at + " ORDER BY updated_at, id",
				exec("UPDATE orders SET updated_at = datetime(" + at + ", '+' || (id / 1000) || ' seconds') || printf('.%03d', id % 1000) WHERE id % 10 = 1")
		},
	}, done, nil
}
