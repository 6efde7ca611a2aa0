package deliver_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/disk"
	"github.com/trunkline/trunkline/pipeline/deliver"
)

// arrivals notes when a sink got how many rows.
type arrivals struct {
	connectors.Sink
	mu   sync.Mutex
	at   []time.Duration // since begun
	rows []int
	from time.Time
}

func (a *arrivals) Write(ctx context.Context, b connectors.Batch) error {
	a.mu.Lock()
	a.at, a.rows = append(a.at, time.Since(a.from)), append(a.rows, len(b.Changes))
	a.mu.Unlock()
	return a.Sink.Write(ctx, b)
}

func (a *arrivals) take() ([]time.Duration, []int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at, rows := a.at, a.rows
	a.at, a.rows = nil, nil
	return at, rows
}

// deliverInto begins a delivery into the store of s, past seen, and returns what ends it.
func (s *line) deliverInto(seen *arrivals, o deliver.Options) (d *deliver.Deliver, stop func()) {
	s.t.Helper()
	o.Open = func(ctx context.Context, env connectors.Env) (connectors.Sink, error) {
		sink, err := s.store.OpenPlain(ctx, env)
		seen.Sink = sink
		return seen, err
	}
	d, err := deliver.New(o)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	return d, func() {
		cancel()
		if err := <-done; err != nil {
			s.t.Error(err)
		}
	}
}

// newBubbleLine is for tests with a clock of their own. Nothing is compressed, because idle compressors are shared by the
// whole process and outlive the bubble.
func newBubbleLine(t *testing.T) *line {
	none := log.CompressionNone
	return newLineWith(t, disk.Options{Defaults: log.TopicConfig{Compression: &none}})
}

// A batch goes out when it has its rows, when it has its bytes, or when its wait is over, whichever is first; the clock
// is that of the test.
func TestABatchGoesOutWhenItIsFullOrItsWaitIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBubbleLine(t)
		s.topics = log.TopicConfig{Partitions: 1}
		s.feed.Append(insert(0, "first"))
		s.ingest()
		seen := &arrivals{from: time.Now()}
		o := s.options()
		o.Until, o.Batch = nil, deliver.Batch{Rows: 10, Bytes: 20_000, Wait: time.Hour}
		d, stop := s.deliverInto(seen, o)
		want := func(what string, at []time.Duration, rows []int) {
			t.Helper()
			synctest.Wait()
			gotAt, gotRows := seen.take()
			if !slices.Equal(gotAt, at) || !slices.Equal(gotRows, rows) {
				t.Errorf("%s: %v rows came after %v, want %v after %v", what, gotRows, gotAt, rows, at)
			}
		}
		time.Sleep(time.Hour - time.Nanosecond)
		want("before the wait is over", nil, nil)
		time.Sleep(time.Nanosecond)
		want("wait", []time.Duration{time.Hour}, []int{1})

		id := 1
		add := func(n int, v string) {
			var tx []connectors.Change
			for range n {
				tx = append(tx, insert(id, v))
				id++
			}
			s.feed.Append(tx...)
			s.ingest()
		}
		add(4, "v")
		time.Sleep(10 * time.Minute)
		add(5, "v")
		time.Sleep(10 * time.Minute)
		want("nine of ten rows", nil, nil)
		if status := d.Status(t.Context()); status.LagRecords < 9 || status.LagTime < 20*time.Minute {
			t.Errorf("rows that wait show a lag of %d records and %s", status.LagRecords, status.LagTime)
		}
		add(1, "v")
		want("ten rows", []time.Duration{80 * time.Minute}, []int{10})

		add(3, strings.Repeat("x", 1000))
		time.Sleep(time.Minute)
		want("three rows", nil, nil)
		add(3, strings.Repeat("x", 6000))
		synctest.Wait()
		_, rows := seen.take()
		if total := sum(rows); total != 6 {
			t.Errorf("%v rows came when there were bytes enough, want 6 in all", rows)
		}

		add(2, "v")
		time.Sleep(59 * time.Minute)
		want("a new wait", nil, nil)
		time.Sleep(time.Minute)
		want("a new wait", []time.Duration{141 * time.Minute}, []int{2})
		stop()
		if n := len(s.store.Log()); n != id {
			t.Errorf("%d changes came, want %d", n, id)
		}
	})
}

func sum(list []int) (n int) {
	for _, v := range list {
		n += v
	}
	return n
}

// One partition that fills up does not take the batches of the others with it.
func TestEachPartitionWaitsForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBubbleLine(t)
		s.topics = log.TopicConfig{Partitions: 4}
		for id := range 40 {
			s.feed.Append(insert(id, "v"))
		}
		s.ingest()
		most, all := 0, 0
		for _, end := range s.perPartition() {
			most, all = max(most, end), all+end
		}
		seen := &arrivals{from: time.Now()}
		o := s.options()
		o.Until, o.Batch = nil, deliver.Batch{Rows: most, Wait: time.Minute}
		_, stop := s.deliverInto(seen, o)
		synctest.Wait()
		if _, rows := seen.take(); len(rows) == 0 || sum(rows) == all || slices.Min(rows) < most {
			t.Errorf("%v rows came at once, want those of full batches of %d alone", rows, most)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := len(s.store.Log()); n != all {
			t.Errorf("%d changes came after the wait, want %d", n, all)
		}
		stop()
	})
}

// perPartition returns how many records each partition of the table's topic holds.
func (s *line) perPartition() map[int32]int {
	s.t.Helper()
	topic, err := s.log.Topic(s.t.Context(), itemTopic)
	if err != nil {
		s.t.Fatal(err)
	}
	out := map[int32]int{}
	for i := range topic.Partitions {
		tp := log.TopicPartition{Topic: itemTopic, Partition: int32(i)}
		out[tp.Partition] = len(s.recordsOf(tp))
	}
	return out
}
