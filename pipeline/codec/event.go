package codec

import (
	"errors"
	"fmt"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/log"
)

// event writes rows of a table of connectors.EventDialect as what they hold:
//
//	key       the text of column 0
//	value     the text or the bytes of column 1; empty for NULL
//	headers   of every other column that is not NULL, under its name
type event struct{ lossless }

// AppendKey appends the text of column 0.
func (event) AppendKey(dst []byte, t *connectors.Table, row, _ []connectors.Value) ([]byte, error) {
	if len(row) < 2 || row[0].IsAbsent() || row[0].IsNull() {
		return dst, fmt.Errorf("encode event of %s: no value for the key, column %q", t.FullName(), t.Columns[0].Name)
	}
	return row[0].AppendText(dst), nil
}

// AppendValue appends the payload.
func (event) AppendValue(dst []byte, c *connectors.Change, _ time.Time) ([]byte, error) {
	if c.Op != connectors.Insert || len(c.After) != len(c.Table.Columns) {
		return dst, errors.New("encode event: it is no insert of a whole row")
	}
	return c.After[1].AppendText(dst), nil
}

// EventHeaders returns the headers of an event beside Trunkline's own; nil for every other change.
func EventHeaders(c *connectors.Change) []log.Header {
	if c.Table.Dialect != connectors.EventDialect {
		return nil
	}
	var out []log.Header
	for i := 2; i < len(c.After); i++ {
		if v := c.After[i]; !v.IsNull() && !v.IsAbsent() {
			out = append(out, log.Header{Key: c.Table.Columns[i].Name, Value: v.AppendText(nil)})
		}
	}
	return out
}

// decodeEvent reads an event. Its time is that of the record.
func (p *decodePlan) decodeEvent(r *log.Record, c *connectors.Change, arena *Arena) error {
	t := p.table
	if len(t.Columns) < 2 {
		return errors.New("the table of an event has no columns for key and value")
	}
	row := arena.row(len(t.Columns))
	for i := range row {
		row[i] = connectors.NullValue()
	}
	var err error
	if row[0], err = textOf(t.Columns[0].Kind, r.Key, arena); err != nil {
		return err
	}
	if len(r.Value) > 0 { // a payload that is NULL, or empty
		if row[1], err = textOf(t.Columns[1].Kind, r.Value, arena); err != nil {
			return err
		}
	}
	for i := range r.Headers {
		for column := 2; column < len(row); column++ {
			if r.Headers[i].Key == t.Columns[column].Name {
				if row[column], err = textOf(t.Columns[column].Kind, r.Headers[i].Value, arena); err != nil {
					return err
				}
			}
		}
	}
	c.Op, c.After = connectors.Insert, row
	if r.Timestamp > 0 {
		c.Time = time.UnixMilli(r.Timestamp).UTC()
	}
	return nil
}

// textOf is the inverse of Value.AppendText for a column of a kind.
func textOf(kind connectors.Kind, text []byte, arena *Arena) (connectors.Value, error) {
	switch kind {
	case connectors.Bool, connectors.Int, connectors.Uint:
		if whole, rest, err := connectors.ScanJSON(text); err != nil || len(rest) > 0 || len(whole) != len(text) {
			return connectors.DataValue(connectors.Text, text), nil // a value that is not of its column's kind
		}
		v, grown, err := connectors.ParseJSON(kind, text, arena.bytes)
		arena.bytes = grown
		return v, err
	}
	return connectors.DataValue(kind, text), nil
}
