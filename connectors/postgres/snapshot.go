package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/trunkline/trunkline/connectors"
)

const (
	keptBuffers = 6    // empty buffers that are kept for each worker
	maxPresized = 8192 // changes that a new buffer has room for
)

// snapshot reads tables with several workers, all at one moment. It hands over one range of pages after the other, so
// that the mark after each range is exact: a worker keeps the rows of its range until it has the turn, and takes the
// turn early when they become too many.
//
// After a crash it goes on at a later moment with the pages that are not finished, and reads from the finished ones what
// was written since: an update can move a row from an unfinished page to a finished one, and the stream, which replays
// everything since the first moment, would bring it without its unchanged out-of-line values. What the later moment
// shows too new is made right by that replay, because no stream begins before the snapshot is complete.
type snapshot struct {
	limits   connectors.Limits
	buffer   int
	ranges   bool
	mark     *snapshotMark
	origin   []byte
	position connectors.Position
	report   func(connectors.Report)
	notify   func() // after a piece is there to be polled; may be nil
	lost     func(*snapshotTable, error)

	mu    sync.Mutex
	tasks []task // not taken yet

	pieces chan piece
	turn   chan struct{}
	free   chan *rows
	tables []*snapshotTable
	last   *rows // what the last Read returned
	left   int   // tasks that are not handed over yet

	cancel  context.CancelFunc
	workers sync.WaitGroup
}

// piece is what a worker hands over: rows, and with the last ones of a task the task and its number of rows.
type piece struct {
	rows *rows
	done *task
	n    int64
	lost *snapshotTable // its rows cannot be read as they were at the moment of the snapshot, for this reason
	err  error
}

// snapshotOptions say what to read. Workers are connections in which a transaction with the same snapshot is open.
type snapshotOptions struct {
	limits  connectors.Limits
	buffer  int
	ranges  bool
	tables  []*snapshotTable
	mark    *snapshotMark // with XMin set; is kept up to date
	start   lsn
	report  func(connectors.Report)
	workers []*pgx.Conn
	notify  func() // tells that there is something to poll; without it, read waits for it

	// lost takes a table that a statement changed before it was read, for which the moment is of no more use. Without it,
	// that ends the snapshot.
	lost func(*snapshotTable, error)
}

// newSnapshot plans the tasks and starts the workers, which it owns from then on.
func newSnapshot(ctx context.Context, o snapshotOptions) (*snapshot, error) {
	s := &snapshot{notify: o.notify, lost: o.lost, limits: o.limits, buffer: o.buffer, ranges: o.ranges, mark: o.mark, report: o.report,
		origin: fmt.Appendf(nil, `"txId":null,"lsn":%d,"xmin":null`, uint64(o.start)), position: o.start.append(nil),
		tables: o.tables, pieces: make(chan piece), turn: make(chan struct{}, 1), free: make(chan *rows, keptBuffers*len(o.workers))}
	if s.mark.Files == nil {
		s.mark.Files = map[uint32]*fileMark{}
	}
	var last []task
	for _, t := range o.tables {
		files, err := filesOf(ctx, o.workers[0], t.relation)
		if err != nil {
			closeAll(ctx, o.workers)
			return nil, err
		}
		for _, f := range files {
			done := s.mark.Files[f.oid]
			if done == nil || done.Node != f.node || t.anew {
				done = &fileMark{Node: f.node}
				s.mark.Files[f.oid] = done
			}
			t.rows += done.Rows
			unfinished, newer := plan(t, f, done, s.ranges)
			t.left += len(unfinished) + len(newer)
			s.tasks = append(s.tasks, unfinished...)
			last = append(last, newer...)
		}
		phase := connectors.PhaseSnapshot
		if t.left == 0 {
			phase = connectors.PhaseStreaming
		}
		s.report(connectors.Report{Table: t.relation.full(), Phase: phase, Rows: t.rows, Total: t.relation.estimate})
	}
	s.tasks = append(s.tasks, last...)
	s.left = len(s.tasks)
	if s.notify != nil {
		s.pieces = make(chan piece, 1)
	}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.cancel = cancel
	for _, conn := range o.workers {
		s.workers.Add(1)
		go func() {
			defer s.workers.Done()
			defer conn.Close(context.WithoutCancel(run))
			if err := s.work(run, conn); err != nil && run.Err() == nil {
				s.send(run, piece{err: err})
			}
		}()
	}
	return s, nil
}

