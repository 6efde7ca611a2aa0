package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/trunkline/trunkline/connectors"
)

// fitting is what makes a target fit a version of its table.
type fitting struct {
	sink     *Sink
	name     string         // of the target
	sql      string         // the same, quoted
	target   *target        // nil: it does not exist
	columns  []targetColumn // of the target, as the changes so far leave them
	changes  []planned      //
	frozen   []string       // statements that the settings leave to a person
	problem  string         // why, the first of them
	added    []string       // columns that the changes add, quoted
	filled   bool           // the target has rows
	warnings []string
	done     []string // statements that were run
}

// planned is one change of a target.
type planned struct {
	what      string // in words: why it is needed
	sql       string
	otherwise string // to try where sql needs to be told how; empty: nothing
}

// follow takes a change into the plan as the policy says, and reports whether the target will have it.
func (p *fitting) follow(f connectors.Follow, c planned) bool {
	switch f {
	case connectors.Evolve:
		p.changes = append(p.changes, c)
		return true
	case connectors.Freeze:
		if p.problem == "" {
			p.problem = c.what + ", and schema is freeze"
		}
		p.frozen = append(p.frozen, c.sql)
		return true
	case connectors.Lenient:
		p.warnings = append(p.warnings, c.what+"; the target is left as it is (schema is lenient)")
	}
	return false
}

// compare compares a target with a version of its table.
func (s *Sink) compare(ctx context.Context, m connectors.Migration) (*fitting, error) {
	schema, name := s.template.expand(m.To)
	p := &fitting{sink: s, name: schema + "." + name, sql: qualified(schema, name)}
	t, err := s.loadTarget(ctx, schema, name)
	if err != nil {
		return nil, err
	}
	if t == nil {
		return p, p.create(ctx, m.To)
	}
	p.target, p.columns = t, slices.Clone(t.columns)
	if err := s.conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM "+t.sql+")").Scan(&p.filled); err != nil {
		return nil, err
	}
	p.drop(m)
	p.rename(m)
	for i := range m.To.Columns {
		if err := p.column(ctx, m, i); err != nil {
			return nil, err
		}
	}
	if s.config.Deletes == deletesSoft && p.find(softColumn) < 0 {
		p.follow(s.config.Schema.Add, planned{what: "it has no column " + softColumn + " for deletes: soft",
			sql: fmt.Sprintf("ALTER TABLE %s ADD COLUMN IF NOT EXISTS %s boolean NOT NULL DEFAULT false", p.sql, softColumn)})
	}
	return p, p.key(ctx, m)
}

// create plans a target that does not exist.
func (p *fitting) create(ctx context.Context, to *connectors.Table) error {
	statements, err := p.sink.createTable(ctx, to)
	if err != nil {
		return err
	}
	f := p.sink.config.Schema.Add
	switch f {
	case connectors.Lenient:
		f = connectors.Evolve
	case connectors.Ignore:
		p.problem, p.frozen = "it does not exist, and schema is ignore", statements
		return nil
	}
	for _, sql := range statements {
		p.follow(f, planned{what: "it does not exist", sql: sql})
	}
	return nil
}

// find returns the place of a column as the plan leaves the target.
func (p *fitting) find(name string) int {
	return slices.IndexFunc(p.columns, func(c targetColumn) bool { return c.name == name })
}

// drop plans for the columns that the source has no more.
func (p *fitting) drop(m connectors.Migration) {
	for _, name := range m.Dropped() {
		at := p.find(name)
		if at < 0 {
			continue
		}
		if p.follow(p.sink.config.Schema.Drop, planned{what: "its source has no column " + quote(name) + " any more", sql: "ALTER TABLE " + p.sql + " DROP COLUMN " + quote(name)}) {
			p.columns = slices.Delete(p.columns, at, at+1)
		}
	}
}

// rename plans for the columns that have another name.
func (p *fitting) rename(m connectors.Migration) {
	list := slices.DeleteFunc(m.Renames(), func(r connectors.Renamed) bool { return p.find(r.From) < 0 })
	if f := p.sink.config.Schema.Rename; f == connectors.Evolve || f == connectors.Freeze {
		list = connectors.InTurn(list, func(name string) bool { return p.find(name) >= 0 })
	}
	for _, r := range list {
		p.renameTo(r.From, r.To)
	}
}

func (p *fitting) renameTo(from, to string) {
	ok := p.follow(p.sink.config.Schema.Rename, planned{what: "column " + quote(from) + " of its source is called " + quote(to) + " now",
		sql: "ALTER TABLE " + p.sql + " RENAME COLUMN " + quote(from) + " TO " + quote(to)})
	if ok {
		c := &p.columns[p.find(from)]
		c.name, c.sql = to, quote(to)
	}
}

