package deliver_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/pipeline/deliver"
)

// sizes notes what a sink gets in each call.
type sizes struct {
	connectors.Sink
	mu    sync.Mutex
	rows  []int
	bytes []int
}

func (s *sizes) Write(ctx context.Context, b connectors.Batch) error {
	size := 0
	for _, c := range b.Changes {
		for _, v := range c.After {
			size += len(v.Data())
		}
	}
	s.mu.Lock()
	s.rows, s.bytes = append(s.rows, len(b.Changes)), append(s.bytes, size)
	s.mu.Unlock()
	return s.Sink.Write(ctx, b)
}

func (s *sizes) open(open connectors.OpenSink) connectors.OpenSink {
	return func(ctx context.Context, env connectors.Env) (connectors.Sink, error) {
		sink, err := open(ctx, env)
		s.Sink = sink
		return s, err
	}
}

// A sink gets no more rows and bytes at once than it is set to, whatever the batches of the log are, and at least one row.
func TestBatchesAreBounded(t *testing.T) {
	t.Parallel()
	s := newLine(t)
	s.topics = log.TopicConfig{Partitions: 1}
	var changes []connectors.Change
	for id := range 40 {
		changes = append(changes, insert(id, strings.Repeat("x", 1000)))
	}
	changes = append(changes, insert(40, strings.Repeat("y", 20_000)), insert(41, "z"))
	s.feed.Append(changes...)
	s.ingest()
	for name, batch := range map[string]deliver.Batch{"rows": {Rows: 7}, "bytes": {Bytes: 10_000}, "both": {Rows: 3, Bytes: 5_000}} {
		seen, o := &sizes{}, s.options()
		o.Group, o.Batch = name, batch
		o.Open = seen.open(s.store.OpenPlain)
		s.mustDeliver(o)
		total := 0
		for i, n := range seen.rows {
			total += n
			if batch.Rows > 0 && n > batch.Rows || batch.Bytes > 0 && seen.bytes[i] > batch.Bytes && n > 1 {
				t.Errorf("%s: a batch of %d rows and %d bytes", name, n, seen.bytes[i])
			}
		}
		if total != 42 {
			t.Errorf("%s: %d rows came, want 42", name, total)
		}
	}
}
