package mysql

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/trunkline/trunkline/connectors"
)

// schemas knows what each table looks like at the place of the binary log that is being read.
type schemas struct {
	catalog *catalog
	sets    *charsets
	source  string
	logger  *slog.Logger
	report  func(connectors.Report)
	tables  map[tableName]*tracked
	left    history // of tables that were read and are not in the configuration any more

	packed []byte // of the history; nil: it has changed
}

// tracked is a table whose changes we want.
type tracked struct {
	name  tableName
	spec  *connectors.TableSpec
	shape *shape

	failed bool // its rows cannot be decoded; they are left out until it is read anew
	old    bool // the saved history has it
	looks  int  // how often its rows were asked for labels
}

// follow makes the definition that a statement leads to the current one of a table.
func (s *schemas) follow(n tableName, def *definition) error {
	t := s.tables[n]
	if t == nil {
		return s.set(n, def)
	}
	next := *def.identified(t.shape.def)
	next.Passed = t.shape.def.passing(&next)
	return s.set(n, &next)
}

// set makes a definition the current one of a table.
func (s *schemas) set(n tableName, def *definition) error {
	t := s.tables[n]
	if t == nil {
		spec := s.catalog.config.spec(n)
		if spec == nil {
			return nil
		}
		t = &tracked{name: n, spec: spec}
	}
	if t.shape != nil {
		def = def.identified(t.shape.def)
		if t.shape.def.equal(def) {
			return nil
		}
	} else {
		def = def.identified(nil)
	}
	shape, err := newShape(n, def, t.spec, s.sets)
	if err != nil {
		return err
	}
	if shape.table.Passed, err = s.rowless(n, def, t.spec); err != nil {
		return err
	}
	if s.tables == nil {
		s.tables = map[tableName]*tracked{}
	}
	t.shape, s.tables[n], s.packed = shape, t, nil
	return nil
}

// maxPassed bounds how many versions without rows are remembered.
const maxPassed = 32

// passing returns the versions that a table goes through without a row on its way to the next one. Only one that another
// change of type follows makes something of the values that are there.
func (def *definition) passing(next *definition) []*definition {
	if def.Used || def.Origin != next.Origin {
		return nil
	}
	retyped := slices.ContainsFunc(def.Columns, func(c columnDef) bool {
		return slices.ContainsFunc(next.Columns, func(o columnDef) bool { return o.ID == c.ID && o.Type != c.Type })
	})
	if !retyped || len(def.Passed) >= maxPassed {
		return def.Passed
	}
	own := *def
	own.Passed = nil
	return append(slices.Clone(def.Passed), &own)
}

// rowless are the versions that a definition has passed, as sinks get to see them.
func (s *schemas) rowless(n tableName, def *definition, spec *connectors.TableSpec) ([]*connectors.Table, error) {
	var list []*connectors.Table
	for _, passed := range def.Passed {
		shape, err := newShape(n, passed, spec, s.sets)
		if err != nil {
			return nil, err
		}
		shape.table.Rowless = true
		list = append(list, shape.table)
	}
	return list, nil
}

// use notes that rows are handed over in the version that a table has.
func (s *schemas) use(t *tracked) {
	if t.shape.def.Used {
		return
	}
	def := *t.shape.def
	def.Used = true
	t.shape.def, s.packed = &def, nil
}

// drop forgets a table.
func (s *schemas) drop(n tableName) {
	if s.tables[n] != nil {
		delete(s.tables, n)
		s.packed = nil
	}
}

// pack returns the history for the saved position.
func (s *schemas) pack() ([]byte, error) {
	if s.packed != nil {
		return s.packed, nil
	}
	h := history{}
	maps.Copy(h, s.left)
	for n, t := range s.tables {
		h[n] = t.shape.def
	}
	var err error
	s.packed, err = packHistory(h)
	return s.packed, err
}

// match returns the version of a table that rows of this layout are of; nil when nobody wants them.
func (s *schemas) match(ctx context.Context, m *tableMap, at place) (*tracked, *shape, error) {
	t := s.tables[m.name]
	if t != nil && t.failed {
		return t, nil, nil
	}
	if t != nil && t.shape.accepts(m) == "" {
		if err := s.relabel(t, m); err != nil {
			return nil, nil, err
		}
		if err := s.discover(ctx, t, m); err != nil {
			return nil, nil, err
		}
		s.use(t)
		return t, t.shape, nil
	}
	if s.catalog.config.spec(m.name) == nil {
		return nil, nil, nil
	}
	why := "the table is not known"
	if t != nil {
		why = t.shape.accepts(m)
	}
	def, err := s.catalog.table(ctx, m.name)
	if err != nil {
		return nil, nil, err
	}
	for _, candidate := range []*definition{def, arrange(m, t, def)} {
		if candidate == nil || t != nil && t.shape.accepts(m) == "" {
			continue
		}
		if err := s.adopt(m, candidate); err != nil {
			return nil, nil, err
		}
		if t = s.tables[m.name]; t != nil && t.shape.accepts(m) == "" {
			if err := s.relabel(t, m); err != nil {
				return nil, nil, err
			}
			s.use(t)
			return t, t.shape, nil
		}
	}
	if t == nil {
		return nil, nil, fmt.Errorf("table %s: its rows at %s are of a version that is not known: %s; take a fresh snapshot with: trunkline resync %s: %w",
			m.name.full(), at, why, s.source, connectors.ErrFatal)
	}
	s.fail(t, fmt.Sprintf("its rows at %s are of a version that is not known: %s", at, why))
	return t, nil, nil
}

