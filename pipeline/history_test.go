package pipeline

import (
	"testing"
	"time"
)

func TestHistoryIsBounded(t *testing.T) {
	var h history
	at := time.Unix(1_700_000_000, 0)
	for i := range historyPoints + 10 {
		h.add(Status{Time: at.Add(time.Duration(i) * historyEvery), Sources: []MemberStatus{{Name: "shop", Role: RoleSource, RowsPerSec: float64(i)}}})
	}
	points := h.series["source/shop"]
	if len(points) != historyPoints {
		t.Fatalf("%d points are kept, want %d", len(points), historyPoints)
	}
	if first, last := points[0].RowsPerSec, points[historyPoints-1].RowsPerSec; first != 10 || last != historyPoints+9 {
		t.Errorf("points from %v to %v are kept, want the newest, in order", first, last)
	}
	h.add(Status{Time: at, Sinks: []MemberStatus{{Name: "copy", Role: RoleSink}}})
	if _, there := h.series["source/shop"]; there || len(h.series) != 1 {
		t.Errorf("a source that is gone is still kept: %d series", len(h.series))
	}
}
