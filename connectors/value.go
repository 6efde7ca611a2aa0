package connectors

import (
	"bytes"
	"strconv"
)

// Kind is the closed set of what a value can be. The canonical form in the comment is what Value.Data holds; it is the
// same from a snapshot, a stream and an extract, and it is what the record's JSON shows.
type Kind uint8

const (
	Absent      Kind = iota // the change does not carry the column (unchanged TOAST, not in the row image); never NULL
	Null                    // NULL
	Bool                    // in Num
	Int                     // in Num, signed 64 bits
	Uint                    // in Num, unsigned 64 bits
	Float                   // shortest decimal text that reads back the same, JSON number syntax; or NaN Infinity -Infinity; -0.0
	Text                    // UTF-8; also the database's own text of any type that has no kind of its own
	Bytes                   // the bytes themselves
	Decimal                 // exact text with its scale; NaN Infinity -Infinity
	JSON                    // the exact text of the document
	Date                    // 2026-01-30; out of ISO's range (infinity, BC, five-digit years) the database's own text
	Time                    // 24:00:00, 12:34:56.5+02
	Timestamp               // 2026-01-30T12:34:56.123456, no zone; out of range as Date
	TimestampTZ             // 2026-01-30T17:34:56.123456Z, UTC; out of range as Date
	Interval                // the database's own text
	Bits                    // 10101
	Array                   // a JSON array of the elements' own JSON, nested for more dimensions; non-default lower bounds: kind Text
	Map                     // a JSON object of string or null (hstore)
)

var kindNames = [...]string{"absent", "null", "bool", "int", "uint", "float", "text", "bytes", "decimal", "json", "date",
	"time", "timestamp", "timestamptz", "interval", "bits", "array", "map"}

func (k Kind) String() string {
	if int(k) >= len(kindNames) {
		return "invalid"
	}
	return kindNames[k]
}

// KindOf is the inverse of Kind.String.
func KindOf(name string) (Kind, bool) {
	for i, n := range kindNames {
		if n == name {
			return Kind(i), true
		}
	}
	return 0, false
}

// Value is one value of one column. Its bytes belong to the batch it came in. The zero Value is Absent, so that a
// forgotten value never overwrites anything.
type Value struct {
	data []byte
	num  uint64
	kind Kind
}

// NullValue, BoolValue, IntValue and UintValue make values that have no bytes.
func NullValue() Value { return Value{kind: Null} }

// BoolValue makes a Bool.
func BoolValue(b bool) Value {
	if b {
		return Value{kind: Bool, num: 1}
	}
	return Value{kind: Bool}
}

// IntValue makes an Int.
func IntValue(i int64) Value { return Value{kind: Int, num: uint64(i)} }

// UintValue makes a Uint.
func UintValue(u uint64) Value { return Value{kind: Uint, num: u} }

// DataValue makes a value of a kind that holds bytes: Float and all that follow it. data is kept, not copied, and must
// be in the kind's canonical form.
func DataValue(k Kind, data []byte) Value { return Value{kind: k, data: data} }

// Kind returns what the value is.
func (v Value) Kind() Kind { return v.kind }

// IsNull reports SQL NULL.
func (v Value) IsNull() bool { return v.kind == Null }

// IsAbsent reports that the change does not carry the column.
func (v Value) IsAbsent() bool { return v.kind == Absent }

// Bool returns a Bool.
func (v Value) Bool() bool { return v.num != 0 }

// Int returns an Int.
func (v Value) Int() int64 { return int64(v.num) }

// Uint returns a Uint.
func (v Value) Uint() uint64 { return v.num }

// Data returns the canonical bytes of a kind that holds bytes, nil for the others.
func (v Value) Data() []byte { return v.data }

// Equal compares kind and canonical form.
func (v Value) Equal(o Value) bool {
	return v.kind == o.kind && v.num == o.num && bytes.Equal(v.data, o.data)
}

// AppendText appends the value as text: digits, true or false, or the canonical bytes. Null and Absent add nothing.
func (v Value) AppendText(dst []byte) []byte {
	switch v.kind {
	case Absent, Null:
		return dst
	case Bool:
		return strconv.AppendBool(dst, v.num != 0)
	case Int:
		return strconv.AppendInt(dst, int64(v.num), 10)
	case Uint:
		return strconv.AppendUint(dst, v.num, 10)
	default:
		return append(dst, v.data...)
	}
}

// Clone returns a value that shares no memory with v.
func (v Value) Clone() Value {
	v.data = bytes.Clone(v.data)
	return v
}

// CloneRow returns values that share no memory with the row; nil stays nil.
func CloneRow(row []Value) []Value {
	if row == nil {
		return nil
	}
	out := make([]Value, len(row))
	for i, v := range row {
		out[i] = v.Clone()
	}
	return out
}
