//go:build duckdb

package duckdb

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/trunkline/trunkline/connectors"
)

// fitting is what makes a target fit a version of its table.
type fitting struct {
	connectors.Plan
	sink         *sink
	schema, name string
	columns      [][2]string // of the target, as the steps so far leave them
}

// Migrate makes the target of a table fit its new version, as far as the setting schema allows, in the transaction that
// stores the step's position: a step that comes again finds it done.
func (s *sink) Migrate(ctx context.Context, m connectors.Migration) error {
	m.From, m.To = s.fitter.Table(m.From, true), s.fitter.Table(m.To, true)
	p := &fitting{sink: s}
	p.schema, p.name = s.config.place(m.To)
	if p.name == offsetsTable || p.name == "" {
		return fmt.Errorf("write into table %s: the name is reserved; set table: %w", p.target(), connectors.ErrFatal)
	}
	maps.DeleteFunc(s.targets, func(_ *connectors.Table, tg *target) bool { return strings.EqualFold(tg.name, p.target()) })
	err := s.db.transact(ctx, func() error {
		if m.Stream != "" {
			before, err := s.advance(ctx, m.Stream, m.Position)
			if err != nil {
				return err
			}
			if bytes.Equal(before, m.Position) {
				m.From = m.To
			}
		}
		if err := p.compare(ctx, m); err != nil {
			return err
		}
		return p.run(ctx)
	})
	if err != nil {
		return fmt.Errorf("migrate table %s: %w", p.target(), err)
	}
	for _, warning := range p.Warnings {
		s.env.Logger.Warn(warning, "sink", s.env.Name, "table", p.target())
		s.env.Report(connectors.Report{Table: m.To.FullName(), Reason: warning})
	}
	return s.learn(ctx, m.To)
}

func (p *fitting) target() string { return full(p.schema, p.name) }

func (p *fitting) alter(what string) string { return "ALTER TABLE " + p.target() + " " + what }

// compare plans what a target needs.
func (p *fitting) compare(ctx context.Context, m connectors.Migration) (err error) {
	if p.columns, err = p.sink.columnsOf(ctx, p.schema, p.name); err != nil {
		return err
	}
	policy := &p.sink.config.Schema
	if len(p.columns) == 0 {
		p.Create(policy.Add, "CREATE SCHEMA IF NOT EXISTS "+quote(p.schema), p.sink.create(m.To, p.target()))
		return nil
	}
	before := slices.Clone(p.columns)
	keys, err := p.sink.keysOf(ctx, p.schema, p.name)
	if err != nil {
		return err
	}
	for _, gone := range m.Dropped() {
		at := find(p.columns, gone)
		if at < 0 || slices.ContainsFunc(keys, func(k []string) bool { return slices.Contains(k, strings.ToLower(gone)) }) {
			continue
		}
		if p.Follow(policy.Drop, "its source has no column "+quote(gone)+" any more", p.alter("DROP COLUMN "+quote(gone))) {
			p.columns = slices.Delete(p.columns, at, at+1)
		}
	}
	p.rename(m)
	if p.sink.config.Deletes == softDeletes && find(p.columns, softColumn) < 0 {
		p.Follow(policy.Add, "it has no column "+softColumn+" for deletes: soft", p.alter("ADD COLUMN "+softDefinition))
	}
	rebuilds := p.sink.rekeys(m, keys)
	for i := range m.To.Columns {
		rebuilds = p.column(m, i) || rebuilds
	}
	if rebuilds {
		p.rebuild(m, before)
	}
	return nil
}

// create returns the statement that makes a table. Nothing but the key is NOT NULL, because a change may not carry a
// column, and a column added later has no value in the rows that are there.
func (s *sink) create(t *connectors.Table, target string) string {
	var parts, key []string
	for i := range t.Columns {
		parts = append(parts, quote(t.Columns[i].Name)+" "+typeOf(&t.Columns[i]))
	}
	if s.config.Deletes == softDeletes {
		parts = append(parts, softDefinition)
	}
	if s.config.Write == writeUpsert && len(t.Key) > 0 {
		for _, k := range t.Key {
			key = append(key, t.Columns[k].Name)
		}
		parts = append(parts, "PRIMARY KEY ("+quoteAll(key)+")")
	}
	return "CREATE TABLE " + target + " (" + strings.Join(parts, ", ") + ")"
}

