//go:build duckdb

package duckdb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/duckdb/duckdb-go/v2"
)

// errMissing is nil: this program has DuckDB.
var errMissing error

// database is one connection, because temporary tables and transactions belong to a connection.
type database struct {
	pool *sql.DB
	*sql.Conn
}

// connect opens the file, and makes it where it is missing unless it is only to be looked at.
func connect(ctx context.Context, c *SinkConfig, look bool) (*database, error) {
	if !look {
		if err := os.MkdirAll(filepath.Dir(c.Path), 0o755); err != nil {
			return nil, fmt.Errorf("make directory: %w", err)
		}
	}
	options := url.Values{"memory_limit": {strconv.FormatInt(int64(c.Memory)>>10, 10) + "KiB"}}
	if c.Threads > 0 {
		options.Set("threads", strconv.Itoa(c.Threads))
	}
	connector, err := duckdb.NewConnector(c.Path+"?"+options.Encode(), nil)
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", c.Path, refused(err))
	}
	pool := sql.OpenDB(connector)
	pool.SetMaxOpenConns(1)
	conn, err := pool.Conn(ctx)
	if err == nil {
		d := &database{pool, conn}
		if _, err = d.ExecContext(ctx, "SET TimeZone = 'UTC'"); err == nil {
			return d, nil
		}
		err = errors.Join(err, conn.Close())
	}
	return nil, errors.Join(fmt.Errorf("open database %s: %w", c.Path, refused(err)), pool.Close(), connector.Close())
}

// refused names the remedy where another process has the file: DuckDB lets one write.
func refused(err error) error {
	if strings.Contains(err.Error(), "Could not set lock") {
		return errors.New("another process has it open; DuckDB lets one process write, so end the other, or let it open the file after this one with ATTACH … (READ_ONLY) from a copy")
	}
	return err
}

// transact runs do within a transaction, which is begun and ended by statements: one of database/sql ends by itself when
// its context does, after which a statement would commit on its own.
func (d *database) transact(ctx context.Context, do func() error) error {
	if _, err := d.ExecContext(ctx, "BEGIN TRANSACTION"); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	err := do()
	if err == nil {
		if err = ctx.Err(); err == nil {
			// A commit that was begun is waited for, so that nobody has to guess what came of it.
			if _, err = d.ExecContext(context.WithoutCancel(ctx), "COMMIT"); err == nil {
				return nil
			}
			err = fmt.Errorf("commit: %w", err)
		}
	}
	return errors.Join(err, d.rollback(ctx))
}

// rollback ends a transaction. A commit that did not work has ended it by itself, which is no error.
func (d *database) rollback(ctx context.Context) error {
	_, err := d.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
	if err != nil && !strings.Contains(err.Error(), "no transaction is active") {
		return fmt.Errorf("roll back: %w", err)
	}
	return nil
}

// appendRows puts rows into a temporary table through the appender. next returns false at the end.
func (d *database) appendRows(table string, next func() ([]driver.Value, bool)) error {
	return d.Raw(func(conn any) error {
		appender, err := duckdb.NewAppender(conn.(driver.Conn), "temp", "main", table)
		if err != nil {
			return fmt.Errorf("open appender: %w", err)
		}
		for {
			row, ok := next()
			if !ok {
				break
			}
			if err := appender.AppendRow(row...); err != nil {
				// What the library says shows the value. To clear and close releases its memory.
				_, _ = appender.Clear(), appender.Close()
				return errors.New("append a row: a value is not of its column's type")
			}
		}
		return appender.Close()
	})
}

func (d *database) close() error { return errors.Join(d.Conn.Close(), d.pool.Close()) }

// number reads one integer.
func (d *database) number(ctx context.Context, query string, args ...any) (n int64, err error) {
	err = d.QueryRowContext(ctx, query, args...).Scan(&n)
	return n, err
}

// names reads pairs of texts.
func (d *database) names(ctx context.Context, query string, args ...any) (out [][2]string, err error) {
	rows, err := d.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var pair [2]string
		if err := rows.Scan(&pair[0], &pair[1]); err != nil {
			return nil, err
		}
		out = append(out, pair)
	}
	return out, rows.Err()
}

// quote makes an identifier of any name.
func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// quoteAll returns the names as a list.
func quoteAll(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = quote(n)
	}
	return strings.Join(quoted, ", ")
}

// kindOf returns what DuckDB calls an error, 0 if it is none of DuckDB's.
func kindOf(err error) duckdb.ErrorType {
	var e *duckdb.Error
	if errors.As(err, &e) {
		return e.Type
	}
	return duckdb.ErrorTypeInvalid
}

// isRow reports that DuckDB refuses the values of a row.
func isRow(err error) bool {
	switch kindOf(err) {
	case duckdb.ErrorTypeConstraint, duckdb.ErrorTypeConversion, duckdb.ErrorTypeOutOfRange:
		return true
	}
	return false
}

// isStatement reports an error that the statement or the schema caused, so that the same statement fails again.
func isStatement(err error) bool {
	switch kindOf(err) {
	case duckdb.ErrorTypeCatalog, duckdb.ErrorTypeBinder, duckdb.ErrorTypeParser, duckdb.ErrorTypeSyntax, duckdb.ErrorTypeDependency,
		duckdb.ErrorTypeNotImplemented, duckdb.ErrorTypeInvalidInput:
		return true
	}
	return isRow(err)
}

// tame takes values of rows out of an error. DuckDB shows them where a value does not convert or is there twice.
func tame(err error) error {
	switch {
	case err == nil || !isRow(err):
		return err
	case strings.Contains(err.Error(), "NOT NULL constraint failed"):
		return errors.New("a column that is NOT NULL would be NULL")
	case strings.Contains(err.Error(), "CHECK constraint failed"):
		return errors.New("a CHECK of the table refuses the row")
	case kindOf(err) == duckdb.ErrorTypeConstraint:
		return errors.New("a key, unique index or foreign key of the table refuses the row")
	}
	return errors.New("a value does not convert to its column's type")
}
