package postgres

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

// typeCases are types of PostgreSQL with values at their edges, as SQL literals. NULL is added to each.
var typeCases = []struct {
	typ    string
	values []string
}{
	{"boolean", []string{"true", "false"}},
	{"smallint", []string{"-32768", "32767"}},
	{"integer", []string{"-2147483648", "2147483647", "0"}},
	{"bigint", []string{"-9223372036854775808", "9223372036854775807"}},
	{"oid", []string{"4294967295"}},
	{"real", []string{"1.1", "-0.0", "'NaN'", "'Infinity'", "'-Infinity'", "1e-45", "3.4028235e38"}},
	{"double precision", []string{"0.1", "-0.0", "'NaN'", "'Infinity'", "'-Infinity'", "5e-324", "1.7976931348623157e308", "1e15", "9007199254740993"}},
	{"numeric", []string{"0", "0.00", "1.10", "-1.10", "1e40", "1e-40", "'NaN'", "'Infinity'", "'-Infinity'", "12345678901234567890.123456789", "0.0001", "10000", "100000000.00010000", "-99999999"}},
	{"numeric(10,2)", []string{"1.1", "-99999999.99", "'NaN'", "0"}},
	{"numeric(30,10)", []string{"12345678901234567890.0123456789"}},
	{"money", []string{"-1234.5", "92233720368547758.07"}},
	{"text", []string{"''", "'NULL'", `'\N'`, `E'\\.'`, `E'a\tb\nc\rd\\e'`, "'naïve 漢字 🙂'", `'"quoted"'`, "repeat('long', 5000)"}},
	{"character varying(5)", []string{"'abcde'", "'é漢🙂'", "'a  '"}},
	{"character(5)", []string{"'ab'", "''"}},
	{"name", []string{"'n'"}},
	{"bytea", []string{`'\x'`, `'\x00ff5c0a09'`}},
	{"date", []string{"'2026-01-30'", "'infinity'", "'-infinity'", "'4713-01-01 BC'", "'0044-03-15 BC'", "'5874897-12-31'", "'0001-01-01'", "'2000-02-29'", "'1999-12-31'"}},
	{"time without time zone", []string{"'24:00:00'", "'00:00'", "'12:34:56.123456'", "'23:59:59.1'"}},
	{"time with time zone", []string{"'24:00:00-15:59'", "'12:34:56.5+02'"}},
	{"timestamp without time zone", []string{"'2026-01-30 12:34:56.123456'", "'infinity'", "'-infinity'", "'294276-12-31 23:59:59.999999'", "'0044-03-15 12:00 BC'", "'1969-12-31 23:59:59.999999'", "'2000-01-01'"}},
	{"timestamp with time zone", []string{"'2026-01-30 12:34:56.123456-05'", "'infinity'", "'-infinity'", "'0044-03-15 12:00+00 BC'", "'1999-12-31 23:59:59.9Z'", "'10000-01-01Z'"}},
	{"timestamp(0) with time zone", []string{"'2026-01-30 12:34:56.6Z'"}},
	{"timestamp(3) without time zone", []string{"'2026-01-30 12:34:56.123456'"}},
	{"interval", []string{"'1 year 2 mons -3 days 04:05:06.789'", "'-1 sec'", "'0'"}},
	{"uuid", []string{"'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'"}},
	{"json", []string{`'{"b":1,  "a":2,"a":3}'`, `'{"k":"x\u0000y"}'`, `'null'`, `'"s"'`}},
	{"jsonb", []string{`'{"n":1234567890123456789,"d":0.10,"z":18446744073709551615}'`, `'null'`, `'[1,"\\u0000"]'`}},
	{"xml", []string{"'<a>b</a>'", "'text'"}},
	{"bit(3)", []string{"B'101'"}},
	{"bit varying", []string{"B''", "B'1000000000000000000000000000000000000000000000000000000000000001'"}},
	{"inet", []string{"'::1/64'", "'10.0.0.1'"}},
	{"cidr", []string{"'10.0.0.0/8'"}},
	{"macaddr", []string{"'08:00:2b:01:02:03'"}},
	{"point", []string{"'(1.5,-0)'"}},
	{"int4range", []string{"'[1,5)'", "'empty'", "'(,)'"}},
	{"tstzrange", []string{"'[2026-01-01 00:00+00,)'"}},
	{"int4multirange", []string{"'{[1,3),[5,9)}'"}},
	{"tsvector", []string{"'a:1 b:2'"}},
	{"pg_lsn", []string{"'16/B374D848'"}},
	{"public.mood", []string{"'sad'", `'it''s "ok", {}'`}},
	{"public.pair", []string{`ROW(1, 'a "b",c')`, "ROW(NULL, NULL)"}},
	{"public.positive", []string{"7"}},
	{"public.hstore", []string{`'a=>1, "b \" c"=>NULL, ""=>""'`, "''"}},
	{"public.citext", []string{"'MiXed'"}},
	{"integer[]", []string{"'{}'", "'{1,NULL,-3}'", "'{{1,2},{3,4}}'", "'[0:1]={5,6}'"}},
	{"text[]", []string{`ARRAY['a"b', 'c\d', '', 'NULL', 'null', NULL, '{x}', ' sp ', E'\n', 'é🙂']`, "'{}'", "'{{a,b},{c,d}}'"}},
	{"boolean[]", []string{"'{t,f,NULL}'"}},
	{"bytea[]", []string{`ARRAY['\x00ff'::bytea, NULL, '\x']`}},
	{"numeric[]", []string{"'{1.10,NaN,-Infinity}'"}},
	{"double precision[]", []string{"'{0.1,NaN,-0}'"}},
	{"jsonb[]", []string{`ARRAY['{"a":"\"x\""}'::jsonb, 'null']`}},
	{"timestamp with time zone[]", []string{"'{2026-01-30 12:34:56.5+00,infinity}'"}},
	{"box[]", []string{"'{(2,2),(1,1);(4,4),(3,3)}'"}},
	{"public.mood[]", []string{`ARRAY['sad', 'it''s "ok", {}']::public.mood[]`}},
	{"public.hstore[]", []string{`ARRAY['a=>1, b=>NULL'::public.hstore]`}},
	{"bit varying[]", []string{"'{101,0}'"}},
}

