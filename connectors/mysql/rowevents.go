package mysql

import (
	"fmt"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

// rowEvent is a row event in parts.
//
//	table:6 flags:2 [version 2: extra length:2, counting itself, extra] columns, packed
//	present columns:(n+7)/8 [update: the same for the new row]
//	rows: nulls among the present columns, values; an update has old and new row in turn
type rowEvent struct {
	table   uint64
	last    bool // of its statement
	op      connectors.Op
	columns int
	before  []byte // which columns are present
	after   []byte
	rows    []byte
}

func rowOp(typ byte) connectors.Op {
	switch typ {
	case eventWriteRows1, eventWriteRows2, eventMariaWriteRows1, eventMariaWriteRows2:
		return connectors.Insert
	case eventUpdateRows1, eventUpdateRows2, eventMariaUpdate1, eventMariaUpdate2:
		return connectors.Update
	case eventDeleteRows1, eventDeleteRows2, eventMariaDelete1, eventMariaDelete2:
		return connectors.Delete
	}
	return 0
}

// rowTable returns the table that a row event is of, so that others need not be read.
func rowTable(e *event) (uint64, error) {
	if len(e.body) < 8 {
		return 0, errEvent("rows")
	}
	return littleEndian(e.body[:6]), nil
}

func parseRows(e *event) (*rowEvent, error) {
	c := cursor{b: e.body}
	r := &rowEvent{op: rowOp(e.typ)}
	r.table = c.uint(6)
	r.last = c.uint(2)&1 != 0
	switch e.typ {
	case eventWriteRows2, eventUpdateRows2, eventDeleteRows2, eventMariaWriteRows2, eventMariaUpdate2, eventMariaDelete2:
		c.take(int(c.uint(2)) - 2)
	}
	r.columns = int(c.packed())
	bitmap := c.take((r.columns + 7) / 8)
	r.before, r.after = bitmap, bitmap
	if r.op == connectors.Update {
		r.after = c.take((r.columns + 7) / 8)
	}
	r.rows = c.b
	if c.bad {
		return nil, errEvent("rows")
	}
	if e.typ >= eventMariaWriteRows1 {
		plain, err := decompress(c.b)
		if err != nil {
			return nil, errEvent("compressed rows")
		}
		r.rows = plain
	}
	return r, nil
}

// decodeRow appends one row image. What is not present stays absent.
func (s *shape) decodeRow(r *rows, m *tableMap, present, b []byte) (row []connectors.Value, rest []byte, err error) {
	n := 0
	for i := range m.columns {
		n += int(present[i/8] >> (i % 8) & 1)
	}
	size := (n + 7) / 8
	if len(b) < size {
		return nil, nil, errRow
	}
	nulls, b := b[:size], b[size:]
	row = r.image(len(s.table.Columns))
	bit := 0
	for i, w := range m.columns {
		if present[i/8]>>(i%8)&1 == 0 {
			continue
		}
		null := nulls[bit/8]>>(bit%8)&1 != 0
		bit++
		at := s.index[i]
		switch {
		case null && at >= 0:
			row[at] = connectors.NullValue()
		case null:
		case at >= 0:
			if row[at], b, err = s.decoders[i].binlog(r, w, b); err != nil {
				return nil, nil, fmt.Errorf("column %s: %w", s.def.Columns[i].Name, err)
			}
		default:
			if _, b, err = s.decoders[i].split(w, b); err != nil {
				return nil, nil, fmt.Errorf("column %s: %w", s.def.Columns[i].Name, err)
			}
		}
	}
	return row, b, nil
}

// rowReader gives out the changes of one row event.
type rowReader struct {
	event *rowEvent
	shape *shape
	table *tableMap
	at    time.Time
	row   int
	place stamped
}

func (x *rowReader) done() bool { return len(x.event.rows) == 0 }

// next decodes one change.
func (x *rowReader) next(r *rows) (*connectors.Change, error) {
	c := r.add(x.event.op, x.shape.table, x.at)
	var err error
	if x.event.op != connectors.Insert {
		if c.Before, x.event.rows, err = x.shape.decodeRow(r, x.table, x.event.before, x.event.rows); err != nil {
			return nil, err
		}
	}
	if x.event.op != connectors.Delete {
		if c.After, x.event.rows, err = x.shape.decodeRow(r, x.table, x.event.after, x.event.rows); err != nil {
			return nil, err
		}
	}
	if x.event.op == connectors.Update {
		x.complete(c)
	}
	x.row++
	return c, nil
}

// complete puts the key into the new row of an update whose image leaves it out because it did not change.
func (x *rowReader) complete(c *connectors.Change) {
	for i := range c.After {
		if c.After[i].IsAbsent() && !c.Before[i].IsAbsent() {
			c.After[i] = c.Before[i]
		}
	}
}
