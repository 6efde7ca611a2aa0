package document

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

var noon = time.Date(2026, 1, 30, 12, 0, 0, 0, time.UTC)

func show(c connectors.Change) string {
	b := string(connectors.AppendLine(nil, "", &connectors.Change{Op: c.Op, Table: c.Table, Time: c.Time, Before: c.Before, After: c.After}))
	_, rest, _ := strings.Cut(strings.TrimSpace(b), `"offset":0,`)
	return rest
}

func TestNumbersKeepTheirDigits(t *testing.T) {
	t.Parallel()
	for token, want := range map[string]connectors.Kind{
		"0": connectors.Int, "-9223372036854775808": connectors.Int, "9223372036854775808": connectors.Decimal, "1.0": connectors.Float, "-0.0": connectors.Float,
		"0.1": connectors.Float, "1e3": connectors.Float, "1.7976931348623157e308": connectors.Float, "0.1000000000000000055511151231257827": connectors.Decimal,
		"123456789.123456789123": connectors.Decimal, "1e400": connectors.Decimal, "1e999999999": connectors.JSON, "-1E-999": connectors.JSON,
	} {
		if got := numberKind([]byte(token)); got != want {
			t.Errorf("%s is %v, want %v", token, got, want)
		}
	}
	for token, want := range map[string]string{"1.50": "1.50", "-0": "-0", "15e-1": "1.5", "1.5e3": "1500", "-2.50E+1": "-25", "0e5": "0", "1e-3": "0.001", "12.5e-2": "0.125"} {
		if got, ok := plain(nil, []byte(token)); !ok || string(got) != want {
			t.Errorf("%s is %s (%t), want %s", token, got, ok, want)
		}
	}
}

