package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/trunkline/trunkline/connectors"
)

// Limits of a sink.
const (
	closeTimeout  = 5 * time.Second
	lockTimeout   = "60s"                     // a statement that waits longer for a lock fails and is tried again
	idleTimeout   = "60s"                     // a transaction whose client says nothing for longer is ended by the server
	maxRoutes     = 1024                      // versions of tables that are kept ready
	maxLayouts    = 64                        // sets of columns of one version that are kept ready
	maxBackoff    = 64                        // batches
	maxStages     = 64                        // temporary tables that a session keeps
	maxStaged     = 20000                     // rows in a stage, dead ones included, before it is emptied for good
	maxKept       = 64 << 20                  // bytes of a buffer that are kept from batch to batch
	migrationLock = int64(0x74726e6b6c696e65) // "trnkline": the advisory lock around every CREATE and ALTER
)

// Sink writes into PostgreSQL, exactly once: the position of a stream is stored in the transaction of its rows. It is
// one connection, and nothing of it outlives that connection but what it committed.
type Sink struct {
	config   SinkConfig
	template template
	env      connectors.Env
	conn     *pgx.Conn
	offsets  string // the quoted name of the table of offsets
	fitter   *connectors.Fitter
	fits     map[*connectors.Table][]connectors.Holds

	claims  map[string]*claim
	targets map[string]*target
	routes  map[*connectors.Table]*route
	stages  int       // stages that were ever created on this connection
	staged  []*target // those that have one, oldest first

	// Of the transaction that is open.
	created []*target // whose stage it created
	dropped []stageHold
	used    []*target // whose stage it wrote into
	direct  bool      // it tried to write new rows straight into their target

	effects []*effect // of the batch, in order of first appearance
	free    []*effect
	encode  textEncoder
	buffer  []byte // rows on their way into COPY
	sql     []byte
}

// newSink connects.
func newSink(ctx context.Context, config SinkConfig, env connectors.Env) (*Sink, error) {
	conn, err := config.connect(ctx, env.Name)
	if err != nil {
		return nil, err
	}
	s, err := newSinkOn(ctx, conn, config, env)
	if err != nil {
		conn.Close(ctx)
	}
	return s, err
}

// newSinkOn makes a sink of a session.
func newSinkOn(ctx context.Context, conn *pgx.Conn, config SinkConfig, env connectors.Env) (*Sink, error) {
	template, err := parseTemplate(config.Table)
	if err != nil {
		return nil, fmt.Errorf("table: %w", err)
	}
	s := &Sink{
		config:   config,
		template: template,
		env:      env,
		conn:     conn,
		offsets:  qualified(config.Offsets, offsetsTable),
		fitter:   connectors.NewFitter(config.Unrepresentable, env.Report),
		fits:     map[*connectors.Table][]connectors.Holds{},
		claims:   map[string]*claim{},
		targets:  map[string]*target{},
		routes:   map[*connectors.Table]*route{},
	}
	if err = s.createOffsets(ctx); err != nil {
		return nil, fmt.Errorf("create table %s: %w", s.offsets, s.fault(err))
	}
	return s, nil
}

// WholeRows is true where each image becomes a row.
func (s *Sink) WholeRows() bool { return s.config.Write == writeAppend }

// Close releases the connection.
func (s *Sink) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	return s.conn.Close(ctx)
}

// Write stores a batch and its position in one transaction. Rows that the server refuses are found by writing ever
// smaller parts of the batch, in order, and named in a RowsError; then nothing is stored.
func (s *Sink) Write(ctx context.Context, b connectors.Batch) error {
	if len(b.Changes) == 0 && b.Position == nil {
		return nil
	}
	changes, err := s.fitter.Fit(b.Changes, foreign, s.holds(ctx))
	if err != nil {
		return err
	}
	b.Changes = changes
	if err := s.prepare(ctx, b.Changes); err != nil {
		return err
	}
	err = s.write(ctx, &b, wholesale)
	if isDuplicate(err) && s.direct {
		err = s.write(ctx, &b, staged)
	}
	if isRefusal(err) {
		err = s.write(ctx, &b, onebyone)
	}
	if isRefusal(err) {
		err = s.write(ctx, &b, strict)
	}
	var refused *connectors.RowsError
	if err != nil && !errors.As(err, &refused) {
		return fmt.Errorf("write %d changes of %s: %w", len(b.Changes), b.Stream, err)
	}
	if err == nil {
		s.fitter.Written()
	}
	return err
}

