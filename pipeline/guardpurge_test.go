package pipeline

import (
	"strings"
	"testing"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/pipeline/config"
)

func TestGuardOfAServerThatPurgesWarnsInTime(t *testing.T) {
	t.Parallel()
	s := &source{member: &member{name: "shop"}, config: config.Source{Retain: config.Retain{Max: 100 << 20}}}
	for what, c := range map[string]struct {
		ahead connectors.Ahead
		want  string
	}{
		"little to read":                    {connectors.Ahead{Bytes: 49 << 20, Older: 1, Newer: 2}, ""},
		"half":                              {connectors.Ahead{Bytes: 50 << 20, Older: 1, Newer: 2}, "more than half of max_retained, 100MiB"},
		"all":                               {connectors.Ahead{Bytes: 100 << 20, Older: 1, Newer: 2}, "more than max_retained, 100MiB: the server purges by its own rules"},
		"the oldest file":                   {connectors.Ahead{Bytes: 1 << 20, Newer: 2}, "the oldest of its 3 files is where the source stands"},
		"the only file":                     {connectors.Ahead{Bytes: 1 << 20}, ""},
		"at the end of a server with files": {connectors.Ahead{Older: 9}, ""},
		"gone":                              {connectors.Ahead{Purged: true, Bytes: 1, Newer: 1}, "trunkline resync shop reads its tables anew"},
	} {
		if got := s.purgeWords(c.ahead); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", what, got, c.want)
		}
	}
}