const typeObjects = `CREATE EXTENSION IF NOT EXISTS hstore SCHEMA public; CREATE EXTENSION IF NOT EXISTS citext SCHEMA public;
	CREATE TYPE public.mood AS ENUM ('sad', 'it''s "ok", {}'); CREATE TYPE public.pair AS (n int, t text); CREATE DOMAIN public.positive AS int CHECK (value > 0)`

// TestSinkKeepsEveryType reads the text of every value as the source does, writes it through the sink into a table that
// the sink created, and compares the two tables inside the server.
func TestSinkKeepsEveryType(t *testing.T) {
	st := newSinkTest(t)
	st.exec(typeObjects)
	s := st.open(func(c *SinkConfig) { c.Table = "copy.{table}" })
	for i, c := range typeCases {
		name := fmt.Sprintf("kept%d", i)
		st.exec(fmt.Sprintf("CREATE TABLE %s (id int PRIMARY KEY, v %s)", name, c.typ))
		for n, v := range append(c.values, "NULL") {
			st.exec(fmt.Sprintf("INSERT INTO %s VALUES (%d, %s)", name, n, v))
		}
		table, changes := st.snapshot(name)
		st.migrate(s, nil, table)
		if err := s.Write(t.Context(), batchOf(changes...)); err != nil {
			t.Errorf("%s: %v", c.typ, err)
			continue
		}
		for i := range changes { // once more, by way of the stage
			changes[i].Op = connectors.Update
		}
		st.write(s, changes...)
		const typeOf = "SELECT format_type(coalesce(nullif(typbasetype, 0), a.atttypid), a.atttypmod) FROM pg_attribute a JOIN pg_type t ON t.oid = atttypid WHERE attname = 'v' AND attrelid = "
		st.want(typeOf+"'copy."+name+"'::regclass", st.query(typeOf+"'public."+name+"'::regclass"))
		st.want("SELECT id, v FROM copy."+name+" ORDER BY id", st.query("SELECT id, v FROM public."+name+" ORDER BY id"))
	}
}

