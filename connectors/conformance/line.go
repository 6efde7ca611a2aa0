package conformance

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"testing"

	"github.com/trunkline/trunkline/connectors"
)

// ParseLine reads a line of connectors.AppendLine. It reports false for a line of another table.
func ParseLine(t *testing.T, line []byte, table *connectors.Table) (Entry, bool) {
	t.Helper()
	var l struct {
		Offset    int64
		Op        string
		Schema    *string
		Table     *string
		Before    map[string]any
		After     map[string]any
		Unchanged []string
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	if err := d.Decode(&l); err != nil || len(l.Op) != 1 {
		t.Fatalf("line %s: %v", line, err)
	}
	if l.Table == nil || l.Schema == nil || *l.Table != table.Name || *l.Schema != table.Schema {
		return Entry{}, false
	}
	return Entry{
		Op: connectors.OpOf(l.Op[0]), Offset: l.Offset, Unchanged: l.Unchanged,
		Before: rowOf(t, table, l.Before), After: rowOf(t, table, l.After),
	}, true
}

func rowOf(t *testing.T, table *connectors.Table, members map[string]any) Row {
	t.Helper()
	if members == nil {
		return nil
	}
	r := Row{}
	for name, v := range members {
		at := table.Column(name)
		switch v := v.(type) {
		case nil:
		case json.Number:
			r[name] = v.String()
		case bool:
			r[name] = "false"
			if v {
				r[name] = "true"
			}
		case string:
			r[name] = v
			if at >= 0 && table.Columns[at].Kind == connectors.Bytes {
				b, err := base64.StdEncoding.DecodeString(v)
				if err != nil {
					t.Fatalf("column %s: %v", name, err)
				}
				r[name] = string(b)
			}
		default:
			t.Fatalf("column %s holds %T", name, v)
		}
	}
	return r
}
