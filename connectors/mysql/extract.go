package mysql

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

// extract is a source of mode timestamp. It is used by one goroutine, that of its feed once there is one; Ack and Resync may
// run beside Read.
//
// A run first asks for its bound, which lies below all that an open transaction can still write, and then takes a
// consistent snapshot: so every row below the bound is there. The rows between the mark and the bound are read in the
// order of cursor and key, each batch with a position of its own; those above wait for the next run
// (docs/timestamp-extraction.md has the proof and the limits).
type extract struct {
	config   SourceConfig
	env      connectors.Env
	endpoint *endpoint
	db       *sql.DB
	server   *server
	catalog  *catalog
	mark     *extractMark
	tables   []*extractTable

	before  *leave          // on the way from mode cdc; nil: no more
	queue   []*extractTable // of the run that goes on
	reader  *reader         // its snapshot; nil: none goes on
	ended   bool            // it has come to its end, which nobody knows yet
	rows    *rows
	feed    *feed // nil: nothing was read yet, or it ended with an error
	due     time.Time
	ran     bool
	began   time.Time // the run that goes on, or the last one
	whole   time.Time // of a bounded source: a run that begins then or later has a bound above all that was committed before we came
	tries   int       // of a bounded source
	greeted bool

	refused string                // the last table that cannot be read, and why
	failed  map[tableName]failure // tables that the server would not read

	warned   bool  // that it is blind
	listless bool  // the last list of transactions stayed an old one
	looked   int64 // the first look whose bound is above all that was committed before we came, in microseconds since 1970
	held     bool  // the bound goes by a look from before that

	lock    *runLock
	deletes *deletes            // nil: not looked for
	keys    []string            // of the rows of a page; only where deletes are looked for
	last    lastRow             // of a page
	given   connectors.Position // the last one that was handed over

	mu     sync.Mutex
	acked  connectors.Position // guarded by mu
	resync []string            // guarded by mu: tables that are to be read anew
	poke   chan struct{}
}

// extractMark is what a mark of this mode says. As JSON it is a connectors.Position.
type extractMark struct {
	Extract bool                          `json:"extract"`
	Server  uint32                        `json:"server"`
	Batch   uint64                        `json:"batch"` // counts batches: two of them never have the same position, so that what is durable is known
	Tables  map[tableName]*extractedTable `json:"tables"`
	Looks   []glimpse                     `json:"looks,omitempty"` // the first one was before all that is open has written
}

// extractedTable says which rows of a table are durable.
type extractedTable struct {
	Cursor string   `json:"cursor"`           // the column
	First  bool     `json:"first"`            // the first extract is not complete
	Nulls  []string `json:"nulls,omitempty"`  // the key of the last row without a cursor, as SQL literals
	Nulled bool     `json:"nulled,omitempty"` // those without a cursor are done
	After  []string `json:"after,omitempty"`  // cursor and key of the last row, as SQL literals
	Highs  []high   `json:"highs,omitempty"`  // of earlier runs, the oldest first
	Clock  string   `json:"clock,omitempty"`  // the server's at the last run
	Keys   string   `json:"keys,omitempty"`   // with deletes: the set of the keys that were handed over
	Looked int64    `json:"looked,omitempty"` // when they were compared last, in microseconds

	Brought   []byte `json:"brought,omitempty"`   // hashes of rows that mode cdc has handed over, until a bound of …
	BroughtAt string `json:"broughtat,omitempty"` // … this time of the server is reached
}

// high is the highest number that a run saw. It is a bound once nothing is open that was open then.
type high struct {
	Number string `json:"n"`
	At     string `json:"at"` // the server's time then
}

// failedFor is after what time a table that the server would not read is tried again: a right may have been granted.
const failedFor = time.Minute

// failure is when a table could not be read, and what it looked like.
type failure struct {
	def *definition
	at  time.Time
}

// extractTable is a table that is extracted.
type extractTable struct {
	snapshotTable
	spec    *connectors.TableSpec
	mark    *extractedTable
	bound   string      // of the run, an SQL condition on the cursor; empty: nothing can be read yet
	boundAt string      // of the run, the server's time: what was committed before lies below the bound
	cursor  int         // the column
	keys    *keyColumns // nil: its rows cannot be told apart in records
	def     *definition // as the catalog has it
	failed  bool
	numbers bool  // the cursor is an integer
	waiting int64 // rows that the last run left
}

