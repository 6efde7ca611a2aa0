package mysql

import (
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/trunkline/trunkline/connectors"
)

// What MySQL 8 has in its binary log for these documents, by the format's description.
func TestBinaryJSON(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ hex, want string }{
		{"0001000c000b00010005010061", `{"a": 1}`},
		{"02020009000400000507000000", `[null, 7]`},
		{"0b000000000000f03f", `1.0`},
		{"0b9a9999999999b93f", `0.1`},
		{"0b7dc39425ad49b254", `1e100`},
		{"0affffffffffffffff", `18446744073709551615`},
		{"09ffffffffffffffff", `-1`},
		{"0c0561226208e9", ``},
		{"0c05612262085c", `"a\"b\b\\"`},
		{"0401", `true`}, {"0400", `null`}, {"0402", `false`},
		{"0ff604030281e3", ``},
		{"0ff6040302" + "8163", `1.99`},
		{"0f0c08000000a0b6b8b91900", ``},
	} {
		b, err := hex.DecodeString(c.hex)
		if err != nil {
			t.Fatal(err)
		}
		v, err := (&rows{}).binaryJSON(b)
		if c.want != "" && (err != nil || string(v.Data()) != c.want) {
			t.Errorf("%s became %s %v, want %s", c.hex, v.Data(), err, c.want)
		}
	}
}

func FuzzBinaryJSON(f *testing.F) {
	for _, seed := range []string{"\x00\x01\x00\x0c\x00\x0b\x00\x01\x00\x05\x01\x00a", "\x02\x02\x00\x09\x00\x04\x00\x00\x05\x07\x00\x00\x00", "\x0f\xf6\x04\x03\x02\x81c", "\x0c\x05a\"b"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := (&rows{}).binaryJSON(data)
		_, _ = v, err
	})
}

// fuzzColumns are columns of every kind of type.
func fuzzColumns() *definition {
	def := &definition{Key: []string{"c0"}}
	for i, typ := range []string{"int(11)", "bigint(20) unsigned", "decimal(30,10)", "float", "double", "bit(64)", "date", "time(6)", "datetime(3)", "timestamp(6)", "year(4)",
		"varchar(300)", "binary(4)", "blob", "enum('a','b')", "set('a','b')", "json", "uuid", "inet6", "varchar(9) /*M!100301 COMPRESSED*/"} {
		def.Columns = append(def.Columns, columnDef{Name: fmt.Sprintf("c%d", i), Type: typ, Charset: "utf8mb4"})
	}
	return def
}

// FuzzRowEvent gives any bytes to the readers of table maps and rows: a log that is broken is an error, never a panic.
func FuzzRowEvent(f *testing.F) {
	f.Add([]byte("\x01\x00\x00\x00\x00\x00\x01\x00\x01d\x00\x01t\x00\x02\x03\x0f\x02\x2c\x01\x03\x01\x01\x80"), []byte("\x01\x00\x00\x00\x00\x00\x01\x00\x02\xff\xfc\x01\x00\x00\x00\x01\x00x"))
	f.Add([]byte("\x01\x00\x00\x00\x00\x00\x01\x00\x01d\x00\x01t\x00\x04\xf6\x13\x12\x8d\x06\x1e\x0a\x06\x03\x01\x0f"), []byte("\x01\x00\x00\x00\x00\x00\x01\x00\x04\xff\xf0\x00"))
	shape, err := newShape(tableName{"d", "t"}, fuzzColumns(), &connectors.TableSpec{}, &charsets{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, tableMap, body []byte) {
		m, err := parseTableMap(tableMap, 6)
		if err != nil {
			return
		}
		shape.accepts(m)
		for i := range m.columns {
			m.labelsOf(i)
		}
		if len(m.columns) > len(shape.decoders) {
			return
		}
		for _, typ := range []byte{eventWriteRows1, eventUpdateRows2, eventMariaDelete1} {
			e, err := parseRows(&event{typ: typ, body: body})
			if err != nil || e.columns != len(m.columns) {
				continue
			}
			x := &rowReader{event: e, shape: shape, table: m}
			for n := 0; !x.done() && n < 100; n++ {
				if _, err := x.next(&rows{}); err != nil {
					break
				}
			}
		}
	})
}

func FuzzEvents(f *testing.F) {
	f.Add([]byte("\x07\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x09\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00d\x00BEGIN"))
	f.Add([]byte("\x02\x01\x00\x03\x01\x05\x00\x01\x02"))
	f.Add([]byte("000")) // which the library panics about, as a tagged GTID
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, compressed := range []bool{false, true} {
			if q, err := parseQuery(body, compressed); err == nil {
				q.word()
				q.changes()
			}
		}
		for _, typ := range []byte{eventMariaGTID, eventGTID} {
			e := &event{typ: typ, body: body}
			_, _ = parseMariaGTID(e)
			_, _ = parseMySQLGTID(e)
		}
		_, _ = parseMySQLGTID(&event{typ: eventTaggedGTID, body: body})
		_, _ = payload(body)
		_, _ = nextFile(body)
		_, _ = inflate(body)
		summed(body)
	})
}

// FuzzText gives any text to the decoders of a snapshot.
func FuzzText(f *testing.F) {
	for _, seed := range []string{"-1", "2026-01-30 12:34:56.5", "0000-00-00", "1e5", "-0", "\xff", ""} {
		f.Add([]byte(seed))
	}
	shape, err := newShape(tableName{"d", "t"}, fuzzColumns(), &connectors.TableSpec{}, &charsets{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, d := range shape.decoders {
			v := d.text(&rows{}, text)
			if _, err := appendSQL(nil, v, &d.typ); err != nil && v.Kind() != connectors.Float && v.Kind() != connectors.Decimal {
				t.Fatalf("%v: %v", v.Kind(), err)
			}
		}
	})
}
