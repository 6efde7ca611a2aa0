package codec

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/trunkline/trunkline/connectors"
)

// conversion turns the values of one column into what Debezium makes of them. Its schema is that of Kafka Connect.
type conversion struct {
	head string // of the schema: what stands before "optional"
	tail string // and behind it
	zero string // JSON of what stands in an image for a column that is NOT NULL and not in the image
	gone string // JSON of what stands for a value that the change does not carry; empty: null

	// write appends a value that is neither null nor absent; false: the type of the conversion has no such value.
	write func(dst []byte, v connectors.Value) ([]byte, bool)
}

// schema returns the schema of a column.
func (c *conversion) schema(optional bool, field string) string {
	out := "{" + c.head + `,"optional":` + strconv.FormatBool(optional) + c.tail
	if field != "" {
		out += `,"field":` + string(appendText(nil, field))
	}
	return out + "}"
}

// named is the part of a schema that names a semantic type.
func named(name, parameters string) string {
	out := `,"name":"` + name + `","version":1`
	if parameters != "" {
		out += `,"parameters":{` + parameters + `}`
	}
	return out
}

// parsedType is a column type in parts: timestamp(3) without time zone is timestamp without time zone and 3.
type parsedType struct {
	base    string // in lower case, without its schema
	numbers []int
	has     func(word string) bool
}

var typeModifiers = regexp.MustCompile(`\(([0-9, -]*)\)`)

func parseColumnType(text string) parsedType {
	t := parsedType{base: strings.ToLower(text)}
	if m := typeModifiers.FindStringSubmatchIndex(t.base); m != nil {
		for _, n := range strings.Split(t.base[m[2]:m[3]], ",") {
			if number, err := strconv.Atoi(strings.TrimSpace(n)); err == nil {
				t.numbers = append(t.numbers, number)
			}
		}
		t.base = t.base[:m[0]] + t.base[m[1]:]
	}
	t.base = strings.TrimSpace(t.base)
	whole := " " + t.base + " "
	t.has = func(word string) bool { return strings.Contains(whole, " "+word+" ") }
	if i := strings.LastIndexByte(t.base, '.'); i >= 0 && !strings.HasSuffix(t.base, `"`) {
		t.base = t.base[i+1:]
	}
	return t
}

// number returns one of the type's numbers, or what holds without it.
func (t parsedType) number(i, without int) int {
	if i >= len(t.numbers) {
		return without
	}
	return t.numbers[i]
}

// converter makes the conversions of one format.
type converter struct {
	*Format
}

// column returns how a column is converted; false: Debezium leaves such columns out.
func (f converter) column(dialect string, c *connectors.Column) (conversion, bool) {
	t := parseColumnType(c.Type)
	switch c.Kind {
	case connectors.Bool:
		return conversion{head: `"type":"boolean"`, zero: "false", write: writePlain}, true
	case connectors.Int, connectors.Uint:
		return f.integer(dialect, c.Kind, t)
	case connectors.Float:
		return float(dialect, t), true
	case connectors.Text:
		return f.text(dialect, c, t)
	case connectors.JSON:
		return f.str(named("io.debezium.data.Json", "")), true
	case connectors.Bytes:
		switch {
		case dialect == "mysql" && t.base == "point":
			return point(writeGeometryPoint), true
		case dialect == "mysql" && geometries[t.base]:
			return geometry(), true
		}
		return f.bytes(), true
	case connectors.Decimal:
		return f.decimal(t), true
	case connectors.Bits:
		return bitString(dialect, t), true
	case connectors.Array:
		return f.array(dialect, c)
	case connectors.Map:
		return f.hstore(), true
	}
	return f.temporal(dialect, c.Kind, t), true
}

// writePlain appends numbers and booleans as they are.
func writePlain(dst []byte, v connectors.Value) ([]byte, bool) {
	switch v.Kind() {
	case connectors.Bool, connectors.Int, connectors.Uint:
		return connectors.AppendJSON(dst, v), true
	}
	return dst, false
}

func writeString(dst []byte, v connectors.Value) ([]byte, bool) {
	if v.Data() == nil && v.Kind() < connectors.Float {
		return append(v.AppendText(append(dst, '"')), '"'), true
	}
	return connectors.AppendJSONString(dst, v.Data()), true
}

// str is a string with the text of the value.
func (f converter) str(tail string) conversion {
	return conversion{head: `"type":"string"`, tail: tail, zero: `""`, gone: quoted(f.Unavailable), write: writeString}
}

func quoted(text string) string { return string(appendText(nil, text)) }

// integers are Kafka Connect's types of the whole numbers that are not int64.
var integers = map[string]string{
	"smallint": "int16", "integer": "int32", "tinyint": "int16", "tinyint unsigned": "int16", "smallint unsigned": "int32",
	"mediumint": "int32", "mediumint unsigned": "int32", "int": "int32",
}