func closeAll(ctx context.Context, list []*pgx.Conn) {
	for _, conn := range list {
		conn.Close(ctx)
	}
}

// read returns the next rows, and the task that they complete. It is finished when there is nothing left.
func (s *snapshot) read(ctx context.Context) (changes []connectors.Change, complete, finished bool, err error) {
	s.recycle()
	if s.left == 0 {
		return nil, true, true, nil
	}
	select {
	case <-ctx.Done():
		return nil, false, false, ctx.Err()
	case p := <-s.pieces:
		return s.taken(p)
	}
}

// poll is read without waiting: ok is false when nothing is there.
func (s *snapshot) poll() (changes []connectors.Change, ok, finished bool, err error) {
	s.recycle()
	if s.left == 0 {
		return nil, false, true, nil
	}
	select {
	case p := <-s.pieces:
		changes, _, finished, err = s.taken(p)
		return changes, true, finished, err
	default:
		return nil, false, false, nil
	}
}

// recycle gives the buffer of the last batch back to the workers.
func (s *snapshot) recycle() {
	if s.last == nil {
		return
	}
	s.last.reset()
	select {
	case s.free <- s.last:
	default:
	}
	s.last = nil
}

func (s *snapshot) taken(p piece) (changes []connectors.Change, complete, finished bool, err error) {
	if p.lost != nil {
		s.lose(p.lost, p.err)
		return nil, false, s.left == 0, nil
	}
	if p.err != nil {
		return nil, false, false, p.err
	}
	s.last = p.rows
	if p.done != nil {
		s.finish(p.done, p.n)
	}
	return p.rows.changes, p.done != nil, s.left == 0, nil
}

// table is the version of the first table.
func (s *snapshot) table() *connectors.Table { return s.tables[0].shape.table }

// lose leaves out what is left of a table whose task failed.
func (s *snapshot) lose(t *snapshotTable, err error) {
	s.mu.Lock()
	n := len(s.tasks)
	s.tasks = slices.DeleteFunc(s.tasks, func(k task) bool { return k.table == t })
	n -= len(s.tasks)
	s.mu.Unlock()
	s.left -= n + 1
	t.left -= n + 1
	s.lost(t, err)
}

// finish notes a task that has been handed over.
func (s *snapshot) finish(k *task, n int64) {
	if !k.newer {
		f := s.mark.Files[k.file.oid]
		f.finish(k.from, k.to)
		f.Rows += n
	}
	s.left--
	k.table.left--
	k.table.rows += n
	phase := connectors.PhaseSnapshot
	if k.table.left == 0 {
		phase = connectors.PhaseStreaming
	}
	s.report(connectors.Report{Table: k.table.relation.full(), Phase: phase, Rows: k.table.rows, Total: max(k.table.relation.estimate, k.table.rows)})
}

// close ends the workers. It returns when they have ended.
func (s *snapshot) close() {
	s.cancel()
	s.workers.Wait()
}

// work takes one task after the other.
func (s *snapshot) work(ctx context.Context, conn *pgx.Conn) error {
	checked := map[uint32]bool{}
	for {
		s.mu.Lock()
		if len(s.tasks) == 0 {
			s.mu.Unlock()
			return nil
		}
		k := s.tasks[0]
		s.tasks = s.tasks[1:]
		s.mu.Unlock()
		err := s.run(ctx, conn, &k, checked)
		if err != nil && s.lost != nil && passing(err) && ctx.Err() == nil {
			if _, undone := conn.Exec(ctx, "ROLLBACK TO SAVEPOINT part"); undone == nil {
				err = s.send(ctx, piece{lost: k.table, err: err})
			}
		}
		if err != nil {
			return fmt.Errorf("read snapshot of table %s: %w", k.table.relation.full(), err)
		}
	}
}

