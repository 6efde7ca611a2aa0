package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/trunkline/trunkline/connectors"
)

// extract is a source of mode timestamp. It is used by one goroutine; Ack and Resync may run beside Read.
//
// A run sees the database at one moment. Which rows are new since the run before is decided by the transactions that
// wrote them, not by their cursors, so that a row that commits late is found whatever its cursor says
// (docs/timestamp-extraction.md has the proof). The cursor decides the order, and which part of a table is looked at.
type extract struct {
	mu     sync.Mutex
	resync []string // guarded by mu: tables that are to be read anew
	poke   chan struct{}

	config  SourceConfig
	env     connectors.Env
	dial    *dialer
	catalog *catalog
	server  *server
	mark    *extractMark
	leave   *leave              // nil: not on the way from mode cdc
	durable atomic.Bool         // a position of this mode
	deletes *deletes            // nil: not looked for
	given   connectors.Position // the last
	acked   connectors.Position // guarded by mu
	retired bool                // slot and publication of mode cdc are gone
	tables  []*extractTable

	run     *extractRun // nil: none goes on
	conn    *pgx.Conn   // between runs
	rows    *rows       // of the batch in the making
	feed    *feed       // nil: not begun
	due     time.Time
	scanned time.Time // when tables were listed last
	told    time.Time // when a position was handed over last
	last    visibility
	ran     bool
	tries   int // of a bounded source
	greeted bool
}

func newExtract(ctx context.Context, config SourceConfig, env connectors.Env, from connectors.Position) (_ *extract, err error) {
	config.Snapshot = snapshotOnly // nothing is asked of tables that streaming needs
	env.Limits = env.Limits.WithDefaults()
	s := &extract{rows: &rows{}, config: config, env: env, poke: make(chan struct{}, 1)}
	if s.dial, err = newDialer(config, env.Name); err != nil {
		return nil, err
	}
	s.catalog = &catalog{dial: s.dial, config: &s.config, types: map[uint32]*typeInfo{}, texts: map[typeRef]string{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close(context.WithoutCancel(ctx)))
		}
	}()
	if err = s.catalog.do(ctx, func(conn *pgx.Conn) (err error) {
		s.server, err = loadServer(ctx, conn)
		return err
	}); err != nil {
		return nil, err
	}
	s.catalog.database = s.server.database
	if s.deletes, err = openDeletes(ctx, &s.config, env); err != nil {
		return nil, err
	}
	var timeline int64
	if timeline, err = s.timeline(ctx); err != nil {
		return nil, err
	}
	s.mark = &extractMark{System: s.server.system, Timeline: timeline, Tables: map[uint32]*tableMark{}}
	if from != nil {
		saved, err := parseExtractMark(from)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%w: %w", err, connectors.ErrFatal)
		case saved == nil:
			s.leave, err = newLeave(ctx, config, env, from)
			return s, err
		case saved.System != s.server.system:
			return nil, otherServer(env.Name)
		}
		s.mark = saved
		s.durable.Store(true)
		if saved.Timeline != timeline {
			saved.failedOver(timeline)
			env.Logger.Warn("the server is one that took over: reading what the last million transactions wrote again", "source", env.Name)
			env.Report(connectors.Report{Reason: "the server is one that took over: what its last million transactions wrote is read again"})
		}
	}
	return s, s.load(ctx)
}

// timeline is the server's, which changes when a standby takes over.
func (s *extract) timeline(ctx context.Context) (n int64, err error) {
	err = s.catalog.do(ctx, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT timeline_id FROM pg_control_checkpoint()").Scan(&n)
	})
	if err != nil {
		return 0, fmt.Errorf("ask for the server's timeline: %w", err)
	}
	return n, nil
}

