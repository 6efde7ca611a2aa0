package deliver_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/pipeline/deliver"
)

// nullSink takes everything: what is measured is everything before the sink.
type nullSink struct{ rows int }

func (s *nullSink) Write(_ context.Context, b connectors.Batch) error {
	s.rows += len(b.Changes)
	return nil
}

func (s *nullSink) Close(context.Context) error { return nil }

func BenchmarkDeliver(b *testing.B) {
	s := newLine(b)
	note := strings.Repeat("a note of a customer ", 9)
	var tx []connectors.Change
	for id := range 100_000 {
		tx = append(tx, connectors.Change{Op: connectors.Insert, Table: items, After: row(id, note), Time: time.Now()})
	}
	s.feed.Append(tx...)
	s.ingest()
	b.ReportAllocs()
	for b.Loop() {
		sink := &nullSink{}
		o := s.options()
		o.Group = "group" + time.Now().String()
		o.Open = func(context.Context, connectors.Env) (connectors.Sink, error) { return sink, nil }
		d, err := deliver.New(o)
		if err != nil {
			b.Fatal(err)
		}
		if err := d.Run(b.Context()); err != nil {
			b.Fatal(err)
		}
		if sink.rows != 100_000 {
			b.Fatalf("%d rows", sink.rows)
		}
	}
	b.ReportMetric(float64(b.N)*100_000/b.Elapsed().Seconds(), "rows/s")
}
