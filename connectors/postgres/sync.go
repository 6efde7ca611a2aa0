package postgres

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

// A table that joins a running stream, or is read anew, is synced while the other tables go on:
//
//  1. A table that has just been added to the publication is waited for until every transaction is over that could have
//     written to it without being published.
//  2. Its rows are read at one moment S. Changes that S has not seen are kept in a file. Those that it has seen are left
//     out for a new table, and go on to be handed over for one that is read anew, whose rows then wait for them.
//  3. The rows are handed over between the stream's transactions.
//  4. When the stream has passed S, the kept changes are handed over in order. From then on the table is live.
//
// A position names the tables that are live and those whose sync has begun. A crash on the way starts the sync again at a
// new moment. Deletes that were kept are lost then, so it starts with a TRUNCATE: what was handed over before is void.
// One table is synced at a time.

// syncs are the tables that wait for their sync, and the one that has it. Requests may come from any goroutine.
type syncs struct {
	mu      sync.Mutex
	waiting []syncRequest
	again   []syncRequest // failed, to be tried again when they are due
	backoff connectors.Backoff
	current *tableSync // of the goroutine that reads the stream
	turn    bool       // the stream had the last batch
	yielded bool       // the stream gets its turn first
	open    func(context.Context, syncTarget) (*syncSource, error)
	reread  func(context.Context, syncTarget, [][]connectors.Value) (*syncSource, []connectors.Change, error)
	failed  func(t *tracked, live bool, err error)
	opening uint32 // the table whose moment is being chosen
	missed  bool   // it was asked for meanwhile: what was done to it may be later than its moment
}

// syncBackoff spaces the attempts to sync one table: a commit that others do not see yet is seen soon, unless it waits for a
// standby. None waits for longer than new tables do.
func syncBackoff(rescan time.Duration) connectors.Backoff {
	return connectors.Backoff{First: 100 * time.Millisecond, Limit: rescan}.WithDefaults()
}

// syncRequest asks for a table that is tracked, or for one that is not yet.
type syncRequest struct {
	oid     uint32
	table   *tracked             // not tracked yet
	replace bool                 // what was handed over is void, and changes may have been left out
	keys    [][]connectors.Value // only these rows: a repair
	failed  int                  // attempts in a row
	due     time.Time            // of a failed one: not before this
}

// request reports whether the table was not asked for already.
func (q *syncs) request(r syncRequest) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.IndexFunc(q.waiting, func(w syncRequest) bool { return w.oid == r.oid && w.keys == nil })
	switch {
	case r.keys != nil:
		q.waiting = append(q.waiting, r)
		return true
	case i >= 0:
		q.waiting[i].replace = q.waiting[i].replace || r.replace
	case q.opening != r.oid:
		q.waiting = append(q.waiting, r)
		return true
	default:
		q.missed = true
	}
	return false
}

// chooses notes the table whose moment is being chosen.
func (q *syncs) chooses(oid uint32) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.opening, q.missed = oid, false
}

// chosen notes that no moment is being chosen any more, and reports whether the table has to be judged again, by what it was at
// that moment.
func (q *syncs) chosen() (missed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	missed = q.missed
	q.opening, q.missed = 0, false
	return missed
}

func (q *syncs) next() (syncRequest, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		return syncRequest{}, false
	}
	r := q.waiting[0]
	q.waiting = q.waiting[1:]
	return r, true
}

// draining reports that kept changes are being handed over.
func (s *stream) draining() bool { return s.syncs.current != nil && s.syncs.current.drain != nil }

// postpone keeps a request that has failed once more until its next attempt is due.
func (q *syncs) postpone(r syncRequest, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	r.failed++
	r.due = now.Add(q.backoff.Delay(r.failed))
	q.again = append(q.again, r)
}

// requestDue asks again for the tables whose sync failed and is due. It returns when the next one is, zero when none waits.
func (q *syncs) requestDue(now time.Time) (next time.Time) {
	q.mu.Lock()
	var due, later []syncRequest
	for _, r := range q.again {
		switch {
		case !r.due.After(now):
			due = append(due, r)
		case next.IsZero() || r.due.Before(next):
			next = r.due
			fallthrough
		default:
			later = append(later, r)
		}
	}
	q.again = later
	q.mu.Unlock()
	for _, r := range due {
		q.request(r)
	}
	return next
}

