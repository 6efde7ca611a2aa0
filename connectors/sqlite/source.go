// Package sqlite reads tables of a SQLite file by a cursor column, and writes changes into one. It needs no server and
// no C compiler.
//
// The source promises every row whose cursor grew since the last extract, exactly once in a mark, in the order of
// (cursor, key), and that a restart goes on where the last mark was. The rows that the first extract finds are Snapshot
// changes. After it a row is an Insert where the cursor is the row's own key, so that the row can only be new, and an
// Update without an old row where the cursor is another column: an extract cannot tell a new row from a changed one, and
// who stores rows by key need not know. It sees deletes only if it is told to compare keys, and no changes that leave the
// cursor as it was, nor rows whose cursor is NULL after the first extract, and check says so.
//
// Late commits, which make other databases lose rows to a cursor, need a word. SQLite has one writer at a time: what an
// extract sees is everything up to some commit and nothing after it, so no row with a cursor taken inside a write
// transaction can appear behind one that was read. What remains is two rows with one cursor value (a clock with a
// resolution of a second), the later one with a lower key or a row changed twice in one tick. The rows of the last
// cursor value are remembered by their hashes, up to a thousand, and read again by the next extract. An application
// that takes the time before it waits for the lock can still commit behind the cursor; an integer key cannot. A cursor that
// is a time never passes SQLite's clock, so that a row stamped in the future hides nothing; a clock that was set back makes
// the table be read again.
//
// The sink promises each change exactly once: the rows and the stream's position are one transaction.
//
// The pipeline calls both.
package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

// readOnly opens a file that is there and keeps us from changing it. The file itself is opened for writing, because a
// reader of a WAL database takes part in its shared memory.
var readOnly = []string{"mode=rw", "_pragma=busy_timeout(10000)", "_pragma=query_only(1)"}

// source is used by one goroutine; Ack and Resync may run beside Read.
type source struct {
	mu     sync.Mutex
	resync []string            // guarded by mu: tables that are to be read anew
	acked  connectors.Position // guarded by mu

	config  *SourceConfig
	env     connectors.Env
	db      *database
	lock    *os.File // against other processes
	tables  []*table
	refused []connectors.Finding // tables that cannot be read
	pending []*table             // this cycle's tables that may have more
	places  map[string]*place
	schema  int64 // schema_version that tables were read with; -1: none
	data    int64 // data_version at the start of the last cycle; -1: none
	due     time.Time
	reader  reader
	cycles  int      // since the schema was read
	deletes *deletes // nil: not looked for
}

func openSource(ctx context.Context, c *SourceConfig, env connectors.Env, from connectors.Position) (connectors.Source, error) {
	places, err := parsePosition(from)
	if err != nil {
		return nil, err
	}
	lock, err := lockRuns(ctx, &c.File, env.Name)
	if err != nil {
		return nil, err
	}
	db, err := open(ctx, &c.File, readOnly...)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	s := &source{
		config: c, env: env, db: db, lock: lock, places: places, schema: -1, data: -1,
		reader: reader{limits: env.Limits.WithDefaults()},
	}
	if s.deletes, err = openDeletes(ctx, c, env); err != nil {
		return nil, errors.Join(err, db.close(), lock.Close())
	}
	s.reader.detects = s.deletes != nil
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.deletes.close(), db.close(), lock.Close())
	}
	return s, nil
}

// start reads the schema and, for a bounded reading, where each table ends now.
func (s *source) start(ctx context.Context) error {
	version, err := number(ctx, s.db, "PRAGMA schema_version")
	if err != nil {
		return err
	}
	if err := s.load(ctx, version); err != nil {
		return err
	}
	if len(s.tables) == 0 && len(s.refused) > 0 {
		p := s.refused[0]
		return fmt.Errorf("open source: table %s: %s; %s: %w", p.Subject, p.Problem, p.Remedy, connectors.ErrFatal)
	}
	if len(s.tables) == 0 {
		return fmt.Errorf("open source: no table to read; correct tables in the configuration: %w", connectors.ErrFatal)
	}
	if !s.env.Once {
		return nil
	}
	for _, t := range s.tables {
		query := "SELECT +max(" + quote(t.cursor) + ") FROM " + t.from
		if err := s.db.QueryRowContext(ctx, query).Scan(&t.limit); err != nil {
			return fmt.Errorf("read end of %s: %w", t.FullName(), err)
		}
	}
	return nil
}

