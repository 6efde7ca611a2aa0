package sqlite

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/trunkline/trunkline/connectors"
)

// fitting is what makes a target fit a version of its table.
type fitting struct {
	connectors.Plan
	sink    *sink
	name    string
	columns []column // of the target, as the steps so far leave them
}

// Migrate makes the target of a table fit its new version, as far as the setting schema allows, in the transaction that
// stores the step's position: a step that comes again finds it done.
func (s *sink) Migrate(ctx context.Context, m connectors.Migration) error {
	m.From, m.To = s.fitter.Table(m.From, foreign(m.From)), s.fitter.Table(m.To, foreign(m.To))
	name := s.config.target(m.To)
	if strings.HasPrefix(strings.ToLower(name), "sqlite_") || name == offsetsTable {
		return fmt.Errorf("write into table %s: the name is reserved; set table: %w", name, connectors.ErrFatal)
	}
	clear(s.targets)
	if err := s.statements.close(); err != nil {
		return err
	}
	var warnings []string
	err := s.db.transact(ctx, func() error {
		done, err := s.step(ctx, m)
		if err != nil {
			return err
		}
		if done {
			m.From = m.To
		}
		p, err := s.compare(ctx, m, name)
		if err != nil {
			return err
		}
		warnings = p.Warnings
		return p.run(ctx)
	})
	if err != nil {
		return fmt.Errorf("migrate table %s: %w", name, err)
	}
	for _, warning := range warnings {
		s.env.Logger.Warn(warning, "sink", s.env.Name, "table", name)
		s.env.Report(connectors.Report{Table: m.To.FullName(), Reason: warning})
	}
	_, err = s.target(ctx, m.To)
	return err
}

// step stores the position of a migration, and reports whether it had been stored before.
func (s *sink) step(ctx context.Context, m connectors.Migration) (done bool, err error) {
	if m.Stream == "" {
		return false, nil
	}
	held, err := s.Committed(ctx, m.Stream)
	if err != nil || bytes.Equal(held, m.Position) {
		return err == nil, err
	}
	return false, s.advance(ctx, connectors.Batch{Stream: m.Stream, Position: m.Position})
}

// compare plans what a target needs.
func (s *sink) compare(ctx context.Context, m connectors.Migration, name string) (*fitting, error) {
	p := &fitting{sink: s, name: name}
	var err error
	if p.columns, err = columnsOf(ctx, s.db, name); err != nil {
		return nil, err
	}
	if len(p.columns) == 0 {
		p.create(m.To)
		return p, nil
	}
	before := slices.Clone(p.columns)
	policy := &s.config.Schema
	for _, gone := range m.Dropped() {
		if at := findColumn(p.columns, gone); at >= 0 && p.columns[at].pk == 0 &&
			p.Follow(policy.Drop, "its source has no column "+quote(gone)+" any more", p.alter("DROP COLUMN "+quote(gone))) {
			p.columns = slices.Delete(p.columns, at, at+1)
		}
	}
	p.rename(m)
	if s.config.Deletes == SoftDeletes && findColumn(p.columns, softColumn) < 0 {
		p.Follow(policy.Add, "it has no column "+softColumn+" for deletes: soft", p.alter("ADD COLUMN "+softDefinition))
	}
	rebuilds := s.rekeys(m, before)
	for i := range m.To.Columns {
		rebuilds = p.column(m, i) || rebuilds
	}
	if !rebuilds {
		return p, nil
	}
	return p, p.rebuild(ctx, m, before)
}

func (p *fitting) alter(what string) string { return "ALTER TABLE main." + quote(p.name) + " " + what }

// create plans a target that does not exist.
func (p *fitting) create(to *connectors.Table) {
	p.Create(p.sink.config.Schema.Add, createTable(to, p.name, p.sink.config))
}

// rename plans for the columns that have another name.
func (p *fitting) rename(m connectors.Migration) {
	f := p.sink.config.Schema.Rename
	list := slices.DeleteFunc(m.Renames(), func(r connectors.Renamed) bool { return findColumn(p.columns, r.From) < 0 })
	if f == connectors.Evolve || f == connectors.Freeze {
		list = connectors.InTurn(list, func(name string) bool { return findColumn(p.columns, name) >= 0 })
	}
	for _, r := range list {
		if p.Follow(f, "column "+quote(r.From)+" of its source is called "+quote(r.To)+" now", p.alter("RENAME COLUMN "+quote(r.From)+" TO "+quote(r.To))) {
			p.columns[findColumn(p.columns, r.From)].name = r.To
		}
	}
}

