package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"hash/fnv"
	"io"
)

// lockPatience is how many seconds a source waits for its lock: the server may not have noticed yet that the process that had
// it has ended.
const lockPatience = 2

// waitForLock begins the statement that waits for the lock. It holds back no extract: whoever waits writes nothing.
const waitForLock = "SELECT /* trunkline waits */ GET_LOCK"

// runLock keeps the runs of one source apart, whichever process makes them. The lock is the server's and belongs to a session
// of its own, so it ends with the process.
type runLock struct {
	name string
	conn *sql.Conn // nil: not held
}

// newRunLock names the lock after the source and the database it connects to.
func newRunLock(source, database string) *runLock {
	h := fnv.New64a()
	_, _ = io.WriteString(h, source+"\x00"+database) // a hash never fails
	return &runLock{name: fmt.Sprintf("trunkline extract %016x", h.Sum64())}
}

// hold makes sure that the lock is ours. A session that was lost is replaced.
func (l *runLock) hold(ctx context.Context, db *sql.DB, source string) error {
	if l.conn != nil {
		var ours sql.NullBool
		if err := l.conn.QueryRowContext(ctx, "SELECT IS_USED_LOCK(?) = CONNECTION_ID()", l.name).Scan(&ours); err == nil && ours.Bool {
			return nil
		}
		l.release()
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("lock source: %w", settle(err))
	}
	var got sql.NullInt64
	if err := conn.QueryRowContext(ctx, waitForLock+"(?, ?)", l.name, lockPatience).Scan(&got); err != nil {
		conn.Close()
		return fmt.Errorf("lock source: %w", settle(err))
	}
	if got.Int64 != 1 {
		conn.Close()
		return fmt.Errorf("lock source: another process extracts source %s from this server", source)
	}
	l.conn = conn
	return nil
}

// release gives the lock up, and the session back.
func (l *runLock) release() {
	if l == nil || l.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	_, _ = l.conn.ExecContext(ctx, "DO RELEASE_LOCK(?)", l.name) // a session that is lost has no lock
	l.conn.Close()
	l.conn = nil
}