// snapshot reads a table as the source does: the description of the catalog, and each value from its text.
func (t *sinkTest) snapshot(name string) (*connectors.Table, []connectors.Change) {
	t.Helper()
	config := DefaultSourceConfig()
	config.DSN, config.Tables = t.url, []connectors.TableSpec{{Name: "public." + name}}
	dial, err := newDialer(config, "test")
	if err != nil {
		t.Fatal(err)
	}
	c := &catalog{dial: dial, config: &config, types: map[uint32]*typeInfo{}, texts: map[typeRef]string{}}
	defer c.close(t.Context())
	relations, err := c.relations(t.Context())
	if err != nil || len(relations) != 1 {
		t.Fatalf("describe %s: %v", name, err)
	}
	shape, err := c.shapeOf(t.Context(), relations[0])
	if err != nil {
		t.Fatal(err)
	}
	t.exec("SET search_path = ''; SET datestyle = 'ISO, YMD'; SET lc_monetary = 'C'")
	defer t.exec("SET search_path = public")
	results, err := t.conn.PgConn().Exec(t.Context(), "SELECT * FROM public."+name+" ORDER BY id").ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var changes []connectors.Change
	for _, fields := range results[0].Rows {
		r := &rows{}
		var after []connectors.Value
		for i, f := range fields {
			if f == nil {
				after = append(after, connectors.NullValue())
				continue
			}
			after = append(after, shape.decoders[i].value(r, f))
		}
		changes = append(changes, connectors.Change{Op: connectors.Snapshot, Table: shape.table, After: after})
	}
	return shape.table, changes
}

// TestSinkTakesTheKindsOfOtherSystems checks the columns and values that come without a type of PostgreSQL.
func TestSinkTakesTheKindsOfOtherSystems(t *testing.T) {
	st := newSinkTest(t)
	s := st.open(nil)
	table := &connectors.Table{Dialect: "mysql", Schema: "shop", Name: "kinds", Key: []int{0}}
	var image []connectors.Value
	add := func(kind connectors.Kind, v connectors.Value) {
		table.Columns = append(table.Columns, connectors.Column{Name: kind.String(), Type: "whatever", Kind: kind})
		image = append(image, v)
	}
	add(connectors.Uint, connectors.UintValue(18446744073709551615))
	add(connectors.Bool, connectors.BoolValue(true))
	add(connectors.Int, connectors.IntValue(-9223372036854775808))
	for _, v := range []struct {
		kind connectors.Kind
		text string
	}{{connectors.Float, "5e-324"}, {connectors.Text, "x\\y"}, {connectors.Bytes, "\x00\xff"}, {connectors.Decimal, "1.10"},
		{connectors.JSON, `{"b":1.0,  "a":1}`}, {connectors.Date, "2026-01-30"}, {connectors.Time, "24:00:00"},
		{connectors.Timestamp, "2026-01-30T12:34:56.123456"}, {connectors.TimestampTZ, "2026-01-30T17:34:56.123456Z"},
		{connectors.Interval, "-838:59:59.5"}, {connectors.Bits, "101"}, {connectors.Array, `[1,["a"]]`}, {connectors.Map, `{"k":null}`}} {
		add(v.kind, connectors.DataValue(v.kind, []byte(v.text)))
	}
	st.migrate(s, nil, table)
	st.write(s, connectors.Change{Op: connectors.Insert, Table: table, After: image})
	st.want("SELECT * FROM shop.kinds", strings.Join([]string{"18446744073709551615", "t", "-9223372036854775808", "5e-324", `x\y`, `\x00ff`, "1.10",
		`{"b":1.0,  "a":1}`, "2026-01-30", "24:00:00", "2026-01-30 12:34:56.123456", "2026-01-30 17:34:56.123456+00", "-838:59:59.5", "101",
		`[1, ["a"]]`, `{"k": null}`}, "|"))
}

