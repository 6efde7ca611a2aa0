package deliver

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"modernc.org/sqlite"

	"github.com/trunkline/trunkline/connectors"
)

// rowStore is a file with the newest whole row of each key of some partitions. It is a cache of the log: it may be lost,
// and is made again from the topic. It belongs to the goroutine of Run.
//
//	parts  stream, next            everything below next of the stream is in rows
//	rows   stream, tbl, key, schema, row
type rowStore struct{ db *sql.DB }

type rowOpener string

// Connect is called by database/sql.
func (o rowOpener) Connect(context.Context) (driver.Conn, error) { return o.Driver().Open(string(o)) }

// Driver is called by database/sql.
func (o rowOpener) Driver() driver.Driver { return &sqlite.Driver{} }

// openRows opens the file, and makes another where it cannot be read.
func openRows(ctx context.Context, path string) (*rowStore, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, fmt.Errorf("open rows of the log: %w", err)
	}
	s, err := tryRows(ctx, path)
	if err == nil {
		return s, nil
	}
	for _, part := range []string{"", "-wal", "-shm"} {
		if gone := os.Remove(path + part); gone != nil && !errors.Is(gone, os.ErrNotExist) {
			return nil, fmt.Errorf("open rows of the log: %w", errors.Join(err, gone))
		}
	}
	return tryRows(ctx, path)
}

func tryRows(ctx context.Context, path string) (*rowStore, error) {
	// What a power cut takes away is read from the topic again; what is there is whole.
	name := "file:" + (&url.URL{Path: path}).EscapedPath() + "?_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)&_pragma=synchronous(normal)"
	db := sql.OpenDB(rowOpener(name))
	db.SetMaxOpenConns(1)
	for _, statement := range []string{
		"CREATE TABLE IF NOT EXISTS parts (stream TEXT PRIMARY KEY, next INTEGER NOT NULL) WITHOUT ROWID",
		"CREATE TABLE IF NOT EXISTS rows (stream TEXT, tbl TEXT, key BLOB, schema INTEGER, row BLOB, PRIMARY KEY (stream, tbl, key)) WITHOUT ROWID",
	} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return nil, errors.Join(fmt.Errorf("open rows of the log: %w", err), db.Close())
		}
	}
	return &rowStore{db}, nil
}

// next returns up to where the file covers a stream; false if it does not.
func (s *rowStore) next(ctx context.Context, stream string) (int64, bool, error) {
	var next int64
	err := s.db.QueryRowContext(ctx, "SELECT next FROM parts WHERE stream = ?", stream).Scan(&next)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return 0, false, nil
	case err != nil:
		return 0, false, fmt.Errorf("read rows of the log: %w", err)
	}
	return next, true, nil
}

// get returns the row of a key; nil if there is none.
func (s *rowStore) get(ctx context.Context, stream string, key rowKey) (*storedRow, error) {
	r := &storedRow{}
	err := s.db.QueryRowContext(ctx, "SELECT schema, row FROM rows WHERE stream = ? AND tbl = ? AND key = ?", stream, key.table, []byte(key.key)).Scan(&r.schema, &r.row)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read rows of the log: %w", err)
	}
	return r, nil
}

// drop forgets a stream.
func (s *rowStore) drop(ctx context.Context, stream string) error {
	for _, statement := range []string{"DELETE FROM parts WHERE stream = ?", "DELETE FROM rows WHERE stream = ?"} {
		if _, err := s.db.ExecContext(ctx, statement, stream); err != nil {
			return fmt.Errorf("drop rows of the log: %w", err)
		}
	}
	return nil
}

// put stores what has changed in a stream below next, all at once.
func (s *rowStore) put(ctx context.Context, stream string, c *cover, next int64) (err error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err == nil {
		defer tx.Rollback()
		err = fillRows(ctx, tx, stream, c, next)
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		return fmt.Errorf("store rows of the log: %w", err)
	}
	return nil
}

func fillRows(ctx context.Context, tx *sql.Tx, stream string, c *cover, next int64) error {
	for table := range c.cleared {
		if _, err := tx.ExecContext(ctx, "DELETE FROM rows WHERE stream = ? AND tbl = ?", stream, table); err != nil {
			return err
		}
	}
	put, err := tx.PrepareContext(ctx, "INSERT OR REPLACE INTO rows VALUES (?, ?, ?, ?, ?)")
	if err != nil {
		return err
	}
	defer put.Close()
	gone, err := tx.PrepareContext(ctx, "DELETE FROM rows WHERE stream = ? AND tbl = ? AND key = ?")
	if err != nil {
		return err
	}
	defer gone.Close()
	for key, r := range c.pending {
		if r == nil {
			_, err = gone.ExecContext(ctx, stream, key.table, []byte(key.key))
		} else {
			_, err = put.ExecContext(ctx, stream, key.table, []byte(key.key), r.schema, r.row)
		}
		if err != nil {
			return err
		}
	}
	_, err = tx.ExecContext(ctx, "INSERT OR REPLACE INTO parts VALUES (?, ?)", stream, next)
	return err
}

func (s *rowStore) close() error {
	if s == nil {
		return nil
	}
	return s.db.Close()
}

// appendRow appends values: for each its kind, and then
//
//	bool int uint   8 bytes, little-endian
//	null absent     nothing
//	others          their length, a varint, and their bytes
func appendRow(dst []byte, row []connectors.Value) []byte {
	for _, v := range row {
		dst = append(dst, byte(v.Kind()))
		switch v.Kind() {
		case connectors.Absent, connectors.Null:
		case connectors.Bool, connectors.Int, connectors.Uint:
			dst = binary.LittleEndian.AppendUint64(dst, v.Uint())
		default:
			dst = append(binary.AppendUvarint(dst, uint64(len(v.Data()))), v.Data()...)
		}
	}
	return dst
}

// parseRow is the inverse of appendRow for a row of n values. Values point into text.
func parseRow(text []byte, n int) ([]connectors.Value, bool) {
	row := make([]connectors.Value, n)
	for i := range row {
		if len(text) == 0 {
			return nil, false
		}
		kind := connectors.Kind(text[0])
		text = text[1:]
		switch kind {
		case connectors.Absent:
		case connectors.Null:
			row[i] = connectors.NullValue()
		case connectors.Bool, connectors.Int, connectors.Uint:
			if len(text) < 8 {
				return nil, false
			}
			bits := binary.LittleEndian.Uint64(text)
			text = text[8:]
			switch kind {
			case connectors.Bool:
				row[i] = connectors.BoolValue(bits != 0)
			case connectors.Int:
				row[i] = connectors.IntValue(int64(bits))
			default:
				row[i] = connectors.UintValue(bits)
			}
		default:
			size, used := binary.Uvarint(text)
			if used <= 0 || uint64(len(text)-used) < size {
				return nil, false
			}
			text = text[used:]
			row[i] = connectors.DataValue(kind, text[:size:size])
			text = text[size:]
		}
	}
	return row, len(text) == 0
}
