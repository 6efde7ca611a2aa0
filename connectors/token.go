package connectors

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
)

// ErrJSON is the root of every error about text that is not JSON.
var ErrJSON = errors.New("not valid JSON")

// maxDepth bounds nesting, so that hostile input cannot exhaust the stack.
const maxDepth = 512

// ScanJSON splits the first JSON value off b. token is the value without the space around it, rest is what follows it,
// from the first character that is not space. Both point into b. The token is valid JSON, except that its strings may
// hold bytes that are not UTF-8; ParseJSON replaces those.
func ScanJSON(b []byte) (token, rest []byte, err error) {
	start := skipSpace(b, 0)
	end, err := scanValue(b, start, 0)
	if err != nil {
		return nil, nil, err
	}
	return b[start:end], b[skipSpace(b, end):], nil
}

// ValidJSON reports whether b is one JSON value and nothing else.
func ValidJSON(b []byte) bool {
	_, rest, err := ScanJSON(b)
	return err == nil && len(rest) == 0
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

func errAt(i int, what string) error { return fmt.Errorf("%w: %s at byte %d", ErrJSON, what, i) }

// scanValue returns the index behind the value that starts at i.
func scanValue(b []byte, i, depth int) (int, error) {
	if i >= len(b) {
		return 0, errAt(i, "end of text")
	}
	switch b[i] {
	case '"':
		return scanString(b, i)
	case '[', '{':
		if depth >= maxDepth {
			return 0, errAt(i, "nesting too deep")
		}
		return scanNested(b, i, depth+1)
	case 't':
		return scanWord(b, i, "true")
	case 'f':
		return scanWord(b, i, "false")
	case 'n':
		return scanWord(b, i, "null")
	default:
		return scanNumber(b, i)
	}
}

func scanWord(b []byte, i int, word string) (int, error) {
	if len(b)-i < len(word) || string(b[i:i+len(word)]) != word {
		return 0, errAt(i, "unknown word")
	}
	return i + len(word), nil
}

// scanNested scans an array or an object, b[i] is its opening.
func scanNested(b []byte, i, depth int) (int, error) {
	object := b[i] == '{'
	closing := b[i] + 2 // in ASCII both closings follow their openings by two
	i = skipSpace(b, i+1)
	if i < len(b) && b[i] == closing {
		return i + 1, nil
	}
	for {
		var err error
		if object {
			if i >= len(b) || b[i] != '"' {
				return 0, errAt(i, "name of a member expected")
			}
			if i, err = scanString(b, i); err != nil {
				return 0, err
			}
			i = skipSpace(b, i)
			if i >= len(b) || b[i] != ':' {
				return 0, errAt(i, "colon expected")
			}
			i = skipSpace(b, i+1)
		}
		if i, err = scanValue(b, i, depth); err != nil {
			return 0, err
		}
		i = skipSpace(b, i)
		switch {
		case i < len(b) && b[i] == closing:
			return i + 1, nil
		case i < len(b) && b[i] == ',':
			i = skipSpace(b, i+1)
		default:
			return 0, errAt(i, "comma or end expected")
		}
	}
}

// scanString scans a string whose opening quote is b[i].
func scanString(b []byte, i int) (int, error) {
	i++
	for {
		i += plainRun(b[i:])
		if i >= len(b) {
			return 0, errAt(i, "string without end")
		}
		switch c := b[i]; {
		case c == '"':
			return i + 1, nil
		case c == '\\':
			n := escapeLen(b[i:])
			if n == 0 {
				return 0, errAt(i, "invalid escape")
			}
			i += n
		case c < 0x20:
			return 0, errAt(i, "control character in a string")
		default:
			i++
		}
	}
}

// escapeLen returns the length of the escape that begins b, 0 if it is none.
func escapeLen(b []byte) int {
	if len(b) < 2 || b[0] != '\\' {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if _, ok := hex4(b[2:]); ok {
			return 6
		}
	}
	return 0
}

func hex4(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range b[:4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// scanNumber scans a number in JSON's syntax.
func scanNumber(b []byte, i int) (int, error) {
	start := i
	if i < len(b) && b[i] == '-' {
		i++
	}
	digits := digitRun(b, i)
	if digits == 0 || (digits > 1 && b[i] == '0') {
		return 0, errAt(start, "value expected")
	}
	i += digits
	if i < len(b) && b[i] == '.' {
		n := digitRun(b, i+1)
		if n == 0 {
			return 0, errAt(i, "digit expected")
		}
		i += 1 + n
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		n := digitRun(b, i)
		if n == 0 {
			return 0, errAt(i, "digit expected")
		}
		i += n
	}
	return i, nil
}

func digitRun(b []byte, i int) int {
	n := 0
	for i+n < len(b) && b[i+n]-'0' <= 9 {
		n++
	}
	return n
}

// plainRun returns how many bytes of b precede the first one that a JSON string treats in a special way: a quote, a
// backslash, a control character, or a byte that is not ASCII. It looks at eight bytes at a time.
func plainRun(b []byte) int {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	n := 0
	for ; len(b)-n >= 8; n += 8 {
		w := binary.LittleEndian.Uint64(b[n:])
		quote := w ^ '"'*ones
		slash := w ^ '\\'*ones
		special := (w | (w - 0x20*ones) | (quote - ones) | (slash - ones)) & high
		if special != 0 {
			// A borrow can only mark bytes above one that is special itself, so the lowest mark is exact.
			return n + bits.TrailingZeros64(special)>>3
		}
	}
	for n < len(b) && b[n] >= 0x20 && b[n] < 0x80 && b[n] != '"' && b[n] != '\\' {
		n++
	}
	return n
}