func (f converter) integer(dialect string, kind connectors.Kind, t parsedType) (conversion, bool) {
	whole := conversion{head: `"type":"int64"`, zero: "0", write: writePlain}
	if dialect == "sqlite" { // whose whole numbers have 64 bits under whatever name
		return whole, true
	}
	if dialect == "postgres" && (t.base == "xid" || t.base == "cid" || t.base == "xid8") {
		return whole, false
	}
	base := strings.Replace(t.base, " zerofill", "", 1)
	switch {
	case base == "year":
		return conversion{head: `"type":"int32"`, tail: named("io.debezium.time.Year", ""), zero: "0", write: writePlain}, true
	case kind == connectors.Uint && f.Unsigned == "precise":
		c := f.precise(0, 20)
		c.write = func(dst []byte, v connectors.Value) ([]byte, bool) {
			var text [20]byte
			dst, _, ok := appendUnscaled(append(dst, '"'), v.AppendText(text[:0]), 0)
			return append(dst, '"'), ok
		}
		return c, true
	case kind == connectors.Uint:
		whole.write = func(dst []byte, v connectors.Value) ([]byte, bool) {
			return strconv.AppendInt(dst, int64(v.Uint()), 10), true
		}
		return whole, true
	}
	if name := integers[base]; name != "" {
		whole.head = `"type":"` + name + `"`
	}
	return whole, true
}

func float(dialect string, t parsedType) conversion {
	name, bits := "double", 64
	if dialect == "postgres" && t.base == "real" || dialect == "mysql" && t.has("float") {
		name, bits = "float", 32
	}
	return conversion{head: `"type":"` + name + `"`, zero: "0.0", write: func(dst []byte, v connectors.Value) ([]byte, bool) {
		return appendDouble(dst, v.Data(), bits)
	}}
}

// unknownTexts are the types of PostgreSQL that travel as text and that Debezium leaves out.
var knownTexts = map[string]string{
	"character": "", "character varying": "", "bpchar": "", "text": "", "name": "", `"char"`: "", "citext": "", "inet": "", "cidr": "",
	"macaddr": "", "macaddr8": "", "int4range": "", "int8range": "", "numrange": "", "tsrange": "", "tstzrange": "", "daterange": "",
	"uuid": "io.debezium.data.Uuid", "xml": "io.debezium.data.Xml", "ltree": "io.debezium.data.Ltree", "tsvector": "io.debezium.data.Tsvector",
}

func (f converter) text(dialect string, c *connectors.Column, t parsedType) (conversion, bool) {
	switch {
	case len(c.Labels) > 0 && strings.HasPrefix(t.base, "set"):
		return f.str(named("io.debezium.data.EnumSet", allowed(c.Labels))), true
	case len(c.Labels) > 0:
		return f.str(named("io.debezium.data.Enum", allowed(c.Labels))), true
	case dialect != "postgres":
		return f.str(""), true
	case t.base == "point":
		return point(writePoint), true
	}
	name, known := knownTexts[t.base]
	if name == "" {
		return f.str(""), known
	}
	return f.str(named(name, "")), true
}

func allowed(labels []string) string { return `"allowed":` + quoted(strings.Join(labels, ",")) }

// bytes follows binary.handling.mode.
func (f converter) bytes() conversion {
	c := conversion{head: `"type":"string"`, zero: `""`}
	encode := base64.StdEncoding.AppendEncode
	switch f.Binary {
	case "bytes":
		c.head = `"type":"bytes"`
		c.gone = `"` + string(encode(nil, []byte(f.Unavailable))) + `"`
	case "base64-url-safe":
		encode = base64.URLEncoding.AppendEncode
	case "hex":
		encode = hex.AppendEncode
		c.gone = quoted(f.Unavailable)
	}
	c.write = func(dst []byte, v connectors.Value) ([]byte, bool) {
		return append(encode(append(dst, '"'), v.Data()), '"'), v.Kind() == connectors.Bytes
	}
	return c
}

// precise is Kafka Connect's decimal.
func (f converter) precise(scale, precision int) conversion {
	parameters := fmt.Sprintf(`"scale":"%d"`, scale)
	if precision > 0 {
		parameters += fmt.Sprintf(`,"connect.decimal.precision":"%d"`, precision)
	}
	return conversion{
		head: `"type":"bytes"`, tail: named("org.apache.kafka.connect.data.Decimal", parameters), zero: `"AA=="`,
		write: func(dst []byte, v connectors.Value) ([]byte, bool) {
			dst, _, ok := appendUnscaled(append(dst, '"'), v.Data(), scale)
			return append(dst, '"'), ok
		},
	}
}

