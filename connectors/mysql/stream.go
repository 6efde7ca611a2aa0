package mysql

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

const linger = 200 * time.Microsecond // how long a finished transaction waits for the next one

// stream follows the binary log. It is used by one goroutine, that of a feed.
type stream struct {
	dump    *dump
	feed    *feed // reads
	source  *Source
	schemas *schemas
	limits  connectors.Limits
	until   *place // run --once: where to end
	ended   bool
	pos     *position // what was handed over
	gtids   *gtidSet  // of all that ended; nil: the server has none

	chunk *chunk // what is being decoded
	next  int    // its next event
	inner []byte // events of a compressed transaction, or of one of XA, that are left
	deep  bool   // the event at hand is one of them
	sums  bool   // events have checksums

	at       place // the end of the event before
	safe     place // the end of the last transaction, or what lies outside of any
	created  uint32
	heard    time.Time
	lastTold time.Time

	rows       *rows
	inTx       bool
	tx         transaction
	txStart    int  // where in rows it began
	committed  bool // rows ends with a commit, or is empty
	owed       bool // a piece without position was handed over
	maps       map[uint64]*mapped
	reading    *rowReader // a row event that is not decoded to its end
	prepared   map[string]*preparedTx
	collecting *preparedTx // an XA transaction that is not prepared yet
	replay     *place      // up to where everything was handed over before
}

// transaction is the one whose changes are coming.
type transaction struct {
	gtid       string
	maria      *mariaGTID
	mysql      *mysqlBegin
	standalone bool
	xid        string // of XA, where the GTID tells it
	thread     uint32
	server     uint32
	start      place // of the event whose rows are decoded
}

// mapped is a table map together with the version of the table that fits; shape is nil when nobody wants its rows.
type mapped struct {
	raw     []byte
	m       *tableMap
	tracked *tracked
	shape   *shape
}

// read makes the next batch in a buffer that nobody uses.
func (s *stream) read(ctx context.Context, out *rows) (connectors.Batch, error) {
	s.rows = out
	s.rows.reset()
	if s.reading != nil { // the rest of an event
		s.reading.place.known = false
	}
	s.txStart, s.committed = 0, !s.inTx
	s.heard = time.Now()
	for {
		if err := ctx.Err(); err != nil {
			return connectors.Batch{}, err
		}
		if !s.inTx && !s.owed && len(s.rows.changes) == 0 && s.source.requests.pending() {
			return connectors.Batch{}, errSync
		}
		full, err := s.advance(ctx)
		if err != nil {
			return connectors.Batch{}, err
		}
		if full {
			return s.take()
		}
		if s.until != nil && !s.inTx && !s.safe.before(*s.until) {
			if s.ended && len(s.rows.changes) == 0 {
				return connectors.Batch{}, io.EOF
			}
			s.ended = true
			return s.take()
		}
		ready, err := s.wait(ctx)
		if err != nil {
			return connectors.Batch{}, err
		}
		if ready {
			return s.take()
		}
	}
}

// wait waits for the next chunk. It reports that what is there should not wait any longer.
func (s *stream) wait(ctx context.Context) (bool, error) {
	if s.chunk != nil {
		s.dump.release(s.chunk)
		s.chunk = nil
	}
	pending := len(s.rows.changes) > 0 && s.committed
	config := &s.source.config
	patience := min(config.Silence, config.Heartbeat)
	if pending {
		patience = linger
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case c, ok := <-s.dump.chunks:
		if !ok {
			select {
			case err := <-s.dump.failed:
				return false, s.source.binlogFault(ctx, err)
			default:
				return false, errors.New("read binary log: closed")
			}
		}
		s.chunk, s.next, s.heard = c, 0, time.Now()
		return false, nil
	case <-s.source.requests.wake:
		return pending, nil
	case <-timer.C:
	}
	now := time.Now()
	switch {
	case pending:
		return true, nil
	case !s.inTx && len(s.rows.changes) == 0 && s.moved() && now.Sub(s.lastTold) >= config.Heartbeat:
		return true, nil
	case now.Sub(s.heard) >= config.Silence:
		return false, fmt.Errorf("read binary log: the server has said nothing for %s", config.Silence)
	}
	return false, nil
}

// moved reports that the position has changed since it was told last.
func (s *stream) moved() bool { return s.safe.File != s.pos.File || s.safe.Pos != s.pos.Pos }

// take hands over what is there. It has a position unless it ends inside a transaction.
func (s *stream) take() (connectors.Batch, error) {
	b := connectors.Batch{Changes: s.rows.changes}
	s.owed = s.inTx
	if s.inTx {
		return b, nil
	}
	var err error
	if b.Position, err = s.mark(); err != nil {
		return connectors.Batch{}, err
	}
	s.lastTold = time.Now()
	return b, nil
}