// Read returns the next rows. A batch may hold rows of several tables. While it is used the next one is read.
func (s *extract) Read(ctx context.Context) (connectors.Batch, error) {
	if s.leave != nil {
		b, done, err := s.leave.read(ctx, s)
		if err != nil || !done {
			return b, err
		}
		if err := s.load(ctx); err != nil {
			return connectors.Batch{}, err
		}
		s.leave = nil
	}
	if s.feed == nil {
		s.feed = newFeed(ctx, s)
	}
	return s.feed.next(ctx)
}

// produce reads a batch into s.rows.
func (s *extract) produce(ctx context.Context) (connectors.Batch, error) {
	if !s.greeted {
		s.greeted = true
		return s.take()
	}
	for {
		if s.run == nil {
			if err := s.begin(ctx); err != nil {
				return connectors.Batch{}, err
			}
		}
		if s.run == nil {
			continue
		}
		done, err := s.advance(ctx)
		if err != nil {
			return connectors.Batch{}, err
		}
		if done || s.rows.full(s.env.Limits) {
			if len(s.rows.changes) > 0 || time.Since(s.told) > s.config.Heartbeat || s.env.Once {
				return s.take()
			}
		}
	}
}

func (s *extract) take() (connectors.Batch, error) {
	if len(s.rows.changes) > 0 {
		s.mark.Batch++
	}
	p, err := s.mark.encode()
	s.told, s.given = time.Now(), p
	return connectors.Batch{Changes: s.rows.changes, Position: p}, err
}

// begin waits until it is time for a run and begins it. There is none when nothing was committed since the last one.
func (s *extract) begin(ctx context.Context) error {
	if s.env.Once && s.ran && !s.again() {
		s.env.Report(connectors.Report{Phase: connectors.PhaseDone})
		return io.EOF
	}
	if err := s.wait(ctx); err != nil {
		return err
	}
	s.due = time.Now().Add(s.config.Poll)
	if s.durable.Load() && !s.retired {
		if err := s.retire(ctx); err != nil { // it costs the server WAL, but no rows
			s.env.Logger.Warn("retire mode cdc", "source", s.env.Name, "error", err)
			s.env.Report(connectors.Report{Reason: "the slot of the time in mode cdc still holds WAL: " + err.Error()})
		} else {
			s.retired = true
		}
	}
	if time.Since(s.scanned) > s.config.Rescan {
		if err := s.load(ctx); err != nil {
			return err
		}
	}
	if s.settled() {
		if err := s.deletes.settle(ctx); err != nil {
			return err
		}
	}
	anew := s.restart()
	run, err := s.open(ctx)
	if err != nil {
		return err
	}
	s.run, s.ran = run, true
	waits := slices.ContainsFunc(s.tables, func(t *extractTable) bool { return t.waiting > 0 })
	if !anew && !waits && run.seen.equal(s.last) {
		return s.finish(ctx)
	}
	if newest := s.mark.newest(); newest > run.seen.xmax {
		return fmt.Errorf("the server is at transaction %d, and %d was read before: it was set back to an earlier state; read its tables anew with: trunkline resync %s: %w",
			run.seen.xmax, newest, s.env.Name, connectors.ErrPositionLost)
	}
	run.allow(s.tables)
	for _, first := range []bool{false, true} { // what was read before does not wait for what is new
		for _, t := range s.tables {
			if t.mark.First == first && !t.failed {
				run.queue = append(run.queue, t)
			}
		}
	}
	if len(run.queue) == 0 {
		return fmt.Errorf("read tables: all of them stopped: %w", connectors.ErrFatal)
	}
	return nil
}

// open begins a run on the connection of the last one, if there is one that works.
func (s *extract) open(ctx context.Context) (*extractRun, error) {
	if s.conn != nil && !s.conn.IsClosed() {
		r := &extractRun{conn: s.conn}
		return r, r.snapshot(ctx)
	}
	conn, err := s.dial.sql(ctx)
	if err != nil {
		return nil, err
	}
	s.conn = conn
	if err := s.lock(ctx, conn); err != nil {
		return nil, err
	}
	r := &extractRun{conn: conn}
	return r, r.snapshot(ctx)
}

