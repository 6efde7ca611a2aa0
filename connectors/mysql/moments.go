package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"

	"github.com/trunkline/trunkline/connectors"
)

// momentTries is how often the workers are asked to begin until all of them see the same moment. On a server that is
// never quiet for that long they begin close together instead, which is just as right.
const momentTries = 5

// moments opens the connections of the snapshot, each in a transaction that sees one moment whose place in the binary log
// is known.
func (s *Source) moments(ctx context.Context, workers int) (_ []*moment, err error) {
	var list []*moment
	defer func() {
		if err != nil {
			closeAll(list)
		}
	}()
	for range workers {
		conn, err := s.endpoint.dial(ctx)
		if err != nil {
			return nil, settle(err)
		}
		list = append(list, &moment{r: newReader(conn)})
	}
	if !s.server.maria {
		return list, s.lockedMoments(ctx, list)
	}
	for range momentTries {
		same := true
		for _, m := range list {
			if err := m.begin(ctx); err != nil {
				return nil, err
			}
			same = same && m.at == list[0].at
		}
		if same {
			break
		}
	}
	for _, m := range list {
		if m.at.File == "" && s.config.Snapshot != snapshotOnly {
			return nil, fmt.Errorf("the server does not tell the place of a snapshot in its binary log: %w", connectors.ErrFatal)
		}
		if m.at.File != "" {
			if m.gtid, err = s.gtidAt(ctx, m.at); err != nil {
				return nil, err
			}
		}
	}
	return list, nil
}

const (
	beginSnapshot = "START TRANSACTION WITH CONSISTENT SNAPSHOT"
	beginReadOnly = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY" // of the next transaction
)

func (m *moment) exec(ctx context.Context, statement string) error {
	stop := context.AfterFunc(ctx, func() { m.r.conn.Conn.Conn.Close() })
	defer stop()
	_, err := m.r.conn.Execute(statement)
	return plain(err)
}

// begin starts a transaction, and asks MariaDB which place of the binary log its moment is. The server takes both under
// one lock, so that they belong together, and holds nobody up.
func (m *moment) begin(ctx context.Context) error {
	for _, statement := range []string{"ROLLBACK", "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", beginSnapshot} {
		if err := m.exec(ctx, statement); err != nil {
			return fmt.Errorf("begin snapshot: %w", settle(err))
		}
	}
	return m.r.each(ctx, "SHOW STATUS LIKE 'binlog_snapshot_%'", func(row [][]byte) error {
		switch strings.ToLower(string(row[0])) {
		case "binlog_snapshot_file":
			m.at.File = string(row[1])
		case "binlog_snapshot_position":
			m.at.Pos, _ = strconv.ParseUint(string(row[1]), 10, 64)
		}
		return nil
	})
}

// lockedMoments begins all transactions under MySQL's global read lock, which is the only way there to one moment and
// its place. It is held for as long as that takes, and a long query may delay it, and with it all writers.
func (s *Source) lockedMoments(ctx context.Context, list []*moment) error {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("begin snapshot: %w", settle(err))
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "SET SESSION lock_wait_timeout = 20"); err != nil {
		return fmt.Errorf("begin snapshot: %w", err)
	}
	if _, err := conn.ExecContext(ctx, "FLUSH TABLES WITH READ LOCK"); err != nil {
		if code(err) == errSpecificDenied {
			return fmt.Errorf("begin snapshot: MySQL needs a global read lock for a moment; GRANT RELOAD ON *.* TO our user: %w: %w", err, connectors.ErrFatal)
		}
		return fmt.Errorf("begin snapshot: %w", err)
	}
	err = s.beginAll(ctx, conn, list)
	if _, unlock := conn.ExecContext(context.WithoutCancel(ctx), "UNLOCK TABLES"); unlock != nil && err == nil {
		err = unlock
	}
	return err
}

func (s *Source) beginAll(ctx context.Context, conn *sql.Conn, list []*moment) error {
	at, gtids, err := masterStatus(ctx, conn)
	if err != nil && s.config.Snapshot != snapshotOnly {
		return err
	}
	for _, m := range list {
		m.at, m.gtid = at, gtids
		for _, statement := range []string{"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", beginSnapshot} {
			if err := m.exec(ctx, statement); err != nil {
				return fmt.Errorf("begin snapshot: %w", settle(err))
			}
		}
	}
	return nil
}
