package codec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/bufbuild/protocompile"
	"github.com/twmb/avro"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"pgregory.net/rapid"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/log"
)

var wireEncodings = []Encoding{EncodingAvro, EncodingProtobuf}

// record encodes a change as ingest does.
func record(t testing.TB, e Encoding, c *connectors.Change) log.Record {
	t.Helper()
	encoder, _ := NewWire(e, testOrigin, c.Table)
	encoder.(Registered).Register(7, 9)
	value, err := encoder.AppendValue(nil, c, testNow)
	if err != nil {
		t.Fatal(err)
	}
	return log.Record{Value: value, Offset: 5, Headers: []log.Header{{Key: HeaderSchema, Value: []byte("7")}, {Key: HeaderEncoding, Value: []byte(e)}}}
}

func decodeRecord(t *connectors.Table, r log.Record) (connectors.Change, error) {
	d := NewDecoder(nil)
	d.plans[7] = newDecodePlan(7, t)
	var c connectors.Change
	_, err := d.Decode(context.Background(), &r, &c, &Arena{})
	return c, err
}

func TestWireFormatsBringEveryChangeBack(t *testing.T) {
	t.Parallel()
	for _, e := range wireEncodings {
		for name, c := range sample() {
			t.Run(string(e)+"/"+name, func(t *testing.T) {
				r := record(t, e, &c)
				back, err := decodeRecord(c.Table, r)
				if err != nil || !equalChange(back, c) {
					t.Errorf("came back as %+v, %v; want %+v", back, err, c)
				}
				for i := range r.Value {
					var refused *RecordError
					cut := r
					cut.Value = r.Value[:i]
					if _, err := decodeRecord(c.Table, cut); e == EncodingAvro && !errors.As(err, &refused) {
						t.Fatalf("cut at byte %d: %v", i, err)
					}
				}
			})
		}
	}
}

// odd draws a value of a column, or one that its type cannot hold.
func odd(t *rapid.T, kind connectors.Kind, label string) connectors.Value {
	switch rapid.IntRange(0, 9).Draw(t, label) {
	case 0:
		return connectors.NullValue()
	case 1:
		return connectors.Value{}
	case 2:
		if kind != connectors.Bytes {
			return data(connectors.Text, rapid.String().Draw(t, label))
		}
	}
	switch kind {
	case connectors.Bool:
		return connectors.BoolValue(rapid.Bool().Draw(t, label))
	case connectors.Int:
		return connectors.IntValue(rapid.Int64().Draw(t, label))
	case connectors.Uint:
		return connectors.UintValue(rapid.Uint64().Draw(t, label))
	case connectors.Float:
		return data(kind, rapid.OneOf(rapid.SampledFrom([]string{"NaN", "Infinity", "-Infinity", "-0.0", "1e-07", "1e+20", "0.10", "100000000000000000000000"}),
			rapid.Map(rapid.Float64Range(-math.MaxFloat64, math.MaxFloat64), func(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) })).Draw(t, label))
	case connectors.Bytes:
		return connectors.DataValue(kind, rapid.SliceOf(rapid.Byte()).Draw(t, label))
	case connectors.Array:
		return data(kind, `[1,null]`)
	case connectors.Map:
		return data(kind, `{"a":null}`)
	}
	return data(kind, rapid.String().Draw(t, label))
}

func TestWireFormatsHoldWhatJSONHolds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		table := &connectors.Table{Dialect: "sqlite", Name: rapid.String().Draw(rt, "table"), Key: []int{0}}
		for _, n := range rapid.SliceOfNDistinct(rapid.String(), 1, 6, rapid.ID).Draw(rt, "columns") {
			table.Columns = append(table.Columns, connectors.Column{Name: n, Kind: connectors.Kind(rapid.IntRange(2, 17).Draw(rt, "kind"))})
		}
		c := connectors.Change{Op: connectors.Update, Table: table, Time: testTime}
		for _, column := range table.Columns {
			c.Before, c.After = append(c.Before, odd(rt, column.Kind, "before")), append(c.After, odd(rt, column.Kind, "after"))
		}
		value, err := NewJSON(testOrigin).AppendValue(nil, &c, testNow)
		if err != nil {
			rt.Fatal(err)
		}
		want, err := decode(table, value)
		if err != nil {
			rt.Fatal(err)
		}
		for _, e := range wireEncodings {
			got, err := decodeRecord(table, record(t, e, &c))
			if err != nil || !equalChange(got, want) {
				rt.Fatalf("%s: %+v, %v; JSON gives %+v", e, got, err, want)
			}
		}
	})
}

