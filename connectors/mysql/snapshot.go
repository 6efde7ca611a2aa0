package mysql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

// snapshot reads tables with several workers, all at one moment or, where the server has no way to that, at moments that
// lie close together. It hands over one range of keys after the other, so that the mark after each range is exact: a
// worker keeps the rows of its range until it has the turn, and takes the turn early when they become too many.
//
// After a crash it goes on at a later moment with what is not finished. What that moment shows too new is made right by
// the stream, which begins at the place of the first moment: every row image in it is whole. A table without a key has
// nothing that would let a row be set right, so it is read by one worker, durable as a whole, and the stream leaves out
// what happened to it before the moment of that worker.
type snapshot struct {
	limits connectors.Limits
	buffer int
	chunk  int
	mark   *snapshotMark
	report func(connectors.Report)
	agrees func(context.Context, *snapshotTable) (bool, error)
	lost   func(*snapshotTable, error)

	mu    sync.Mutex
	tasks []task // not taken yet

	pieces chan piece
	turn   chan struct{}
	free   chan *rows
	last   *rows // what the last read returned
	left   int   // tasks that are not handed over yet

	cancel  context.CancelFunc
	workers sync.WaitGroup
}

// moment is a connection in which a transaction sees one moment, and the place of the binary log that belongs to it.
type moment struct {
	r    *reader
	at   place
	gtid string
}

// piece is what a worker hands over: rows, and with the last ones of a task the task and its number of rows.
type piece struct {
	rows  *rows
	task  *task
	done  bool
	after []string // of an ordered key: how far the rows go
	at    place    // of the worker
	n     int64
	lost  *snapshotTable // it changed before it was read, for this reason
	err   error
}

// snapshotOptions say what to read.
type snapshotOptions struct {
	limits  connectors.Limits
	buffer  int
	chunk   int
	tables  []*snapshotTable
	mark    *snapshotMark // is kept up to date
	report  func(connectors.Report)
	workers []*moment

	// agrees reports whether the catalog still describes a table as it is to be read. It is asked once by each worker that
	// has the table, behind a query that keeps others from changing it. lost takes a table of which that is not so. Without
	// it, that ends the snapshot. Both may be nil.
	agrees func(context.Context, *snapshotTable) (bool, error)
	lost   func(*snapshotTable, error)
}

// newSnapshot plans the tasks and starts the workers, which it owns from then on.
func newSnapshot(ctx context.Context, o snapshotOptions) (*snapshot, error) {
	s := &snapshot{limits: o.limits, buffer: o.buffer, chunk: o.chunk, mark: o.mark, report: o.report, agrees: o.agrees, lost: o.lost,
		pieces: make(chan piece), turn: make(chan struct{}, 1), free: make(chan *rows, 4*len(o.workers))}
	if s.mark.Tables == nil {
		s.mark.Tables = map[tableName]*tableMark{}
	}
	for _, t := range o.tables {
		mark := s.mark.Tables[t.name]
		if mark == nil || !t.goesOn(mark) {
			mark = &tableMark{}
			s.mark.Tables[t.name] = mark
		}
		t.rows = mark.Rows
		tasks, err := plan(ctx, o.workers[0].r, t, mark, s.chunk)
		if err != nil && o.lost != nil && altered(err) {
			delete(s.mark.Tables, t.name)
			o.lost(t, err)
			continue
		}
		if err != nil {
			closeAll(o.workers)
			return nil, err
		}
		t.left = len(tasks)
		s.tasks = append(s.tasks, tasks...)
		phase := connectors.PhaseSnapshot
		if t.left == 0 {
			phase, mark.Done = connectors.PhaseStreaming, true
		}
		s.report(connectors.Report{Table: t.name.full(), Phase: phase, Rows: t.rows, Total: max(t.estimate, t.rows)})
	}
	s.left = len(s.tasks)
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.cancel = cancel
	for _, m := range o.workers {
		s.workers.Add(1)
		go func() {
			defer s.workers.Done()
			defer m.r.close()
			if err := s.work(run, m); err != nil && run.Err() == nil {
				s.send(run, piece{err: err})
			}
		}()
	}
	return s, nil
}

