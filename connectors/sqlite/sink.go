package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/trunkline/trunkline/connectors"
)

// offsetsTable holds for each stream of a group the position of the last batch and the number of the writer that has
// it. The row with an empty stream holds the number of the newest writer of the group.
const offsetsTable = "_trunkline_offsets"

const createOffsets = `CREATE TABLE IF NOT EXISTS ` + offsetsTable + ` (
	"group" TEXT NOT NULL, stream TEXT NOT NULL, position BLOB, epoch INTEGER NOT NULL,
	PRIMARY KEY ("group", stream)) WITHOUT ROWID`

// sink is used by one goroutine.
type sink struct {
	config     *SinkConfig
	env        connectors.Env
	db         *database
	epoch      int64
	targets    map[*connectors.Table]*target
	fitter     *connectors.Fitter
	statements statements
}

func openSink(ctx context.Context, c *SinkConfig, env connectors.Env) (connectors.Sink, error) {
	if c.Path != "" {
		if err := os.MkdirAll(filepath.Dir(c.Path), 0o755); err != nil {
			return nil, fmt.Errorf("make directory: %w", err)
		}
	}
	db, err := open(ctx, &c.File, "_pragma=busy_timeout(30000)", "_pragma=journal_mode(wal)", "_pragma=synchronous(full)")
	if err != nil {
		return nil, err
	}
	s := &sink{config: c, env: env, db: db, targets: map[*connectors.Table]*target{}, fitter: connectors.NewFitter(c.Unrepresentable, env.Report)}
	s.statements.db = db
	if err := s.claim(ctx); err != nil {
		return nil, errors.Join(err, db.close())
	}
	return s, nil
}

// claim takes the next number of the group, which is what later writers are told apart by.
func (s *sink) claim(ctx context.Context) error {
	if _, err := s.db.ExecContext(ctx, createOffsets); err != nil {
		return fmt.Errorf("create %s: %w", offsetsTable, err)
	}
	err := s.db.QueryRowContext(ctx, `INSERT INTO `+offsetsTable+` VALUES (?, '', NULL, 1)
		ON CONFLICT ("group", stream) DO UPDATE SET epoch = epoch + 1 RETURNING epoch`, s.env.Group).Scan(&s.epoch)
	if err != nil {
		return fmt.Errorf("claim group %q: %w", s.env.Group, err)
	}
	return nil
}

// Committed claims the stream for this writer.
func (s *sink) Committed(ctx context.Context, stream string) (connectors.Position, error) {
	var position []byte
	err := s.db.QueryRowContext(ctx, `INSERT INTO `+offsetsTable+` VALUES (?, ?, NULL, ?)
		ON CONFLICT ("group", stream) DO UPDATE SET epoch = excluded.epoch WHERE epoch <= excluded.epoch RETURNING position`,
		s.env.Group, stream, s.epoch).Scan(&position)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, fmt.Errorf("read position of %s: %w", stream, connectors.ErrFenced)
	case err != nil:
		return nil, fmt.Errorf("read position of %s: %w", stream, err)
	}
	return position, nil
}

// Write stores the batch and its position in one transaction.
func (s *sink) Write(ctx context.Context, b connectors.Batch) error {
	for i := range b.Changes {
		if c := &b.Changes[i]; c.Op != connectors.Message {
			if s.targets[s.fitter.Table(c.Table, foreign(c.Table))] != nil {
				continue
			}
			if err := s.Migrate(ctx, connectors.Migration{To: c.Table}); err != nil {
				return err
			}
		}
	}
	changes, err := s.fitter.Fit(b.Changes, foreign, func(t *connectors.Table) ([]connectors.Holds, error) { return s.holds(ctx, t) })
	if err != nil {
		return err
	}
	b.Changes = changes
	if err := s.db.transact(ctx, func() error { return s.write(ctx, b) }); err != nil {
		return fmt.Errorf("write batch: %w", err)
	}
	s.fitter.Written()
	return nil
}

func (s *sink) write(ctx context.Context, b connectors.Batch) error {
	if err := s.advance(ctx, b); err != nil {
		return err
	}
	w := writer{sink: s}
	for i := range b.Changes {
		if err := w.change(ctx, i, &b.Changes[i]); err != nil {
			return err
		}
	}
	if err := w.flush(ctx); err != nil {
		return err
	}
	if len(w.refused) > 0 {
		return &connectors.RowsError{Rows: w.sorted()}
	}
	return nil
}

// advance stores the position, unless a newer writer has the stream.
func (s *sink) advance(ctx context.Context, b connectors.Batch) error {
	query := `INSERT INTO ` + offsetsTable + ` VALUES (?, ?, ?, ?) ON CONFLICT ("group", stream) DO UPDATE
		SET position = coalesce(excluded.position, position), epoch = excluded.epoch WHERE epoch <= excluded.epoch`
	var position any
	if b.Position != nil {
		position = []byte(b.Position)
	}
	n, err := s.statements.exec(ctx, query, s.env.Group, b.Stream, position, s.epoch)
	if err != nil {
		return fmt.Errorf("store position of %s: %w", b.Stream, err)
	}
	if n == 0 {
		return fmt.Errorf("store position of %s: %w", b.Stream, connectors.ErrFenced)
	}
	return nil
}

// WholeRows is true where each image becomes a row.
func (s *sink) WholeRows() bool { return s.config.Write == Append }

// Close ends the connection.
func (s *sink) Close(context.Context) error {
	return errors.Join(s.statements.close(), s.db.close())
}