// column plans for one column that the table has.
func (p *fitting) column(ctx context.Context, m connectors.Migration, i int) error {
	s, c := p.sink, m.To.Columns[i]
	if c.Generated && m.To.Dialect == dialect {
		return nil
	}
	typ, before, err := s.columnType(ctx, p.target.schema, m.To, c)
	if err != nil {
		return err
	}
	at := p.find(c.Name)
	if at < 0 {
		what := "it has no column " + quote(c.Name)
		for _, sql := range before {
			p.follow(s.config.Schema.Add, planned{what: what, sql: sql})
		}
		if p.follow(s.config.Schema.Add, planned{what: what, sql: fmt.Sprintf("ALTER TABLE %s ADD COLUMN %s %s", p.sql, quote(c.Name), typ)}) {
			p.added = append(p.added, quote(c.Name))
		}
		return nil
	}
	what := "the type of column " + quote(c.Name) + " in its source is " + c.Type
	for _, sql := range before {
		p.follow(s.config.Schema.Retype, planned{what: what, sql: sql})
	}
	was := ""
	if old := m.Before(i); old != nil && (old.Type != c.Type || old.Kind != c.Kind) {
		if was, _, err = s.columnType(ctx, p.target.schema, m.From, *old); err != nil {
			return err
		}
	}
	p.retype(&p.columns[at], was, typ, what)
	return nil
}

// wider are the types that hold every value of a type. A timestamp is taken as UTC, the time zone of the sink's sessions.
var wider = map[string][]string{
	"smallint":                    {"integer", "bigint", "numeric"},
	"integer":                     {"bigint", "numeric"},
	"bigint":                      {"numeric"},
	"real":                        {"double precision"},
	"date":                        {"timestamp without time zone"},
	"character varying":           {"text"},
	"json":                        {"text"},
	"uuid":                        {"text"},
	"timestamp without time zone": {"text", "timestamp with time zone"},
}

// retype plans for the type of a column. was is the type that the version before asked for, empty if it did not change. A
// target that has just that follows; one whose owner has chosen another keeps it as long as it has room.
func (p *fitting) retype(c *targetColumn, was, typ, what string) {
	if c.typ == typ || c.generated {
		return
	}
	if was != c.typ {
		have, want := bareType(c.typ), bareType(typ)
		switch {
		case c.typ == "text", slices.Contains(wider[want], have), have == want && narrower(typ, c.typ):
			return // the target has room
		case was == "" && !slices.Contains(wider[have], typ) && (have != want || !narrower(c.typ, typ)):
			return // it was so before this sink knew it
		case was == "" && typ == "text":
			return
		}
	}
	sql := fmt.Sprintf("ALTER TABLE %s ALTER COLUMN %s TYPE %s", p.sql, c.sql, typ)
	if p.follow(p.sink.config.Schema.Retype, planned{what: what, sql: sql, otherwise: sql + " USING " + c.sql + "::" + typ}) {
		c.typ = typ
	}
}

// key plans for the columns that tell rows apart.
func (p *fitting) key(ctx context.Context, m connectors.Migration) error {
	t, config := p.target, &p.sink.config
	if config.Write != writeUpsert {
		return nil
	}
	places := p.places(m.To)
	if len(places) > 0 && t.keyed(places) != nil {
		return nil
	}
	owned := false // the primary key is that of the version before
	if m.From != nil && m.From != m.To && t.primary && len(m.From.Key) > 0 {
		var old []int
		for _, k := range m.From.Key {
			old = append(old, t.column(m.From.Columns[k].Name))
		}
		owned = slices.Equal(t.keyed(old), t.unique[0])
	}
	if len(places) == 0 && !owned || t.primary && !owned {
		return nil
	}
	sql := "ALTER TABLE " + p.sql
	if owned {
		var name string
		err := p.sink.conn.QueryRow(ctx, "SELECT conname::text FROM pg_constraint WHERE contype = 'p' AND conrelid = to_regclass($1)", t.sql).Scan(&name)
		if err != nil {
			return err
		}
		sql += " DROP CONSTRAINT " + quote(name) + ","
		for _, u := range t.unique[0] {
			at := slices.IndexFunc(p.columns, func(c targetColumn) bool { return c.number == u.number })
			if at >= 0 && !slices.Contains(places, at) {
				sql += " ALTER COLUMN " + p.columns[at].sql + " DROP NOT NULL,"
			}
		}
	}
	if len(places) > 0 {
		sql += " ADD PRIMARY KEY (" + strings.Join(keyNames(m.To), ", ") + "),"
	}
	p.follow(config.Schema.Retype, planned{what: "its source has another key", sql: strings.TrimSuffix(sql, ",")})
	return nil
}

// places returns where the key's columns are as the plan leaves the target; -1 for one that it adds.
func (p *fitting) places(table *connectors.Table) []int {
	var list []int
	for _, k := range table.Key {
		list = append(list, p.find(table.Columns[k].Name))
	}
	return list
}

// bareType returns a type without its modifier.
func bareType(typ string) string {
	before, rest, found := strings.Cut(typ, "(")
	if !found {
		return typ
	}
	_, after, _ := strings.Cut(rest, ")")
	return before + after
}

// narrower reports that type a, with its modifier, holds no value that b, of the same bare type, does not.
func narrower(a, b string) bool {
	var ap, as, bp, bs int
	an, _ := fmt.Sscanf(modifier(a), "%d,%d", &ap, &as)
	bn, _ := fmt.Sscanf(modifier(b), "%d,%d", &bp, &bs)
	switch {
	case bn == 0:
		return true
	case an == 0:
		return false
	}
	return as <= bs && ap-as <= bp-bs
}

func modifier(typ string) string {
	_, rest, _ := strings.Cut(typ, "(")
	inside, _, _ := strings.Cut(rest, ")")
	return inside
}
