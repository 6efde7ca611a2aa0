package connectors

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// The JSON of a value, as it stands in a record (docs/records.md):
//
//	absent, null                  null
//	bool int uint                 true, 1, 18446744073709551615
//	float                         the number; NaN, Infinity and -Infinity as strings
//	bytes                         string, base64 with padding
//	array map                     the JSON they hold
//	every other kind              string

// AppendJSON appends the value as JSON. A float, array or map that is not in its canonical form becomes a string, so
// that what is appended is valid JSON whatever v holds.
func AppendJSON(dst []byte, v Value) []byte {
	switch v.kind {
	case Absent, Null:
		return append(dst, "null"...)
	case Bool:
		return strconv.AppendBool(dst, v.num != 0)
	case Int:
		return strconv.AppendInt(dst, int64(v.num), 10)
	case Uint:
		return strconv.AppendUint(dst, v.num, 10)
	case Float:
		if end, err := scanNumber(v.data, 0); err == nil && end == len(v.data) {
			return append(dst, v.data...)
		}
	case Bytes:
		dst = append(dst, '"')
		dst = base64.StdEncoding.AppendEncode(dst, v.data)
		return append(dst, '"')
	case Array:
		if len(v.data) > 0 && v.data[0] == '[' && ValidJSON(v.data) {
			return append(dst, v.data...)
		}
	case Map:
		if len(v.data) > 0 && v.data[0] == '{' && ValidJSON(v.data) {
			return append(dst, v.data...)
		}
	}
	return AppendJSONString(dst, v.data)
}

const hexDigits = "0123456789abcdef"

// AppendJSONString appends s as a JSON string. Only what JSON demands is escaped. Each byte that is not part of valid
// UTF-8 becomes U+FFFD.
func AppendJSONString(dst, s []byte) []byte {
	dst = append(dst, '"')
	for {
		n := plainRun(s)
		dst = append(dst, s[:n]...)
		if s = s[n:]; len(s) == 0 {
			return append(dst, '"')
		}
		size := 1
		switch c := s[0]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\r':
			dst = append(dst, '\\', 'r')
		case c == '\t':
			dst = append(dst, '\\', 't')
		case c < 0x20:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		default:
			dst, size = appendRunes(dst, s)
		}
		s = s[size:]
	}
}

// appendRunes copies the run of characters above ASCII that begins s, and returns its length.
func appendRunes(dst, s []byte) ([]byte, int) {
	n := 0
	for n < len(s) && s[n] >= utf8.RuneSelf {
		r, size := utf8.DecodeRune(s[n:])
		dst = utf8.AppendRune(dst, r)
		n += size
	}
	return dst, n
}

// ParseJSON is the inverse of AppendJSON for a column of the given kind. token is one JSON value as ScanJSON returns it.
// The value points into token where its bytes stand there as they are, else into arena, which is returned grown.
//
// A token that the kind does not produce is taken for what it is (a string is Text, a number Int or Float, a word
// Bool), because a value outside its type's range is recorded as the database's own text. What could only be a
// misreading is an error: a string that is not base64 in a column of bytes, an array in a column of text.
func ParseJSON(kind Kind, token, arena []byte) (Value, []byte, error) {
	if len(token) == 0 {
		return Value{}, arena, errAt(0, "end of text")
	}
	switch token[0] {
	case 'n':
		return NullValue(), arena, nil
	case '"':
		return parseString(kind, token, arena)
	case 't', 'f':
		if kind == Bytes {
			return Value{}, arena, mismatch("a boolean", kind)
		}
		return BoolValue(token[0] == 't'), arena, nil
	case '[':
		if kind != Array {
			return Value{}, arena, mismatch("an array", kind)
		}
		return Value{kind: Array, data: token}, arena, nil
	case '{':
		if kind != Map {
			return Value{}, arena, mismatch("an object", kind)
		}
		return Value{kind: Map, data: token}, arena, nil
	default:
		v, err := parseNumber(kind, token)
		return v, arena, err
	}
}

// CutJSON takes the first JSON value off b, as ScanJSON and then ParseJSON do it. Text without escapes and small numbers, which
// most values are, are looked at once.
func CutJSON(kind Kind, b, arena []byte) (v Value, rest, grown []byte, err error) {
	if len(b) > 0 && b[0] == '"' && kind != Bytes {
		if end := 1 + plainRun(b[1:]); end < len(b) && b[end] == '"' {
			return Value{kind: textKind(kind), data: b[1:end:end]}, b[skipSpace(b, end+1):], arena, nil
		}
	}
	if n, end := smallNumber(b); end > 0 && (kind == Int || kind == Uint) {
		return Value{kind: kind, num: n}, b[skipSpace(b, end):], arena, nil
	}
	token, rest, err := ScanJSON(b)
	if err != nil {
		return Value{}, nil, arena, err
	}
	v, arena, err = ParseJSON(kind, token, arena)
	return v, rest, arena, err
}

// smallDigits never overflow.
const smallDigits = 18

