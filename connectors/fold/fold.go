// Package fold reduces a batch to what is left of it: for each key the last row, or that it is gone.
//
// It promises that to apply the result in any order is to apply the batch in its order: several changes of one key, a
// row that moves to another key, keys that are swapped, and a truncate in the middle. It knows nothing of a store; what
// a change does not carry and the batch does not say either stays absent, with the keys under which the store may have
// it. Sinks of stores that take rows by key call it.
package fold

import (
	"errors"
	"strconv"

	"github.com/trunkline/trunkline/connectors"
)

// The reasons why a change can't be applied by key.
var (
	ErrNoKey     = errors.New("a value of the key is NULL or missing")
	ErrNoOldRow  = errors.New("the table has no key, so an update or delete can't find its row; name the columns of a key with key: at the table of the source")
	ErrNoColumns = errors.New("the row does not have the columns of its table")
)

// Row is the end that a key comes to in a batch.
type Row struct {
	Table  *connectors.Table
	Key    string             // JSON array of the key's values; without a key, the stream and offset
	Keys   []connectors.Value // the key's values in key order; nil without a key
	Values []connectors.Value // parallel to Table.Columns; nil: the row is gone
	Offset int64              // of the last change that made it so
	Index  int                // of that change in the batch
	Gone   bool               // the source has the row no more, and Values is what it was; set by Keep and Mark

	// From holds the keys under which the store may have what is absent in Values, the first that is there is meant. None:
	// what is absent is NULL. It is set where Values has an absent one.
	From []Key

	// Was holds, for a row that is gone, what the batch knows of it before it went, and WasFrom is its From; nil: nothing.
	// Sinks that keep rows which are gone want it, so that what they keep does not depend on how batches are cut.
	Was     []connectors.Value
	WasFrom []Key
}

// gone makes the row one that is gone, and keeps what it was.
func (r *Row) gone(t *connectors.Table, keys []connectors.Value, offset int64, index int) {
	next := Row{Table: t, Key: r.Key, Keys: keys, Offset: offset, Index: index}
	switch {
	case r.Table == nil: // it is new to the batch
	case r.Values != nil:
		next.Was, next.WasFrom = merge(t, make([]connectors.Value, len(t.Columns)), r), r.From
	case r.Was != nil:
		old := *r
		old.Values = r.Was
		next.Was, next.WasFrom = merge(t, make([]connectors.Value, len(t.Columns)), &old), r.WasFrom
	}
	*r = next
}

// Key is a key of the row's table.
type Key struct {
	Text   string             // as Row.Key
	Values []connectors.Value // as Row.Keys
}

// Missing reports whether the store has to be asked for what the batch does not say.
func (r *Row) Missing() bool { return len(r.From) > 0 }

// Batch is the result. It is valid until the next call of Fold with the same memory.
type Batch struct {
	Truncated []*connectors.Table // their rows go before anything is stored
	Rows      []*Row              // each table and key once, in the order in which they first came

	refused []connectors.RowError
	index   map[place]*Row
	name    string            // of the table that came last
	of      *connectors.Table // whose name that is
	store   []Row             // what Rows points to; a chunk that is full is left to its rows
	keys    []connectors.Value
}

// chunks are how many rows and values of keys are made at once, at least.
const chunks = 256

// fresh returns a row that is empty.
func (b *Batch) fresh() *Row {
	if len(b.store) == cap(b.store) {
		b.store = make([]Row, 0, max(chunks, 2*cap(b.store)))
	}
	b.store = b.store[:len(b.store)+1]
	return &b.store[len(b.store)-1]
}

// values returns room for the n values of a key.
func (b *Batch) values(n int) []connectors.Value {
	if cap(b.keys)-len(b.keys) < n {
		b.keys = make([]connectors.Value, 0, max(chunks, n, 2*cap(b.keys)))
	}
	start := len(b.keys)
	b.keys = b.keys[:start+n]
	return b.keys[start : start : start+n]
}

// reset makes the memory of the last result free.
func (b *Batch) reset() {
	clear(b.store)
	clear(b.keys)
	b.Truncated, b.Rows, b.refused, b.store, b.keys, b.of = b.Truncated[:0], b.Rows[:0], nil, b.store[:0], b.keys[:0], nil
	clear(b.index)
}

// fullName returns the name of a table, which most changes of a batch share.
func (b *Batch) fullName(t *connectors.Table) string {
	if b.of != t {
		b.of, b.name = t, t.FullName()
	}
	return b.name
}

type place struct{ table, key string }

// Refused returns the changes that have no place in the result, as an error for the pipeline; nil if there are none.
func (b *Batch) Refused() error {
	if len(b.refused) == 0 {
		return nil
	}
	return &connectors.RowsError{Rows: b.refused}
}

