package deliver_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/memory"
	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/disk"
	"github.com/trunkline/trunkline/pipeline/deliver"
)

// gauge is a log whose consumers note how much they were handed that the sink has not got yet.
type gauge struct {
	log.Log
	mu                  sync.Mutex
	rows, bytes         int // handed out
	got                 int // rows that the sink has
	mostRows, mostBytes int // handed out before the sink had a row
}

func (g *gauge) Consumer(ctx context.Context, o log.ConsumerOptions) (log.Consumer, error) {
	c, err := g.Log.Consumer(ctx, o)
	return gaugedConsumer{c, g}, err
}

type gaugedConsumer struct {
	log.Consumer
	g *gauge
}

func (c gaugedConsumer) Poll(ctx context.Context, most int) (log.Fetch, error) {
	f, err := c.Consumer.Poll(ctx, most)
	c.g.mu.Lock()
	defer c.g.mu.Unlock()
	c.g.rows += len(f.Records)
	for _, r := range f.Records {
		c.g.bytes += len(r.Key) + len(r.Value)
	}
	c.g.mostRows = max(c.g.mostRows, c.g.rows-c.g.got)
	if c.g.got == 0 {
		c.g.mostBytes = c.g.bytes
	}
	return f, err
}

// gaugedSink tells the gauge what has arrived.
type gaugedSink struct {
	connectors.Sink
	g *gauge
}

func (s gaugedSink) Write(ctx context.Context, b connectors.Batch) error {
	err := s.Sink.Write(ctx, b)
	if err == nil {
		s.g.mu.Lock()
		s.g.got += len(b.Changes)
		s.g.mu.Unlock()
	}
	return err
}

// While a sink takes nothing, the log is read for two of its batches at most: the one that it has and the next. Others
// go on, and once it takes rows again it gets all of them, with no more in memory at any time.
func TestASinkThatTakesNothingHoldsTwoBatches(t *testing.T) {
	t.Parallel()
	const rows = 1200
	s := newLineWith(t, disk.Options{BatchBytes: 10_000}) // the log hands out its own batches whole
	s.topics = log.TopicConfig{Partitions: 3}
	for at := 0; at < rows; at += 5 {
		var tx []connectors.Change
		for id := at; id < at+5; id++ {
			tx = append(tx, insert(id, strings.Repeat("v", 1000)))
		}
		s.feed.Append(tx...)
	}
	s.ingest()
	for name, batch := range map[string]deliver.Batch{"rows": {Rows: 50}, "bytes": {Bytes: 30_000}} {
		t.Run(name, func(t *testing.T) {
			g := &gauge{Log: s.log}
			stuck := memory.NewStore()
			release := stuck.Block()
			o := s.options()
			o.Sink, o.Batch, o.Journal = name, batch, g
			o.Open = func(ctx context.Context, env connectors.Env) (connectors.Sink, error) {
				sink, err := stuck.OpenPlain(ctx, env)
				return gaugedSink{sink, g}, err
			}
			d, err := deliver.New(o)
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() { done <- d.Run(t.Context()) }()
			if err := stuck.Wait(t.Context(), func() bool { return stuck.Blocked() == 1 }); err != nil {
				t.Fatal(err)
			}
			other, others := memory.NewStore(), s.options()
			others.Sink, others.Open, others.Batch = "other of "+name, other.OpenPlain, batch
			s.mustDeliver(others)
			if n := other.Count("public.item"); n != rows {
				t.Errorf("the other sink holds %d rows, want %d", n, rows)
			}
			release()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if n := stuck.Count("public.item"); n != rows {
				t.Errorf("the sink holds %d rows in the end, want %d", n, rows)
			}
			if batch.Rows > 0 && (g.mostRows > 2*batch.Rows || g.mostRows <= batch.Rows) {
				t.Errorf("up to %d rows were on their way, want one batch of %d and the next", g.mostRows, batch.Rows)
			}
			if batch.Bytes > 0 && (g.mostBytes == 0 || g.mostBytes > 3*batch.Bytes) {
				t.Errorf("%d bytes were read while nothing was taken, want two batches of %d", g.mostBytes, batch.Bytes)
			}
		})
	}
}
