package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

const (
	linger  = 200 * time.Microsecond // how long a finished transaction waits for the next one while little is coming
	maxWait = time.Second            // how long one look at the socket takes at most
)

// stream follows the changes of a slot. It is used by one goroutine.
type stream struct {
	wal     *wal
	catalog *catalog
	limits  connectors.Limits
	dir     string
	silence time.Duration
	beat    time.Duration
	until   lsn // run --once: where to end; 0: never
	ended   bool
	pos     *position // LSN is what was handed over
	tables  map[uint32]*tracked
	syncs   *syncs

	imprints *imprints
	versions *versions
	keeps    bool // tables are not read anew by themselves
	warn     func(*connectors.Table, string)
	look     func()      // asks for a look at the catalog soon
	ddl      bool        // messages of event triggers are wanted
	covered  bool        // the description that is being handled is older than the rows that were read anew
	recent   [256]uint32 // the last transactions that were handed over, in a ring
	handed   int

	rows, spare *rows
	inTx        bool
	held        bool        // by a repair: no batch has a position
	urged       atomic.Bool // somebody waits for a position
	tx          transaction
	txStart     int       // where in rows it began
	committed   bool      // rows ends with a commit, or is empty
	waited      int       // changes in rows when the last wait began; -1: none began
	owed        bool      // a piece without position was handed over
	end         lsn       // of the last commit, or what a keepalive let us skip
	serverEnd   lsn       // up to which the server has sent everything
	lastTold    time.Time // when a position was handed over last
	stamp       stamp
	kept        bool  // rows holds what a call read whose context ended
	broken      error // why the stream is of no more use

	streaming uint32 // the streamed transaction whose part is coming; 0: none
	spools    map[uint32]*spool
	replay    *replay
}

// transaction is the one whose changes are coming.
type transaction struct {
	xid  uint32
	time time.Time
	end  lsn
}

// tracked is a table whose changes we want.
type tracked struct {
	oid       uint32
	name      string // schema.table when it was found
	relation  *relation
	shape     *shape
	known     []attribute // the columns that were handed over last, where shape has others; nil: those of shape
	sync      *tableSync  // not nil: its changes wait until the table is read
	waits     bool        // for its sync: its changes are left out until then
	published bool        // for longer than any open transaction
	relabeled time.Time   // when the labels of its enums were read last
	described bool        // by the server, since the stream was opened
}

// stamp is the text of a position in the current batch, which all rows of one WAL record share.
type stamp struct {
	at       lsn
	xid      uint32
	origin   []byte
	position []byte
}

// read returns the next batch. When its context ends, what was read so far is kept for the next call. After any other
// error the stream is of no more use.
func (s *stream) read(ctx context.Context) (connectors.Batch, error) {
	if s.broken != nil {
		return connectors.Batch{}, s.broken
	}
	defer context.AfterFunc(ctx, s.wal.wake)()
	if !s.kept {
		s.rows, s.spare = s.spare, s.rows
		s.rows.reset()
		s.stamp = stamp{}
		s.txStart, s.committed, s.waited = 0, !s.inTx, -1
	}
	s.wal.heard = time.Now()
	b, err := s.next(ctx)
	if err == nil && len(s.rows.uncomputed) > 0 {
		err = s.compute(ctx)
	}
	s.kept = err != nil && err == ctx.Err()
	if err != nil && !s.kept {
		s.broken = err
	}
	return b, err
}

// next collects a batch.
func (s *stream) next(ctx context.Context) (connectors.Batch, error) {
	for {
		if err := ctx.Err(); err != nil {
			return connectors.Batch{}, err
		}
		if !s.inTx && len(s.rows.changes) == 0 || s.draining() {
			if batch, ok, err := s.syncMore(ctx); ok || err != nil {
				return batch, err
			}
		}
		ready, err := s.advance(ctx)
		if err != nil {
			return connectors.Batch{}, err
		}
		if ready {
			s.syncs.turn = true
			return s.take(), nil
		}
		if s.syncs.yielded {
			s.syncs.yielded = false
			continue
		}
		if s.until != 0 && !s.inTx && max(s.end, s.serverEnd) >= s.until && s.syncs.idle() {
			if s.ended {
				return connectors.Batch{}, io.EOF
			}
			s.end, s.ended = max(s.end, s.serverEnd), true
			return s.take(), nil
		}
		if batch, err := s.idle(); batch != nil || err != nil {
			if err != nil {
				return connectors.Batch{}, err
			}
			return *batch, nil
		}
	}
}

