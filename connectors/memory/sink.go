package memory

import (
	"context"
	"fmt"

	"github.com/trunkline/trunkline/connectors"
)

// Open returns a sink that keeps its positions in the store: connectors.Transactional and connectors.Migrator.
func (s *Store) Open(ctx context.Context, env connectors.Env) (connectors.Sink, error) {
	if err := s.pass(ctx, &s.shut); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epochs[env.Group]++
	return &sink{plain{store: s, group: env.Group, epoch: s.epochs[env.Group], keep: true}}, nil
}

// OpenPlain returns a sink that keeps no positions, so that its caller must.
func (s *Store) OpenPlain(ctx context.Context, _ connectors.Env) (connectors.Sink, error) {
	if err := s.pass(ctx, &s.shut); err != nil {
		return nil, err
	}
	return &plain{store: s}, nil
}

// plain is the sink without Committed.
type plain struct {
	store *Store
	group string
	epoch int64
	keep  bool // store the position of every batch
}

// sink adds Committed.
type sink struct{ plain }

// Migrate follows the step, and stores its position with it.
func (p *plain) Migrate(ctx context.Context, m connectors.Migration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s := p.store
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.wake()
	if s.resist != nil {
		if err := s.resist(m); err != nil {
			return err
		}
	}
	if err := p.advance(m.Stream, m.Position); err != nil {
		return fmt.Errorf("migrate table: %w", err)
	}
	s.follow(m)
	s.steps = append(s.steps, m)
	return nil
}

// advance stores a position, unless a newer writer has the stream. The lock is held.
func (p *plain) advance(stream string, position connectors.Position) error {
	if !p.keep {
		return nil
	}
	at := streamKey{p.group, stream}
	if p.store.positions[at].epoch > p.epoch {
		return connectors.ErrFenced
	}
	if position != nil {
		p.store.positions[at] = mark{append(connectors.Position(nil), position...), p.epoch}
	}
	return nil
}

// Write applies the whole batch or nothing.
func (p *plain) Write(ctx context.Context, b connectors.Batch) error {
	if err := p.wait(ctx); err != nil {
		return err
	}
	s := p.store
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.wake()
	if len(s.before) > 0 {
		err := s.before[0]
		s.before = s.before[1:]
		return err
	}
	if rows := s.refused(b); rows != nil {
		return rows
	}
	if err := p.advance(b.Stream, b.Position); err != nil {
		return fmt.Errorf("write batch: %w", err)
	}
	for i := range b.Changes {
		s.apply(b.Stream, &b.Changes[i])
	}
	s.writes++
	if len(s.after) > 0 {
		err := s.after[0]
		s.after = s.after[1:]
		return err
	}
	return nil
}

// wait hangs while the store is blocked.
func (p *plain) wait(ctx context.Context) error {
	s := p.store
	s.mu.Lock()
	blocked := s.blocked
	s.mu.Unlock()
	if blocked != nil {
		s.set(func() { s.waiting++ })
		defer s.set(func() { s.waiting-- })
		select {
		case <-blocked:
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

func (s *Store) refused(b connectors.Batch) error {
	if s.refuse == nil {
		return nil
	}
	var rows []connectors.RowError
	for i := range b.Changes {
		if err := s.refuse(&b.Changes[i]); err != nil {
			rows = append(rows, connectors.RowError{Index: i, Err: err})
		}
	}
	if rows == nil {
		return nil
	}
	return &connectors.RowsError{Rows: rows}
}

// Close has nothing to release.
func (p *plain) Close(context.Context) error { return nil }

// Committed claims the stream for this writer.
func (s *sink) Committed(ctx context.Context, stream string) (connectors.Position, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	st := s.store
	st.mu.Lock()
	defer st.mu.Unlock()
	at := streamKey{s.group, stream}
	m := st.positions[at]
	if m.epoch > s.epoch {
		return nil, fmt.Errorf("read position: %w", connectors.ErrFenced)
	}
	m.epoch = s.epoch
	st.positions[at] = m
	return m.position, nil
}
