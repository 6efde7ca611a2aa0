package codec

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/trunkline/trunkline/connectors"
)

// Protobuf writes Debezium's envelope as a message of Protocol Buffers, for one version of a table. schemas has the
// messages. Each column is an optional field, so that a NULL is a field that is not there.
type Protobuf struct {
	lossless
	table   *connectors.Table
	origin  Origin
	names   []string
	columns map[string]int // by the names in the messages
	numbers []protowire.Number
	fields  map[protowire.Number]int // the column of a field
	head    []byte                   // source without ts_ms and what follows it
	key     int32
	value   int32
	exactly exactly
	row     []byte // used again
	source  []byte
}

// Numbers of the fields of Envelope and Source.
const (
	protoBefore, protoAfter, protoSource, protoOp, protoMs, protoUs, protoNs, protoUnchanged, protoBeforeHas, protoTexts protowire.Number = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10

	protoSourceMs, protoSnapshot, protoOrigin protowire.Number = 4, 5, 9
)

func newProtobuf(o Origin, t *connectors.Table) *Protobuf {
	p := &Protobuf{table: t, origin: o, names: wireNames(t.Columns), columns: map[string]int{}, numbers: fieldNumbers(t), fields: map[protowire.Number]int{}}
	for i, n := range p.names {
		p.columns[n], p.fields[p.numbers[i]] = i, i
	}
	for i, s := range []string{o.Version, o.Connector, o.Name} {
		p.head = appendProtoText(p.head, protowire.Number(i+1), s)
	}
	for i, s := range []string{t.Database, t.Schema, t.Name} {
		p.head = appendProtoText(p.head, protowire.Number(i+6), s)
	}
	return p
}

// fieldNumbers gives columns their numbers: where the source knows each by an identity that a rename and a drop of others
// do not touch, that, else their place.
func fieldNumbers(t *connectors.Table) []protowire.Number {
	out := make([]protowire.Number, len(t.Columns))
	seen := map[int]bool{}
	stable := true
	for i, c := range t.Columns {
		stable = stable && c.ID > 0 && c.ID < int(protowire.FirstReservedNumber) && !seen[c.ID]
		seen[c.ID] = true
		out[i] = protowire.Number(c.ID)
	}
	for i := range out {
		if !stable {
			out[i] = protowire.Number(i + 1)
		}
		if out[i] >= protowire.FirstReservedNumber {
			out[i] += protowire.LastReservedNumber - protowire.FirstReservedNumber + 1
		}
	}
	return out
}

// Register sets the ids that records name.
func (p *Protobuf) Register(key, value int32) { p.key, p.value = key, value }

func protoType(k connectors.Kind) string {
	switch k {
	case connectors.Bool:
		return "bool"
	case connectors.Int:
		return "int64"
	case connectors.Uint:
		return "uint64"
	case connectors.Float:
		return "double"
	case connectors.Bytes:
		return "bytes"
	}
	return "string"
}

// schemas returns those of key and value; of a table without a key, of the value alone.
func (p *Protobuf) schemas() []RegistrySchema {
	var out []RegistrySchema
	if len(p.table.Key) > 0 {
		var b strings.Builder
		fmt.Fprintf(&b, "syntax = \"proto3\";\npackage %s;\n\nmessage Key {\n", p.packageName())
		for _, k := range p.table.Key {
			p.writeColumn(&b, "  ", k)
		}
		for _, k := range p.table.Key {
			if loose(p.table, k) {
				fmt.Fprintf(&b, "  map<string, string> as_text = %d;\n", protowire.MaxValidNumber)
				break
			}
		}
		b.WriteString("}\n")
		out = append(out, RegistrySchema{"PROTOBUF", b.String()})
	}
	var b strings.Builder
	fmt.Fprintf(&b, "syntax = \"proto3\";\npackage %s;\n\nmessage Envelope {\n  message Value {\n", p.packageName())
	for i := range p.table.Columns {
		p.writeColumn(&b, "    ", i)
	}
	b.WriteString(`  }
  message Source {
    string version = 1;
    string connector = 2;
    string name = 3;
    int64 ts_ms = 4;
    string snapshot = 5;
    string db = 6;
    string schema = 7;
    string table = 8;
    string origin = 9;
  }
  Value before = 1;
  Value after = 2;
  Source source = 3;
  string op = 4;
  int64 ts_ms = 5;
  int64 ts_us = 6;
  int64 ts_ns = 7;
  repeated string unchanged = 8;
  repeated string before_has = 9;
  map<string, string> as_text = 10;
}
`)
	return append(out, RegistrySchema{"PROTOBUF", b.String()})
}

func (p *Protobuf) packageName() string {
	if name := namespace(p.origin, p.table); name != "" {
		return name
	}
	return "trunkline"
}

