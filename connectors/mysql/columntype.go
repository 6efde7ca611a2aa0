package mysql

import (
	"strconv"
	"strings"

	"github.com/trunkline/trunkline/connectors"
)

// columnType is a column type in parts: decimal(10,2) unsigned.
type columnType struct {
	base       string // lower case: decimal
	a, b       int    // the numbers in parentheses; -1: not there
	labels     []string
	unsigned   bool
	zerofill   bool
	compressed bool // MariaDB: stored compressed
}

// parseType reads a type as information_schema writes it.
func parseType(text string) columnType {
	t := columnType{a: -1, b: -1}
	t.compressed = strings.Contains(text, "COMPRESSED")
	head, rest := text, ""
	if i := strings.IndexAny(text, "( "); i >= 0 {
		head, rest = text[:i], text[i:]
	}
	t.base = strings.ToLower(head)
	if strings.HasPrefix(rest, "(") {
		if t.base == "enum" || t.base == "set" {
			t.labels, rest = parseLabels(rest[1:])
		} else if i := strings.IndexByte(rest, ')'); i > 0 {
			a, b, _ := strings.Cut(rest[1:i], ",")
			t.a, t.b = number(a), number(b)
			rest = rest[i+1:]
		}
	}
	rest = strings.ToLower(rest)
	t.zerofill = strings.Contains(rest, "zerofill")
	t.unsigned = t.zerofill || strings.Contains(rest, "unsigned")
	return t
}

func number(text string) int {
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		return -1
	}
	return n
}

// parseLabels reads 'a','it”s') and what follows.
func parseLabels(text string) (labels []string, rest string) {
	var b strings.Builder
	inside := false
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case !inside && c == ')':
			return labels, text[i+1:]
		case !inside:
			inside = c == '\''
		case c == '\\' && i+1 < len(text): // the server escapes NUL, line ends and the backslash, whatever sql_mode says
			i++
			b.WriteString(unescape(text[i]))
		case c != '\'':
			b.WriteByte(c)
		case i+1 < len(text) && text[i+1] == '\'':
			b.WriteByte('\'')
			i++
		default:
			labels, inside = append(labels, b.String()), false
			b.Reset()
		}
	}
	return labels, ""
}

// labelType writes the type of an enum or a set as information_schema does.
func labelType(base string, labels []string) string {
	escape := strings.NewReplacer("'", "''", `\`, `\\`, "\n", `\n`, "\r", `\r`, "\x00", `\0`)
	var quoted []string
	for _, l := range labels {
		quoted = append(quoted, "'"+escape.Replace(l)+"'")
	}
	return base + "(" + strings.Join(quoted, ",") + ")"
}

// form is how the bytes of a type become a value.
type form uint8

const (
	formBytes form = iota // as they are
	formText              // in the column's character set
	formInt
	formUint
	formYear
	formFloat
	formDecimal
	formBit
	formDate
	formDateTime
	formTimestamp
	formTime
	formEnum
	formSet
	formJSON // MySQL's, which the binary log has in a form of its own
	formUUID
	formInet4
	formInet6
)

var baseForms = map[string]struct {
	form form
	kind connectors.Kind
}{
	"tinyint": {formInt, connectors.Int}, "smallint": {formInt, connectors.Int}, "mediumint": {formInt, connectors.Int},
	"int": {formInt, connectors.Int}, "bigint": {formInt, connectors.Int}, "year": {formYear, connectors.Int},
	"float": {formFloat, connectors.Float}, "double": {formFloat, connectors.Float}, "decimal": {formDecimal, connectors.Decimal},
	"bit": {formBit, connectors.Bits}, "date": {formDate, connectors.Date}, "datetime": {formDateTime, connectors.Timestamp},
	"timestamp": {formTimestamp, connectors.TimestampTZ}, "time": {formTime, connectors.Interval},
	"char": {formText, connectors.Text}, "varchar": {formText, connectors.Text}, "tinytext": {formText, connectors.Text},
	"text": {formText, connectors.Text}, "mediumtext": {formText, connectors.Text}, "longtext": {formText, connectors.Text},
	"enum": {formEnum, connectors.Text}, "set": {formSet, connectors.Text}, "json": {formJSON, connectors.JSON},
	"uuid": {formUUID, connectors.Text}, "inet4": {formInet4, connectors.Text}, "inet6": {formInet6, connectors.Text},
}

// decoder makes values of one column. The text of a snapshot and the bytes of the binary log lead to the same value.
type decoder struct {
	typ     columnType
	form    form
	kind    connectors.Kind
	charset *charset // of text
	scale   int      // digits of fractions of a second
}

// newDecoder returns the decoder of a column. Types that have no form of their own (geometry, vector) are bytes.
func newDecoder(c *columnDef, sets *charsets) (*decoder, error) {
	d := &decoder{typ: parseType(c.Type), kind: connectors.Bytes}
	if f, ok := baseForms[d.typ.base]; ok {
		d.form, d.kind = f.form, f.kind
	}
	switch {
	case d.form == formInt && d.typ.unsigned:
		d.form = formUint
		if d.typ.base == "bigint" {
			d.kind = connectors.Uint
		}
	case c.JSON && d.form == formText:
		d.kind = connectors.JSON
	}
	d.scale = max(d.typ.a, 0)
	if d.form == formText {
		var err error
		d.charset, err = sets.get(c.Charset)
		return d, err
	}
	return d, nil
}
