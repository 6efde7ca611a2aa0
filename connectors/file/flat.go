package file

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/document"
)

// metaNames are the columns that the sinks of type file and s3 put before those of the table. Parquet has one more,
// __deleted.
var metaNames = []string{"_op", "_offset", "_ts", "_table", "_old_key", "_unchanged"}

// flat makes the change of values that stand in columns: without columns of ours a new row, else what these say.
func flat(tables *document.Tables, name document.Name, columns []connectors.Column, values []connectors.Value, meta int, now time.Time) (connectors.Change, error) {
	c := connectors.Change{Op: connectors.Insert, Time: now}
	if meta == 0 {
		var err error
		if c.Table, c.After, err = tables.Fit(name, columns, values, connectors.NullValue()); err != nil {
			return c, err
		}
		return c, document.CheckKey(c.Table, c.After)
	}
	if meta < len(metaNames) {
		return c, errors.New("not all columns of a change")
	}
	op, at, table, oldKey, unchanged := values[0].Data(), values[2].Data(), values[3].Data(), values[4].Data(), values[5].Data()
	if len(op) == 1 {
		c.Op = connectors.OpOf(op[0])
	}
	if len(op) != 1 || c.Op == 0 || c.Op == connectors.Message {
		return c, errors.New("_op is none of r, c, u, d, t")
	}
	if len(at) > 0 {
		parsed, err := time.Parse(time.RFC3339Nano, string(at))
		if err != nil {
			return c, errors.New("_ts is no time such as 2026-01-30T12:34:56Z")
		}
		c.Time = parsed
	}
	if len(table) > 0 {
		name = document.SplitName(string(table))
	}
	t, row, err := tables.Fit(name, columns[meta:], values[meta:], connectors.Value{})
	if err != nil {
		return c, err
	}
	c.Table = t
	if c.Op == connectors.Truncate {
		return c, nil
	}
	if err := leaveOut(t, row, unchanged); err != nil {
		return c, err
	}
	if c.Op == connectors.Delete {
		c.Before = row
		return c, document.CheckKey(t, row)
	}
	c.After = row
	if len(oldKey) > 0 {
		if c.Before, err = before(t, oldKey); err != nil {
			return c, err
		}
	}
	return c, document.CheckKey(t, row)
}

// leaveOut marks the columns that a change does not carry.
func leaveOut(t *connectors.Table, row []connectors.Value, unchanged []byte) error {
	if len(unchanged) == 0 {
		return nil
	}
	var names []string
	if err := json.Unmarshal(unchanged, &names); err != nil {
		return errors.New("_unchanged is no list of names")
	}
	for _, n := range names {
		if i := t.Column(n); i >= 0 {
			row[i] = connectors.Value{}
		}
	}
	return nil
}

// before makes the old row of an update that gave it another key.
func before(t *connectors.Table, oldKey []byte) ([]connectors.Value, error) {
	var key map[string]json.RawMessage
	if err := json.Unmarshal(oldKey, &key); err != nil {
		return nil, errors.New("_old_key is no object")
	}
	row := make([]connectors.Value, len(t.Columns))
	for name, token := range key {
		i := t.Column(name)
		if i < 0 {
			return nil, fmt.Errorf("_old_key names the column %s, which is not there", name)
		}
		v, _, err := document.FromJSON(t.Columns[i].Kind, token, nil)
		if err != nil {
			return nil, fmt.Errorf("_old_key: column %s: %w", name, err)
		}
		row[i] = v
	}
	return row, nil
}