func newExtract(ctx context.Context, config SourceConfig, env connectors.Env, from connectors.Position) (_ *extract, err error) {
	env.Limits = env.Limits.WithDefaults()
	s := &extract{config: config, env: env, failed: map[tableName]failure{}, poke: make(chan struct{}, 1)}
	if s.endpoint, err = config.address().endpoint(); err != nil {
		return nil, fmt.Errorf("%w: %w", err, connectors.ErrFatal)
	}
	if s.db, err = s.endpoint.pool(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.Close(context.WithoutCancel(ctx))
		}
	}()
	if s.server, err = loadServer(ctx, s.db); err != nil {
		return nil, err
	}
	s.catalog = &catalog{db: s.db, config: &s.config, maria: s.server.maria}
	s.lock = newRunLock(env.Name, s.endpoint.database)
	if s.deletes, err = openDeletes(ctx, &s.config, env); err != nil {
		return nil, err
	}
	s.mark = &extractMark{Extract: true, Server: s.server.id, Tables: map[tableName]*extractedTable{}}
	if from != nil {
		saved := extractMarkOf(from)
		if saved == nil {
			if _, err := parsePosition(from); err != nil {
				return nil, fmt.Errorf("%w: %w", err, connectors.ErrFatal)
			}
			return s, s.leave(ctx, from)
		}
		if saved.Server != s.server.id {
			return nil, lost(env.Name, fmt.Sprintf("server_id was %d and is %d, so this is another server", saved.Server, s.server.id))
		}
		s.mark = saved
	}
	if env.Once {
		s.whole = time.Now().Add(config.margin)
	}
	return s, s.load(ctx)
}

// load describes the tables.
func (s *extract) load(ctx context.Context) error {
	list, err := s.catalog.tables(ctx)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(f *foundTable) bool { return s.config.spec(f.name).Query != "" }) // the query has the table's name
	queries, refused, err := s.config.queries(ctx, s.endpoint)
	if err != nil {
		return err
	}
	list = append(list, queries...)
	for _, f := range refused {
		s.refuse(f.Subject, f.Problem+"; "+f.Remedy)
	}
	s.tables = nil
	sets := &charsets{db: s.db}
	for _, f := range list {
		t := &extractTable{spec: s.config.spec(f.name)}
		shape, err := newShape(f.name, f.def, t.spec, sets)
		if err != nil {
			return err
		}
		t.name, t.shape, t.estimate = f.name, shape, f.rows
		if problem := t.settle(); problem != "" {
			s.refuse(f.name.full(), problem)
			continue
		}
		if t.mark = s.mark.Tables[f.name]; t.mark == nil || t.mark.Cursor != t.spec.Cursor {
			t.mark = &extractedTable{Cursor: t.spec.Cursor, First: true}
			s.mark.Tables[f.name] = t.mark
		}
		t.keys = newKeyColumns(t.shape, t.from(), t.spec.Where)
		t.def = f.def
		if f, known := s.failed[f.name]; known && f.def.equal(t.def) && time.Since(f.at) < failedFor {
			t.failed = true
		}
		s.tables = append(s.tables, t)
	}
	if len(s.tables) == 0 && s.refused != "" {
		return fmt.Errorf("%s: %w", s.refused, connectors.ErrFatal)
	}
	if len(s.tables) == 0 {
		return fmt.Errorf("no table of the server matches tables and can be extracted: %w", connectors.ErrFatal)
	}
	return s.deletes.keepOnly(ctx, s.mark)
}

// refuse says that a table cannot be read, once for each reason.
func (s *extract) refuse(table, reason string) {
	s.env.Report(connectors.Report{Table: table, Phase: connectors.PhaseFailed, Reason: reason})
	text := "table " + table + " " + reason
	if s.refused != text {
		s.env.Logger.Error("table refused", "source", s.env.Name, "table", table, "reason", reason)
	}
	s.refused = text
}

