package codec

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/log"
)

var update = flag.Bool("update", false, "write the golden files anew")

var (
	testOrigin = Origin{Version: "1.0.0", Connector: "postgres", Name: "shop"}
	testNow    = time.Date(2026, 1, 30, 17, 34, 57, 1002003, time.UTC)
	testTime   = time.Date(2026, 1, 30, 17, 34, 56, 123e6, time.UTC)
)

func data(k connectors.Kind, s string) connectors.Value { return connectors.DataValue(k, []byte(s)) }

// everyKind is a table with one column of each kind, and a row of it.
func everyKind() (*connectors.Table, []connectors.Value) {
	t := &connectors.Table{Dialect: "postgres", Database: "shop", Schema: "public", Name: `every "kind"`, Key: []int{2, 1}}
	row := []connectors.Value{
		connectors.BoolValue(true), connectors.IntValue(-9007199254740993), connectors.UintValue(18446744073709551615),
		data(connectors.Float, "1e-07"), data(connectors.Text, "Zoë \"q\"\n\x00"), data(connectors.Bytes, "\x00\xff"),
		data(connectors.Decimal, "1.10"), data(connectors.JSON, `{"n":1234567890123456789}`), data(connectors.Date, "2026-01-30"),
		data(connectors.Time, "24:00:00"), data(connectors.Timestamp, "2026-01-30T12:34:56.123456"),
		data(connectors.TimestampTZ, "2026-01-30T17:34:56.123456Z"), data(connectors.Interval, "1 mon -1 days"),
		data(connectors.Bits, "10101"), data(connectors.Array, `[[1,null],[3,4]]`), data(connectors.Map, `{"a":null,"b":"1"}`),
	}
	for _, v := range row {
		c := connectors.Column{Name: v.Kind().String(), Type: v.Kind().String(), Kind: v.Kind(), ID: len(t.Columns) + 1}
		if c.Kind == connectors.Array {
			c.Elem = connectors.Int
		}
		t.Columns = append(t.Columns, c)
	}
	return t, row
}

func sample() map[string]connectors.Change {
	t, row := everyKind()
	origin := []byte(`"txId":771,"lsn":24023128`)
	key := make([]connectors.Value, len(row))
	key[1], key[2] = row[1], row[2]
	toast := connectors.CloneRow(row)
	toast[4], toast[14] = connectors.Value{}, connectors.Value{}
	nulls := make([]connectors.Value, len(row))
	for i := range nulls {
		nulls[i] = connectors.NullValue()
	}
	nulls[1], nulls[2] = row[1], row[2]
	special := connectors.CloneRow(row)
	special[3], special[6], special[8] = data(connectors.Float, "NaN"), data(connectors.Decimal, "-Infinity"), data(connectors.Date, "0044-03-15 BC")
	special[1], special[14] = data(connectors.Text, "no number"), data(connectors.Text, "[0:1]={1,2}")
	message := []connectors.Value{data(connectors.Text, "app"), data(connectors.Bytes, "\x01\x02")}
	return map[string]connectors.Change{
		"snapshot":  {Op: connectors.Snapshot, Table: t, After: row, Time: testTime},
		"insert":    {Op: connectors.Insert, Table: t, After: row, Time: testTime, Origin: origin},
		"update":    {Op: connectors.Update, Table: t, Before: row, After: nulls, Time: testTime, Origin: origin},
		"unchanged": {Op: connectors.Update, Table: t, After: toast, Time: testTime, Origin: origin},
		"special":   {Op: connectors.Update, Table: t, After: special, Time: testTime, Origin: origin},
		"delete":    {Op: connectors.Delete, Table: t, Before: key, Time: testTime, Origin: origin},
		"truncate":  {Op: connectors.Truncate, Table: t, Time: testTime, Origin: origin},
		"message":   {Op: connectors.Message, Table: MessageTable, After: message, Time: testTime, Origin: origin},
	}
}

// decode reads a value with the table at hand.
func decode(t *connectors.Table, value []byte) (connectors.Change, error) {
	d := NewDecoder(nil)
	d.plans[7] = newDecodePlan(7, t)
	r := log.Record{Value: value, Offset: 5, Headers: []log.Header{{Key: HeaderSchema, Value: []byte("7")}}}
	var c connectors.Change
	_, err := d.Decode(context.Background(), &r, &c, &Arena{})
	return c, err
}

