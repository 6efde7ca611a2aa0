//go:build duckdb

package duckdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/fold"
)

// offsetsTable holds for each stream of a group the position of the last batch and the number of the writer that has it.
// The row with an empty stream holds the number of the newest writer of the group.
const offsetsTable = "_trunkline_offsets"

const createOffsets = `CREATE TABLE IF NOT EXISTS main.` + offsetsTable + ` (
	"group" VARCHAR NOT NULL, stream VARCHAR NOT NULL, position BLOB, epoch BIGINT NOT NULL, PRIMARY KEY ("group", stream))`

// What connectors.SettleDeletes settles on, beside apply.
const (
	softDeletes   = "soft"
	ignoreDeletes = "ignore"
)

// sink is used by one goroutine.
type sink struct {
	config  *SinkConfig
	env     connectors.Env
	db      *database
	epoch   int64
	fitter  *connectors.Fitter
	targets map[*connectors.Table]*target
	folded  *fold.Batch
}

func open(ctx context.Context, c *SinkConfig, env connectors.Env) (connectors.Sink, error) {
	db, err := connect(ctx, c, false)
	if err != nil {
		return nil, err
	}
	s := &sink{config: c, env: env, db: db, fitter: connectors.NewFitter(c.Unrepresentable, env.Report), targets: map[*connectors.Table]*target{}}
	if err := s.claim(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("claim group %q: %w", env.Group, err), db.close())
	}
	return s, nil
}

// claim takes the next number of the group, which is what later writers are told apart by.
func (s *sink) claim(ctx context.Context) error {
	if _, err := s.db.ExecContext(ctx, createOffsets); err != nil {
		return fmt.Errorf("create %s: %w", offsetsTable, err)
	}
	return s.db.transact(ctx, func() error {
		_, newest, err := s.held(ctx, "")
		if err != nil {
			return err
		}
		s.epoch = newest + 1
		return s.store(ctx, "", nil)
	})
}

// held reads the row of a stream; zero values if there is none.
func (s *sink) held(ctx context.Context, stream string) (position connectors.Position, epoch int64, err error) {
	var b []byte
	err = s.db.QueryRowContext(ctx, `SELECT position, epoch FROM main.`+offsetsTable+` WHERE "group" = ? AND stream = ?`, s.env.Group, stream).Scan(&b, &epoch)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, 0, nil
	}
	return b, epoch, err
}

// store writes the row of a stream; without a position it keeps the one that is there. Of two transactions that write the
// same row DuckDB makes one fail.
func (s *sink) store(ctx context.Context, stream string, position connectors.Position) error {
	var blob any
	if position != nil {
		blob = []byte(position)
	}
	_, err := s.db.ExecContext(ctx, `INSERT INTO main.`+offsetsTable+` VALUES (?, ?, ?, ?) ON CONFLICT ("group", stream) DO UPDATE
		SET position = coalesce(excluded.position, position), epoch = excluded.epoch`, s.env.Group, stream, blob, s.epoch)
	return err
}

// advance stores a position, unless a newer writer has the stream, and returns the one before.
func (s *sink) advance(ctx context.Context, stream string, position connectors.Position) (before connectors.Position, err error) {
	before, epoch, err := s.held(ctx, stream)
	if err == nil && epoch > s.epoch {
		err = connectors.ErrFenced
	}
	if err == nil {
		err = s.store(ctx, stream, position)
	}
	if err != nil {
		return nil, fmt.Errorf("store position of %s: %w", stream, err)
	}
	return before, nil
}

// Committed claims the stream for this writer.
func (s *sink) Committed(ctx context.Context, stream string) (position connectors.Position, err error) {
	err = s.db.transact(ctx, func() error {
		position, err = s.advance(ctx, stream, nil)
		return err
	})
	return position, err
}

// WholeRows is true where each image becomes a row.
func (s *sink) WholeRows() bool { return s.config.Write == writeAppend }

// Write stores the batch and its position in one transaction.
func (s *sink) Write(ctx context.Context, b connectors.Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	changes, err := s.fitter.Fit(b.Changes, func(*connectors.Table) bool { return true }, func(t *connectors.Table) ([]connectors.Holds, error) {
		tg, err := s.target(ctx, t)
		if err != nil {
			return nil, err
		}
		return tg.holds, nil
	})
	if err != nil {
		return err
	}
	parts, err := s.parts(ctx, changes, b.Stream)
	if err != nil {
		return err
	}
	err = s.db.transact(ctx, func() error {
		if _, err := s.advance(ctx, b.Stream, b.Position); err != nil {
			return err
		}
		return s.applyParts(ctx, parts)
	})
	if err != nil && isRow(err) && ctx.Err() == nil {
		return s.sift(ctx, parts, err)
	}
	if err != nil {
		return fmt.Errorf("write batch: %w", tame(err))
	}
	s.fitter.Written()
	return nil
}

