//go:build duckdb

package duckdb

import (
	"bytes"
	"database/sql/driver"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/duckdb/duckdb-go/v2"

	"github.com/trunkline/trunkline/connectors"
)

// cell is how the values of one column come into the target: the appender puts them into a column of the type stage, most of
// them as text, and a statement converts them all at once. parse makes what the appender takes; false: the column has no
// such value.
type cell struct {
	stage string
	kind  string // the target's type
	parse func(v connectors.Value) (driver.Value, bool)
}

// convert returns the expression that makes the target's value of the stage's.
func (c *cell) convert(staged string) string {
	if c.stage == c.kind {
		return staged
	}
	return "CAST(" + staged + " AS " + c.kind + ")"
}

// decimalType is a type with the digits that DuckDB needs to know: numeric(10,2), decimal(10) unsigned.
var decimalType = regexp.MustCompile(`^(?i:numeric|decimal) ?\((\d+)(?:, ?(\d+))?\)(?i: unsigned)?$`)

// maxPrecision is the most digits of DuckDB's DECIMAL.
const maxPrecision = 38

// typeOf returns the type for a column that is made: one that has every usual value of the source's, or text.
func typeOf(c *connectors.Column) string { return typeOfKind(c, c.Kind) }

func typeOfKind(c *connectors.Column, kind connectors.Kind) string {
	switch kind {
	case connectors.Bool:
		return "BOOLEAN"
	case connectors.Int:
		return "BIGINT"
	case connectors.Uint:
		return "UBIGINT"
	case connectors.Float:
		return "DOUBLE"
	case connectors.Bytes:
		return "BLOB"
	case connectors.Decimal:
		if m := decimalType.FindStringSubmatch(strings.TrimRight(c.Type, "[]")); m != nil {
			precision, _ := strconv.Atoi(m[1])
			scale, _ := strconv.Atoi(m[2]) // none is 0
			if precision >= 1 && precision <= maxPrecision && scale <= precision {
				return fmt.Sprintf("DECIMAL(%d,%d)", precision, scale)
			}
		}
	case connectors.Date:
		return "DATE"
	case connectors.Time:
		if !strings.Contains(c.Type, "with time zone") && !strings.Contains(c.Type, "timetz") {
			return "TIME"
		}
	case connectors.Timestamp:
		return "TIMESTAMP"
	case connectors.TimestampTZ:
		return "TIMESTAMP WITH TIME ZONE"
	case connectors.Text:
		if c.Type == "uuid" {
			return "UUID"
		}
	case connectors.Map:
		return "MAP(VARCHAR, VARCHAR)"
	case connectors.Array:
		if c.Elem != connectors.Absent && c.Elem != connectors.Array && c.Elem != connectors.Map && c.Elem != connectors.Bytes {
			return typeOfKind(&connectors.Column{Type: strings.TrimRight(c.Type, "[]")}, c.Elem) + "[]"
		}
	}
	return "VARCHAR"
}