// load reads the catalog and keeps what is known about tables that did not change.
func (s *source) load(ctx context.Context, version int64) error {
	list, problems, err := catalog(ctx, s.db, s.config)
	if err != nil {
		return err
	}
	s.refused = problems
	for _, p := range problems {
		s.env.Report(connectors.Report{Table: p.Subject, Phase: connectors.PhaseFailed, Reason: p.Problem + "; " + p.Remedy})
	}
	old := make(map[string]*table, len(s.tables))
	for _, t := range s.tables {
		old[t.id] = t
	}
	for _, t := range list {
		t.place = s.places[t.id]
		if t.place == nil || t.place.Cursor != t.cursor || !t.fits(t.place) {
			t.place = s.beginning(t)
			s.places[t.id] = t.place
		}
		t.seen, t.ahead = parseSeen(t.place.Seen), parseSeen(t.place.Ahead)
		if o := old[t.id]; o != nil {
			t.limit, t.rows, t.nulls = o.limit, o.rows, o.nulls
			if o.Table.Equal(t.Table) {
				t.Table = o.Table
			}
		}
		if err := s.announce(ctx, t); err != nil {
			return err
		}
	}
	s.tables, s.schema = list, version
	s.pending, s.data, s.cycles, s.due = nil, -1, 0, time.Time{}
	return nil
}

// beginning is the place before all rows.
func (s *source) beginning(t *table) *place {
	return &place{Cursor: t.cursor, Snapshot: true, Nulls: t.nullable && s.config.NullCursor != NullSkip}
}

// announce tells what will be done with a table.
func (s *source) announce(ctx context.Context, t *table) error {
	if !t.place.Snapshot {
		s.env.Report(connectors.Report{Table: t.FullName(), Phase: connectors.PhaseStreaming})
		return nil
	}
	var err error
	if t.total, err = number(ctx, s.db, "SELECT count(*) FROM "+t.from); err != nil {
		return err
	}
	s.env.Report(connectors.Report{Table: t.FullName(), Phase: connectors.PhaseSnapshot, Rows: t.rows, Total: t.total})
	return nil
}

// fits reports whether the place has as many cells as the table's order has columns.
func (t *table) fits(p *place) bool {
	want := len(t.tie) + 1
	if p.Nulls {
		want = len(t.tie)
	}
	return len(p.At) == 0 || len(p.At) == want
}

// Read returns the next rows of one table; tables take turns.
func (s *source) Read(ctx context.Context) (connectors.Batch, error) {
	b, err := s.read(ctx)
	if s.deletes != nil && err == nil {
		s.deletes.given = b.Position
	}
	return b, err
}

func (s *source) read(ctx context.Context) (connectors.Batch, error) {
	for {
		if len(s.pending) == 0 && s.cycles > 0 && s.deletes != nil {
			if b, err := s.gone(ctx); err != nil || b.Position != nil {
				return b, err
			}
		}
		if len(s.pending) == 0 {
			if err := s.cycle(ctx); err != nil {
				return connectors.Batch{}, err
			}
		}
		for len(s.pending) > 0 {
			b, err := s.next(ctx)
			if err != nil || b.Position != nil {
				return b, err
			}
		}
	}
}

