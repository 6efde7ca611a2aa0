package mysql

import (
	"fmt"
	"slices"
	"strings"
)

// dialect is what two servers write in different ways.
type dialect struct {
	maria  bool
	number int
}

// synonyms of types, as the server writes them.
var synonyms = map[string]string{
	"integer": "int", "int4": "int", "int8": "bigint", "int3": "mediumint", "middleint": "mediumint", "int2": "smallint", "int1": "tinyint",
	"dec": "decimal", "numeric": "decimal", "fixed": "decimal", "real": "double", "double precision": "double", "float8": "double", "float4": "float",
	"character": "char", "nchar": "char", "national char": "char", "national character": "char", "nvarchar": "varchar",
	"character varying": "varchar", "char varying": "varchar", "varcharacter": "varchar", "national varchar": "varchar",
	"nchar varchar": "varchar", "nchar varying": "varchar", "national char varying": "varchar", "national character varying": "varchar",
	"long": "mediumtext", "long varchar": "mediumtext", "long char varying": "mediumtext", "long varbinary": "mediumblob",
	"char byte": "binary", "binary varying": "varbinary", "clob": "longtext", "raw": "varbinary", "varchar2": "varchar", "number": "decimal",
	"geomcollection": "geometrycollection",
}

// widths are those that MariaDB shows for integers that were defined without one: signed, unsigned.
var widths = map[string][2]int{"tinyint": {4, 3}, "smallint": {6, 5}, "mediumint": {9, 8}, "int": {11, 10}, "bigint": {20, 20}}

// lengths of types that were defined without one.
var lengths = map[string]string{"char": "1", "binary": "1", "bit": "1", "year": "4", "decimal": "10,0"}

// column writes a column as information_schema does. inherited says that the character set is the table's.
func (x dialect) column(c *columnSpec, tableCharset string) (d columnDef, inherited bool) {
	d = columnDef{Name: c.name, NotNull: (c.notNull || c.primary) && !c.nullable, Generated: c.generated}
	base, params := c.base, slices.Clone(c.params)
	words := c.words
	switch {
	case base == "bool" || base == "boolean":
		base, params = "tinyint", []string{"1"}
	case base == "serial":
		base, words, d.NotNull = "bigint", []string{"UNSIGNED"}, true
	case base == "json" && x.maria:
		base, d.JSON, d.Charset = "longtext", true, "utf8mb4"
	case base == "float" && len(params) == 1:
		if n := number(params[0]); n > 24 {
			base = "double"
		}
		params = nil
	case synonyms[base] != "":
		base = synonyms[base]
	}
	unsigned, zerofill := slices.Contains(words, "UNSIGNED"), slices.Contains(words, "ZEROFILL")
	unsigned = unsigned || zerofill
	if w, ok := widths[base]; ok && len(params) == 0 && (x.maria || x.number < 80019 || zerofill) {
		params = []string{fmt.Sprint(w[btoi(unsigned)])}
	}
	if len(params) == 0 && lengths[base] != "" && (base != "year" || x.maria || x.number < 80019) {
		params = strings.Split(lengths[base], ",")
	}
	if base == "decimal" && len(params) == 1 {
		params = append(params, "0")
	}
	if size := x.sized(base, params); size != "" {
		base, params = size, nil
	}
	d.Type = base
	if base == "enum" || base == "set" {
		var labels []string
		for _, l := range params {
			labels = append(labels, strings.TrimRight(l, " "))
		}
		d.Type = labelType(base, labels)
	} else if len(params) > 0 && !strings.HasSuffix(base, "text") {
		d.Type += "(" + strings.Join(params, ",") + ")"
	}
	if unsigned {
		d.Type += " unsigned"
	}
	if zerofill {
		d.Type += " zerofill"
	}
	if slices.ContainsFunc(words, func(w string) bool { return w == "COMPRESSED" }) {
		d.Type += " /*M!100301 COMPRESSED*/"
	}
	return x.withCharset(d, c, base, tableCharset)
}