// TestOtherReadersUnderstandAvro reads with a library what was written by hand.
func TestOtherReadersUnderstandAvro(t *testing.T) {
	t.Parallel()
	for name, c := range sample() {
		_, schemas := NewWire(EncodingAvro, testOrigin, c.Table)
		schema, err := avro.Parse(schemas[len(schemas)-1].Text)
		if err != nil {
			t.Fatalf("%s: %v in %s", name, err, schemas[len(schemas)-1].Text)
		}
		r := record(t, EncodingAvro, &c)
		if string(r.Value[:5]) != "\x00\x00\x00\x00\x09" {
			t.Fatalf("%s: it begins with % x", name, r.Value[:5])
		}
		var got map[string]any
		rest, err := schema.Decode(r.Value[5:], &got)
		if err != nil || len(rest) > 0 {
			t.Fatalf("%s: %v, %d bytes left", name, err, len(rest))
		}
		if got["op"] != string(c.Op.Code()) || got["source"].(map[string]any)["name"] != "shop" {
			t.Errorf("%s: %v", name, got)
		}
		if name != "insert" {
			continue
		}
		after := got["after"].(map[string]any)
		want := map[string]any{"bool": true, "int": int64(-9007199254740993), "uint": nil, "float": 1e-07, "decimal": "1.10", "bytes": []byte("\x00\xff"),
			"timestamptz": "2026-01-30T17:34:56.123456Z", "text": "Zoë \"q\"\n\x00"}
		for column, v := range want {
			if !reflect.DeepEqual(after[column], v) {
				t.Errorf("%s is %#v, want %#v", column, after[column], v)
			}
		}
		if texts := got["as_text"].(map[string]any); texts["after.uint"] != "18446744073709551615" {
			t.Errorf("as_text is %v", texts)
		}
	}
}

// message compiles a schema and reads a record with it.
func message(t *testing.T, s RegistrySchema, b []byte) protoreflect.Message {
	t.Helper()
	compiler := protocompile.Compiler{Resolver: &protocompile.SourceResolver{Accessor: protocompile.SourceAccessorFromMap(map[string]string{"s.proto": s.Text})}}
	files, err := compiler.Compile(t.Context(), "s.proto")
	if err != nil {
		t.Fatalf("%v in %s", err, s.Text)
	}
	m := dynamicpb.NewMessage(files[0].Messages().Get(0))
	if err := proto.Unmarshal(b, m); err != nil {
		t.Fatal(err)
	}
	if len(m.GetUnknown()) > 0 {
		t.Errorf("unknown fields % x", m.GetUnknown())
	}
	return m
}

func TestOtherReadersUnderstandProtobuf(t *testing.T) {
	t.Parallel()
	for name, c := range sample() {
		encoder, schemas := NewWire(EncodingProtobuf, testOrigin, c.Table)
		encoder.(Registered).Register(7, 9)
		r := record(t, EncodingProtobuf, &c)
		if string(r.Value[:6]) != "\x00\x00\x00\x00\x09\x00" {
			t.Fatalf("%s: it begins with % x", name, r.Value[:6])
		}
		m := message(t, schemas[len(schemas)-1], r.Value[6:])
		field := func(m protoreflect.Message, name string) protoreflect.Value {
			return m.Get(m.Descriptor().Fields().ByName(protoreflect.Name(name)))
		}
		if got := field(m, "op").String(); got != string(c.Op.Code()) {
			t.Errorf("%s: op is %s", name, got)
		}
		if name != "insert" {
			continue
		}
		after := field(m, "after").Message()
		for column, want := range map[string]any{"bool": true, "int": int64(-9007199254740993), "uint": uint64(18446744073709551615), "float": 1e-07, "decimal": "1.10"} {
			if got := field(after, column).Interface(); got != want {
				t.Errorf("%s is %#v, want %#v", column, got, want)
			}
		}
		key, err := encoder.AppendKey(nil, c.Table, c.After, nil)
		if err != nil {
			t.Fatal(err)
		}
		k := message(t, schemas[0], key[6:])
		if field(k, "uint").Uint() != 18446744073709551615 || field(k, "int").Int() != -9007199254740993 {
			t.Errorf("the key is %v", k)
		}
	}
}