// lock keeps the runs of one source apart, whichever process makes them. The lock ends with the connection, and so with
// the process; it waits a little, because the server may not have noticed yet that the last one has ended.
func (s *extract) lock(ctx context.Context, conn *pgx.Conn) error {
	for _, statement := range []string{"SET lock_timeout = '1s'", "SELECT pg_advisory_lock(" + strconv.FormatInt(s.lockKey(), 10) + ")", "SET lock_timeout = 0"} {
		_, err := conn.Exec(ctx, statement)
		if pg := (*pgconn.PgError)(nil); errors.As(err, &pg) && pg.Code == "55P03" {
			return fmt.Errorf("lock source: another process extracts source %s from this database", s.env.Name)
		}
		if err != nil {
			return fmt.Errorf("lock source: %w", err)
		}
	}
	return nil
}

// lockKey is the number of the advisory lock.
func (s *extract) lockKey() int64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, "trunkline extract "+s.env.Name) // a hash never fails
	return int64(h.Sum64())
}

func (s *extract) wait(ctx context.Context) error {
	d := time.Until(s.due)
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.poke:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// finish ends a run.
func (s *extract) finish(ctx context.Context) error {
	run := s.run
	s.run, s.last = nil, run.seen
	return run.end(ctx)
}

// advance reads until the batch is full or the run is at its end.
func (s *extract) advance(ctx context.Context) (done bool, err error) {
	run := s.run
	run.detects = s.deletes != nil
	for {
		if s.deletes.emit(s.rows, s.env.Limits, run.at, run.origin) {
			return false, nil
		}
		if run.table == nil {
			if len(run.queue) == 0 {
				return true, s.finish(ctx)
			}
			t := run.queue[0]
			run.queue = run.queue[1:]
			if err := s.takeUp(ctx, t); err != nil {
				return false, s.fault(ctx, t, err)
			}
		}
		t, first, n := run.table, run.table.mark.First, len(s.rows.changes)
		complete, err := run.read(ctx, s.rows, s.env.Limits)
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		if err == nil {
			err = s.deletes.add(ctx, t, run.keys)
			run.keys = run.keys[:0]
		}
		if err != nil {
			s.rows.changes = s.rows.changes[:n]
			return false, s.fault(ctx, t, err)
		}
		if s.rows.strange {
			s.rows.strange = false
			s.scanned = time.Time{} // an enum has a new label: describe the tables again
		}
		if !complete {
			run.mark()
			s.progress(t, first, int64(len(s.rows.changes)-n))
			return false, nil
		}
		s.progress(t, first, int64(len(s.rows.changes)-n))
		if run.complete() {
			run.queue = append(run.queue, t)
			continue
		}
		if first {
			s.announce(t)
		}
		if err := s.account(ctx, t, run.waiting); err != nil {
			return false, err
		}
		if err := s.deletes.detect(ctx, run, t, s.config.DeletesEvery); err != nil {
			return false, err
		}
	}
}

// takeUp begins the pass of a table.
func (s *extract) takeUp(ctx context.Context, t *extractTable) error {
	run := s.run
	if err := s.prepare(ctx, t); err != nil {
		return err
	}
	known := t.mark.Keys
	err := s.deletes.begin(ctx, run, t)
	if t.mark.Keys != known {
		s.told = time.Time{} // the mark has to name the keys soon
	}
	if errors.Is(err, errKeysLost) {
		s.env.Logger.Error("deletes are missing", "source", s.env.Name, "table", t.relation.full(), "reason", err.Error())
		s.env.Report(connectors.Report{Table: t.relation.full(), Reason: err.Error()})
	} else if err != nil {
		return err
	}
	if t.relation.spec.Query != "" {
		run.settleBound(t, s.config.Settle)
	}
	run.begin(t)
	run.reached = run.reach(t, s.config.Scan)
	return nil
}

// progress reports the first extract of a table.
func (s *extract) progress(t *extractTable, first bool, n int64) {
	if !first {
		return
	}
	t.rows += n
	r := connectors.Report{Table: t.relation.full(), Phase: connectors.PhaseSnapshot, Rows: t.rows, Total: max(t.rows, t.relation.estimate)}
	s.env.Report(r)
}

// fault decides whether an error is the table's own affair, which stops only the table. The run is over either way.
func (s *extract) fault(ctx context.Context, t *extractTable, err error) error {
	run := s.run
	s.run, s.last = nil, visibility{}
	s.deletes.forget()
	if run.result != nil {
		run.stop()
	}
	_ = s.conn.Close(context.WithoutCancel(ctx)) // the transaction is broken
	s.conn = nil
	own := refuses(err) || errors.Is(err, errGone) || errors.Is(err, connectors.ErrFatal)
	switch {
	case errors.Is(err, errRewritten):
		s.due = time.Time{}
		return nil
	case own:
		t.failed = true
		s.due = time.Time{}
		s.ran = false
		s.env.Logger.Error("stopped", "source", s.env.Name, "table", t.relation.full(), "error", err)
		s.env.Report(connectors.Report{Table: t.relation.full(), Phase: connectors.PhaseFailed, Reason: err.Error()})
		return nil
	}
	return fmt.Errorf("read table %s: %w", t.relation.full(), err)
}

// Resync is taken up when the run that goes on has ended.
func (s *extract) Resync(_ context.Context, table string) error {
	if s.config.spec(table) == nil {
		return fmt.Errorf("resync table %s: it is not one of this source's tables", table)
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

// restart puts tables that are to be read anew back to their beginning, and reports whether there are any.
func (s *extract) restart() bool {
	s.mu.Lock()
	names := s.resync
	s.resync = nil
	s.mu.Unlock()
	for _, t := range s.tables {
		if slices.Contains(names, t.relation.full()) {
			*t.mark = tableMark{Name: t.relation.full(), Cursor: t.cursor.name, First: true, High: t.mark.High, Keys: t.mark.Keys, Looked: t.mark.Looked}
			t.rows, t.failed = 0, false
			s.announce(t)
		}
	}
	return len(names) > 0
}

// Ack tells the slot, on the way from mode cdc. After it the server keeps nothing for us.
func (s *extract) Ack(ctx context.Context, p connectors.Position) error {
	m, err := parseExtractMark(p)
	if err != nil {
		return err
	}
	if m != nil {
		s.durable.Store(true)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acked = bytes.Clone(p)
	return ctx.Err()
}

// oncePatience is how often a bounded source looks again for rows of a query that wait.
const oncePatience = 10

// again reports whether a bounded source looks once more: the rows of a query can wait for nothing but that.
func (s *extract) again() bool {
	waits := slices.ContainsFunc(s.tables, func(t *extractTable) bool { return t.relation.spec.Query != "" && t.waiting > 0 && !t.failed })
	s.tries++
	return waits && s.tries <= oncePatience
}

// settled reports that all that was handed over is durable.
func (s *extract) settled() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.given != nil && bytes.Equal(s.given, s.acked)
}

// Close ends the connections.
func (s *extract) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, goodbye)
	defer cancel()
	s.feed.close()
	if s.run != nil {
		s.run.stop()
	}
	err := s.leave.close(ctx)
	if s.settled() {
		err = errors.Join(err, s.deletes.settle(ctx))
	}
	err = errors.Join(err, s.deletes.close())
	if s.durable.Load() && !s.retired {
		s.retired = s.retire(ctx) == nil // else the next start tries it
	}
	if s.conn != nil {
		_ = s.conn.Close(ctx) // nothing was written
	}
	s.catalog.close(ctx)
	return err
}

func (v *visibility) equal(o visibility) bool {
	return v.xmin == o.xmin && v.xmax == o.xmax && slices.Equal(v.running, o.running)
}
