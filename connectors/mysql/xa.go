package mysql

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/trunkline/trunkline/connectors"
)

// maxPrepared bounds the bytes of transactions that were prepared and have neither been committed nor rolled back.
const maxPrepared = 256 << 20

// preparedTx is a transaction of XA that may still be rolled back: its events are kept until it is decided.
type preparedTx struct {
	xid    string
	events []byte // one behind the other
	at     place  // where it begins
	gtids  string // of what came before it
}

// collect keeps the events of an XA transaction. It reports that the event was kept.
func (s *stream) collect(e *event, raw []byte) bool {
	if e.typ != eventTableMap && rowOp(e.typ) == 0 && e.typ != eventPartialUpdate {
		return false
	}
	at := len(s.collecting.events)
	s.collecting.events = append(s.collecting.events, raw...)
	binary.LittleEndian.PutUint32(s.collecting.events[at+9:], uint32(len(raw))) // without the checksum
	return true
}

// xaQuery handles XA START, END, COMMIT and ROLLBACK.
func (s *stream) xaQuery(q *queryEvent, end place) (bool, error) {
	fields := strings.Fields(q.text)
	if len(fields) < 3 {
		return false, nil
	}
	xid := strings.Join(fields[2:], "")
	if s.tx.xid != "" {
		xid = strings.ToUpper(s.tx.xid)
	}
	switch strings.ToUpper(fields[1]) {
	case "START", "BEGIN":
		if !s.inTx {
			s.begin(transaction{thread: q.thread}, end)
		}
		s.collectXA(xid)
	case "COMMIT":
		if !s.inTx {
			s.begin(transaction{thread: q.thread}, end)
		}
		xid = strings.TrimSuffix(strings.ToUpper(xid), "ONEPHASE")
		if s.collecting != nil && s.collecting.xid == xid { // in one phase
			s.prepared[xid], s.collecting = s.collecting, nil
		}
		return s.xaCommit(xid, end), nil
	case "ROLLBACK":
		delete(s.prepared, strings.ToUpper(xid))
		s.collecting = nil
		return s.commit(end), nil
	}
	return false, nil
}

// xaPrepare ends the first phase: one_phase:1 and the identifier.
func (s *stream) xaPrepare(e *event, end place) error {
	t := s.collecting
	s.collecting = nil
	if t == nil {
		return nil
	}
	if len(e.body) > 0 && e.body[0] != 0 { // in one phase
		s.prepared[t.xid] = t
		s.xaCommit(t.xid, end)
		return nil
	}
	size := len(t.events)
	for _, p := range s.prepared {
		size += len(p.events)
	}
	if size > maxPrepared {
		return fmt.Errorf("read binary log: prepared XA transactions hold %d bytes; the limit is %d: %w", size, maxPrepared, connectors.ErrFatal)
	}
	s.prepared[t.xid] = t
	s.commit(end)
	return nil
}

// xaCommit lets the events of a prepared transaction count: they come before the event at hand ends.
func (s *stream) xaCommit(xid string, end place) bool {
	t := s.prepared[xid]
	delete(s.prepared, xid)
	if t == nil || len(t.events) == 0 {
		return s.commit(end)
	}
	s.inner = append(bytes.Clone(t.events), commitEvent...)
	return false
}

// commitEvent is an XID event, which ends what xaCommit replays.
var commitEvent = []byte{0, 0, 0, 0, eventXID, 0, 0, 0, 0, eventHeader, 0, 0, 0, 0, 0, 0, 0, 0, 0}

// collectXA begins to keep the events of a transaction.
func (s *stream) collectXA(xid string) {
	s.collecting = &preparedTx{xid: strings.ToUpper(xid), at: s.at}
	if s.gtids != nil {
		s.collecting.gtids = s.gtids.String()
	}
}

// redo is where a source that is opened again has to begin, so that it sees the oldest transaction that is prepared. What
// it reads from there to its position has been handed over.
type redo struct {
	place
	GTID string `json:"gtid,omitempty"`
}

func (s *stream) redo() *redo {
	var oldest *redo
	for _, t := range s.prepared {
		if oldest == nil || t.at.before(oldest.place) {
			oldest = &redo{t.at, t.gtids}
		}
	}
	return oldest
}

// again handles an event that was handled before the source was opened: only what is prepared is kept.
func (s *stream) again(e *event) error {
	switch e.typ {
	case eventMariaGTID:
		b, err := parseMariaGTID(e)
		if err != nil {
			return err
		}
		switch {
		case b.prepares:
			s.collectXA(b.xid)
		case b.completes:
			delete(s.prepared, strings.ToUpper(b.xid))
		}
	case eventQuery, eventMariaQuery:
		q, err := parseQuery(e.body, e.typ == eventMariaQuery)
		if err != nil {
			return err
		}
		fields := strings.Fields(strings.ToUpper(q.text))
		if len(fields) < 3 || fields[0] != "XA" {
			return nil
		}
		switch xid := strings.Join(fields[2:], ""); fields[1] {
		case "START":
			if s.collecting == nil {
				s.collectXA(xid)
			}
		case "COMMIT", "ROLLBACK":
			delete(s.prepared, xid)
		}
	case eventXAPrepare:
		if t := s.collecting; t != nil && (len(e.body) == 0 || e.body[0] == 0) {
			s.prepared[t.xid] = t
		}
		s.collecting = nil
	}
	return nil
}
