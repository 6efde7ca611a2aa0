package codec

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

var errAvro = errors.New("the Avro message ends early or is not of its schema")

// avroReader reads a message from its start. The first fault stays, and everything after it is zero.
type avroReader struct {
	b   []byte
	bad bool
}

func (r *avroReader) long() int64 {
	n, size := binary.Varint(r.b)
	if size <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[size:]
	return n
}

func (r *avroReader) bytes() []byte {
	n := r.long()
	if n < 0 || n > int64(len(r.b)) {
		r.bad, r.b = true, nil
		return nil
	}
	out := r.b[:n:n]
	r.b = r.b[n:]
	return out
}

// branch reads the number of a branch of a union of null and something: true for something.
func (r *avroReader) branch() bool {
	n := r.long()
	r.bad = r.bad || n < 0 || n > 1
	return n == 1
}

func (r *avroReader) fixed(n int) []byte {
	if len(r.b) < n {
		r.bad, r.b = true, nil
		return make([]byte, n)
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

// blocks calls f for each item of an array or a map. The encoder writes one block without a size.
func (r *avroReader) blocks(f func()) {
	for {
		n := r.long()
		if r.bad || n == 0 {
			return
		}
		if n < 0 || n > int64(len(r.b)) {
			r.bad = true
			return
		}
		for range n {
			if f(); r.bad {
				return
			}
		}
	}
}

// decodeAvro reads a change.
func (p *decodePlan) decodeAvro(value []byte, c *connectors.Change, arena *Arena) error {
	b, err := cutWire(value)
	if err != nil {
		return err
	}
	if p.avro == nil {
		p.avro = newAvro(Origin{}, p.table)
	}
	r := &avroReader{b: b}
	c.Before = p.avro.row(r, arena)
	c.After = p.avro.row(r, arena)
	for range 3 {
		r.bytes()
	}
	if ms := r.long(); ms != 0 {
		c.Time = time.UnixMilli(ms).UTC()
	}
	for range 4 {
		r.bytes()
	}
	if origin := r.bytes(); len(origin) > 0 {
		c.Origin = origin
	}
	if op := r.bytes(); len(op) == 1 {
		c.Op = connectors.OpOf(op[0])
	}
	for range 3 {
		r.long()
	}
	return p.avro.finish(r, c, arena)
}

// finish reads what a change holds beside its rows.
func (a *Avro) finish(r *avroReader, c *connectors.Change, arena *Arena) error {
	x := rest{columns: a.columns, c: c}
	if r.branch() {
		r.blocks(func() { x.unchanged(r.bytes()) })
	}
	if r.branch() {
		x.partial()
		r.blocks(func() { x.carried(r.bytes()) })
		x.settle()
	}
	if r.branch() {
		r.blocks(func() {
			name := r.bytes()
			x.text(a.table, string(name), r.bytes(), arena)
		})
	}
	if r.bad || len(r.b) > 0 || x.bad {
		return errAvro
	}
	return checkShape(c)
}

func (a *Avro) row(r *avroReader, arena *Arena) []connectors.Value {
	if !r.branch() || r.bad {
		return nil
	}
	row := arena.row(len(a.names))
	for i := range row {
		if !r.branch() {
			row[i] = connectors.NullValue()
			continue
		}
		switch kind := a.table.Columns[i].Kind; kind {
		case connectors.Bool:
			row[i] = connectors.BoolValue(r.fixed(1)[0] != 0)
		case connectors.Int:
			row[i] = connectors.IntValue(r.long())
		case connectors.Uint:
			row[i] = connectors.UintValue(uint64(r.long()))
		case connectors.Float:
			row[i] = valueOfFloat(math.Float64frombits(binary.LittleEndian.Uint64(r.fixed(8))), arena)
		default:
			row[i] = connectors.DataValue(kind, r.bytes())
		}
		if r.bad {
			return row
		}
	}
	return row
}

// rest puts right what the fields of a change could not hold.
type rest struct {
	columns map[string]int
	c       *connectors.Change
	kept    []bool
	bad     bool
}

func (x *rest) column(name []byte, row []connectors.Value) int {
	i, ok := x.columns[string(name)]
	if !ok || i >= len(row) {
		x.bad = true
		return -1
	}
	return i
}

func (x *rest) unchanged(name []byte) {
	if i := x.column(name, x.c.After); i >= 0 {
		x.c.After[i] = connectors.Value{}
	}
}

func (x *rest) partial() { x.kept = make([]bool, len(x.c.Before)) }

func (x *rest) carried(name []byte) {
	if i := x.column(name, x.c.Before); i >= 0 {
		x.kept[i] = true
	}
}

func (x *rest) settle() {
	for i := range x.kept {
		if !x.kept[i] {
			x.c.Before[i] = connectors.Value{}
		}
	}
}

// text takes the JSON of a value in place of what its field held.
func (x *rest) text(t *connectors.Table, name string, token []byte, arena *Arena) {
	row := x.c.After
	name, after := strings.CutPrefix(name, "after.")
	if !after {
		var before bool
		if name, before = strings.CutPrefix(name, "before."); !before {
			x.bad = true
			return
		}
		row = x.c.Before
	}
	i := x.column([]byte(name), row)
	if i < 0 {
		return
	}
	whole, behind, err := connectors.ScanJSON(token)
	if err != nil || len(behind) > 0 {
		x.bad = true
		return
	}
	arena.room(len(whole))
	if row[i], arena.bytes, err = connectors.ParseJSON(t.Columns[i].Kind, whole, arena.bytes); err != nil {
		x.bad = true
	}
}
