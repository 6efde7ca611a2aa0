package connectors

import (
	"testing"
	"time"
)

func TestDue(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 30, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		timing Timing
		last   time.Time
		want   bool
	}{
		"an interval that is over":                  {Every(time.Hour), now.Add(-time.Hour), true},
		"an interval that is not":                   {Every(time.Hour), now.Add(-time.Hour + 1), false},
		"a moment ahead, as the clock was set back": {Every(time.Hour), now.Add(time.Minute), true},
		"what never comes":                          {never{}, now.Add(-time.Hour), false},
	} {
		if got := Due(c.timing, c.last, now); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

type never struct{}

func (never) Next(time.Time) time.Time { return time.Time{} }
