package mysql

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/trunkline/trunkline/connectors"
)

// The server commits DDL by itself, so a step and its position cannot be stored together. Before the one ALTER TABLE of a
// step a note of it is stored: what the target looked like. When the step comes again after a crash and the target looks
// different, the ALTER was carried out. All of it happens under one lock of the server that the session holds as long as
// its statement runs, so a step that comes again waits for what its dead writer has begun.
type note struct {
	Position []byte      `json:"position"`
	Columns  [][2]string `json:"columns"` // names and types in the order of the target
}

// noteStream is the stream under which the note of a step is stored.
func noteStream(stream string) string { return stream + "!" }

// Migrate makes the target of a table fit its new version, as far as the setting schema allows.
func (s *Sink) Migrate(ctx context.Context, m connectors.Migration) error {
	m.From, m.To = s.fitter.Table(m.From, foreign(m.From)), s.fitter.Table(m.To, foreign(m.To))
	name, err := s.config.target(m.To, s.database)
	if err != nil {
		return err
	}
	for t, tg := range s.targets {
		if tg.name == name {
			delete(s.targets, t)
		}
	}
	if err := s.migrate(ctx, m, name); err != nil {
		return err
	}
	_, err = s.target(ctx, m.To)
	return err
}

func (s *Sink) migrate(ctx context.Context, m connectors.Migration, name tableName) error {
	if name.schema == "" {
		return fmt.Errorf("write into table %s: no database; set database, or table to name one: %w", name.name, connectors.ErrFatal)
	}
	if m.Stream != "" {
		if _, ok := s.epochs[m.Stream]; !ok {
			if _, err := s.Committed(ctx, m.Stream); err != nil {
				return err
			}
		}
		held, err := s.held(ctx, m.Stream)
		if err != nil {
			return err
		}
		if bytes.Equal(held, m.Position) {
			m.From = m.To
		}
	}
	p, err := s.compare(ctx, m, name)
	if err != nil {
		return fmt.Errorf("compare table %s: %w", name.full(), settle(err))
	}
	if left := p.left(); left != "" {
		return &connectors.SchemaError{Target: name.full(), Problem: p.problem, Statement: left}
	}
	if m.From != m.To || len(p.statements()) > 0 {
		if err := s.locked(ctx, func() error { return s.alter(ctx, m, name) }); err != nil {
			return err
		}
	}
	for _, warning := range p.warnings {
		s.env.Logger.Warn(warning, "sink", s.env.Name, "table", name.full())
		s.env.Report(connectors.Report{Table: m.To.FullName(), Reason: warning})
	}
	return s.keep(ctx, m)
}

// alter carries a step out. The lock is held, so nobody else changes tables now.
func (s *Sink) alter(ctx context.Context, m connectors.Migration, name tableName) error {
	p, err := s.compare(ctx, m, name)
	if err != nil {
		return fmt.Errorf("compare table %s: %w", name.full(), settle(err))
	}
	if m.Stream != "" && m.From != m.To {
		done, err := s.noted(ctx, m, p)
		if err != nil {
			return err
		}
		if done {
			m.From = m.To
			if p, err = s.compare(ctx, m, name); err != nil {
				return fmt.Errorf("compare table %s: %w", name.full(), settle(err))
			}
		}
	}
	for _, statement := range p.statements() {
		err := s.exec(ctx, statement)
		switch {
		case err == nil:
			s.env.Logger.Info("migrated: "+statement, "sink", s.env.Name, "table", name.full())
		case isPassing(err):
			return fmt.Errorf("run %.200s: %w", statement, err)
		default:
			return &connectors.SchemaError{Target: name.full(), Problem: p.problem, Statement: statement, Err: describe(err)}
		}
	}
	return nil
}