func (p *Protobuf) writeColumn(b *strings.Builder, indent string, i int) {
	c := p.table.Columns[i]
	fmt.Fprintf(b, "%soptional %s %s = %d;", indent, protoType(c.Kind), p.names[i], p.numbers[i])
	if comment := strings.Join(strings.Fields(c.Type), " "); comment != "" {
		fmt.Fprintf(b, " // %s", comment)
	}
	b.WriteByte('\n')
}

func appendProtoText[T string | []byte](dst []byte, n protowire.Number, s T) []byte {
	if len(s) == 0 {
		return dst
	}
	dst = protowire.AppendTag(dst, n, protowire.BytesType)
	return append(protowire.AppendVarint(dst, uint64(len(s))), s...)
}

func appendProtoInt(dst []byte, n protowire.Number, v int64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(dst, n, protowire.VarintType), uint64(v))
}

// AppendKey appends the key.
func (p *Protobuf) AppendKey(dst []byte, t *connectors.Table, row, other []connectors.Value) ([]byte, error) {
	if len(t.Key) == 0 {
		return dst, nil
	}
	dst = append(appendWire(dst, p.key), 0)
	var texts []inexact
	for _, column := range t.Key {
		v, err := keyValue(t, column, row, other)
		if err != nil {
			return dst, err
		}
		if v.IsNull() {
			continue
		}
		grown, ok := p.appendValue(dst, column, v)
		if !ok && !loose(t, column) {
			return dst, fmt.Errorf("encode key of %s: column %q holds a value that is not of kind %v, which its field cannot hold; encoding: json can",
				t.FullName(), t.Columns[column].Name, t.Columns[column].Kind)
		}
		if !ok {
			texts = append(texts, inexact{0, column, v})
		}
		dst = grown
	}
	for _, x := range texts {
		dst = appendProtoEntry(dst, protowire.MaxValidNumber, p.names[x.column], x.value)
	}
	return dst, nil
}

// appendValue appends the field of a column; false if that cannot hold the value.
func (p *Protobuf) appendValue(dst []byte, column int, v connectors.Value) ([]byte, bool) {
	kind, n := p.table.Columns[column].Kind, p.numbers[column]
	if v.Kind() != kind {
		return dst, false
	}
	switch kind {
	case connectors.Bool:
		return appendProtoInt(dst, n, int64(protowire.EncodeBool(v.Bool()))), true
	case connectors.Int:
		return appendProtoInt(dst, n, v.Int()), true
	case connectors.Uint:
		return appendProtoInt(dst, n, int64(v.Uint())), true
	case connectors.Float:
		f, ok := parseFloat(v.Data())
		if !ok {
			return dst, false
		}
		return protowire.AppendFixed64(protowire.AppendTag(dst, n, protowire.Fixed64Type), math.Float64bits(f)), true
	}
	return protowire.AppendBytes(protowire.AppendTag(dst, n, protowire.BytesType), v.Data()), true
}

// AppendValue appends the envelope of a change.
func (p *Protobuf) AppendValue(dst []byte, c *connectors.Change, now time.Time) ([]byte, error) {
	if c.Table == nil || c.Table != p.table && !c.Table.Equal(p.table) {
		return dst, errors.New("encode change: another table than that of the encoder")
	}
	if err := p.exactly.look(p.table, c); err != nil {
		return dst, err
	}
	dst = append(appendWire(dst, p.value), 0)
	dst = p.appendRow(dst, protoBefore, c.Before)
	dst = p.appendRow(dst, protoAfter, c.After)
	p.source = append(p.source[:0], p.head...)
	if !c.Time.IsZero() {
		p.source = appendProtoInt(p.source, protoSourceMs, c.Time.UnixMilli())
	}
	p.source = appendProtoText(p.source, protoSnapshot, strconv.FormatBool(c.Op == connectors.Snapshot))
	p.source = appendProtoText(p.source, protoOrigin, c.Origin)
	dst = appendProtoText(dst, protoSource, p.source)
	dst = appendProtoText(dst, protoOp, string(c.Op.Code()))
	dst = appendProtoInt(dst, protoMs, now.UnixMilli())
	dst = appendProtoInt(dst, protoUs, now.UnixMicro())
	dst = appendProtoInt(dst, protoNs, now.UnixNano())
	for _, i := range p.exactly.unchanged {
		dst = appendProtoText(dst, protoUnchanged, p.names[i])
	}
	if p.exactly.partial {
		if len(p.exactly.carried) == 0 {
			dst = protowire.AppendBytes(protowire.AppendTag(dst, protoBeforeHas, protowire.BytesType), nil) // none of them
		}
		for _, i := range p.exactly.carried {
			dst = appendProtoText(dst, protoBeforeHas, p.names[i])
		}
	}
	for _, x := range p.exactly.texts {
		dst = appendProtoEntry(dst, protoTexts, textKey(x, p.names), x.value)
	}
	return dst, nil
}

