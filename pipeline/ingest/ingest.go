// Package ingest carries the changes of one source into the log.
//
// It promises that every change stands in the log exactly once, in the order of the source for each key, and that the
// source is told so only when it is durable: a commit appends the records and the source's position together, and a
// restart goes on from there. It holds one batch at a time, however large a transaction is. It does not retry: Run is
// one attempt, and the supervisor in package pipeline calls it again.
package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/pipeline/codec"
	"github.com/trunkline/trunkline/pipeline/drain"
	"github.com/trunkline/trunkline/pipeline/pause"
	"github.com/trunkline/trunkline/pipeline/trace"
)

// DefaultTopic is the template that names the topic of a table.
const DefaultTopic = "{source}.{schema}.{table}"

// Options says what to read and where to put it.
type Options struct {
	Source    string                // name of the source: its producer id and the prefix of its topics
	Connector string                // its type, for the source block of records
	Version   string                // of Trunkline, for the source block; default "dev"
	Open      connectors.OpenSource //
	Journal   log.Log               //
	Schemas   *codec.Schemas        //
	Topic     string                // template with {source} {database} {schema} {table}; default DefaultTopic
	Format    codec.Format          // how records are laid out; zero: codec.Lossless
	Topics    log.TopicConfig       // for topics that do not exist; zero fields take the log's defaults
	Limits    connectors.Limits     // zero fields take their defaults
	Dir       string                // a private directory for the source's spill files
	// Encoding says how the records of a topic are written; nil: JSON.
	Encoding func(topic string) codec.Encoding
	// Register gives the id of a schema, for records that are not JSON. An error that no second try helps is ErrFatal.
	Register func(ctx context.Context, subject string, s codec.RegistrySchema) (int32, error)

	// Transform changes what a batch holds before it is encoded: in order, and with the same *Table for the same *Table.
	// What it returns is read before it is called again. nil: nothing.
	Transform func(context.Context, []connectors.Change) ([]connectors.Change, error)

	// Pauses says which tables wait; nil: none can be paused.
	Pauses *pause.Book

	// Tracer makes spans of what becomes durable, and names the trace in its records; nil: nothing is traced.
	Tracer *trace.Tracer

	Once     bool                    // end at the end that the system has at the start
	Logger   *slog.Logger            // default: none
	OnReport func(connectors.Report) // may be nil; called from any goroutine, returns at once

	// CloseTimeout bounds how long what is in hand may take once the context of Run has ended; default 10s.
	CloseTimeout time.Duration
}

// withDefaults checks the options and fills in what is zero.
func (o Options) withDefaults() (Options, error) {
	switch {
	case o.Source == "":
		return o, errors.New("ingest: no name of a source")
	case o.Open == nil || o.Journal == nil || o.Schemas == nil:
		return o, fmt.Errorf("ingest %q: no opener, log or schemas", o.Source)
	}
	if o.Topic == "" {
		o.Topic = DefaultTopic
	}
	if err := CheckTemplate(o.Topic); err != nil {
		return o, err
	}
	if o.Version == "" {
		o.Version = "dev"
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.OnReport == nil {
		o.OnReport = func(connectors.Report) {}
	}
	if o.CloseTimeout == 0 {
		o.CloseTimeout = 10 * time.Second
	}
	o.Limits = o.Limits.WithDefaults()
	return o, nil
}

// Ingest carries one source. Run is called by one goroutine at a time; the other methods by any.
type Ingest struct {
	o     Options
	meter meter

	mu     sync.Mutex
	source connectors.Source // nil: not open
	later  []string          // tables to resync once a bounded source is open again

	durable connectors.Position // of the last commit since the program started

}

// New checks the options. It opens nothing.
func New(o Options) (*Ingest, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	g := &Ingest{o: o}
	g.meter.tables = map[string]*tableMeter{}
	return g, nil
}

// Resync asks the open source for a fresh snapshot of a table, named schema.table. A bounded source that is not open is
// asked when it is opened next.
func (g *Ingest) Resync(ctx context.Context, table string) error {
	g.mu.Lock()
	source := g.source
	if source == nil && g.o.Once {
		g.later = append(g.later, table)
		g.mu.Unlock()
		return nil
	}
	g.mu.Unlock()
	if source == nil {
		return fmt.Errorf("resync %s of source %q: the source is not connected; resume it, or see trunkline status, and try again", table, g.o.Source)
	}
	r, ok := source.(connectors.Resyncer)
	if !ok {
		return fmt.Errorf("resync %s of source %q: a source of type %s cannot do that", table, g.o.Source, g.o.Connector)
	}
	return r.Resync(ctx, table)
}

// Run is one attempt: it opens the source behind its last durable position and carries changes until the source ends
// (io.EOF), ctx ends, or something fails. The first two give nil. A transaction that is not complete then is aborted, and
// read again by the next attempt.
func (g *Ingest) Run(ctx context.Context) error {
	err := g.attempt(ctx)
	if drain.Stopped(ctx, err) {
		return nil
	}
	return err
}

func (g *Ingest) attempt(ctx context.Context) (err error) {
	hard, cancel := drain.Context(ctx, g.o.CloseTimeout)
	defer cancel()
	producer, mark, err := g.o.Journal.Producer(ctx, g.o.Source)
	if err != nil {
		return fmt.Errorf("open producer %q: %w", g.o.Source, err)
	}
	defer func() { err = errors.Join(err, drain.Close("producer", producer.Close, g.o.CloseTimeout)) }()
	if err := g.moveHeld(ctx, producer, mark); err != nil {
		return err
	}
	g.setDurable(mark)
	source, err := g.o.Open(ctx, g.env(), slices.Clone(mark))
	if err != nil {
		return fmt.Errorf("open source %q: %w", g.o.Source, err)
	}
	g.setSource(source)
	defer func() {
		g.setSource(nil)
		err = errors.Join(err, drain.Close("source", source.Close, g.o.CloseTimeout))
	}()
	if err := g.resyncLater(ctx); err != nil {
		return err
	}
	g.o.Logger.Info("source opened", "source", g.o.Source, "fresh", mark == nil)
	w, err := newWriter(g)
	if err != nil {
		return fmt.Errorf("%w: %w", err, connectors.ErrFatal)
	}
	r := &run{Ingest: g, producer: producer, source: source, writer: w, queue: newQueue()}
	return r.loop(ctx, hard)
}

// resyncLater hands over the requests that came while the source was not open.
func (g *Ingest) resyncLater(ctx context.Context) error {
	g.mu.Lock()
	tables := g.later
	g.later = nil
	g.mu.Unlock()
	for _, table := range tables {
		if err := g.Resync(ctx, table); err != nil {
			return err
		}
	}
	return nil
}

func (g *Ingest) setSource(s connectors.Source) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.source = s
}

