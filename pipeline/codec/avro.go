package codec

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

// Avro writes Debezium's envelope in Avro's binary form, for one version of a table. The fields, in order, and how each
// is laid out (a union is the number of its branch before it; all integers are zig-zag varints; text is its length and
// its bytes):
//
//	before, after    union{null, Value}; Value: of each column union{null, its type}
//	source           version connector name: text; ts_ms: long; snapshot db schema table: text; origin: text
//	op               text
//	ts_ms ts_us ts_ns   long
//	unchanged        union{null, array of text}: columns that are absent from after
//	before_has       union{null, array of text}: the columns that before carries, where it does not carry all
//	as_text          union{null, map of text}: the JSON of values that their column's type cannot hold, by before.NAME and
//	                 after.NAME; their field is null, or for a float whose text is unusual the same number
//
// source.origin holds the source's own position fields as members of JSON.
type Avro struct {
	lossless
	table   *connectors.Table
	origin  Origin
	names   []string
	columns map[string]int // by the names in the messages
	head    []byte         // source up to ts_ms
	place   []byte         // db schema table
	key     int32
	value   int32
	exactly exactly
}

func newAvro(o Origin, t *connectors.Table) *Avro {
	a := &Avro{table: t, origin: o, names: wireNames(t.Columns), columns: map[string]int{}}
	for i, n := range a.names {
		a.columns[n] = i
	}
	for _, s := range []string{o.Version, o.Connector, o.Name} {
		a.head = appendAvroText(a.head, s)
	}
	for _, s := range []string{t.Database, t.Schema, t.Name} {
		a.place = appendAvroText(a.place, s)
	}
	return a
}

// Register sets the ids that records name.
func (a *Avro) Register(key, value int32) { a.key, a.value = key, value }

// avroTypes are the types of columns: exact, and text where Avro has nothing that holds every value of a kind.
var avroTypes = map[connectors.Kind]string{
	connectors.Bool: "boolean", connectors.Int: "long", connectors.Uint: "long", connectors.Float: "double", connectors.Bytes: "bytes",
}

func avroType(k connectors.Kind) string {
	if t, ok := avroTypes[k]; ok {
		return t
	}
	return "string"
}

type avroField struct {
	Name    string `json:"name"`
	Type    any    `json:"type"`
	Default any    `json:"default,omitempty"`
	Column  string `json:"trunkline.column,omitempty"` // where the name in the database is another
	Kind    string `json:"trunkline.type,omitempty"`   // the database's own type
}

type avroRecord struct {
	Type      string `json:"type"`
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
	Fields    []any  `json:"fields"`
}

// nullable is a field that may be null and is so by default, which lets readers of other versions do without it.
func nullable(f avroField) any {
	return struct {
		avroField
		Default any `json:"default"`
	}{avroField{Name: f.Name, Type: []any{"null", f.Type}, Column: f.Column, Kind: f.Kind}, nil}
}

func (a *Avro) column(i int) avroField {
	c := a.table.Columns[i]
	f := avroField{Name: a.names[i], Type: avroType(c.Kind), Kind: c.Type}
	if f.Name != c.Name {
		f.Column = c.Name
	}
	return f
}