// mark returns the position behind the last transaction.
func (s *stream) mark() (connectors.Position, error) {
	s.pos.File, s.pos.Pos, s.pos.Created = s.safe.File, s.safe.Pos, s.created
	if s.gtids != nil {
		s.pos.GTID = s.gtids.String()
	}
	s.pos.Redo = s.redo()
	for n, t := range s.schemas.tables { // those that came into being while we looked, or stopped
		switch i := slices.Index(s.pos.Tables, n); {
		case i < 0 && !t.failed:
			s.pos.Tables = append(s.pos.Tables, n)
		case i >= 0 && t.failed:
			s.pos.Tables = slices.Delete(s.pos.Tables, i, i+1)
		}
	}
	var err error
	if s.pos.History, err = s.schemas.pack(); err != nil {
		return nil, err
	}
	for n, p := range s.pos.Skip {
		if !s.safe.before(p) {
			delete(s.pos.Skip, n)
		}
	}
	return s.pos.encode(), nil
}

// advance decodes what is there. It reports that the batch is to be handed over.
func (s *stream) advance(ctx context.Context) (bool, error) {
	for {
		if s.reading != nil {
			if full, err := s.decode(); full || err != nil {
				return full, err
			}
		}
		b, ok, err := s.nextEvent()
		if err != nil || !ok {
			return false, err
		}
		if b, err = s.unsum(b); err != nil {
			return false, err
		}
		e, err := parseEvent(b)
		if err != nil {
			return false, err
		}
		end := s.track(&e)
		full, err := s.event(ctx, &e, b, end)
		if e.typ != eventRotate {
			s.at = end
		}
		if full || err != nil {
			return full, err
		}
	}
}

// nextEvent returns the next whole event.
func (s *stream) nextEvent() (b []byte, ok bool, err error) {
	if len(s.inner) > 0 {
		if len(s.inner) < eventHeader {
			return nil, false, errEvent("transaction payload")
		}
		n := int(binary.LittleEndian.Uint32(s.inner[9:]))
		if n < eventHeader || n > len(s.inner) {
			return nil, false, errEvent("transaction payload")
		}
		b, s.inner, s.deep = s.inner[:n], s.inner[n:], true
		return b, true, nil
	}
	s.deep = false
	if s.chunk == nil || s.next == len(s.chunk.ends) {
		return nil, false, nil
	}
	from := 0
	if s.next > 0 {
		from = s.chunk.ends[s.next-1]
	}
	b = s.chunk.buf[from:s.chunk.ends[s.next]]
	s.next++
	return b, true, nil
}

// track returns where the event ends. The log says so in 32 bits, which a file can outgrow.
func (s *stream) track(e *event) place {
	end := s.at
	if s.deep || e.flags&flagArtificial != 0 || e.end == 0 {
		return end
	}
	end.Pos = end.Pos&^uint64(1<<32-1) | uint64(e.end)
	if end.Pos < s.at.Pos {
		end.Pos += 1 << 32
	}
	return end
}

// event handles one event. It reports that the batch is to be handed over.
func (s *stream) event(ctx context.Context, e *event, raw []byte, end place) (bool, error) {
	if s.collecting != nil && s.collect(e, raw) {
		return false, nil
	}
	switch e.typ {
	case eventFormat:
		return false, s.format(e)
	case eventRotate:
		next, err := nextFile(e.body)
		if err != nil {
			return false, err
		}
		return false, s.rotate(next, e)
	}
	if s.replay != nil {
		if !s.replay.before(end) {
			return false, s.again(e)
		}
		s.replay = nil
	}
	switch e.typ {
	case eventHeartbeat, eventHeartbeat2:
		if !s.inTx && e.end != 0 {
			s.safe = end
		}
	case eventMariaGTID:
		b, err := parseMariaGTID(e)
		if err != nil {
			return false, err
		}
		s.begin(transaction{gtid: b.gtid.String(), maria: &b.gtid, standalone: b.standalone, xid: b.xid}, end)
		if b.prepares {
			s.collectXA(b.xid)
		}
	case eventGTID, eventTaggedGTID:
		g, err := parseMySQLGTID(e)
		if err != nil {
			return false, err
		}
		s.begin(transaction{gtid: g.String(), mysql: &g}, end)
	case eventAnonymousGTID:
		s.begin(transaction{}, end)
	case eventQuery, eventMariaQuery:
		return s.query(ctx, e, end)
	case eventXID:
		return s.commit(end), nil
	case eventXAPrepare:
		return false, s.xaPrepare(e, end)
	case eventTableMap:
		return false, s.tableMap(ctx, e)
	case eventPayload:
		var err error
		s.inner, err = payload(e.body)
		return false, err
	case eventPartialUpdate:
		return false, s.partial(e)
	case eventIncident:
		return false, lost(s.source.env.Name, "it reports an incident: events are missing at "+end.String())
	default:
		if rowOp(e.typ) != 0 {
			return s.rowEvent(e, end)
		}
		if !s.inTx && e.flags&flagArtificial == 0 && e.end != 0 {
			s.safe = end
		}
	}
	return false, nil
}

