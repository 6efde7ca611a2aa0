package mysql

import "encoding/binary"

// tableMap is what a table map event says: the layout of the row events that refer to it by id.
//
//	id:6 flags:2 schema (length:1, text, 0) table (likewise) count types:count metadata nullable:(count+7)/8 optional metadata
type tableMap struct {
	id      uint64
	name    tableName
	columns []wireColumn
	extra   fullMetadata
}

// fullMetadata is the part that binlog_row_metadata=FULL adds.
type fullMetadata struct {
	names    []string
	unsigned []bool     // parallel to the columns
	signed   bool       // unsigned is there
	enums    [][][]byte // the labels of each ENUM column, in its character set
	sets     [][][]byte
}

// parseTableMap reads the body of the event.
func parseTableMap(b []byte, idSize int) (*tableMap, error) {
	c := cursor{b: b}
	m := &tableMap{id: c.uint(idSize)}
	c.take(2)
	m.name.schema = string(c.take(int(c.uint(1))))
	c.take(1)
	m.name.name = string(c.take(int(c.uint(1))))
	c.take(1)
	n := int(c.packed())
	if c.bad || n > len(c.b) {
		return nil, errEvent("table map")
	}
	types := c.take(n)
	meta := cursor{b: c.take(int(c.packed()))}
	for _, typ := range types {
		m.columns = append(m.columns, wireColumnOf(typ, &meta))
	}
	c.take((n + 7) / 8)
	if c.bad || meta.bad {
		return nil, errEvent("table map")
	}
	m.optional(&c)
	return m, nil
}

// wireColumnOf reads the metadata of one column. ENUM and SET hide behind STRING.
func wireColumnOf(typ byte, meta *cursor) wireColumn {
	w := wireColumn{typ: typ}
	switch typ {
	case typeFloat, typeDouble, typeBlob, typeGeometry, typeJSON, typeTime2, typeDateTime2, typeTimestamp2, typeBlobCompressed,
		typeTinyBlob, typeMediumBlob, typeLongBlob, typeVector:
		w.meta = uint16(meta.uint(1))
	case typeVarchar, typeVarString, typeVarcharCompressed:
		w.meta = uint16(meta.uint(2))
	case typeBit: // bits over the last whole byte, whole bytes
		bits := meta.uint(1)
		w.meta = uint16(meta.uint(1)<<8 | bits)
	case typeNewDecimal, typeString, typeEnum, typeSet:
		first, second := meta.uint(1), meta.uint(1)
		w.meta = uint16(first<<8 | second)
		if typ == typeString && (first == typeEnum || first == typeSet) {
			w.typ = byte(first)
		}
	}
	return w
}

// Optional metadata: type:1, length, bytes.
const (
	metaSignedness = 1
	metaNames      = 4
	metaSets       = 5
	metaEnums      = 6
)

func (m *tableMap) optional(c *cursor) {
	for len(c.b) > 0 && !c.bad {
		typ := c.uint(1)
		field := cursor{b: c.take(int(c.packed()))}
		switch typ {
		case metaSignedness:
			m.signedness(field.b)
		case metaNames:
			for len(field.b) > 0 && !field.bad {
				m.extra.names = append(m.extra.names, string(field.take(int(field.packed()))))
			}
		case metaSets:
			m.extra.sets = labelLists(field)
		case metaEnums:
			m.extra.enums = labelLists(field)
		}
	}
	if len(m.extra.names) != len(m.columns) {
		m.extra.names = nil
	}
}

// labelLists reads for each column a count and as many strings.
func labelLists(c cursor) (out [][][]byte) {
	for len(c.b) > 0 && !c.bad {
		var list [][]byte
		for n := c.packed(); n > 0 && !c.bad; n-- {
			list = append(list, c.take(int(c.packed())))
		}
		out = append(out, list)
	}
	return out
}

// labelsOf returns the labels of a column; nil when the log does not have them.
func (m *tableMap) labelsOf(column int) [][]byte {
	typ := m.columns[column].typ
	lists := m.extra.enums
	if typ == typeSet {
		lists = m.extra.sets
	}
	at := 0
	for _, w := range m.columns[:column] {
		if w.typ == typ {
			at++
		}
	}
	if typ != typeEnum && typ != typeSet || at >= len(lists) {
		return nil
	}
	return lists[at]
}

// signedness: one bit for each numeric column, the first the highest.
func (m *tableMap) signedness(bits []byte) {
	m.extra.unsigned, m.extra.signed = make([]bool, len(m.columns)), true
	n := 0
	for i, w := range m.columns {
		switch w.typ {
		case typeTiny, typeShort, typeInt24, typeLong, typeLongLong, typeFloat, typeDouble, typeNewDecimal:
			if n/8 < len(bits) {
				m.extra.unsigned[i] = bits[n/8]&(0x80>>(n%8)) != 0
			}
			n++
		}
	}
}

// cursor reads an event from front to back. After a read past the end it is bad and gives zeros.
type cursor struct {
	b   []byte
	bad bool
}

func (c *cursor) take(n int) []byte {
	if n < 0 || n > len(c.b) {
		c.bad = true
		c.b = nil
		return nil
	}
	head := c.b[:n]
	c.b = c.b[n:]
	return head
}

// uint reads a little-endian number.
func (c *cursor) uint(n int) uint64 { return littleEndian(c.take(n)) }

// packed reads a length-encoded number: one byte below 251, else 252, 253 or 254 and 2, 3 or 8 bytes.
func (c *cursor) packed() uint64 {
	switch n := c.uint(1); n {
	case 252:
		return c.uint(2)
	case 253:
		return c.uint(3)
	case 254:
		b := c.take(8)
		if c.bad || binary.LittleEndian.Uint64(b) > 1<<40 {
			c.bad = true
			return 0
		}
		return binary.LittleEndian.Uint64(b)
	default:
		return n
	}
}
