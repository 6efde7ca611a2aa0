package postgres

import (
	"fmt"
	"strings"
	"testing"

	"github.com/trunkline/trunkline/connectors"
)

// formCase is a type, the kind of its column, and literals with the canonical form of what they mean. The kind of a value
// is the column's, unless its form begins with another one in angle brackets.
type formCase struct {
	typ    string
	kind   connectors.Kind
	values [][2]string
}

func same(literals ...string) (out [][2]string) {
	for _, l := range literals {
		out = append(out, [2]string{l, l})
	}
	return out
}

var formCases = []formCase{
	{"smallint", connectors.Int, same("-32768", "32767", "0")},
	{"integer", connectors.Int, same("-2147483648", "2147483647")},
	{"bigint", connectors.Int, same("-9223372036854775808", "9223372036854775807", "9007199254740993")},
	{"oid", connectors.Int, same("4294967295", "0")},
	{"xid", connectors.Int, same("4294967295")},
	{"xid8", connectors.Uint, same("18446744073709551615")},
	{"real", connectors.Float, [][2]string{{"1.1", "1.1"}, {"1e20", "1e+20"}, {"-0", "-0.0"}, {"NaN", "NaN"}, {"-Infinity", "-Infinity"}, {"16777216", "1.6777216e+07"}}},
	{"double precision", connectors.Float, [][2]string{{"0.1", "0.1"}, {"0.30000000000000004", "0.30000000000000004"}, {"-0", "-0.0"}, {"0", "0"},
		{"5e-324", "5e-324"}, {"NaN", "NaN"}, {"Infinity", "Infinity"}, {"9007199254740993", "9.007199254740992e+15"}}},
	{"numeric", connectors.Decimal, same("1.10", "0.0000000000000000000000001", "12345678901234567890.123456789", "NaN", "Infinity", "-Infinity", "-0.00")[:6]},
	{"numeric(10,2)", connectors.Decimal, [][2]string{{"1.1", "1.10"}, {"NaN", "NaN"}, {"99999999.99", "99999999.99"}}},
	{"money", connectors.Decimal, [][2]string{{"-1234.5", "-1234.50"}, {"92233720368547758.07", "92233720368547758.07"}}},
	{"boolean", connectors.Bool, [][2]string{{"t", "true"}, {"f", "false"}}},
	{"text", connectors.Text, same("", " a ", "tab\tnl\ncr\rback\\slash", `\N`, `\.`, "表😀", `"quoted"`, "null", "a\\tb")},
	{"varchar(5)", connectors.Text, same("abc", "")},
	{"char(5)", connectors.Text, [][2]string{{"ab", "ab   "}, {"", "     "}}},
	{`"char"`, connectors.Text, same("x", "")},
	{"name", connectors.Text, same("it's")},
	{"bytea", connectors.Bytes, [][2]string{{`\x`, ""}, {`\x00ff5c`, "\x00\xff\\"}}},
	{"date", connectors.Date, same("2026-01-30", "infinity", "-infinity", "0044-03-15 BC", "4713-01-01 BC", "5874897-12-31")},
	{"time", connectors.Time, same("24:00:00", "00:00:00", "12:34:56.123456", "00:00:00.5")},
	{"timetz", connectors.Time, same("12:34:56.5+02", "00:00:00-15:59:59")},
	{"timestamp", connectors.Timestamp, [][2]string{{"2026-01-30 12:34:56.123456", "2026-01-30T12:34:56.123456"}, {"2026-01-30 12:34:56", "2026-01-30T12:34:56"},
		{"-infinity", "-infinity"}, {"0044-03-15 12:00:00 BC", "0044-03-15 12:00:00 BC"}, {"294276-12-31 23:59:59.999999", "294276-12-31 23:59:59.999999"}}},
	{"timestamptz", connectors.TimestampTZ, [][2]string{{"2026-01-30 12:34:56.123456-05", "2026-01-30T17:34:56.123456Z"}, {"2026-01-30 00:00+05:30", "2026-01-29T18:30:00Z"},
		{"infinity", "infinity"}, {"0044-03-15 12:00+00 BC", "0044-03-15 12:00:00+00 BC"}, {"12000-01-01 00:00+00", "12000-01-01 00:00:00+00"}}},
	{"interval", connectors.Interval, same("1 year 2 mons -3 days +04:05:06.7", "00:00:00", "-178000000 years")},
	{"uuid", connectors.Text, same("00000000-0000-0000-0000-000000000000")},
	{"json", connectors.JSON, same(`{"b":1,  "a":2,"a":3}`, "null", ` [ 1.0 ] `)},
	{"jsonb", connectors.JSON, [][2]string{{`{"n":1234567890123456789,"d":0.10,"z":18446744073709551615}`, `{"d": 0.10, "n": 1234567890123456789, "z": 18446744073709551615}`}, {"null", "null"}}},
	{"xml", connectors.Text, same("<a>1</a>")},
	{"bit(5)", connectors.Bits, same("10101")},
	{"varbit", connectors.Bits, same("", "101")},
	{"inet", connectors.Text, same("192.0.2.1", "192.0.2.1/24", "2001:db8::1")},
	{"point", connectors.Text, [][2]string{{"(1,2)", "(1,2)"}, {"(0.1,-0)", "(0.1,-0)"}}},
	{"int4range", connectors.Text, same("[1,3)", "empty", "(,)")},
	{"tstzrange", connectors.Text, [][2]string{{"[2026-01-01 00:00-05,)", `["2026-01-01 05:00:00+00",)`}}},
	{"tsvector", connectors.Text, same("'a':1 'b':2")},
	{"int2vector", connectors.Text, same("1 2 3", "")},
	{"pg_lsn", connectors.Text, same("16/B374D848")},
	{"regclass", connectors.Text, [][2]string{{"pg_class", "pg_class"}, {"other.here", "other.here"}}},
	{"other.mood", connectors.Text, same("sad", `comma, "quote"`, "")},
	{"other.price", connectors.Decimal, [][2]string{{"1.5", "1.50"}}},
	{"other.small_price", connectors.Decimal, [][2]string{{"1.5", "1.50"}}},
	{"other.pair", connectors.Text, same(`(1,"a,b")`, "(,)", `(,"say ""hi""")`)},
	{"other.hstore", connectors.Map, [][2]string{{`a=>1, b=>NULL`, `{"a":"1","b":null}`}, {"", "{}"}, {`"q\""=>"\\,=>", "NULL"=>"NULL"`, `{"q\"":"\\,=>","NULL":"NULL"}`}}},
	{"int[]", connectors.Array, [][2]string{{"{1,NULL,-3}", "[1,null,-3]"}, {"{}", "[]"}, {"{{1,2},{3,4}}", "[[1,2],[3,4]]"}, {"[0:1]={1,2}", "<text>[0:1]={1,2}"}}},
	{"bigint[]", connectors.Array, [][2]string{{"{9007199254740993}", "[9007199254740993]"}}},
	{"text[]", connectors.Array, [][2]string{{`{a,"b c","",NULL,"NULL","q\"","back\\","{x}","a,b"}`, `["a","b c","",null,"NULL","q\"","back\\","{x}","a,b"]`}}},
	{"numeric[]", connectors.Array, [][2]string{{"{1.10,NaN}", `["1.10","NaN"]`}}},
	{"float8[]", connectors.Array, [][2]string{{"{1.5,NaN,-0,-Infinity}", `[1.5,"NaN",-0.0,"-Infinity"]`}}},
	{"money[]", connectors.Array, [][2]string{{`{"1,234.56"}`, `["1234.56"]`}}},
	{"bool[]", connectors.Array, [][2]string{{"{t,f,NULL}", "[true,false,null]"}}},
	{"bytea[]", connectors.Array, [][2]string{{`{"\\x00ff",""}`, `["AP8=",""]`}}},
	{"timestamptz[]", connectors.Array, [][2]string{{`{"2026-01-30 00:00+00",infinity}`, `["2026-01-30T00:00:00Z","infinity"]`}}},
	{"jsonb[]", connectors.Array, [][2]string{{`{"{\"a\": 1}","null",NULL}`, `["{\"a\": 1}","null",null]`}}},
	{"box[]", connectors.Array, [][2]string{{"{(1,1),(0,0);(3,3),(2,2)}", `["(1,1),(0,0)","(3,3),(2,2)"]`}}},
	{"other.mood[]", connectors.Array, [][2]string{{`{sad,""}`, `["sad",""]`}}},
	{"other.price[]", connectors.Array, [][2]string{{"{1.5}", `["1.50"]`}}},
	{"other.pair[]", connectors.Array, [][2]string{{`{"(1,\"a,b\")"}`, `["(1,\"a,b\")"]`}}},
	{"other.hstore[]", connectors.Array, [][2]string{{`{"\"a\"=>NULL"}`, `[{"a":null}]`}}},
	{"other.tags", connectors.Array, [][2]string{{`{a,b}`, `["a","b"]`}}},
}

