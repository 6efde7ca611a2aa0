// Package deliver carries records of the log into one sink, as a member of the sink's consumer group.
//
// It promises that an offset is committed only when everything below it is durable in the sink or in the dead-letter
// topic, that the order within a partition is kept, and that a truncate takes effect between the same rows in every
// partition of its topic. With a sink that keeps its positions itself each change takes effect exactly once, with any
// other at least once. It does not retry: Run is one attempt, and the supervisor in package pipeline calls it again.
package deliver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/pipeline/codec"
	"github.com/trunkline/trunkline/pipeline/drain"
	"github.com/trunkline/trunkline/pipeline/trace"
)

// Options says what to read and where to put it.
type Options struct {
	Sink     string              // name of the sink
	Type     string              // of its connector, for traces
	Group    string              // consumer group; default: the sink's name
	Topics   []string            // names; * and ? are wildcards
	From     log.Start           // where the group begins in a partition that it has not read
	Open     connectors.OpenSink //
	Journal  log.Log             //
	Schemas  *codec.Schemas      //
	Batch    Batch               //
	RowBytes int                 // bytes of values in one row, above which a sink refuses it; default 64 MiB
	Dir      string              // a private directory for the sink's files
	Logger   *slog.Logger        // default: none
	OnReport func(connectors.Report)

	// Transform changes what a batch holds before it is written: pure, in order, and with the same *Table for the same
	// *Table. A RowsError refuses rows as a sink would. nil: nothing.
	Transform func(context.Context, []connectors.Change) ([]connectors.Change, error)

	// Complete says whether rows are completed from the log; default: as the sink asks for it.
	Complete Completion

	// Paused reports whether records of a topic wait for now. It is asked at each batch, and one that waits stays so until
	// the next attempt. nil: none does.
	Paused func(topic string) bool

	// StopOnError ends the delivery at a row that the sink refuses, with ErrFatal; false: the row becomes a dead letter.
	StopOnError bool

	// SkipGaps goes on at the oldest record when retention removed records before they were read; false: the delivery
	// ends with ErrPositionLost. What is gone is reported in both cases.
	SkipGaps bool

	// Until makes the delivery end when every partition of its topics has been dealt with up to these offsets; until
	// they are known it returns nil. A nil Until means no end.
	Until func() log.Offsets

	// Tracer continues the traces that records name; nil: none is continued.
	Tracer *trace.Tracer

	// StopTimeout bounds how long the batch in hand may take once the context of Run has ended; default 20s.
	StopTimeout time.Duration
}

// Batch bounds what the sink gets in one call.
type Batch struct {
	Rows  int           // default 5000
	Bytes int           // of records; default 8 MiB
	Wait  time.Duration // how long a batch that is not full waits for more; default 0
}

// withDefaults checks the options and fills in what is zero.
func (o Options) withDefaults() (Options, error) {
	switch {
	case o.Sink == "":
		return o, errors.New("deliver: no name of a sink")
	case o.Open == nil || o.Journal == nil || o.Schemas == nil:
		return o, fmt.Errorf("deliver %q: no opener, log or schemas", o.Sink)
	case len(o.Topics) == 0:
		return o, fmt.Errorf("deliver %q: no topics", o.Sink)
	}
	if o.Group == "" {
		o.Group = o.Sink
	}
	limits := connectors.Limits{BatchRows: o.Batch.Rows, BatchBytes: o.Batch.Bytes, RowBytes: o.RowBytes}.WithDefaults()
	o.Batch.Rows, o.Batch.Bytes, o.RowBytes = limits.BatchRows, limits.BatchBytes, limits.RowBytes
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.OnReport == nil {
		o.OnReport = func(connectors.Report) {}
	}
	if o.StopTimeout == 0 {
		o.StopTimeout = 20 * time.Second
	}
	return o, nil
}

func (o Options) env() connectors.Env {
	env := connectors.NewEnv(o.Sink)
	env.Group = o.Group
	env.Logger = o.Logger
	env.Dir = o.Dir
	env.Limits = connectors.Limits{BatchRows: o.Batch.Rows, BatchBytes: o.Batch.Bytes, RowBytes: o.RowBytes}
	env.Report = o.OnReport
	env.Once = o.Until != nil
	return env
}

// Deliver feeds one sink. Run is called by one goroutine at a time; the other methods by any.
type Deliver struct {
	o     Options
	meter meter
}

// New checks the options. It opens nothing.
func New(o Options) (*Deliver, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	d := &Deliver{o: o}
	d.meter.partitions = map[log.TopicPartition]*partitionMeter{}
	return d, nil
}

// Run is one attempt: it opens the sink, joins the group, and carries records until ctx ends, Until is reached, or
// something fails. The first two give nil. The batch in hand when ctx ends is finished.
func (d *Deliver) Run(ctx context.Context) error {
	err := d.attempt(ctx)
	if drain.Stopped(ctx, err) {
		return nil
	}
	return err
}

func (d *Deliver) attempt(ctx context.Context) (err error) {
	hard, cancel := drain.Context(ctx, d.o.StopTimeout)
	defer cancel()
	d.meter.opening(true)
	sink, err := d.o.Open(ctx, d.o.env())
	d.meter.opening(false)
	if err != nil {
		return fmt.Errorf("open sink %q: %w", d.o.Sink, err)
	}
	defer func() { err = errors.Join(err, drain.Close("sink", sink.Close, d.o.StopTimeout)) }()
	r := newRun(d, sink)
	defer func() { err = errors.Join(err, r.rows.close()) }()
	// The calls inside Poll are given hard, because the contexts of single polls end much earlier.
	consumer, err := d.o.Journal.Consumer(ctx, log.ConsumerOptions{
		Group: d.o.Group, Topics: d.o.Topics, From: d.o.From, MaxBytes: d.o.Batch.Bytes,
		WholeTopics: true, // a truncate is a barrier over all partitions of its topic
		Assigned:    func(_ context.Context, start log.Offsets) error { return r.assigned(hard, start) },
		Revoked:     func(_ context.Context, lost []log.TopicPartition) error { return r.revoked(hard, lost) },
	})
	if err != nil {
		return fmt.Errorf("join group %q: %w", d.o.Group, err)
	}
	r.consumer = consumer
	defer func() { err = errors.Join(err, drain.Close("consumer", consumer.Close, d.o.StopTimeout)) }()
	d.meter.connected.Store(true)
	defer d.meter.disconnect()
	d.o.Logger.Info("sink opened", "sink", d.o.Sink)
	return r.loop(ctx, hard)
}
