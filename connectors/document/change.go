package document

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

// A change is one of
//
//	{"schema":"main","table":"item","op":"u","ts":"2026-01-30T12:34:56Z","key":{"id":1},"before":null,"after":{"id":1,"v":"x"},"unchanged":["w"]}
//	{"op":"u","ts_ms":1769776496000,"source":{"schema":"main","table":"item","ts_ms":1769776496000},"before":null,"after":{…},"unchanged":["w"]}
//	{"schema":{…},"payload":{the second}}
//
// The first is a line of a sink of type file, exec or kafka (connectors.AppendLine), the others are records of Trunkline's own
// log and of Debezium. A member may be missing; without op it is a new row.
type event struct {
	op        connectors.Op
	at        time.Time
	schema    []byte // tokens; nil: not there
	table     []byte
	key       []byte
	before    []byte
	after     []byte
	unchanged []byte
}

// IsChange reports an object that says that it is a change: it has an operation, and an image of a row.
func IsChange(object []byte) bool {
	members, _, err := split(object, nil, nil)
	if err != nil {
		return false
	}
	op, image := false, false
	for _, m := range members {
		switch m.name {
		case "payload":
			return m.token[0] == '{' && IsChange(m.token)
		case "op":
			op = len(m.token) == 3 && m.token[0] == '"' && connectors.OpOf(m.token[1]) != 0
		case "before", "after":
			image = image || m.token[0] == '{'
		}
	}
	return op && image
}

// parse reads a change.
func (t *Tables) parse(object, arena []byte) (event, []byte, error) {
	members, arena, err := split(object, t.members[:0], arena)
	if err != nil {
		return event{}, arena, err
	}
	t.members = members
	for _, m := range members {
		if m.name == "payload" && m.token[0] == '{' {
			inner, arena, err := split(m.token, nil, arena)
			if err != nil {
				return event{}, arena, err
			}
			e, err := eventOf(inner)
			return e, arena, err
		}
	}
	e, err := eventOf(members)
	return e, arena, err
}

func eventOf(members []member) (event, error) {
	var e event
	for _, m := range members {
		null := m.token[0] == 'n'
		switch m.name {
		case "op":
			if len(m.token) == 3 {
				e.op = connectors.OpOf(m.token[1])
			}
			if e.op == 0 {
				return e, errors.New("op is none of r, c, u, d, t, m")
			}
		case "ts":
			if at, err := moments(m.token); err == nil {
				e.at = at
			} else if !null {
				return e, errors.New("ts is no time such as 2026-01-30T12:34:56Z")
			}
		case "source":
			if m.token[0] == '{' {
				if err := e.source(m.token); err != nil {
					return e, err
				}
			}
		case "schema", "table", "key", "before", "after", "unchanged":
			if null {
				continue
			}
			e.set(m)
		}
	}
	if e.op == 0 && e.after != nil {
		e.op = connectors.Insert
	}
	if e.op == 0 {
		return e, errors.New("neither op nor after: the object is no change")
	}
	return e, nil
}

func (e *event) set(m member) {
	switch m.name {
	case "schema":
		e.schema = m.token
	case "table":
		e.table = m.token
	case "key":
		e.key = m.token
	case "before":
		e.before = m.token
	case "after":
		e.after = m.token
	case "unchanged":
		e.unchanged = m.token
	}
}

// source reads the block that says where a change comes from.
func (e *event) source(token []byte) error {
	members, _, err := split(token, nil, nil)
	if err != nil {
		return err
	}
	for _, m := range members {
		switch m.name {
		case "schema", "table":
			if m.token[0] == '"' {
				e.set(m)
			}
		case "ts_ms":
			if ms, err := strconv.ParseInt(string(m.token), 10, 64); err == nil && ms > 0 && e.at.IsZero() {
				e.at = time.UnixMilli(ms)
			}
		}
	}
	return nil
}

func moments(token []byte) (time.Time, error) {
	return time.Parse(`"`+time.RFC3339Nano+`"`, string(token))
}

// Change makes a change of an object. name is its table where it does not say so itself, keys are the names of its key where it
// has none of its own and the settings have none, now its time. The change points into object and arena, which is returned grown.
func (t *Tables) Change(name Name, object, arena []byte, keys []string, now time.Time) (connectors.Change, []byte, error) {
	e, arena, err := t.parse(object, arena)
	if err != nil {
		return connectors.Change{}, arena, err
	}
	c := connectors.Change{Op: e.op, Time: now}
	if !e.at.IsZero() {
		c.Time = e.at
	}
	if e.op == connectors.Message {
		return t.message(c, e, arena)
	}
	if e.table != nil {
		if name.Table, err = text(e.table); err != nil || name.Table == "" {
			return c, arena, expected("table", e.table)
		}
		name.Schema = ""
	}
	if e.schema != nil && e.schema[0] == '"' {
		if name.Schema, err = text(e.schema); err != nil {
			return c, arena, err
		}
	}
	one, err := t.of(name)
	if err != nil {
		return c, arena, err
	}
	if keys, err = keyNames(e.key, keys); err != nil {
		return c, arena, err
	}
	t.setKey(one, keys)
	return t.images(c, one, name, e, arena)
}