func (g *Ingest) setDurable(p connectors.Position) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.durable = slices.Clone(p)
}

func (g *Ingest) env() connectors.Env {
	env := connectors.NewEnv(g.o.Source)
	env.Logger = g.o.Logger
	env.Dir = g.o.Dir
	env.Limits = g.o.Limits
	env.Once = g.o.Once
	env.Report = g.report
	return env
}

// report notes what a source tells and passes it on.
func (g *Ingest) report(r connectors.Report) {
	g.meter.note(r)
	g.o.OnReport(r)
}

// run is the state of one attempt: one goroutine reads and encodes, another commits.
type run struct {
	*Ingest
	producer log.Producer
	source   connectors.Source
	writer   *writer
	queue    *queue
	pending  batch // appended and not committed; owned by the goroutine that commits

	// Owned by the goroutine that reads.
	piece way         // of the transaction of which the load before holds a piece
	begun *trace.Span // the newest; nil: none
}

// loop runs both goroutines to their end. hard is for what outlives a stop.
func (r *run) loop(ctx, hard context.Context) error {
	read, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	committed := make(chan error, 1)
	go func() {
		err := r.commit(hard)
		if err != nil {
			cancel(err) // ends the Read that may be waiting
		}
		committed <- err
	}()
	err := r.pump(read, hard)
	r.queue.close()
	failed := <-committed
	r.abandon(err, failed)
	if failed != nil {
		return failed
	}
	return err
}

// pump reads until the source ends or a context does.
func (r *run) pump(read, hard context.Context) error {
	for {
		began := r.o.Tracer.Now()
		b, err := r.source.Read(read)
		if errors.Is(err, io.EOF) {
			r.o.Logger.Info("source ended", "source", r.o.Source)
			return nil
		}
		if err != nil {
			return fmt.Errorf("read source %q: %w", r.o.Source, err)
		}
		got := r.o.Tracer.Now()
		changes, err := r.writer.transform(hard, b.Changes)
		if err != nil {
			return err
		}
		err = r.queue.fill(read, b.Position != nil, func(l *load) error {
			r.follow(l, began, got, changes, b.Position != nil)
			if err := r.writer.append(hard, l, changes); err != nil {
				return err
			}
			l.way.encoded = r.o.Tracer.Now()
			if b.Position != nil {
				l.position = slices.Clone(b.Position)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
}

// commit makes durable what was read, load by load, until the queue is closed and empty.
func (r *run) commit(hard context.Context) error {
	for {
		l := r.queue.take()
		if l == nil {
			return nil
		}
		if err := r.store(hard, l); err != nil {
			l.way.span.End(err, time.Time{})
			return err
		}
		r.queue.give(l)
	}
}

// store appends a load. If it ends a transaction, it commits and acknowledges it.
func (r *run) store(hard context.Context, l *load) error {
	began := r.o.Tracer.Now()
	for i := range l.parts {
		p := &l.parts[i]
		if err := r.producer.Append(hard, p.TopicPartition, p.records...); err != nil {
			if errors.Is(err, log.ErrRecordTooLarge) {
				err = fmt.Errorf("%w: %w", err, connectors.ErrFatal)
			}
			return fmt.Errorf("append to %s-%d: %w", p.Topic, p.Partition, err)
		}
	}
	l.traceAppend(r.o.Source, r.o.Connector, began)
	r.pending.add(l.numbers)
	if l.position == nil {
		return nil
	}
	began = r.o.Tracer.Now()
	if err := r.producer.Commit(hard, l.position); err != nil {
		return fmt.Errorf("commit source %q: %w", r.o.Source, err)
	}
	l.traceCommit(began, r.pending)
	r.meter.committed(r.pending.take())
	r.setDurable(l.position)
	if err := r.source.Ack(hard, l.position); err != nil {
		return fmt.Errorf("acknowledge source %q: %w", r.o.Source, err)
	}
	return nil
}
