package cases

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/pipeline/spelling"
)

// change makes the change that goes in. A column that an insert leaves out is null; one that an update leaves out, or an
// old row, is not carried by the change.
func (e *Event) change(tables map[string]*connectors.Table) (connectors.Change, error) {
	t := tables[e.Table]
	if t == nil && e.Table == "" && len(tables) == 1 {
		for _, only := range tables {
			t = only
		}
	}
	if t == nil {
		return connectors.Change{}, fmt.Errorf("table %q is not among tables", e.Table)
	}
	c := connectors.Change{Op: e.op(), Table: t}
	if e.Time != "" {
		at, err := time.Parse(time.RFC3339Nano, e.Time)
		if err != nil {
			return c, fmt.Errorf("time %q is not one such as 2026-01-30T12:00:00Z", e.Time)
		}
		c.Time = at
	}
	var err error
	if c.Before, err = row(t, e.Before, connectors.Value{}); err != nil {
		return c, fmt.Errorf("before: %w", err)
	}
	rest := connectors.NullValue()
	if c.Op == connectors.Update {
		rest = connectors.Value{}
	}
	if c.After, err = row(t, e.After, rest); err != nil {
		return c, fmt.Errorf("after: %w", err)
	}
	switch {
	case c.Op == connectors.Delete && c.Before == nil:
		return c, errors.New("before is missing: a delete has the old row, or its key")
	case c.Op != connectors.Delete && c.Op != connectors.Truncate && c.After == nil:
		return c, errors.New("after is missing")
	}
	return c, nil
}

func (e *Event) op() connectors.Op {
	if e.Op == "" {
		return connectors.Insert
	}
	return connectors.OpOf(e.Op[0])
}

// row reads {column: value}; rest stands for every other column. nil where nothing stands.
func row(t *connectors.Table, n yaml.Node, rest connectors.Value) ([]connectors.Value, error) {
	if n.Kind == 0 || n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return nil, nil
	}
	if n.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d is not {column: value}", n.Line)
	}
	out := make([]connectors.Value, len(t.Columns))
	for i := range out {
		out[i] = rest
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := n.Content[i].Value
		at := t.Column(name)
		if at < 0 {
			return nil, noColumn(t, name, n.Content[i].Line)
		}
		v, err := value(t.Columns[at], n.Content[i+1])
		if err != nil {
			return nil, fmt.Errorf("line %d: column %q: %w", n.Content[i].Line, name, err)
		}
		out[at] = v
	}
	return out, nil
}

func noColumn(t *connectors.Table, name string, line int) error {
	var names []string
	for _, c := range t.Columns {
		names = append(names, c.Name)
	}
	err := fmt.Errorf("line %d: table %s has no column %q", line, t.FullName(), name)
	if hint := spelling.Nearest(name, names); hint != "" {
		err = fmt.Errorf("%w; did you mean %q?", err, hint)
	}
	return err
}

// value reads what stands in YAML as a value of a column. Text stays as written; bytes are base64, as in records.
func value(c connectors.Column, n *yaml.Node) (connectors.Value, error) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.ScalarNode {
		text, err := appendJSON(nil, n)
		return connectors.DataValue(c.Kind, text), err
	}
	if n.Tag == "!!null" {
		return connectors.NullValue(), nil
	}
	text := n.Value
	wrong := fmt.Errorf("%q is no value of kind %v", text, c.Kind)
	switch c.Kind {
	case connectors.Bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return connectors.Value{}, wrong
		}
		return connectors.BoolValue(b), nil
	case connectors.Int:
		i, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return connectors.Value{}, wrong
		}
		return connectors.IntValue(i), nil
	case connectors.Uint:
		u, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return connectors.Value{}, wrong
		}
		return connectors.UintValue(u), nil
	case connectors.Bytes:
		b, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return connectors.Value{}, errors.New("bytes are written in base64")
		}
		return connectors.DataValue(connectors.Bytes, b), nil
	}
	return connectors.DataValue(c.Kind, []byte(text)), nil
}

// appendJSON writes a list or an object of YAML as JSON, its scalars as they are written.
func appendJSON(dst []byte, n *yaml.Node) ([]byte, error) {
	var err error
	switch n.Kind {
	case yaml.AliasNode:
		return appendJSON(dst, n.Alias)
	case yaml.ScalarNode:
		switch n.Tag {
		case "!!null":
			return append(dst, "null"...), nil
		case "!!int", "!!float", "!!bool":
			if connectors.ValidJSON([]byte(n.Value)) {
				return append(dst, n.Value...), nil
			}
		}
		return connectors.AppendJSONString(dst, []byte(n.Value)), nil
	case yaml.SequenceNode:
		dst = append(dst, '[')
		for i, item := range n.Content {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = appendJSON(dst, item); err != nil {
				return dst, err
			}
		}
		return append(dst, ']'), nil
	case yaml.MappingNode:
		dst = append(dst, '{')
		for i := 0; i+1 < len(n.Content); i += 2 {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(connectors.AppendJSONString(dst, []byte(n.Content[i].Value)), ':')
			if dst, err = appendJSON(dst, n.Content[i+1]); err != nil {
				return dst, err
			}
		}
		return append(dst, '}'), nil
	}
	return dst, errors.New("is neither a value, a list nor an object")
}
