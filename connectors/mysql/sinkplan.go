package mysql

import (
	"context"
	"slices"
	"strings"

	"github.com/trunkline/trunkline/connectors"
)

// fitting is what makes a target fit a version of its table: one ALTER TABLE, which the server carries out whole or not
// at all.
type fitting struct {
	sink     *Sink
	name     tableName
	existing []targetColumn // of the target as it is
	columns  []targetColumn // as the changes so far leave them
	creates  []string       // statements for a target that does not exist
	parts    []string       // of the ALTER TABLE
	problem  string         // why, the first of them
	frozen   []string       // statements that the settings leave to a person: for a target that does not exist
	held     []string       // parts of an ALTER TABLE that they leave to a person
	warnings []string
}

// statements returns what is to be run.
func (p *fitting) statements() []string {
	if len(p.parts) == 0 {
		return p.creates
	}
	return []string{"ALTER TABLE " + p.name.ident() + " " + strings.Join(p.parts, ", ")}
}

// left returns the statement that the settings leave to a person; empty if there is none.
func (p *fitting) left() string {
	if len(p.held) > 0 {
		return "ALTER TABLE " + p.name.ident() + " " + strings.Join(p.held, ", ")
	}
	return strings.Join(p.frozen, "; ")
}

// follow takes a part of the ALTER TABLE into the plan as the policy says, and reports whether the target will have it.
func (p *fitting) follow(f connectors.Follow, what, part string) bool {
	switch f {
	case connectors.Evolve:
		p.reason(what)
		p.parts = append(p.parts, part)
		return true
	case connectors.Freeze:
		p.reason(what + ", and schema is freeze")
		p.held = append(p.held, part)
		return true
	case connectors.Lenient:
		p.warnings = append(p.warnings, what+"; the target is left as it is (schema is lenient)")
	}
	return false
}

func (p *fitting) reason(what string) {
	if p.problem == "" {
		p.problem = what
	}
}

// compare plans what a target needs.
func (s *Sink) compare(ctx context.Context, m connectors.Migration, name tableName) (*fitting, error) {
	p := &fitting{sink: s, name: name}
	var err error
	if p.existing, err = s.columnsOf(ctx, name); err != nil {
		return nil, err
	}
	if len(p.existing) == 0 {
		p.create(m.To)
		return p, nil
	}
	p.columns = slices.Clone(p.existing)
	policy := &s.config.Schema
	for _, gone := range m.Dropped() {
		if at := findColumn(p.columns, gone); at >= 0 && p.follow(policy.Drop, "its source has no column "+ident(gone)+" any more", "DROP COLUMN "+ident(gone)) {
			p.columns = slices.Delete(p.columns, at, at+1)
		}
	}
	renamed := p.rename(m)
	for i := range m.To.Columns {
		p.column(m, i, renamed)
	}
	for _, column := range s.extra() {
		if findColumn(p.columns, strings.Trim(strings.Fields(column)[0], "`")) < 0 {
			p.follow(policy.Add, "it has no column "+strings.Fields(column)[0], "ADD COLUMN "+column)
		}
	}
	return p, p.key(ctx, m)
}

// extra returns the columns of a target that are not its source's.
func (s *Sink) extra() []string {
	var extra []string
	if s.config.Deletes == deletesSoft {
		extra = append(extra, ident(softColumn)+" boolean NOT NULL DEFAULT 0")
	}
	if s.config.Write == writeAppend {
		extra = append(extra, ident(unchangedColumn)+" longtext")
	}
	return extra
}

// create plans a target that does not exist.
func (p *fitting) create(to *connectors.Table) {
	statements := p.sink.create(to, p.name, p.sink.extra())
	p.reason("it does not exist")
	switch f := p.sink.config.Schema.Add; f {
	case connectors.Evolve, connectors.Lenient:
		p.creates = statements
	default:
		p.problem += ", and schema is " + string(f)
		p.frozen = statements
	}
}

// rename decides about the columns that have another name, and gives the old name of each by its new one. All parts of an
// ALTER TABLE mean the names from before, so two columns may take each other's.
func (p *fitting) rename(m connectors.Migration) map[string]string {
	renamed := map[string]string{}
	was := slices.Clone(p.columns)
	for _, r := range m.Renames() {
		at := findColumn(was, r.From)
		if at < 0 {
			continue
		}
		follow := p.sink.config.Schema.Rename
		part := "CHANGE COLUMN " + ident(r.From) + " " + ident(r.To) + " " + was[at].definition()
		what := "column " + ident(r.From) + " of its source is called " + ident(r.To) + " now"
		if follow == connectors.Evolve {
			p.reason(what)
		} else if !p.follow(follow, what, part) {
			continue
		}
		p.columns[at].name = r.To
		renamed[r.To] = r.From
	}
	return renamed
}