func TestAvroKeysTellRowsApart(t *testing.T) {
	t.Parallel()
	table := &connectors.Table{Dialect: "sqlite", Name: "t", Key: []int{0}, Columns: []connectors.Column{{Name: "id", Kind: connectors.Int}}}
	for _, e := range wireEncodings {
		encoder, schemas := NewWire(e, testOrigin, table)
		encoder.(Registered).Register(1, 2)
		if len(schemas) != 2 {
			t.Fatalf("%d schemas", len(schemas))
		}
		seen := map[string]bool{}
		for _, v := range []connectors.Value{connectors.IntValue(1), connectors.NullValue(), data(connectors.Text, "1"), data(connectors.Float, "1.0"), data(connectors.Text, "")} {
			if v.Kind() == connectors.Float {
				continue // JSON refuses it too
			}
			key, err := encoder.AppendKey(nil, table, []connectors.Value{v}, nil)
			if err != nil || seen[string(key)] {
				t.Errorf("%s: key of %v: % x, %v", e, v, key, err)
			}
			seen[string(key)] = true
		}
		if _, err := encoder.AppendKey(nil, table, []connectors.Value{{}}, nil); err == nil {
			t.Errorf("%s: a row without its key got a key", e)
		}
	}
	strict := &connectors.Table{Dialect: "postgres", Name: "t", Key: []int{0}, Columns: []connectors.Column{{Name: "id", Kind: connectors.Int}}}
	encoder, _ := NewWire(EncodingAvro, testOrigin, strict)
	if _, err := encoder.AppendKey(nil, strict, []connectors.Value{data(connectors.Text, "secret")}, nil); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
}

