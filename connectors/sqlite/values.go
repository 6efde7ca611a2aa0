package sqlite

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/trunkline/trunkline/connectors"
)

// SQLite stores what it is given: a declared type is a preference (affinity), and any cell may hold any of five storage
// classes. A column gets a kind from its declared type. A cell that fits the kind becomes a value of it; a cell that does
// not becomes Text holding what SQLite shows for it, never 0 and never NULL:
//
//	INTEGER '12abc'               Text 12abc
//	INTEGER 1.5                   Text 1.5
//	TEXT x'00ff' (a blob)         Text X'00FF', SQLite's own literal
//	TEXT with bytes not UTF-8     Text X'…' of its bytes
//	TIMESTAMP 1598313600          Text 1598313600
//	BLOB 'text' (a text)          Bytes, the text's bytes: in JSON, text could be taken for base64

// kindOf returns the kind for a declared type: the names of dates, booleans, decimals and documents first, which SQLite
// itself does not know, then SQLite's rules of affinity in their order.
func kindOf(declared string) connectors.Kind {
	name := strings.ToUpper(declared)
	base, _, _ := strings.Cut(name, "(")
	switch strings.TrimSpace(base) {
	case "BOOL", "BOOLEAN":
		return connectors.Bool
	case "DATE":
		return connectors.Date
	case "TIME":
		return connectors.Time
	case "DATETIME", "TIMESTAMP":
		return connectors.Timestamp
	case "JSON":
		return connectors.JSON
	case "DECIMAL", "NUMERIC":
		return connectors.Decimal
	}
	has := func(parts ...string) bool {
		for _, p := range parts {
			if strings.Contains(name, p) {
				return true
			}
		}
		return false
	}
	switch {
	case has("INT"):
		return connectors.Int
	case has("CHAR", "CLOB", "TEXT"):
		return connectors.Text
	case has("BLOB"):
		return connectors.Bytes
	case has("REAL", "FLOA", "DOUB"):
		return connectors.Float
	}
	return connectors.Text
}

// arena holds the bytes of the values of one batch. Values that were handed out stay valid when it grows.
type arena struct{ bytes []byte }

// since makes a value of the bytes from start on.
func (a *arena) since(start int, k connectors.Kind) connectors.Value {
	return connectors.DataValue(k, a.bytes[start:len(a.bytes):len(a.bytes)])
}

// value makes a value of what the driver returned for a column of the kind.
func (a *arena) value(kind connectors.Kind, cell any) connectors.Value {
	start := len(a.bytes)
	switch cell := cell.(type) {
	case nil:
		return connectors.NullValue()
	case int64:
		switch {
		case kind == connectors.Int:
			return connectors.IntValue(cell)
		case kind == connectors.Bool && (cell == 0 || cell == 1):
			return connectors.BoolValue(cell == 1)
		}
		a.bytes = strconv.AppendInt(a.bytes, cell, 10)
		return a.since(start, numberKind(kind))
	case float64:
		a.bytes = appendFloat(a.bytes, cell, kind)
		return a.since(start, numberKind(kind))
	case string:
		if kind != connectors.Bytes && !utf8.ValidString(cell) {
			return a.literal([]byte(cell))
		}
		a.bytes = append(a.bytes, cell...)
		return a.since(start, textKind(kind, a.bytes[start:]))
	case []byte:
		if kind != connectors.Bytes {
			return a.literal(cell)
		}
		a.bytes = append(a.bytes, cell...)
		return a.since(start, connectors.Bytes)
	default:
		return connectors.Value{}
	}
}

// literal makes Text of bytes as SQLite's literal of a blob.
func (a *arena) literal(b []byte) connectors.Value {
	const digits = "0123456789ABCDEF"
	start := len(a.bytes)
	a.bytes = append(a.bytes, "X'"...)
	for _, c := range b {
		a.bytes = append(a.bytes, digits[c>>4], digits[c&15])
	}
	a.bytes = append(a.bytes, '\'')
	return a.since(start, connectors.Text)
}

// numberKind is the kind of a number that stands as digits in a column of the kind.
func numberKind(kind connectors.Kind) connectors.Kind {
	switch kind {
	case connectors.Float, connectors.Decimal, connectors.JSON, connectors.Bytes:
		return kind
	}
	return connectors.Text
}

// textKind is the kind of a text in a column of the kind. A timestamp's blank becomes T in place.
func textKind(kind connectors.Kind, text []byte) connectors.Kind {
	switch kind {
	case connectors.Bytes:
		return kind
	case connectors.Date:
		if len(text) == 10 && isDate(text) {
			return kind
		}
	case connectors.Time:
		if isTime(text) {
			return kind
		}
	case connectors.Timestamp:
		if len(text) > 11 && isDate(text[:10]) && (text[10] == ' ' || text[10] == 'T') && isTime(text[11:]) {
			text[10] = 'T'
			return kind
		}
	case connectors.JSON:
		if connectors.ValidJSON(text) {
			return kind
		}
	}
	return connectors.Text
}

// isDate reports the form 2026-01-30.
func isDate(b []byte) bool {
	if !fits(b, "dddd-dd-dd") {
		return false
	}
	month, day := b[5:7], b[8:10]
	return string(month) >= "01" && string(month) <= "12" && string(day) >= "01" && string(day) <= "31"
}

// isTime reports the form 12:34:56 with any number of digits after a point.
func isTime(b []byte) bool {
	if len(b) < 8 || !fits(b[:8], "dd:dd:dd") || string(b[:2]) > "23" || string(b[3:5]) > "59" || string(b[6:8]) > "59" {
		return false
	}
	if len(b) == 8 {
		return true
	}
	if b[8] != '.' || len(b) == 9 {
		return false
	}
	return fits(b[9:], strings.Repeat("d", len(b)-9))
}

// fits compares with a pattern in which d stands for a digit.
func fits(b []byte, pattern string) bool {
	if len(b) != len(pattern) {
		return false
	}
	for i, c := range b {
		if pattern[i] == 'd' && (c < '0' || c > '9') || pattern[i] != 'd' && c != pattern[i] {
			return false
		}
	}
	return true
}

// appendFloat appends the shortest text that reads back the same, for decimals without an exponent.
func appendFloat(dst []byte, f float64, kind connectors.Kind) []byte {
	switch {
	case math.IsInf(f, 1):
		return append(dst, "Infinity"...)
	case math.IsInf(f, -1):
		return append(dst, "-Infinity"...)
	case f == 0 && math.Signbit(f):
		return append(dst, "-0.0"...)
	case kind == connectors.Decimal:
		return strconv.AppendFloat(dst, f, 'f', -1, 64)
	}
	return strconv.AppendFloat(dst, f, 'g', -1, 64)
}
