package pipeline

import (
	"context"
	"fmt"
	"slices"

	"github.com/trunkline/trunkline/log"
)

// Target is what a command is about: a source, a sink, or one table of a source.
type Target struct {
	Role  Role
	Name  string
	Table string // schema.table; empty: the whole
}

func (t Target) String() string {
	if t.Table == "" {
		return fmt.Sprintf("%s %s", t.Role, t.Name)
	}
	return fmt.Sprintf("table %s of %s %s", t.Table, t.Role, t.Name)
}

// Resync reads a source or one of its tables anew, or lets a sink read its topics anew.
func (p *Pipeline) Resync(ctx context.Context, t Target) error {
	if _, err := p.find(t); err != nil {
		return err
	}
	if t.Role == RoleSink {
		s, err := p.sink(t.Name)
		if err != nil {
			return err
		}
		return s.resync(ctx, t)
	}
	i := slices.IndexFunc(p.roster().sources, func(s *source) bool { return s.name == t.Name })
	return p.roster().sources[i].resync(ctx, t)
}

// find returns the member behind a target that can take commands.
func (p *Pipeline) find(t Target) (*member, error) {
	m := p.memberOf(t)
	if m == nil {
		return nil, fmt.Errorf("%s %s: %w", t.Role, t.Name, ErrUnknown)
	}
	if !p.Running() {
		return nil, fmt.Errorf("%s %s: %w: start it with trunkline run", t.Role, t.Name, ErrNotRunning)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away {
		return nil, fmt.Errorf("%s %s: %w: another process runs it, ask that one with --addr", t.Role, t.Name, ErrNotRunning)
	}
	return m, nil
}

// ResetGroup moves the offsets of a group. The group of a configured sink is moved together with what the sink itself
// remembers, whether the sink runs or not; any other group must have no members.
func (p *Pipeline) ResetGroup(ctx context.Context, group string, offsets log.Offsets) error {
	for _, c := range p.roster().config.Sinks {
		if c.Group != group {
			continue
		}
		if i := slices.IndexFunc(p.roster().sinks, func(s *sink) bool { return s.name == c.Name }); i >= 0 {
			return p.roster().sinks[i].reset(ctx, offsets)
		}
	}
	return p.journal.SetOffsets(ctx, group, offsets)
}
