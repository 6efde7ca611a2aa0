package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

// Source reads a server: a snapshot of the tables, then its binary log.
type Source struct {
	config   SourceConfig
	env      connectors.Env
	endpoint *endpoint
	db       *sql.DB
	server   *server
	schemas  *schemas
	pos      *position
	until    *place
	tables   []*foundTable

	entry    *extractMark // of mode timestamp, from which this one goes on; nil: none
	requests requests
	void     []connectors.Change // comes before the rows of the snapshot
	snapshot *snapshot           // nil: none is going on
	stream   *stream
	replica  string // what the server lists this stream as
	greeted  bool   // the first position was handed over
}

// newSource connects and decides where to go on.
func newSource(ctx context.Context, config SourceConfig, env connectors.Env, from connectors.Position) (_ *Source, err error) {
	env.Limits = env.Limits.WithDefaults()
	s := &Source{config: config, env: env, requests: requests{wake: make(chan struct{}, 1)}}
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
	s.schemas = &schemas{catalog: &catalog{db: s.db, config: &s.config, maria: s.server.maria}, sets: &charsets{db: s.db},
		source: env.Name, logger: env.Logger, report: env.Report, tables: map[tableName]*tracked{}}
	if s.entry = extractMarkOf(from); s.entry != nil && s.entry.Server != s.server.id {
		return nil, lost(env.Name, fmt.Sprintf("server_id was %d and is %d, so this is another server", s.entry.Server, s.server.id))
	}
	if from != nil && s.entry == nil {
		if s.pos, err = parsePosition(from); err != nil {
			return nil, fmt.Errorf("%w: %w", err, connectors.ErrFatal)
		}
	}
	if err := s.loadTables(ctx); err != nil {
		return nil, err
	}
	if config.Snapshot == snapshotOnly {
		return s, s.openOnly(ctx)
	}
	if err := s.usable(); err != nil {
		return nil, err
	}
	if env.Once {
		end, err := s.end(ctx)
		if err != nil {
			return nil, err
		}
		s.until = &end
	}
	switch {
	case s.pos == nil:
		err = s.openFresh(ctx)
	case s.pos.Snapshot != nil && s.pos.Snapshot.Sync:
		err = s.sync(ctx, slices.DeleteFunc(slices.Clone(s.tables), func(t *foundTable) bool { return slices.Contains(s.pos.Tables, t.name) }))
	case s.pos.Snapshot != nil:
		err = s.resumeSnapshot(ctx)
	case s.config.Snapshot == snapshotNever:
		s.pos.Tables = s.names()
		err = s.openStream(ctx)
	case len(s.missing()) > 0:
		err = s.startSync(ctx, s.missing())
	default:
		err = s.openStream(ctx)
	}
	return s, err
}

// usable refuses a server from which no changes can be read.
func (s *Source) usable() error {
	if !s.server.logBin {
		return fmt.Errorf("the server writes no binary log; start it with log_bin and binlog_format = ROW: %w", connectors.ErrFatal)
	}
	if s.server.format != "ROW" {
		return fmt.Errorf("binlog_format is %s; run SET GLOBAL binlog_format = 'ROW' and let the application connect anew: %w", s.server.format, connectors.ErrFatal)
	}
	if s.server.image != "" && s.server.image != "FULL" {
		s.env.Logger.Warn("row images are not whole", "source", s.env.Name, "binlog_row_image", s.server.image)
		s.env.Report(connectors.Report{Reason: "binlog_row_image is " + s.server.image + ": columns that an image leaves out are absent from records; SET GLOBAL binlog_row_image = 'FULL'"})
	}
	return nil
}

// loadTables reads the definitions of today. Those of the saved position take their place when there is one.
func (s *Source) loadTables(ctx context.Context) error {
	list, err := s.schemas.catalog.tables(ctx)
	if err != nil {
		return err
	}
	if len(list) == 0 && s.pos == nil {
		return fmt.Errorf("no table of the server matches tables, or our user may not see it: %w", connectors.ErrFatal)
	}
	for i := range s.config.Tables {
		spec := &s.config.Tables[i]
		if !slices.ContainsFunc(list, func(t *foundTable) bool { return spec.Matches(t.name.full()) }) {
			s.env.Report(connectors.Report{Table: spec.Name, Phase: connectors.PhaseFailed, Reason: "no such table on the server, or our user may not see it"})
			s.env.Logger.Warn("no table matches", "source", s.env.Name, "table", spec.Name)
		}
	}
	s.tables = list
	known := history{}
	if s.pos != nil {
		if known, err = unpackHistory(s.pos.History); err != nil {
			return fmt.Errorf("%w: %w", err, connectors.ErrFatal)
		}
		s.leave(known)
		for n, def := range known {
			if err := s.schemas.set(n, def); err != nil {
				return err
			}
			if t := s.schemas.tables[n]; t != nil {
				t.old = true
			}
		}
	}
	for _, t := range list {
		if known[t.name] == nil {
			if err := s.schemas.set(t.name, t.def); err != nil {
				return err
			}
		}
	}
	return nil
}