func TestChangesOfOthers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		object string
		keys   []string
		want   string
	}{
		"a record of the log": {
			`{"before":null,"after":{"id":1,"v":"x"},"source":{"version":"1","schema":"main","table":"item","ts_ms":1769774400000},"transaction":null,"op":"u","ts_ms":1769774400001,"unchanged":["big"]}`,
			[]string{"id"},
			`"op":"u","ts":"2026-01-30T12:00:00.000000Z","schema":"main","table":"item","key":{"id":1},"before":null,"after":{"id":1,"v":"x"},"unchanged":[]}`,
		},
		"Debezium with its schema": {
			`{"schema":{"type":"struct"},"payload":{"before":{"id":1,"v":"x"},"after":null,"source":{"schema":"main","table":"item"},"op":"d","ts_ms":1}}`,
			[]string{"id"},
			`"op":"d","ts":"2026-01-30T12:00:00.000000Z","schema":"main","table":"item","key":{"id":1},"before":{"id":1,"v":"x"},"after":null,"unchanged":[]}`,
		},
		"a delete with its key alone": {
			`{"op":"d","schema":"main","table":"item","key":{"id":1},"before":null,"ts":"2026-01-30T13:00:00+01:00"}`,
			nil,
			`"op":"d","ts":"2026-01-30T12:00:00.000000Z","schema":"main","table":"item","key":{"id":1},"before":{"id":1},"after":null,"unchanged":[]}`,
		},
		"a row without an operation": {
			`{"after":{"id":1}}`, nil,
			`"op":"c","ts":"2026-01-30T12:00:00.000000Z","schema":"","table":"other","key":null,"before":null,"after":{"id":1},"unchanged":[]}`,
		},
		"a truncate": {
			`{"op":"t","table":"item","key":null,"before":null,"after":null,"unchanged":[]}`, nil,
			`"op":"t","ts":"2026-01-30T12:00:00.000000Z","schema":"","table":"item","key":null,"before":null,"after":null,"unchanged":[]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			tables, err := New(&Settings{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, _, err := tables.Change(Name{Table: "other"}, []byte(c.object), nil, c.keys, noon)
			if err != nil || show(got) != c.want {
				t.Errorf("got\n%s (%v)\nwant\n%s", show(got), err, c.want)
			}
		})
	}
	tables, err := New(&Settings{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for object, problem := range map[string]string{
		`{"op":"x","after":{}}`:                    "op is none of",
		`{"op":"u","before":{"id":1}}`:             "op u without after",
		`{"op":"d"}`:                               "op d without before and key",
		`{"id":1}`:                                 "neither op nor after",
		`{"op":"c","after":"secret"}`:              "not a JSON object",
		`{"op":"c","after":{},"ts":"secret"}`:      "ts is no time",
		`{"op":"c","after":{"a":1},"key":{"b":1}}`: "no value for the key column b",
		`{"op":"c","after":{"":1}}`:                "without a name",
		`[]`:                                       "not a JSON object",
		`{"op":"c","after":{}} {}`:                 "more than one",
	} {
		_, _, err := tables.Change(Name{Table: "other"}, []byte(object), nil, nil, noon)
		if err == nil || !strings.Contains(err.Error(), problem) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %s", object, err, problem)
		}
	}
}

func TestDeclaredTypes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ typ, text, want string }{
		{"int", "-5", "-5"}, {"int", "5.0", ""}, {"double", "1.50", "1.5"}, {"double", "NaN", "NaN"}, {"double", "x", ""}, {"decimal(10,2)", "1.50", "1.50"},
		{"decimal", "1,5", ""}, {"boolean", "true", "true"}, {"boolean", "yes", ""}, {"bytes", "AP8=", "\x00\xff"}, {"bytes", "?", ""},
		{"date", "2026-02-28", "2026-02-28"}, {"date", "2026-02-30", ""}, {"time", "12:34:56.5", "12:34:56.5"}, {"time", "25:00:00", ""},
		{"timestamp", "2026-01-30 12:34:56.5", "2026-01-30T12:34:56.5"}, {"timestamp", "2026-01-30T12:34:56Z", ""},
		{"timestamptz", "2026-01-30T12:34:56+01:00", "2026-01-30T11:34:56Z"}, {"timestamptz", "2026-01-30 12:34:56.123456+0000", "2026-01-30T12:34:56.123456Z"},
		{"timestamptz", "2026-01-30 12:34:56", ""}, {"json", `{"a": 1}`, `{"a": 1}`}, {"json", "{", ""}, {"varchar(3)", "abcd", "abcd"},
	} {
		var typ Type
		if err := typ.UnmarshalText([]byte(c.typ)); err != nil {
			t.Fatal(err)
		}
		v, _, err := FromText(typ.kind, []byte(c.text), nil)
		if c.want == "" && !errors.Is(err, errValue) || c.want != "" && (err != nil || string(v.AppendText(nil)) != c.want) {
			t.Errorf("%s of %q is %q (%v), want %q", c.typ, c.text, v.AppendText(nil), err, c.want)
		}
	}
	for _, text := range []string{"", "integr", "int(5)", "decimal(a)", "decimal(1", "int[]"} {
		if err := new(Type).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("type %q is accepted", text)
		}
	}
}

func FuzzChange(f *testing.F) {
	for _, s := range []string{`{"op":"c","after":{"a":1,"b":[1e5,"\u00e9"]}}`, `{"payload":{"op":"d","before":{"a":null}},"schema":{}}`, `{"a":{"b":1.0}}`, `{"op":"m","after":{"prefix":"a","content":"AA=="}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, object []byte) {
		tables, err := New(&Settings{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			c, _, err := tables.Change(Name{Table: "t"}, object, nil, nil, noon)
			if err == nil && c.Table != nil && len(show(c)) == 0 {
				t.Error("no line")
			}
			if c, _, err := tables.Row(Name{Table: "r"}, object, nil, noon); err == nil && len(c.After) != len(c.Table.Columns) {
				t.Errorf("%d values in %d columns", len(c.After), len(c.Table.Columns))
			}
		}
		state, err := tables.State()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := New(&Settings{}, state); err != nil {
			t.Errorf("the state is not read back: %v", err)
		}
	})
}
