package codec

import (
	"strings"
	"testing"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

func TestFormatRefuses(t *testing.T) {
	for name, change := range map[string]func(*Format){
		"envelope":                      func(f *Format) { f.Envelope = "other" },
		"decimal.handling.mode":         func(f *Format) { f.Decimal = "exact" },
		"time.precision.mode":           func(f *Format) { f.Time = "seconds" },
		"binary.handling.mode":          func(f *Format) { f.Binary = "utf8" },
		"interval.handling.mode":        func(f *Format) { f.Interval = "text" },
		"hstore.handling.mode":          func(f *Format) { f.Hstore = "array" },
		"bigint.unsigned.handling.mode": func(f *Format) { f.Unsigned = "short" },
		"skipped.operations":            func(f *Format) { f.Skipped = "c,x" },
		"add.fields":                    func(f *Format) { f.Envelope, f.AddFields = Flat, []string{"source.colour"} },
		"is for envelope: flat":         func(f *Format) { f.AddFields = []string{"table"} },
		"tombstones.on.delete is for":   func(f *Format) { f.Tombstones = false },
	} {
		f := DefaultFormat()
		change(&f)
		if err := f.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	f := DefaultFormat()
	if err := f.Validate(); err != nil {
		t.Error(err)
	}
}

func TestJavaNumbers(t *testing.T) {
	for text, want := range map[string]string{
		"0": "0.0", "-0.0": "-0.0", "1": "1.0", "0.001": "0.001", "0.0001": "1.0E-4", "9999999": "9999999.0", "1e7": "1.0E7", "123456789": "1.23456789E8",
		"1e300": "1.0E300", "NaN": `"NaN"`, "Infinity": `"Infinity"`, "-Infinity": `"-Infinity"`, "1e999": `"Infinity"`, "-12.5": "-12.5",
	} {
		if got, ok := appendDouble(nil, []byte(text), 64); !ok || string(got) != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// The bytes are those of Java's BigInteger.toByteArray, in base64.
func TestUnscaled(t *testing.T) {
	for _, c := range []struct {
		text  string
		scale int
		want  string
		used  int
	}{
		{"0", 0, "AA==", 0}, {"1.10", 2, "bg==", 2}, {"-0.01", 2, "/w==", 2}, {"128", 0, "AIA=", 0}, {"-128", 0, "gA==", 0}, {"-129", 0, "/38=", 0},
		{"255.00", -1, "AP8=", 0}, {"0.10", -1, "AQ==", 1}, {"12345678901234567890.123456789012345678", 18, "CUmw9vACMxPESZBQ3jjzTg==", 18},
		{"12345678901234567890123456789012345678901234567890", -1, "CHJ/Y2mq+DyhUCZ0evjH8ZbOPwrS", 0}, {"-128.000000000000000000", 18, "+Q+kpixOAAAA", 18},
	} {
		got, used, ok := appendUnscaled(nil, []byte(c.text), c.scale)
		if !ok || string(got) != c.want || used != c.used {
			t.Errorf("%s with scale %d: %s %d %v, want %s %d", c.text, c.scale, got, used, ok, c.want, c.used)
		}
	}
	for _, text := range []string{"NaN", "Infinity", "", "-"} {
		if got, _, ok := appendUnscaled(nil, []byte(text), 2); ok && text != "-" {
			t.Errorf("%q is taken for a number: %s", text, got)
		}
	}
}

func FuzzMoment(f *testing.F) {
	for _, seed := range []string{"2026-01-30", "2026-01-30T12:34:56.123456Z", "0044-03-15 12:00:00 BC", "infinity", "0000-00-00", "294276-12-31 23:59:59.999999", "-", ""} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		m, ok := parseMoment(text)
		if !ok || m.forever != 0 || m.micros < 0 || m.micros >= microsOfDay {
			return
		}
		again, ok := parseMoment(appendMoment(nil, m, 6))
		if year := time.Unix(m.days*86400, 0).UTC().Year(); year >= 0 && year <= 9999 && (!ok || again != m) {
			t.Errorf("%q: %+v comes back as %+v", text, m, again)
		}
	})
}

func FuzzDuration(f *testing.F) {
	f.Add([]byte("1 year 2 mons -3 days +04:05:06.789"))
	f.Add([]byte("-178000000 years"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if d, ok := parseDuration(text); ok {
			d.appendISO(nil)
		}
	})
}

// A value that a conversion has no place for becomes null, or zero where the column is NOT NULL, and stops nothing.
func TestConversionsTakeEverything(t *testing.T) {
	odd := [][]byte{nil, {}, []byte("x"), []byte("'"), []byte("0000-00-00"), []byte("NaN"), []byte("infinity"), []byte(`{"a":1}`), []byte(`[1,"x",null,[2]]`), {0xff}}
	for _, envelope := range []Envelope{Debezium, Flat, CloudEvents} {
		for _, dialect := range []string{"postgres", "mysql", "sqlite"} {
			for kind := connectors.Bool; kind <= connectors.Map; kind++ {
				for _, typ := range []string{"", "x", "numeric(5,2)", "timestamp(3)", "bit(9)", "point", "time(3) with time zone", "integer[]"} {
					table := &connectors.Table{Dialect: dialect, Schema: "s", Name: "t", Key: []int{0}, Columns: []connectors.Column{
						{Name: "id", Kind: connectors.Int, Type: "integer"}, {Name: "v", Kind: kind, Type: typ, Elem: connectors.Int},
						{Name: "n", Kind: kind, Type: typ, Elem: connectors.Int, NotNull: true}}}
					f := DefaultFormat()
					f.Envelope = envelope
					e, err := NewEncoder(f, Origin{Name: "s"}, (*connectors.Table).FullName)
					if err != nil {
						t.Fatal(err)
					}
					for _, data := range odd {
						v := connectors.DataValue(max(kind, connectors.Float), data)
						if kind < connectors.Float {
							v = connectors.IntValue(-1)
						}
						row := []connectors.Value{connectors.IntValue(1), v, v}
						out, err := e.AppendValue(nil, &connectors.Change{Op: connectors.Insert, Table: table, After: row}, time.Unix(1, 0))
						if err != nil || !connectors.ValidJSON(out) {
							t.Fatalf("%s %s %v %q %q: %v: %s", envelope, dialect, kind, typ, data, err, out)
						}
					}
				}
			}
		}
	}
}

// orderInsert is an insert with values of most kinds of PostgreSQL.
func orderInsert() connectors.Change {
	column := func(name, typ string, kind connectors.Kind) connectors.Column {
		return connectors.Column{Name: name, Type: typ, Kind: kind}
	}
	text := func(kind connectors.Kind, s string) connectors.Value { return connectors.DataValue(kind, []byte(s)) }
	return connectors.Change{Op: connectors.Insert, Time: time.UnixMilli(1769776496123), Origin: []byte(`"txId":771,"lsn":24023128,"xmin":null`),
		Table: &connectors.Table{Dialect: "postgres", Database: "shop", Schema: "public", Name: "orders", Key: []int{0}, Columns: []connectors.Column{
			column("id", "bigint", connectors.Int), column("amount", "numeric(10,2)", connectors.Decimal), column("any", "numeric", connectors.Decimal),
			column("note", "text", connectors.Text), column("at", "timestamp with time zone", connectors.TimestampTZ), column("day", "date", connectors.Date),
			column("ratio", "double precision", connectors.Float), column("span", "interval", connectors.Interval), column("data", "bytea", connectors.Bytes),
			column("clock", "time without time zone", connectors.Time), column("flags", "bit(8)", connectors.Bits)}},
		After: []connectors.Value{connectors.IntValue(42), text(connectors.Decimal, "12.50"), text(connectors.Decimal, "1.100"), text(connectors.Text, "a \"note\""),
			text(connectors.TimestampTZ, "2026-01-30T12:34:56.123456Z"), text(connectors.Date, "2026-01-30"), text(connectors.Float, "1e+300"),
			text(connectors.Interval, "1 mon 2 days 03:04:05.6"), text(connectors.Bytes, "\x00\xff"), text(connectors.Time, "12:34:56.5"), text(connectors.Bits, "10000001")}}
}

// Values are written without a piece of memory for each.
func TestConversionsAllocateNothing(t *testing.T) {
	c := orderInsert()
	f := DefaultFormat()
	f.Envelope = Debezium
	e, err := NewEncoder(f, Origin{Name: "shop"}, (*connectors.Table).FullName)
	if err != nil {
		t.Fatal(err)
	}
	var key, value []byte
	write := func() {
		key, _ = e.AppendKey(key[:0], c.Table, c.After, nil)
		value, _ = e.AppendValue(value[:0], &c, time.Unix(1, 0))
	}
	write()
	// An interval is parted into its words.
	if n := testing.AllocsPerRun(100, write); n > 1 {
		t.Errorf("%v allocations for a row of %d columns", n, len(c.Table.Columns))
	}
}

func BenchmarkEncodeDebezium(b *testing.B) {
	for name, schemas := range map[string]bool{"with schemas": true, "without schemas": false} {
		b.Run(name, func(b *testing.B) {
			c := orderInsert()
			f := DefaultFormat()
			f.Envelope, f.Schemas = Debezium, schemas
			e, err := NewEncoder(f, Origin{Name: "shop"}, (*connectors.Table).FullName)
			if err != nil {
				b.Fatal(err)
			}
			var key, value []byte
			b.ReportAllocs()
			for b.Loop() {
				key, _ = e.AppendKey(key[:0], c.Table, c.After, nil)
				value, _ = e.AppendValue(value[:0], &c, time.Unix(1, 0))
			}
			b.SetBytes(int64(len(value)))
		})
	}
}
