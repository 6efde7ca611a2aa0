package ingest

import (
	"testing"

	"github.com/trunkline/trunkline/connectors"
)

func TestTwinsAreKeysThatADatabaseMayTakeForEqual(t *testing.T) {
	t.Parallel()
	data := func(k connectors.Kind, s string) connectors.Value { return connectors.DataValue(k, []byte(s)) }
	for _, c := range []struct {
		kind connectors.Kind
		a, b string
		want bool
	}{
		{connectors.Float, "0", "-0", true},
		{connectors.Float, "1", "2", false},
		{connectors.Decimal, "1", "1.000", true},
		{connectors.Decimal, "0.00", "-0", true},
		{connectors.Decimal, "100", "1", false},
		{connectors.Decimal, "1.5", "1.50", true},
		{connectors.Text, "alpha", "ALPHA", true},
		{connectors.Text, "a", "a ", true},
		{connectors.Text, "e", "é", true},
		{connectors.Text, "a", "b", false},
		{connectors.Timestamp, "2024-01-01T00:00:00", "2024-01-02T00:00:00", false},
		{connectors.Interval, "1 mon", "30 days", true},
	} {
		table := &connectors.Table{Columns: []connectors.Column{{Name: "k", Kind: c.kind}}, Key: []int{0}}
		change := connectors.Change{Table: table, Before: []connectors.Value{data(c.kind, c.a)}, After: []connectors.Value{data(c.kind, c.b)}}
		if got := twins(&change); got != c.want {
			t.Errorf("%v %q and %q: %v", c.kind, c.a, c.b, got)
		}
	}
}
