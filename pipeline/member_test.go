package pipeline

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/log"
)

func TestMeterGivesTheRateOfTheLastSeconds(t *testing.T) {
	t.Parallel()
	var m meter
	start := time.Unix(1000, 0)
	for i := range 30 {
		m.observe(start.Add(time.Duration(i)*time.Second), int64(i*250))
	}
	if got := m.rate(); got != 250 {
		t.Errorf("rate = %v, want 250", got)
	}
	for i := 30; i < 45; i++ {
		m.observe(start.Add(time.Duration(i)*time.Second), 29*250)
	}
	if got := m.rate(); got != 0 {
		t.Errorf("rate = %v after a quiet window, want 0", got)
	}
	m.observe(start.Add(50*time.Second), 3)
	if got := m.rate(); got != 0 {
		t.Errorf("rate = %v after the counter began anew, want 0", got)
	}
}

func TestVerdictOnTheEndOfAnAttempt(t *testing.T) {
	t.Parallel()
	gone := &log.OutOfRangeError{TopicPartition: log.TopicPartition{Topic: "t"}, Offset: 50, LogStart: 200}
	for name, c := range map[string]struct {
		err         error
		interrupted bool
		want        State
		reason      string
		waits       bool
	}{
		"end of a bounded source": {nil, false, Done, "", false},
		"any error":               {fmt.Errorf("connection reset"), false, Retrying, "connection reset", true},
		"position lost":           {fmt.Errorf("open: %w", connectors.ErrPositionLost), false, Gap, "do this", false},
		"records gone":            {fmt.Errorf("poll: %w", gone), false, Gap, "offsets 50 to 199 are gone", false},
		"fatal":                   {fmt.Errorf("rights: %w", connectors.ErrFatal), false, Failed, "rights: do this", false},
		"fenced by a sink":        {fmt.Errorf("write: %w", connectors.ErrFenced), false, Failed, "fenced", false},
		"fenced by the log":       {fmt.Errorf("commit: %w", log.ErrFenced), false, Failed, "fenced", false},
		"no room":                 {fmt.Errorf("append: %w", log.ErrFull), false, Paused, "waits for room", true},
		"a command":               {nil, true, Running, "", false},
		"a gap while interrupted": {fmt.Errorf("open: %w", connectors.ErrPositionLost), true, Gap, "do this", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &member{
				state: Running, backoff: connectors.Backoff{}.WithDefaults(), hide: strings.Clone, logger: slog.New(slog.DiscardHandler),
				remedy: func(error) string { return "do this" },
			}
			m.settle(c.err, c.interrupted, false)
			if m.state != c.want || !strings.Contains(m.reason, c.reason) || m.retryAt.IsZero() == c.waits {
				t.Errorf("state %q, reason %q, retry at %v; want %q, %q, waits %v", m.state, m.reason, m.retryAt, c.want, c.reason, c.waits)
			}
		})
	}
}