// images fills in the rows of a change.
func (t *Tables) images(c connectors.Change, one *table, name Name, e event, arena []byte) (connectors.Change, []byte, error) {
	needsAfter := c.Op == connectors.Snapshot || c.Op == connectors.Insert || c.Op == connectors.Update
	switch {
	case c.Op == connectors.Truncate:
		e.before, e.after = nil, nil
	case needsAfter && e.after == nil:
		return c, arena, fmt.Errorf("op %c without after", c.Op.Code())
	case c.Op == connectors.Delete && e.before == nil && e.key == nil:
		return c, arena, errors.New("op d without before and key")
	case c.Op == connectors.Delete && e.before == nil:
		e.before = e.key
	}
	if c.Op == connectors.Delete {
		e.after = nil
	}
	var before, after []member
	var err error
	if e.before != nil {
		if before, arena, err = split(e.before, nil, arena); err == nil {
			err = t.widen(one, before)
		}
		if err != nil {
			return c, arena, fmt.Errorf("before: %w", err)
		}
	}
	if e.after != nil {
		if after, arena, err = split(e.after, nil, arena); err == nil {
			err = t.widen(one, after)
		}
		if err != nil {
			return c, arena, fmt.Errorf("after: %w", err)
		}
	}
	if c.Table, err = t.Table(name); err != nil {
		return c, arena, err
	}
	if e.before != nil {
		if c.Before, arena, err = one.image(before, connectors.Value{}, arena); err != nil {
			return c, arena, err
		}
	}
	if e.after != nil {
		if c.After, arena, err = one.image(after, connectors.NullValue(), arena); err != nil {
			return c, arena, err
		}
		if err := one.absent(c.After, e.unchanged); err != nil {
			return c, arena, err
		}
		return c, arena, CheckKey(c.Table, c.After)
	}
	if c.Op == connectors.Delete {
		return c, arena, CheckKey(c.Table, c.Before)
	}
	return c, arena, nil
}

// absent marks the columns that a change does not carry.
func (o *table) absent(row []connectors.Value, unchanged []byte) error {
	if unchanged == nil {
		return nil
	}
	var names []string
	if err := json.Unmarshal(unchanged, &names); err != nil {
		return expected("unchanged", unchanged)
	}
	for _, n := range names {
		if i, ok := o.places[n]; ok {
			row[i] = connectors.Value{}
		}
	}
	return nil
}

// message makes the change that is not about a row.
func (t *Tables) message(c connectors.Change, e event, arena []byte) (connectors.Change, []byte, error) {
	var m struct {
		Prefix  string `json:"prefix"`
		Content []byte `json:"content"`
	}
	if e.after == nil || json.Unmarshal(e.after, &m) != nil {
		return c, arena, errors.New("op m without a prefix and a content")
	}
	c.After = []connectors.Value{connectors.DataValue(connectors.Text, []byte(m.Prefix)), connectors.DataValue(connectors.Bytes, m.Content)}
	return c, arena, nil
}

func text(token []byte) (string, error) {
	if token[0] != '"' {
		return "", expected("a name", token)
	}
	b, _, err := connectors.Unquote(token, nil)
	return string(b), err
}

// keyNames returns the names of the members of a key, or others where there is none.
func keyNames(key []byte, others []string) ([]string, error) {
	if key == nil {
		return others, nil
	}
	names, err := Members(key)
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	return names, nil
}

// Find returns the value of a member of an object, nil if there is none.
func Find(object []byte, name string) ([]byte, error) {
	members, _, err := split(object, nil, nil)
	for i := len(members) - 1; i >= 0; i-- {
		if members[i].name == name {
			return members[i].token, err
		}
	}
	return nil, err
}

// Members returns the names of an object's members in their order.
func Members(object []byte) ([]string, error) {
	members, _, err := split(object, nil, nil)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(members))
	for _, m := range members {
		if !slices.Contains(names, m.name) {
			names = append(names, m.name)
		}
	}
	return names, nil
}

// SplitName splits the full name of a table, schema.table, at its first dot.
func SplitName(full string) Name {
	if schema, table, ok := strings.Cut(full, "."); ok {
		return Name{schema, table}
	}
	return Name{Table: full}
}
