package mysql

import (
	"time"

	"github.com/trunkline/trunkline/connectors"
)

// maxKeptArena bounds the memory that a buffer keeps for its next use. A batch with a huge row gives it back.
const maxKeptArena = 32 << 20

// rows is a batch in the making. The bytes of its values are in one arena that only grows: when it has to move, values
// that were made before go on pointing into the old one.
type rows struct {
	changes []connectors.Change
	values  []connectors.Value
	arena   []byte
}

// reset makes the buffer empty for its next use. Nothing that it held may be in use any more.
func (r *rows) reset() {
	clear(r.changes) // tables must not be kept alive
	r.changes = r.changes[:0]
	r.values = r.values[:0]
	r.arena = r.arena[:0]
	if cap(r.arena) > maxKeptArena {
		r.arena = nil
	}
}

// image returns a row of n absent values.
func (r *rows) image(n int) []connectors.Value {
	start := len(r.values)
	if cap(r.values)-start < n {
		r.values = make([]connectors.Value, 0, max(2*cap(r.values), 16*n, 1024))
		start = 0
	}
	r.values = r.values[:start+n]
	row := r.values[start : start+n : start+n]
	clear(row)
	return row
}

// keep copies bytes into the arena.
func (r *rows) keep(text []byte) []byte {
	start := len(r.arena)
	r.arena = append(r.arena, text...)
	return r.arena[start:len(r.arena):len(r.arena)]
}

// since returns what was appended to the arena after start.
func (r *rows) since(start int) []byte { return r.arena[start:len(r.arena):len(r.arena)] }

// add appends an empty change and returns it for filling. It is valid until the next add.
func (r *rows) add(op connectors.Op, table *connectors.Table, at time.Time) *connectors.Change {
	r.changes = append(r.changes, connectors.Change{Op: op, Table: table, Time: at})
	return &r.changes[len(r.changes)-1]
}

// full reports that the batch has reached one of its limits.
func (r *rows) full(l connectors.Limits) bool {
	return len(r.changes) >= l.BatchRows || len(r.arena) >= l.BatchBytes
}