func equalChange(a, b connectors.Change) bool {
	row := func(a, b []connectors.Value) bool {
		if (a == nil) != (b == nil) || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !a[i].Equal(b[i]) {
				return false
			}
		}
		return true
	}
	return a.Op == b.Op && a.Table == b.Table && row(a.Before, b.Before) && row(a.After, b.After) &&
		a.Time.Equal(b.Time) && string(a.Origin) == string(b.Origin)
}

func TestRecordsOfEveryKindMatchTheirGoldenFiles(t *testing.T) {
	t.Parallel()
	for name, c := range sample() {
		t.Run(name, func(t *testing.T) {
			e := NewJSON(testOrigin)
			key, err := e.AppendKey(nil, c.Table, c.After, c.Before)
			if err != nil && c.Op != connectors.Truncate {
				t.Fatal(err)
			}
			value, err := e.AppendValue(nil, &c, testNow)
			if err != nil {
				t.Fatal(err)
			}
			if !json.Valid(value) {
				t.Fatalf("not JSON: %s", value)
			}
			got := string(key) + "\n" + string(value) + "\n"
			path := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			back, err := decode(c.Table, value)
			if err != nil || !equalChange(back, c) {
				t.Errorf("came back as %+v, %v; want %+v", back, err, c)
			}
		})
	}
}

func TestDecodeInvertsEncodeForAnyText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		table := &connectors.Table{Name: rapid.String().Draw(t, "table"), Key: []int{0}}
		names := rapid.SliceOfNDistinct(rapid.String(), 1, 6, rapid.ID).Draw(t, "columns")
		c := connectors.Change{Op: connectors.Update, Table: table, Time: testTime}
		draw := func(label string) connectors.Value {
			switch rapid.IntRange(0, 2).Draw(t, label) {
			case 0:
				return connectors.NullValue()
			case 1:
				return connectors.Value{}
			}
			return data(connectors.Text, rapid.String().Draw(t, label))
		}
		for _, n := range names {
			table.Columns = append(table.Columns, connectors.Column{Name: n, Kind: connectors.Text})
			c.Before, c.After = append(c.Before, draw("before")), append(c.After, draw("after"))
		}
		value, err := NewJSON(testOrigin).AppendValue(nil, &c, testNow)
		if err != nil {
			t.Fatal(err)
		}
		back, err := decode(table, value)
		if err != nil || !equalChange(back, c) {
			t.Fatalf("came back as %+v, %v by %s", back, err, value)
		}
	})
}