// advance handles everything that needs no waiting. It reports that the batch is to be handed over.
func (s *stream) advance(ctx context.Context) (bool, error) {
	if s.replay != nil {
		if ready, err := s.replayMore(ctx); ready || err != nil {
			return ready, err
		}
	}
	for {
		kind, body, ok, err := s.wal.next()
		if err != nil {
			return false, s.describe(body, err)
		}
		if !ok {
			return false, nil
		}
		ready := false
		switch kind {
		case 'd':
			ready, err = s.copyData(ctx, body)
		case 'E':
			err = slotFault(s.pos.Slot, parseError(body))
		case 'c':
			err = errors.New("read replication stream: the server ended it")
		}
		if ready && s.inTx && s.replay == nil && s.wal.commitFollows() {
			continue // the batch gets a position
		}
		if ready || err != nil {
			return ready, err
		}
		if s.replay != nil {
			return s.advance(ctx)
		}
	}
}

// describe names the table of a row that is too large.
func (s *stream) describe(body []byte, err error) error {
	if errors.Is(err, errMessageTooLarge) && len(body) >= 30 {
		for _, at := range []int{26, 30} { // after the kind, or after the kind and a transaction id
			if len(body) < at+4 {
				break
			}
			if t := s.tables[binary.BigEndian.Uint32(body[at:])]; t != nil {
				return tooLarge(t.shape.table, s.limits.RowBytes+1, s.limits.RowBytes)
			}
		}
	}
	return err
}

// idle waits for more, and returns a batch when what is there should not wait. Keepalives count for nothing here: a busy
// server with nothing for us sends them without end.
func (s *stream) idle() (*connectors.Batch, error) {
	n := len(s.rows.changes)
	pending := n > 0 && s.committed
	if pending && n == s.waited || n == 0 && !s.inTx && !s.held && s.serverEnd > s.end && (time.Since(s.lastTold) >= s.beat || s.urged.Swap(false)) {
		s.end = max(s.end, s.behind())
		batch := s.take()
		return &batch, nil
	}
	wait := maxWait
	switch {
	case s.wal.busy:
		wait = lookAnyway
	case pending:
		wait = linger
	}
	s.waited = n
	read, err := s.wal.fill(wait)
	if err == nil && read == 0 && time.Since(s.wal.heard) >= s.silence {
		err = fmt.Errorf("read replication stream: the server has said nothing for %s", s.silence)
	}
	return nil, err
}

// behind returns how far the stream is known to hold nothing for us.
func (s *stream) behind() lsn {
	if len(s.rows.changes) > 0 {
		return s.end
	}
	return s.serverEnd
}

// take hands over what is there. It has a position unless it ends inside a transaction.
func (s *stream) take() connectors.Batch {
	b := connectors.Batch{Changes: s.rows.changes}
	s.owed = s.inTx || s.held
	if !s.owed {
		s.pos.LSN, s.pos.Imprints, s.pos.Columns = s.end, s.imprints.encoded(), s.versions.packed()
		b.Position = s.pos.encode()
		s.lastTold = time.Now()
	}
	return b
}

// copyData handles XLogData and keepalives:
//
//	'w' start:8 end:8 clock:8 message
//	'k' end:8 clock:8 reply:1
func (s *stream) copyData(ctx context.Context, body []byte) (bool, error) {
	switch {
	case len(body) > 25 && body[0] == 'w':
		return s.message(ctx, body[25], body[26:], lsn(binary.BigEndian.Uint64(body[1:])))
	case len(body) == 18 && body[0] == 'k':
		if !s.inTx {
			s.serverEnd = max(s.serverEnd, lsn(binary.BigEndian.Uint64(body[1:])))
		}
		if body[17] != 0 {
			// A server that shuts down asks until all that it has sent is confirmed: a position is due at once.
			s.lastTold = time.Time{}
			return false, s.wal.status(false)
		}
		return false, nil
	}
	return false, errors.New("read replication stream: unknown copy data")
}

// message handles one message of pgoutput.
func (s *stream) message(ctx context.Context, kind byte, body []byte, at lsn) (bool, error) {
	c := cursor{b: body}
	switch kind {
	case msgBegin:
		end, clock, xid := lsn(c.u64()), c.u64(), c.u32()
		s.begin(transaction{xid: xid, time: pgTime(clock), end: end})
	case msgCommit:
		c.take(9)
		s.tx.end = lsn(c.u64())
		if c.bad {
			return false, malformed(kind)
		}
		return s.commit(), nil
	case msgStreamStart:
		return false, s.streamStart(&c)
	case msgStreamStop:
		s.streaming = 0
	case msgStreamAbort:
		return false, s.streamAbort(&c)
	case msgStreamCommit:
		return false, s.streamCommit(&c)
	case msgRelation, msgType, msgInsert, msgUpdate, msgDelete, msgTruncate, msgMessage:
		if s.streaming != 0 {
			return false, s.streamPart(kind, &c, at)
		}
		return s.change(ctx, kind, body, at)
	case msgOrigin:
	default:
		return false, fmt.Errorf("read replication stream: unknown message %q", kind)
	}
	if c.bad {
		return false, malformed(kind)
	}
	return false, nil
}

