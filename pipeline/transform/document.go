package transform

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/trunkline/trunkline/connectors"
)

// Flatten makes columns of the members of JSON documents (and of hstore).
type Flatten struct {
	Tables    Tables                     `yaml:"tables"`
	Columns   map[string]map[string]Type `yaml:"columns"`   // column: {member: type}; a member of a member is a.b
	Separator *string                    `yaml:"separator"` // between the column's name and the member's; _
	Keep      bool                       `yaml:"keep"`      // keep the document too
}

// Validate checks that there is something to do.
func (f *Flatten) Validate() error {
	if len(f.Columns) == 0 {
		return errors.New("columns is missing: {column: {member: type}}")
	}
	for name, members := range f.Columns {
		if len(members) == 0 {
			return fmt.Errorf("columns names no member of %q", name)
		}
	}
	return nil
}

func (f *Flatten) scope() []string        { return f.Tables }
func (f *Flatten) columns() []namedColumn { return keysOf(f.Columns) }

// member is one value inside of a document.
type member struct {
	path []string
	typ  Type
	to   int
}

func membersOf(types map[string]Type) []member {
	var out []member
	for _, name := range slices.Sorted(maps.Keys(types)) {
		out = append(out, member{path: strings.Split(name, "."), typ: types[name]})
	}
	return out
}

func (f *Flatten) bind(t *connectors.Table) (action, *connectors.Table, error) {
	separator := "_"
	if f.Separator != nil {
		separator = *f.Separator
	}
	gone := make([]bool, len(t.Columns))
	for name := range f.Columns {
		i, err := find(t, name)
		if err != nil {
			return nil, nil, err
		}
		if !holdsDocuments(t.Columns[i].Kind) {
			return nil, nil, fmt.Errorf("flatten column %q of %s: it is of kind %v and holds no documents", name, t.FullName(), t.Columns[i].Kind)
		}
		if gone[i] = !f.Keep; isKey(t, i) && gone[i] {
			return nil, nil, refuseKey("flatten", t, i)
		}
	}
	var from []int
	for i := range t.Columns {
		if !gone[i] {
			from = append(from, i)
		}
	}
	_, out, err := pick(t, from)
	if err != nil {
		return nil, nil, err
	}
	documents := map[int][]member{}
	for _, c := range keysOf(f.Columns) {
		list := membersOf(f.Columns[c.name])
		for i := range list {
			list[i].to = len(out.Columns)
			out.Columns = append(out.Columns, list[i].typ.Column(t.Dialect, strings.Join(append([]string{c.name}, list[i].path...), separator)))
		}
		documents[t.Column(c.name)] = list
	}
	if err := checkNames(out); err != nil {
		return nil, nil, err
	}
	act := func(r *rows, c *connectors.Change) (bool, error) {
		return images(c, func(row []connectors.Value) ([]connectors.Value, error) {
			wide := r.row(len(out.Columns))
			for i, at := range from {
				wide[i] = row[at]
			}
			for at, list := range documents {
				if err := take(r, row[at], list, wide); err != nil {
					return nil, fmt.Errorf("column %q: %w", t.Columns[at].Name, err)
				}
			}
			return wide, nil
		})
	}
	return act, out, nil
}

func holdsDocuments(k connectors.Kind) bool {
	return k == connectors.JSON || k == connectors.Map || k == connectors.Text || k == connectors.Bytes
}

// take puts the members of a document into a row. A document that is NULL has none, one that is absent leaves them absent.
func take(r *rows, document connectors.Value, list []member, row []connectors.Value) error {
	if document.IsAbsent() {
		return nil
	}
	text := document.Data()
	if !document.IsNull() && !connectors.ValidJSON(text) {
		return errors.New("holds a text that is not JSON")
	}
	for i := range list {
		row[list[i].to] = connectors.NullValue()
		if document.IsNull() {
			continue
		}
		token, ok := within(text, list[i].path)
		if !ok {
			continue
		}
		v, err := r.jsonValue(token, list[i].typ)
		if err != nil {
			return fmt.Errorf("member %q: %w", strings.Join(list[i].path, "."), err)
		}
		row[list[i].to] = v
	}
	return nil
}

// within returns the value at a path of names. The document is valid JSON.
func within(b []byte, path []string) ([]byte, bool) {
	for _, name := range path {
		var ok bool
		if b, ok = lookupMember(b, name); !ok {
			return nil, false
		}
	}
	token, _, err := connectors.ScanJSON(space(b))
	return token, err == nil
}

func space(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\n' || b[0] == '\t' || b[0] == '\r') {
		b = b[1:]
	}
	return b
}

