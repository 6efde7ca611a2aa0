package command

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/trunkline/trunkline/pipeline"
)

// busy is a pipeline with much to say.
func busy() pipeline.Status {
	s := pipeline.Status{Running: true, Started: time.Unix(0, 0), Time: time.Unix(90, 0)}
	s.Log.Dir = "/var/lib/trunkline/a/folder/with/a/long/name/that/no/terminal/shows/whole/log"
	reason := "connect to host db: dial tcp 192.0.2.7:5432: connect: connection refused; look whether the server runs, at " + strings.Repeat("x", 70)
	s.Sources = []pipeline.MemberStatus{{Name: "shop", Role: pipeline.RoleSource, Type: "postgres", State: pipeline.Failed, Reason: reason, Rows: 1234567, RowsPerSec: 98765,
		Tables: []pipeline.TableStatus{{Name: "public.orders", State: pipeline.Running, Rows: 12}, {Name: "public.bad", State: pipeline.Failed, Reason: "it has no key"}}}}
	for i := range 40 {
		s.Topics = append(s.Topics, pipeline.TopicStatus{Name: fmt.Sprintf("shop.public.table_%d", i), Partitions: 4, Records: 1000, Bytes: 1 << 20})
	}
	s.Sinks = []pipeline.MemberStatus{{Name: "warehouse", Role: pipeline.RoleSink, Type: "clickhouse", State: pipeline.CaughtUp, Rows: 234567, RowsPerSec: 12345, LagRows: 123456, LagSeconds: 0.3, DeadLetters: 7}}
	return s
}

func TestAFrameFitsEveryTerminal(t *testing.T) {
	t.Parallel()
	for _, size := range []struct{ width, height int }{{60, 24}, {80, 24}, {100, 60}, {250, 80}, {20, 5}, {1, 1}} {
		lines := frame(busy(), size.width, size.height)
		if len(lines) > max(2, size.height) {
			t.Errorf("%v: %d lines", size, len(lines))
		}
		for _, line := range lines {
			if n := len([]rune(line)); n > size.width {
				t.Errorf("%v: a line of %d: %q", size, n, line)
			}
		}
	}
}

// On a small terminal the topics make room for what people look for: the states, the reasons to their end, the sinks.
func TestASmallFrameKeepsWhatCounts(t *testing.T) {
	t.Parallel()
	text := strings.Join(frame(busy(), 60, 24), "\n")
	for _, want := range []string{"running for 1m30s, log of ", "connect to host db: dial", "look whether the", strings.Repeat("x", 14) + "\n", "public.orders", "it has no key",
		"40 topics: 40 000 records, 40.0MiB", "DEAD", "123 456  300ms  7", "q quits"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "clickhouse") || strings.Contains(text, "table_3") {
		t.Errorf("the types or the topics take room:\n%s", text)
	}
	if text := strings.Join(frame(busy(), 200, 100), "\n"); !strings.Contains(text, "clickhouse") || !strings.Contains(text, "table_39") {
		t.Errorf("a large frame leaves something out:\n%s", text)
	}
}