// settle looks for cursor and key. It returns what is wrong with the table.
func (t *extractTable) settle() string {
	def := t.shape.def
	if t.cursor = def.column(t.spec.Cursor); t.cursor < 0 {
		return fmt.Sprintf("has no column %q, which cursor names", t.spec.Cursor)
	}
	switch t.shape.decoders[t.cursor].form {
	case formInt, formUint:
		t.numbers = true
	case formTimestamp, formDateTime, formDate:
	default:
		return fmt.Sprintf("its cursor %s is neither a time nor an integer", t.spec.Cursor)
	}
	if len(t.spec.Key) > 0 {
		own := *def
		own.Key = t.spec.Key
		shape := *t.shape
		shape.def = &own
		t.shape = &shape
	}
	if cutOf(t.shape) == cutNot {
		return "has no key of types that can be compared; name one with key"
	}
	return ""
}

// Read returns the next rows. While they are used the next ones are read.
func (s *extract) Read(ctx context.Context) (connectors.Batch, error) {
	if s.before != nil {
		if b, done, err := s.readBefore(ctx); !done || err != nil {
			return b, err
		}
	}
	if s.feed == nil {
		s.feed = newFeed(s.produce)
	}
	b, err := s.feed.next(ctx)
	if s.feed.err != nil { // it has ended; another run may go better
		s.feed.close()
		s.feed = nil
	}
	return b, err
}

// produce reads the next rows into a buffer that nobody uses.
func (s *extract) produce(ctx context.Context, out *rows) (connectors.Batch, error) {
	s.rows = out
	s.rows.reset()
	if !s.greeted {
		s.greeted = true
		return s.take()
	}
	for {
		if s.reader == nil {
			if s.ended && s.env.Once && !s.again() {
				s.env.Report(connectors.Report{Phase: connectors.PhaseDone})
				return connectors.Batch{}, io.EOF
			}
			if err := s.begin(ctx); err != nil {
				return connectors.Batch{}, err
			}
			continue
		}
		if s.deletes.emit(s.rows, s.env.Limits) {
			return s.take()
		}
		if len(s.queue) == 0 {
			s.reader.close()
			s.reader, s.ended = nil, true
			if s.env.Once {
				return s.take()
			}
			continue
		}
		t := s.queue[0]
		done, err := s.page(ctx, t)
		if err != nil {
			if err := s.fault(ctx, t, err); err != nil {
				return connectors.Batch{}, err
			}
			continue
		}
		if done {
			s.queue = s.queue[1:]
		}
		if len(s.rows.changes) > 0 {
			return s.take()
		}
	}
}

// early reports that the run of a bounded source began before its bound could be above all that was committed before we came.
func (s *extract) early() bool { return s.env.Once && s.began.Before(s.whole) }

// oncePatience is how often a bounded source looks again for rows that wait.
const oncePatience = 10

// again reports whether a bounded source looks once more. Its first run begins at once, and rows that were committed before we came
// may stand above its bound: if any row does, the next run begins when its bound is above them. Rows by number wait until
// all has ended that was open when they were seen, rows by time until all has that had written before the first look, and
// that is often soon.
func (s *extract) again() bool {
	early := s.early()
	if early {
		s.due = s.whole
	} else {
		s.tries++
	}
	return s.tries <= oncePatience && slices.ContainsFunc(s.tables, func(t *extractTable) bool { return (t.numbers || early || s.held) && t.waiting > 0 && !t.failed })
}

func (s *extract) take() (connectors.Batch, error) {
	s.mark.Batch++
	p, err := json.Marshal(s.mark)
	if err != nil {
		return connectors.Batch{}, fmt.Errorf("store position: %w", err)
	}
	s.given = p
	return connectors.Batch{Changes: s.rows.changes, Position: p}, nil
}

// fault ends the run. What the server refuses about a table is that table's own affair, and stops only it: the next run begins
// at once, without it.
func (s *extract) fault(ctx context.Context, t *extractTable, err error) error {
	s.reader.close()
	s.reader, s.rows.changes = nil, s.rows.changes[:0]
	s.deletes.forget()
	if ctx.Err() != nil || !refuses(err) {
		return fmt.Errorf("read table %s: %w", t.name.full(), settle(plain(err)))
	}
	reason := "cannot be read: " + describe(err).Error()
	t.failed, s.failed[t.name] = true, failure{t.def, time.Now()}
	s.env.Report(connectors.Report{Table: t.name.full(), Phase: connectors.PhaseFailed, Reason: reason})
	s.env.Logger.Error("stopped", "source", s.env.Name, "table", t.name.full(), "error", describe(err))
	if !slices.ContainsFunc(s.tables, func(t *extractTable) bool { return !t.failed }) {
		return fmt.Errorf("read tables: all of them stopped, the last one was %s: it %s: %w", t.name.full(), reason, connectors.ErrFatal)
	}
	s.due = time.Time{}
	return nil
}