// lookupMember returns the text from the value of a member on; of a name that stands twice, the last.
func lookupMember(b []byte, name string) (value []byte, ok bool) {
	b = space(b)
	if len(b) == 0 || b[0] != '{' {
		return nil, false
	}
	for b = space(b[1:]); len(b) > 0 && b[0] == '"'; {
		token, rest, err := connectors.ScanJSON(b)
		if err != nil {
			return nil, false
		}
		text, _, err := connectors.Unquote(token, nil)
		if err != nil {
			return nil, false
		}
		rest = space(rest[1:]) // the colon
		if string(text) == name {
			value, ok = rest, true
		}
		if _, rest, err = connectors.ScanJSON(rest); err != nil {
			return nil, false
		}
		b = rest
		if len(b) > 0 && b[0] == ',' {
			b = space(b[1:])
		}
	}
	return value, ok
}

// jsonValue makes a value of a type out of a token of JSON.
func (r *rows) jsonValue(token []byte, t Type) (connectors.Value, error) {
	if t.kind == connectors.JSON {
		return connectors.DataValue(connectors.JSON, token), nil
	}
	if token[0] == '{' || token[0] == '[' {
		v := connectors.DataValue(connectors.Text, token)
		if t.kind == connectors.Text {
			return v, nil
		}
		return cast(v, t)
	}
	kind := t.kind
	if kind == connectors.Text && token[0] != '"' && token[0] != 'n' {
		return connectors.DataValue(connectors.Text, token), nil
	}
	if token[0] == '"' && kind != connectors.Bytes {
		kind = connectors.Text
	}
	r.room(len(token))
	v, grown, err := connectors.ParseJSON(kind, token, r.bytes)
	if err != nil {
		return v, err
	}
	r.bytes = grown
	if v.Kind() == t.kind && t.scale < 0 && intBits[t.name] == 0 {
		return v, nil
	}
	return cast(v, t)
}

// Unwrap makes a row of the document in one column: what others put into a topic, a table or a request.
type Unwrap struct {
	Tables   Tables          `yaml:"tables"`
	Column   string          `yaml:"column"`   // that holds the document
	Columns  map[string]Type `yaml:"columns"`  // member: type; a member of a member is a.b
	Key      []string        `yaml:"key"`      // members that are the key; none: the table has none
	Envelope string          `yaml:"envelope"` // none: the document is the row; debezium: it is Debezium's envelope around it
}

// Validate checks that the row is described.
func (u *Unwrap) Validate() error {
	var errs []error
	if u.Column == "" || len(u.Columns) == 0 {
		errs = append(errs, errors.New("column or columns is missing: the column with the document, and {member: type} of its row"))
	}
	for _, k := range u.Key {
		if _, ok := u.Columns[k]; !ok {
			errs = append(errs, fmt.Errorf("key names %q, which is none of columns", k))
		}
	}
	if u.Envelope != "" && u.Envelope != "none" && u.Envelope != "debezium" {
		errs = append(errs, errors.New("envelope is not one of none, debezium"))
	}
	return errors.Join(errs...)
}

func (u *Unwrap) scope() []string { return u.Tables }

func (u *Unwrap) columns() []namedColumn { return []namedColumn{{"column", u.Column}} }

func (u *Unwrap) bind(t *connectors.Table) (action, *connectors.Table, error) {
	at, err := find(t, u.Column)
	if err != nil {
		return nil, nil, err
	}
	if !holdsDocuments(t.Columns[at].Kind) {
		return nil, nil, fmt.Errorf("unwrap column %q of %s: it is of kind %v and holds no documents", u.Column, t.FullName(), t.Columns[at].Kind)
	}
	out := &connectors.Table{Dialect: t.Dialect, Database: t.Database, Schema: t.Schema, Name: t.Name, Topic: t.Topic}
	list := membersOf(u.Columns)
	for i := range list {
		list[i].to = i
		name := strings.Join(list[i].path, "_")
		out.Columns = append(out.Columns, list[i].typ.Column(t.Dialect, name))
	}
	for _, k := range u.Key {
		out.Key = append(out.Key, out.Column(strings.ReplaceAll(k, ".", "_")))
	}
	if err := checkNames(out); err != nil {
		return nil, nil, err
	}
	row := func(r *rows, document connectors.Value) ([]connectors.Value, error) {
		wide := r.row(len(list))
		if err := take(r, document, list, wide); err != nil {
			return nil, fmt.Errorf("column %q: %w", u.Column, err)
		}
		return wide, nil
	}
	if u.Envelope == "debezium" {
		return func(r *rows, c *connectors.Change) (bool, error) { return openEnvelope(r, c, at, row) }, out, nil
	}
	act := func(r *rows, c *connectors.Change) (bool, error) {
		return images(c, func(image []connectors.Value) ([]connectors.Value, error) {
			if image[at].IsNull() {
				return nil, fmt.Errorf("column %q is null: there is no row in it", u.Column)
			}
			return row(r, image[at])
		})
	}
	return act, out, nil
}