// withCharset settles the character set of a text column.
func (x dialect) withCharset(d columnDef, c *columnSpec, base, tableCharset string) (columnDef, bool) {
	text := base == "char" || base == "varchar" || base == "enum" || base == "set" || strings.HasSuffix(base, "text")
	if !text || d.JSON {
		return d, false
	}
	set := c.charset
	switch {
	case set == "" && c.collate != "":
		set = charsetOf(c.collate)
	case set == "" && strings.HasPrefix(c.base, "n") && c.base != "number":
		set = "utf8mb3"
	case set == "" && slices.Contains(c.words, "ASCII"):
		set = "latin1"
	case set == "" && slices.Contains(c.words, "UNICODE"):
		set = "ucs2"
	}
	if set == "binary" || slices.Contains(c.words, "BYTE") { // text in the character set binary is bytes
		d.Type = strings.NewReplacer("varchar", "varbinary", "char", "binary", "text", "blob").Replace(d.Type)
		return d, false
	}
	inherited := set == ""
	if inherited {
		set = tableCharset
	}
	if set == "utf8" {
		set = "utf8mb3"
	}
	d.Charset = set
	return d, inherited
}

// sized is the smallest blob or text type that holds as many bytes as BLOB(n) asks for.
func (x dialect) sized(base string, params []string) string {
	if base != "blob" && base != "text" || len(params) != 1 {
		return ""
	}
	n := number(params[0])
	if base == "text" {
		n *= 4
	}
	switch {
	case n < 1<<8:
		return "tiny" + base
	case n < 1<<16:
		return base
	case n < 1<<24:
		return "medium" + base
	}
	return "long" + base
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// altering is a table in the middle of an ALTER. All parts of a statement mean the columns as they were before it.
type altering struct {
	dialect dialect
	columns []alteredColumn
	key     []string
	charset string
	guessed map[string]bool
}

type alteredColumn struct {
	columnDef
	before string // its name before the statement; empty: it is new
}

// apply returns what a table looks like after a CREATE or an ALTER, and the columns whose character set is a guess. ok is
// false when the statement and the definition do not go together.
func (d *ddl) apply(x dialect, old *definition) (def *definition, guessed map[string]bool, ok bool) {
	a := &altering{dialect: x, key: slices.Clone(old.Key), charset: old.Charset, guessed: map[string]bool{}}
	for _, c := range old.Columns {
		a.columns = append(a.columns, alteredColumn{c, c.Name})
	}
	if d.charset != "" {
		a.charset = d.charset
	}
	for i := range d.specs {
		if !a.apply(&d.specs[i]) {
			return nil, nil, false
		}
	}
	def = &definition{Key: a.key, Charset: a.charset, Origin: old.Origin, Last: old.Last}
	for _, c := range a.columns {
		// A key's columns hold no NULL.
		c.NotNull = c.NotNull || slices.ContainsFunc(a.key, func(k string) bool { return strings.EqualFold(k, c.Name) })
		if c.ID == 0 { // a column of its own, whatever had its name
			def.Last++
			c.ID = def.Last
		}
		def.Columns = append(def.Columns, c.columnDef)
	}
	return def, a.guessed, len(def.Columns) > 0
}

// find returns the column that had a name before the statement.
func (a *altering) find(name string) int {
	return slices.IndexFunc(a.columns, func(c alteredColumn) bool { return c.before != "" && strings.EqualFold(c.before, name) })
}

// apply does one thing. A unique key may become the key of a table without a primary key, which only the catalog can
// tell for sure; the layout of rows does not depend on it.
func (a *altering) apply(s *ddlSpec) bool {
	at := a.find(s.name)
	switch s.what {
	case "add":
		if slices.ContainsFunc(a.columns, func(c alteredColumn) bool { return strings.EqualFold(c.Name, s.column.name) }) {
			return s.unless
		}
		c, inherited := a.dialect.column(&s.column, a.charset)
		a.guessed[c.Name] = inherited
		if s.column.primary {
			a.key = []string{c.Name}
		}
		return a.insert(alteredColumn{columnDef: c}, s, len(a.columns))
	case "drop":
		if at < 0 {
			return s.unless
		}
		a.columns = slices.Delete(a.columns, at, at+1)
		a.key = slices.DeleteFunc(a.key, func(k string) bool { return strings.EqualFold(k, s.name) })
	case "change":
		if at < 0 {
			return s.unless
		}
		c, inherited := a.dialect.column(&s.column, a.charset)
		a.guessed[c.Name] = inherited
		c.ID = a.columns[at].ID
		a.renameKey(a.columns[at].Name, c.Name)
		a.columns = slices.Delete(a.columns, at, at+1)
		return a.insert(alteredColumn{c, s.name}, s, at)
	case "rename":
		if at < 0 {
			return s.unless
		}
		a.renameKey(a.columns[at].Name, s.column.name)
		a.columns[at].Name = s.column.name
	case "key":
		a.key = s.key
	case "dropkey":
		a.key = nil
	case "convert":
		for i, c := range a.columns {
			if c.Charset != "" && !c.JSON {
				a.columns[i].Charset = s.column.charset
			}
		}
	}
	return true
}

// insert puts a column where the statement says, else at a place. AFTER means a name of the new table.
func (a *altering) insert(c alteredColumn, s *ddlSpec, at int) bool {
	switch {
	case s.first:
		at = 0
	case s.after != "":
		i := slices.IndexFunc(a.columns, func(c alteredColumn) bool { return strings.EqualFold(c.Name, s.after) })
		if i < 0 {
			i = a.find(s.after)
		}
		if i < 0 {
			return false
		}
		at = i + 1
	}
	a.columns = slices.Insert(a.columns, at, c)
	return true
}

func (a *altering) renameKey(from, to string) {
	for i, k := range a.key {
		if strings.EqualFold(k, from) {
			a.key[i] = to
			return
		}
	}
}

// alike reports whether two definitions have the same columns in all that matters to a row. Character sets that were
// guessed do not count.
func (def *definition) alike(o *definition, guessed map[string]bool) bool {
	return slices.EqualFunc(def.Columns, o.Columns, func(a, b columnDef) bool {
		x, y := parseType(a.Type), parseType(b.Type)
		return a.Name == b.Name && x.base == y.base && slices.Equal(x.labels, y.labels) && x.unsigned == y.unsigned && a.JSON == b.JSON &&
			(x.a == y.a || widths[x.base] != [2]int{}) && max(x.b, 0) == max(y.b, 0) && (a.Charset == b.Charset || guessed[a.Name])
	})
}

// differs reports that rows of the two cannot be told of one version.
func (def *definition) differs(o *definition) bool {
	return !def.sameColumns(o) || !slices.Equal(def.Key, o.Key)
}

// completed takes from the catalog, which has the same columns, what a statement does not tell: the exact text of types,
// character sets that follow from settings, and which unique key stands in for a primary one. What the statement does tell
// stays as it is: a later one may have changed it in the catalog.
func (def *definition) completed(now *definition, keys bool) *definition {
	out := now.identified(def)
	for i, c := range def.Columns {
		if parseType(c.Type).base != "timestamp" { // which is NOT NULL by itself, or not, by a setting
			out.Columns[i].NotNull = c.NotNull
		}
	}
	inKey := func(name string) bool {
		at := out.column(name)
		return at >= 0 && out.Columns[at].NotNull
	}
	if !keys || slices.ContainsFunc(out.Key, func(k string) bool { return !inKey(k) }) {
		out.Key = slices.Clone(def.Key)
	}
	return out
}

// keys reports that the key of a table may be another one after the statement, and only the catalog knows which: one of a
// unique index, where there is no primary key.
func (d *ddl) keys() bool {
	if slices.ContainsFunc(d.specs, func(s ddlSpec) bool { return s.what == "key" || s.column.primary }) {
		return false
	}
	return slices.ContainsFunc(d.specs, func(s ddlSpec) bool {
		return s.what == "unique" || s.what == "dropkey" || s.column.unique || s.column.base == "serial"
	})
}