// idle reports that no table waits for rows.
func (q *syncs) idle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting) == 0 && q.current == nil
}

// tableSync is a sync that is going on.
type tableSync struct {
	table   *tracked
	wasLive bool
	void    bool              // what was handed over before is void
	gone    *connectors.Table // the version of that; nil: the one that is read
	shape   *shape            // when the first change was kept
	spool   *spool
	source  *syncSource
	opened  chan syncOpened // gets one result
	cancel  context.CancelFunc
	copied  bool
	drain   *bufio.Reader
	buf     []byte
	all     bool    // the rows could not be read: hand over every kept change
	repair  *repair // only some rows are read
	failed  int     // attempts in a row before this one
}

// syncTarget is what opening needs to know about a table, which goes on changing meanwhile.
type syncTarget struct {
	relation  *relation
	shape     *shape
	published bool     // for longer than any open transaction
	await     bool     // changes were left out: the moment has to show every transaction that is open now
	recent    []uint32 // transactions that the moment has to show, because their changes were handed over
}

type syncOpened struct {
	source *syncSource
	err    error
}

// syncSource reads the rows of the table at one moment.
type syncSource struct {
	snapshot *snapshot
	seen     visibility
	relation *relation // at that moment
	until    lsn       // the stream has to pass this before the kept changes are complete
}

// passes reports whether a transaction's changes go on to be handed over while the table is synced.
func (t *tableSync) passes(tx transaction) bool { return t.wasLive && t.source.seen.sees(tx.xid) }

// keep puts a change aside.
func (t *tableSync) keep(kind byte, body []byte, at lsn, tx transaction) error {
	return t.spool.write(record{kind: kind, xid: tx.xid, at: at, clock: uint64(tx.time.UnixMicro() - pgEpoch*1e6), body: body})
}

// syncMore advances the current sync between two transactions of the stream. It reports that the batch is to be handed
// over.
func (s *stream) syncMore(ctx context.Context) (connectors.Batch, bool, error) {
	q := s.syncs
	if q.current == nil {
		r, ok := q.next()
		if !ok {
			return connectors.Batch{}, false, nil
		}
		if r.keys != nil {
			return connectors.Batch{}, false, s.startRepair(ctx, r)
		}
		return connectors.Batch{}, false, s.startSync(ctx, r)
	}
	t := q.current
	switch {
	case t.drain != nil:
		ready, err := s.drainSync(ctx, t)
		if !ready || err != nil {
			return connectors.Batch{}, false, err
		}
		return s.take(), true, nil
	case t.repair != nil:
		return s.repairMore(t)
	case t.copied:
		if max(s.end, s.serverEnd) < t.source.until {
			return connectors.Batch{}, false, nil
		}
		return connectors.Batch{}, false, s.startDrain(t)
	case t.source == nil:
		select {
		case o := <-t.opened:
			t.opened = nil
			missed := q.chosen()
			if o.err != nil {
				return connectors.Batch{}, false, s.failSync(t, o.err)
			}
			t.source, t.table.published = o.source, true
			s.imprints.begin(o.source.relation)
			if missed {
				s.look()
			}
		default:
		}
		return connectors.Batch{}, false, nil
	}
	if t.wasLive && max(s.end, s.serverEnd) < t.source.until {
		return connectors.Batch{}, false, nil
	}
	if !q.turn {
		q.turn, q.yielded = true, true
		return connectors.Batch{}, false, nil
	}
	return s.copySync(t)
}

