package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/trunkline/trunkline/connectors"
)

// maxName is the length in bytes above which the server cuts a name, and two names could become one.
const maxName = 63

// Migrate makes the target of a table fit its new version, as far as the setting schema allows. The plan is made and
// carried out in the transaction that stores the step's position, so a step that comes again finds it done.
func (s *Sink) Migrate(ctx context.Context, m connectors.Migration) error {
	m.From, m.To = s.fitter.Table(m.From, foreign(m.From)), s.fitter.Table(m.To, foreign(m.To))
	schema, name := s.template.expand(m.To)
	if err := checkNames(schema, name, m.To); err != nil {
		return err
	}
	if s.claims[m.Stream] == nil && m.Stream != "" {
		if _, err := s.Committed(ctx, m.Stream); err != nil {
			return err
		}
	}
	if err := s.dropStage(ctx, schema, name); err != nil {
		return err
	}
	s.forget(schema, name)
	var p *fitting
	err := pgx.BeginFunc(ctx, s.conn, func(tx pgx.Tx) error {
		done, err := s.step(ctx, tx, m)
		if err != nil {
			return err
		}
		if done {
			m.From = m.To
		}
		if p, err = s.compare(ctx, m); err != nil {
			return fmt.Errorf("compare table %s.%s: %w", schema, name, s.fault(err))
		}
		return p.run(ctx, tx)
	})
	s.forget(schema, name)
	if err != nil {
		return err
	}
	t, err := s.targetFor(ctx, m.To)
	if err != nil {
		return err
	}
	p.tell()
	if err := s.warnOfOrder(ctx, p, t); err != nil {
		return fmt.Errorf("look at the session's role: %w", s.fault(err))
	}
	if len(p.warnings) > 0 {
		warning := strings.Join(p.warnings, "; ")
		s.env.Logger.Warn(warning, "sink", s.env.Name, "table", schema+"."+name)
		s.env.Report(connectors.Report{Table: m.To.FullName(), Reason: warning})
	}
	_, err = s.routeFor(ctx, m.To)
	return err
}

// step stores the position of a migration, and reports whether it had been stored before. The lock on its row makes a
// writer's successor wait for a migration that is under way.
func (s *Sink) step(ctx context.Context, tx pgx.Tx, m connectors.Migration) (done bool, err error) {
	if m.Stream == "" {
		return false, nil
	}
	var held []byte
	err = tx.QueryRow(ctx, "SELECT position FROM "+s.offsets+" WHERE sink = $1 AND stream = $2 AND epoch = $3 FOR UPDATE",
		s.env.Group, m.Stream, s.claims[m.Stream].epoch).Scan(&held)
	switch {
	case err == pgx.ErrNoRows:
		return false, fmt.Errorf("migrate stream %q for group %q: %w", m.Stream, s.env.Group, connectors.ErrFenced)
	case err != nil:
		return false, fmt.Errorf("read position in %s: %w", s.offsets, s.fault(err))
	case bytes.Equal(held, m.Position):
		return true, nil
	}
	_, err = tx.Exec(ctx, "UPDATE "+s.offsets+" SET position = $1, updated_at = now() WHERE sink = $2 AND stream = $3", []byte(m.Position), s.env.Group, m.Stream)
	if err != nil {
		return false, fmt.Errorf("store position in %s: %w", s.offsets, s.fault(err))
	}
	return false, nil
}

// run carries out a plan. What the server refuses for good is a SchemaError.
func (p *fitting) run(ctx context.Context, tx pgx.Tx) error {
	if len(p.frozen) > 0 {
		return &connectors.SchemaError{Target: p.name, Problem: p.problem, Statement: strings.Join(p.frozen, "; ")}
	}
	if len(p.changes) == 0 {
		return nil
	}
	if err := p.sink.serialize(ctx, tx); err != nil {
		return err
	}
	for _, c := range p.changes {
		err := attempt(ctx, tx, c.sql)
		if c.otherwise != "" && isMismatch(err) {
			c.sql = c.otherwise
			err = attempt(ctx, tx, c.sql)
		}
		switch {
		case err == nil:
			p.done = append(p.done, c.sql)
		case isPassing(err):
			return fmt.Errorf("run %s: %w", c.sql, err)
		default:
			return &connectors.SchemaError{Target: p.name, Problem: c.what, Statement: c.sql, Err: p.sink.fault(err)}
		}
	}
	return nil
}

// attempt runs a statement in a savepoint, so that another can be tried after it.
func attempt(ctx context.Context, tx pgx.Tx, sql string) error {
	return pgx.BeginFunc(ctx, tx, func(inner pgx.Tx) error {
		_, err := inner.Exec(ctx, sql)
		return err
	})
}

// isMismatch reports that a type does not become another without being told how.
func isMismatch(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "42804"
}

// passingClasses are the classes of SQLSTATE that end by themselves: connection, rollback, resources, locks, operator.
var passingClasses = []string{"08", "40", "53", "55", "57", "58"}

// isPassing reports an error that trying again may not meet: the server's condition, or the way to it.
func isPassing(err error) bool {
	var pg *pgconn.PgError
	return !errors.As(err, &pg) || len(pg.Code) != 5 || slices.Contains(passingClasses, pg.Code[:2])
}

// tell says what was done, and what the target does not show of it.
func (p *fitting) tell() {
	if len(p.done) > 0 {
		p.sink.env.Logger.Info("migrated: "+strings.Join(p.done, "; "), "sink", p.sink.env.Name, "table", p.name)
	}
	if len(p.added) > 0 && p.filled {
		p.warnings = append(p.warnings, "column "+strings.Join(p.added, ", ")+" was added: rows that were written before hold NULL there until the table is resynced")
	}
}

// warnOfOrder says which constraints rows may violate because they come in another order than they were written in.
func (s *Sink) warnOfOrder(ctx context.Context, p *fitting, t *target) error {
	if t == nil || !t.foreign && len(t.unique) < 2 {
		return nil
	}
	replica, err := isReplica(ctx, s.conn)
	if err != nil {
		return err
	}
	var what []string
	if t.foreign && !replica {
		what = append(what, "foreign keys, which are checked (let a superuser run GRANT SET ON PARAMETER session_replication_role TO our user, and leave replication_role at replica)")
	}
	if len(t.unique) > 1 {
		what = append(what, "unique indexes besides its key")
	}
	if len(what) > 0 {
		p.warnings = append(p.warnings, "the target has "+strings.Join(what, " and ")+": topics and their partitions are written "+
			"each in its own order, so a row may come before the one that it needs and be refused")
	}
	return nil
}

// checkNames refuses names that the server would cut.
func checkNames(schema, name string, table *connectors.Table) error {
	names := []string{schema, name}
	for _, c := range table.Columns {
		names = append(names, c.Name)
	}
	for _, n := range names {
		if len(n) > maxName {
			return fmt.Errorf("%w: the name %q is longer than the %d bytes that PostgreSQL keeps; rename it with a transform or the setting table", connectors.ErrFatal, n, maxName)
		}
	}
	return nil
}