func (p *Protobuf) appendRow(dst []byte, n protowire.Number, row []connectors.Value) []byte {
	if row == nil {
		return dst
	}
	p.row = p.row[:0]
	for i, v := range row {
		if !v.IsNull() && !v.IsAbsent() {
			p.row, _ = p.appendValue(p.row, i, v) // what has no place stands in as_text
		}
	}
	return protowire.AppendBytes(protowire.AppendTag(dst, n, protowire.BytesType), p.row)
}

// appendProtoEntry appends an entry of a map of text.
func appendProtoEntry(dst []byte, n protowire.Number, name string, v connectors.Value) []byte {
	entry := appendProtoText(nil, 1, name)
	entry = appendProtoText(entry, 2, connectors.AppendJSON(nil, v))
	return protowire.AppendBytes(protowire.AppendTag(dst, n, protowire.BytesType), entry)
}

var errProtobuf = errors.New("the Protobuf message ends early or is not of its schema")

// decodeProtobuf reads a change. Fields may stand in any order.
func (d *decodePlan) decodeProtobuf(value []byte, c *connectors.Change, arena *Arena) error {
	b, err := cutWire(value)
	if err != nil {
		return err
	}
	if len(b) == 0 || b[0] != 0 {
		return errProtobuf
	}
	if d.protobuf == nil {
		d.protobuf = newProtobuf(Origin{}, d.table)
	}
	p := d.protobuf
	x := rest{columns: p.columns, c: c}
	var unchanged, carried, texts [][]byte
	ok := protoFields(b[1:], func(n protowire.Number, v []byte, _ uint64) bool {
		switch n {
		case protoBefore:
			c.Before = p.readRow(v, arena, &x)
		case protoAfter:
			c.After = p.readRow(v, arena, &x)
		case protoSource:
			return readProtoSource(v, c)
		case protoOp:
			if len(v) == 1 {
				c.Op = connectors.OpOf(v[0])
			}
		case protoUnchanged:
			unchanged = append(unchanged, v)
		case protoBeforeHas:
			carried = append(carried, v)
		case protoTexts:
			texts = append(texts, v)
		}
		return true
	})
	for _, name := range unchanged {
		x.unchanged(name)
	}
	if len(carried) > 0 {
		x.partial()
		for _, name := range carried {
			if len(name) > 0 {
				x.carried(name)
			}
		}
		x.settle()
	}
	for _, entry := range texts {
		var name, token []byte
		ok = protoFields(entry, func(n protowire.Number, v []byte, _ uint64) bool {
			if n == 1 {
				name = v
			} else if n == 2 {
				token = v
			}
			return true
		}) && ok
		x.text(p.table, string(name), token, arena)
	}
	if !ok || x.bad {
		return errProtobuf
	}
	return checkShape(c)
}

// protoFields calls f with each field: its bytes, or its number.
func protoFields(b []byte, f func(n protowire.Number, v []byte, number uint64) bool) bool {
	for len(b) > 0 {
		n, typ, size := protowire.ConsumeTag(b)
		if size < 0 {
			return false
		}
		b = b[size:]
		var v []byte
		var number uint64
		switch typ {
		case protowire.BytesType:
			v, size = protowire.ConsumeBytes(b)
		case protowire.VarintType:
			number, size = protowire.ConsumeVarint(b)
		case protowire.Fixed64Type:
			number, size = protowire.ConsumeFixed64(b)
		default:
			size = protowire.ConsumeFieldValue(n, typ, b)
		}
		if size < 0 || !f(n, v[:len(v):len(v)], number) {
			return false
		}
		b = b[size:]
	}
	return true
}

func (p *Protobuf) readRow(b []byte, arena *Arena, x *rest) []connectors.Value {
	row := arena.row(len(p.names))
	for i := range row {
		row[i] = connectors.NullValue()
	}
	x.bad = !protoFields(b, func(n protowire.Number, v []byte, number uint64) bool {
		i, ok := p.fields[n]
		if !ok {
			return false
		}
		switch kind := p.table.Columns[i].Kind; kind {
		case connectors.Bool:
			row[i] = connectors.BoolValue(number != 0)
		case connectors.Int:
			row[i] = connectors.IntValue(int64(number))
		case connectors.Uint:
			row[i] = connectors.UintValue(number)
		case connectors.Float:
			row[i] = valueOfFloat(math.Float64frombits(number), arena)
		default:
			row[i] = connectors.DataValue(kind, v)
		}
		return true
	}) || x.bad
	return row
}

func readProtoSource(b []byte, c *connectors.Change) bool {
	return protoFields(b, func(n protowire.Number, v []byte, number uint64) bool {
		switch {
		case n == protoSourceMs && number != 0:
			c.Time = time.UnixMilli(int64(number)).UTC()
		case n == protoOrigin && len(v) > 0:
			c.Origin = v
		}
		return true
	})
}
