package mysql

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/trunkline/trunkline/connectors"
)

func nullability(t *connectors.Table, i int) string {
	if slices.Contains(t.Key, i) {
		return " NOT NULL"
	}
	return " NULL"
}

// create returns the statements for a new table. Only the key is NOT NULL: what the source demands it has checked itself,
// and a delete that is kept or a column that an update leaves out has no values.
func (s *Sink) create(t *connectors.Table, name tableName, extra []string) []string {
	var lines []string
	for i, c := range t.Columns {
		lines = append(lines, ident(c.Name)+" "+s.typeOf(t, i)+nullability(t, i))
	}
	lines = append(lines, extra...)
	if len(t.Key) > 0 && s.config.Write == writeUpsert {
		lines = append(lines, "PRIMARY KEY ("+strings.Join(s.keyParts(t), ", ")+")")
	}
	return []string{"CREATE DATABASE IF NOT EXISTS " + ident(name.schema),
		"CREATE TABLE IF NOT EXISTS " + name.ident() + " (\n\t" + strings.Join(lines, ",\n\t") + "\n) CHARACTER SET utf8mb4 ROW_FORMAT = DYNAMIC"}
}

// keyParts returns the columns of a primary key as a statement names them.
func (s *Sink) keyParts(t *connectors.Table) []string {
	var key []string
	for _, k := range t.Key {
		part := ident(t.Columns[k].Name)
		if typ := strings.ToLower(s.typeOf(t, k)); strings.Contains(typ, "blob") || strings.Contains(typ, "text") {
			part += "(255)"
		}
		key = append(key, part)
	}
	return key
}

// renames reports that the server can rename a column without being told the rest of it.
func (x dialect) renames() bool {
	return x.maria && x.number >= 100502 || !x.maria && x.number >= 80000
}

// maxKeyBytes is what an index of InnoDB takes.
const maxKeyBytes = 3072

var (
	lengthOf    = regexp.MustCompile(`^(?:character varying|varchar|character|char|bpchar)\((\d+)\)$`)
	precisionOf = regexp.MustCompile(`^(?:numeric|decimal)\((\d+)(?:,\s*(-?\d+))?\)$`)
	bitsOf      = regexp.MustCompile(`^bit(?:\((\d+)\))?$`)
)

// exact is a collation under which only equal texts are equal, trailing spaces included.
func (x dialect) exact() string {
	switch {
	case x.maria:
		return " CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin"
	case x.number >= 80017:
		return " CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin"
	}
	return " CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
}

// typeOf returns the type of a new column: the source's own from MySQL, else the nearest that keeps every value; text
// where there is none.
func (s *Sink) typeOf(t *connectors.Table, i int) string {
	c := &t.Columns[i]
	key := slices.Contains(t.Key, i) && s.config.Write == writeUpsert
	typ := ""
	if t.Dialect == "mysql" {
		typ = c.Type
		if base := parseType(typ).base; len(c.Labels) > 0 && (base == "enum" || base == "set") { // the session takes no escapes
			var quoted []string
			for _, l := range c.Labels {
				quoted = append(quoted, string(appendString(nil, []byte(l))))
			}
			typ = base + "(" + strings.Join(quoted, ",") + ")"
		}
		typ = s.dialect.native(typ)
	} else {
		typ = s.dialect.foreign(c)
	}
	base := parseType(typ).base
	isText := base == "char" || base == "varchar" || strings.HasSuffix(base, "text")
	isBytes := strings.HasSuffix(base, "blob")
	if !key {
		if isText && t.Dialect != "mysql" {
			return typ + s.dialect.exact()
		}
		return typ
	}
	switch {
	case strings.HasSuffix(base, "text"):
		return fmt.Sprintf("varchar(%d)", s.keyShare(t)/4) + s.dialect.exact()
	case isText:
		return typ + s.dialect.exact()
	case isBytes:
		return fmt.Sprintf("varbinary(%d)", s.keyShare(t))
	}
	return typ
}

// native is a type of MySQL or MariaDB on the other one, or on a version that is older than the type.
func (x dialect) native(typ string) string {
	base := strings.ToLower(parseType(typ).base)
	switch {
	case base == "json":
		return x.json()
	case base == "uuid" && (!x.maria || x.number < 100700):
		return "char(36)"
	case base == "inet6" && (!x.maria || x.number < 100500):
		return "varchar(45)"
	case base == "inet4" && (!x.maria || x.number < 101000):
		return "varchar(15)"
	}
	return typ
}