// fail stops one table. The others go on; the position does not name it any more, so that it is read anew at the next
// start, or when somebody asks for that.
func (s *schemas) fail(t *tracked, why string) {
	t.failed = true
	reason := why + "; its changes are left out until it is read anew with: trunkline resync " + s.source + "/" + t.name.full()
	s.report(connectors.Report{Table: t.name.full(), Phase: connectors.PhaseFailed, Reason: reason})
	s.logger.Error("stopped", "source", s.source, "table", t.name.full(), "reason", reason)
}

// arrange builds the version that a table map with names describes, from columns of those names that are or were there.
func arrange(m *tableMap, t *tracked, now *definition) *definition {
	if m.extra.names == nil {
		return nil
	}
	var known []*definition
	if t != nil {
		known = append(known, t.shape.def)
	}
	if now != nil {
		known = append(known, now)
	}
	if len(known) == 0 {
		return nil
	}
	out := &definition{Key: known[0].Key, Charset: known[0].Charset}
	for i, name := range m.extra.names {
		found := false
		for _, def := range known {
			at := slices.IndexFunc(def.Columns, func(c columnDef) bool { return c.Name == name })
			if found = at >= 0 && (&decoder{typ: parseType(def.Columns[at].Type), scale: max(parseType(def.Columns[at].Type).a, 0)}).fits(m.columns[i]); found {
				out.Columns = append(out.Columns, def.Columns[at])
				break
			}
		}
		if !found {
			return nil
		}
	}
	return out
}

// adopt takes a definition over if the rows can be of it.
func (s *schemas) adopt(m *tableMap, def *definition) error {
	spec := s.catalog.config.spec(m.name)
	shape, err := newShape(m.name, def, spec, s.sets)
	if err != nil {
		return err
	}
	if shape.accepts(m) != "" {
		return nil
	}
	return s.set(m.name, def)
}

// accepts is fits, and compares the names and signs that the binary log may have.
func (s *shape) accepts(m *tableMap) string {
	if why := s.fits(m); why != "" {
		return why
	}
	for i := range m.columns {
		if m.extra.names != nil && m.extra.names[i] != s.def.Columns[i].Name {
			return fmt.Sprintf("column %d is %s in the binary log and %s as we know it", i+1, m.extra.names[i], s.def.Columns[i].Name)
		}
		if m.extra.signed && slices.Contains([]form{formInt, formUint}, s.decoders[i].form) && m.extra.unsigned[i] != s.decoders[i].typ.unsigned {
			return fmt.Sprintf("column %s has another sign in the binary log than as we know it", s.def.Columns[i].Name)
		}
	}
	return ""
}

// databaseCharset is what a new table has for a character set when its statement names none.
func (s *schemas) databaseCharset(ctx context.Context, schema string) string {
	var name string
	err := s.catalog.db.QueryRowContext(ctx, "SELECT DEFAULT_CHARACTER_SET_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = ?", schema).Scan(&name)
	if err != nil {
		return "utf8mb4"
	}
	return name
}

// relabel takes the labels of enums and sets from the binary log where it has them. The catalog shows them in three-byte
// UTF-8 only, and where they were changed twice it does not show the old ones at all.
func (s *schemas) relabel(t *tracked, m *tableMap) error {
	def := *t.shape.def
	for i, c := range def.Columns {
		raw := m.labelsOf(i)
		if raw == nil {
			continue
		}
		set, err := s.sets.get(c.Charset)
		if err != nil {
			return err
		}
		var labels []string
		for _, l := range raw {
			labels = append(labels, string(set.append(nil, l)))
		}
		if d := t.shape.decoders[i]; !slices.Equal(labels, d.typ.labels) {
			if &def.Columns[0] == &t.shape.def.Columns[0] {
				def.Columns = slices.Clone(def.Columns)
			}
			def.Columns[i].Type = labelType(d.typ.base, labels)
		}
	}
	return s.set(t.name, &def)
}

// maxLooksForLabels bounds how often rows are asked for labels: a label can have a question mark of its own.
const maxLooksForLabels = 5

// discover asks the rows once more for labels that the catalog does not show, where the binary log has none: there may be a row
// with it by now. Labels are taken from the catalog only if it has the others where we know them to be.
func (s *schemas) discover(ctx context.Context, t *tracked, m *tableMap) error {
	hidden := func(label string) bool { return strings.Contains(label, "?") }
	lacking := func(i int) bool {
		typ := t.shape.decoders[i].typ
		return typ.base == "enum" && m.labelsOf(i) == nil && slices.ContainsFunc(typ.labels, hidden)
	}
	any := false
	for i := range t.shape.def.Columns {
		any = any || lacking(i)
	}
	if !any || t.looks == maxLooksForLabels {
		return nil
	}
	t.looks++
	now, err := s.catalog.table(ctx, t.name)
	if err != nil || now == nil {
		return err
	}
	def := *t.shape.def
	def.Columns = slices.Clone(def.Columns)
	for i, c := range def.Columns {
		at := now.column(c.Name)
		if !lacking(i) || at < 0 {
			continue
		}
		known, labels := t.shape.decoders[i].typ.labels, parseType(now.Columns[at].Type).labels
		if len(known) == len(labels) && slices.EqualFunc(known, labels, func(a, b string) bool { return a == b || hidden(a) }) {
			def.Columns[i].Type = labelType("enum", labels)
		}
	}
	return s.set(t.name, &def)
}
