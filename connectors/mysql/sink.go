package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/trunkline/trunkline/connectors"
)

// Limits of a sink.
const (
	maxStatement    = 4 << 20 // bytes of one INSERT, about; less when the server takes less
	maxStatementRow = 2000    // rows of one INSERT
	maxTargets      = 1024    // versions of tables that are kept ready
	migrationLock   = "trunkline_migration"
	migrationWait   = 60 // seconds
)

// Sessions of the sink refuse what a column cannot hold, and take what a MySQL source can have: zero and invalid dates,
// the key 0. Foreign keys are not checked: the topics of parent and child are written independently, and what a cascade
// did in the source is in no binary log. lenientMode is for rows with an invalid value of an enum, which no strict session takes.
const (
	strictMode  = "STRICT_ALL_TABLES,ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO,NO_BACKSLASH_ESCAPES,NO_ENGINE_SUBSTITUTION"
	lenientMode = "ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO,NO_BACKSLASH_ESCAPES,NO_ENGINE_SUBSTITUTION"
)

// The table of offsets, in the target. One row for each consumer group and stream. Every Write updates its row where the
// epoch is still its own, in the transaction of the rows. The row lock makes a new writer's takeover wait for a commit
// that is under way, and an old writer's update find nothing afterwards.
const (
	offsetsTable   = "_trunkline_offsets"
	offsetsColumns = `(
	sink varchar(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
	stream varchar(500) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
	position longblob,
	epoch bigint NOT NULL,
	updated_at datetime(6) NOT NULL,
	PRIMARY KEY (sink, stream)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC`
)

// Sink writes into MySQL or MariaDB, exactly once: the position of a stream is stored in the transaction of its rows. It
// is one connection, and nothing of it outlives that connection but what it committed.
type Sink struct {
	config   SinkConfig
	env      connectors.Env
	db       *sql.DB
	conn     *sql.Conn
	dialect  dialect
	database string
	offsets  string // the quoted name of the table of offsets
	fitter   *connectors.Fitter
	packet   int // bytes that one statement may have

	epochs  map[string]int64
	targets map[*connectors.Table]*target
	lenient bool // the session's sql_mode
	buffer  []byte
}

// openSink is what Connector offers for the role of a sink.
func openSink(decode connectors.Decode) (connectors.OpenSink, error) {
	config := DefaultSinkConfig()
	if err := decode(&config); err != nil {
		return nil, err
	}
	return func(ctx context.Context, env connectors.Env) (connectors.Sink, error) {
		s, err := newSink(ctx, config, env)
		if err != nil {
			return nil, err
		}
		return s, nil
	}, nil
}

func newSink(ctx context.Context, config SinkConfig, env connectors.Env) (_ *Sink, err error) {
	e, err := config.address().endpoint()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, connectors.ErrFatal)
	}
	s := &Sink{config: config, env: env, database: e.database, offsets: tableName{config.Offsets, offsetsTable}.ident(),
		fitter: connectors.NewFitter(config.Unrepresentable, env.Report), epochs: map[string]int64{}, targets: map[*connectors.Table]*target{}}
	if s.db, err = e.pool(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.Close(ctx)
		}
	}()
	if s.conn, err = s.db.Conn(ctx); err != nil {
		return nil, fmt.Errorf("connect to %s: %w", e.addr, settle(err))
	}
	vars, err := variables(ctx, s.db, "version", "max_allowed_packet")
	if err != nil {
		return nil, fmt.Errorf("ask server for its settings: %w", settle(err))
	}
	info := &server{version: vars["version"]}
	s.dialect.maria = strings.Contains(strings.ToLower(info.version), "mariadb")
	s.dialect.number = versionNumber(info.version)
	packet, _ := strconv.Atoi(vars["max_allowed_packet"])
	s.packet = max(min(maxStatement, packet*3/4), 1<<16)
	if err := s.setUp(ctx, []string{"sql_mode = '" + strictMode + "', foreign_key_checks = 0", "TRANSACTION ISOLATION LEVEL READ COMMITTED"},
		[]string{"innodb_lock_wait_timeout = 60", "lock_wait_timeout = 60"}); err != nil {
		return nil, err
	}
	if err := s.createOffsets(ctx); err != nil {
		return nil, fmt.Errorf("create table %s: %w", s.offsets, settle(err))
	}
	return s, nil
}

// settingRefused are the server's errors about a variable that it does not know, or not like this: what it is not able to say
// more of, no such variable, no right, not of a session, another value or type, read only, not supported.
var settingRefused = []uint16{1105, 1193, errSpecificDenied, 1229, 1231, 1232, 1238, 1235}

// setUp sets the session up. What rows become, and that they are written once, depends on the settings that are needed. Those
// that are liked better only bound how long a statement waits: a server that refuses one keeps its own.
func (s *Sink) setUp(ctx context.Context, needed, better []string) error {
	for _, set := range needed {
		if err := s.exec(ctx, "SET SESSION "+set); err != nil {
			return fmt.Errorf("set up session: %s: %w", set, settle(err))
		}
	}
	for _, set := range better {
		switch err := s.exec(ctx, "SET SESSION "+set); {
		case err == nil:
		case slices.Contains(settingRefused, code(err)):
			s.env.Logger.Info("the server keeps its own setting", "sink", s.env.Name, "setting", set, "error", err)
		default:
			return fmt.Errorf("set up session: %w", err)
		}
	}
	return nil
}

func (s *Sink) exec(ctx context.Context, statement string) error {
	_, err := s.conn.ExecContext(ctx, statement)
	return err
}

