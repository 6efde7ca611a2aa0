package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/trunkline/trunkline/connectors"
)

const (
	goodbye  = 3 * time.Second // how long closing waits for a server that does not answer
	slowSlot = 3 * time.Second // after this it is said what the creation of a slot waits for
)

// Source reads a database: a snapshot of the tables, then the changes of its slot.
type Source struct {
	config  SourceConfig
	env     connectors.Env
	dial    *dialer
	catalog *catalog
	server  *server
	pos     *position
	until   lsn
	syncs   *syncs

	imprints *imprints
	versions *versions

	known  sync.Mutex // around tables, which the watch adds to
	tables []*tracked
	added  []*relation // new to a publication that existed: they are synced, not part of the snapshot

	entry    *extractMark // what mode timestamp handed over before
	gone     *entryDeletes
	snapshot *snapshot // nil: none is going on
	stream   atomic.Pointer[stream]
	greeted  bool // the first position was handed over
	watch    *watch
}

// newSource connects, settles publication and slot, and decides where to go on.
func newSource(ctx context.Context, config SourceConfig, env connectors.Env, from connectors.Position) (_ *Source, err error) {
	config = config.named(env.Name)
	env.Limits = env.Limits.WithDefaults()
	s := &Source{config: config, env: env, imprints: &imprints{known: map[uint32]imprint{}}, versions: newVersions()}
	s.syncs = &syncs{open: s.openSync, reread: s.reread, failed: s.syncFailed, backoff: syncBackoff(config.Rescan)}
	if s.dial, err = newDialer(config, env.Name); err != nil {
		return nil, err
	}
	s.catalog = &catalog{dial: s.dial, config: &s.config, types: map[uint32]*typeInfo{}, texts: map[typeRef]string{}}
	defer func() {
		if err != nil {
			s.Close(context.WithoutCancel(ctx))
		}
	}()
	err = s.catalog.do(ctx, func(conn *pgx.Conn) (err error) {
		s.server, err = loadServer(ctx, conn)
		return err
	})
	if err != nil {
		return nil, err
	}
	s.catalog.database = s.server.database
	removeSpools(env.Dir)
	var saved *position
	if from != nil {
		if s.entry, err = parseExtractMark(from); err == nil && s.entry == nil {
			saved, err = parsePosition(from)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", err, connectors.ErrFatal)
		}
		if s.entry != nil && s.entry.System != s.server.system {
			return nil, otherServer(env.Name)
		}
	}
	relations, err := s.usable(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range relations {
		shape, err := s.catalog.shapeOf(ctx, r)
		if err != nil {
			return nil, err
		}
		s.tables = append(s.tables, &tracked{oid: r.oid, name: r.full(), relation: r, shape: shape})
	}
	if config.Snapshot == snapshotOnly {
		return s, s.openOnly(ctx, saved)
	}
	if s.server.walLevel != "logical" {
		return nil, fmt.Errorf("wal_level is %s; run ALTER SYSTEM SET wal_level = logical and restart the server: %w", s.server.walLevel, connectors.ErrFatal)
	}
	return s, s.openStreaming(ctx, saved)
}

// usable lists the tables that can be captured and reports the others.
func (s *Source) usable(ctx context.Context) ([]*relation, error) {
	list, err := s.catalog.relations(ctx)
	if err != nil {
		return nil, err
	}
	var refused error
	usable := slices.DeleteFunc(slices.Clone(list), func(r *relation) bool {
		problem, remedy := r.problem(s.config.Snapshot != snapshotOnly)
		if problem == "" {
			return false
		}
		refused = fmt.Errorf("table %s %s; %s", r.full(), problem, remedy)
		s.refuse(r)
		return true
	})
	for i := range s.config.Tables {
		spec := &s.config.Tables[i]
		if !slices.ContainsFunc(list, func(r *relation) bool { return r.spec == spec || spec.Matches(r.full()) }) && s.config.spec(spec.Name) == spec {
			s.env.Report(connectors.Report{Table: spec.Name, Phase: connectors.PhaseFailed, Reason: "no such table in the database, or it is a partition (name its root)"})
			s.env.Logger.Warn("no table matches", "source", s.env.Name, "table", spec.Name)
		}
	}
	if len(usable) == 0 && refused != nil {
		return nil, fmt.Errorf("%w: %w", refused, connectors.ErrFatal)
	}
	if len(usable) == 0 {
		return nil, fmt.Errorf("no table of database %q matches tables: %w", s.server.database, connectors.ErrFatal)
	}
	for _, r := range usable {
		if columns := r.left(); len(columns) > 0 {
			s.env.Logger.Warn("generated columns of the key are left out", "source", s.env.Name, "table", r.full(), "columns", columns)
			s.env.Report(connectors.Report{Table: r.full(), Reason: fmt.Sprintf("generated columns of the key are left out: %s", columns)})
		}
	}
	return usable, nil
}

// refuse reports a table that cannot be captured.
func (s *Source) refuse(r *relation) {
	problem, remedy := r.problem(s.config.Snapshot != snapshotOnly)
	s.report(r, problem, remedy)
}

func (s *Source) report(r *relation, problem, remedy string) {
	s.env.Report(connectors.Report{Table: r.full(), Phase: connectors.PhaseFailed, Reason: problem + "; " + remedy})
	s.env.Logger.Error("table refused", "source", s.env.Name, "table", r.full(), "reason", problem, "remedy", remedy)
}

// warn tells of a table that works with a limit.
func (s *Source) warn(t *connectors.Table, reason string) {
	s.env.Report(connectors.Report{Table: t.FullName(), Reason: reason})
	s.env.Logger.Warn(reason, "source", s.env.Name, "table", t.FullName())
}

// syncFailed reports a table whose rows could not be read.
func (s *Source) syncFailed(t *tracked, live bool, err error) {
	phase := connectors.PhaseFailed
	if live { // it goes on with its changes
		phase = connectors.PhaseStreaming
	}
	if passing(err) {
		s.watch.look()
	}
	s.env.Report(connectors.Report{Table: t.relation.full(), Phase: phase, Reason: "reading the table: " + err.Error()})
	s.env.Logger.Warn("read table", "source", s.env.Name, "table", t.relation.full(), "error", err)
}

// openStreaming settles publication and slot and opens what comes first: a snapshot or the stream.
func (s *Source) openStreaming(ctx context.Context, saved *position) error {
	var pub *publication
	var slot *slot
	err := s.catalog.do(ctx, func(conn *pgx.Conn) (err error) {
		if slot, err = loadSlot(ctx, conn, s.config.Slot); err != nil {
			return err
		}
		if pub, err = loadPublication(ctx, conn, s.config.Publication); err != nil {
			return err
		}
		if saved != nil {
			if err := checkPosition(saved, slot, s.server, s.env.Name); err != nil {
				if pub.exists { // the next start without a position is one from the beginning
					err = errors.Join(err, setPending(ctx, conn, s.config.Publication, true))
				}
				return err
			}
		} else if err := slot.foreign(s.config.Slot, s.server); err != nil {
			return err
		}
		if pub.exists && s.withoutSplit(pub) == 0 {
			problem, remedy := splitProblem(s.config.Publication)
			return fmt.Errorf("every table %s; %s: %w", problem, remedy, connectors.ErrFatal)
		}
		if s.added, err = ensurePublication(ctx, conn, pub, s.config.Publication, s.relations(), s.server.version); err != nil {
			return err
		}
		if s.config.DDL == ddlCapture {
			if err := ensureTriggers(ctx, conn, s.server.version); err != nil {
				return err
			}
		}
		if s.env.Once {
			s.until, err = currentEnd(ctx, conn)
		}
		return err
	})
	if err != nil {
		return err
	}
	unread := s.config.Snapshot == snapshotInitial && (pub.pending() || pub.uncertain()) // perhaps there was never a snapshot
	if s.imprints, err = s.savedImprints(saved); err != nil {
		return err
	}
	if saved != nil {
		if s.versions, err = unpackVersions(saved.Columns); err != nil {
			return err
		}
	}
	fresh := saved == nil && (!slot.exists || slot.lost || unread || s.entry != nil)
	switch {
	case fresh:
		s.added = nil // the slot starts later than all that is open now
		err = s.openFresh(ctx, slot)
	case saved == nil: // the mark is gone, the slot is not: go on where it is
		s.pos = &position{Slot: s.config.Slot, System: s.server.system, LSN: slot.confirmed, Tables: s.oids()}
		s.env.Logger.Warn("no saved position: going on where the slot is", "source", s.env.Name, "position", slot.confirmed.String())
		err = s.openStream(ctx)
	case saved.Snapshot != nil:
		s.pos = saved
		err = s.resumeSnapshot(ctx)
	default:
		s.pos = saved
		err = s.openStream(ctx)
	}
	if err == nil {
		s.watch = startWatch(ctx, s)
	}
	return err
}

// savedImprints are those of a position, and the present ones of tables that it has without.
func (s *Source) savedImprints(saved *position) (*imprints, error) {
	switch {
	case saved == nil:
		return newImprints(nil, s.tables, s.oids())
	case saved.Snapshot != nil:
		return newImprints(saved.Imprints, s.tables, s.oids())
	}
	return newImprints(saved.Imprints, s.tables, saved.Tables)
}

// withoutSplit refuses the tables whose changes would come under other names, and returns how many are left.
func (s *Source) withoutSplit(p *publication) int {
	s.tables = slices.DeleteFunc(s.tables, func(t *tracked) bool {
		if !p.splits(t.relation) {
			return false
		}
		problem, remedy := splitProblem(s.config.Publication)
		s.report(t.relation, problem, remedy)
		return true
	})
	return len(s.tables)
}

func (s *Source) relations() []*relation {
	var list []*relation
	for _, t := range s.tables {
		list = append(list, t.relation)
	}
	return list
}

// oids lists the tables that need no sync.
func (s *Source) oids() []uint32 {
	list := []uint32{}
	for _, t := range s.tables {
		if !slices.Contains(s.added, t.relation) {
			list = append(list, t.relation.oid)
		}
	}
	slices.Sort(list)
	return list
}

// openFresh creates the slot and takes the first snapshot at the point where it starts.
func (s *Source) openFresh(ctx context.Context, old *slot) error {
	conn, err := s.dial.replication(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if old.exists {
		if old.active {
			return fmt.Errorf("slot %q is in use by another connection", s.config.Slot)
		}
		if err := s.catalog.do(ctx, func(c *pgx.Conn) error {
			_, err := c.Exec(ctx, "SELECT pg_drop_replication_slot($1)", s.config.Slot)
			return err
		}); err != nil {
			return slotFault(s.config.Slot, err)
		}
	}
	waiting := time.AfterFunc(slowSlot, func() {
		s.env.Logger.Warn("creating the slot waits for transactions that are open on the server", "source", s.env.Name, "slot", s.config.Slot)
		s.env.Report(connectors.Report{Reason: "waiting for open transactions of the server to end, before the snapshot (see pg_stat_activity, xact_start)"})
	})
	start, name, err := createSlot(ctx, conn, s.config.Slot)
	waiting.Stop()
	if err != nil {
		return err
	}
	s.pos = &position{Slot: s.config.Slot, System: s.server.system, LSN: start}
	if s.config.Snapshot == snapshotNever && s.entry == nil {
		s.pos.Tables = s.oids()
		return s.openStream(ctx)
	}
	s.pos.Tables, s.pos.Snapshot = []uint32{}, &snapshotMark{}
	workers, err := s.openWorkers(ctx, name)
	if err != nil {
		return err
	}
	return s.startSnapshot(ctx, workers)
}

// resumeSnapshot goes on with a snapshot that a crash interrupted, at a new moment.
func (s *Source) resumeSnapshot(ctx context.Context) error {
	holder, name, err := s.exportSnapshot(ctx)
	if err != nil {
		return err
	}
	defer holder.Close(context.WithoutCancel(ctx))
	workers, err := s.openWorkers(ctx, name)
	if err != nil {
		return err
	}
	return s.startSnapshot(ctx, workers)
}

// openOnly opens a snapshot that no stream follows.
func (s *Source) openOnly(ctx context.Context, saved *position) error {
	s.pos = &position{System: s.server.system, Tables: []uint32{}, Snapshot: &snapshotMark{}}
	if saved != nil {
		if saved.System != s.server.system {
			return fmt.Errorf("this is another server than the one whose snapshot was begun; take a fresh one with: trunkline resync %s: %w", s.env.Name, connectors.ErrPositionLost)
		}
		s.pos = saved
		if saved.Snapshot == nil {
			return nil
		}
	}
	return s.resumeSnapshot(ctx)
}

// exportSnapshot opens a transaction whose snapshot others can use as long as it is open.
func (s *Source) exportSnapshot(ctx context.Context) (*pgx.Conn, string, error) {
	conn, err := s.dial.sql(ctx)
	if err != nil {
		return nil, "", err
	}
	var name string
	if _, err = conn.Exec(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"); err == nil {
		err = conn.QueryRow(ctx, "SELECT pg_export_snapshot()").Scan(&name)
	}
	if err != nil {
		conn.Close(context.WithoutCancel(ctx))
		return nil, "", fmt.Errorf("export snapshot: %w", err)
	}
	return conn, name, nil
}

// openWorkers opens connections that all see the same moment.
func (s *Source) openWorkers(ctx context.Context, name string) (_ []*pgx.Conn, err error) {
	var workers []*pgx.Conn
	defer func() {
		if err != nil {
			closeAll(context.WithoutCancel(ctx), workers)
		}
	}()
	for range s.config.SnapshotWorkers {
		conn, err := s.dial.sql(ctx)
		if err != nil {
			return nil, err
		}
		workers = append(workers, conn)
		if err := adoptSnapshot(ctx, conn, name); err != nil {
			return nil, err
		}
	}
	return workers, nil
}

func adoptSnapshot(ctx context.Context, conn *pgx.Conn, name string) error {
	_, err := conn.Exec(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
	if err == nil {
		_, err = conn.Exec(ctx, "SET TRANSACTION SNAPSHOT '"+name+"'")
	}
	if err != nil {
		return fmt.Errorf("use exported snapshot: %w", err)
	}
	return nil
}

func (s *Source) startSnapshot(ctx context.Context, workers []*pgx.Conn) (err error) {
	if err := errors.Join(s.enter(ctx, workers[0]), s.enterDeletes(ctx, workers[0])); err != nil {
		closeAll(context.WithoutCancel(ctx), workers)
		return err
	}
	if s.pos.Snapshot.XMin == 0 {
		err := workers[0].QueryRow(ctx, "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::int8").Scan(&s.pos.Snapshot.XMin)
		if err != nil {
			closeAll(context.WithoutCancel(ctx), workers)
			return fmt.Errorf("read snapshot: %w", err)
		}
	}
	tables, err := s.atMoment(ctx, workers[0])
	if err != nil {
		closeAll(context.WithoutCancel(ctx), workers)
		return err
	}
	o := snapshotOptions{limits: s.env.Limits, buffer: int(s.config.SnapshotBuffer), ranges: s.server.version >= streamingVersion,
		tables: tables, mark: s.pos.Snapshot, start: s.pos.LSN, report: s.env.Report, workers: workers}
	if s.config.Snapshot != snapshotOnly {
		o.lost = func(t *snapshotTable, err error) { s.changed(t.relation, err.Error()) }
	}
	s.snapshot, err = newSnapshot(ctx, o)
	return err
}

// openStream starts to follow the slot.
func (s *Source) openStream(ctx context.Context) error {
	conn, err := s.dial.replication(ctx)
	if err != nil {
		return err
	}
	options, err := s.config.options(s.server.version)
	if err != nil {
		conn.Close(context.WithoutCancel(ctx))
		return err
	}
	command := fmt.Sprintf("START_REPLICATION SLOT %s LOGICAL %s (%s)", ident(s.config.Slot), s.pos.LSN, options)
	every := pingEvery
	if t := s.server.timeout / 3; t > 0 {
		every = min(every, t)
	}
	every = min(every, s.config.Silence/3, max(s.config.Heartbeat, minPing))
	w, err := startWAL(ctx, conn, command, s.pos.LSN, every, 2*s.env.Limits.RowBytes+1<<20)
	if err != nil {
		conn.Close(context.WithoutCancel(ctx))
		return slotFault(s.config.Slot, err)
	}
	st := &stream{wal: w, catalog: s.catalog, limits: s.env.Limits, dir: s.env.Dir, silence: s.config.Silence, beat: s.config.Heartbeat,
		until: s.until, pos: s.pos, tables: map[uint32]*tracked{}, rows: &rows{}, spare: &rows{}, committed: true,
		end: s.pos.LSN, lastTold: time.Now(), spools: map[uint32]*spool{}, syncs: s.syncs,
		imprints: s.imprints, versions: s.versions, keeps: s.config.Altered == alteredWarn, ddl: s.config.DDL == ddlCapture, warn: s.warn, look: func() { s.watch.look() }}
	s.known.Lock()
	var live []uint32 // without tables that were once read and are not any more
	for _, t := range s.tables {
		oid := t.relation.oid
		st.tables[oid] = t
		if slices.Contains(s.pos.Tables, oid) {
			live = append(live, oid)
			t.published = true
			s.recall(t)
			s.env.Report(connectors.Report{Table: t.relation.full(), Phase: connectors.PhaseStreaming})
			s.lookAt(t.relation)
			continue
		}
		t.waits = true
		s.syncs.request(syncRequest{oid: oid})
	}
	s.known.Unlock()
	slices.Sort(live)
	s.versions.keep(st.tables)
	s.pos.Tables = live
	s.pos.Begun = slices.DeleteFunc(slices.Clone(s.pos.Begun), func(oid uint32) bool { return st.tables[oid] == nil })
	s.stream.Store(st)
	if err := w.status(true); err != nil { // the answer tells how far the server is
		return err
	}
	return nil
}

// Read returns the next batch of the snapshot or the stream. The first one is a bare position, so that the slot is on
// record before anything else can fail.
func (s *Source) Read(ctx context.Context) (connectors.Batch, error) {
	if !s.greeted {
		s.greeted = true
		s.pos.Imprints, s.pos.Columns = s.imprints.encoded(), s.versions.packed()
		return connectors.Batch{Position: s.pos.encode()}, nil
	}
	if s.gone != nil {
		return s.readGone(), nil
	}
	if s.snapshot != nil {
		changes, complete, finished, err := s.snapshot.read(ctx)
		if err != nil {
			return connectors.Batch{}, err
		}
		if finished {
			s.finishSnapshot()
		}
		batch := connectors.Batch{Changes: changes}
		if complete || finished {
			s.pos.Imprints, s.pos.Columns = s.imprints.encoded(), s.versions.packed()
			batch.Position = s.pos.encode()
		}
		if finished {
			// The batch stays valid: closing ends the workers, and nothing reuses their buffers.
			s.snapshot.close()
			s.snapshot = nil
		}
		return batch, nil
	}
	st := s.stream.Load()
	if st == nil {
		if s.config.Snapshot == snapshotOnly {
			return connectors.Batch{}, io.EOF
		}
		opening, cancel := unhurried(ctx)
		err := s.openStream(opening)
		cancel()
		if err != nil {
			return connectors.Batch{}, err
		}
		st = s.stream.Load()
		s.watch.look() // what was done to a table during the snapshot
	}
	return st.read(ctx)
}

// Ack tells the server that it may forget what is before p.
func (s *Source) Ack(_ context.Context, p connectors.Position) error {
	saved, err := parsePosition(p)
	if err != nil {
		return err
	}
	s.watch.acked()
	st := s.stream.Load()
	if st == nil || uint64(saved.LSN) <= st.wal.flushed.Load() {
		return nil
	}
	st.wal.flushed.Store(uint64(saved.LSN))
	return st.wal.status(false)
}

// Close ends everything that the source started.
func (s *Source) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, goodbye)
	defer cancel()
	s.watch.close()
	if s.snapshot != nil {
		s.snapshot.close()
	}
	if st := s.stream.Load(); st != nil {
		st.close()
	}
	s.catalog.close(ctx)
	return nil
}

// currentEnd returns the end of the WAL as a reader of the stream gets to know it: where the next record would begin
// after a page header, the server says that it has sent everything up to the header.
func currentEnd(ctx context.Context, conn *pgx.Conn) (lsn, error) {
	var text string
	var segment int64
	err := conn.QueryRow(ctx, "SELECT pg_current_wal_insert_lsn()::text, (SELECT setting::int8 FROM pg_settings WHERE name = 'wal_segment_size')").Scan(&text, &segment)
	if err != nil {
		return 0, fmt.Errorf("ask for the end of the WAL: %w", err)
	}
	end, err := parseLSN(text)
	switch {
	case segment > 0 && end%lsn(segment) == longPageHeader:
		end -= longPageHeader
	case end%walPage == shortPageHeader:
		end -= shortPageHeader
	}
	return end, err
}

// Sizes of WAL pages with the usual build options.
const (
	walPage         = 8192
	shortPageHeader = 24
	longPageHeader  = 40 // at the start of a segment
)