// smallNumber reads an integer without a sign that a comma or the end of an object follows. end is behind it; 0: it is none.
func smallNumber(b []byte) (n uint64, end int) {
	for end < len(b) && end <= smallDigits && b[end]-'0' <= 9 {
		n = n*10 + uint64(b[end]-'0')
		end++
	}
	if end == 0 || end > smallDigits || end == len(b) || b[0] == '0' && end > 1 || b[end] != ',' && b[end] != '}' {
		return 0, 0
	}
	return n, end
}

// textKind is the kind of a string in a column: one that other kinds never are is text.
func textKind(kind Kind) Kind {
	switch kind {
	case Absent, Null, Bool, Int, Uint, Array, Map:
		return Text
	}
	return kind
}

func mismatch(what string, kind Kind) error {
	return fmt.Errorf("parse value: %s in a column of kind %v", what, kind)
}

func parseNumber(kind Kind, token []byte) (Value, error) {
	if kind == Bytes {
		return Value{}, mismatch("a number", kind)
	}
	if kind == Float {
		return Value{kind: Float, data: token}, nil
	}
	negative := token[0] == '-'
	digits := token
	if negative {
		digits = token[1:]
	}
	var n uint64
	for _, c := range digits {
		d := uint64(c - '0')
		if d > 9 {
			return Value{kind: Float, data: token}, nil
		}
		if n > (1<<64-1-d)/10 {
			return Value{}, fmt.Errorf("parse value: integer out of range in a column of kind %v", kind)
		}
		n = n*10 + d
	}
	switch {
	case kind == Uint && (!negative || n == 0):
		return UintValue(n), nil
	case negative && n <= 1<<63:
		return IntValue(-int64(n)), nil
	case !negative && n <= 1<<63-1:
		return IntValue(int64(n)), nil
	case !negative:
		return UintValue(n), nil
	}
	return Value{}, fmt.Errorf("parse value: integer out of range in a column of kind %v", kind)
}

func parseString(kind Kind, token, arena []byte) (Value, []byte, error) {
	if len(token) < 2 {
		return Value{}, arena, errAt(0, "string without end")
	}
	data, arena, err := Unquote(token, arena)
	if err != nil {
		return Value{}, arena, err
	}
	if kind == Bytes {
		start := len(arena)
		arena, err = base64.StdEncoding.AppendDecode(arena, data)
		if err != nil {
			return Value{}, arena[:start], mismatch("a string that is not base64", kind)
		}
		return Value{kind: Bytes, data: arena[start:len(arena):len(arena)]}, arena, nil
	}
	return Value{kind: textKind(kind), data: data}, arena, nil
}

// Unquote returns the text of a JSON string with its quotes, as ScanJSON returns it: a part of token if nothing in it
// is escaped, else a part of arena, which is returned grown.
func Unquote(token, arena []byte) (text, grown []byte, err error) {
	body := token[1 : len(token)-1]
	n := plainRun(body)
	if n == len(body) || (body[n] >= utf8.RuneSelf && isPlainText(body[n:])) {
		return body[:len(body):len(body)], arena, nil
	}
	start := len(arena)
	for {
		arena = append(arena, body[:n]...)
		if body = body[n:]; len(body) == 0 {
			return arena[start:len(arena):len(arena)], arena, nil
		}
		if body[0] >= utf8.RuneSelf {
			arena, n = appendRunes(arena, body)
		} else if arena, n = unescape(arena, body); n == 0 {
			return nil, arena[:start], errAt(len(token)-1-len(body), "invalid escape")
		}
		body = body[n:]
		n = plainRun(body)
	}
}

// isPlainText reports that b has no escape and is valid UTF-8.
func isPlainText(b []byte) bool {
	for _, c := range b {
		if c == '\\' {
			return false
		}
	}
	return utf8.Valid(b)
}

// unescape appends what the escape at the start of b stands for and returns the escape's length, 0 if it is none.
func unescape(dst, b []byte) ([]byte, int) {
	n := escapeLen(b)
	if n == 0 {
		return dst, 0
	}
	switch c := b[1]; c {
	case 'b':
		return append(dst, '\b'), n
	case 'f':
		return append(dst, '\f'), n
	case 'n':
		return append(dst, '\n'), n
	case 'r':
		return append(dst, '\r'), n
	case 't':
		return append(dst, '\t'), n
	case 'u':
		r, _ := hex4(b[2:])
		if utf16.IsSurrogate(r) {
			low := rune(0)
			if escapeLen(b[n:]) == 6 {
				low, _ = hex4(b[n+2:])
			}
			if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
				n += 6
			}
		}
		return utf8.AppendRune(dst, r), n
	default:
		return append(dst, c), n
	}
}

// WholePairs reports that no string of a JSON text has half of a surrogate pair in its escapes, which is no character: some
// databases keep it, and most readers refuse all of what it stands in.
func WholePairs(text []byte) bool {
	for i := 0; i+5 < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		if i++; text[i] != 'u' {
			continue
		}
		first, ok := hex4(text[i+1:])
		if i += 4; !ok || !utf16.IsSurrogate(first) {
			continue
		}
		if i+6 >= len(text) || text[i+1] != '\\' || text[i+2] != 'u' {
			return false
		}
		if second, ok := hex4(text[i+3:]); !ok || utf16.DecodeRune(first, second) == utf8.RuneError {
			return false
		}
		i += 6
	}
	return true
}