// startSync begins to keep the changes of the table and opens its rows in the background.
func (s *stream) startSync(ctx context.Context, r syncRequest) error {
	table := s.tables[r.oid]
	if table == nil {
		if r.table == nil {
			return nil
		}
		table = r.table
		s.tables[r.oid] = table
	}
	f, err := newSpool(s.dir, fmt.Sprintf("table-%d", r.oid))
	if err != nil {
		return err
	}
	t := &tableSync{table: table, shape: table.shape, spool: f, failed: r.failed, wasLive: !r.replace && slices.Contains(s.pos.Tables, r.oid)}
	// Without a key, rows that are read anew cannot be told from those that are there; of a table that was read and is not live,
	// because it was not in the configuration for a while, rows may have gone.
	t.void = r.replace || slices.Contains(s.pos.Begun, r.oid) || t.wasLive && len(table.shape.table.Key) == 0 || !t.wasLive && s.imprints.has(r.oid) ||
		s.imprints.taken(r.oid, table.relation.schema, table.relation.name)
	if t.void {
		t.gone = s.versionBefore(ctx, table)
	}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	t.cancel = cancel
	target := syncTarget{relation: table.relation, shape: table.shape, published: table.published, await: !table.published || r.replace}
	s.syncs.chooses(r.oid)
	if t.wasLive { // its changes have to be judged by what the snapshot has seen, so that comes first
		target.recent = s.handedOver()
		t.source, err = s.syncs.open(run, target)
		missed := s.syncs.chosen()
		if err != nil {
			cancel()
			f.remove()
			s.postpone(r, table, err)
			return nil
		}
		s.imprints.begin(t.source.relation)
		if missed {
			s.look()
		}
		if err := s.wal.status(true); err != nil { // the answer tells how far the server is
			return err
		}
	} else {
		opened := make(chan syncOpened, 1)
		t.opened = opened
		go func() {
			source, err := s.syncs.open(run, target)
			opened <- syncOpened{source, err}
			s.wal.wake()
		}()
	}
	s.pos.Tables = without(s.pos.Tables, r.oid)
	s.pos.Begun = with(s.pos.Begun, r.oid)
	table.sync, table.waits = t, false
	s.syncs.current = t
	return nil
}

// postpone reports that rows of a live table could not be read, and asks for them again where that can help.
func (s *stream) postpone(r syncRequest, t *tracked, err error) {
	if passing(err) {
		s.syncs.postpone(r, time.Now())
	}
	s.syncs.failed(t, true, err)
}

// handedOver are the last transactions whose changes were handed over.
func (s *stream) handedOver() []uint32 { return s.recent[:min(s.handed, len(s.recent))] }

// with and without return a copy of an ascending list that has or lacks an oid.
func with(list []uint32, oid uint32) []uint32 {
	i, found := slices.BinarySearch(list, oid)
	if found {
		return list
	}
	return slices.Insert(slices.Clone(list), i, oid)
}

func without(list []uint32, oid uint32) []uint32 {
	return slices.DeleteFunc(slices.Clone(list), func(o uint32) bool { return o == oid })
}

// copySync hands over rows that are ready.
func (s *stream) copySync(t *tableSync) (connectors.Batch, bool, error) {
	if t.void {
		t.void = false
		table := t.source.snapshot.table()
		if t.gone != nil {
			table = t.gone
		}
		change := s.rows.add(connectors.Truncate, table, time.Now().UTC())
		change.Origin, change.Position = t.source.snapshot.origin, t.source.snapshot.position
		return s.take(), true, nil
	}
	changes, ok, finished, err := t.source.snapshot.poll()
	if err != nil {
		return connectors.Batch{}, false, s.failSync(t, err)
	}
	if finished {
		t.copied = true
		if err := s.wal.status(true); err != nil { // the answer tells how far the server is
			return connectors.Batch{}, false, err
		}
	}
	if !ok {
		return connectors.Batch{}, false, nil
	}
	s.syncs.turn = false
	b := s.take()
	b.Changes = changes
	return b, true, nil
}

// failSync gives up on the rows. A table that was live goes on with the changes that were kept; another one waits.
func (s *stream) failSync(t *tableSync, err error) error {
	s.imprints.end(t.table.oid, false)
	t.close()
	if !t.wasLive {
		s.syncs.postpone(syncRequest{oid: t.table.oid, replace: true, failed: t.failed}, time.Now())
	}
	s.syncs.failed(t.table, t.wasLive, err)
	if t.wasLive {
		t.all, t.source = true, nil
		return s.startDrain(t)
	}
	t.spool.remove()
	t.table.sync, t.table.waits = nil, true
	s.syncs.current = nil
	return nil
}