// format checks that a file of the name that we know is the file that we know.
func (s *stream) format(e *event) error {
	if s.pos.Created != 0 && s.at.File == s.pos.File && e.time != s.pos.Created && e.server == s.pos.Server {
		return lost(s.source.env.Name, "its binary log was reset: file "+s.pos.File+" is not the one that was read")
	}
	s.created = e.time
	return nil
}

// rotate goes to the next file. The server also says so, as an artificial event, where it begins to send; a server that
// begins before the file that we know has begun its log anew.
func (s *stream) rotate(next place, e *event) error {
	artificial := e.flags&flagArtificial != 0
	if artificial && s.at.File == "" && e.server == s.pos.Server && s.pos.File != "" && next.File != s.pos.File && next.before(place{File: s.pos.File}) {
		return lost(s.source.env.Name, "its binary log was reset: it begins at file "+next.File+" and the position is in file "+s.pos.File)
	}
	if s.at.File == next.File && artificial {
		if s.at.Pos < next.Pos {
			s.at = next
		}
		return nil
	}
	s.at = next
	if !artificial && !s.inTx && s.replay == nil {
		s.safe, s.created = next, 0
	}
	return nil
}

func (s *stream) begin(tx transaction, end place) {
	if len(s.maps) >= maxMaps { // those of one statement stay together
		clear(s.maps)
	}
	s.inTx, s.tx, s.txStart, s.committed = true, tx, len(s.rows.changes), false
}

// commit ends a transaction. The batch is handed over when the next transaction, if it is like this one, would not fit:
// a batch that ends with a commit has a position.
func (s *stream) commit(end place) bool {
	s.inTx, s.committed, s.safe = false, true, end
	if s.gtids != nil {
		switch {
		case s.tx.maria != nil:
			s.gtids.add(*s.tx.maria)
		case s.tx.mysql != nil:
			s.gtids.addMySQL(s.tx.mysql.server, s.tx.mysql.tag, s.tx.mysql.number)
		}
	}
	n := len(s.rows.changes)
	return s.owed || n > 0 && (2*n-s.txStart > s.limits.BatchRows || 2*len(s.rows.arena) > s.limits.BatchBytes)
}

// query handles statements: the beginning and the end of a transaction, DDL, and what we need not know.
func (s *stream) query(ctx context.Context, e *event, end place) (bool, error) {
	q, err := parseQuery(e.body, e.typ == eventMariaQuery)
	if err != nil {
		return false, err
	}
	first, alone := q.word()
	s.tx.thread = q.thread
	switch first {
	case "BEGIN":
		if !s.inTx {
			s.begin(transaction{thread: q.thread}, end)
		}
		return false, nil
	case "SAVEPOINT", "RELEASE":
		return false, nil
	case "COMMIT":
		if alone {
			return s.commit(end), nil
		}
	case "ROLLBACK":
		if alone {
			return s.rollback(end)
		}
		return false, nil // to a savepoint; what it undid is not in the log
	case "XA":
		return s.xaQuery(q, end)
	}
	return s.statement(ctx, q, e, end)
}

// rollback ends a transaction whose changes do not count.
func (s *stream) rollback(end place) (bool, error) {
	if s.owed {
		return false, fmt.Errorf("read binary log: the large transaction before %s was rolled back after part of it had been handed over: %w", end, connectors.ErrFatal)
	}
	s.rows.changes = s.rows.changes[:s.txStart]
	return s.commit(end), nil
}

// tableMap notes the layout of the row events that follow.
func (s *stream) tableMap(ctx context.Context, e *event) error {
	if len(e.body) < 6 {
		return errEvent("table map")
	}
	id := littleEndian(e.body[:6])
	if x := s.maps[id]; x != nil && bytes.Equal(x.raw, e.body) && (x.tracked == nil || x.tracked.shape == x.shape) {
		return nil
	}
	m, err := parseTableMap(e.body, 6)
	if err != nil {
		return err
	}
	if p, ok := s.pos.Skip[m.name]; ok && s.at.before(p) { // what it looked like then does not matter
		s.maps[id] = &mapped{m: m}
		return nil
	}
	x := &mapped{m: m, raw: bytes.Clone(e.body)}
	s.maps[id] = x
	x.tracked, x.shape, err = s.schemas.match(ctx, m, s.at)
	return err
}

