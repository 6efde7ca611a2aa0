package mysql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

// A table is read while the stream goes on when it is new to the configuration, or when a person asks for that. The
// stream pauses at the end of a transaction, and goes on there when the rows are read.
//
// Of a new table it then leaves out what is older than the moment at which the rows were read, whose place is known. Of a
// table that was read before it leaves out nothing: rows that have gone in between have to go, and every row image is
// whole, so that what was too new is right again when the stream has passed that moment. A table without a key, which
// cannot be set right so, begins with a TRUNCATE, and the stream leaves out the rest. So does one that had stopped, and one
// that a statement has changed which the stream has not come to yet.
//
// The server is told that we are gone meanwhile. Its binary log has to reach back to where the stream paused when the
// table has been read.

// errSync ends a reading of the stream so that tables can be read.
var errSync = errors.New("tables are asked for")

// requests are the tables that somebody asked for.
type requests struct {
	mu   sync.Mutex
	list []tableName
	wake chan struct{}

	repairs []repair
}

func (r *requests) add(n tableName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.list, n) {
		r.list = append(r.list, n)
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *requests) take() []tableName {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.list
	r.list = nil
	return list
}

func (r *requests) pending() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.list)+len(r.repairs) > 0
}

// Resync asks for a fresh snapshot of a table. Its rows come out of Read as soon as the transaction at hand has ended.
func (s *Source) Resync(_ context.Context, table string) error {
	schema, name, ok := strings.Cut(table, ".")
	n := tableName{schema, name}
	if !ok || s.config.spec(n) == nil || s.config.Snapshot == snapshotOnly {
		return fmt.Errorf("resync table %q: source %q does not read it", table, s.env.Name)
	}
	s.requests.add(n)
	return nil
}

// missing are tables of today that have not been read: they are new to the configuration.
func (s *Source) missing() []tableName {
	var list []tableName
	for _, t := range s.tables {
		if !slices.Contains(s.pos.Tables, t.name) {
			list = append(list, t.name)
		}
	}
	return list
}

// startSync begins to read tables, all of them at one moment.
func (s *Source) startSync(ctx context.Context, names []tableName) error {
	list, err := s.schemas.catalog.tables(ctx)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(t *foundTable) bool { return !slices.Contains(names, t.name) })
	for _, n := range names {
		if _, altered := s.pos.Altered[n]; !altered && !slices.ContainsFunc(list, func(t *foundTable) bool { return t.name == n }) {
			s.env.Report(connectors.Report{Table: n.full(), Phase: connectors.PhaseFailed, Reason: "no such table on the server, or our user may not see it"})
		}
	}
	if len(list) == 0 {
		return nil
	}
	again := slices.DeleteFunc(slices.Clone(names), func(n tableName) bool {
		t := s.schemas.tables[n]
		return !slices.Contains(s.pos.Tables, n) || t != nil && t.failed
	})
	s.pos.Tables = slices.DeleteFunc(slices.Clone(s.pos.Tables), func(n tableName) bool { return slices.Contains(names, n) })
	for _, n := range names {
		delete(s.pos.Skip, n)
	}
	s.pos.Snapshot = &snapshotMark{Sync: true, Again: again, Void: s.takeAltered(list)}
	return s.sync(ctx, list)
}

// sync reads the tables of a mark that is one of startSync.
func (s *Source) sync(ctx context.Context, list []*foundTable) error {
	if list = s.postpone(list); len(list) == 0 {
		s.pos.Snapshot = nil
		return nil // the stream goes on
	}
	workers, err := s.moments(ctx, 1)
	if err != nil {
		return err
	}
	if s.pos.Skip == nil {
		s.pos.Skip = map[tableName]place{}
	}
	var void []tableName // what was handed over of them before does not count
	before := map[tableName]*connectors.Table{}
	for _, t := range list {
		known := s.schemas.tables[t.name]
		if known != nil {
			before[t.name] = known.shape.table
		}
		ahead := known != nil && known.shape.def.differs(t.def)
		if ahead { // what the stream brings from before the moment is of another shape than the rows
			mark := s.pos.Snapshot
			mark.Again = slices.DeleteFunc(slices.Clone(mark.Again), func(n tableName) bool { return n == t.name })
			delete(mark.Tables, t.name)
			delete(s.pos.Skip, t.name)
		}
		again := slices.Contains(s.pos.Snapshot.Again, t.name)
		// After a crash the first moment counts: rows that were read then are not read again.
		if _, ok := s.pos.Skip[t.name]; !ok && !again {
			s.pos.Skip[t.name] = workers[0].at
		}
		stopped := known != nil && !again && (known.failed || known.old || ahead)
		gone := slices.Contains(s.pos.Snapshot.Void, t.name) || known != nil && again && len(known.shape.table.Key) == 0
		if (stopped || gone) && !s.pos.Snapshot.begun(t.name) {
			void = append(void, t.name)
		}
		if stopped { // the stream goes on with what it looks like now
			known.failed = false
			if err := s.schemas.set(t.name, t.def); err != nil {
				closeAll(workers)
				return err
			}
		}
	}
	if err := s.startSnapshot(ctx, workers, list); err != nil {
		return err
	}
	for _, n := range void {
		table := before[n] // what has to go is of this version: a target could not give it the new key
		if t := s.schemas.tables[n]; table == nil && t != nil {
			table = t.shape.table
		}
		if table != nil {
			m := stampOf(workers[0])
			s.void = append(s.void, connectors.Change{Op: connectors.Truncate, Table: table, Time: time.Now().UTC(), Origin: m.origin, Position: m.position})
		}
	}
	return nil
}

// syncAsked leaves the stream, which is between two transactions, for the tables that somebody asked for.
func (s *Source) syncAsked(ctx context.Context) error {
	if err := s.pauseStream(); err != nil {
		return err
	}
	return s.startSync(ctx, s.requests.take())
}

// pauseStream closes the stream at the end of a transaction, which is then the source's position.
func (s *Source) pauseStream() error {
	mark, err := s.stream.mark()
	if err != nil {
		return err
	}
	s.stream.close()
	s.stream = nil
	s.pos, err = parsePosition(mark)
	return err
}

// begun reports whether rows of a table are durable already.
func (m *snapshotMark) begun(n tableName) bool {
	t := m.Tables[n]
	return t != nil && (t.Done || t.Rows > 0 || len(t.Ranges) > 0 || len(t.After) > 0)
}