// Fold reduces the changes of a batch. into is memory that an earlier call returned, or nil.
func Fold(changes []connectors.Change, stream string, into *Batch) *Batch {
	b := into
	if b == nil {
		b = &Batch{index: map[place]*Row{}}
	}
	b.reset()
	for i := range changes {
		c := &changes[i]
		var err error
		switch c.Op {
		case connectors.Message:
		case connectors.Truncate:
			b.truncate(c.Table)
		case connectors.Delete:
			err = b.remove(c, i)
		default:
			err = b.put(c, i, stream)
		}
		if err != nil {
			b.refused = append(b.refused, connectors.RowError{Index: i, Err: err})
		}
	}
	return b
}

// truncate forgets the rows of a table.
func (b *Batch) truncate(t *connectors.Table) {
	name := t.FullName()
	kept := b.Rows[:0]
	for _, r := range b.Rows {
		if r.Table.FullName() != name {
			kept = append(kept, r)
			continue
		}
		delete(b.index, place{name, r.Key})
	}
	b.Rows = kept
	if !b.truncated(name) {
		b.Truncated = append(b.Truncated, t)
	}
}

func (b *Batch) truncated(name string) bool {
	for _, t := range b.Truncated {
		if t.FullName() == name {
			return true
		}
	}
	return false
}

// row returns the row of a key. One that is new to the batch has no values and is said to be so.
func (b *Batch) row(t *connectors.Table, key string) (r *Row, fresh bool) {
	at := place{b.fullName(t), key}
	if r := b.index[at]; r != nil {
		return r, false
	}
	r = b.fresh()
	r.Key = key
	b.index[at] = r
	b.Rows = append(b.Rows, r)
	return r, true
}

func (b *Batch) remove(c *connectors.Change, i int) error {
	keys, key, err := b.keyOf(c.Table, c.Before)
	if err != nil {
		return err
	}
	r, _ := b.row(c.Table, key)
	r.gone(c.Table, keys, c.Offset, i)
	return nil
}

func (b *Batch) put(c *connectors.Change, i int, stream string) error {
	t := c.Table
	if len(c.After) != len(t.Columns) {
		return ErrNoColumns
	}
	if len(t.Key) == 0 {
		if c.Op == connectors.Update {
			return ErrNoOldRow
		}
		r, _ := b.row(t, stream+"/"+strconv.FormatInt(c.Offset, 10))
		*r = Row{Table: t, Key: r.Key, Values: c.After, Offset: c.Offset, Index: i}
		return nil
	}
	keys, key, err := b.keyOf(t, c.After)
	if err != nil {
		return err
	}
	next := Row{Table: t, Key: key, Keys: keys, Values: c.After, Offset: c.Offset, Index: i}
	lacks := absent(c.After)
	if lacks {
		b.inherit(&next, t, Key{key, keys})
	}
	if c.Op == connectors.Update && c.Before != nil {
		if oldKeys, old, err := b.keyOf(t, c.Before); err == nil && old != key {
			if lacks {
				next.Values, next.From = c.After, nil
				b.inherit(&next, t, Key{old, oldKeys}, Key{key, keys})
			}
			left, _ := b.row(t, old)
			left.gone(t, oldKeys, c.Offset, i)
		}
	}
	r, _ := b.row(t, key)
	*r = next
	return nil
}

// inherit completes a row with what the batch knows under the first of the keys, and else leaves them to the store.
func (b *Batch) inherit(next *Row, t *connectors.Table, from ...Key) {
	for _, key := range from {
		old := b.index[place{b.fullName(t), key.Text}]
		switch {
		case old == nil && b.truncated(t.FullName()):
		case old == nil:
			next.From = append(next.From, key)
			continue
		case old.Values == nil:
		default:
			next.Values = merge(t, next.Values, old)
			if absent(next.Values) {
				next.From = append(next.From, old.From...)
			}
		}
		break
	}
}

// merge returns the row with what it lacks taken from the old one, whose table may be another version.
func merge(t *connectors.Table, row []connectors.Value, old *Row) []connectors.Value {
	out := make([]connectors.Value, len(row))
	for i, v := range row {
		out[i] = v
		if !v.IsAbsent() {
			continue
		}
		at := i
		if old.Table != t {
			at = old.Table.Column(t.Columns[i].Name)
		}
		if at >= 0 {
			out[i] = old.Values[at]
		}
	}
	return out
}

func absent(row []connectors.Value) bool {
	for i := range row {
		if row[i].IsAbsent() {
			return true
		}
	}
	return false
}

// keyOf returns the values of the key and their JSON.
func (b *Batch) keyOf(t *connectors.Table, row []connectors.Value) ([]connectors.Value, string, error) {
	if len(t.Key) == 0 {
		return nil, "", ErrNoOldRow
	}
	keys := b.values(len(t.Key))
	text := make([]byte, 0, 64)
	for i, k := range t.Key {
		if k >= len(row) || row[k].IsNull() || row[k].IsAbsent() {
			return nil, "", ErrNoKey
		}
		keys = append(keys, row[k])
		text = append(text, "[,"[min(i, 1)])
		text = connectors.AppendJSON(text, row[k])
	}
	return keys, string(append(text, ']')), nil
}
