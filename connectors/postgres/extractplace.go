package postgres

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/trunkline/trunkline/connectors"
)

// extractMark is what a mark of mode timestamp says. As JSON it is a connectors.Position:
//
//	{"extract":{"system":"7…","tables":{"16384":{"name":"public.t","cursor":"updated_at","steps":[{"xid":771}]}}}}
type extractMark struct {
	System   string                `json:"system"`
	Timeline int64                 `json:"timeline,omitempty"` // of the server's WAL; a failover begins another one
	Tables   map[uint32]*tableMark `json:"tables"`             // by oid

	// Batch counts the batches with changes, so that no two of them have one position: batches of deletes move nothing
	// else, and the acknowledgement of one must not be taken for that of the next.
	Batch uint64 `json:"batch,omitempty"`
}

// tableMark says which rows of a table were handed over.
type tableMark struct {
	Name   string `json:"name"`
	Cursor string `json:"cursor"`          // the column; another one starts the table anew
	First  bool   `json:"first,omitempty"` // the first extract is not finished
	At     place  `json:"at,omitempty"`    // the last row that was handed over by a pass that is not finished
	High   string `json:"high,omitempty"`  // the highest cursor so far, where it is the key and an integer
	Nulls  bool   `json:"nulls,omitempty"` // rows without a cursor were handed over like the others

	// Where a pass that looks at a part of the table begins; none: at its start. Floors are the candidates to come.
	Floor  *string `json:"floor,omitempty"`
	Floors []floor `json:"floors,omitempty"`
	Clock  int64   `json:"clock,omitempty"` // of the server at the last complete pass, in microseconds since 1970

	// With deletes: detect, the set of keys that are known, and the server's clock when it was compared last.
	Keys   string `json:"keys,omitempty"`
	Looked int64  `json:"looked,omitempty"`

	// Steps divide the places of rows, ascending. A version of a row was handed over if the step that its place is in
	// says so of the transaction that wrote it. The last step has no end. None: nothing was handed over.
	Steps []step `json:"steps,omitempty"`
}

// step is what was handed over of the rows up to a place.
type step struct {
	To   place  `json:"to,omitempty"` // the last place that belongs to it; none: all that are left
	XID  uint64 `json:"xid"`          // what older transactions wrote was handed over
	Seen xids   `json:"seen,omitzero"`
}

// place is where a row stands in the order of an extract: its cursor and what tells apart rows of one cursor value, in
// the database's own text. A row without a cursor comes before all others.
type place []*string

// maxSteps bounds the steps of one table. There is more than one only after a pass was interrupted.
const maxSteps = 16

// capSteps merges the first steps when there are too many. What is not certain any more is handed over once more.
func capSteps(steps []step) []step {
	for len(steps) > maxSteps {
		steps[1].XID = min(steps[0].XID, steps[1].XID)
		steps[1].Seen = xids{}
		steps = steps[1:]
	}
	return steps
}

// failoverMargin is how many transactions a standby may have been behind when it took over. Their numbers are given out
// once more, so what they wrote has to be read whatever the mark says.
const failoverMargin = 1 << 20

// failedOver makes room in every mark for numbers that another timeline gives out again.
func (m *extractMark) failedOver(timeline int64) {
	m.Timeline = timeline
	for _, t := range m.Tables {
		for i := range t.Steps {
			s := &t.Steps[i]
			s.XID, s.Seen = s.XID-min(s.XID, failoverMargin), xids{}
		}
		t.Floor, t.Floors = nil, nil
	}
}

// newest returns the highest bound of all tables.
func (m *extractMark) newest() uint64 {
	out := uint64(0)
	for _, t := range m.Tables {
		for _, s := range t.Steps {
			out = max(out, s.XID)
		}
	}
	return out
}

// oldest returns the transaction below which every row was handed over.
func (m *tableMark) oldest() uint64 {
	if len(m.Steps) == 0 {
		return 0
	}
	out := m.Steps[0].XID
	for _, s := range m.Steps {
		out = min(out, s.XID)
	}
	return out
}

func (m *extractMark) encode() (connectors.Position, error) {
	text, err := json.Marshal(map[string]*extractMark{"extract": m})
	if err != nil {
		return nil, fmt.Errorf("write position: %w", err)
	}
	return text, nil
}

// parseExtractMark returns nil when the position is one of mode cdc.
func parseExtractMark(text connectors.Position) (*extractMark, error) {
	var p struct {
		Extract *extractMark `json:"extract"`
		Slot    string       `json:"slot"`
		System  string       `json:"system"`
	}
	if err := json.Unmarshal(text, &p); err != nil {
		return nil, fmt.Errorf("read saved position: %w", err)
	}
	if p.Extract == nil {
		if p.System == "" { // a snapshot alone has no slot
			return nil, errors.New("read saved position: it is none of a PostgreSQL source")
		}
		return nil, nil
	}
	if p.Extract.Tables == nil {
		p.Extract.Tables = map[uint32]*tableMark{}
	}
	for oid, m := range p.Extract.Tables {
		if m == nil {
			return nil, fmt.Errorf("read saved position: table %d has no mark", oid)
		}
	}
	return p.Extract, nil
}

// xids is a small set of transactions. As text it is base64 of the differences between its ascending members, as
// unsigned varints.
type xids struct{ set map[uint64]struct{} }

// maxSeen bounds the set: so many transactions that were not older than all open ones can be handed over at once. What
// others wrote waits for the next run.
const maxSeen = 4096

func (x xids) has(xid uint64) bool {
	_, ok := x.set[xid]
	return ok
}

// add reports whether there was room.
func (x *xids) add(xid uint64) bool {
	if x.has(xid) {
		return true
	}
	if len(x.set) >= maxSeen {
		return false
	}
	if x.set == nil {
		x.set = map[uint64]struct{}{}
	}
	x.set[xid] = struct{}{}
	return true
}

// from returns a copy without what is older.
func (x xids) from(xid uint64) xids {
	var out xids
	for member := range x.set {
		if member >= xid {
			out.add(member)
		}
	}
	return out
}

// IsZero reports an empty set.
func (x xids) IsZero() bool { return len(x.set) == 0 }

// MarshalText and UnmarshalText are the text form.
func (x xids) MarshalText() ([]byte, error) {
	var out []byte
	last := uint64(0)
	for _, xid := range slices.Sorted(maps.Keys(x.set)) {
		out = binary.AppendUvarint(out, xid-last)
		last = xid
	}
	return base64.StdEncoding.AppendEncode(nil, out), nil
}

var errXids = errors.New("read saved position: not a set of transactions")

// UnmarshalText is the inverse of MarshalText.
func (x *xids) UnmarshalText(text []byte) error {
	data, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil {
		return errXids
	}
	*x = xids{}
	last := uint64(0)
	for len(data) > 0 {
		difference, n := binary.Uvarint(data)
		if n <= 0 {
			return errXids
		}
		last += difference
		data = data[n:]
		if !x.add(last) {
			return errXids
		}
	}
	return nil
}
