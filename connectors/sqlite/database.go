package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"
)

const (
	dialect    = "sqlite"
	schemaName = "main"
)

// opener opens connections without the driver's global registration.
type opener string

// Connect is called by database/sql.
func (o opener) Connect(context.Context) (driver.Conn, error) { return o.Driver().Open(string(o)) }

// Driver is called by database/sql.
func (o opener) Driver() driver.Driver { return &sqlite.Driver{} }

// database is one connection, because settings, data_version and prepared statements belong to a connection.
type database struct {
	pool *sql.DB
	*sql.Conn
}

// open opens one connection to the file, with parameters in the driver's words.
func open(ctx context.Context, f *File, parameters ...string) (*database, error) {
	name := f.name()
	pool := sql.OpenDB(opener(f.uri(parameters...)))
	pool.SetMaxOpenConns(1)
	conn, err := pool.Conn(ctx)
	if err != nil {
		if code(err) == lib.SQLITE_CANTOPEN {
			// SQLite's own words for a file that is not there are "out of memory".
			err = errors.New("it does not exist or cannot be opened; correct path, or the rights of the file and its directory")
		}
		return nil, errors.Join(fmt.Errorf("open database %s: %w", name, err), pool.Close())
	}
	return &database{pool: pool, Conn: conn}, nil
}

// transact runs do within a write transaction. It is begun and ended by statements and not through database/sql, whose
// transactions end by themselves when their context does, after which a statement would commit on its own.
func (d *database) transact(ctx context.Context, do func() error) error {
	if _, err := d.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	err := do()
	if err == nil {
		if _, err = d.ExecContext(ctx, "COMMIT"); err == nil {
			return nil
		}
		err = fmt.Errorf("commit: %w", err)
	}
	// Some errors end the transaction on their own; then there is nothing to undo and the statement says so.
	_, undo := d.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
	if undo != nil && !isStatement(undo) {
		return errors.Join(err, fmt.Errorf("roll back: %w", undo))
	}
	return err
}

func (d *database) close() error {
	return errors.Join(d.Conn.Close(), d.pool.Close())
}

// number reads a pragma or a query that gives one integer.
func number(ctx context.Context, q querier, query string) (int64, error) {
	var n int64
	if err := q.QueryRowContext(ctx, query).Scan(&n); err != nil {
		return 0, fmt.Errorf("run %s: %w", query, err)
	}
	return n, nil
}

// querier is a connection or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
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

// code returns the primary result code of SQLite, 0 if err is none of SQLite's.
func code(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}

// isStatement reports an error that the statement or the schema caused, so that the same statement fails again.
func isStatement(err error) bool { return code(err) == lib.SQLITE_ERROR }

// isRow reports that SQLite refuses the values of a row.
func isRow(err error) bool {
	switch code(err) {
	case lib.SQLITE_CONSTRAINT, lib.SQLITE_MISMATCH, lib.SQLITE_TOOBIG:
		return true
	}
	return false
}