// schemas returns those of key and value; of a table without a key, of the value alone.
func (a *Avro) schemas() []RegistrySchema {
	space := namespace(a.origin, a.table)
	row := avroRecord{Type: "record", Name: "Value"}
	for i := range a.table.Columns {
		row.Fields = append(row.Fields, nullable(a.column(i)))
	}
	text := func(names ...string) (fields []any) {
		for _, n := range names {
			fields = append(fields, avroField{Name: n, Type: "string"})
		}
		return fields
	}
	long := func(names ...string) (fields []any) {
		for _, n := range names {
			fields = append(fields, avroField{Name: n, Type: "long"})
		}
		return fields
	}
	source := avroRecord{Type: "record", Name: "Source"}
	source.Fields = append(source.Fields, text("version", "connector", "name")...)
	source.Fields = append(source.Fields, long("ts_ms")...)
	source.Fields = append(source.Fields, text("snapshot", "db", "schema", "table", "origin")...)
	list := map[string]any{"type": "array", "items": "string"}
	envelope := avroRecord{Type: "record", Name: "Envelope", Namespace: space, Fields: []any{
		nullable(avroField{Name: "before", Type: row}), nullable(avroField{Name: "after", Type: "Value"}),
		avroField{Name: "source", Type: source},
	}}
	envelope.Fields = append(append(envelope.Fields, text("op")...), long("ts_ms", "ts_us", "ts_ns")...)
	envelope.Fields = append(envelope.Fields, nullable(avroField{Name: "unchanged", Type: list}), nullable(avroField{Name: "before_has", Type: list}),
		nullable(avroField{Name: "as_text", Type: map[string]any{"type": "map", "values": "string"}}))
	var out []RegistrySchema
	if len(a.table.Key) > 0 {
		key := avroRecord{Type: "record", Name: "Key", Namespace: space}
		for _, k := range a.table.Key {
			f := a.column(k)
			if loose(a.table, k) {
				f.Type = []any{"null", f.Type, "string"}
			}
			key.Fields = append(key.Fields, f)
		}
		out = append(out, avroSchema(key))
	}
	return append(out, avroSchema(envelope))
}

// loose reports whether a key column may hold what its type cannot: SQLite's columns hold anything, and an unsigned
// integer may be above a long.
func loose(t *connectors.Table, column int) bool {
	kind := t.Columns[column].Kind
	return t.Dialect != "postgres" && t.Dialect != "mysql" && avroType(kind) != "string" || t.Dialect == "sqlite" || kind == connectors.Uint
}

func avroSchema(r avroRecord) RegistrySchema {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // structs of strings
	}
	return RegistrySchema{"AVRO", string(text)}
}

func appendAvroText[T string | []byte](dst []byte, s T) []byte {
	return append(binary.AppendVarint(dst, int64(len(s))), s...)
}

// AppendKey appends the key.
func (a *Avro) AppendKey(dst []byte, t *connectors.Table, row, other []connectors.Value) ([]byte, error) {
	if len(t.Key) == 0 {
		return dst, nil
	}
	dst = appendWire(dst, a.key)
	for _, column := range t.Key {
		v, err := keyValue(t, column, row, other)
		if err != nil {
			return dst, err
		}
		kind := t.Columns[column].Kind
		holds := v.Kind() == kind && (kind != connectors.Uint || v.Uint() <= math.MaxInt64)
		switch {
		case !loose(t, column) && !holds:
			return dst, fmt.Errorf("encode key of %s: column %q holds a value that is not of kind %v, which Avro's type of it cannot hold; encoding: json can", t.FullName(), t.Columns[column].Name, kind)
		case !loose(t, column):
			dst, _ = a.appendValue(dst, kind, v)
		case v.IsNull():
			dst = append(dst, 0)
		case holds:
			dst, _ = a.appendValue(append(dst, 2), kind, v)
		default:
			dst = appendAvroText(append(dst, 4), connectors.AppendJSON(nil, v))
		}
	}
	return dst, nil
}

// keyValue finds the value of a key column.
func keyValue(t *connectors.Table, column int, row, other []connectors.Value) (connectors.Value, error) {
	v := valueAt(row, column)
	if v.IsAbsent() {
		v = valueAt(other, column)
	}
	if err := checkKind(t, column, v); err != nil {
		return v, err
	}
	if v.IsAbsent() {
		return v, fmt.Errorf("encode key of %s: the change does not carry key column %q", t.FullName(), t.Columns[column].Name)
	}
	return v, nil
}

