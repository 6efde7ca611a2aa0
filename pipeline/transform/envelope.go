package transform

import (
	"errors"
	"strconv"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

// openEnvelope makes a change of Debezium's envelope in one column of an event, with or without its schema part. The
// events of the table itself are inserts; whatever else happens to them means nothing.
func openEnvelope(r *rows, c *connectors.Change, at int, row func(*rows, connectors.Value) ([]connectors.Value, error)) (bool, error) {
	if c.Op == connectors.Truncate {
		return true, nil
	}
	if c.Op == connectors.Delete || c.After == nil || c.After[at].IsNull() {
		return false, nil // a tombstone
	}
	document := c.After[at].Data()
	if !connectors.ValidJSON(document) {
		return false, errors.New("the document is not JSON")
	}
	if payload, ok := lookupMember(document, "payload"); ok {
		document = payload
	}
	op, ok := within(document, []string{"op"})
	if !ok || len(op) != 3 {
		return false, errors.New("the document has no op: it is no envelope of Debezium's")
	}
	if c.Op = connectors.OpOf(op[1]); c.Op == 0 || c.Op == connectors.Message {
		return false, errors.New("the document's op is none of r, c, u, d, t")
	}
	c.Before, c.After = nil, nil
	var err error
	for _, image := range []struct {
		name string
		row  *[]connectors.Value
	}{{"before", &c.Before}, {"after", &c.After}} {
		token, ok := within(document, []string{image.name})
		if !ok || token[0] != '{' {
			continue
		}
		if *image.row, err = row(r, connectors.DataValue(connectors.JSON, token)); err != nil {
			return false, err
		}
	}
	if ms, ok := within(document, []string{"source", "ts_ms"}); ok {
		if n, err := strconv.ParseInt(string(ms), 10, 64); err == nil && n > 0 {
			c.Time = time.UnixMilli(n).UTC()
		}
	}
	needed := c.After
	if c.Op == connectors.Delete {
		needed = c.Before
	}
	if needed == nil && c.Op != connectors.Truncate {
		return false, errors.New("the document lacks the row that its op promises")
	}
	return true, nil
}
