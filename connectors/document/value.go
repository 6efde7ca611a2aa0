package document

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

// kindOf returns the narrowest kind of a JSON value; Null for null.
func kindOf(token []byte) connectors.Kind {
	switch token[0] {
	case 'n':
		return connectors.Null
	case 't', 'f':
		return connectors.Bool
	case '"':
		return connectors.Text
	case '[', '{':
		return connectors.JSON
	}
	return numberKind(token)
}

// join returns the narrowest kind that holds what two kinds hold. A document holds everything.
func join(have, value connectors.Kind, token []byte) connectors.Kind {
	rank := func(k connectors.Kind) int {
		switch k {
		case connectors.Int:
			return 1
		case connectors.Float:
			return 2
		case connectors.Decimal:
			return 3
		}
		return 0
	}
	switch {
	case value == connectors.Null || have == value:
		return have
	case rank(have) == 0 || rank(value) == 0:
		return connectors.JSON
	case have == connectors.Float && value == connectors.Int && !isFloatInt(token):
		return connectors.Decimal
	case rank(have) < rank(value):
		return value
	}
	return have
}

func isFloatInt(token []byte) bool {
	n, err := strconv.ParseInt(string(token), 10, 64)
	return err == nil && n <= exactInts && n >= -exactInts
}

// errValue is a value that a column of a declared type cannot hold. It does not say the value.
var errValue = errors.New("a value that the column's type cannot hold")

// FromJSON makes the value of a column of a kind from a JSON value. What it needs beside token is appended to arena.
func FromJSON(kind connectors.Kind, token, arena []byte) (connectors.Value, []byte, error) {
	if token[0] == 'n' {
		return connectors.NullValue(), arena, nil
	}
	if kind == connectors.JSON {
		return connectors.DataValue(connectors.JSON, token), arena, nil
	}
	text := token
	if token[0] == '"' {
		var err error
		if text, arena, err = connectors.Unquote(token, arena); err != nil {
			return connectors.Value{}, arena, err
		}
	}
	return FromText(kind, text, arena)
}

// FromText makes the value of a column of a kind from its text, as CSV has it.
func FromText(kind connectors.Kind, text, arena []byte) (connectors.Value, []byte, error) {
	start := len(arena)
	fail := func() (connectors.Value, []byte, error) { return connectors.Value{}, arena[:start], errValue }
	grown := func() (connectors.Value, []byte, error) {
		return connectors.DataValue(kind, arena[start:len(arena):len(arena)]), arena, nil
	}
	ok := true
	switch kind {
	case connectors.Text:
	case connectors.JSON:
		ok = connectors.ValidJSON(text)
	case connectors.Bool:
		b, err := strconv.ParseBool(string(text))
		if err != nil {
			return fail()
		}
		return connectors.BoolValue(b), arena, nil
	case connectors.Int:
		n, err := strconv.ParseInt(string(text), 10, 64)
		if err != nil {
			return fail()
		}
		return connectors.IntValue(n), arena, nil
	case connectors.Float:
		if special(text) {
			break
		}
		if arena, ok = float(arena, text); !ok {
			return fail()
		}
		return grown()
	case connectors.Decimal:
		if special(text) {
			break
		}
		if arena, ok = plain(arena, text); !ok {
			return fail()
		}
		return grown()
	case connectors.Bytes:
		var err error
		if arena, err = base64.StdEncoding.AppendDecode(arena, text); err != nil {
			return fail()
		}
		return grown()
	case connectors.Date:
		ok = len(text) == len(time.DateOnly) && connectors.IsDate(text)
	case connectors.Time:
		_, err := time.Parse(time.TimeOnly, string(text))
		ok = err == nil
	case connectors.Timestamp, connectors.TimestampTZ:
		if arena, ok = moment(arena, kind, text); !ok {
			return fail()
		}
		return grown()
	}
	if !ok {
		return fail()
	}
	return connectors.DataValue(kind, text), arena, nil
}

// special are the numbers that have no digits.
func special(text []byte) bool {
	return bytes.Equal(text, []byte("NaN")) || bytes.Equal(text, []byte("Infinity")) || bytes.Equal(text, []byte("-Infinity"))
}

// moment appends a date with a time in its canonical form: of a timestamp as it stands, of one with a zone in UTC.
func moment(dst []byte, kind connectors.Kind, text []byte) ([]byte, bool) {
	const date, zoned = "2006-01-02T15:04:05", "2006-01-02T15:04:05Z07:00"
	if len(text) < len(date) {
		return dst, false
	}
	s := []byte(string(text))
	if s[10] == ' ' {
		s[10] = 'T'
	}
	if kind == connectors.Timestamp {
		_, err := time.Parse(date, string(s))
		return append(dst, s...), err == nil
	}
	at, err := time.Parse(zoned, string(s))
	if err != nil {
		if at, err = time.Parse("2006-01-02T15:04:05Z0700", string(s)); err != nil {
			return dst, false
		}
	}
	return at.UTC().AppendFormat(dst, "2006-01-02T15:04:05.999999999Z"), true
}

// bad says which column a value does not fit, and no more.
func bad(column string, kind connectors.Kind, err error) error {
	return fmt.Errorf("column %s of type %v: %w", column, kind, err)
}
