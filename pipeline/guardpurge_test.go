package pipeline

import (
	"bytes"
	"context"
	"strings"
	"sync"
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

// purgingServer is a server with change log behind every position, and none before it.
type purgingServer struct {
	mu    sync.Mutex
	asked connectors.Position // the last one
}

func (p *purgingServer) Retained(context.Context, connectors.Env) (int64, error) { return 0, nil }

func (p *purgingServer) Release(context.Context, connectors.Env) error { return nil }

func (p *purgingServer) Ahead(_ context.Context, _ connectors.Env, at connectors.Position) (connectors.Ahead, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = bytes.Clone(at)
	return connectors.Ahead{Bytes: 1 << 20, Newer: 2}, nil
}

func (p *purgingServer) last() connectors.Position {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

// A source that was paused before the process began is never opened, and is warned of all the same: its position is read from
// the log, which keeps it from nothing later.
func TestGuardKnowsThePositionOfASourceThatRests(t *testing.T) {
	t.Parallel()
	w := start(t, oneLine, Options{})
	feed, shop := w.space.Feed("shop"), Target{Role: RoleSource, Name: "shop"}
	feed.Append(row(1))
	w.waitRows(t, "copy", 1)
	if err := w.Pause(t.Context(), shop); err != nil {
		t.Fatal(err)
	}
	want := bytes.Clone(w.source("shop").ingest.Durable())
	w.stop()
	<-w.done
	server := &purgingServer{}
	w.Config().Sources[0].Guard = server
	w.Config().Sources[0].Retain.Max = 100 << 20
	w.again(t, Options{})
	eventually(t, func() string { return "nobody asks the server" }, func() bool {
		w.source("shop").inspect(t.Context())
		return server.last() != nil
	})
	if got := server.last(); want == nil || !bytes.Equal(got, want) {
		t.Errorf("the server was asked about position %q, want %q", got, want)
	}
	m := w.member(t, "shop", in(Paused))
	if m.Retained != 1<<20 || !strings.Contains(m.Warning, "what the server purges next is what it needs") {
		t.Errorf("retained %d, warning %q", m.Retained, m.Warning)
	}
	if opened, _ := feed.Opened(); opened != 1 {
		t.Errorf("the source was opened %d times, want once", opened)
	}
	if err := w.Resume(t.Context(), shop); err != nil {
		t.Fatal(err)
	}
	feed.Append(row(2))
	w.waitRows(t, "copy", 2)
}