// column plans for one column that the table has.
func (p *fitting) column(m connectors.Migration, i int, renamed map[string]string) {
	s, c := p.sink, &m.To.Columns[i]
	policy := &s.config.Schema
	want := s.typeOf(m.To, i)
	at := findColumn(p.columns, c.Name)
	if at < 0 {
		p.follow(policy.Add, "it has no column "+ident(c.Name), "ADD COLUMN "+ident(c.Name)+" "+want+" NULL")
		return
	}
	have := &p.columns[at]
	from, moved := renamed[c.Name]
	moved = moved && policy.Rename == connectors.Evolve
	retyped := false
	if p.retypes(m, i, have) {
		what := "the type of column " + ident(c.Name) + " in its source is " + c.Type
		part := "MODIFY COLUMN " + ident(c.Name) + " " + want + nullability(m.To, i)
		if moved && policy.Retype == connectors.Evolve {
			p.reason(what)
			retyped = true
		} else {
			p.follow(policy.Retype, what, part)
		}
	}
	switch {
	case moved && retyped:
		p.parts = append(p.parts, "CHANGE COLUMN "+ident(from)+" "+ident(c.Name)+" "+want+nullability(m.To, i))
	case moved && s.dialect.renames():
		p.parts = append(p.parts, "RENAME COLUMN "+ident(from)+" TO "+ident(c.Name))
	case moved:
		p.parts = append(p.parts, "CHANGE COLUMN "+ident(from)+" "+ident(c.Name)+" "+have.definition())
	}
}

// retypes reports whether a column's type has to follow. A target that has just what the version before asked for
// follows every change; one whose owner has chosen another type gets room where it is the narrower one of its family.
func (p *fitting) retypes(m connectors.Migration, i int, have *targetColumn) bool {
	s, c := p.sink, &m.To.Columns[i]
	want := s.typeOf(m.To, i)
	if have.generated || sameType(have.typ, want) {
		return false
	}
	if m.From != nil && m.From != m.To {
		if j := connectors.Match(m.From, m.To)[i]; j >= 0 {
			if was := s.typeOf(m.From, j); was != want && sameType(have.typ, was) {
				return true
			}
		}
	}
	return widens(have.typ, c, m.To.Dialect)
}

// sameType compares a type of the catalog with one that we would write.
func sameType(have, write string) bool {
	plain := func(text string) columnType {
		text, _, _ = strings.Cut(text, " CHARACTER SET ")
		switch text {
		case "boolean":
			text = "tinyint(1)"
		case "json":
			text = "longtext" // as MariaDB shows it
		}
		t := parseType(text)
		if t.base == "json" {
			t.base = "longtext"
		}
		if widths[t.base] != [2]int{} && (t.base != "tinyint" || t.a != 1) {
			t.a = -1
		}
		if n := lengths[t.base]; t.a < 0 && n != "" {
			t.a = number(strings.Split(n, ",")[0])
		}
		t.b = max(t.b, 0)
		switch t.base {
		case "datetime", "time", "timestamp":
			t.a = max(t.a, 0)
		}
		return t
	}
	a, b := plain(have), plain(write)
	return a.base == b.base && a.a == b.a && a.b == b.b && a.unsigned == b.unsigned && slices.Equal(a.labels, b.labels)
}

// key plans for the columns that tell rows apart: a target whose primary key is that of the version before follows.
func (p *fitting) key(ctx context.Context, m connectors.Migration) error {
	s := p.sink
	if s.config.Write != writeUpsert || m.From == nil || m.From == m.To || s.config.Deletes == deletesSoft {
		return nil
	}
	indexes, err := s.uniqueKeys(ctx, p.name)
	if err != nil {
		return err
	}
	primary := indexes["PRIMARY"]
	before, now := lowerNames(m.From), lowerNames(m.To)
	for i, name := range before { // as the columns are called now
		for _, r := range m.Renames() {
			if strings.EqualFold(r.From, name) {
				before[i] = strings.ToLower(r.To)
			}
		}
	}
	if slices.Equal(before, now) || !slices.Equal(sorted(primary), sorted(lowerNames(m.From))) {
		return nil
	}
	for _, columns := range indexes {
		if len(now) > 0 && slices.Equal(sorted(columns), sorted(now)) {
			return nil
		}
	}
	var parts []string
	if len(primary) > 0 {
		parts = append(parts, "DROP PRIMARY KEY")
	}
	for i, c := range m.To.Columns {
		at := slices.ContainsFunc(before, func(k string) bool { return strings.EqualFold(k, c.Name) })
		in := slices.Contains(m.To.Key, i)
		if at != in && findColumn(p.columns, c.Name) >= 0 && !p.touches(c.Name) {
			parts = append(parts, "MODIFY COLUMN "+ident(c.Name)+" "+s.typeOf(m.To, i)+nullability(m.To, i))
		}
	}
	if len(now) > 0 {
		parts = append(parts, "ADD PRIMARY KEY ("+strings.Join(s.keyParts(m.To), ", ")+")")
	}
	p.follow(s.config.Schema.Retype, "its source has another key", strings.Join(parts, ", "))
	return nil
}

// touches reports that the plan has the definition of a column already.
func (p *fitting) touches(name string) bool {
	return slices.ContainsFunc(p.parts, func(part string) bool {
		return strings.HasPrefix(part, "MODIFY COLUMN "+ident(name)+" ") || strings.Contains(part, " "+ident(name)+" ") && strings.HasPrefix(part, "CHANGE")
	})
}

func lowerNames(t *connectors.Table) []string {
	var list []string
	for _, k := range t.Key {
		list = append(list, strings.ToLower(t.Columns[k].Name))
	}
	return list
}

func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return list
}