// begin waits until it is time for a run, and begins it.
func (s *extract) begin(ctx context.Context) error {
	if err := s.wait(ctx); err != nil {
		return err
	}
	s.due = time.Now().Add(s.config.Poll)
	if err := s.lock.hold(ctx, s.db, s.env.Name); err != nil {
		return err
	}
	if s.settled() {
		if err := s.deletes.settle(ctx); err != nil {
			return err
		}
	}
	if s.ran {
		if err := s.load(ctx); err != nil {
			return err
		}
	}
	s.ran, s.began = true, time.Now()
	s.restart()
	if _, err := s.bounds(ctx); err != nil {
		return err
	}
	r, err := s.snapshot(ctx)
	if err != nil {
		return err
	}
	s.reader = r
	s.queue = slices.DeleteFunc(slices.Clone(s.tables), func(t *extractTable) bool { return t.failed })
	if len(s.queue) == 0 {
		return fmt.Errorf("read tables: all of them stopped: %w", connectors.ErrFatal)
	}
	for _, t := range s.queue {
		t.brought = t.mark.brought()
		if err := s.known(ctx, t); err != nil {
			return s.fault(ctx, t, err)
		}
	}
	return nil
}

// snapshot returns a connection that sees one moment.
func (s *extract) snapshot(ctx context.Context) (*reader, error) {
	conn, err := s.endpoint.dial(ctx)
	if err != nil {
		return nil, settle(err)
	}
	m := &moment{r: newReader(conn)}
	for _, statement := range []string{beginReadOnly, beginSnapshot} {
		if err := m.exec(ctx, statement); err != nil {
			m.r.close()
			return nil, fmt.Errorf("begin run: %w", settle(err))
		}
	}
	return m.r, nil
}

// known makes sure that the keys that were handed over are known, where deletes are looked for.
func (s *extract) known(ctx context.Context, t *extractTable) error {
	err := s.deletes.begin(ctx, s.reader, t.keys, t.mark)
	if errors.Is(err, errKeysLost) {
		s.env.Logger.Error("deletes are missing", "source", s.env.Name, "table", t.name.full(), "reason", err.Error())
		s.env.Report(connectors.Report{Table: t.name.full(), Reason: err.Error()})
		return nil
	}
	return err
}

// settled reports that all that was handed over is durable.
func (s *extract) settled() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.given != nil && bytes.Equal(s.given, s.acked)
}

func (s *extract) wait(ctx context.Context) error {
	timer := time.NewTimer(max(time.Until(s.due), 0))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.poke:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// Resync is taken up when the run that goes on has ended.
func (s *extract) Resync(_ context.Context, table string) error {
	schema, name, _ := strings.Cut(table, ".")
	if s.config.spec(tableName{schema, name}) == nil {
		return fmt.Errorf("resync table %q: source %q does not read it", table, s.env.Name)
	}
	s.mu.Lock()
	s.resync = append(s.resync, table)
	s.mu.Unlock()
	select {
	case s.poke <- struct{}{}:
	default:
	}
	return nil
}

// restart puts tables that are to be read anew back to their beginning.
func (s *extract) restart() {
	s.mu.Lock()
	names := s.resync
	s.resync = nil
	s.mu.Unlock()
	for _, t := range s.tables {
		if slices.Contains(names, t.name.full()) {
			*t.mark = extractedTable{Cursor: t.spec.Cursor, First: true, Keys: t.mark.Keys, Looked: t.mark.Looked}
			t.rows, t.failed = 0, false
			delete(s.failed, t.name)
		}
	}
}

// Ack notes what is durable. The server has nothing to hear of it.
func (s *extract) Ack(ctx context.Context, p connectors.Position) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acked = bytes.Clone(p)
	return ctx.Err()
}

// Close ends the connections.
func (s *extract) Close(ctx context.Context) (err error) {
	s.feed.close()
	if s.reader != nil {
		s.reader.close()
		s.reader = nil
	}
	if s.settled() {
		err = s.deletes.settle(ctx)
	}
	err = errors.Join(err, s.deletes.close())
	s.lock.release()
	return errors.Join(err, s.before.close(ctx), s.db.Close())
}