func closeAll(list []*moment) {
	for _, m := range list {
		m.r.close()
	}
}

// read returns the next rows. p is what they complete; its rows are valid until the next read. It is finished when there
// is nothing left.
func (s *snapshot) read(ctx context.Context) (p piece, finished bool, err error) {
	if s.last != nil { // back to the workers
		s.last.reset()
		select {
		case s.free <- s.last:
		default:
		}
		s.last = nil
	}
	if s.left == 0 {
		return piece{rows: &rows{}}, true, nil
	}
	select {
	case <-ctx.Done():
		return piece{}, false, ctx.Err()
	case p = <-s.pieces:
	}
	if p.lost != nil {
		s.lose(p.lost, p.err)
		return piece{rows: &rows{}}, s.left == 0, nil
	}
	if p.err != nil {
		return piece{}, false, p.err
	}
	s.last = p.rows
	s.note(&p)
	return p, s.left == 0, nil
}

// lose leaves out what is left of a table whose task failed.
func (s *snapshot) lose(t *snapshotTable, err error) {
	s.mu.Lock()
	n := len(s.tasks)
	s.tasks = slices.DeleteFunc(s.tasks, func(k task) bool { return k.table == t })
	n -= len(s.tasks)
	delete(s.mark.Tables, t.name)
	s.mu.Unlock()
	s.left -= n + 1
	t.left -= n + 1
	s.lost(t, err)
}

// complete reports that the mark covers all that was handed over.
func (p *piece) complete() bool { return p.done || p.after != nil }

// note keeps the mark up to date with what has been handed over.
func (s *snapshot) note(p *piece) {
	if !p.complete() {
		return
	}
	t := p.task.table
	mark := s.mark.Tables[t.name]
	if mark == nil { // lost
		mark = &tableMark{}
	}
	mark.Rows += p.n
	t.rows += p.n
	switch {
	case p.after != nil:
		mark.After = p.after
	case t.cut == cutInteger:
		mark.finish(p.task.from, p.task.to)
	}
	phase := connectors.PhaseSnapshot
	if p.done {
		s.left--
		t.left--
	}
	if t.left == 0 {
		phase, mark.Done, mark.Ranges, mark.After = connectors.PhaseStreaming, true, nil, nil
	}
	s.report(connectors.Report{Table: t.name.full(), Phase: phase, Rows: t.rows, Total: max(t.estimate, t.rows)})
}

// close ends the workers. It returns when they have ended.
func (s *snapshot) close() {
	s.cancel()
	s.workers.Wait()
}

// work takes one task after the other.
func (s *snapshot) work(ctx context.Context, m *moment) error {
	agreed := map[*snapshotTable]bool{}
	for {
		s.mu.Lock()
		if len(s.tasks) == 0 {
			s.mu.Unlock()
			return nil
		}
		k := s.tasks[0]
		s.tasks = s.tasks[1:]
		after := s.mark.Tables[k.table.name].After
		s.mu.Unlock()
		err := s.agree(ctx, m, k.table, agreed)
		if err == nil {
			err = s.run(ctx, m, &k, after)
		}
		if err != nil && s.lost != nil && altered(err) && ctx.Err() == nil {
			err = s.send(ctx, piece{lost: k.table, err: err})
		}
		if err != nil {
			return fmt.Errorf("read snapshot of table %s: %w", k.table.name.full(), settle(plain(err)))
		}
	}
}

// errAltered: a statement changed a table after its definition was read.
var errAltered = errors.New("the table was changed since the snapshot began")

// altered reports that a table is not as it was to be read.
func altered(err error) bool {
	n := code(err)
	return errors.Is(err, errAltered) || n == errTableChanged || n == errNoSuchTable || n == errNoSuchColumn
}