func (s *stream) begin(tx transaction) {
	s.inTx, s.tx, s.txStart, s.committed = true, tx, len(s.rows.changes), false
}

// commit ends a transaction. The batch is handed over when the next transaction, if it is like this one, would not fit:
// a batch that ends with a commit has a position.
func (s *stream) commit() bool {
	s.inTx, s.committed = false, true
	s.recent[s.handed%len(s.recent)] = s.tx.xid
	s.handed++
	s.end = s.tx.end
	s.serverEnd = max(s.serverEnd, s.end)
	n := len(s.rows.changes)
	return s.owed || n > 0 && (2*n-s.txStart > s.limits.BatchRows || 2*len(s.rows.arena) > s.limits.BatchBytes)
}

// change handles what a transaction does.
func (s *stream) change(ctx context.Context, kind byte, body []byte, at lsn) (bool, error) {
	switch kind {
	case msgRelation:
		return false, s.relation(ctx, body)
	case msgTruncate:
		return s.truncate(body, at)
	case msgMessage:
		return s.logicalMessage(body, at)
	case msgInsert, msgUpdate, msgDelete:
	default:
		return false, nil
	}
	if len(body) < 4 {
		return false, malformed(kind)
	}
	t := s.tables[binary.BigEndian.Uint32(body)]
	if t == nil || t.waits {
		return false, nil
	}
	if t.sync != nil && !t.sync.passes(s.tx) {
		return false, t.sync.keep(kind, body, at, s.tx)
	}
	return s.emit(ctx, kind, body, at, t)
}

// emit adds a row change to the batch.
func (s *stream) emit(ctx context.Context, kind byte, body []byte, at lsn, t *tracked) (bool, error) {
	if t.shape == nil {
		return false, fmt.Errorf("read replication stream: a change of table %s came before its description", t.relation.full())
	}
	size := len(s.rows.arena)
	change := readChange(kind, body[4:], s.rows, t.shape, s.tx.time)
	if change == nil {
		return false, malformed(kind)
	}
	if size = len(s.rows.arena) - size; size > s.limits.RowBytes {
		return false, tooLarge(t.shape.table, size, s.limits.RowBytes)
	}
	if s.rows.strange {
		s.rows.strange = false
		if err := s.relabel(ctx, t); err != nil {
			return false, err
		}
		change.Table = t.shape.table
	}
	change.Origin, change.Position = s.stampOf(at)
	return s.rows.full(s.limits), nil
}

// stampOf returns the texts of a place in the WAL.
func (s *stream) stampOf(at lsn) (origin, position []byte) {
	if s.stamp.at != at || s.stamp.xid != s.tx.xid || s.stamp.origin == nil {
		r := s.rows
		start := len(r.arena)
		r.arena = append(r.arena, `"txId":`...)
		r.arena = appendUint(r.arena, uint64(s.tx.xid))
		r.arena = append(r.arena, `,"lsn":`...)
		r.arena = appendUint(r.arena, uint64(at))
		r.arena = append(r.arena, `,"xmin":null`...)
		origin = r.since(start)
		start = len(r.arena)
		r.arena = at.append(r.arena)
		s.stamp = stamp{at: at, xid: s.tx.xid, origin: origin, position: r.since(start)}
	}
	return s.stamp.origin, s.stamp.position
}

// truncate adds one change for each table that we read.
func (s *stream) truncate(body []byte, at lsn) (bool, error) {
	c := cursor{b: body}
	n := c.u32()
	c.u8()
	for range n {
		oid := c.u32()
		if c.bad {
			return false, malformed(msgTruncate)
		}
		t := s.tables[oid]
		switch {
		case t == nil || t.shape == nil || t.waits:
		case t.sync != nil && !t.sync.passes(s.tx):
			if err := t.sync.keep(msgTruncate, binary.BigEndian.AppendUint32(nil, oid), at, s.tx); err != nil {
				return false, err
			}
		default:
			s.emitTruncate(t, at)
		}
	}
	return s.rows.full(s.limits), nil
}

func (s *stream) emitTruncate(t *tracked, at lsn) {
	change := s.rows.add(connectors.Truncate, t.shape.table, s.tx.time)
	change.Origin, change.Position = s.stampOf(at)
}

// relation handles a new description of a table.
func (s *stream) relation(ctx context.Context, body []byte) error {
	m, err := parseRelation(body)
	if err != nil {
		return err
	}
	t := s.tables[m.oid]
	if t == nil {
		return nil
	}
	if t.sync != nil && !s.draining() {
		if err := t.sync.keep(msgRelation, body, 0, s.tx); err != nil {
			return err
		}
	}
	return s.describeTable(ctx, t, m)
}