// appendValue appends a value in the type of its column's kind; false if that cannot hold it.
func (a *Avro) appendValue(dst []byte, kind connectors.Kind, v connectors.Value) ([]byte, bool) {
	if v.Kind() != kind {
		return dst, false
	}
	switch kind {
	case connectors.Bool:
		if v.Bool() {
			return append(dst, 1), true
		}
		return append(dst, 0), true
	case connectors.Int:
		return binary.AppendVarint(dst, v.Int()), true
	case connectors.Uint:
		if v.Uint() > math.MaxInt64 {
			return dst, false
		}
		return binary.AppendVarint(dst, int64(v.Uint())), true
	case connectors.Float:
		f, ok := parseFloat(v.Data())
		if !ok {
			return dst, false
		}
		return binary.LittleEndian.AppendUint64(dst, math.Float64bits(f)), true
	}
	return appendAvroText(dst, v.Data()), true
}

// AppendValue appends the envelope of a change.
func (a *Avro) AppendValue(dst []byte, c *connectors.Change, now time.Time) ([]byte, error) {
	if c.Table == nil || c.Table != a.table && !c.Table.Equal(a.table) {
		return dst, errors.New("encode change: another table than that of the encoder")
	}
	if err := a.exactly.look(a.table, c); err != nil {
		return dst, err
	}
	dst = appendWire(dst, a.value)
	dst = a.appendRow(dst, 'b', c.Before)
	dst = a.appendRow(dst, 'a', c.After)
	dst = append(dst, a.head...)
	ms := int64(0)
	if !c.Time.IsZero() {
		ms = c.Time.UnixMilli()
	}
	dst = binary.AppendVarint(dst, ms)
	dst = appendAvroText(dst, strconv.FormatBool(c.Op == connectors.Snapshot))
	dst = append(dst, a.place...)
	dst = appendAvroText(dst, c.Origin)
	dst = append(dst, 2, c.Op.Code())
	for _, n := range [...]int64{now.UnixMilli(), now.UnixMicro(), now.UnixNano()} {
		dst = binary.AppendVarint(dst, n)
	}
	dst = a.appendNames(dst, a.exactly.unchanged, len(a.exactly.unchanged) > 0)
	dst = a.appendNames(dst, a.exactly.carried, a.exactly.partial)
	return a.appendTexts(dst), nil
}

func (a *Avro) appendRow(dst []byte, image byte, row []connectors.Value) []byte {
	if row == nil {
		return append(dst, 0)
	}
	dst = append(dst, 2)
	for i, v := range row {
		kind := a.table.Columns[i].Kind
		if v.IsNull() || v.IsAbsent() {
			dst = append(dst, 0)
			continue
		}
		start := len(dst)
		grown, ok := a.appendValue(append(dst, 2), kind, v)
		if !ok {
			grown = append(dst[:start], 0)
			if kind == connectors.Uint && v.Kind() == kind {
				a.exactly.texts = append(a.exactly.texts, inexact{image, i, v})
			}
		}
		dst = grown
	}
	return dst
}

func (a *Avro) appendNames(dst []byte, columns []int, given bool) []byte {
	if !given {
		return append(dst, 0)
	}
	dst = append(dst, 2)
	if len(columns) > 0 {
		dst = binary.AppendVarint(dst, int64(len(columns)))
		for _, i := range columns {
			dst = appendAvroText(dst, a.names[i])
		}
	}
	return append(dst, 0)
}

func (a *Avro) appendTexts(dst []byte) []byte {
	if len(a.exactly.texts) == 0 {
		return append(dst, 0)
	}
	dst = binary.AppendVarint(append(dst, 2), int64(len(a.exactly.texts)))
	for _, x := range a.exactly.texts {
		dst = appendAvroText(dst, textKey(x, a.names))
		dst = appendAvroText(dst, connectors.AppendJSON(nil, x.value))
	}
	return append(dst, 0)
}

func textKey(x inexact, names []string) string {
	if x.image == 'b' {
		return "before." + names[x.column]
	}
	return "after." + names[x.column]
}
