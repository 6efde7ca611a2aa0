package demo

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"iter"
	"math/rand/v2"
	"path/filepath"
	"time"

	"modernc.org/sqlite"
)

// sqliteShop is a shop in one SQLite file. Every row carries the time of its last change, which is what it is read by.
type sqliteShop struct {
	counter
	town string
	path string
	db   *sql.DB
	next int64 // order id
}

const sqliteSchema = `
PRAGMA journal_mode = wal;
CREATE TABLE %[1]s_customers (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, note TEXT, updated_at TEXT NOT NULL);
CREATE INDEX %[1]s_customers_updated ON %[1]s_customers (updated_at, id);
CREATE TABLE %[1]s_orders (id INTEGER PRIMARY KEY AUTOINCREMENT, customer_id INTEGER NOT NULL, item TEXT NOT NULL,
  cents INTEGER NOT NULL, status TEXT NOT NULL, updated_at TEXT NOT NULL);
CREATE INDEX %[1]s_orders_updated ON %[1]s_orders (updated_at, id);`

// sqliteNow is the moment of a change with a thousandth of a second.
const sqliteNow = `strftime('%Y-%m-%d %H:%M:%f', 'now')`

// openSQLite opens a file for the demo itself: writing the workload, or reading back a target.
func openSQLite(path string) *sql.DB {
	return sql.OpenDB(sqliteConnector("file:" + path + "?_pragma=busy_timeout(10000)&_txlock=immediate"))
}

// sqliteConnector is a data source name that opens without the driver's global registration.
type sqliteConnector string

func (c sqliteConnector) Connect(context.Context) (driver.Conn, error) {
	return c.Driver().Open(string(c))
}
func (c sqliteConnector) Driver() driver.Driver { return &sqlite.Driver{} }

// newSQLiteShop makes the file and opens the shop with a hundred customers.
func newSQLiteShop(ctx context.Context, dir, town string) (*sqliteShop, error) {
	path := filepath.Join(dir, town+".db")
	db := openSQLite(path)
	s := &sqliteShop{town: town, path: path, db: db}
	if _, err := db.ExecContext(ctx, fmt.Sprintf(sqliteSchema, town)); err != nil {
		return nil, fmt.Errorf("create the shop %s: %w", town, err)
	}
	for range 100 {
		if err := s.newCustomer(ctx, db); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *sqliteShop) name() string     { return s.town }
func (s *sqliteShop) describe() string { return "SQLite, new and changed rows read every 200ms" }
func (s *sqliteShop) tables() []string { return []string{s.town + "_customers", s.town + "_orders"} }
func (s *sqliteShop) close() error     { return s.db.Close() }

func (s *sqliteShop) source() string {
	return fmt.Sprintf(`  %[1]s:
    type: sqlite
    path: %[2]q
    mode: timestamp
    poll: 200ms
    tables:
      - {name: %[1]s_customers, cursor: updated_at}
      - {name: %[1]s_orders, cursor: updated_at}
`, s.town, s.path)
}

type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

func (s *sqliteShop) newCustomer(ctx context.Context, db execer) error {
	var note any
	if rand.IntN(3) == 0 {
		note = "likes the " + pick(goods) + "; \"asks\" for \\ and 🙂\nevery week"
	}
	_, err := db.ExecContext(ctx, "INSERT INTO "+s.town+"_customers (name, note, updated_at) VALUES (?, ?, "+sqliteNow+")",
		pick(firstNames)+" "+pick(lastNames), note)
	if err != nil {
		return fmt.Errorf("write to the shop %s: %w", s.town, err)
	}
	s.n.Add(1)
	return nil
}

func (s *sqliteShop) work(ctx context.Context) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := s.trade(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// trade is one transaction: some orders come in, one or two move on, now and then a customer appears.
func (s *sqliteShop) trade(ctx context.Context) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin in the shop %s: %w", s.town, err)
	}
	defer tx.Rollback()
	changed := int64(0)
	for range 1 + rand.IntN(4) {
		_, err := tx.ExecContext(ctx, "INSERT INTO "+s.town+"_orders (customer_id, item, cents, status, updated_at) VALUES (?, ?, ?, 'new', "+sqliteNow+")",
			1+rand.IntN(100), pick(goods), 100+rand.IntN(90000))
		if err != nil {
			return fmt.Errorf("write to the shop %s: %w", s.town, err)
		}
		s.next++
		changed++
	}
	for range 1 + rand.IntN(2) {
		_, err := tx.ExecContext(ctx, "UPDATE "+s.town+"_orders SET status = ?, updated_at = "+sqliteNow+" WHERE id = ?",
			pick(statuses), 1+rand.Int64N(s.next))
		if err != nil {
			return fmt.Errorf("write to the shop %s: %w", s.town, err)
		}
		changed++
	}
	if rand.IntN(20) == 0 {
		if err := s.newCustomer(ctx, tx); err != nil {
			return err
		}
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit in the shop %s: %w", s.town, err)
	}
	s.n.Add(changed)
	return nil
}

func (s *sqliteShop) rows(ctx context.Context, table string) iter.Seq2[string, error] {
	return queryRows(ctx, s.db, `SELECT * FROM "`+table+`" ORDER BY id`)
}