// maxMaps bounds the table maps that are kept. The server numbers a table anew after each DDL.
const maxMaps = 4096

// rowEvent begins to decode a row event, if anybody wants its table.
func (s *stream) rowEvent(e *event, end place) (bool, error) {
	id, err := rowTable(e)
	if err != nil {
		return false, err
	}
	x := s.maps[id]
	if x == nil || x.shape == nil || x.tracked.failed {
		return false, nil
	}
	if p, ok := s.pos.Skip[x.m.name]; ok && !p.before(end) {
		return false, nil
	}
	ev, err := parseRows(e)
	if err != nil {
		return false, err
	}
	if ev.columns != len(x.m.columns) {
		return false, errEvent("rows")
	}
	if !s.inTx { // a file without GTIDs
		s.begin(transaction{}, end)
	}
	s.tx.start, s.tx.server = s.at, e.server
	s.reading = &rowReader{event: ev, shape: x.shape, table: x.m, at: time.Unix(int64(e.time), 0).UTC()}
	return s.decode()
}

// decode decodes rows of the event at hand until it ends or the batch is full.
func (s *stream) decode() (bool, error) {
	x := s.reading
	for !x.done() {
		size := len(s.rows.arena)
		row := x.row
		before := len(s.rows.changes)
		c, err := x.next(s.rows)
		if err == nil {
			err = identified(c)
		}
		if err != nil {
			s.rows.changes = s.rows.changes[:before]
			s.reading = nil
			s.schemas.fail(s.schemas.tables[x.table.name], fmt.Sprintf("a row at %s cannot be decoded: %v", s.tx.start, err))
			clear(s.maps) // which have the table as one that is wanted
			return false, nil
		}
		if size = len(s.rows.arena) - size; size > s.limits.RowBytes {
			return false, tooLarge(x.shape.table, size, s.limits.RowBytes)
		}
		s.stamp(c, row, &x.place)
		if s.rows.full(s.limits) {
			if x.done() {
				s.reading = nil
			}
			return true, nil
		}
	}
	s.reading = nil
	return false, nil
}

// identified refuses an image from which nobody could tell the row.
func identified(c *connectors.Change) error {
	row := c.Before
	if c.Op == connectors.Insert {
		row = c.After
	}
	for _, k := range c.Table.Key {
		if row[k].IsAbsent() {
			return fmt.Errorf("the row image does not hold the key column %s; set binlog_row_image = FULL", c.Table.Columns[k].Name)
		}
	}
	return nil
}

// stamped is what the changes of an event share: where it stands.
type stamped struct {
	known    bool   // for the batch in the making
	origin   []byte // up to the number of the row
	position []byte // in the batch's arena
}

// stamp adds where the change stands in the log. What the changes of an event share is written once for each batch.
func (s *stream) stamp(c *connectors.Change, row int, x *stamped) {
	r := s.rows
	if !x.known {
		x.known = true
		x.origin = s.appendOrigin(x.origin[:0])
		start := len(r.arena)
		r.arena = strconv.AppendUint(append(append(r.arena, s.tx.start.File...), ':'), s.tx.start.Pos, 10)
		x.position = r.since(start)
	}
	start := len(r.arena)
	b := strconv.AppendInt(append(r.arena, x.origin...), int64(row), 10)
	r.arena = strconv.AppendUint(append(b, `,"thread":`...), uint64(s.tx.thread), 10)
	c.Origin, c.Position = r.since(start), x.position
}

// appendOrigin appends the place of an event, up to the number of the row.
func (s *stream) appendOrigin(b []byte) []byte {
	b = append(b, `"server_id":`...)
	b = strconv.AppendUint(b, uint64(s.tx.server), 10)
	b = append(b, `,"gtid":`...)
	if s.tx.gtid == "" {
		b = append(b, "null"...)
	} else {
		b = append(append(append(b, '"'), s.tx.gtid...), '"')
	}
	b = append(append(append(b, `,"file":"`...), s.tx.start.File...), `","pos":`...)
	b = strconv.AppendUint(b, s.tx.start.Pos, 10)
	return append(b, `,"row":`...)
}

// partial stops at an event that holds changes to JSON documents instead of documents.
func (s *stream) partial(e *event) error {
	id, err := rowTable(e)
	if err != nil {
		return err
	}
	if x := s.maps[id]; x == nil || x.shape == nil {
		return nil
	}
	return fmt.Errorf("table %s: a partial JSON update at %s; SET GLOBAL binlog_row_value_options = '' and take a fresh snapshot of the table: %w",
		s.maps[id].m.name.full(), s.at, connectors.ErrFatal)
}

// close ends the decoding and the connection.
func (s *stream) close() {
	s.feed.close()
	s.dump.close()
}
