package bench

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

func fillPostgres(_ context.Context, w *world, l *loaded) (*filled, error) {
	psql, err := w.server.Binaries().Tool("psql")
	if err != nil {
		return nil, err
	}
	return &filled{
		settings: fmt.Sprintf("    dsn: %q\n    table: target.orders\n", w.server.DSN("bench")),
		empty:    func(ctx context.Context) error { return w.freshTarget(ctx, true) },
		bulk: func(ctx context.Context) (sample, error) {
			return timed(exec.CommandContext(ctx, psql, "-X", "-q", "-d", w.server.DSN("bench"), "-c", "SET timezone = 'UTC'", "-c", "\\copy target.orders from '"+l.tsv+"'"), w.Rows)
		},
		count: func(ctx context.Context) (n int, err error) {
			err = w.db.QueryRow(ctx, "SELECT count(*) FROM target.orders").Scan(&n)
			return n, err
		},
		close: func() {},
	}, nil
}

func fillMaria(ctx context.Context, w *world, l *loaded) (*filled, error) {
	m, err := w.openMaria(ctx)
	if err != nil {
		return nil, err
	}
	if m == nil {
		return nil, errAbsent
	}
	mysql.RegisterLocalFile(l.tsv)
	return &filled{
		settings: fmt.Sprintf("    dsn: %q\n    table: target.orders\n", m.server.DSN("bench")),
		empty: func(ctx context.Context) error {
			return m.exec(ctx, "DROP DATABASE IF EXISTS target", "CREATE DATABASE target", "DROP TABLE IF EXISTS bench._trunkline_offsets, target._trunkline_offsets",
				`CREATE TABLE target.orders (id bigint PRIMARY KEY, customer_id int NOT NULL, status varchar(20) NOT NULL, amount decimal(12,2) NOT NULL,
					note text, created_at datetime(6) NOT NULL, updated_at datetime(6) NOT NULL)`)
		},
		bulk: func(ctx context.Context) (sample, error) {
			start := time.Now()
			if err := m.exec(ctx, "LOAD DATA LOCAL INFILE '"+l.tsv+"' INTO TABLE target.orders"); err != nil {
				return sample{}, err
			}
			return w.took(start), nil
		},
		count: func(ctx context.Context) (n int, err error) {
			err = m.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM target.orders").Scan(&n)
			return n, err
		},
		close: func() { mysql.DeregisterLocalFile(l.tsv) },
	}, nil
}

func fillSQLite(_ context.Context, w *world, l *loaded) (*filled, error) {
	path := filepath.Join(l.dir, "target.db")
	with := func(do func(db *sql.DB) error) error {
		db := sql.OpenDB(sqliteFile("file:" + path + "?_pragma=journal_mode(wal)&_pragma=synchronous(full)&_pragma=busy_timeout(10000)"))
		return errors.Join(do(db), db.Close())
	}
	create := func(ctx context.Context) error {
		for _, ending := range []string{"", "-wal", "-shm"} {
			if err := os.RemoveAll(path + ending); err != nil {
				return err
			}
		}
		return with(func(db *sql.DB) error {
			_, err := db.ExecContext(ctx, `CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER, status TEXT, amount TEXT, note TEXT, created_at TEXT, updated_at TEXT)`)
			return err
		})
	}
	return &filled{
		settings: fmt.Sprintf("    path: %q\n", path),
		empty:    create,
		bulk: func(ctx context.Context) (sample, error) {
			start := time.Now()
			err := with(func(db *sql.DB) error { return insertAll(ctx, db, l.tsv) })
			return w.took(start), err
		},
		count: func(ctx context.Context) (n int, err error) {
			err = with(func(db *sql.DB) error { return db.QueryRowContext(ctx, "SELECT count(*) FROM orders").Scan(&n) })
			return n, err
		},
		close: func() {},
	}, nil
}

// insertAll inserts the rows of a file with one statement in one transaction.
func insertAll(ctx context.Context, db *sql.DB, path string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // it does nothing after Commit
	insert, err := tx.PrepareContext(ctx, "INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?, ?)")
	if err != nil {
		return err
	}
	err = eachLine(path, func(line string) error {
		var row [7]any
		for i, field := range strings.Split(line, "\t") {
			row[i] = field
		}
		_, err := insert.ExecContext(ctx, row[:]...)
		return err
	})
	if err != nil {
		return err
	}
	return tx.Commit()
}

// eachLine calls do with each line of a file, without its end.
func eachLine(path string, do func(line string) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if err := do(lines.Text()); err != nil {
			return err
		}
	}
	return lines.Err()
}