// TestSinkWritesIntoTablesOfOtherTypes checks targets that someone made with types of their own.
func TestSinkWritesIntoTablesOfOtherTypes(t *testing.T) {
	st := newSinkTest(t)
	st.exec("CREATE TABLE other (id text PRIMARY KEY, flag smallint, note bytea, n numeric, j text, day timestamptz)")
	s := st.open(nil)
	table := tableOf("other", 1, "id bigint", "flag boolean", "note text", "n text", "j integer[]", "day date")
	st.migrate(s, nil, table)
	st.write(s, inserted(table, 7, connectors.BoolValue(true), "é", "1.50", "[1,2]", "2026-01-30"), inserted(table, 8, nil, nil, nil, nil, nil))
	st.write(s, deleted(table, 8))
	st.want("SELECT * FROM other", `7|1|\xc3a9|1.50|[1,2]|2026-01-30 00:00:00+00`)
}

func FuzzSinkText(f *testing.F) {
	for _, seed := range []string{`[1,null,"a\"b",[true]]`, `{"a":null,"b":"c"}`, `[`, `[[]]`, "", "\\\n\t\r", `{"a"`, `[{"x":1}]`, ` [ 1 , 2 ] `, ` { "a" : "b" } `} {
		f.Add([]byte(seed))
	}
	columns := []*targetColumn{{elem: 25, delimiter: ','}, {elem: oidBytea, delimiter: ';'}, {hstore: true}, {oid: 25}, {oid: oidBytea}}
	f.Fuzz(func(t *testing.T, data []byte) {
		var e textEncoder
		for _, kind := range []connectors.Kind{connectors.Array, connectors.Map, connectors.Text, connectors.Bytes, connectors.Decimal} {
			for _, c := range columns {
				field, err := e.appendField(nil, c, connectors.DataValue(kind, data))
				if err == nil && strings.ContainsAny(string(field), "\t\n\r") {
					t.Fatalf("%v: %q has a separator: %q", kind, data, field)
				}
			}
		}
	})
}

func FuzzSinkBinary(f *testing.F) {
	for _, seed := range []string{"-12345.6780", "NaN", "2026-01-30T12:34:56.123456Z", "24:00:00", "1e5", "", ".", "-", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for kind := connectors.Float; kind <= connectors.Map; kind++ {
			for form := binaryText; form <= binaryJSONB; form++ {
				appendBinary(nil, form, connectors.DataValue(kind, data))
			}
		}
	})
}

// TestSinkBinaryDates compares with the standard library on every day of four centuries and at the ends.
func TestSinkBinaryDates(t *testing.T) {
	t.Parallel()
	start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, first := range []time.Time{time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(1799, 12, 31, 23, 59, 59, 999999000, time.UTC), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)} {
		for day := range 365 {
			for _, years := range []int{0, 100, 200, 300, 400} {
				d := first.AddDate(years, 0, day)
				text := []byte(d.Format("2006-01-02T15:04:05.000000"))
				micros, rest, ok := parseTimestamp(text)
				if want := d.UnixMicro() - start.UnixMicro(); d.Year() <= 9999 && (!ok || len(rest) != 0 || micros != want) {
					t.Fatalf("%s: %d %q %v, want %d", text, micros, rest, ok, want)
				}
			}
		}
	}
	for _, text := range []string{"2026-02-29T00:00:00", "2026-13-01T00:00:00", "0000-01-01T00:00:00", "2026-01-01T00:00:60", "2026-01-01T24:00:01", "2026-01-01 00:00:00", "2026-01-01T00:00:00.1234567"} {
		if _, _, ok := parseTimestamp([]byte(text)); ok {
			t.Errorf("%s is taken", text)
		}
	}
}