// gone returns deletes after a cycle; without a position there are none.
func (s *source) gone(ctx context.Context) (connectors.Batch, error) {
	if err := s.settleDeletes(ctx); err != nil {
		return connectors.Batch{}, err
	}
	for _, t := range s.tables {
		if len(s.deletes.pending) > 0 {
			break
		}
		if s.lookDue(t) {
			if err := s.detect(ctx, t); err != nil {
				return connectors.Batch{}, err
			}
		}
	}
	if len(s.deletes.pending) == 0 {
		return connectors.Batch{}, nil
	}
	return s.handOver()
}

// cycle waits until it is time to look again and something was written.
func (s *source) cycle(ctx context.Context) error {
	for {
		if s.env.Once && s.cycles > 0 {
			s.env.Report(connectors.Report{Phase: connectors.PhaseDone})
			return io.EOF
		}
		if err := sleep(ctx, time.Until(s.due)); err != nil {
			return err
		}
		s.due = time.Now().Add(s.config.Poll)
		if err := s.settleDeletes(ctx); err != nil {
			return err
		}
		// data_version changes with every commit of another connection. It is asked before the reading starts, so
		// that a commit during the reading starts another cycle.
		data, err := number(ctx, s.db, "PRAGMA data_version")
		if err != nil {
			return err
		}
		anew, err := s.restart(ctx)
		if err != nil {
			return err
		}
		if data == s.data && !anew {
			if slices.ContainsFunc(s.tables, s.lookDue) {
				return nil
			}
			continue
		}
		s.data = data
		s.cycles++
		healthy := 0
		for _, t := range s.tables {
			if t.failed {
				continue
			}
			healthy++
			t.again = !t.place.Snapshot
			s.pending = append(s.pending, t)
		}
		if healthy == 0 {
			return fmt.Errorf("read tables: all of them stopped: %w", connectors.ErrFatal)
		}
		return nil
	}
}