// leave takes the tables out of the position that the configuration does not name any more: their changes are not seen from here
// on, so one that comes back is read anew. The history keeps what was handed over of them last, which then has to go.
func (s *Source) leave(known history) {
	s.pos.Tables = slices.DeleteFunc(slices.Clone(s.pos.Tables), func(n tableName) bool { return s.config.spec(n) == nil })
	if s.pos.Snapshot != nil {
		maps.DeleteFunc(s.pos.Snapshot.Tables, func(n tableName, _ *tableMark) bool { return s.config.spec(n) == nil })
	}
	s.schemas.left = history{}
	for n, def := range known {
		switch {
		case s.config.spec(n) == nil:
			s.schemas.left[n] = def
		case s.config.Snapshot == snapshotNever && !slices.Contains(s.pos.Tables, n):
			delete(known, n) // it is not read, and goes on as it is now
		}
	}
}

// end asks where the binary log ends.
func (s *Source) end(ctx context.Context) (place, error) {
	p, _, err := masterStatus(ctx, s.db)
	return p, err
}

// querier is a connection or a pool of them.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// masterStatus asks for the end of the binary log and the set of executed GTIDs. Newer servers have another word for it.
func masterStatus(ctx context.Context, db querier) (p place, gtids string, err error) {
	rows, err := db.QueryContext(ctx, "SHOW MASTER STATUS")
	if code(err) == errSyntax {
		rows, err = db.QueryContext(ctx, "SHOW BINARY LOG STATUS")
	}
	if err != nil {
		return p, "", fmt.Errorf("ask for the end of the binary log: %w", settle(err))
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil || !rows.Next() {
		return p, "", fmt.Errorf("ask for the end of the binary log: the server has none: %w", errors.Join(err, rows.Err(), connectors.ErrFatal))
	}
	values := make([]sql.NullString, len(columns))
	targets := make([]any, len(columns))
	for i := range values {
		targets[i] = &values[i]
	}
	if err := rows.Scan(targets...); err != nil {
		return p, "", fmt.Errorf("ask for the end of the binary log: %w", err)
	}
	p.File = values[0].String
	p.Pos, err = strconv.ParseUint(values[1].String, 10, 64)
	if len(values) > 4 {
		gtids = strings.Join(strings.Fields(values[4].String), "")
	}
	return p, gtids, err
}

// openFresh takes the first snapshot.
func (s *Source) openFresh(ctx context.Context) error {
	s.pos = &position{Server: s.server.id, Tables: []tableName{}}
	if s.config.Snapshot == snapshotNever {
		p, gtids, err := masterStatus(ctx, s.db)
		if err != nil {
			return err
		}
		if s.server.maria {
			if gtids, err = s.gtidAt(ctx, p); err != nil {
				return err
			}
		}
		s.pos.File, s.pos.Pos, s.pos.GTID, s.pos.Tables = p.File, p.Pos, gtids, s.names()
		return s.openStream(ctx)
	}
	s.pos.Snapshot = &snapshotMark{}
	if s.entry != nil {
		s.pos.Snapshot.Entry = s.entry.Tables
		s.pos.Snapshot.Again = s.names()
	}
	return s.resumeSnapshot(ctx)
}

// openOnly opens a snapshot that no stream follows.
func (s *Source) openOnly(ctx context.Context) error {
	if s.pos == nil {
		s.pos = &position{Server: s.server.id, Tables: []tableName{}, Snapshot: &snapshotMark{}}
	}
	if s.pos.Snapshot == nil {
		return nil
	}
	return s.resumeSnapshot(ctx)
}

// gtidAt asks MariaDB which GTIDs a place stands for.
func (s *Source) gtidAt(ctx context.Context, p place) (string, error) {
	var text sql.NullString
	if err := s.db.QueryRowContext(ctx, "SELECT BINLOG_GTID_POS(?, ?)", p.File, p.Pos).Scan(&text); err != nil {
		return "", fmt.Errorf("ask for the GTIDs of %s: %w", p, settle(err))
	}
	return text.String, nil
}

func (s *Source) names() []tableName {
	list := []tableName{}
	for _, t := range s.tables {
		list = append(list, t.name)
	}
	return list
}

// resumeSnapshot begins a snapshot, or goes on with one that a crash interrupted, at a new moment.
func (s *Source) resumeSnapshot(ctx context.Context) error {
	workers, err := s.moments(ctx, s.config.SnapshotWorkers)
	if err != nil {
		return err
	}
	if s.pos.File == "" && s.config.Snapshot != snapshotOnly {
		first := workers[0]
		for _, m := range workers[1:] {
			if m.at.before(first.at) {
				first = m
			}
		}
		s.pos.File, s.pos.Pos, s.pos.GTID = first.at.File, first.at.Pos, first.gtid
	}
	return s.startSnapshot(ctx, workers, s.tables)
}

// startSnapshot reads tables as they are at the workers' moment. The stream goes on with what they looked like at its own
// place, if that is known.
func (s *Source) startSnapshot(ctx context.Context, workers []*moment, list []*foundTable) (err error) {
	var tables []*snapshotTable
	for _, t := range list {
		if s.schemas.tables[t.name] == nil {
			if err := s.schemas.set(t.name, t.def); err != nil {
				closeAll(workers)
				return err
			}
		}
		known := s.schemas.tables[t.name]
		if slices.Contains(s.pos.Snapshot.Changed, t.name) {
			known.failed = true
			continue
		}
		s.schemas.use(known)
		shape := known.shape
		if def := t.def.identified(shape.def); !shape.def.equal(def) {
			if s.config.Snapshot != snapshotOnly && !s.pos.Snapshot.Sync {
				s.changed(t.name, "it is not as it was when the snapshot began")
				continue
			}
			if shape, err = newShape(t.name, def, known.spec, s.schemas.sets); err != nil {
				closeAll(workers)
				return err
			}
		}
		table := &snapshotTable{name: t.name, shape: shape, estimate: t.rows, cut: cutOf(shape)}
		if m := s.pos.Snapshot.Entry[t.name]; m != nil {
			table.enter(m, known.spec)
		}
		tables = append(tables, table)
	}
	if err := s.goneOnEntry(ctx, workers[0], tables); err != nil {
		closeAll(workers)
		return err
	}
	if s.pos.History, err = s.schemas.pack(); err != nil {
		closeAll(workers)
		return err
	}
	o := snapshotOptions{limits: s.env.Limits, buffer: int(s.config.SnapshotBuffer), chunk: s.config.SnapshotChunk,
		tables: tables, mark: s.pos.Snapshot, report: s.env.Report, workers: workers}
	if s.config.Snapshot != snapshotOnly {
		o.lost = func(t *snapshotTable, err error) { s.changed(t.name, err.Error()) }
		o.agrees = func(ctx context.Context, t *snapshotTable) (bool, error) {
			now, err := s.schemas.catalog.table(ctx, t.name)
			if err != nil || now == nil {
				return false, err
			}
			return t.shape.def.equal(now.identified(t.shape.def)), nil
		}
	}
	s.snapshot, err = newSnapshot(ctx, o)
	return err
}

// changed leaves a table out of the snapshot, because a statement changed it before it was read. The stream leaves it out
// too, until it pauses and reads the table anew.
func (s *Source) changed(n tableName, why string) {
	if t := s.schemas.tables[n]; t != nil {
		t.failed = true
	}
	if !slices.Contains(s.pos.Snapshot.Changed, n) {
		s.pos.Snapshot.Changed = append(slices.Clone(s.pos.Snapshot.Changed), n)
	}
	s.env.Logger.Info("a table changed while the snapshot was taken; it is read when the stream goes on", "source", s.env.Name, "table", n.full(), "reason", why)
	s.env.Report(connectors.Report{Table: n.full(), Phase: connectors.PhaseSnapshot, Reason: "it changed while the snapshot was taken, and is read when the stream goes on: " + why})
}

// openStream starts to follow the binary log.
func (s *Source) openStream(ctx context.Context) error {
	s.replica = fmt.Sprintf("trunkline-%016x", rand.Uint64())
	o := dumpOptions{serverID: s.config.serverID(s.env.Name), host: s.replica, maria: s.server.maria, at: place{s.pos.File, s.pos.Pos},
		heartbeat: min(s.config.Silence/3, s.config.Heartbeat)}
	st := &stream{source: s, schemas: s.schemas, limits: s.env.Limits, until: s.until, pos: s.pos, at: o.at, safe: o.at, created: s.pos.Created,
		committed: true, maps: map[uint64]*mapped{}, prepared: map[string]*preparedTx{}, lastTold: time.Now()}
	if s.server.gtids || s.pos.GTID != "" {
		set, err := parseGTIDs(s.server.maria, s.pos.GTID)
		if err != nil {
			return fmt.Errorf("%w: %w", err, connectors.ErrFatal)
		}
		st.gtids = set
	}
	begin := st.gtids
	if r := s.pos.Redo; r != nil {
		until := o.at
		o.at, st.at, st.replay = r.place, r.place, &until
		var err error
		if begin, err = parseGTIDs(s.server.maria, r.GTID); err != nil {
			return fmt.Errorf("%w: %w", err, connectors.ErrFatal)
		}
	}
	switch {
	case s.config.GTID == gtidOn && !s.server.gtids:
		return fmt.Errorf("gtid is on and the server has none; set gtid_mode = ON there, or gtid: auto: %w", connectors.ErrFatal)
	case s.config.GTID != gtidOff && s.server.gtids && s.pos.GTID != "":
		o.gtid, st.at = begin, place{}
	case s.pos.Pos >= 1<<32:
		return fmt.Errorf("position %s lies behind 4 GiB, which only GTIDs can reach; set gtid: auto: %w", o.at, connectors.ErrFatal)
	}
	if err := s.checkServer(o.gtid != nil); err != nil {
		return err
	}
	var err error
	if st.dump, err = startDump(ctx, s.endpoint, o); err != nil {
		return err
	}
	if err := s.askAltered(ctx, s.pos.Altered); err != nil {
		st.close()
		return err
	}
	st.feed = newFeed(st.read)
	s.stream = st
	for _, t := range s.tables {
		s.env.Report(connectors.Report{Table: t.name.full(), Phase: connectors.PhaseStreaming})
	}
	return nil
}

// checkServer refuses to read a file and position of one server on another.
func (s *Source) checkServer(gtids bool) error {
	if s.pos.Server == s.server.id {
		return nil
	}
	if !gtids {
		return lost(s.env.Name, fmt.Sprintf("server_id was %d and is %d, so this is another server, and there are no GTIDs", s.pos.Server, s.server.id))
	}
	s.env.Logger.Warn("another server than before; going on by GTID", "source", s.env.Name, "before", s.pos.Server, "now", s.server.id)
	s.pos.Server, s.pos.Created, s.pos.Skip, s.pos.Redo = s.server.id, 0, nil, nil
	return nil
}

// Read returns the next batch of the snapshot or the stream. The first one is a bare position.
func (s *Source) Read(ctx context.Context) (connectors.Batch, error) {
	if !s.greeted {
		s.greeted = true
		var err error
		if s.pos.History, err = s.schemas.pack(); err != nil {
			return connectors.Batch{}, err
		}
		return connectors.Batch{Position: s.pos.encode()}, nil
	}
	if s.snapshot != nil {
		return s.readSnapshot(ctx)
	}
	if s.stream == nil {
		if s.config.Snapshot == snapshotOnly {
			return connectors.Batch{}, io.EOF
		}
		if err := s.openStream(ctx); err != nil {
			return connectors.Batch{}, err
		}
	}
	batch, err := s.stream.feed.next(ctx)
	if !errors.Is(err, errSync) {
		return batch, err
	}
	if r, asked := s.requests.takeRepair(); asked {
		return s.reread(ctx, r)
	}
	if err := s.syncAsked(ctx); err != nil {
		return connectors.Batch{}, err
	}
	return connectors.Batch{Position: s.pos.encode()}, nil
}

func (s *Source) readSnapshot(ctx context.Context) (connectors.Batch, error) {
	if len(s.void) > 0 {
		batch := connectors.Batch{Changes: s.void}
		s.void = nil
		return batch, nil
	}
	p, finished, err := s.snapshot.read(ctx)
	if err != nil {
		return connectors.Batch{}, err
	}
	if p.done && !slices.Contains(s.pos.Snapshot.Changed, p.task.table.name) && p.task.table.skips(s.pos.Snapshot) && (place{s.pos.File, s.pos.Pos}).before(p.at) {
		if s.pos.Skip == nil {
			s.pos.Skip = map[tableName]place{}
		}
		s.pos.Skip[p.task.table.name] = p.at
	}
	batch := connectors.Batch{Changes: p.rows.changes}
	if finished {
		s.pos.Tables = slices.Clone(s.pos.Tables)
		for n := range s.pos.Snapshot.Tables {
			if !slices.Contains(s.pos.Tables, n) {
				s.pos.Tables = append(s.pos.Tables, n)
			}
		}
		slices.SortFunc(s.pos.Tables, tableName.compare)
		for _, n := range s.pos.Snapshot.Changed {
			s.requests.add(n)
		}
		s.pos.Snapshot = nil
	}
	if finished || p.complete() {
		batch.Position = s.pos.encode()
	}
	if finished { // the batch stays valid: closing ends the workers, and nothing reuses their buffers
		s.snapshot.close()
		s.snapshot = nil
	}
	return batch, nil
}

// Ack has nothing to tell: the server keeps its binary log for as long as it was told to, whoever reads it.
func (s *Source) Ack(context.Context, connectors.Position) error { return nil }

// Close ends everything that the source started.
func (s *Source) Close(context.Context) error {
	if s.snapshot != nil {
		s.snapshot.close()
		s.snapshot = nil
	}
	if s.stream != nil {
		s.stream.close()
		s.stream = nil
	}
	if s.db != nil {
		return s.db.Close()
	}
	return nil
}
