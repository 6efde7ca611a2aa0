package document

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

// member is a member of an object: its name and the text of its value.
type member struct {
	name  string
	token []byte
}

var errNoObject = errors.New("not a JSON object")

// split returns the members of an object. Of two with one name the last counts, as in most readers.
func split(object []byte, into []member, arena []byte) ([]member, []byte, error) {
	token, rest, err := connectors.ScanJSON(object)
	if err != nil {
		return nil, arena, err
	}
	if len(rest) > 0 {
		return nil, arena, errors.New("more than one JSON value")
	}
	if token[0] != '{' {
		return nil, arena, errNoObject
	}
	body := token[1 : len(token)-1]
	for {
		name, after, err := connectors.ScanJSON(body)
		if err != nil {
			return into, arena, nil // an empty object: what was scanned is valid
		}
		var text, value []byte
		if text, arena, err = connectors.Unquote(name, arena); err != nil {
			return nil, arena, err
		}
		if value, after, err = connectors.ScanJSON(after[1:]); err != nil {
			return nil, arena, err
		}
		into = append(into, member{string(text), value})
		if len(after) == 0 {
			return into, arena, nil
		}
		body = after[1:]
	}
}

// Row makes an Insert of an object. The change points into object and into arena, which is returned grown. An error is the
// row's own fault, and holds no value of it.
func (t *Tables) Row(name Name, object, arena []byte, now time.Time) (connectors.Change, []byte, error) {
	members, arena, err := split(object, t.members[:0], arena)
	if err != nil {
		return connectors.Change{}, arena, err
	}
	t.members = members
	one, err := t.of(name)
	if err != nil {
		return connectors.Change{}, arena, err
	}
	if err := t.widen(one, members); err != nil {
		return connectors.Change{}, arena, err
	}
	c := connectors.Change{Op: connectors.Insert, Time: now}
	if c.Table, err = t.Table(name); err != nil {
		return c, arena, err
	}
	if c.After, arena, err = one.image(members, connectors.NullValue(), arena); err != nil {
		return c, arena, err
	}
	return c, arena, CheckKey(c.Table, c.After)
}

// widen makes room for the values of an object: columns that are new, and kinds that hold them. Nothing is changed when one
// of them cannot be.
func (t *Tables) widen(one *table, members []member) error {
	fresh := 0
	for _, m := range members {
		i, ok := one.places[m.name]
		kind := kindOf(m.token)
		if !ok && kind != connectors.Null {
			if err := checkName(m.name); err != nil {
				return err
			}
			fresh++
			continue
		}
		if _, declared := t.settings.Types[m.name]; ok && !declared {
			if wide := join(one.columns[i].Kind, kind, m.token); wide != one.columns[i].Kind && slices.Contains(one.key, m.name) {
				return t.change(one, i, connectors.Column{Name: m.name, Kind: wide})
			}
		}
	}
	if len(one.columns)+fresh > maxColumns {
		return errTooWide
	}
	for _, m := range members {
		kind := kindOf(m.token)
		i, ok := one.places[m.name]
		switch {
		case kind == connectors.Null:
		case !ok:
			one.add(t.settings.column(m.name, kind))
			t.state = nil
		default:
			if _, declared := t.settings.Types[m.name]; declared || one.columns[i].Type != "" {
				continue
			}
			if wide := join(one.columns[i].Kind, kind, m.token); wide != one.columns[i].Kind {
				if err := t.change(one, i, connectors.Column{Name: m.name, Kind: wide}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// image returns the values of an object; what it does not name is missing.
func (o *table) image(members []member, missing connectors.Value, arena []byte) ([]connectors.Value, []byte, error) {
	row := make([]connectors.Value, len(o.columns))
	for i := range row {
		row[i] = missing
	}
	for _, m := range members {
		i, ok := o.places[m.name]
		if !ok {
			continue // null in a column that nobody knows
		}
		v, grown, err := FromJSON(o.columns[i].Kind, m.token, arena)
		if arena = grown; err != nil {
			return nil, arena, bad(m.name, o.columns[i].Kind, err)
		}
		row[i] = v
	}
	return row, arena, nil
}

// Object describes a value for an error, without its content.
func describe(token []byte) string {
	switch token[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a text"
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	}
	return "a number"
}

func expected(what string, token []byte) error {
	return fmt.Errorf("%s is %s", what, describe(token))
}