// decimal follows decimal.handling.mode.
func (f converter) decimal(t parsedType) conversion {
	precision, scale := t.number(0, 0), t.number(1, 0)
	if t.base == "money" {
		scale = 2
	}
	fixed := precision > 0 || t.base == "money"
	switch {
	case f.Decimal == "double":
		return conversion{head: `"type":"double"`, zero: "0.0", write: func(dst []byte, v connectors.Value) ([]byte, bool) {
			return appendDouble(dst, v.Data(), 64)
		}}
	case f.Decimal == "string":
		c := f.str("")
		c.zero, c.gone = `"0"`, ""
		if fixed && scale > 0 {
			c.zero = `"0.` + strings.Repeat("0", scale) + `"`
		}
		return c
	case fixed && scale >= 0:
		return f.precise(scale, precision)
	}
	return conversion{
		head: `"type":"struct","fields":[{"type":"int32","optional":false,"field":"scale"},{"type":"bytes","optional":false,"field":"value"}]`,
		tail: `,"name":"io.debezium.data.VariableScaleDecimal","version":1,"doc":"Variable scaled decimal"`,
		zero: `{"scale":0,"value":"AA=="}`,
		write: func(dst []byte, v connectors.Value) ([]byte, bool) {
			var room [512]byte
			digits, scale, ok := appendUnscaled(room[:0], v.Data(), -1)
			dst = strconv.AppendInt(append(dst, `{"scale":`...), int64(scale), 10)
			dst = append(append(dst, `,"value":"`...), digits...)
			return append(dst, `"}`...), ok
		},
	}
}

// bitString is a boolean for one bit, else bytes, the last bit first. What has no length can be as long as it likes.
func bitString(dialect string, t parsedType) conversion {
	length := t.number(0, 1)
	if t.base == "bit varying" {
		length = t.number(0, 1<<31-1)
	}
	if length == 1 && t.base == "bit" {
		return conversion{head: `"type":"boolean"`, zero: "false", write: func(dst []byte, v connectors.Value) ([]byte, bool) {
			return strconv.AppendBool(dst, string(v.Data()) == "1"), true
		}}
	}
	return conversion{
		head: `"type":"bytes"`, tail: named("io.debezium.data.Bits", fmt.Sprintf(`"length":"%d"`, length)), zero: `""`,
		write: func(dst []byte, v connectors.Value) ([]byte, bool) {
			return append(appendLittleEndian(append(dst, '"'), v.Data(), dialect == "mysql"), '"'), true
		},
	}
}

// hstore follows hstore.handling.mode.
func (f converter) hstore() conversion {
	if f.Hstore == "json" {
		c := f.str(named("io.debezium.data.Json", ""))
		c.zero = `"{}"`
		return c
	}
	return conversion{
		head: `"type":"map","keys":{"type":"string","optional":false},"values":{"type":"string","optional":true}`, zero: "{}",
		gone: "{" + quoted(f.Unavailable) + ":" + quoted(f.Unavailable) + "}",
		write: func(dst []byte, v connectors.Value) ([]byte, bool) {
			return connectors.AppendJSON(dst, v), v.Kind() == connectors.Map
		},
	}
}

// array converts each element. An array whose bounds do not begin at 1 comes as text, which no array of Debezium's is.
func (f converter) array(dialect string, c *connectors.Column) (conversion, bool) {
	element := connectors.Column{Type: strings.TrimRight(c.Type, "[]"), Kind: c.Elem, Labels: c.Labels}
	each, ok := f.column(dialect, &element)
	if !ok {
		return conversion{}, false
	}
	out := conversion{head: `"type":"array","items":` + each.schema(len(c.Labels) == 0, ""), zero: "[]"}
	if strings.HasPrefix(each.head, `"type":"string"`) && each.gone != "" {
		out.gone = "[" + each.gone + "]"
	}
	out.write = func(dst []byte, v connectors.Value) ([]byte, bool) {
		if data := v.Data(); v.Kind() != connectors.Array || len(data) == 0 || data[0] != '[' || !connectors.ValidJSON(data) {
			return dst, false
		}
		return appendElements(dst, v.Data(), c.Elem, &each)
	}
	return out, true
}

func appendElements(dst, array []byte, kind connectors.Kind, each *conversion) ([]byte, bool) {
	rest := skipSpace(array[1:])
	dst = append(dst, '[')
	var arena []byte
	for first := true; len(rest) > 0 && rest[0] != ']'; first = false {
		if !first {
			dst, rest = append(dst, ','), skipSpace(rest[1:])
		}
		token, after, err := connectors.ScanJSON(rest)
		if err != nil {
			return dst, false
		}
		rest = skipSpace(after)
		if token[0] == '[' {
			var ok bool
			if dst, ok = appendElements(dst, token, kind, each); !ok {
				return dst, false
			}
			continue
		}
		var v connectors.Value
		if v, arena, err = connectors.ParseJSON(kind, token, arena[:0]); err != nil {
			return dst, false
		}
		start, ok := len(dst), !v.IsNull()
		if ok {
			dst, ok = each.write(dst, v)
		}
		if !ok {
			dst = append(dst[:start], "null"...)
		}
	}
	return append(dst, ']'), true
}
