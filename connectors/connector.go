// Package connectors is the contract between Trunkline and the systems at its two ends.
//
// It promises the shapes that a source and a sink exchange with the pipeline: typed rows, the table they belong to,
// and an opaque position. It knows no database, no log and no wire format but the JSON of single values, which is part
// of the outer contract (docs/records.md). Each system has a folder below this one; the pipeline and main call them.
//
// The life of a connector is short: settings are decoded and checked (Connector.Source, offline), the result is an
// opener, the opener gives an open value, and a value that exists is connected. To reconnect is to close and to open
// again from the last mark, so the rare path is the path that every start takes. Connectors never retry on their own.
package connectors

import (
	"context"
	"log/slog"
)

// Source reads one system. Read is called by one goroutine; Ack may run beside Read, nothing else may.
type Source interface {
	// Read blocks until there is something to say. The batch and all that it points to are the caller's until the next
	// call of Read or Close. A batch without a position is a piece of something larger (a huge transaction): what
	// was read becomes final with the next batch that has one. A batch without changes is a bare position.
	// io.EOF ends a bounded source, after its last position was returned.
	Read(ctx context.Context) (Batch, error)

	// Ack tells that everything up to p, which an earlier Read returned, is durable in the log.
	Ack(ctx context.Context, p Position) error

	// Close returns when every goroutine that the source started has ended.
	Close(ctx context.Context) error
}

// Sink writes into one system. Its calls never overlap.
type Sink interface {
	// Write returns nil when all of b is durable. After an error the caller assumes that none of it is, and sends
	// it again, perhaps cut differently. A RowsError names rows that the store refuses whatever is tried: then none
	// of b was written, or what was written may be written again, and the caller sends it again without these rows.
	Write(ctx context.Context, b Batch) error

	// Close releases the connection. It does not flush: what Write accepted is durable.
	Close(ctx context.Context) error
}

// Transactional is a sink that stores the position of a stream in the same transaction as the rows, so that each
// change takes effect exactly once.
type Transactional interface {
	Sink

	// Committed returns the position of the last batch of the stream that was written, nil if there is none.
	// From then on writers that were opened earlier for the same group are fenced: their Write fails with ErrFenced.
	Committed(ctx context.Context, stream string) (Position, error)
}

// Migrator is a sink that follows the schema of the tables it writes into.
type Migrator interface {
	Sink

	// Migrate is called before the first Write that carries rows of m.To, and no Write carries rows of an older version
	// afterwards. The same step may come again after a crash. A SchemaError stops the table alone.
	Migrate(ctx context.Context, m Migration) error
}

// WholeRows is a sink that may write each change as a row of its own, which lacks what the change does not carry.
type WholeRows interface {
	Sink

	// WholeRows reports whether it does. Then the pipeline completes changes from the log's own latest record of the same
	// key, as far as the log has it; what is still Absent after that is marked as such by the sink.
	WholeRows() bool
}

// Resyncer is a source that can read a table anew while its stream goes on.
type Resyncer interface {
	Source

	// Resync asks for a fresh snapshot of a table, named schema.table as in the configuration, and returns once the
	// request is noted. The rows come out of Read as Snapshot changes. It may run beside Read.
	Resync(ctx context.Context, table string) error
}

// Follower is a source that can tell when it has brought everything that its system had at a moment.
type Follower interface {
	Source

	// Reach asks the system for its present end, and returns a function that reports whether a position which Read
	// returned stands there or behind it. Asked again and again, it makes the source hand over such a position soon. Both
	// may run beside Read.
	Reach(ctx context.Context) (func(Position) bool, error)
}

// Decode fills the settings of a connector from its part of the configuration. into points to a struct with yaml tags that
// already holds the defaults; unknown keys and wrong types are errors with file and line. If into has a method
// Validate() error, it is called last.
type Decode func(into any) error

// OpenSource connects and starts to read after from, the position of the last durable batch; nil means a first start.
type OpenSource func(ctx context.Context, env Env, from Position) (Source, error)

// OpenSink connects a sink.
type OpenSink func(ctx context.Context, env Env) (Sink, error)

// Check connects, looks, changes nothing, and reports what would not work. An error means that it could not look.
type Check func(ctx context.Context, env Env) ([]Finding, error)

