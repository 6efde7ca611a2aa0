package connectors

import (
	"strings"
	"testing"
)

func TestDeletesFollowHowRowsAreWritten(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ write, deletes, want, problem string }{
		{"upsert", "", "apply", ""}, {"append", "", "ignore", ""}, {"append", "soft", "soft", ""}, {"upsert", "ignore", "ignore", ""},
		{"append", "apply", "apply", "deletes: apply needs write: upsert"}, {"merge", "", "apply", "write is not one of"}, {"upsert", "keep", "keep", "deletes is not one of"},
	} {
		got, err := SettleDeletes(c.write, c.deletes)
		if got != c.want || (err == nil) != (c.problem == "") || err != nil && !strings.Contains(err.Error(), c.problem) {
			t.Errorf("write %q, deletes %q: %q, %v; want %q, %q", c.write, c.deletes, got, err, c.want, c.problem)
		}
	}
}
