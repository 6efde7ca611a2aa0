package deliver_test

import (
	"testing"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

func TestFreshnessIsTheAgeOfRowsWhenTheyAreWritten(t *testing.T) {
	t.Parallel()
	s := newLine(t)
	old, snapshot := insert(1, "old"), insert(2, "read")
	old.Time = time.Now().Add(-2 * time.Hour)
	snapshot.Op, snapshot.Time = connectors.Snapshot, old.Time
	future := insert(3, "early")
	future.Time = time.Now().Add(time.Hour)
	s.feed.Append(old, snapshot, future)
	s.ingest()
	got := s.mustDeliver(s.options()).Status(t.Context()).Freshness
	if got.Count != 2 || got.Seconds < 7200 || got.Seconds > 7200+3600 {
		t.Errorf("freshness %+v, want one row of two hours and one of none", got)
	}
	if first, last := got.Counts[0], got.Counts[len(got.Counts)-1]; first != 1 || last != 2 {
		t.Errorf("%d rows in the first bucket and %d up to the last, want 1 and 2", first, last)
	}
}