func TestNamesOfColumnsBecomeNamesOfFields(t *testing.T) {
	t.Parallel()
	var columns []connectors.Column
	for _, n := range []string{"id", "ID", "Order Total", "Order_Total", "1st", "größe", "", "_"} {
		columns = append(columns, connectors.Column{Name: n})
	}
	want := "[id ID_2 Order_Total Order_Total_2 _1st gru00f6u00dfe _ __2]"
	if got := fmt.Sprint(wireNames(columns)); got != strings.ReplaceAll(want, "u00", "u") {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestFieldNumbersFollowTheIdentityOfColumns(t *testing.T) {
	t.Parallel()
	table := func(ids ...int) *connectors.Table {
		t := &connectors.Table{}
		for _, id := range ids {
			t.Columns = append(t.Columns, connectors.Column{ID: id})
		}
		return t
	}
	for _, c := range []struct {
		ids  []int
		want string
	}{{[]int{1, 3, 7}, "[1 3 7]"}, {[]int{1, 0, 7}, "[1 2 3]"}, {[]int{2, 2}, "[1 2]"}, {nil, "[]"}} {
		if got := fmt.Sprint(fieldNumbers(table(c.ids...))); got != c.want {
			t.Errorf("%v became %s, want %s", c.ids, got, c.want)
		}
	}
}

func TestEventIsItsPayload(t *testing.T) {
	t.Parallel()
	table := &connectors.Table{Dialect: connectors.EventDialect, Name: "Order", Key: []int{2}, Columns: []connectors.Column{
		{Name: "aggregateid", Kind: connectors.Int}, {Name: "payload", Kind: connectors.JSON}, {Name: "id", Kind: connectors.Text}, {Name: "eventType", Kind: connectors.Text}, {Name: "n", Kind: connectors.Int}}}
	c := connectors.Change{Op: connectors.Insert, Table: table, Time: testTime, After: []connectors.Value{connectors.IntValue(42), data(connectors.JSON, `{"a": 1}`), data(connectors.Text, "e-1"), data(connectors.Text, "made"), connectors.NullValue()}}
	encoder, schemas := NewWire(EncodingAvro, testOrigin, table)
	if len(schemas) != 0 {
		t.Errorf("an event has %d schemas", len(schemas))
	}
	key, keyErr := encoder.AppendKey(nil, table, c.After, nil)
	value, err := encoder.AppendValue(nil, &c, testNow)
	if keyErr != nil || err != nil || string(key) != "42" || string(value) != `{"a": 1}` {
		t.Fatalf("%s %s %v %v", key, value, keyErr, err)
	}
	headers := EventHeaders(&c)
	if len(headers) != 2 || headers[0].Key != "id" || string(headers[1].Value) != "made" {
		t.Fatalf("headers %v", headers)
	}
	r := log.Record{Key: key, Value: value, Timestamp: testTime.UnixMilli(), Headers: append(headers, log.Header{Key: HeaderSchema, Value: []byte("7")}, log.Header{Key: HeaderEncoding, Value: []byte(EncodingOf("", table))})}
	back, err := decodeRecord(table, r)
	if err != nil || !equalChange(back, c) {
		t.Errorf("came back as %+v, %v", back, err)
	}
	if _, err := encoder.AppendValue(nil, &connectors.Change{Op: connectors.Delete, Table: table, Before: c.After}, testNow); err == nil {
		t.Error("a delete became an event")
	}
}

func TestUnknownEncodingIsRefused(t *testing.T) {
	t.Parallel()
	table := &connectors.Table{Name: "t", Columns: []connectors.Column{{Name: "a", Kind: connectors.Int}}}
	r := log.Record{Value: []byte{0}, Headers: []log.Header{{Key: HeaderSchema, Value: []byte("7")}, {Key: HeaderEncoding, Value: []byte("thrift")}}}
	var refused *RecordError
	if _, err := decodeRecord(table, r); !errors.As(err, &refused) {
		t.Errorf("got %v", err)
	}
}

func FuzzDecodeWire(f *testing.F) {
	table, _ := everyKind()
	for _, c := range sample() {
		for _, e := range wireEncodings {
			f.Add(record(f, e, &c).Value, e == EncodingAvro)
		}
	}
	f.Fuzz(func(t *testing.T, value []byte, isAvro bool) {
		e := EncodingProtobuf
		if isAvro {
			e = EncodingAvro
		}
		r := log.Record{Value: value, Headers: []log.Header{{Key: HeaderSchema, Value: []byte("7")}, {Key: HeaderEncoding, Value: []byte(e)}}}
		c, err := decodeRecord(table, r)
		var refused *RecordError
		if err != nil && !errors.As(err, &refused) {
			t.Fatal(err)
		}
		for _, row := range [][]connectors.Value{c.Before, c.After} {
			if err == nil && row != nil && len(row) != len(table.Columns) {
				t.Fatalf("%d values", len(row))
			}
		}
	})
}

func TestAvroSchemaIsJSON(t *testing.T) {
	t.Parallel()
	table, _ := everyKind()
	_, schemas := NewWire(EncodingAvro, testOrigin, table)
	for _, s := range schemas {
		if !json.Valid([]byte(s.Text)) || s.Type != "AVRO" {
			t.Errorf("%+v", s)
		}
	}
	if !strings.Contains(schemas[1].Text, `{"name":"before","type":["null",{"type":"record","name":"Value"`) ||
		!strings.Contains(schemas[1].Text, `{"name":"int","type":["null","long"],"trunkline.type":"int","default":null}`) {
		t.Error(schemas[1].Text)
	}
}

func BenchmarkWireEncode(b *testing.B) {
	for _, e := range wireEncodings {
		b.Run(string(e), func(b *testing.B) {
			c := sevenColumns()
			encoder, _ := NewWire(e, testOrigin, c.Table)
			var key, value []byte
			b.ReportAllocs()
			for b.Loop() {
				key, _ = encoder.AppendKey(key[:0], c.Table, c.After, nil)
				value, _ = encoder.AppendValue(value[:0], &c, testNow)
			}
			b.SetBytes(int64(len(value)))
		})
	}
}

func BenchmarkWireDecode(b *testing.B) {
	for _, e := range wireEncodings {
		b.Run(string(e), func(b *testing.B) {
			c := sevenColumns()
			r := record(b, e, &c)
			d := NewDecoder(nil)
			d.plans[7] = newDecodePlan(7, c.Table)
			var arena Arena
			n := 0
			b.SetBytes(int64(len(r.Value)))
			b.ReportAllocs()
			for b.Loop() {
				if n++; n%5000 == 0 {
					arena.Reset()
				}
				if _, err := d.Decode(b.Context(), &r, &c, &arena); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