// way is how a batch is tried.
type way uint8

const (
	wholesale way = iota // new rows go straight into the target; a key that is there already is an error
	staged               // all rows go by way of the stage
	onebyone             // as staged, in parts, down to the rows that are refused
	strict               // as onebyone, and constraints that wait for the commit are checked for each part
)

// write makes one attempt in one transaction.
func (s *Sink) write(ctx context.Context, b *connectors.Batch, w way) error {
	if err := s.begin(ctx, b); err != nil {
		return err
	}
	s.direct = false
	err := s.applyAs(ctx, b.Changes, w)
	if err == nil {
		err = s.fault(s.commit(ctx))
	}
	if err != nil {
		s.rollback(ctx)
	}
	s.settleStages(err != nil)
	if cap(s.buffer) > maxKept {
		s.buffer = nil
	}
	return err
}

func (s *Sink) applyAs(ctx context.Context, changes []connectors.Change, w way) error {
	if w != onebyone && w != strict {
		return s.apply(ctx, changes, w)
	}
	rows, err := s.separate(ctx, changes, w == strict)
	if err == nil && len(rows) > 0 {
		err = &connectors.RowsError{Rows: rows}
	}
	return err
}

// prepare makes the routes of a batch before its transaction begins.
func (s *Sink) prepare(ctx context.Context, changes []connectors.Change) error {
	if len(s.routes) >= maxRoutes {
		clear(s.routes)
	}
	var last *connectors.Table
	for i := range changes {
		t := changes[i].Table
		if t == last || changes[i].Op == connectors.Message {
			continue
		}
		if _, err := s.routeFor(ctx, t); err != nil {
			return err
		}
		last = t
	}
	if s.config.Write == writeAppend && s.config.Schema.Add == connectors.Evolve {
		return s.prepareMarks(ctx, changes)
	}
	return nil
}

// prepareMarks adds the column for the names of absent columns to targets that need it now.
func (s *Sink) prepareMarks(ctx context.Context, changes []connectors.Change) error {
	for i := range changes {
		c := &changes[i]
		if c.Op != connectors.Update || !lacks(c) {
			continue
		}
		r, err := s.routeFor(ctx, c.Table)
		if err != nil || r.marks >= 0 {
			return err
		}
		t := r.target
		if err := s.dropStage(ctx, t.schema, t.name); err != nil {
			return err
		}
		if err := s.migration(ctx, []string{"ALTER TABLE " + t.sql + " ADD COLUMN IF NOT EXISTS " + unchangedColumn + " text[]"}); err != nil {
			return fmt.Errorf("migrate table %s.%s: %w", t.schema, t.name, s.fault(err))
		}
		s.forget(t.schema, t.name)
		return s.prepare(ctx, changes)
	}
	return nil
}

// lacks reports that an update leaves a column open.
func lacks(c *connectors.Change) bool {
	for i, v := range c.After {
		if v.IsAbsent() && (c.Before == nil || c.Before[i].IsAbsent()) {
			return true
		}
	}
	return false
}

// exec runs statements and returns the number of rows that the last one touched.
func (s *Sink) exec(ctx context.Context, sql string) (int64, error) {
	results, err := s.conn.PgConn().Exec(ctx, sql).ReadAll()
	if err != nil || len(results) == 0 {
		return 0, err
	}
	return results[len(results)-1].CommandTag.RowsAffected(), nil
}

// openSink is what Connector offers for the role of a sink.
func openSink(decode connectors.Decode) (connectors.OpenSink, error) {
	config := DefaultSinkConfig()
	if err := decode(&config); err != nil {
		return nil, err
	}
	return func(ctx context.Context, env connectors.Env) (connectors.Sink, error) {
		s, err := newSink(ctx, config, env)
		if err != nil {
			return nil, err
		}
		return s, nil
	}, nil
}