func TestEncodeRefusesWhatWouldComeBackAsSomethingElse(t *testing.T) {
	t.Parallel()
	table := &connectors.Table{Schema: "public", Name: "t", Key: []int{0}, Columns: []connectors.Column{{Name: "a", Kind: connectors.Text}, {Name: "b", Kind: connectors.Bytes}}}
	e := NewJSON(testOrigin)
	for name, row := range map[string][]connectors.Value{
		"bytes in a column of text": {data(connectors.Bytes, "x"), connectors.NullValue()},
		"text in a column of bytes": {data(connectors.Text, "secret"), data(connectors.Text, "secret")},
		"too few values":            {data(connectors.Text, "secret")},
	} {
		_, err := e.AppendValue(nil, &connectors.Change{Op: connectors.Insert, Table: table, After: row}, testNow)
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := e.AppendKey(nil, table, []connectors.Value{{}, data(connectors.Bytes, "x")}, nil); err == nil {
		t.Error("a row without its key got a key")
	}
	key, err := e.AppendKey(nil, table, []connectors.Value{{}, {}}, []connectors.Value{data(connectors.Text, "old"), {}})
	if err != nil || string(key) != `{"a":"old"}` {
		t.Errorf("an unchanged key column became %s, %v", key, err)
	}
}

func TestDecodeRefusesWhatIsNoChange(t *testing.T) {
	t.Parallel()
	table := &connectors.Table{Name: "t", Columns: []connectors.Column{{Name: "a", Kind: connectors.Int}, {Name: "b", Kind: connectors.Bytes}}}
	for _, value := range []string{
		``, `null`, `[]`, `{}`, `{"op":"c"}`, `{"op":"c","after":null}`, `{"op":"d","before":null}`, `{"op":"x","after":{"a":1}}`,
		`{"op":"c","after":{"a":1}}x`, `{"op":"c","after":{"a":1}} {}`, `{"op":"c","after":{"nope":1}}`, `{"op":"c","after":{"b":"?"}}`,
		`{"op":"c","after":{"a":[1]}}`, `{"op":"c","after":[1]}`, `{"op":"c","after":{"a":1}`, `{"op":"c","after":{"a":1},}`, `{"op":"c" "after":{}}`,
	} {
		var refused *RecordError
		if _, err := decode(table, []byte(value)); !errors.As(err, &refused) {
			t.Errorf("%s: %v", value, err)
		}
	}
	var refused *RecordError
	for _, headers := range [][]log.Header{nil, {{Key: HeaderSchema, Value: []byte("x")}}, {{Key: HeaderSchema, Value: []byte("-1")}}} {
		_, err := NewDecoder(nil).Decode(t.Context(), &log.Record{Value: []byte(`{}`), Headers: headers}, &connectors.Change{}, &Arena{})
		if !errors.As(err, &refused) {
			t.Errorf("headers %v: %v", headers, err)
		}
	}
}

func TestDecodeReadsOtherOrdersAndSpace(t *testing.T) {
	t.Parallel()
	table := &connectors.Table{Name: "t", Columns: []connectors.Column{{Name: "a", Kind: connectors.Int}, {Name: "é", Kind: connectors.Text}}}
	got, err := decode(table, []byte(" { \"op\" : \"c\" , \"more\":[{}], \"after\" : { \"\\u00e9\" : \"x\" , \"a\" : 1 } , \"before\":null,\n\"source\":{\"table\":\"t\" , \"lsn\": 1 } } "))
	want := connectors.Change{Op: connectors.Insert, Table: table, After: []connectors.Value{connectors.IntValue(1), data(connectors.Text, "x")}, Origin: []byte(`"lsn": 1 `)}
	if err != nil || !equalChange(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestTombstoneIsNoChange(t *testing.T) {
	t.Parallel()
	ok, err := NewDecoder(nil).Decode(t.Context(), &log.Record{Key: []byte("k")}, &connectors.Change{}, &Arena{})
	if ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
}

func TestArenaKeepsEarlierRowsWhereTheyAre(t *testing.T) {
	t.Parallel()
	var a Arena
	var rows [][]connectors.Value
	for i := range 10000 {
		row := a.row(3)
		row[0] = connectors.IntValue(int64(i))
		rows = append(rows, row)
	}
	for i, row := range rows {
		if row[0].Int() != int64(i) || !row[2].IsAbsent() {
			t.Fatalf("row %d became %v", i, row)
		}
	}
	a.Reset()
	if row := a.row(3); !row[0].IsAbsent() {
		t.Error("a row of a reset arena is not empty")
	}
}

func TestSchemaComesBackFromItsRecord(t *testing.T) {
	t.Parallel()
	table, _ := everyKind()
	table.Topic = "own"
	table.Columns[4].Labels = []string{"a,b", "<&>"}
	table.Columns[5].Generated, table.Columns[6].NotNull = true, true
	content, err := marshalTable(table)
	if err != nil {
		t.Fatal(err)
	}
	back, err := unmarshalTable(content)
	if err != nil || !back.Equal(table) {
		t.Errorf("%+v, %v by %s", back, err, content)
	}
}

func FuzzDecode(f *testing.F) {
	table, _ := everyKind()
	for _, c := range sample() {
		value, err := NewJSON(testOrigin).AppendValue(nil, &c, testNow)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		c, err := decode(table, value)
		if err != nil {
			var refused *RecordError
			if !errors.As(err, &refused) {
				t.Fatal(err)
			}
			return
		}
		if !json.Valid(value) {
			t.Fatalf("accepted %q", value)
		}
		for _, row := range [][]connectors.Value{c.Before, c.After} {
			if row != nil && len(row) != len(table.Columns) {
				t.Fatalf("%d values", len(row))
			}
		}
	})
}

// decodeTwice reads a value both ways: by the layout of like, and by any order of members.
func decodeTwice(table *connectors.Table, like, value []byte) (fast, slow connectors.Change, took bool, err error) {
	p := newDecodePlan(7, table)
	p.layout.learn(like)
	fast, slow = connectors.Change{Table: table}, connectors.Change{Table: table}
	took = p.layout.decode(value, &fast, &Arena{})
	return fast, slow, took, p.decodeEnvelope(value, &slow, &Arena{})
}

func TestLayoutReadsWhatTheEncoderWrites(t *testing.T) {
	t.Parallel()
	for name, c := range sample() {
		value, err := NewJSON(testOrigin).AppendValue(nil, &c, testNow)
		if err != nil {
			t.Fatal(err)
		}
		fast, slow, took, err := decodeTwice(c.Table, value, value)
		if err != nil || took && !equalChange(fast, slow) {
			t.Errorf("%s: %+v and %+v, %v", name, fast, slow, err)
		}
		// The table's name has an escape, which the layout leaves alone; the benchmark's has none.
		if d := sevenColumns(); name == "insert" {
			value, _ = NewJSON(testOrigin).AppendValue(nil, &d, testNow)
			if fast, _, took, _ := decodeTwice(d.Table, value, value); !took || !equalChange(fast, d) {
				t.Errorf("the layout did not read %s", value)
			}
			d.After[2], d.After[6] = connectors.Value{}, connectors.Value{}
			partial, _ := NewJSON(testOrigin).AppendValue(nil, &d, testNow)
			if fast, _, took, _ := decodeTwice(d.Table, value, partial); !took || !equalChange(fast, d) {
				t.Errorf("the layout did not read %s", partial)
			}
		}
	}
}

func FuzzLayoutAgreesWithAnyOrder(f *testing.F) {
	d := sevenColumns()
	like, err := NewJSON(testOrigin).AppendValue(nil, &d, testNow)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(like, like)
	d.Op, d.After[2] = connectors.Update, connectors.Value{}
	partial, err := NewJSON(testOrigin).AppendValue(nil, &d, testNow)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(like, partial)
	f.Fuzz(func(t *testing.T, like, value []byte) {
		if !json.Valid(like) {
			return // a layout is only learned from what was read
		}
		fast, slow, took, err := decodeTwice(d.Table, like, value)
		if took && (err != nil || !equalChange(fast, slow)) {
			t.Fatalf("%+v and %+v, %v", fast, slow, err)
		}
	})
}

func FuzzUnmarshalTable(f *testing.F) {
	table, _ := everyKind()
	content, err := marshalTable(table)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(content)
	f.Fuzz(func(t *testing.T, b []byte) {
		table, err := unmarshalTable(b)
		if err != nil {
			return
		}
		again, err := marshalTable(table)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := unmarshalTable(again); err != nil || !back.Equal(table) {
			t.Fatalf("%+v became %+v, %v", table, back, err)
		}
	})
}

// sevenColumns is the row of the benchmarks: about 200 bytes of values.
func sevenColumns() connectors.Change {
	kinds := []connectors.Kind{connectors.Int, connectors.Int, connectors.Text, connectors.Decimal, connectors.TimestampTZ, connectors.Bool, connectors.Text}
	t := &connectors.Table{Dialect: "postgres", Database: "shop", Schema: "public", Name: "orders", Key: []int{0}}
	for i, k := range kinds {
		t.Columns = append(t.Columns, connectors.Column{Name: "column_" + strconv.Itoa(i), Kind: k})
	}
	return connectors.Change{
		Op: connectors.Insert, Table: t, Time: testTime, Origin: []byte(`"txId":771,"lsn":24023128`),
		After: []connectors.Value{
			connectors.IntValue(1234567), connectors.IntValue(42), data(connectors.Text, "customer@example.com"), data(connectors.Decimal, "1234.50"),
			data(connectors.TimestampTZ, "2026-01-30T17:34:56.123456Z"), connectors.BoolValue(true), data(connectors.Text, strings.Repeat("note ", 24)),
		},
	}
}

func BenchmarkEncode(b *testing.B) {
	c, e := sevenColumns(), NewJSON(testOrigin)
	var key, value []byte
	b.ReportAllocs()
	for b.Loop() {
		key, _ = e.AppendKey(key[:0], c.Table, c.After, nil)
		value, _ = e.AppendValue(value[:0], &c, testNow)
	}
	b.SetBytes(int64(len(value)))
}

func BenchmarkDecode(b *testing.B) {
	c := sevenColumns()
	value, _ := NewJSON(testOrigin).AppendValue(nil, &c, testNow)
	d := NewDecoder(nil)
	d.plans[7] = newDecodePlan(7, c.Table)
	r := log.Record{Value: value, Headers: []log.Header{{Key: HeaderSchema, Value: []byte("7")}}}
	var arena Arena
	n := 0
	b.SetBytes(int64(len(value)))
	b.ReportAllocs()
	for b.Loop() {
		if n++; n%5000 == 0 {
			arena.Reset()
		}
		if _, err := d.Decode(b.Context(), &r, &c, &arena); err != nil {
			b.Fatal(err)
		}
	}
}