// Resync is taken up when the reading that goes on has ended, at the latest after poll.
func (s *source) Resync(_ context.Context, name string) error {
	if s.config.spec(strings.TrimPrefix(name, schemaName+".")) == nil {
		return fmt.Errorf("resync table %s: it is not one of this source's tables", name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resync = append(s.resync, name)
	return nil
}

// restart puts the tables that are to be read anew back to their beginning, and reports whether there are any.
func (s *source) restart(ctx context.Context) (bool, error) {
	s.mu.Lock()
	names := s.resync
	s.resync = nil
	s.mu.Unlock()
	for _, t := range s.tables {
		if !slices.Contains(names, t.Name) && !slices.Contains(names, t.FullName()) {
			continue
		}
		keys, looked := t.place.Keys, t.place.Looked
		*t.place = *s.beginning(t)
		t.place.Keys, t.place.Looked = keys, looked
		t.seen.reset()
		t.ahead.reset()
		t.rows, t.failed = 0, false
		if err := s.announce(ctx, t); err != nil {
			return false, err
		}
	}
	return len(names) > 0, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// next reads one batch of the first pending table. The batch has no position if there was nothing to say.
func (s *source) next(ctx context.Context) (connectors.Batch, error) {
	t := s.pending[0]
	s.pending = s.pending[1:]
	before := *t.place
	first := t.place.Snapshot
	if err := s.beginDeletes(ctx, t); err != nil {
		return connectors.Batch{}, err
	}
	more, err := s.extract(ctx, t)
	if err != nil {
		*t.place = before
		t.seen, t.ahead = parseSeen(before.Seen), parseSeen(before.Ahead)
		t.again = !before.Snapshot
		s.pending = append(s.pending, t)
		return connectors.Batch{}, s.tableError(ctx, t, err)
	}
	if more {
		s.pending = append(s.pending, t)
	} else {
		t.place.Snapshot = false
	}
	if !t.unique {
		t.place.Seen, t.place.Ahead = t.seen.String(), t.ahead.String()
	}
	if err := s.addKeys(ctx, t); err != nil {
		return connectors.Batch{}, err
	}
	s.report(t, first)
	if !more && t.nullable {
		if err := s.countNulls(ctx, t); err != nil {
			return connectors.Batch{}, err
		}
	}
	if len(s.reader.changes) == 0 && first == t.place.Snapshot && before.Nulls == t.place.Nulls && before.Keys == t.place.Keys {
		return connectors.Batch{}, nil
	}
	p, err := formatPosition(s.places)
	if err != nil {
		return connectors.Batch{}, err
	}
	return connectors.Batch{Changes: s.reader.changes, Position: p}, nil
}

// errSchema says that the schema changed before the extract began.
var errSchema = errors.New("schema changed")

// extract reads a batch within one read transaction, so that schema and rows belong together.
func (s *source) extract(ctx context.Context, t *table) (more bool, err error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return false, fmt.Errorf("begin reading %s: %w", t.FullName(), err)
	}
	defer tx.Rollback() //nolint:errcheck // a read transaction has nothing to lose
	version, err := number(ctx, tx, "PRAGMA schema_version")
	if err != nil {
		return false, err
	}
	if version != s.schema {
		return false, errSchema
	}
	if err := s.look(ctx, tx, t); err != nil {
		return false, err
	}
	s.reader.reset(t, time.Now())
	if t.place.Nulls {
		if more, err = s.reader.extract(ctx, tx, t, nullRows); more || err != nil {
			return more, err
		}
		t.place.Nulls, t.place.At = false, nil
	}
	if t.again {
		t.again = false
		if !t.unique && !t.seen.overflow && len(t.place.At) > 1 {
			if _, err := s.reader.extract(ctx, tx, t, sameAgain); err != nil {
				return false, err
			}
		}
	}
	if more, err = s.reader.extract(ctx, tx, t, onward); more || err != nil || t.now == nil {
		return more, err
	}
	t.ahead, s.reader.known = parseSeen(""), t.ahead
	return s.reader.extract(ctx, tx, t, ahead)
}

// tableError decides whether an error is the table's own affair, which stops only the table.
func (s *source) tableError(ctx context.Context, t *table, err error) error {
	switch {
	case errors.Is(err, errSchema):
		version, err := number(ctx, s.db, "PRAGMA schema_version")
		if err != nil {
			return err
		}
		return s.load(ctx, version)
	case isStatement(err), errors.Is(err, errRowTooLarge):
		t.failed = true
		s.pending = s.pending[:len(s.pending)-1]
		s.env.Logger.Error("stopped", "source", s.env.Name, "table", t.FullName(), "error", err)
		s.env.Report(connectors.Report{Table: t.FullName(), Phase: connectors.PhaseFailed, Reason: err.Error()})
		return nil
	}
	return err
}

// report tells of the snapshot's progress and its end.
func (s *source) report(t *table, first bool) {
	if !first {
		return
	}
	t.rows += int64(len(s.reader.changes))
	r := connectors.Report{Table: t.FullName(), Phase: connectors.PhaseSnapshot, Rows: t.rows, Total: t.total}
	if !t.place.Snapshot {
		r.Phase = connectors.PhaseStreaming
	}
	s.env.Report(r)
}

// countNulls reports how many rows an extract cannot see.
func (s *source) countNulls(ctx context.Context, t *table) error {
	n, err := number(ctx, s.db, "SELECT count(*) FROM "+t.from+" WHERE "+t.unseen())
	if err != nil {
		return err
	}
	if n != t.nulls {
		t.nulls = n
		s.env.Report(connectors.Report{
			Table:  t.FullName(),
			Unseen: &n,
			Reason: fmt.Sprintf("%d rows have NULL in %s: what happens to them is not seen", n, t.unseenColumns()),
		})
	}
	return nil
}

// Ack has nothing to tell: SQLite keeps nothing for a reader.
func (s *source) Ack(ctx context.Context, p connectors.Position) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acked = bytes.Clone(p)
	return ctx.Err()
}

// Close ends the connection.
func (s *source) Close(ctx context.Context) error {
	return errors.Join(s.settleDeletes(context.WithoutCancel(ctx)), s.deletes.close(), s.db.close(), s.lock.Close())
}
