package mysql

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/trunkline/trunkline/connectors"
)

// MySQL's binary JSON (sql/json_binary.h). A value is a type byte and, behind it:
//
//	object, array   count, size of the rest; keys: offset, length:2; values: type, offset or the value itself; the bytes
//	                counts, sizes and offsets have 2 bytes when small, 4 when large; offsets count from behind the type
//	literal         null, true, false
//	numbers         little-endian
//	string          length in groups of seven bits, bytes
//	opaque          the column type, length as of a string, bytes as in the binary log
const (
	jsonSmallObject = 0
	jsonLargeObject = 1
	jsonSmallArray  = 2
	jsonLargeArray  = 3
	jsonLiteral     = 4
	jsonInt16       = 5
	jsonUint16      = 6
	jsonInt32       = 7
	jsonUint32      = 8
	jsonInt64       = 9
	jsonUint64      = 10
	jsonDouble      = 11
	jsonString      = 12
	jsonOpaque      = 15

	maxJSONDepth = 200 // the server allows 100
)

var errJSON = errors.New("not what the format allows")

// binaryJSON turns MySQL's binary JSON into the text that CAST(… AS CHAR) gives.
func (r *rows) binaryJSON(data []byte) (connectors.Value, error) {
	start := len(r.arena)
	if len(data) == 0 { // what the server stores for a value that a non-strict session let in
		r.arena = append(r.arena, "null"...)
		return connectors.DataValue(connectors.JSON, r.since(start)), nil
	}
	dst, err := appendBinaryJSON(r.arena, data[0], data[1:], 0)
	if err != nil {
		return connectors.Value{}, fmt.Errorf("%w: binary JSON: %w", errRow, err)
	}
	r.arena = dst
	return connectors.DataValue(connectors.JSON, r.since(start)), nil
}

func appendBinaryJSON(dst []byte, typ byte, b []byte, depth int) ([]byte, error) {
	if depth > maxJSONDepth {
		return nil, errJSON
	}
	need := map[byte]int{jsonLiteral: 1, jsonInt16: 2, jsonUint16: 2, jsonInt32: 4, jsonUint32: 4, jsonInt64: 8, jsonUint64: 8, jsonDouble: 8}[typ]
	if len(b) < need {
		return nil, errJSON
	}
	switch typ {
	case jsonSmallObject, jsonLargeObject, jsonSmallArray, jsonLargeArray:
		return appendContainer(dst, typ, b, depth)
	case jsonLiteral:
		return appendLiteral(dst, b[0])
	case jsonInt16:
		return strconv.AppendInt(dst, int64(int16(binary.LittleEndian.Uint16(b))), 10), nil
	case jsonInt32:
		return strconv.AppendInt(dst, int64(int32(binary.LittleEndian.Uint32(b))), 10), nil
	case jsonInt64:
		return strconv.AppendInt(dst, int64(binary.LittleEndian.Uint64(b)), 10), nil
	case jsonUint16, jsonUint32, jsonUint64:
		return strconv.AppendUint(dst, littleEndian(b[:need]), 10), nil
	case jsonDouble:
		return appendDouble(dst, math.Float64frombits(binary.LittleEndian.Uint64(b))), nil
	case jsonString:
		text, err := counted(b)
		if err != nil {
			return nil, err
		}
		return appendQuoted(dst, text), nil
	case jsonOpaque:
		if len(b) < 1 {
			return nil, errJSON
		}
		data, err := counted(b[1:])
		if err != nil {
			return nil, err
		}
		return appendOpaque(dst, b[0], data)
	}
	return nil, errJSON
}

func appendLiteral(dst []byte, b byte) ([]byte, error) {
	switch b {
	case 0:
		return append(dst, "null"...), nil
	case 1:
		return append(dst, "true"...), nil
	case 2:
		return append(dst, "false"...), nil
	}
	return nil, errJSON
}

// appendContainer appends an object or an array. The offsets count from the start of b.
func appendContainer(dst []byte, typ byte, b []byte, depth int) ([]byte, error) {
	word := 2
	if typ == jsonLargeObject || typ == jsonLargeArray {
		word = 4
	}
	object := typ == jsonSmallObject || typ == jsonLargeObject
	if len(b) < 2*word {
		return nil, errJSON
	}
	count := int(littleEndian(b[:word]))
	keys := 2 * word
	values := keys
	if object {
		values += count * (word + 2)
	}
	if count > len(b) || values+count*(1+word) > len(b) {
		return nil, errJSON
	}
	open, end := byte('['), byte(']')
	if object {
		open, end = '{', '}'
	}
	dst = append(dst, open)
	for i := range count {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		if object {
			entry := b[keys+i*(word+2):]
			at, n := int(littleEndian(entry[:word])), int(littleEndian(entry[word:word+2]))
			if at+n > len(b) {
				return nil, errJSON
			}
			dst = append(appendQuoted(dst, b[at:at+n]), ": "...)
		}
		entry := b[values+i*(1+word):]
		at := int(littleEndian(entry[1 : 1+word]))
		value := entry[1 : 1+word]
		if !inlined(entry[0], word) {
			if at > len(b) {
				return nil, errJSON
			}
			value = b[at:]
		}
		var err error
		if dst, err = appendBinaryJSON(dst, entry[0], value, depth+1); err != nil {
			return nil, err
		}
	}
	return append(dst, end), nil
}

