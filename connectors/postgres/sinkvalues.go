package postgres

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/trunkline/trunkline/connectors"
)

// Types that need to be known by number. They are fixed in PostgreSQL's catalog.
const (
	oidBool  = 16
	oidBytea = 17

	categoryNumeric = 'N' // pg_type.typcategory of every number
)

// COPY's text format (PostgreSQL documentation, COPY, "Text Format"): columns parted by tabs, rows ended by newlines,
// \N for NULL, and a backslash before what would be read as one of these. Everything is in UTF-8, which the session
// demands of the server.

// textEncoder writes rows in COPY's text format. It keeps room for values that are built in two steps.
type textEncoder struct {
	scratch []byte
	unquote []byte
}

// appendRow appends one row: the columns of the layout, then soft's flag and the names of absent columns where the
// target has room for them.
func (e *textEncoder) appendRow(dst []byte, r *route, l *layout, row []connectors.Value, deleted bool) ([]byte, error) {
	var err error
	for i, place := range l.places {
		if i > 0 {
			dst = append(dst, '\t')
		}
		column := &r.target.columns[r.columns[place]]
		if dst, err = e.appendField(dst, column, row[place]); err != nil {
			return dst, refusal{column: column.name, reason: err.Error()}
		}
	}
	if r.soft >= 0 {
		if len(l.places) > 0 {
			dst = append(dst, '\t')
		}
		dst = append(dst, boolLetter(deleted))
	}
	if l.marker != nil {
		if len(l.places) > 0 || r.soft >= 0 {
			dst = append(dst, '\t')
		}
		dst = append(dst, l.marker...)
	}
	return append(dst, '\n'), nil
}

// appendField appends one value in COPY's text format.
func (e *textEncoder) appendField(dst []byte, c *targetColumn, v connectors.Value) ([]byte, error) {
	switch v.Kind() {
	case connectors.Null, connectors.Absent:
		return append(dst, '\\', 'N'), nil
	case connectors.Int, connectors.Uint:
		return v.AppendText(dst), nil
	case connectors.Array, connectors.Map, connectors.Bytes, connectors.Bool, connectors.Text:
		text, err := e.appendText(e.scratch[:0], c, v)
		e.scratch = text
		return appendEscaped(dst, text), err
	default:
		return appendEscaped(dst, v.Data()), nil
	}
}

// appendText appends the text that the column's type reads as v. NULL has none.
func (e *textEncoder) appendText(dst []byte, c *targetColumn, v connectors.Value) ([]byte, error) {
	switch v.Kind() {
	case connectors.Bool:
		switch {
		case c.category == categoryNumeric:
			return append(dst, '0'+byte(boolNumber(v.Bool()))), nil
		case c.oid == oidBool:
			return append(dst, boolLetter(v.Bool())), nil
		}
		return v.AppendText(dst), nil
	case connectors.Bytes:
		return appendHex(append(dst, '\\', 'x'), v.Data()), nil
	case connectors.Text:
		if c.oid == oidBytea {
			return appendHex(append(dst, '\\', 'x'), v.Data()), nil
		}
		return append(dst, v.Data()...), nil
	case connectors.Array:
		if c.elem != 0 {
			return e.appendArray(dst, c, v.Data())
		}
	case connectors.Map:
		if c.hstore && c.elem == 0 {
			return e.appendHstore(dst, v.Data())
		}
	}
	return v.AppendText(dst), nil
}

// appendArray turns a JSON array into the literal of a PostgreSQL array: {1,NULL,"a \"b\""}. Strings are always quoted,
// so that no element is read as the word NULL.
func (e *textEncoder) appendArray(dst []byte, c *targetColumn, array []byte) ([]byte, error) {
	token, rest, err := connectors.ScanJSON(array)
	if err != nil || len(rest) != 0 || token[0] != '[' {
		return dst, fmt.Errorf("array: %w", connectors.ErrJSON)
	}
	return e.appendElements(dst, c, token)
}

// appendElements appends the elements of one dimension; token is valid JSON and starts with a bracket.
func (e *textEncoder) appendElements(dst []byte, c *targetColumn, token []byte) ([]byte, error) {
	dst = append(dst, '{')
	rest := token[1:]
	for first := true; ; first = false {
		rest = trimSpace(rest)
		if rest[0] == ']' {
			return append(dst, '}'), nil
		}
		if !first {
			rest = rest[1:] // the comma
			dst = append(dst, c.delimiter)
		}
		element, after, err := connectors.ScanJSON(rest)
		if err != nil {
			// What follows the element may be a bracket or a comma, which ScanJSON leaves alone; this is a real fault.
			return dst, fmt.Errorf("array: %w", connectors.ErrJSON)
		}
		rest = after
		switch element[0] {
		case '[':
			dst, err = e.appendElements(dst, c, element)
		case '"':
			dst, err = e.appendElement(dst, c, element)
		case 'n':
			dst = append(dst, "NULL"...)
		case '{':
			dst, err = e.appendObject(dst, c, element)
		default:
			dst = append(dst, element...)
		}
		if err != nil {
			return dst, err
		}
	}
}