// json is the type of documents, which came with MySQL 5.7.8 and MariaDB 10.2.7.
func (x dialect) json() string {
	if x.maria && x.number < 100207 || !x.maria && x.number < 50708 {
		return "longtext"
	}
	return "json"
}

// keyShare is how many bytes of the index one column of the key may have.
func (s *Sink) keyShare(t *connectors.Table) int { return min(maxKeyBytes/max(len(t.Key), 1), 3000) }

// foreign maps a column of PostgreSQL, SQLite or an unknown system; docs/types.md has it as a table.
func (x dialect) foreign(c *connectors.Column) string {
	typ := strings.ToLower(c.Type)
	switch c.Kind {
	case connectors.Bool:
		return "boolean"
	case connectors.Int:
		switch typ {
		case "smallint", "int2":
			return "smallint"
		case "integer", "int", "int4":
			if c.ID != 0 { // PostgreSQL's; SQLite's integers have 64 bits
				return "int"
			}
		}
		return "bigint"
	case connectors.Uint:
		return "bigint unsigned"
	case connectors.Float:
		if typ == "real" && c.ID != 0 {
			return "float"
		}
		return "double"
	case connectors.Decimal:
		return decimalType(typ)
	case connectors.Bytes:
		return "longblob"
	case connectors.Date:
		return "date"
	case connectors.Timestamp, connectors.TimestampTZ:
		return "datetime(6)"
	case connectors.Time:
		if !strings.Contains(typ, "zone") || strings.Contains(typ, "without") {
			return "time(6)"
		}
	case connectors.JSON, connectors.Array, connectors.Map:
		if typ := x.json(); typ != "longtext" {
			return typ
		}
	case connectors.Bits:
		if m := bitsOf.FindStringSubmatch(typ); m != nil {
			if n := max(number(m[1]), 1); n <= 64 {
				return fmt.Sprintf("bit(%d)", n)
			}
		}
	case connectors.Text:
		if typ == "uuid" { // MariaDB's own type refuses one in four of all that PostgreSQL takes
			return "char(36)"
		}
		if m := lengthOf.FindStringSubmatch(typ); m != nil && number(m[1]) <= 1000 {
			return "varchar(" + m[1] + ")"
		}
	}
	return "longtext"
}

// decimalType keeps the scale. A numeric without one can have any, which only text keeps.
func decimalType(typ string) string {
	if typ == "money" {
		return "decimal(20,2)"
	}
	m := precisionOf.FindStringSubmatch(typ)
	if m == nil {
		return "longtext"
	}
	precision, scale := number(m[1]), max(number(m[2]), 0)
	if strings.HasPrefix(m[2], "-") || precision > 65 || scale > 30 || scale > precision {
		return "longtext"
	}
	return fmt.Sprintf("decimal(%d,%d)", precision, scale)
}

var intRank = map[string]int{"tinyint": 1, "smallint": 2, "mediumint": 3, "int": 4, "bigint": 5}

// widens reports whether the source's type is a wider one of the same family than the target has.
func widens(have string, c *connectors.Column, dialect string) bool {
	if dialect != "mysql" {
		return false
	}
	a, b := parseType(have), parseType(c.Type)
	switch {
	case a.base == b.base && len(b.labels) > len(a.labels):
		return !slices.ContainsFunc(a.labels, func(l string) bool { return !slices.Contains(b.labels, l) })
	case intRank[a.base] > 0 && intRank[b.base] > 0:
		return intRank[b.base] > intRank[a.base] && a.unsigned == b.unsigned
	case a.base == "float" && b.base == "double":
		return true
	case a.base != b.base:
		return false
	case a.base == "decimal":
		return b.a-max(b.b, 0) >= a.a-max(a.b, 0) && max(b.b, 0) >= max(a.b, 0) && (b.a > a.a || b.b > a.b)
	case a.base == "varchar", a.base == "char", a.base == "varbinary", a.base == "binary", a.base == "bit":
		return b.a > a.a
	case a.base == "datetime", a.base == "time", a.base == "timestamp":
		return max(b.a, 0) > max(a.a, 0)
	}
	return false
}
