package mysql

import (
	"strings"
	"testing"

	"github.com/trunkline/trunkline/connectors"
)

func TestColumnHolds(t *testing.T) {
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, c := range []struct {
		typ     string
		checked bool
		kind    connectors.Kind
		text    string
		want    bool
	}{
		{"double", false, connectors.Float, "1e300", true}, {"double", false, connectors.Float, "NaN", false}, {"double", false, connectors.Float, "-Infinity", false},
		{"decimal(5,2)", false, connectors.Decimal, "-123.45", true}, {"decimal(5,2)", false, connectors.Decimal, "0123.4500", true},
		{"decimal(5,2)", false, connectors.Decimal, "1234", false}, {"decimal(5,2)", false, connectors.Decimal, "1.005", false}, {"decimal(5,2)", false, connectors.Decimal, "NaN", false},
		{"date", false, connectors.Date, "2026-01-30", true}, {"date", false, connectors.Date, "infinity", false}, {"datetime(6)", false, connectors.Timestamp, "12026-01-30T00:00:00", false},
		{"timestamp(6)", false, connectors.TimestampTZ, "2038-01-19T03:14:07.999999Z", true}, {"timestamp(6)", false, connectors.TimestampTZ, "2038-01-19T03:14:08Z", false},
		{"timestamp", false, connectors.TimestampTZ, "1970-01-01T00:00:00Z", false}, {"longtext", false, connectors.Text, "infinity", true},
		{"longtext", true, connectors.JSON, nested(31), true}, {"longtext", true, connectors.JSON, nested(32), false}, {"json", false, connectors.JSON, nested(100), true},
		{"json", false, connectors.JSON, nested(101), false}, {"longtext", true, connectors.Text, "[2:3]={1,2}", false}, {"longtext", true, connectors.JSON, `"[[[["`, true},
		{"longtext", true, connectors.JSON, `"\ud83d"`, false}, {"longtext", true, connectors.JSON, `"\ud83d\ude00"`, true}, {"longtext", true, connectors.JSON, `"\ude00\ud83d"`, false},
		{"longtext", true, connectors.JSON, `"\\ud83d \u0041 \""`, true}, {"longtext", true, connectors.JSON, `"\ud83dx"`, false},
	} {
		typ := parseType(c.typ)
		holds := columnHolds("postgres", &connectors.Column{Kind: c.kind}, &typ, c.checked)
		if got := holds == nil || holds(connectors.DataValue(c.kind, []byte(c.text))); got != c.want {
			t.Errorf("a %s for %s: %v", c.typ, c.text, got)
		}
	}
}
