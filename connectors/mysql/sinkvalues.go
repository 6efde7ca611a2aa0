package mysql

import (
	"bytes"
	"errors"
	"strconv"

	"github.com/trunkline/trunkline/connectors"
)

var errNoNumber = errors.New("the value is NaN or infinite, which the column's type cannot hold")

// appendSQL appends a value as SQL for a column of the target. The session has NO_BACKSLASH_ESCAPES.
func appendSQL(dst []byte, v connectors.Value, typ *columnType) ([]byte, error) {
	switch v.Kind() {
	case connectors.Absent, connectors.Null:
		return append(dst, "NULL"...), nil
	case connectors.Bool:
		if v.Bool() {
			return append(dst, '1'), nil
		}
		return append(dst, '0'), nil
	case connectors.Int, connectors.Uint:
		if typ.isText() {
			return append(v.AppendText(append(dst, '\'')), '\''), nil
		}
		return v.AppendText(dst), nil
	case connectors.Float, connectors.Decimal:
		if typ.isText() {
			return appendString(dst, v.Data()), nil
		}
		if !isNumber(v.Data()) {
			return dst, errNoNumber
		}
		if typ.base == "float" { // the text is the shortest of 32 bits; the server reads 64, and compares with the largest of 32
			if f, err := strconv.ParseFloat(string(v.Data()), 32); err == nil {
				return strconv.AppendFloat(dst, f, 'e', -1, 64), nil
			}
		}
		dst = append(dst, v.Data()...)
		if v.Kind() == connectors.Float && bytes.IndexByte(v.Data(), 'e') < 0 {
			dst = append(dst, "e0"...) // a double, not a decimal
		}
		return dst, nil
	case connectors.Bytes:
		return appendHex(dst, v.Data()), nil
	case connectors.Bits:
		if typ.base == "bit" {
			return append(append(append(dst, "b'"...), v.Data()...), '\''), nil
		}
	case connectors.Timestamp, connectors.TimestampTZ:
		if typ.base == "datetime" || typ.base == "timestamp" {
			return appendMoment(dst, v.Data()), nil
		}
	}
	return appendString(dst, v.Data()), nil
}

func (t *columnType) isText() bool {
	switch t.base {
	case "char", "varchar", "tinytext", "text", "mediumtext", "longtext", "json", "enum", "set":
		return true
	}
	return false
}

func isNumber(text []byte) bool {
	return len(text) > 0 && (text[len(text)-1] >= '0' && text[len(text)-1] <= '9')
}

// appendMoment writes 2026-01-30T12:34:56Z as the server likes it; the session's time zone is UTC.
func appendMoment(dst, text []byte) []byte {
	start := len(dst) + 1
	dst = append(append(dst, '\''), text...)
	if len(text) > 10 && text[10] == 'T' {
		dst[start+10] = ' '
		if dst[len(dst)-1] == 'Z' {
			dst = dst[:len(dst)-1]
		}
	}
	return append(dst, '\'')
}

// appendString quotes text.
func appendString(dst, text []byte) []byte {
	dst = append(dst, '\'')
	for {
		i := bytes.IndexByte(text, '\'')
		if i < 0 {
			break
		}
		dst = append(append(dst, text[:i+1]...), '\'')
		text = text[i+1:]
	}
	return append(append(dst, text...), '\'')
}

// appendHex appends bytes.
func appendHex(dst, data []byte) []byte {
	dst = append(dst, "x'"...)
	for _, c := range data {
		dst = append(dst, hexDigits[c>>4], hexDigits[c&15])
	}
	return append(dst, '\'')
}

// appendEquals appends the condition that a column holds exactly a value, for rows that have no key.
func appendEquals(dst []byte, name string, v connectors.Value, typ *columnType) ([]byte, error) {
	switch {
	case v.IsNull():
		return append(append(dst, name...), " IS NULL"...), nil
	case typ.isText():
		dst = append(dst, "CAST(CONVERT("+name+" USING utf8mb4) AS BINARY) = "...)
		return appendHex(dst, v.AppendText(nil)), nil
	case typ.base == "float" && v.Kind() == connectors.Float:
		f, err := strconv.ParseFloat(string(v.Data()), 32)
		dst = append(dst, name+" * 1e0 = "...)
		return strconv.AppendFloat(dst, f, 'e', -1, 64), err
	}
	return appendSQL(append(append(dst, name...), " = "...), v, typ)
}