// touch runs a statement and returns how many rows it found.
func (s *Sink) touch(ctx context.Context, statement string) (int64, error) {
	result, err := s.conn.ExecContext(ctx, statement)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// createOffsets creates the table of offsets where it is missing.
func (s *Sink) createOffsets(ctx context.Context) error {
	var n int
	err := s.conn.QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ?", s.config.Offsets, offsetsTable).Scan(&n)
	if err != nil || n > 0 {
		return err
	}
	return s.migration(ctx, []string{"CREATE DATABASE IF NOT EXISTS " + ident(s.config.Offsets), "CREATE TABLE IF NOT EXISTS " + s.offsets + " " + offsetsColumns})
}

// migration runs DDL, one sink of this kind at a time. Each statement commits by itself.
func (s *Sink) migration(ctx context.Context, statements []string) error {
	return s.locked(ctx, func() error {
		for _, statement := range statements {
			if err := s.exec(ctx, statement); err != nil {
				return fmt.Errorf("%.200s: %w", statement, err)
			}
		}
		return nil
	})
}

// Committed returns the position of the last batch of the stream, and fences every writer that claimed it before.
func (s *Sink) Committed(ctx context.Context, stream string) (connectors.Position, error) {
	fault := func(err error) error { return fmt.Errorf("claim stream %q in %s: %w", stream, s.offsets, settle(err)) }
	_, err := s.conn.ExecContext(ctx, "INSERT INTO "+s.offsets+" (sink, stream, epoch, updated_at) VALUES (?, ?, LAST_INSERT_ID(1), UTC_TIMESTAMP(6)) "+
		"ON DUPLICATE KEY UPDATE epoch = LAST_INSERT_ID(epoch + 1), updated_at = UTC_TIMESTAMP(6)", s.env.Group, stream)
	if err != nil {
		return nil, fault(err)
	}
	var epoch int64
	var position []byte
	if err := s.conn.QueryRowContext(ctx, "SELECT LAST_INSERT_ID()").Scan(&epoch); err != nil {
		return nil, fault(err)
	}
	if err := s.conn.QueryRowContext(ctx, "SELECT position FROM "+s.offsets+" WHERE sink = ? AND stream = ?", s.env.Group, stream).Scan(&position); err != nil {
		return nil, fault(err)
	}
	s.epochs[stream] = epoch
	return position, nil
}

// Write stores a batch and its position in one transaction. The server takes back a refused statement alone, so the rows
// that it refuses are found by writing ever smaller parts; then nothing is stored, and a RowsError names them.
func (s *Sink) Write(ctx context.Context, b connectors.Batch) error {
	if len(b.Changes) == 0 && b.Position == nil {
		return nil
	}
	changes, err := s.fitter.Fit(b.Changes, foreign, func(t *connectors.Table) ([]connectors.Holds, error) { return s.holds(ctx, t) })
	if err != nil {
		return err
	}
	b.Changes = changes
	err = s.write(ctx, &b)
	if err != nil {
		if undo := s.exec(context.WithoutCancel(ctx), "ROLLBACK"); undo != nil {
			err = errors.Join(err, undo)
		}
		var refused *connectors.RowsError
		if !errors.As(err, &refused) {
			return fmt.Errorf("write %d changes of %s: %w", len(b.Changes), b.Stream, err)
		}
		return err
	}
	s.fitter.Written()
	return nil
}

// holds says which values the target of a table holds. The target is made fit before the transaction, which DDL would end.
func (s *Sink) holds(ctx context.Context, t *connectors.Table) ([]connectors.Holds, error) {
	if s.targets[t] == nil {
		if err := s.Migrate(ctx, connectors.Migration{To: t}); err != nil {
			return nil, err
		}
	}
	return s.targets[t].holds, nil
}

func (s *Sink) write(ctx context.Context, b *connectors.Batch) error {
	epoch, ok := s.epochs[b.Stream]
	if !ok {
		if _, err := s.Committed(ctx, b.Stream); err != nil {
			return err
		}
		epoch = s.epochs[b.Stream]
	}
	if err := s.exec(ctx, "START TRANSACTION"); err != nil {
		return err
	}
	sql := append(s.buffer[:0], "UPDATE "+s.offsets+" SET updated_at = UTC_TIMESTAMP(6)"...)
	if b.Position != nil {
		sql = appendHex(append(sql, ", position = "...), b.Position)
	}
	sql = appendString(append(sql, " WHERE sink = "...), []byte(s.env.Group))
	sql = appendString(append(sql, " AND stream = "...), []byte(b.Stream))
	sql = strconv.AppendInt(append(sql, " AND epoch = "...), epoch, 10)
	n, err := s.touch(ctx, string(sql))
	s.buffer = sql
	if err != nil {
		return fmt.Errorf("store position in %s: %w", s.offsets, settle(err))
	}
	if n != 1 {
		return fmt.Errorf("write stream %q for group %q: %w", b.Stream, s.env.Group, connectors.ErrFenced)
	}
	w := writer{sink: s}
	if err := w.apply(ctx, b.Changes); err != nil {
		return settle(err)
	}
	if len(w.refused) > 0 {
		return &connectors.RowsError{Rows: w.sorted()}
	}
	return s.exec(ctx, "COMMIT")
}

// mode switches the session between strict and lenient.
func (s *Sink) mode(ctx context.Context, lenient bool) error {
	if s.lenient == lenient {
		return nil
	}
	name := strictMode
	if lenient {
		name = lenientMode
	}
	if err := s.exec(ctx, "SET SESSION sql_mode = '"+name+"'"); err != nil {
		return err
	}
	s.lenient = lenient
	return nil
}

// WholeRows is true where each image becomes a row.
func (s *Sink) WholeRows() bool { return s.config.Write == writeAppend }

// Close releases the connection.
func (s *Sink) Close(context.Context) error {
	var err error
	if s.conn != nil {
		err = s.conn.Close()
	}
	return errors.Join(err, s.db.Close())
}