// TestValuesMeanTheSameFromSnapshotAndStream takes every type through both, on a database whose own settings would
// change most texts.
func TestValuesMeanTheSameFromSnapshotAndStream(t *testing.T) {
	t.Parallel()
	statements := []string{`CREATE SCHEMA other`, `CREATE EXTENSION hstore SCHEMA other`, `CREATE TYPE other.mood AS ENUM ('sad', 'comma, "quote"', '')`,
		`CREATE DOMAIN other.price AS numeric(12,2)`, `CREATE DOMAIN other.small_price AS other.price CHECK (VALUE < 100)`, `CREATE TYPE other.pair AS (n int, t text)`,
		`CREATE DOMAIN other.tags AS text[]`, `CREATE TABLE other.here ()`}
	create, inserts := `CREATE TABLE types (id int PRIMARY KEY`, []string{}
	for i, c := range formCases {
		create += fmt.Sprintf(", v%d %s", i, c.typ)
	}
	statements = append(statements, create+")")
	for j := range 10 {
		insert := fmt.Sprintf(`INSERT INTO types VALUES ($offset + %d`, j)
		for _, c := range formCases {
			if j < len(c.values) {
				insert += fmt.Sprintf(", %s::%s", literal(c.values[j][0]), c.typ)
			} else {
				insert += ", NULL"
			}
		}
		inserts = append(inserts, insert+")")
	}
	h := newHarness(t, "public.types", statements...)
	for _, setting := range []string{"datestyle = 'SQL, DMY'", "intervalstyle = 'iso_8601'", "timezone = 'Asia/Tokyo'", "bytea_output = 'escape'",
		"extra_float_digits = -5", "search_path = other, public"} {
		h.exec(fmt.Sprintf("ALTER DATABASE %s SET %s", ident(h.name), setting))
	}
	for _, insert := range inserts {
		h.exec(strings.ReplaceAll(insert, "$offset", "0"))
	}
	h.open()
	h.catchUp()
	for _, insert := range inserts {
		h.exec(strings.ReplaceAll(insert, "$offset", "100"))
	}
	h.catchUp()
	got := model(t, h.changes)["public.types"]
	for i, c := range formCases {
		for offset, phase := range map[int]string{0: "snapshot", 100: "stream"} {
			for j := range 10 {
				row := got[fmt.Sprintf("int\x00%d\x00", offset+j)]
				if row == nil {
					t.Fatalf("%s: row %d is missing", phase, j)
				}
				v, want := row[i+1], connectors.NullValue()
				if j < len(c.values) {
					want = connectors.DataValue(c.kind, []byte(c.values[j][1]))
					if text, ok := strings.CutPrefix(c.values[j][1], "<text>"); ok {
						want = connectors.DataValue(connectors.Text, []byte(text))
					}
				}
				if v.Kind() != want.Kind() || string(v.AppendText(nil)) != string(want.Data()) {
					t.Errorf("%s, %s, row %d: %s %q, want %s %q", c.typ, phase, j, v.Kind(), v.AppendText(nil), want.Kind(), want.Data())
				}
			}
		}
		if column := h.changes[0].Table.Columns[i+1]; column.Kind != c.kind {
			t.Errorf("column of %s has kind %s", c.typ, column.Kind)
		}
	}
}