// inlined reports whether a value stands where its offset would.
func inlined(typ byte, word int) bool {
	switch typ {
	case jsonLiteral, jsonInt16, jsonUint16:
		return true
	case jsonInt32, jsonUint32:
		return word == 4
	}
	return false
}

// counted reads a length in groups of seven bits, the lowest first, and as many bytes.
func counted(b []byte) ([]byte, error) {
	n := 0
	for i := 0; i < 5 && i < len(b); i++ {
		n |= int(b[i]&0x7f) << (7 * i)
		if b[i] < 0x80 {
			if b = b[i+1:]; n > len(b) {
				return nil, errJSON
			}
			return b[:n], nil
		}
	}
	return nil, errJSON
}

func appendQuoted(dst, text []byte) []byte {
	dst = append(dst, '"')
	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c >= 0x20:
			dst = append(dst, c)
		case strings.IndexByte("\b\f\n\r\t", c) >= 0:
			dst = append(dst, '\\', "btn?fr"[c-8])
		default:
			dst = append(dst, `\u00`...)
			dst = append(dst, hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return append(dst, '"')
}

// appendDouble writes a double as my_gcvt does: shortest digits, with an exponent from 1e15 on and below 1e-15, and
// never so that it could be taken for an integer.
func appendDouble(dst []byte, f float64) []byte {
	text := strconv.FormatFloat(f, 'e', -1, 64)
	_, tail, _ := strings.Cut(text, "e")
	exponent, _ := strconv.Atoi(tail)
	if exponent >= -15 && exponent < 15 || f == 0 {
		text = strconv.FormatFloat(f, 'f', -1, 64)
		if !strings.Contains(text, ".") {
			text += ".0"
		}
		return append(dst, text...)
	}
	mantissa, _, _ := strings.Cut(text, "e")
	return append(append(dst, mantissa...), "e"+strconv.Itoa(exponent)...)
}

// appendOpaque appends a value of a type that JSON has not.
func appendOpaque(dst []byte, typ byte, data []byte) ([]byte, error) {
	switch typ {
	case typeNewDecimal:
		if len(data) < 2 || decimalSize(int(data[0]), int(data[1])) != len(data)-2 {
			return nil, errJSON
		}
		var r rows
		v, err := r.decimal(data[2:], int(data[0]), int(data[1]))
		return append(dst, v.Data()...), err
	case typeTime, typeDate, typeDateTime, typeTimestamp:
		if len(data) != 8 {
			return nil, errJSON
		}
		return appendPackedTime(dst, typ, int64(binary.LittleEndian.Uint64(data))), nil
	}
	dst = append(dst, `"base64:type`...)
	dst = append(strconv.AppendUint(dst, uint64(typ), 10), ':')
	dst = base64.StdEncoding.AppendEncode(dst, data)
	return append(dst, '"'), nil
}

// appendPackedTime appends a moment that is packed as in DATETIME(6) and TIME(6), with 24 bits of fraction.
func appendPackedTime(dst []byte, typ byte, n int64) []byte {
	var c clock
	if n < 0 {
		c.negative, n = true, -n
	}
	c.micro = uint64(n) & (1<<24 - 1)
	n >>= 24
	dst = append(dst, '"')
	if typ == typeTime {
		c.hour, c.minute, c.second = uint64(n)>>12&0x3ff, uint64(n)>>6&63, uint64(n)&63
		if c.negative {
			dst = append(dst, '-')
		}
		return append(c.appendTime(dst, 2, 6), '"')
	}
	months := uint64(n) >> 22
	c.year, c.month, c.day = months/13, months%13, uint64(n)>>17&31
	c.hour, c.minute, c.second = uint64(n)>>12&31, uint64(n)>>6&63, uint64(n)&63
	dst = c.appendDate(dst)
	if typ != typeDate {
		dst = c.appendTime(append(dst, ' '), 2, 6)
	}
	return append(dst, '"')
}