// Connector is one kind of system. A nil function means that it cannot play that role.
type Connector struct {
	Name        string // the type in the configuration
	SinkBatch   Limits // what a batch of a sink has by default, where its store likes another size; zero: as Limits says
	Source      func(Decode) (OpenSource, error)
	Sink        func(Decode) (OpenSink, error)
	CheckSource func(Decode) (Check, error) // optional: check --connect
	CheckSink   func(Decode) (Check, error) // optional: check --connect

	Survey        func(Decode) (Survey, error)       // optional: init
	CompareSource func(Decode) (OpenComparer, error) // optional: verify
	CompareSink   func(Decode) (OpenComparer, error) // optional: verify
	Guard         func(Decode) (Guard, error)        // optional: max_retained
	ForeseeSource func(Decode) (Foresee, error)      // optional: plan --connect
	ForeseeSink   func(Decode) (Foresee, error)      // optional: plan --connect
}

// Env is what the pipeline lends to a connector that it opens.
type Env struct {
	Name   string       // the name of the source or sink in the configuration
	Group  string       // sinks: the consumer group; the owner of offsets that are stored in the target
	Logger *slog.Logger // never nil
	Dir    string       // a private directory for spill files; may be emptied while nothing is open
	Limits Limits
	Report func(Report) // never nil; may be called from any goroutine, returns at once
	Once   bool         // run --once: a source ends with io.EOF at the end that the system had when it was opened
}

// Limits bound what a connector holds in memory. NewEnv fills in defaults.
type Limits struct {
	BatchRows  int // changes in one batch; default 5000
	BatchBytes int // bytes of values in one batch; default 8 MiB
	RowBytes   int // bytes of values in one row, above which it is refused by name; default 64 MiB
}

// WithDefaults replaces each zero by its default.
func (l Limits) WithDefaults() Limits {
	if l.BatchRows == 0 {
		l.BatchRows = 5000
	}
	if l.BatchBytes == 0 {
		l.BatchBytes = 8 << 20
	}
	if l.RowBytes == 0 {
		l.RowBytes = 64 << 20
	}
	return l
}

// NewEnv returns an Env in which nothing is nil and every limit is set.
func NewEnv(name string) Env {
	return Env{
		Name:   name,
		Group:  name,
		Logger: slog.New(slog.DiscardHandler),
		Limits: Limits{}.WithDefaults(),
		Report: func(Report) {},
	}
}

// Phase says what a source is doing with a table, or a sink with its target.
type Phase string

const (
	PhaseSnapshot  Phase = "snapshot"  // reading the rows that were there before
	PhaseStreaming Phase = "streaming" // following changes
	PhaseDone      Phase = "done"      // a bounded source has read all there was
	PhaseFailed    Phase = "failed"    // this table stopped, the others go on; Reason says why
)

// Report is a fact that people want to see: progress of a snapshot, the state of one table, what the source holds back.
type Report struct {
	Table    string // schema.table; empty: the whole source or sink
	Phase    Phase  // empty: unchanged
	Rows     int64  // rows of the snapshot handed over so far
	Total    int64  // rows expected, an estimate; 0: not known
	Retained int64  // bytes of WAL or binlog that the server keeps for us; 0: not known
	Reason   string // PhaseFailed, or a warning in words

	// Unrepresentable counts values that the columns of a sink's target cannot hold, met since the last report.
	Unrepresentable int64

	// Extracts by a cursor; nil: unchanged.
	Waiting *int64 // rows that the last run left for the next one, because a transaction that is open may still change what comes before them
	Unseen  *int64 // rows whose cursor is NULL, so that no run sees what happens to them
}

// Severity orders findings.
type Severity string

const (
	Info    Severity = "info"
	Warning Severity = "warning" // works, with a limit that the user should know
	Fatal   Severity = "error"   // would not work
)

// Finding is one result of a Check.
type Finding struct {
	Severity Severity `json:"severity"`
	Subject  string   `json:"subject"` // a setting, a right, a table
	Problem  string   `json:"problem"`
	Remedy   string   `json:"remedy,omitempty"` // what to do: a statement or a setting
	Key      string   `json:"key,omitempty"`    // of the setting that has to be corrected, from the source or sink on: tables[2].where; empty: none
}
