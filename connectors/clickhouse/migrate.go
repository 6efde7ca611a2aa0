package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/trunkline/trunkline/connectors"
)

// Migrate makes the target of a table fit its new version, as far as the setting schema allows. Each statement of it can
// come again after a crash, and finds what was done.
func (s *sink) Migrate(ctx context.Context, m connectors.Migration) error {
	if s.config.Write == writeAppend {
		m.From, m.To = s.images.Table(m.From), s.images.Table(m.To)
	}
	m.From, m.To = s.fitter.Table(m.From, true), s.fitter.Table(m.To, true)
	_, err := s.prepare(ctx, m)
	return err
}

// prepare looks at the target, changes it, and learns its columns.
func (s *sink) prepare(ctx context.Context, m connectors.Migration) (*target, error) {
	name := s.config.name(m.To, s.database)
	p := &fitting{sink: s, target: quote(name[0]) + "." + quote(name[1])}
	f, err := s.look(ctx, name)
	switch {
	case err != nil:
	case f == nil:
		if f, err = s.make(ctx, m.To, name, p); err == nil && f == nil {
			err = errors.New("it was made and is not there")
		}
	default:
		if err = s.fits(m.To, f, p.target); err == nil {
			err = p.change(ctx, m, f)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("prepare table %s: %w", p.target, fatal(err))
	}
	tg := &target{name: name, keyless: len(m.To.Key) == 0, soft: s.config.Deletes == softDeletes}
	if err := tg.build(m.To, f, s.names[name]); err != nil {
		return nil, fmt.Errorf("prepare table %s: %w: %w", p.target, err, connectors.ErrFatal)
	}
	s.targets[m.To], s.names[name] = tg, tg
	return tg, nil
}

// fitting makes a target fit its table, one statement at a time, since ClickHouse has no transaction over several.
type fitting struct {
	sink    *sink
	target  string
	problem string   // what a person has to do, the first of it
	frozen  []string // with these statements
}

// follow does what the policy says about a difference, and reports whether the target has the change now.
func (p *fitting) follow(ctx context.Context, f connectors.Follow, what, statement string) (bool, error) {
	switch f {
	case connectors.Evolve:
		if err := p.sink.conn.Exec(ctx, statement); err != nil {
			if code(err) == 0 {
				return false, err
			}
			return false, &connectors.SchemaError{Target: p.target, Problem: what, Statement: statement, Err: err}
		}
		return true, nil
	case connectors.Freeze:
		if p.problem == "" {
			p.problem = what + ", and schema is freeze"
		}
		p.frozen = append(p.frozen, statement)
	case connectors.Lenient:
		reason := what + "; the target is left as it is (schema is lenient)"
		p.sink.env.Logger.Warn(reason, "sink", p.sink.env.Name, "table", p.target)
		p.sink.env.Report(connectors.Report{Reason: reason})
	}
	return false, nil
}

// err is what is left to a person.
func (p *fitting) err() error {
	if p.problem == "" {
		return nil
	}
	return &connectors.SchemaError{Target: p.target, Problem: p.problem, Statement: strings.Join(p.frozen, "; ")}
}

// make creates a table that is not there.
func (s *sink) make(ctx context.Context, t *connectors.Table, name [2]string, p *fitting) (*found, error) {
	f, statement := s.config.Schema.Add, s.create(t, name)
	switch f {
	case connectors.Lenient:
		f = connectors.Evolve
	case connectors.Ignore:
		return nil, &connectors.SchemaError{Target: p.target, Problem: "it does not exist, and schema is ignore", Statement: statement}
	}
	if name[0] != s.database && f == connectors.Evolve {
		if err := s.conn.Exec(ctx, "CREATE DATABASE IF NOT EXISTS "+quote(name[0])); err != nil {
			return nil, fmt.Errorf("create its database: %w", err)
		}
	}
	if _, err := p.follow(ctx, f, "it does not exist", statement); err != nil {
		return nil, err
	}
	if err := p.err(); err != nil {
		return nil, err
	}
	return s.look(ctx, name)
}

// change follows what differs between a table and its target: columns that are gone, renamed, new and of another type.
// Every difference is looked for in the target itself, so a step that comes again does only what was left.
func (p *fitting) change(ctx context.Context, m connectors.Migration, f *found) error {
	policy, alter := &p.sink.config.Schema, "ALTER TABLE "+p.target+" "
	for _, name := range m.Dropped() {
		if _, ok := f.columns[name]; !ok || inKey(m.To, name) {
			continue
		}
		done, err := p.follow(ctx, policy.Drop, "its source has no column "+quote(name)+" any more", alter+"DROP COLUMN "+quote(name))
		if err != nil {
			return err
		}
		if done {
			delete(f.columns, name)
		}
	}
	if err := p.rename(ctx, m, f, alter); err != nil {
		return err
	}
	for i := range m.To.Columns {
		if err := p.column(ctx, m, i, f, alter); err != nil {
			return err
		}
	}
	return p.err()
}

// rename follows new names. Where a column takes the name of another, a step that comes again could not tell what was done,
// so that is left to a person.
func (p *fitting) rename(ctx context.Context, m connectors.Migration, f *found, alter string) error {
	list := slices.DeleteFunc(m.Renames(), func(r connectors.Renamed) bool { _, ok := f.columns[r.From]; return !ok || !p.sink.server.renames })
	follow := p.sink.config.Schema.Rename
	for _, r := range list {
		if _, ok := f.columns[r.To]; ok && (follow == connectors.Evolve || follow == connectors.Freeze) {
			return &connectors.SchemaError{Target: p.target, Problem: "its source has given the name " + quote(r.To) + " to another column",
				Statement: alter + "RENAME COLUMN … for all columns with new names, set schema: {rename: ignore} until it goes on,"}
		}
	}
	for _, r := range list {
		done, err := p.follow(ctx, follow, "its source calls column "+quote(r.From)+" "+quote(r.To)+" now", alter+"RENAME COLUMN "+quote(r.From)+" TO "+quote(r.To))
		if err != nil {
			return err
		}
		if done {
			f.columns[r.To] = f.columns[r.From]
			delete(f.columns, r.From)
		}
	}
	return nil
}

// column adds a column that is not there, and changes one whose type in the source is another than before.
func (p *fitting) column(ctx context.Context, m connectors.Migration, i int, f *found, alter string) error {
	c, kind := &m.To.Columns[i], p.sink.server.declare(m.To, i)
	have, ok := f.columns[c.Name]
	if !ok {
		done, err := p.follow(ctx, p.sink.config.Schema.Add, "it has no column "+quote(c.Name), alter+"ADD COLUMN "+quote(c.Name)+" "+kind)
		if done {
			f.columns[c.Name] = kind
		}
		return err
	}
	before := m.Before(i)
	if before == nil || have == kind || inKey(m.To, c.Name) || p.sink.server.typeOf(before, before.Kind) == p.sink.server.typeOf(c, c.Kind) {
		return nil
	}
	done, err := p.follow(ctx, p.sink.config.Schema.Retype, "column "+quote(c.Name)+" is "+have+" and its source has "+c.Type+" now", alter+"MODIFY COLUMN "+quote(c.Name)+" "+kind)
	if done {
		f.columns[c.Name] = kind
	}
	return err
}

func inKey(t *connectors.Table, name string) bool {
	return slices.ContainsFunc(t.Key, func(k int) bool { return t.Columns[k].Name == name })
}