// appendElement appends a string as an element.
func (e *textEncoder) appendElement(dst []byte, c *targetColumn, token []byte) ([]byte, error) {
	text, arena, err := connectors.Unquote(token, e.unquote[:0])
	e.unquote = arena
	if err != nil {
		return dst, fmt.Errorf("array: %w", connectors.ErrJSON)
	}
	if c.elem != oidBytea {
		return appendQuoted(dst, text), nil
	}
	start := len(e.unquote)
	if e.unquote, err = base64.StdEncoding.AppendDecode(e.unquote, text); err != nil {
		return dst, fmt.Errorf("array of bytes: an element is not base64")
	}
	dst = append(dst, `"\\x`...)
	return append(appendHex(dst, e.unquote[start:]), '"'), nil
}

// appendObject appends an object as an element: an hstore, or JSON.
func (e *textEncoder) appendObject(dst []byte, c *targetColumn, token []byte) ([]byte, error) {
	if !c.hstore {
		return appendQuoted(dst, token), nil
	}
	text, err := e.appendHstore(nil, token)
	return appendQuoted(dst, text), err
}

// appendHstore turns a JSON object into the literal of an hstore: "a"=>"b","c"=>NULL.
func (e *textEncoder) appendHstore(dst []byte, object []byte) ([]byte, error) {
	token, rest, err := connectors.ScanJSON(object)
	if err != nil || len(rest) != 0 || token[0] != '{' {
		return dst, fmt.Errorf("map: %w", connectors.ErrJSON)
	}
	rest = trimSpace(token[1:])
	for first := true; rest[0] != '}'; first = false {
		if !first {
			rest = rest[1:]
			dst = append(dst, ',')
		}
		var key, value []byte
		if key, rest, err = connectors.ScanJSON(rest); err != nil {
			return dst, err
		}
		if dst, err = e.appendHstoreText(dst, key); err != nil {
			return dst, err
		}
		dst = append(dst, '=', '>')
		if value, rest, err = connectors.ScanJSON(rest[1:]); err != nil {
			return dst, err
		}
		if dst, err = e.appendHstoreText(dst, value); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

func (e *textEncoder) appendHstoreText(dst, token []byte) ([]byte, error) {
	switch token[0] {
	case 'n':
		return append(dst, "NULL"...), nil
	case '"':
		text, arena, err := connectors.Unquote(token, e.unquote[:0])
		e.unquote = arena
		return appendQuoted(dst, text), err
	}
	return appendQuoted(dst, token), nil
}

// appendQuoted appends text between double quotes, as arrays and hstore read it.
func appendQuoted(dst, text []byte) []byte {
	dst = append(dst, '"')
	for _, b := range text {
		if b == '"' || b == '\\' {
			dst = append(dst, '\\')
		}
		dst = append(dst, b)
	}
	return append(dst, '"')
}

func trimSpace(b []byte) []byte {
	for b[0] == ' ' || b[0] == '\n' || b[0] == '\t' || b[0] == '\r' {
		b = b[1:]
	}
	return b
}

const hexDigits = "0123456789abcdef"

func appendHex(dst, data []byte) []byte {
	for _, b := range data {
		dst = append(dst, hexDigits[b>>4], hexDigits[b&15])
	}
	return dst
}

// appendEscaped appends text with backslashes before what COPY would take for a sign of its own.
func appendEscaped(dst, text []byte) []byte {
	for {
		n := plainRun(text)
		dst = append(dst, text[:n]...)
		if text = text[n:]; len(text) == 0 {
			return dst
		}
		switch text[0] {
		case '\\':
			dst = append(dst, '\\', '\\')
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, text[0])
		}
		text = text[1:]
	}
}

// plainRun returns how many bytes precede the first backslash or control character. It looks at eight bytes at a time.
func plainRun(b []byte) int {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	n := 0
	for ; len(b)-n >= 8; n += 8 {
		w := binary.LittleEndian.Uint64(b[n:])
		slash := w ^ '\\'*ones
		// A borrow can only mark bytes above one that is marked rightly, so the lowest mark is exact.
		if special := ((w - 0x20*ones) | (slash - ones)) &^ w & high; special != 0 {
			return n + bits.TrailingZeros64(special)>>3
		}
	}
	for n < len(b) && b[n] >= 0x20 && b[n] != '\\' {
		n++
	}
	return n
}

func boolLetter(b bool) byte {
	if b {
		return 't'
	}
	return 'f'
}

func boolNumber(b bool) int {
	if b {
		return 1
	}
	return 0
}