// noted stores the note of a step, unless it is there: then it reports whether the target has changed since.
func (s *Sink) noted(ctx context.Context, m connectors.Migration, p *fitting) (done bool, err error) {
	text, err := s.held(ctx, noteStream(m.Stream))
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return false, err
	}
	now := note{Position: m.Position, Columns: [][2]string{}}
	for _, c := range p.existing {
		now.Columns = append(now.Columns, [2]string{c.name, c.typ})
	}
	var before note
	if text != nil && json.Unmarshal(text, &before) == nil && bytes.Equal(before.Position, m.Position) {
		return !slices.Equal(before.Columns, now.Columns), nil
	}
	if text, err = json.Marshal(now); err != nil {
		return false, err
	}
	return false, s.transact(ctx, m.Stream, func() error {
		_, err := s.conn.ExecContext(ctx, "INSERT INTO "+s.offsets+" (sink, stream, position, epoch, updated_at) VALUES (?, ?, ?, 0, UTC_TIMESTAMP(6)) "+
			"ON DUPLICATE KEY UPDATE position = VALUES(position), updated_at = VALUES(updated_at)", s.env.Group, noteStream(m.Stream), text)
		return err
	})
}

// keep stores the position of a step that is done, and drops its note.
func (s *Sink) keep(ctx context.Context, m connectors.Migration) error {
	if m.Stream == "" {
		return nil
	}
	return s.transact(ctx, m.Stream, func() error {
		if _, err := s.conn.ExecContext(ctx, "DELETE FROM "+s.offsets+" WHERE sink = ? AND stream = ?", s.env.Group, noteStream(m.Stream)); err != nil {
			return err
		}
		_, err := s.conn.ExecContext(ctx, "UPDATE "+s.offsets+" SET position = ?, updated_at = UTC_TIMESTAMP(6) WHERE sink = ? AND stream = ?", []byte(m.Position), s.env.Group, m.Stream)
		return err
	})
}

// transact runs do in a transaction that holds the row of a stream, unless a newer writer has the stream.
func (s *Sink) transact(ctx context.Context, stream string, do func() error) error {
	err := s.exec(ctx, "START TRANSACTION")
	if err == nil {
		var epoch int64
		err = s.conn.QueryRowContext(ctx, "SELECT epoch FROM "+s.offsets+" WHERE sink = ? AND stream = ? FOR UPDATE", s.env.Group, stream).Scan(&epoch)
		if errors.Is(err, sql.ErrNoRows) || err == nil && epoch != s.epochs[stream] {
			err = connectors.ErrFenced
		}
	}
	if err == nil {
		err = do()
	}
	if err == nil {
		err = s.exec(ctx, "COMMIT")
	}
	if err != nil {
		err = errors.Join(err, s.exec(context.WithoutCancel(ctx), "ROLLBACK"))
		return fmt.Errorf("store position of %q in %s: %w", stream, s.offsets, settle(err))
	}
	return nil
}

// held returns the position of a stream; nil if it has none.
func (s *Sink) held(ctx context.Context, stream string) ([]byte, error) {
	var position []byte
	err := s.conn.QueryRowContext(ctx, "SELECT position FROM "+s.offsets+" WHERE sink = ? AND stream = ?", s.env.Group, stream).Scan(&position)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("read position of %q in %s: %w", stream, s.offsets, settle(err))
	}
	return position, nil
}

// locked runs do while this session holds the lock of migrations.
func (s *Sink) locked(ctx context.Context, do func() error) error {
	var got sql.NullInt64
	if err := s.conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, ?)", migrationLock, migrationWait).Scan(&got); err != nil {
		return settle(err)
	}
	if got.Int64 != 1 {
		return fmt.Errorf("wait for another sink's migration: longer than %d seconds", migrationWait)
	}
	failed := do()
	_, err := s.conn.ExecContext(context.WithoutCancel(ctx), "DO RELEASE_LOCK('"+migrationLock+"')")
	return errors.Join(failed, err)
}

// isPassing reports an error that trying again may not meet: locks, the server's condition, or the way to it.
func isPassing(err error) bool {
	switch code(err) {
	case 0, 1205, 1213, 1040, 1053, 1077, 1079, 1158, 1159, 1160, 1161, 1290, 1317, 1836, 1927, 3024:
		return true
	}
	return false
}