// agree makes sure that a table is what it was when its definition was read. From its first query on, a transaction keeps
// others from changing a table.
func (s *snapshot) agree(ctx context.Context, m *moment, t *snapshotTable, agreed map[*snapshotTable]bool) error {
	if s.agrees == nil || agreed[t] {
		return nil
	}
	if err := m.r.each(ctx, "SELECT 1 FROM "+t.name.ident()+" LIMIT 1", func([][]byte) error { return nil }); err != nil {
		return err
	}
	same, err := s.agrees(ctx, t)
	if err == nil && !same {
		err = errAltered
	}
	agreed[t] = err == nil
	return err
}

// run reads one task and hands it over.
func (s *snapshot) run(ctx context.Context, m *moment, k *task, after []string) error {
	h := &handover{s: s, task: k, at: m.at}
	defer h.release()
	limit := 0
	if k.table.cut == cutOrdered {
		limit = s.chunk
	}
	for {
		n := 0
		x := &rowSource{h: h, stamp: stampOf(m), r: s.buffers(), now: time.Now().UTC()}
		err := m.r.each(ctx, k.statement(after, limit), func(row [][]byte) error {
			n++
			if limit > 0 && n == limit {
				after = k.table.literals(row)
			}
			return x.take(ctx, row)
		})
		if err != nil {
			return err
		}
		if limit == 0 || n < limit {
			return h.finish(ctx, piece{rows: x.r, task: k, done: true, at: m.at, n: x.n})
		}
		if err := h.finish(ctx, piece{rows: x.r, task: k, after: after, at: m.at, n: x.n}); err != nil {
			return err
		}
		h.release()
	}
}

// stamp is what every row of one moment has for its place.
type stamp struct{ origin, position []byte }

func stampOf(m *moment) stamp {
	return stamp{origin: fmt.Appendf(nil, `"server_id":0,"gtid":null,"file":"%s","pos":%d,"row":0,"thread":null`, m.at.File, m.at.Pos),
		position: []byte(m.at.String())}
}

// rowSource turns the rows of one query into changes.
type rowSource struct {
	h     *handover
	stamp stamp
	r     *rows
	now   time.Time
	n     int64
}

func (x *rowSource) take(ctx context.Context, row [][]byte) error {
	s, r := x.h.task.table.shape, x.r
	start := len(r.arena)
	image := r.image(len(s.table.Columns))
	for i, text := range row {
		at := s.index[i]
		switch {
		case at < 0:
		case text == nil:
			image[at] = connectors.NullValue()
		default:
			image[at] = s.decoders[i].text(r, text)
		}
	}
	if size := len(r.arena) - start; size > x.h.s.limits.RowBytes {
		return tooLarge(s.table, size, x.h.s.limits.RowBytes)
	}
	if x.h.task.table.wasBrought(image) {
		return nil
	}
	c := r.add(connectors.Snapshot, s.table, x.now)
	c.After, c.Origin, c.Position = image, x.stamp.origin, x.stamp.position
	x.n++
	if !r.full(x.h.s.limits) {
		return nil
	}
	err := x.h.add(ctx, r)
	x.r = x.h.s.buffers()
	return err
}

func tooLarge(t *connectors.Table, size, limit int) error {
	return fmt.Errorf("a row of table %s has %d bytes; the limit max_record_bytes is %d: %w", t.FullName(), size, limit, connectors.ErrFatal)
}

// buffers returns an empty buffer, one that was used before if there is one.
func (s *snapshot) buffers() *rows {
	select {
	case r := <-s.free:
		return r
	default:
		return &rows{}
	}
}

// handover holds the rows of one task until it is their turn.
type handover struct {
	s     *snapshot
	task  *task
	at    place
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
		if err := h.s.send(ctx, piece{rows: r, task: h.task, at: h.at}); err != nil {
			return err
		}
		h.held[i] = nil
	}
	h.held = h.held[:0]
	return nil
}

// finish hands over the rest.
func (h *handover) finish(ctx context.Context, p piece) error {
	if err := h.flush(ctx); err != nil {
		return err
	}
	return h.s.send(ctx, p)
}

func (s *snapshot) send(ctx context.Context, p piece) error {
	select {
	case s.pieces <- p:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *handover) release() {
	if h.turn {
		<-h.s.turn
		h.turn, h.bytes = false, 0
	}
}
