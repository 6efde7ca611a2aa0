package codec_test

import (
	"slices"
	"testing"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/pipeline/codec"
)

func TestDifferencesInWords(t *testing.T) {
	from := &connectors.Table{Schema: "public", Name: "orders", ID: 7, Key: []int{0}, Columns: []connectors.Column{
		{Name: "id", Type: "bigint", ID: 1, NotNull: true}, {Name: "state", Type: "text", ID: 2}, {Name: "gone", Type: "text", ID: 3}}}
	to := &connectors.Table{Schema: "public", Name: "orders", ID: 7, Key: []int{0, 1}, Columns: []connectors.Column{
		{Name: "id", Type: "numeric(20,0)", ID: 1, NotNull: true}, {Name: "status", Type: "text", ID: 2, NotNull: true}, {Name: "gone", Type: "text", ID: 4}}}
	want := []string{
		"column id: bigint is now numeric(20,0)", "column state is now status", "column status: takes no null any more",
		"column gone text added", "column gone text dropped", "key (id) is now (id, status)",
	}
	if got := codec.Differences(from, to); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
