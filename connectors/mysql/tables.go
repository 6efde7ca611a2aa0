package mysql

import (
	"fmt"
	"slices"
	"strings"

	"github.com/trunkline/trunkline/connectors"
)

// shape is one version of a table together with the way from its columns to values.
type shape struct {
	def      *definition
	table    *connectors.Table
	decoders []*decoder // parallel to the columns of the definition
	index    []int      // parallel to them: the column of table; -1: not wanted
	direct   bool       // index is 0, 1, 2 …
}

// newShape builds the version of a table that has these columns.
func newShape(name tableName, def *definition, spec *connectors.TableSpec, sets *charsets) (*shape, error) {
	t := &connectors.Table{Dialect: "mysql", Database: name.schema, Schema: name.schema, Name: name.name, ID: def.Origin, Topic: spec.Topic}
	s := &shape{def: def, table: t, direct: true}
	for i := range def.Columns {
		c := &def.Columns[i]
		d, err := newDecoder(c, sets)
		if err != nil {
			return nil, fmt.Errorf("describe column %s of table %s: %w", c.Name, name.full(), err)
		}
		s.decoders = append(s.decoders, d)
		if len(spec.Columns) > 0 && !slices.Contains(spec.Columns, c.Name) {
			s.index, s.direct = append(s.index, -1), false
			continue
		}
		s.index = append(s.index, len(t.Columns))
		t.Columns = append(t.Columns, connectors.Column{Name: c.Name, ID: c.ID, Type: c.typeText(), Kind: d.kind, NotNull: c.NotNull, Generated: c.Generated, Labels: d.typ.labels})
	}
	names := def.Key
	if len(spec.Key) > 0 {
		names = spec.Key
	}
	for _, n := range names {
		i := slices.IndexFunc(t.Columns, func(c connectors.Column) bool { return strings.EqualFold(c.Name, n) })
		if i < 0 { // a version that lacks one of them has no key
			t.Key = nil
			break
		}
		t.Key = append(t.Key, i)
	}
	return s, nil
}

// typeText is the type for people and for sinks: without the comment that hides COMPRESSED, and json where it is one.
func (c *columnDef) typeText() string {
	if c.JSON {
		return "json"
	}
	if i := strings.Index(c.Type, " /*"); i >= 0 {
		return c.Type[:i]
	}
	return c.Type
}

// fits says why rows that the binary log describes so cannot be of this version; empty when they can.
func (s *shape) fits(m *tableMap) string {
	if len(m.columns) != len(s.decoders) {
		return fmt.Sprintf("the binary log has %d columns and the table as we know it %d", len(m.columns), len(s.decoders))
	}
	for i, w := range m.columns {
		if !s.decoders[i].fits(w) {
			return fmt.Sprintf("column %s is of type %d in the binary log and %s as we know it", s.def.Columns[i].Name, w.typ, s.def.Columns[i].Type)
		}
	}
	return ""
}

// wireTypes are the types in the binary log by type of the column.
var wireTypes = map[string][]byte{
	"tinyint": {typeTiny}, "smallint": {typeShort}, "mediumint": {typeInt24}, "int": {typeLong}, "bigint": {typeLongLong},
	"float": {typeFloat}, "double": {typeDouble}, "decimal": {typeNewDecimal}, "bit": {typeBit}, "year": {typeYear},
	"date": {typeDate, typeNewDate}, "time": {typeTime, typeTime2}, "datetime": {typeDateTime, typeDateTime2},
	"timestamp": {typeTimestamp, typeTimestamp2}, "enum": {typeEnum}, "set": {typeSet}, "json": {typeJSON, typeBlob, typeLongBlob},
	"char": {typeString}, "binary": {typeString}, "varchar": {typeVarchar, typeVarString, typeVarcharCompressed},
	"varbinary": {typeVarchar, typeVarString, typeVarcharCompressed}, "uuid": {typeString}, "inet4": {typeString}, "inet6": {typeString},
}

func (d *decoder) fits(w wireColumn) bool {
	if types, ok := wireTypes[d.typ.base]; ok {
		if !slices.Contains(types, w.typ) {
			return false
		}
	} else if strings.HasSuffix(d.typ.base, "text") || strings.HasSuffix(d.typ.base, "blob") {
		if w.typ != typeBlob && w.typ != typeBlobCompressed && (w.typ < typeTinyBlob || w.typ > typeLongBlob) {
			return false
		}
	}
	switch w.typ {
	case typeNewDecimal:
		return int(w.meta>>8) == d.typ.a && int(w.meta&0xff) == max(d.typ.b, 0)
	case typeTimestamp2, typeDateTime2, typeTime2:
		return int(w.meta) == d.scale
	case typeBit:
		return int(w.meta>>8)*8+int(w.meta&0xff) == max(d.typ.a, 1)
	}
	return true
}