// rename plans for the columns that have another name.
func (p *fitting) rename(m connectors.Migration) {
	f := p.sink.config.Schema.Rename
	list := slices.DeleteFunc(m.Renames(), func(r connectors.Renamed) bool { return find(p.columns, r.From) < 0 })
	if f == connectors.Evolve || f == connectors.Freeze {
		list = connectors.InTurn(list, func(name string) bool { return find(p.columns, name) >= 0 })
	}
	for _, r := range list {
		if p.Follow(f, "column "+quote(r.From)+" of its source is called "+quote(r.To)+" now", p.alter("RENAME COLUMN "+quote(r.From)+" TO "+quote(r.To))) {
			p.columns[find(p.columns, r.From)][0] = r.To
		}
	}
}

// column plans for one column that the table has. It reports one that only a new table can have.
func (p *fitting) column(m connectors.Migration, i int) (rebuild bool) {
	c := &m.To.Columns[i]
	at := find(p.columns, c.Name)
	if at < 0 {
		p.Follow(p.sink.config.Schema.Add, "it has no column "+quote(c.Name), p.alter("ADD COLUMN "+quote(c.Name)+" "+typeOf(c)))
		return false
	}
	old := m.Before(i)
	if old == nil || m.From == m.To {
		return false
	}
	was, want := typeOf(old), typeOf(c)
	if was == want || p.columns[at][1] != was {
		return false
	}
	if slices.Contains(m.To.Key, i) && p.sink.config.Write == writeUpsert {
		return true
	}
	p.Follow(p.sink.config.Schema.Retype, "the type of column "+quote(c.Name)+" in its source is "+c.Type, p.alter("ALTER COLUMN "+quote(c.Name)+" TYPE "+want))
	return false
}

// rekeys reports that the target's primary key is that of the version before, and that the new one has another.
func (s *sink) rekeys(m connectors.Migration, keys [][]string) bool {
	if m.From == nil || m.From == m.To || s.config.Write != writeUpsert {
		return false
	}
	var old []string
	for _, k := range m.From.Key {
		old = append(old, strings.ToLower(m.From.Columns[k].Name))
	}
	slices.Sort(old)
	primary := []string{}
	if len(keys) > 0 {
		primary = slices.Sorted(slices.Values(keys[0]))
	}
	if !slices.Equal(old, primary) {
		return false
	}
	var now []int
	places := connectors.Match(m.From, m.To)
	for _, k := range m.To.Key {
		now = append(now, places[k])
	}
	slices.Sort(now)
	return !slices.Equal(slices.Sorted(slices.Values(m.From.Key)), now)
}

// rebuild plans a new table in place of the target, because DuckDB changes neither a primary key nor the type of one. A
// target that has columns of its own, which a new table would not have, is left to its owner.
func (p *fitting) rebuild(m connectors.Migration, before [][2]string) {
	const hold = "_trunkline_new"
	var to, from []string
	places := connectors.Match(m.From, m.To)
	known := map[string]bool{softColumn: true}
	for _, c := range m.From.Columns {
		known[strings.ToLower(c.Name)] = true
	}
	for i, c := range m.To.Columns {
		if places[i] >= 0 && find(before, m.From.Columns[places[i]].Name) >= 0 {
			to, from = append(to, c.Name), append(from, m.From.Columns[places[i]].Name)
		}
	}
	if find(before, softColumn) >= 0 {
		to, from = append(to, softColumn), append(from, softColumn)
	}
	fresh := full(p.schema, hold)
	policy := p.sink.config.Schema.Retype
	if slices.ContainsFunc(before, func(c [2]string) bool { return !known[strings.ToLower(c[0])] }) {
		policy = connectors.Freeze
	}
	whole := connectors.Plan{Warnings: p.Warnings}
	if whole.Follow(policy, "its source has another key, which DuckDB gives only to a new table", p.sink.create(m.To, fresh),
		"INSERT INTO "+fresh+" ("+quoteAll(to)+") SELECT "+quoteAll(from)+" FROM "+p.target(),
		"DROP TABLE "+p.target(), "ALTER TABLE "+fresh+" RENAME TO "+quote(p.name)) {
		p.Plan = whole
	}
}

// run carries a plan out.
func (p *fitting) run(ctx context.Context) error {
	if err := p.Err(p.target()); err != nil {
		return err
	}
	for _, step := range p.Steps {
		_, err := p.sink.db.ExecContext(ctx, step.Statement)
		switch {
		case isStatement(err):
			return &connectors.SchemaError{Target: p.target(), Problem: step.What, Statement: step.Statement, Err: tame(err)}
		case err != nil:
			return fmt.Errorf("run %s: %w", step.Statement, err)
		}
	}
	if len(p.Steps) > 0 {
		p.sink.env.Logger.Info("changed schema", "sink", p.sink.env.Name, "table", p.target(), "statements", len(p.Steps))
	}
	return nil
}