// close ends what runs in the background.
func (t *tableSync) close() {
	t.cancel()
	if t.opened != nil { // opening ends with its context
		t.source = (<-t.opened).source
		t.opened = nil
	}
	if t.source != nil && t.source.snapshot != nil {
		t.source.snapshot.close()
	}
}

func (s *stream) startDrain(t *tableSync) error {
	in, err := t.spool.rewind()
	if err != nil {
		return err
	}
	if t.source != nil && t.source.snapshot != nil {
		t.source.snapshot.close()
	}
	t.drain = in
	t.table.sync = nil
	if t.shape != nil {
		t.table.shape = t.shape // the descriptions that came since are in the file
	}
	if t.source != nil && t.source.relation != nil { // the rows were handed over as they were then
		t.table.known = t.source.relation.streamed()
		s.versions.set(t.table.oid, t.table.known, t.source.snapshot.table())
	}
	return nil
}

// drainSync hands over what was kept. It goes on until a batch is full or all is handed over.
func (s *stream) drainSync(ctx context.Context, t *tableSync) (bool, error) {
	s.inTx = true // no position before the end
	for {
		var r record
		var err error
		r, t.buf, err = readRecord(t.drain, t.buf)
		if errors.Is(err, io.EOF) {
			s.inTx, s.committed, s.held = false, true, false
			t.spool.remove()
			s.syncs.current = nil
			s.imprints.end(t.table.oid, !t.all && !t.table.waits)
			if !t.table.waits { // it got another name or key meanwhile, and is asked for again
				s.pos.Tables, s.pos.Begun = with(s.pos.Tables, t.table.oid), without(s.pos.Begun, t.table.oid)
			}
			return true, nil
		}
		if err != nil {
			return false, err
		}
		s.tx = transaction{xid: r.xid, time: pgTime(r.clock)}
		full := false
		switch {
		case r.kind == msgRelation:
			s.covered = !t.all && t.source.seen.sees(r.xid)
			err = s.relation(ctx, r.body)
			s.covered = false
		case t.table.waits:
		case !t.all && t.source.seen.sees(r.xid):
		case r.kind == msgTruncate:
			s.emitTruncate(t.table, r.at)
		default:
			full, err = s.emit(ctx, r.kind, r.body, r.at, t.table)
		}
		if full || err != nil {
			return full, err
		}
	}
}

// close ends everything that the stream started.
func (s *stream) close() {
	s.wal.close()
	if t := s.syncs.current; t != nil {
		t.close()
		t.spool.remove()
		s.syncs.current = nil
	}
	if s.replay != nil {
		s.replay.spool.remove()
	}
	for _, f := range s.spools {
		f.remove()
	}
}

// visibility says which transactions a snapshot has seen.
type visibility struct {
	xmin, xmax uint64
	running    []uint64
}

// parseVisibility reads the text of pg_snapshot: xmin:xmax:running,running.
func parseVisibility(text string) (v visibility, err error) {
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return v, fmt.Errorf("read snapshot: not of the form xmin:xmax:list")
	}
	if v.xmin, err = strconv.ParseUint(parts[0], 10, 64); err != nil {
		return v, fmt.Errorf("read snapshot: %w", err)
	}
	if v.xmax, err = strconv.ParseUint(parts[1], 10, 64); err != nil {
		return v, fmt.Errorf("read snapshot: %w", err)
	}
	for item := range strings.FieldsFuncSeq(parts[2], func(r rune) bool { return r == ',' }) {
		xid, err := strconv.ParseUint(item, 10, 64)
		if err != nil {
			return v, fmt.Errorf("read snapshot: %w", err)
		}
		v.running = append(v.running, xid)
	}
	return v, nil
}

// sees reports whether the snapshot shows what the transaction did. Ids in the stream have 32 bits and are taken for the
// nearest with 64.
func (v *visibility) sees(short uint32) bool {
	xid := v.xmax&^uint64(1<<32-1) | uint64(short)
	switch {
	case xid > v.xmax+1<<31 && xid >= 1<<32:
		xid -= 1 << 32
	case xid+1<<31 < v.xmax:
		xid += 1 << 32
	}
	return xid < v.xmin || xid < v.xmax && !slices.Contains(v.running, xid)
}
