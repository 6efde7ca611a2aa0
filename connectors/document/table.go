package document

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/trunkline/trunkline/connectors"
)

// The limits of what is remembered.
const (
	maxTables  = 10_000
	maxColumns = 1600
	maxName    = 255 // bytes of a column's name
)

// Name tells a table from others.
type Name struct{ Schema, Table string }

// Tables are the tables of one source. They belong to the goroutine that reads.
type Tables struct {
	settings *Settings
	tables   map[Name]*table
	state    []byte // nil: not made yet

	members []member // used again by each object
}

// table is what is known of one table.
type table struct {
	current *connectors.Table // nil: to be made
	key     []string
	columns []connectors.Column
	places  map[string]int
}

// shape is a table in a position: ["main","item",["id"],[["id","int"],["v","text"]]].
type shape struct {
	Schema  string      `json:"s,omitempty"`
	Table   string      `json:"t"`
	Key     []string    `json:"k,omitempty"`
	Columns [][2]string `json:"c"`
}

// New returns the tables that a position remembers; state is nil at a first start. Types that were declared since then
// hold from now on.
func New(s *Settings, state []byte) (*Tables, error) {
	t := &Tables{settings: s, tables: map[Name]*table{}}
	if state == nil {
		return t, nil
	}
	var shapes []shape
	if err := json.Unmarshal(state, &shapes); err != nil {
		return nil, fmt.Errorf("parse tables of a position: %w", connectors.ErrPositionLost)
	}
	for _, sh := range shapes {
		one := &table{key: sh.Key, places: map[string]int{}}
		if len(s.Key) > 0 {
			one.key = s.Key
		}
		for _, c := range sh.Columns {
			kind, ok := connectors.KindOf(c[1])
			if !ok {
				return nil, fmt.Errorf("parse tables of a position: %q is no kind: %w", c[1], connectors.ErrPositionLost)
			}
			one.add(s.column(c[0], kind))
		}
		t.tables[Name{sh.Schema, sh.Table}] = one
	}
	return t, nil
}

// State returns what is known of the tables, for a position.
func (t *Tables) State() ([]byte, error) {
	if t.state != nil {
		return t.state, nil
	}
	shapes := make([]shape, 0, len(t.tables))
	for name, one := range t.tables {
		sh := shape{Schema: name.Schema, Table: name.Table, Key: one.key, Columns: [][2]string{}}
		for _, c := range one.columns {
			sh.Columns = append(sh.Columns, [2]string{c.Name, c.Kind.String()})
		}
		shapes = append(shapes, sh)
	}
	slices.SortFunc(shapes, func(a, b shape) int {
		return slices.Compare([]string{a.Schema, a.Table}, []string{b.Schema, b.Table})
	})
	var err error
	t.state, err = json.Marshal(shapes)
	return t.state, err
}

// column returns a new column: of its declared type, else of the kind of its values.
func (s *Settings) column(name string, kind connectors.Kind) connectors.Column {
	if typ, ok := s.Types[name]; ok {
		return connectors.Column{Name: name, Kind: typ.kind, Type: typ.name}
	}
	return connectors.Column{Name: name, Kind: kind}
}

func (o *table) add(c connectors.Column) int {
	o.columns = append(o.columns, c)
	o.places[c.Name] = len(o.columns) - 1
	o.current = nil
	return len(o.columns) - 1
}

// of returns the table of a name. A new one has the declared key.
func (t *Tables) of(name Name) (*table, error) {
	if one := t.tables[name]; one != nil {
		return one, nil
	}
	if len(t.tables) >= maxTables {
		return nil, fmt.Errorf("more than %d tables", maxTables)
	}
	one := &table{key: t.settings.Key, places: map[string]int{}}
	t.tables[name], t.state = one, nil
	return one, nil
}

