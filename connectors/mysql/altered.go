package mysql

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/trunkline/trunkline/connectors"
)

// Values of SourceConfig.Altered.
const (
	alteredResync = "resync"
	alteredWarn   = "warn"
)

// The binary log has every statement and no event for rows that a statement has changed, emptied or moved where they lie. Such a
// table is read anew, as if somebody had asked for that (see sync.go). The position names it until that has begun.
//
// The catalog may be ahead of the stream, and rows of a later version must not come before those of an earlier one. So the table
// is read when both know the same columns and the same key: a statement that is yet to come asks again.

// rewritten notes a table whose stored rows a statement has changed. before is its definition up to then.
func (s *stream) rewritten(d *ddl, before *definition) {
	lost := slices.Clone(d.lost) // rows that are gone
	empties := len(lost) > 0
	if t := s.schemas.tables[d.table]; d.verb == "alter" && before != nil && t != nil {
		for _, spec := range d.specs {
			if spec.what == "add" && (spec.column.filled || spec.column.generated || spec.column.notNull) {
				lost = append(lost, "ADD COLUMN "+spec.column.name+" with a default")
			}
		}
		lost = append(lost, retyped(before, t.shape.def)...)
		if !slices.Equal(before.Key, t.shape.def.Key) && !renamedKey(before, t.shape.def) {
			lost, empties = append(lost, "another key"), true
		}
	}
	if len(lost) > 0 {
		s.alter(d.table, strings.Join(lost, ", "), empties)
	}
}

// retyped names the columns whose values may have become others.
func retyped(before, now *definition) []string {
	var list []string
	for _, c := range now.Columns {
		at := slices.IndexFunc(before.Columns, func(b columnDef) bool { return b.ID == c.ID })
		if at < 0 {
			continue
		}
		was := before.Columns[at].Type
		if sameType(was, c.Type) || widens(was, &connectors.Column{Type: c.Type}, "mysql") || lengthens(was, c.Type) {
			continue
		}
		list = append(list, "another type of column "+c.Name)
	}
	return list
}

// textRoom orders the types of texts by how much they hold.
var textRoom = map[string]int{"tinytext": 1, "text": 2, "mediumtext": 3, "longtext": 4}

// lengthens reports that a text became one of a larger type.
func lengthens(was, now string) bool {
	a, b := parseType(was), parseType(now)
	room := textRoom[a.base]
	if a.base == "char" || a.base == "varchar" {
		room = 1
		if a.a > 63 { // of four bytes each
			room = 2
		}
	}
	return room > 0 && textRoom[b.base] >= room
}

// renamedKey reports that the key is of the same columns under other names.
func renamedKey(before, now *definition) bool {
	id := func(d *definition, name string) int {
		if at := d.column(name); at >= 0 {
			return d.Columns[at].ID
		}
		return 0
	}
	return len(before.Key) > 0 && slices.EqualFunc(before.Key, now.Key, func(a, b string) bool { return id(before, a) == id(now, b) })
}

// alter notes that a table is to be read anew, or says so. empties says that rows are gone, too, or are under other keys.
func (s *stream) alter(n tableName, what string, empties bool) {
	if p, ok := s.pos.Skip[n]; ok && s.at.before(p) {
		return // its rows were read later
	}
	env := &s.source.env
	if s.source.config.Altered == alteredWarn {
		reason := fmt.Sprintf("%s at %s changed stored rows, which the binary log does not show; take a fresh snapshot with: trunkline resync %s/%s", what, s.at, env.Name, n.full())
		env.Report(connectors.Report{Table: n.full(), Reason: reason})
		env.Logger.Warn("rows changed without events", "source", env.Name, "table", n.full(), "reason", reason)
		return
	}
	if s.pos.Altered == nil {
		s.pos.Altered = map[tableName]bool{}
	}
	s.pos.Altered[n] = s.pos.Altered[n] || empties
	env.Logger.Info("rows changed without events: reading the table anew", "source", env.Name, "table", n.full(), "position", s.at.String(), "reason", what)
}

// sameColumns reports that two definitions have the same columns in the same order.
func (d *definition) sameColumns(o *definition) bool {
	return slices.EqualFunc(d.Columns, o.Columns, func(a, b columnDef) bool { return strings.EqualFold(a.Name, b.Name) && sameType(a.Type, b.Type) })
}

// readable reports that the catalog has the columns and the key of a table that the stream knows. With a key that is yet to come,
// rows would reach a target before the changes that make the rows it has fit that key.
func (s *schemas) readable(ctx context.Context, n tableName) (bool, error) {
	t := s.tables[n]
	if t == nil {
		return false, nil
	}
	now, err := s.catalog.table(ctx, n)
	return err == nil && now != nil && !now.differs(t.shape.def), err
}

// askAltered asks for tables that are to be read anew, as far as they can be read now.
func (s *Source) askAltered(ctx context.Context, altered map[tableName]bool) error {
	for n := range altered {
		ok, err := s.schemas.readable(ctx, n)
		if err != nil {
			return err
		}
		if ok {
			s.requests.add(n)
		}
	}
	return nil
}

// askAltered asks for one table.
func (s *stream) askAltered(ctx context.Context, n tableName) error {
	empties, ok := s.pos.Altered[n]
	if !ok {
		return nil
	}
	return s.source.askAltered(ctx, map[tableName]bool{n: empties})
}

// postpone takes tables that were read before out of a sync that has not begun with them, where the catalog has other columns
// or another key than the stream knows by now: the stream goes on with them.
func (s *Source) postpone(list []*foundTable) []*foundTable {
	mark := s.pos.Snapshot
	return slices.DeleteFunc(slices.Clone(list), func(t *foundTable) bool {
		known := s.schemas.tables[t.name]
		if !slices.Contains(mark.Again, t.name) || known == nil || known.failed || mark.begun(t.name) || !t.def.differs(known.shape.def) {
			return false
		}
		if s.pos.Altered == nil {
			s.pos.Altered = map[tableName]bool{}
		}
		s.pos.Altered[t.name] = slices.Contains(mark.Void, t.name)
		same := func(n tableName) bool { return n == t.name }
		mark.Again, mark.Void = slices.DeleteFunc(mark.Again, same), slices.DeleteFunc(mark.Void, same)
		s.pos.Tables = append(s.pos.Tables, t.name)
		s.env.Logger.Info("reading the table anew later: it has other columns by now", "source", s.env.Name, "table", t.name.full())
		return true
	})
}

// takeAltered takes tables that are read now out of the list, and returns those of which rows are gone.
func (s *Source) takeAltered(list []*foundTable) (void []tableName) {
	for _, t := range list {
		if empties := s.pos.Altered[t.name]; empties {
			void = append(void, t.name)
		}
		delete(s.pos.Altered, t.name)
	}
	return void
}
