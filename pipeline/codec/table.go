package codec

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/trunkline/trunkline/connectors"
)

// tableJSON is the value of a record in SchemasTopic. Names in it never change; more may be added.
type tableJSON struct {
	Dialect  string       `json:"dialect"`
	Database string       `json:"database"`
	Schema   string       `json:"schema"`
	Name     string       `json:"name"`
	ID       uint64       `json:"id,omitempty"`
	Topic    string       `json:"topic,omitempty"`
	Rowless  bool         `json:"rowless,omitempty"`
	Key      []int        `json:"key"`
	Columns  []columnJSON `json:"columns"`
}

type columnJSON struct {
	Name      string   `json:"name"`
	Type      string   `json:"type"`
	Kind      string   `json:"kind"`
	Elem      string   `json:"elem,omitempty"`
	ID        int      `json:"id,omitempty"`
	NotNull   bool     `json:"not_null,omitempty"`
	Generated bool     `json:"generated,omitempty"`
	Labels    []string `json:"labels,omitempty"`
}

func marshalTable(t *connectors.Table) ([]byte, error) {
	out := tableJSON{
		Dialect: t.Dialect, Database: t.Database, Schema: t.Schema, Name: t.Name, ID: t.ID, Topic: t.Topic, Rowless: t.Rowless,
		Key: append([]int{}, t.Key...), Columns: make([]columnJSON, len(t.Columns)),
	}
	for i, c := range t.Columns {
		out.Columns[i] = columnJSON{
			Name: c.Name, Type: c.Type, Kind: c.Kind.String(), ID: c.ID,
			NotNull: c.NotNull, Generated: c.Generated, Labels: c.Labels,
		}
		if c.Elem != connectors.Absent {
			out.Columns[i].Elem = c.Elem.String()
		}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(out); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// ReadTable reads the version of a table from the value of a record in SchemasTopic.
func ReadTable(value []byte) (*connectors.Table, error) { return unmarshalTable(value) }

func unmarshalTable(b []byte) (*connectors.Table, error) {
	var in tableJSON
	if err := json.Unmarshal(b, &in); err != nil {
		return nil, fmt.Errorf("decode schema: %w", err)
	}
	t := &connectors.Table{
		Dialect: in.Dialect, Database: in.Database, Schema: in.Schema, Name: in.Name, ID: in.ID, Topic: in.Topic, Rowless: in.Rowless,
		Key: in.Key, Columns: make([]connectors.Column, len(in.Columns)),
	}
	for i, c := range in.Columns {
		kind, ok := connectors.KindOf(c.Kind)
		elem, elemOK := connectors.KindOf(c.Elem)
		if !ok || (!elemOK && c.Elem != "") {
			return nil, fmt.Errorf("decode schema: column %q: unknown kind", c.Name)
		}
		t.Columns[i] = connectors.Column{
			Name: c.Name, Type: c.Type, Kind: kind, Elem: elem, ID: c.ID,
			NotNull: c.NotNull, Generated: c.Generated, Labels: c.Labels,
		}
	}
	for _, column := range t.Key {
		if column < 0 || column >= len(t.Columns) {
			return nil, fmt.Errorf("decode schema: key column %d of %d", column, len(t.Columns))
		}
	}
	return t, nil
}
