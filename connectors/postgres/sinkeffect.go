package postgres

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"slices"

	"github.com/trunkline/trunkline/connectors"
)

// effect is what a run of changes of one table comes to. A key that changes several times ends in one row, because a
// statement may touch a row only once and because only the end counts. A column that an update does not carry keeps
// the value that an earlier change of the run gave it, and is left alone in the target where there was none.
//
// An effect is reused from batch to batch. Its rows point into the batch.
type effect struct {
	route    *route
	truncate bool
	rows     []effectRow
	keys     []byte  // the keys of rows, one behind the other
	slots    []int32 // a hash table over keys: index in rows plus one
	merged   []connectors.Value
	seed     maphash.Seed
}

// effectRow is the end of one key.
type effectRow struct {
	hash     uint64
	from, to int                // its key in effect.keys
	row      []connectors.Value // nil: the row is gone
	image    []connectors.Value // kind remove: an image that holds the key
	kind     effectKind
	deleted  bool // deletes: soft, and the row is gone in the source
}

type effectKind uint8

const (
	fresh  effectKind = iota + 1 // an insert of a key that had no earlier change in the run
	update                       // the target likely has the key; absent columns keep their values
	remove                       // the row goes
)

func (n *effect) reset(r *route) {
	n.route, n.truncate = r, false
	n.clear()
	if n.seed == (maphash.Seed{}) {
		n.seed = maphash.MakeSeed()
	}
}

func (n *effect) clear() {
	n.rows = n.rows[:0]
	n.keys = n.keys[:0]
	n.merged = n.merged[:0]
	clear(n.slots)
}

// empty reports that there is nothing to do.
func (n *effect) empty() bool { return !n.truncate && len(n.rows) == 0 }

// add takes in one change. soft says that a delete marks the row instead of removing it.
func (n *effect) add(c *connectors.Change, soft bool) {
	if c.Op == connectors.Truncate {
		n.clear()
		n.truncate = true
		return
	}
	image := c.After
	if c.Op == connectors.Delete {
		image = c.Before
	}
	r, known := n.find(image)
	switch {
	case c.Op == connectors.Delete:
		n.remove(r, known, soft)
		r.image = image
	case !known:
		r.row, r.kind = image, update
		if c.Op != connectors.Update {
			r.kind = fresh
		}
	case r.row == nil || r.deleted:
		// Deleted and written again: nothing of the old row may come back, so what is absent is NULL.
		r.row, r.kind, r.deleted = n.merge(nil, image), update, false
	default:
		r.row = n.merge(r.row, image)
	}
}

func (n *effect) remove(r *effectRow, known, soft bool) {
	if soft && known && r.row != nil {
		r.deleted = true
		return
	}
	r.row, r.kind = nil, remove
}

// merge lays a row over an earlier one. Without an earlier one what is absent becomes NULL. The result may stand in the
// effect's own room, which the next flush takes back.
func (n *effect) merge(under, over []connectors.Value) []connectors.Value {
	if !slices.ContainsFunc(over, connectors.Value.IsAbsent) {
		return over
	}
	start := len(n.merged)
	n.merged = append(n.merged, over...)
	row := n.merged[start:len(n.merged):len(n.merged)]
	for i, v := range row {
		switch {
		case !v.IsAbsent():
		case under == nil:
			row[i] = connectors.NullValue()
		default:
			row[i] = under[i]
		}
	}
	return row
}

// find returns the row of image's key, and whether an earlier change of the run had it.
func (n *effect) find(image []connectors.Value) (r *effectRow, known bool) {
	if 2*(len(n.rows)+1) > len(n.slots) {
		n.grow()
	}
	from := len(n.keys)
	for _, k := range n.route.key {
		n.keys = appendKey(n.keys, image[k])
	}
	key := n.keys[from:]
	hash := maphash.Bytes(n.seed, key)
	mask := uint64(len(n.slots) - 1)
	at := hash & mask
	for ; n.slots[at] != 0; at = (at + 1) & mask {
		r := &n.rows[n.slots[at]-1]
		if r.hash == hash && bytes.Equal(n.keys[r.from:r.to], key) {
			n.keys = n.keys[:from]
			return r, true
		}
	}
	n.rows = append(n.rows, effectRow{hash: hash, from: from, to: len(n.keys)})
	n.slots[at] = int32(len(n.rows))
	return &n.rows[len(n.rows)-1], false
}

// grow makes room in the hash table, which is at most half full.
func (n *effect) grow() {
	size := max(64, 2*len(n.slots))
	n.slots = make([]int32, size)
	mask := uint64(size - 1)
	for i := range n.rows {
		at := n.rows[i].hash & mask
		for n.slots[at] != 0 {
			at = (at + 1) & mask
		}
		n.slots[at] = int32(i + 1)
	}
}

// appendKey appends a key value in a form that no two values share: NULL, or length and text.
func appendKey(dst []byte, v connectors.Value) []byte {
	if v.IsNull() || v.IsAbsent() {
		return append(dst, 0)
	}
	dst = append(dst, 1, 0, 0, 0, 0)
	start := len(dst)
	dst = v.AppendText(dst)
	binary.LittleEndian.PutUint32(dst[start-4:], uint32(len(dst)-start))
	return dst
}