// column plans for one column that the table has. It reports one that only a new table can have.
func (p *fitting) column(m connectors.Migration, i int) (rebuild bool) {
	c := &m.To.Columns[i]
	at := findColumn(p.columns, c.Name)
	if at < 0 {
		p.Follow(p.sink.config.Schema.Add, "it has no column "+quote(c.Name), p.alter("ADD COLUMN "+definition(m.To, i, false)))
		return false
	}
	have, old := &p.columns[at], m.Before(i)
	if old == nil || m.From == m.To || have.hidden != 0 {
		return false
	}
	was, want := affinity(typeOf(m.From.Dialect, old)), affinity(typeOf(m.To.Dialect, c))
	if was == want || affinity(have.declared) != was {
		return false
	}
	if have.pk > 0 || slices.Contains(m.To.Key, i) {
		return true
	}
	hold := quote("_trunkline_" + c.Name)
	p.Follow(p.sink.config.Schema.Retype, "the type of column "+quote(c.Name)+" in its source is "+c.Type,
		p.alter("ADD COLUMN "+hold+" "+typeOf(m.To.Dialect, c)),
		"UPDATE main."+quote(p.name)+" SET "+hold+" = "+quote(c.Name),
		p.alter("DROP COLUMN "+quote(c.Name)),
		p.alter("RENAME COLUMN "+hold+" TO "+quote(c.Name)))
	return false
}

// affinity is what SQLite makes of a declared type.
func affinity(declared string) string {
	name := strings.ToUpper(declared)
	for _, rule := range [][2]string{{"INT", "integer"}, {"CHAR", "text"}, {"CLOB", "text"}, {"TEXT", "text"}, {"BLOB", "none"}, {"REAL", "real"}, {"FLOA", "real"}, {"DOUB", "real"}} {
		if strings.Contains(name, rule[0]) {
			return rule[1]
		}
	}
	if name == "" {
		return "none"
	}
	return "numeric"
}

// rekeys reports that the primary key is that of the version before, and that the new one has another.
func (s *sink) rekeys(m connectors.Migration, before []column) bool {
	if m.From == nil || m.From == m.To || s.config.Write != Upsert {
		return false
	}
	var old, primary []string
	for _, k := range m.From.Key {
		old = append(old, strings.ToLower(m.From.Columns[k].Name))
	}
	for _, c := range before {
		if c.pk > 0 {
			primary = append(primary, strings.ToLower(c.name))
		}
	}
	slices.Sort(old)
	slices.Sort(primary)
	if !slices.Equal(old, primary) {
		return false
	}
	var was, now []int
	places := connectors.Match(m.From, m.To)
	for _, k := range m.To.Key {
		now = append(now, places[k])
	}
	was = slices.Sorted(slices.Values(m.From.Key))
	slices.Sort(now)
	return !slices.Equal(was, now)
}

// rebuild plans a new table in place of the target: SQLite changes neither a key nor the type of one. A target that has
// something of its own, which a new table would not have, is left to its owner.
func (p *fitting) rebuild(ctx context.Context, m connectors.Migration, before []column) error {
	const hold = "_trunkline_new"
	to, from := []string{}, []string{}
	places := connectors.Match(m.From, m.To)
	known := map[string]bool{softColumn: true}
	for _, c := range m.From.Columns {
		known[strings.ToLower(c.Name)] = true
	}
	for i, c := range m.To.Columns {
		if places[i] >= 0 && findColumn(before, m.From.Columns[places[i]].Name) >= 0 {
			to, from = append(to, c.Name), append(from, m.From.Columns[places[i]].Name)
		}
	}
	if findColumn(before, softColumn) >= 0 {
		to, from = append(to, softColumn), append(from, softColumn)
	}
	own, err := number(ctx, p.sink.db, "SELECT count(*) FROM main.sqlite_schema WHERE tbl_name = '"+strings.ReplaceAll(p.name, "'", "''")+"' AND type <> 'table' AND sql IS NOT NULL")
	if err != nil {
		return err
	}
	statements := []string{createTable(m.To, hold, p.sink.config),
		"INSERT INTO main." + hold + " (" + quoteAll(to) + ") SELECT " + quoteAll(from) + " FROM main." + quote(p.name),
		"DROP TABLE main." + quote(p.name), "ALTER TABLE main." + hold + " RENAME TO " + quote(p.name)}
	policy := p.sink.config.Schema.Retype
	if own > 0 || slices.ContainsFunc(before, func(c column) bool { return !known[strings.ToLower(c.name)] }) {
		policy = connectors.Freeze
	}
	fresh := &fitting{sink: p.sink, name: p.name}
	fresh.Warnings = p.Warnings
	if fresh.Follow(policy, "its source has another key, which SQLite gives only to a new table", statements...) {
		*p = *fresh
	}
	return nil
}

// run carries a plan out.
func (p *fitting) run(ctx context.Context) error {
	if err := p.Err(p.name); err != nil {
		return err
	}
	for _, c := range p.Steps {
		_, err := p.sink.db.ExecContext(ctx, c.Statement)
		switch {
		case isStatement(err) || isRow(err):
			return &connectors.SchemaError{Target: p.name, Problem: c.What, Statement: c.Statement, Err: err}
		case err != nil:
			return fmt.Errorf("run %s: %w", c.Statement, err)
		}
	}
	if len(p.Steps) > 0 {
		p.sink.env.Logger.Info("changed schema", "sink", p.sink.env.Name, "table", p.name, "statements", len(p.Steps))
	}
	return nil
}
