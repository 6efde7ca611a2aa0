package mysql

import (
	"bytes"

	"github.com/trunkline/trunkline/connectors"
)

// foreign reports a table of another kind of database, which has values that MySQL does not.
func foreign(t *connectors.Table) bool { return t != nil && t.Dialect != "mysql" }

// columnHolds is nil where the target's column holds everything, or the server is left to judge.
// checked says that MariaDB checks the column to be JSON.
func columnHolds(from string, c *connectors.Column, t *columnType, checked bool) connectors.Holds {
	switch {
	case checked:
		return func(v connectors.Value) bool { return holdsJSON(v.Data(), 31) }
	case t.base == "json":
		return func(v connectors.Value) bool { return holdsJSON(v.Data(), 100) }
	case t.isText():
		return nil
	}
	var holds connectors.Holds
	switch t.base {
	case "float", "double":
		holds = func(v connectors.Value) bool { return v.Data() == nil || isNumber(v.Data()) }
	case "tinyint", "smallint", "mediumint", "int", "bigint":
		holds = func(v connectors.Value) bool { return v.Data() == nil }
	case "decimal":
		whole, scale := t.a-max(t.b, 0), max(t.b, 0)
		holds = func(v connectors.Value) bool { return v.Data() == nil || fitsDecimal(v.Data(), whole, scale) }
	case "date", "datetime":
		holds = func(v connectors.Value) bool { return isMoment(v.Kind()) && connectors.IsDate(v.Data()) }
	case "timestamp":
		holds = func(v connectors.Value) bool { return isMoment(v.Kind()) && inTimestamp(v.Data()) }
	}
	if from != "sqlite" || holds == nil {
		return holds
	}
	kind := c.Kind // SQLite's values need not be of their column's type
	return func(v connectors.Value) bool { return v.Kind() == kind && holds(v) }
}

func isMoment(k connectors.Kind) bool {
	return k == connectors.Date || k == connectors.Timestamp || k == connectors.TimestampTZ
}

// fitsDecimal reports whether a decimal keeps all of a number's digits. The server would round those behind the point
// without a word.
func fitsDecimal(text []byte, whole, scale int) bool {
	if !isNumber(text) || bytes.ContainsAny(text, "eE") {
		return false
	}
	before, after, _ := bytes.Cut(bytes.TrimPrefix(text, []byte("-")), []byte{'.'})
	return len(bytes.TrimLeft(before, "0")) <= whole && len(bytes.TrimRight(after, "0")) <= scale
}

// inTimestamp reports whether an instant is in the range of the type TIMESTAMP: from one second after the start of 1970 to
// the end of 31 bits.
func inTimestamp(text []byte) bool {
	const first, last = "1970-01-01T00:00:01", "2038-01-19T03:14:07.999999"
	moment := string(bytes.TrimSuffix(text, []byte("Z")))
	return connectors.IsDate(text) && moment >= first && moment <= last
}

// holdsJSON reports whether a document is one to the server: JSON of no more than so many levels, without half of a
// surrogate pair in an escape. An array of PostgreSQL whose bounds do not begin at 1 is no JSON.
func holdsJSON(text []byte, levels int) bool {
	if !connectors.ValidJSON(text) || !connectors.WholePairs(text) {
		return false
	}
	depth, inside := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			inside = !inside
		case inside && c == '\\':
			i++
		case inside:
		case c == '[' || c == '{':
			if depth++; depth > levels {
				return false
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return true
}
