package postgres

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

// The messages of pgoutput that are read here (PostgreSQL manual, 55.9 Logical Replication Message Formats). Inside a
// streamed transaction, R Y I U D T M have the id of their (sub)transaction, four bytes, after the kind.
//
//	B  begin             end:8 time:8 xid:4
//	C  commit            flags:1 lsn:8 end:8 time:8
//	R  relation          oid:4 schema\0 table\0 identity:1 n:2 { key:1 name\0 type:4 modifier:4 }
//	I  insert            oid:4 'N' tuple
//	U  update            oid:4 [ 'K' tuple | 'O' tuple ] 'N' tuple
//	D  delete            oid:4 'K' tuple | 'O' tuple
//	T  truncate          n:4 options:1 { oid:4 }
//	S  stream start      xid:4 first:1
//	E  stream stop
//	c  stream commit     xid:4 flags:1 lsn:8 end:8 time:8
//	A  stream abort      xid:4 subxid:4
//	tuple                n:2 { 'n' null | 'u' unchanged | 't' length:4 text }
const (
	msgBegin        = 'B'
	msgCommit       = 'C'
	msgRelation     = 'R'
	msgType         = 'Y'
	msgInsert       = 'I'
	msgUpdate       = 'U'
	msgDelete       = 'D'
	msgTruncate     = 'T'
	msgOrigin       = 'O'
	msgMessage      = 'M'
	msgStreamStart  = 'S'
	msgStreamStop   = 'E'
	msgStreamCommit = 'c'
	msgStreamAbort  = 'A'
)

// cursor reads a message. Reading past its end gives zeros and sets bad.
type cursor struct {
	b   []byte
	bad bool
}

func (c *cursor) take(n int) []byte {
	if n < 0 || n > len(c.b) {
		c.bad, c.b = true, nil
		return nil
	}
	out := c.b[:n]
	c.b = c.b[n:]
	return out
}

func (c *cursor) u8() byte {
	if b := c.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (c *cursor) u16() int {
	if b := c.take(2); b != nil {
		return int(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (c *cursor) u32() uint32 {
	if b := c.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (c *cursor) u64() uint64 {
	if b := c.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (c *cursor) text() string {
	i := bytes.IndexByte(c.b, 0)
	if i < 0 {
		c.bad = true
		return ""
	}
	return string(c.take(i + 1)[:i])
}

// pgTime is microseconds since 2000.
func pgTime(micros uint64) time.Time {
	return time.UnixMicro(int64(micros) + pgEpoch*1e6).UTC()
}

// relationMessage is R.
type relationMessage struct {
	oid          uint32
	schema, name string
	identity     byte
	columns      []attribute
	key          []bool
}

func parseRelation(body []byte) (*relationMessage, error) {
	c := cursor{b: body}
	m := &relationMessage{oid: c.u32(), schema: c.text(), name: c.text(), identity: c.u8()}
	for range c.u16() {
		m.key = append(m.key, c.u8()&1 != 0)
		m.columns = append(m.columns, attribute{name: c.text(), typ: typeRef{c.u32(), int32(c.u32())}})
		if c.bad {
			break
		}
	}
	if c.bad {
		return nil, malformed(msgRelation)
	}
	return m, nil
}

func malformed(kind byte) error {
	return fmt.Errorf("read replication stream: message %q is malformed", kind)
}

// tuple reads a row image. keyOnly says that it is an old key, whose other columns the server fills with NULL: they are
// absent.
func (c *cursor) tuple(r *rows, s *shape, keyOnly bool) []connectors.Value {
	n := c.u16()
	if n != s.streamed {
		c.bad = true
		return nil
	}
	row := r.image(len(s.table.Columns))
	var columns []input
	if s.inputs != nil && !keyOnly {
		columns = make([]input, n)
	}
	b := c.b
	for i := range n {
		if len(b) == 0 {
			c.bad = true
			return row
		}
		kind := b[0]
		b = b[1:]
		index := s.index[i]
		switch kind {
		case 't':
			if len(b) < 4 {
				c.bad = true
				return row
			}
			size := int(binary.BigEndian.Uint32(b))
			if size > len(b)-4 {
				c.bad = true
				return row
			}
			text := b[4 : 4+size]
			b = b[4+size:]
			if columns != nil {
				columns[i].text = text
			}
			if index >= 0 && (!keyOnly || s.identity[i]) {
				row[index] = s.decoders[i].value(r, text)
			}
		case 'n':
			if index >= 0 && (!keyOnly || s.identity[i]) {
				row[index] = connectors.NullValue()
			}
		case 'u':
		default:
			c.bad = true
			return row
		}
		if columns != nil {
			columns[i].kind = kind
		}
	}
	if columns != nil {
		r.note(s, row, columns)
	}
	c.b = b
	return row
}

// change reads I, U and D after their oid into a change of r. It returns nil for a message that is malformed, and then
// r holds no change of it.
func readChange(kind byte, body []byte, r *rows, s *shape, at time.Time) *connectors.Change {
	c := cursor{b: body}
	var before, after []connectors.Value
	noted := len(r.uncomputed)
	op := connectors.Insert
	switch kind {
	case msgInsert:
		c.bad = c.u8() != 'N'
		after = c.tuple(r, s, false)
	case msgUpdate:
		op = connectors.Update
		mark := c.u8()
		old := mark
		if mark == 'K' || mark == 'O' {
			before = c.tuple(r, s, mark == 'K')
			mark = c.u8()
		}
		c.bad = c.bad || mark != 'N'
		after = c.tuple(r, s, false)
		if before != nil && after != nil {
			fillUnchanged(after, before)
			if s.inputs != nil && old == 'O' {
				r.fillInputs()
			}
		}
	case msgDelete:
		op = connectors.Delete
		mark := c.u8()
		c.bad = mark != 'K' && mark != 'O'
		before = c.tuple(r, s, mark == 'K')
	}
	if c.bad {
		r.uncomputed = r.uncomputed[:noted]
		return nil
	}
	change := r.add(op, s.table, at)
	change.Before, change.After = before, after
	return change
}

// fillUnchanged gives a new row the out-of-line values that did not change, where the old row has them: all of them
// under REPLICA IDENTITY FULL, those of the key otherwise.
func fillUnchanged(after, before []connectors.Value) {
	for i := range after {
		if after[i].IsAbsent() {
			after[i] = before[i]
		}
	}
}
