package elasticsearch

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/trunkline/trunkline/connectors"
)

// gcDeletes is how long the store remembers what was deleted, so that a write that comes late does not bring it back.
const gcDeletes = "1h"

// Migrate makes the index of a table, or adds the fields that it lacks. An index that is named for its topic, which a
// migration does not say, is made by the first Write.
func (s *sink) Migrate(ctx context.Context, m connectors.Migration) error {
	if strings.Contains(s.config.Index, "{topic}") {
		return nil
	}
	if s.config.Write == writeAppend {
		m.To = s.images.Table(m.To)
	}
	return s.prepare(ctx, "", m.To)
}

// prepare makes an index fit a table, once for each version of it.
func (s *sink) prepare(ctx context.Context, stream string, t *connectors.Table) error {
	at := place{s.index(stream, t), t}
	if s.ready[at] || s.config.Schema.Add == connectors.Ignore {
		return nil
	}
	path, soft := "/"+url.PathEscape(at.index), s.config.Deletes == softDeletes
	var found map[string]struct {
		Mappings struct{ Properties map[string]json.RawMessage }
	}
	err := s.client.json(ctx, "GET", path+"/_mapping", nil, &found)
	switch {
	case isStatus(err, 404):
		body := append([]byte(`{"settings":{"index.gc_deletes":"`+gcDeletes+`"},"mappings":{"dynamic":false,"properties":`), properties(t, nil, soft)...)
		err = s.change(ctx, at.index, path, "it does not exist", append(body, "}}"...))
	case err == nil:
		has := map[string]json.RawMessage{}
		for _, index := range found { // an alias has one index behind it
			has = index.Mappings.Properties
		}
		if lacks := properties(t, has, soft); string(lacks) != "{}" {
			body := append([]byte(`{"properties":`), lacks...)
			err = s.change(ctx, at.index, path+"/_mapping", "its mapping lacks columns", append(body, '}'))
		}
	}
	if err != nil {
		return fmt.Errorf("prepare index %s: %w", at.index, err)
	}
	s.ready[at] = true
	return nil
}

// change sends a mapping, where the settings allow it.
func (s *sink) change(ctx context.Context, index, path, what string, body []byte) error {
	statement := "PUT " + path + " " + string(body)
	if s.config.Schema.Add == connectors.Freeze {
		return &connectors.SchemaError{Target: index, Problem: what + ", and schema is freeze", Statement: statement}
	}
	err := s.client.json(ctx, "PUT", path, body, nil)
	var e *apiError
	if isStatus(err, 400) {
		e, _ = err.(*apiError)
	}
	switch {
	case e != nil && e.Type == "resource_already_exists_exception":
		return nil
	case e != nil:
		return &connectors.SchemaError{Target: index, Problem: what, Statement: statement, Err: err}
	}
	return err
}

// properties returns the mapping of the columns that has lacks.
func properties(t *connectors.Table, has map[string]json.RawMessage, soft bool) []byte {
	text := []byte{'{'}
	for i := range t.Columns {
		c := &t.Columns[i]
		if _, ok := has[c.Name]; ok {
			continue
		}
		if len(text) > 1 {
			text = append(text, ',')
		}
		text = append(connectors.AppendJSONString(text, []byte(c.Name)), ':')
		kind := c.Kind
		if kind == connectors.Array {
			kind = c.Elem
		}
		text = append(text, mapping(kind)...)
	}
	if _, ok := has[deletedField]; soft && !ok {
		if len(text) > 1 {
			text = append(text, ',')
		}
		text = append(text, `"`+deletedField+`":`+mapping(connectors.Bool)...)
	}
	return append(text, '}')
}

// mapping says how the values of a kind are indexed. The document keeps each value as it is; one that its type can't index
// (NaN, infinity) is kept and not found by a search.
func mapping(kind connectors.Kind) string {
	switch kind {
	case connectors.Bool:
		return `{"type":"boolean"}`
	case connectors.Int:
		return `{"type":"long","ignore_malformed":true}`
	case connectors.Uint:
		return `{"type":"unsigned_long","ignore_malformed":true}`
	case connectors.Float, connectors.Decimal:
		return `{"type":"double","ignore_malformed":true}`
	case connectors.Date, connectors.Timestamp, connectors.TimestampTZ:
		return `{"type":"date","ignore_malformed":true}`
	case connectors.Text:
		return `{"type":"text","fields":{"keyword":{"type":"keyword","ignore_above":1024}}}`
	case connectors.JSON, connectors.Map, connectors.Bytes, connectors.Absent, connectors.Array:
		return `{"type":"object","enabled":false}`
	}
	return `{"type":"keyword","ignore_above":1024}`
}