// cellOf returns the cell of a column with DuckDB's name of its type.
func cellOf(kind string) (cell, error) {
	if elem, ok := strings.CutSuffix(kind, "[]"); ok {
		one, err := cellOf(elem)
		if err != nil || one.kind == "BLOB" || strings.HasSuffix(elem, "]") || strings.HasPrefix(elem, "MAP(") {
			return cell{}, fmt.Errorf("no rows can be written into type %s; VARCHAR takes lists as JSON", kind)
		}
		return cell{"VARCHAR[]", kind, listOf(&one)}, nil
	}
	name, _, _ := strings.Cut(kind, "(")
	switch name {
	case "VARCHAR", "ENUM":
		return cell{"VARCHAR", kind, parseText}, nil
	case "BOOLEAN":
		return cell{kind, kind, parseBool}, nil
	case "TINYINT", "SMALLINT", "INTEGER", "BIGINT":
		return cell{"BIGINT", kind, signed(map[string]int{"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64}[name])}, nil
	case "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT":
		return cell{"UBIGINT", kind, unsigned(map[string]int{"UTINYINT": 8, "USMALLINT": 16, "UINTEGER": 32, "UBIGINT": 64}[name])}, nil
	case "DOUBLE":
		return cell{kind, kind, parseDouble}, nil
	case "BLOB":
		return cell{kind, kind, parseBytes}, nil
	case "DECIMAL":
		m := regexp.MustCompile(`^DECIMAL\((\d+),\s*(\d+)\)$`).FindStringSubmatch(kind)
		if m == nil {
			break
		}
		precision, _ := strconv.Atoi(m[1])
		scale, _ := strconv.Atoi(m[2])
		return cell{"VARCHAR", kind, exact(precision, scale)}, nil
	case "HUGEINT":
		return cell{"VARCHAR", kind, exact(maxPrecision, 0)}, nil
	case "DATE":
		return cell{"VARCHAR", kind, parseDate}, nil
	case "TIME":
		return cell{"VARCHAR", kind, parseTime}, nil
	case "TIMESTAMP":
		return cell{"VARCHAR", kind, moment(connectors.Timestamp)}, nil
	case "TIMESTAMP WITH TIME ZONE":
		return cell{"VARCHAR", kind, moment(connectors.TimestampTZ)}, nil
	case "UUID":
		return cell{"VARCHAR", kind, parseUUID}, nil
	case "MAP":
		if kind == "MAP(VARCHAR, VARCHAR)" {
			return cell{kind, kind, parseMap}, nil
		}
	}
	return cell{}, fmt.Errorf("no rows can be written into type %s; use one of VARCHAR, ENUM, BOOLEAN, TINYINT to UBIGINT, HUGEINT, DOUBLE, DECIMAL, BLOB, DATE, TIME, TIMESTAMP, TIMESTAMPTZ, UUID, a list of these, MAP(VARCHAR, VARCHAR)", kind)
}

func parseText(v connectors.Value) (driver.Value, bool) {
	text := v.AppendText(nil)
	return string(text), utf8.Valid(text)
}

func parseBool(v connectors.Value) (driver.Value, bool) {
	if v.Kind() == connectors.Bool {
		return v.Bool(), true
	}
	text := string(v.AppendText(nil))
	return text == "true" || text == "1", text == "true" || text == "1" || text == "false" || text == "0"
}

func parseBytes(v connectors.Value) (driver.Value, bool) {
	return append([]byte{}, v.Data()...), v.Kind() == connectors.Bytes
}

func signed(bits int) func(connectors.Value) (driver.Value, bool) {
	return func(v connectors.Value) (driver.Value, bool) {
		n, err := strconv.ParseInt(string(v.AppendText(nil)), 10, bits)
		if v.Kind() == connectors.Bool {
			n, err = int64(map[bool]int{true: 1}[v.Bool()]), nil
		}
		return n, err == nil
	}
}

func unsigned(bits int) func(connectors.Value) (driver.Value, bool) {
	return func(v connectors.Value) (driver.Value, bool) {
		n, err := strconv.ParseUint(string(v.AppendText(nil)), 10, bits)
		return n, err == nil
	}
}

func parseDouble(v connectors.Value) (driver.Value, bool) {
	f, err := strconv.ParseFloat(string(v.AppendText(nil)), 64)
	whole := v.Kind() != connectors.Int && v.Kind() != connectors.Uint || math.Abs(f) <= 1<<53
	return f, err == nil && whole && v.Kind() != connectors.Decimal
}

var digitsOnly = regexp.MustCompile(`^-?0*(\d*)(?:\.(\d+))?$`)

// exact takes numbers that DECIMAL(precision, scale) keeps without rounding.
func exact(precision, scale int) func(connectors.Value) (driver.Value, bool) {
	return func(v connectors.Value) (driver.Value, bool) {
		text := v.AppendText(nil)
		m := digitsOnly.FindSubmatch(text)
		if m == nil || len(text) == 0 || text[len(text)-1] == '-' || v.Kind() == connectors.Float {
			return nil, false
		}
		return string(text), len(m[1]) <= precision-scale && len(m[2]) <= scale
	}
}

// The years are DuckDB's for days and PostgreSQL's least; those that the form allows beyond do not fit.
var (
	dayForm    = regexp.MustCompile(`^(\d{4,7}-\d\d-\d\d)( BC)?$`)
	clockForm  = regexp.MustCompile(`^\d\d:\d\d:\d\d(\.\d{1,6})?$`)
	momentForm = regexp.MustCompile(`^(\d{4,6})(-\d\d-\d\d)[T ](\d\d:\d\d:\d\d(?:\.\d{1,6})?)(Z|\+00)?( BC)?$`)
)

// lastDay and lastYear are the last whole years of days and of timestamps.
const (
	lastDay  = 5_877_640
	lastYear = 294_246
)

func infinite(text []byte) bool {
	return bytes.Equal(text, []byte("infinity")) || bytes.Equal(text, []byte("-infinity"))
}

func parseDate(v connectors.Value) (driver.Value, bool) {
	text := v.Data()
	if infinite(text) {
		return string(text), v.Kind() == connectors.Date
	}
	m := dayForm.FindSubmatch(text)
	if m == nil || v.Kind() != connectors.Date {
		return nil, false
	}
	// A day of the calendar in any year: a cycle of leap years later it is the same.
	year, _ := strconv.Atoi(string(m[1][:bytes.IndexByte(m[1], '-')]))
	era := ""
	like := year
	if m[2] != nil {
		era, like = " (BC)", 1-year // of astronomers, who have a year 0
	}
	if !connectors.IsDate(fmt.Appendf(nil, "%04d%s", ((like%400)+400)%400+2000, m[1][bytes.IndexByte(m[1], '-'):])) || year == 0 || year > lastDay {
		return nil, false
	}
	return string(m[1]) + era, true
}

func parseTime(v connectors.Value) (driver.Value, bool) {
	text := string(v.Data())
	ok := v.Kind() == connectors.Time && clockForm.MatchString(text) && (text < "24" && text[3:5] < "60" && text[6:8] < "60" || text == "24:00:00")
	return text, ok
}

// moment takes the timestamps of a kind.
func moment(kind connectors.Kind) func(connectors.Value) (driver.Value, bool) {
	return func(v connectors.Value) (driver.Value, bool) {
		text := v.Data()
		if infinite(text) {
			return string(text), v.Kind() == kind
		}
		m := momentForm.FindSubmatch(text)
		if m == nil || v.Kind() != kind || (m[4] != nil) != (kind == connectors.TimestampTZ) {
			return nil, false
		}
		day, ok := parseDate(connectors.DataValue(connectors.Date, []byte(string(m[1])+string(m[2])+string(m[5]))))
		_, clock := parseTime(connectors.DataValue(connectors.Time, m[3]))
		year, _ := strconv.Atoi(string(m[1]))
		if !ok || !clock || year > lastYear || m[3][0] == '2' && m[3][1] == '4' {
			return nil, false
		}
		text = []byte(day.(string) + " " + string(m[3]))
		if kind == connectors.TimestampTZ {
			text = append(text, "+00"...)
		}
		return string(text), true
	}
}

var uuidForm = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

func parseUUID(v connectors.Value) (driver.Value, bool) {
	text := string(v.Data())
	return text, uuidForm.MatchString(text)
}

// listOf takes an array of single values that each fit the element's type; NULL is one.
func listOf(one *cell) func(connectors.Value) (driver.Value, bool) {
	return func(v connectors.Value) (driver.Value, bool) {
		text := v.Data()
		if v.Kind() != connectors.Array || len(text) < 2 || text[0] != '[' {
			return nil, false
		}
		out := []any{}
		for body := text[1 : len(text)-1]; len(body) > 0; {
			token, rest, err := connectors.ScanJSON(body)
			if err != nil {
				return nil, false
			}
			elem, ok := one.element(token)
			if !ok {
				return nil, false
			}
			out = append(out, elem)
			if body = rest; len(body) > 0 {
				body = body[1:] // the comma
			}
		}
		return out, true
	}
}

// element returns the text of one element, which the target's type is made of.
func (c *cell) element(token []byte) (any, bool) {
	kind, ok := map[string]connectors.Kind{"DATE": connectors.Date, "TIME": connectors.Time, "TIMESTAMP": connectors.Timestamp,
		"TIMESTAMP WITH TIME ZONE": connectors.TimestampTZ, "DOUBLE": connectors.Float}[c.kind]
	if !ok {
		kind = connectors.Text
	}
	v, _, err := connectors.ParseJSON(kind, token, nil)
	if err != nil {
		return nil, false
	}
	if v.IsNull() {
		return nil, true
	}
	parsed, ok := c.parse(v)
	if !ok {
		return nil, false
	}
	if text, isText := parsed.(string); isText {
		return text, true
	}
	return string(v.AppendText(nil)), true
}

// parseMap takes an object of texts and NULLs.
func parseMap(v connectors.Value) (driver.Value, bool) {
	text := v.Data()
	if v.Kind() != connectors.Map || len(text) < 2 || text[0] != '{' {
		return nil, false
	}
	out := duckdb.OrderedMap{}
	for body := text[1 : len(text)-1]; len(body) > 0; {
		name, rest, err := connectors.ScanJSON(body)
		if err != nil || len(rest) == 0 {
			return nil, false
		}
		token, behind, err := connectors.ScanJSON(rest[1:])
		if err != nil {
			return nil, false
		}
		key, _, err := connectors.Unquote(name, nil)
		if err != nil {
			return nil, false
		}
		value, _, err := connectors.ParseJSON(connectors.Text, token, nil)
		if err != nil {
			return nil, false
		}
		if value.IsNull() {
			out.Set(string(key), nil)
		} else {
			out.Set(string(key), string(value.AppendText(nil)))
		}
		if body = behind; len(body) > 0 {
			body = body[1:]
		}
	}
	return out, true
}