// part is what a batch comes to up to its end, or, where rows that go leave a mark, up to a truncate: then rows from before
// it are in the store when it comes.
type part struct {
	groups    []group
	truncated []*target // their rows go before anything is stored
}

func (s *sink) applyParts(ctx context.Context, parts []part) error {
	for _, p := range parts {
		for _, tg := range p.truncated {
			if _, err := s.db.ExecContext(ctx, tg.empty()); err != nil {
				return fmt.Errorf("truncate %s: %w", tg.name, err)
			}
		}
		for i := range p.groups {
			if err := s.apply(ctx, &p.groups[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// parts sorts a batch: what its keys come to, or with append each of its images.
func (s *sink) parts(ctx context.Context, changes []connectors.Change, stream string) (out []part, err error) {
	if s.config.Write == writeAppend {
		p := part{}
		refused, err := s.images(changes, func(t *connectors.Table, e entry) error { return s.add(ctx, &p, t, e) })
		if err == nil && refused != nil {
			err = &connectors.RowsError{Rows: refused}
		}
		return []part{p}, err
	}
	if s.config.Deletes == ignoreDeletes {
		changes = kept(changes)
	}
	var refused []connectors.RowError
	for start := 0; start < len(changes); {
		end := len(changes)
		if s.config.Deletes == softDeletes {
			for end = start + 1; end < len(changes) && changes[end].Op != connectors.Truncate; end++ {
			}
		}
		memory := s.folded
		if len(out) > 0 {
			memory = nil // the part before points into it
		}
		s.folded = fold.Fold(changes[start:end], stream, memory)
		var rows *connectors.RowsError
		if errors.As(s.folded.Refused(), &rows) {
			for _, r := range rows.Rows {
				refused = append(refused, connectors.RowError{Index: start + r.Index, Err: r.Err})
			}
		}
		p, err := s.part(ctx, start)
		if err != nil {
			return nil, err
		}
		out, start = append(out, p), end
	}
	if refused != nil {
		return nil, &connectors.RowsError{Rows: refused}
	}
	return out, nil
}

// part takes what was folded of the changes from first on.
func (s *sink) part(ctx context.Context, first int) (p part, err error) {
	for _, t := range s.folded.Truncated {
		tg, err := s.target(ctx, t)
		if err != nil {
			return p, err
		}
		p.truncated = append(p.truncated, tg)
	}
	for _, r := range s.folded.Rows {
		e := entry{values: r.Values, from: r.From, index: first + r.Index, gone: r.Values == nil}
		switch {
		case !e.gone:
		case s.config.Deletes == softDeletes && r.Was != nil:
			e.values, e.from = r.Was, r.WasFrom
		default:
			e.bare, e.values = true, make([]connectors.Value, len(r.Table.Columns))
			for i, k := range r.Table.Key {
				e.values[k] = r.Keys[i]
			}
		}
		if err := s.add(ctx, &p, r.Table, e); err != nil {
			return p, err
		}
	}
	return p, nil
}

// add puts a row into the group of its target.
func (s *sink) add(ctx context.Context, p *part, t *connectors.Table, e entry) error {
	tg, err := s.target(ctx, t)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(p.groups, func(g group) bool { return g.target == tg })
	if at < 0 {
		at, p.groups = len(p.groups), append(p.groups, group{target: tg})
	}
	p.groups[at].entries = append(p.groups[at].entries, e)
	return nil
}

// images passes the row of each change on, for write: append.
func (s *sink) images(changes []connectors.Change, add func(*connectors.Table, entry) error) (refused []connectors.RowError, err error) {
	for i := range changes {
		c := &changes[i]
		row, gone := c.After, false
		switch c.Op {
		case connectors.Message, connectors.Truncate:
			continue
		case connectors.Delete:
			if s.config.Deletes != softDeletes {
				continue
			}
			row, gone = c.Before, true
		}
		if len(row) != len(c.Table.Columns) {
			refused = append(refused, connectors.RowError{Index: i, Err: fold.ErrNoColumns})
			continue
		}
		if err := add(c.Table, entry{values: row, index: i, gone: gone}); err != nil {
			return nil, err
		}
	}
	return refused, nil
}

// kept returns the changes without those in which rows go; messages keep the places of the others.
func kept(changes []connectors.Change) []connectors.Change {
	out := make([]connectors.Change, len(changes))
	for i, c := range changes {
		if c.Op == connectors.Delete || c.Op == connectors.Truncate {
			c = connectors.Change{Op: connectors.Message}
		}
		out[i] = c
	}
	return out
}

// Close ends the connection, and with the last one of a file DuckDB writes what is in its log into it.
func (s *sink) Close(context.Context) error { return s.db.close() }
