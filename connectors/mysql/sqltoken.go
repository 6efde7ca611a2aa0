package mysql

import "strings"

// tokenKind is what a piece of a statement is.
type tokenKind uint8

const (
	tokenWord   tokenKind = iota + 1 // a name, a keyword or a number
	tokenName                        // a quoted name
	tokenString                      // a string, without its quotes
	tokenPunct                       // one character
)

// token is a piece of a statement. Comments are no tokens, but what the server runs of them (/*!50000 … */) is.
type token struct {
	kind tokenKind
	text string
}

// is reports a keyword or a punctuation mark.
func (t token) is(words ...string) bool {
	if t.kind != tokenWord && t.kind != tokenPunct {
		return false
	}
	for _, w := range words {
		if strings.EqualFold(t.text, w) {
			return true
		}
	}
	return false
}

// tokenize cuts a statement. ansi: double quotes are around names. raw: a backslash in a string is a backslash.
func tokenize(text string, ansi, raw bool) []token {
	var out []token
	executed := 0 // comments that the server runs
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c <= ' ':
			i++
		case c == '#', c == '-' && strings.HasPrefix(text[i:], "--") && (i+2 == len(text) || text[i+2] <= ' '):
			end := strings.IndexByte(text[i:], '\n')
			if end < 0 {
				return out
			}
			i += end
		case strings.HasPrefix(text[i:], "/*!"), strings.HasPrefix(text[i:], "/*M!"):
			i += strings.IndexByte(text[i:], '!') + 1
			for i < len(text) && text[i] >= '0' && text[i] <= '9' {
				i++
			}
			executed++
		case executed > 0 && strings.HasPrefix(text[i:], "*/"):
			i += 2
			executed--
		case strings.HasPrefix(text[i:], "/*"):
			end := strings.Index(text[i+2:], "*/")
			if end < 0 {
				return out
			}
			i += end + 4
		case c == '`', c == '\'', c == '"':
			t, n := quoted(text[i:], ansi, raw)
			out = append(out, t)
			i += n
		case isWordByte(c):
			n := i
			for n < len(text) && isWordByte(text[n]) {
				n++
			}
			out = append(out, token{tokenWord, text[i:n]})
			i = n
		default:
			out = append(out, token{tokenPunct, text[i : i+1]})
			i++
		}
	}
	return out
}

func isWordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '$' || c == '@' || c >= 0x80
}

// quoted reads what stands in quotes, and returns how long it is with them.
func quoted(text string, ansi, raw bool) (token, int) {
	quote := text[0]
	kind := tokenString
	if quote == '`' || quote == '"' && ansi {
		kind = tokenName
	}
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		c := text[i]
		switch {
		case c == quote && i+1 < len(text) && text[i+1] == quote:
			b.WriteByte(c)
			i++
		case c == quote:
			return token{kind, b.String()}, i + 1
		case c == '\\' && kind == tokenString && !raw && i+1 < len(text):
			i++
			b.WriteString(unescape(text[i]))
		default:
			b.WriteByte(c)
		}
	}
	return token{kind, b.String()}, len(text)
}

func unescape(c byte) string {
	switch c {
	case '0':
		return "\x00"
	case 'b':
		return "\b"
	case 'n':
		return "\n"
	case 'r':
		return "\r"
	case 't':
		return "\t"
	case 'Z':
		return "\x1a"
	}
	return string(c)
}