// run reads one task behind a savepoint: an error leaves the moment to the other tables.
func (s *snapshot) run(ctx context.Context, conn *pgx.Conn, k *task, checked map[uint32]bool) error {
	if _, err := conn.Exec(ctx, "SAVEPOINT part"); err != nil {
		return err
	}
	if !checked[k.file.oid] {
		if err := lockFile(ctx, conn, k.file); err != nil {
			return err
		}
	}
	if err := s.copy(ctx, conn, k); err != nil {
		return err
	}
	checked[k.file.oid] = true
	_, err := conn.Exec(ctx, "RELEASE SAVEPOINT part")
	return err
}

// errRewritten: a statement that rewrites a table (ALTER TABLE … TYPE, TRUNCATE) makes it look empty to older
// snapshots. Opening again takes a newer one.
var errRewritten = errors.New("the table was rewritten since the snapshot was taken; a newer snapshot is needed")

// lockFile keeps the file as it is until the end of the transaction, and makes sure that it is the one that the snapshot
// knows: a query of pg_class sees the snapshot's moment, the function sees the present.
func lockFile(ctx context.Context, conn *pgx.Conn, f *file) error {
	if _, err := conn.Exec(ctx, "LOCK TABLE ONLY "+f.ident+" IN ACCESS SHARE MODE"); err != nil {
		return err
	}
	var same bool
	err := conn.QueryRow(ctx, "SELECT relfilenode = pg_relation_filenode(oid) AND relfilenode = $2::oid FROM pg_class WHERE oid = $1::oid",
		int64(f.oid), int64(f.node)).Scan(&same)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && !same {
		return errRewritten
	}
	return err
}

// copy reads one task and hands it over.
func (s *snapshot) copy(ctx context.Context, conn *pgx.Conn, k *task) error {
	h := &handover{s: s, task: k}
	r := &copyReader{shape: k.table.shape, limits: s.limits, at: time.Now().UTC(), origin: s.origin, position: s.position, rows: s.buffers()}
	r.full = func() error {
		err := h.add(ctx, r.rows)
		r.rows = s.buffers()
		return err
	}
	defer h.release()
	if _, err := conn.PgConn().CopyTo(ctx, r, k.statement(s.mark.XMin)); err != nil {
		return err
	}
	return h.finish(ctx, r.rows, r.count)
}

// buffers returns an empty buffer, one that was used before if there is one.
func (s *snapshot) buffers() *rows {
	select {
	case r := <-s.free:
		return r
	default:
		return &rows{changes: make([]connectors.Change, 0, min(s.limits.BatchRows, maxPresized))}
	}
}

// handover holds the rows of one task until it is their turn.
type handover struct {
	s     *snapshot
	task  *task
	held  []*rows
	bytes int
	turn  bool
}

// add takes over a full buffer. Over the limit the task takes the turn, and gives it back at its end only.
func (h *handover) add(ctx context.Context, r *rows) error {
	h.held = append(h.held, r)
	h.bytes += len(r.arena) + 40*len(r.values) + 160*len(r.changes)
	if !h.turn && h.bytes < h.s.buffer {
		return nil
	}
	return h.flush(ctx)
}

func (h *handover) flush(ctx context.Context) error {
	if !h.turn {
		select {
		case h.s.turn <- struct{}{}:
			h.turn = true
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for i, r := range h.held {
		if err := h.s.send(ctx, piece{rows: r}); err != nil {
			return err
		}
		h.held[i] = nil
	}
	h.held = h.held[:0]
	return nil
}

// finish hands over the rest.
func (h *handover) finish(ctx context.Context, r *rows, n int64) error {
	if err := h.flush(ctx); err != nil {
		return err
	}
	return h.s.send(ctx, piece{rows: r, done: h.task, n: n})
}

func (s *snapshot) send(ctx context.Context, p piece) error {
	select {
	case s.pieces <- p:
	case <-ctx.Done():
		return ctx.Err()
	}
	if s.notify != nil {
		s.notify()
	}
	return nil
}

func (h *handover) release() {
	if h.turn {
		<-h.s.turn
	}
}