func TestColumnsAreDescribed(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "public.c", `CREATE SCHEMA other`, `CREATE TYPE other.mood AS ENUM ('sad', 'happy')`, `CREATE DOMAIN other.price AS numeric(12,2)`,
		`CREATE TABLE c (gone int, id int, n numeric(10,2) NOT NULL, m other.mood, p other.price, a varchar(5)[], k text, PRIMARY KEY (k, id))`,
		`ALTER TABLE c DROP gone`, `INSERT INTO c VALUES (1, 1, 'sad', 1, '{}', 'x')`)
	h.open()
	h.catchUp()
	h.exec(`INSERT INTO c VALUES (2, 1, 'happy', 1, '{}', 'x')`)
	h.untilCount(2)
	want := &connectors.Table{Dialect: "postgres", Database: h.name, Schema: "public", Name: "c", ID: h.changes[0].Table.ID, Key: []int{5, 0}, Columns: []connectors.Column{
		{Name: "id", Type: "integer", Kind: connectors.Int, ID: 2, NotNull: true},
		{Name: "n", Type: "numeric(10,2)", Kind: connectors.Decimal, ID: 3, NotNull: true},
		{Name: "m", Type: "other.mood", Kind: connectors.Text, ID: 4, Labels: []string{"sad", "happy"}},
		{Name: "p", Type: "numeric(12,2)", Kind: connectors.Decimal, ID: 5},
		{Name: "a", Type: "character varying(5)[]", Kind: connectors.Array, Elem: connectors.Text, ID: 6},
		{Name: "k", Type: "text", Kind: connectors.Text, ID: 7, NotNull: true},
	}}
	for _, c := range h.changes {
		if !c.Table.Equal(want) {
			t.Errorf("table %+v\nwant  %+v", c.Table, want)
		}
	}
}

func FuzzValues(f *testing.F) {
	for _, c := range formCases {
		for _, v := range c.values {
			f.Add([]byte(v[0]), uint8(len(v[0])))
		}
	}
	f.Add([]byte(`{"a"`), uint8(1))
	f.Fuzz(func(t *testing.T, text []byte, pick uint8) {
		forms := []*decoder{textDecoder, {kind: connectors.Map, form: formHstore}}
		for _, d := range builtin {
			forms = append(forms, d)
		}
		elem := forms[int(pick)%len(forms)]
		forms = append(forms, &decoder{kind: connectors.Array, form: formArray, elem: elem, delim: ','})
		for _, d := range forms {
			v := d.value(&rows{}, text)
			if k := v.Kind(); k != d.kind && k != connectors.Text {
				t.Errorf("kind %s from a decoder of %s", k, d.kind)
			}
			if v.Kind() == connectors.Array || v.Kind() == connectors.Map {
				if !connectors.ValidJSON(v.Data()) {
					t.Errorf("%q became %q", text, v.Data())
				}
			}
		}
	})
}
