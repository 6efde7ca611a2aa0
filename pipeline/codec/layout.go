package codec

import (
	"bytes"
	"strconv"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

// layout reads records that are laid out as JSON.AppendValue does it, without looking at what is the same in each of
// them: the source block of one table differs from record to record in its time and what stands behind the table only.
// Whatever it does not expect, it leaves to decodeEnvelope, which reads any order of members.
type layout struct {
	columns [][]byte // "name": of each column
	head    []byte   // ,"source":{…"ts_ms": of the last record that decodeEnvelope read; nil: none yet
	place   []byte   // ,"snapshot":…,"table":"…"
}

const (
	layoutBefore = `{"before":`
	layoutAfter  = `,"after":`
	layoutOp     = `,"transaction":null,"op":"`
	layoutMs     = `","ts_ms":`
	layoutUs     = `,"ts_us":`
	layoutNs     = `,"ts_ns":`

	layoutUnchanged = `,"unchanged":`
)

func newLayout(t *connectors.Table) layout {
	var l layout
	for _, c := range t.Columns {
		l.columns = append(l.columns, appendMember(nil, c.Name))
	}
	return l
}

// learn notes the parts of a record that the next ones will share. value is valid.
func (l *layout) learn(value []byte) {
	l.head, l.place = nil, nil
	source := bytes.Index(value, []byte(`,"source":{"version":`))
	if source < 0 {
		return
	}
	head := bytes.Index(value[source:], []byte(`"ts_ms":`))
	if head < 0 {
		return
	}
	head += source + len(`"ts_ms":`)
	place := head + digits(value[head:])
	table := bytes.Index(value[place:], []byte(`,"table":`))
	if table < 0 {
		return
	}
	table += place + len(`,"table":`)
	token, _, err := connectors.ScanJSON(value[table:])
	if err != nil {
		return
	}
	// Without escapes and braces nothing in between is part of a string or of another object.
	between := value[source+len(`,"source":{`) : table+len(token)]
	if value[place] != ',' || bytes.ContainsAny(between, `\{}`) || bytes.Contains(value[place:table], []byte(`"ts_ms":`)) {
		return
	}
	l.head = bytes.Clone(value[source:head])
	l.place = bytes.Clone(value[place : table+len(token)])
}

func digits(b []byte) int {
	n := 0
	for n < len(b) && b[n]-'0' <= 9 {
		n++
	}
	return n
}

// cut takes a literal off b.
func cut(b []byte, literal string) ([]byte, bool) {
	if len(b) < len(literal) || string(b[:len(literal)]) != literal {
		return b, false
	}
	return b[len(literal):], true
}

// cutNumber takes a literal and the digits behind it off b.
func cutNumber(b []byte, literal string) (number, rest []byte, ok bool) {
	b, ok = cut(b, literal)
	n := digits(b)
	return b[:n], b[n:], ok && n > 0 && (b[0] != '0' || n == 1)
}

// decode reads a value. It returns false when the value is not laid out as expected; c may be half filled then.
func (l *layout) decode(value []byte, c *connectors.Change, arena *Arena) bool {
	if l.head == nil {
		return false
	}
	b, ok := cut(value, layoutBefore)
	if !ok {
		return false
	}
	if c.Before, b, ok = l.row(b, c.Table, arena); !ok {
		return false
	}
	if b, ok = cut(b, layoutAfter); !ok {
		return false
	}
	if c.After, b, ok = l.row(b, c.Table, arena); !ok {
		return false
	}
	if b, ok = l.source(b, c); !ok {
		return false
	}
	if b, ok = cut(b, layoutOp); !ok || len(b) == 0 {
		return false
	}
	c.Op = connectors.OpOf(b[0])
	for _, literal := range [...]string{layoutMs, layoutUs, layoutNs} {
		if literal == layoutMs {
			b = b[1:]
		}
		if _, b, ok = cutNumber(b, literal); !ok {
			return false
		}
	}
	if rest, ok := cut(b, layoutUnchanged); ok {
		var err error
		if _, b, err = connectors.ScanJSON(rest); err != nil {
			return false
		}
	}
	return len(b) == 1 && b[0] == '}' && checkShape(c) == nil
}

// source reads the source block.
func (l *layout) source(b []byte, c *connectors.Change) ([]byte, bool) {
	if !bytes.HasPrefix(b, l.head) {
		return b, false
	}
	number, b, ok := cutNumber(b[len(l.head):], "")
	ms, err := strconv.ParseInt(string(number), 10, 64)
	if !ok || err != nil || !bytes.HasPrefix(b, l.place) {
		return b, false
	}
	if ms != 0 {
		c.Time = time.UnixMilli(ms).UTC()
	}
	b = b[len(l.place):]
	if len(b) > 0 && b[0] == '}' {
		return b[1:], true
	}
	if len(b) == 0 || b[0] != ',' {
		return b, false
	}
	origin := b[1:]
	for len(b) > 0 && b[0] == ',' {
		name, rest, err := connectors.ScanJSON(b[1:])
		if err != nil || name[0] != '"' || len(rest) == 0 || rest[0] != ':' || reserved(name) {
			return b, false
		}
		if _, b, err = connectors.ScanJSON(rest[1:]); err != nil {
			return b, false
		}
	}
	if len(b) == 0 || b[0] != '}' {
		return b, false
	}
	c.Origin = origin[:len(origin)-len(b)]
	return b[1:], true
}

// reserved tells members of the source block that decodeSource gives a meaning, wherever they stand.
func reserved(name []byte) bool { return string(name) == `"ts_ms"` || string(name) == `"table"` }

// row reads an image whose columns are in the table's order, without those that are absent.
func (l *layout) row(b []byte, t *connectors.Table, arena *Arena) ([]connectors.Value, []byte, bool) {
	if rest, null := cut(b, "null"); null {
		return nil, rest, true
	}
	if len(b) == 0 || b[0] != '{' {
		return nil, b, false
	}
	b = b[1:]
	row := arena.row(len(l.columns))
	for i, name := range l.columns {
		if !bytes.HasPrefix(b, name) {
			continue
		}
		var rest []byte
		var err error
		if row[i], rest, arena.bytes, err = connectors.CutJSON(t.Columns[i].Kind, b[len(name):], arena.bytes); err != nil || len(rest) == 0 {
			return nil, b, false
		}
		b = rest[1:]
		if rest[0] == '}' {
			return row, b, true
		}
		if rest[0] != ',' {
			return nil, b, false
		}
	}
	return nil, b, false
}
