package mysql

import (
	"context"
	"database/sql"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/encoding/unicode/utf32"
)

// charset turns text of the binary log into UTF-8. Queries need none: the server converts.
type charset struct {
	name    string
	utf8    bool
	ascii   bool              // bytes below 128 are themselves
	single  *[256]string      // of one byte each
	convert encoding.Encoding // Unicode in another form
	learned *learned          // characters of one to four bytes
}

// unicodes are the character sets that are Unicode in another form.
var unicodes = map[string]encoding.Encoding{
	"ucs2":    unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM),
	"utf16":   unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM),
	"utf16le": unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM),
	"utf32":   utf32.UTF32(utf32.BigEndian, utf32.IgnoreBOM),
}

// wide are the character sets of East Asia, by how long a character is. Nobody agrees on all of their characters, so the
// server is asked for those that come.
var wide = map[string]func(b []byte) int{
	"sjis": twoBytes("\x81\x9f\xe0\xfc"), "cp932": twoBytes("\x81\x9f\xe0\xfc"), "gbk": twoBytes("\x81\xfe"), "gb2312": twoBytes("\xa1\xf7"),
	"big5": twoBytes("\xa1\xf9"), "euckr": twoBytes("\x81\xfe"), "ujis": eucBytes, "eucjpms": eucBytes, "gb18030": gbBytes,
}

// twoBytes is for sets whose characters have two bytes when the first is in one of the ranges.
func twoBytes(ranges string) func([]byte) int {
	return func(b []byte) int {
		for i := 0; i < len(ranges); i += 2 {
			if b[0] >= ranges[i] && b[0] <= ranges[i+1] {
				return 2
			}
		}
		return 1
	}
}

func eucBytes(b []byte) int {
	switch {
	case b[0] == 0x8f:
		return 3
	case b[0] == 0x8e, b[0] >= 0xa1 && b[0] <= 0xfe:
		return 2
	}
	return 1
}

func gbBytes(b []byte) int {
	switch {
	case b[0] < 0x81:
		return 1
	case len(b) > 1 && b[1] >= '0' && b[1] <= '9':
		return 4
	}
	return 2
}

// learned are the characters that were asked for. It is used by the goroutine that decodes.
type learned struct {
	length func(b []byte) int
	ask    func(characters []string) ([]string, error)
	known  map[string]string
}

// maxAsked is how many characters one question has; a row of a result has 4096 columns at most.
const maxAsked = 500

// append appends text as UTF-8. A character that the server does not tell becomes U+FFFD.
func (l *learned) append(dst, text []byte) []byte {
	var missing []string
	asked := map[string]bool{}
	for b := text; len(b) > 0; {
		n := min(l.length(b), len(b))
		if c := string(b[:n]); l.known[c] == "" && !asked[c] {
			missing, asked[c] = append(missing, c), true
		}
		b = b[n:]
	}
	for len(missing) > 0 {
		n := min(len(missing), maxAsked)
		answers, err := l.ask(missing[:n])
		for i, c := range missing[:n] {
			if err != nil || answers[i] == "" {
				continue
			}
			l.known[c] = answers[i]
		}
		missing = missing[n:]
	}
	for len(text) > 0 {
		n := min(l.length(text), len(text))
		if c, ok := l.known[string(text[:n])]; ok {
			dst = append(dst, c...)
		} else {
			dst = utf8.AppendRune(dst, utf8.RuneError)
		}
		text = text[n:]
	}
	return dst
}

// charsets holds those that are in use. Tables of one-byte sets come from the server itself, so that both agree on
// every byte.
type charsets struct {
	db *sql.DB

	mu    sync.Mutex
	known map[string]*charset
}

// get returns a character set by the server's name.
func (s *charsets) get(name string) (*charset, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.known[name]; c != nil {
		return c, nil
	}
	c, err := s.load(name)
	if err != nil {
		return nil, fmt.Errorf("load character set %q: %w", name, err)
	}
	if s.known == nil {
		s.known = map[string]*charset{}
	}
	s.known[name] = c
	return c, nil
}

func (s *charsets) load(name string) (*charset, error) {
	switch name {
	case "utf8", "utf8mb3", "utf8mb4", "":
		return &charset{name: name, utf8: true, ascii: true}, nil
	}
	if convert := unicodes[name]; convert != nil {
		return &charset{name: name, convert: convert}, nil
	}
	if length := wide[name]; length != nil {
		return &charset{name: name, ascii: name != "sjis", learned: &learned{length: length, known: map[string]string{},
			ask: func(list []string) ([]string, error) { return s.ask(name, list) }}}, nil
	}
	table, err := s.table(name)
	if err != nil {
		return nil, err
	}
	c := &charset{name: name, single: table, ascii: true}
	for b := range 128 {
		c.ascii = c.ascii && table[b] == string(rune(b))
	}
	return c, nil
}

// table asks the server for what each byte stands for.
func (s *charsets) table(name string) (*[256]string, error) {
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return nil, fmt.Errorf("not a name")
		}
	}
	var list []string
	for b := range 256 {
		list = append(list, string([]byte{byte(b)}))
	}
	answers, err := s.ask(name, list)
	if err != nil {
		return nil, err
	}
	table := [256]string(answers)
	for b := range table {
		if table[b] == "" {
			table[b] = "?"
		}
	}
	return &table, nil
}

// ask asks the server what characters are in UTF-8; empty: none.
func (s *charsets) ask(name string, characters []string) ([]string, error) {
	var query strings.Builder
	query.WriteString("SELECT ")
	for i, c := range characters {
		if i > 0 {
			query.WriteString(", ")
		}
		fmt.Fprintf(&query, "HEX(CONVERT(_%s 0x%X USING utf8mb4))", name, c)
	}
	answers := make([]sql.NullString, len(characters))
	targets := make([]any, len(characters))
	for i := range answers {
		targets[i] = &answers[i]
	}
	ctx, cancel := context.WithTimeout(context.Background(), connectTimeout)
	defer cancel()
	if err := s.db.QueryRowContext(ctx, query.String()).Scan(targets...); err != nil {
		return nil, err
	}
	out := make([]string, len(characters))
	for i, a := range answers {
		b, err := hex.DecodeString(a.String)
		if err == nil {
			out[i] = string(b)
		}
	}
	return out, nil
}

// append appends text as UTF-8.
func (c *charset) append(dst, text []byte) []byte {
	if c.utf8 || c.ascii && isASCII(text) {
		return append(dst, text...)
	}
	if c.single != nil {
		for _, b := range text {
			dst = append(dst, c.single[b]...)
		}
		return dst
	}
	if c.learned != nil {
		return c.learned.append(dst, text)
	}
	out, err := c.convert.NewDecoder().Bytes(text)
	if err != nil {
		return append(dst, strings.ToValidUTF8(string(text), string(utf8.RuneError))...)
	}
	return append(dst, out...)
}

func isASCII(text []byte) bool {
	for _, b := range text {
		if b >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