// Columns makes sure that a table has columns, in this order as far as they are new.
func (t *Tables) Columns(name Name, columns []connectors.Column) error {
	one, err := t.of(name)
	if err != nil {
		return err
	}
	for _, c := range columns {
		if err := checkName(c.Name); err != nil {
			return err
		}
		if typ, ok := t.settings.Types[c.Name]; ok {
			c.Kind, c.Type = typ.kind, typ.name
		}
		i, ok := one.places[c.Name]
		switch {
		case !ok && len(one.columns) >= maxColumns:
			return errTooWide
		case !ok:
			one.add(c)
			t.state = nil
		case one.columns[i].Kind != c.Kind:
			return fmt.Errorf("column %s is of type %v, and was of type %v before; declare it in types, or give the rows another table", c.Name, c.Kind, one.columns[i].Kind)
		case one.columns[i].Type != c.Type && c.Type != "" || one.columns[i].Elem != c.Elem:
			if err := t.change(one, i, c); err != nil {
				return err
			}
		}
	}
	return nil
}

var errTooWide = fmt.Errorf("more than %d columns: the members of the objects are no columns, as it seems", maxColumns)

// checkName reports a name that no column has.
func checkName(name string) error {
	if name == "" || len(name) > maxName {
		return fmt.Errorf("a column without a name, or with one of more than %d bytes", maxName)
	}
	return nil
}

// change gives a column another type. A key keeps its own, because rows are told apart by its text.
func (t *Tables) change(one *table, i int, c connectors.Column) error {
	if slices.Contains(one.key, c.Name) && one.columns[i].Kind != c.Kind {
		return fmt.Errorf("the key column %s had values of type %v, and now one of type %v; declare it: types: {%[1]s: text}", c.Name, one.columns[i].Kind, c.Kind)
	}
	one.columns[i], one.current, t.state = c, nil, nil
	return nil
}

// setKey gives a table the key that a change names, where the settings name none.
func (t *Tables) setKey(one *table, names []string) {
	if len(t.settings.Key) > 0 || len(names) == 0 || slices.Equal(one.key, names) {
		return
	}
	one.key, one.current, t.state = names, nil, nil
}

// Identify gives a table a key, where the settings name none.
func (t *Tables) Identify(name Name, key []string) error {
	one, err := t.of(name)
	if err == nil {
		t.setKey(one, key)
	}
	return err
}

// Table returns the present version of a table.
func (t *Tables) Table(name Name) (*connectors.Table, error) {
	one, err := t.of(name)
	if err != nil {
		return nil, err
	}
	if one.current != nil {
		return one.current, nil
	}
	made := &connectors.Table{Schema: name.Schema, Name: name.Table, Columns: slices.Clone(one.columns)}
	for _, k := range one.key {
		i, ok := one.places[k]
		if !ok {
			return nil, fmt.Errorf("no value for the key column %s", k)
		}
		made.Key = append(made.Key, i)
	}
	one.current = made
	return made, nil
}

// Kind returns the kind of a column's values: the declared one, else another.
func (t *Tables) Kind(column string, other connectors.Kind) connectors.Kind {
	if typ, ok := t.settings.Types[column]; ok {
		return typ.kind
	}
	return other
}

// Fit returns the table that has columns, and their values in its order; columns that the row does not have are missing.
func (t *Tables) Fit(name Name, columns []connectors.Column, values []connectors.Value, missing connectors.Value) (*connectors.Table, []connectors.Value, error) {
	if err := t.Columns(name, columns); err != nil {
		return nil, nil, err
	}
	made, err := t.Table(name)
	if err != nil {
		return nil, nil, err
	}
	row := make([]connectors.Value, len(made.Columns))
	for i := range row {
		row[i] = missing
	}
	places := t.tables[name].places
	for i := range columns {
		row[places[columns[i].Name]] = values[i]
	}
	return made, row, nil
}

// CheckKey reports a row without a value for a column of its key.
func CheckKey(t *connectors.Table, row []connectors.Value) error {
	for _, k := range t.Key {
		if k >= len(row) || row[k].IsNull() || row[k].IsAbsent() {
			return fmt.Errorf("no value for the key column %s", t.Columns[k].Name)
		}
	}
	return nil
}
