// Package keystore remembers the keys of rows that a source has handed over, so that it can tell which of them are gone.
//
// It promises that what Add was given is on the disk when it returns, that a set is either complete or not there, and
// that memory does not grow with the number of keys. It does not know what is durable in the log: a source adds keys
// before it hands their rows over and removes them after their deletes are durable, so that a crash leaves keys too many,
// whose deletes come once more, and never one too few. The file can be lost; then the sets that it had are not there.
// Sources that detect deletes call it.
package keystore

import (
	"context"
	"crypto/md5"
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"net/url"

	"modernc.org/sqlite"
)

// Buckets is into how many parts the keys of a table are divided, by the first two bytes of their MD5. A bucket's sum is
// that of the 60 bits that follow, for each key. Databases can compute both.
const Buckets = 1 << 16

// Store is a file of sets. It is used by one goroutine.
type Store struct{ db *sql.DB }

type opener string

// Connect is called by database/sql.
func (o opener) Connect(context.Context) (driver.Conn, error) { return o.Driver().Open(string(o)) }

// Driver is called by database/sql.
func (o opener) Driver() driver.Driver { return &sqlite.Driver{} }

var schema = []string{
	"CREATE TABLE IF NOT EXISTS sets (id TEXT PRIMARY KEY) WITHOUT ROWID",
	"CREATE TABLE IF NOT EXISTS keys (id TEXT, bucket INTEGER, key BLOB, PRIMARY KEY (id, bucket, key)) WITHOUT ROWID",
}

// Open opens the file, and makes it if it is not there.
func Open(ctx context.Context, path string) (*Store, error) {
	name := "file:" + (&url.URL{Path: path}).EscapedPath() + "?_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)&_pragma=synchronous(full)"
	db := sql.OpenDB(opener(name))
	db.SetMaxOpenConns(1)
	for _, statement := range schema {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return nil, errors.Join(fmt.Errorf("open key store: %w", err), db.Close())
		}
	}
	return &Store{db}, nil
}

// NewSet returns a name that no other set has.
func NewSet() string { return rand.Text() }

// Has reports whether a set is complete.
func (s *Store) Has(ctx context.Context, set string) (bool, error) {
	var n int
	err := s.db.QueryRowContext(ctx, "SELECT count(*) FROM sets WHERE id = ?", set).Scan(&n)
	if err != nil {
		return false, fmt.Errorf("read key store: %w", err)
	}
	return n > 0, nil
}

// Complete says that a set has all keys that it should.
func (s *Store) Complete(ctx context.Context, set string) error {
	if _, err := s.db.ExecContext(ctx, "INSERT OR IGNORE INTO sets VALUES (?)", set); err != nil {
		return fmt.Errorf("write key store: %w", err)
	}
	return nil
}

// Drop forgets every set but those that are named.
func (s *Store) Drop(ctx context.Context, but ...string) error {
	rows, err := s.db.QueryContext(ctx, "SELECT id FROM sets UNION SELECT id FROM keys GROUP BY id")
	if err != nil {
		return fmt.Errorf("read key store: %w", err)
	}
	keep := map[string]bool{}
	for _, set := range but {
		keep[set] = true
	}
	var gone []string
	for rows.Next() {
		var set string
		if err := rows.Scan(&set); err != nil {
			return errors.Join(fmt.Errorf("read key store: %w", err), rows.Close())
		}
		if !keep[set] {
			gone = append(gone, set)
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read key store: %w", err)
	}
	for _, set := range gone {
		for _, statement := range []string{"DELETE FROM sets WHERE id = ?", "DELETE FROM keys WHERE id = ?"} {
			if _, err := s.db.ExecContext(ctx, statement, set); err != nil {
				return fmt.Errorf("write key store: %w", err)
			}
		}
	}
	return nil
}

// Add puts keys into a set, those that it has already too.
func (s *Store) Add(ctx context.Context, set string, keys []string) error {
	return s.each(ctx, "INSERT OR IGNORE INTO keys VALUES (?, ?, ?)", set, keys)
}

// Remove takes keys out of a set.
func (s *Store) Remove(ctx context.Context, set string, keys []string) error {
	return s.each(ctx, "DELETE FROM keys WHERE id = ? AND bucket = ? AND key = ?", set, keys)
}

func (s *Store) each(ctx context.Context, statement, set string, keys []string) (err error) {
	if len(keys) == 0 {
		return nil
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("write key store: %w", err)
		}
	}()
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // it does nothing after Commit
	prepared, err := tx.PrepareContext(ctx, statement)
	if err != nil {
		return err
	}
	for _, key := range keys {
		bucket, _ := Digest(key)
		if _, err := prepared.ExecContext(ctx, set, bucket, []byte(key)); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// Digest returns the bucket of a key and what it adds to the bucket's sum.
func Digest(key string) (bucket int, sum uint64) {
	h := md5.Sum([]byte(key))
	return int(binary.BigEndian.Uint16(h[:])), binary.BigEndian.Uint64(h[2:]) >> 4
}

// Sum is what a bucket holds. Sums of digests wrap around at 64 bits.
type Sum struct {
	Count int64
	Sum   uint64
}

// Sums returns those of all buckets of a set that have keys.
func (s *Store) Sums(ctx context.Context, set string) (map[int]Sum, error) {
	rows, err := s.db.QueryContext(ctx, "SELECT key FROM keys WHERE id = ?", set)
	if err != nil {
		return nil, fmt.Errorf("read key store: %w", err)
	}
	defer rows.Close()
	out := map[int]Sum{}
	var key sql.RawBytes
	for rows.Next() {
		if err := rows.Scan(&key); err != nil {
			return nil, fmt.Errorf("read key store: %w", err)
		}
		bucket, sum := Digest(string(key))
		was := out[bucket]
		out[bucket] = Sum{was.Count + 1, was.Sum + sum}
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read key store: %w", err)
	}
	return out, nil
}

// Keys returns the keys of one bucket.
func (s *Store) Keys(ctx context.Context, set string, bucket int) ([]string, error) {
	rows, err := s.db.QueryContext(ctx, "SELECT key FROM keys WHERE id = ? AND bucket = ?", set, bucket)
	if err != nil {
		return nil, fmt.Errorf("read key store: %w", err)
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var key []byte
		if err := rows.Scan(&key); err != nil {
			return nil, fmt.Errorf("read key store: %w", err)
		}
		out = append(out, string(key))
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read key store: %w", err)
	}
	return out, nil
}

// Close closes the file.
func (s *Store) Close() error {
	if s == nil {
		return nil
	}
	return s.db.Close()
}
