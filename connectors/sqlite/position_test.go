package sqlite

import (
	"math"
	"testing"

	"github.com/trunkline/trunkline/connectors"
)

func TestCell(t *testing.T) {
	t.Parallel()
	for _, v := range []any{nil, int64(math.MinInt64), int64(7), 0.1, math.Inf(-1), "", "2026-01-30 12:00:00", "\xff\x00", []byte{0, 0xff}} {
		text := string(appendCell(nil, v))
		got, err := parseCell(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if again := string(appendCell(nil, got)); again != text {
			t.Errorf("%s came back as %s", text, again)
		}
	}
}

func FuzzParseCell(f *testing.F) {
	for _, s := range []string{"n", "i-5", "r3ff0000000000000", "tx", "u/w==", "b", "", "x", "i9223372036854775808"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, err := parseCell(s)
		if err != nil {
			return
		}
		text := string(appendCell(nil, v))
		again, err := parseCell(text)
		if err != nil || string(appendCell(nil, again)) != text {
			t.Errorf("%q is %q, which does not come back: %v", s, text, err)
		}
	})
}

func FuzzParsePosition(f *testing.F) {
	f.Add([]byte(`{"v":1,"tables":{"t":{"cursor":"u","at":["t2026-01-30","i7"],"seen":"AAAAAAAAAAA="}}}`))
	f.Add([]byte(`{"v":1,"tables":{"t":null}}`))
	f.Add([]byte(`{"v":2}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		places, err := parsePosition(b)
		if err != nil {
			return
		}
		for _, p := range places {
			parseSeen(p.Seen)
		}
		again, err := formatPosition(places)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parsePosition(again); err != nil {
			t.Errorf("%s does not come back: %v", again, err)
		}
	})
}

func TestKindOf(t *testing.T) {
	t.Parallel()
	for declared, want := range map[string]connectors.Kind{
		"INTEGER": connectors.Int, "unsigned big int": connectors.Int, "VARCHAR(20)": connectors.Text, "text": connectors.Text,
		"BLOB": connectors.Bytes, "double precision": connectors.Float, "DECIMAL(10,2)": connectors.Decimal, "boolean": connectors.Bool,
		"datetime": connectors.Timestamp, "TIMESTAMP(3)": connectors.Timestamp, "date": connectors.Date, "json": connectors.JSON,
		"": connectors.Text, "uuid": connectors.Text,
	} {
		if got := kindOf(declared); got != want {
			t.Errorf("%q is %v, want %v", declared, got, want)
		}
	}
}
