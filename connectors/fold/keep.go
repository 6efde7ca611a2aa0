package fold

import (
	"errors"
	"slices"

	"github.com/trunkline/trunkline/connectors"
)

// Keep makes rows that are gone rows that stay, with Gone set, for stores that mark them (deletes: soft). A row stays with
// what the batch knows of it, and else with what the store has under its key.
func (b *Batch) Keep() {
	for _, r := range b.Rows {
		if r.Values != nil {
			continue
		}
		r.Gone = true
		if r.Was != nil {
			r.Values, r.From = r.Was, r.WasFrom
			continue
		}
		r.Values = make([]connectors.Value, len(r.Table.Columns))
		for i, k := range r.Table.Key {
			r.Values[k] = r.Keys[i]
		}
		if absent(r.Values) {
			r.From = []Key{{r.Key, r.Keys}}
		}
	}
}

// Cut returns how many of the changes come before the next truncate behind the first change, all of them if none does. A
// store that keeps rows which are gone takes what is before a truncate first, so that the truncate finds it.
func Cut(changes []connectors.Change) int {
	for i := 1; i < len(changes); i++ {
		if changes[i].Op == connectors.Truncate {
			return i
		}
	}
	return len(changes)
}

// Parts writes a batch in the parts that Cut makes, up to the first error. Rows that it names are those of the batch.
func Parts(b connectors.Batch, write func(connectors.Batch) error) error {
	for start := 0; start < len(b.Changes); {
		part := b
		part.Changes = b.Changes[start : start+Cut(b.Changes[start:])]
		err := write(part)
		var rows *connectors.RowsError
		if errors.As(err, &rows) {
			for i := range rows.Rows {
				rows.Rows[i].Index += start
			}
		}
		if err != nil {
			return err
		}
		start += len(part.Changes)
	}
	return nil
}

// UnchangedColumn is a column beside those of the source in a store that appends. It names, in a JSON array, the columns
// that a change did not carry and that the log could not complete; it is NULL where there are none.
const UnchangedColumn = "_unchanged"

// Images makes a row of its own of each change (write: append), for stores that know a row without a key by its stream and
// offset: a replay finds the same rows. The zero Images is empty; it is used by one goroutine.
type Images struct {
	made map[*connectors.Table]*connectors.Table
}

// Table returns the table without its key and with UnchangedColumn, the same one for the same one.
func (m *Images) Table(t *connectors.Table) *connectors.Table {
	if t == nil {
		return nil
	}
	if out := m.made[t]; out != nil {
		return out
	}
	out := *t
	out.Key = nil
	out.Columns = append(slices.Clone(t.Columns), connectors.Column{Name: UnchangedColumn, Type: "text[]", Kind: connectors.Array, Elem: connectors.Text})
	if m.made == nil || len(m.made) >= maxImages {
		m.made = map[*connectors.Table]*connectors.Table{}
	}
	m.made[t] = &out
	return &out
}

// maxImages bounds the versions of tables that are remembered.
const maxImages = 10_000

// Of returns the changes as inserts, each in its place: the row after an insert or update; with deleted the row before a
// delete too. What makes no row is a Message.
func (m *Images) Of(changes []connectors.Change, deleted bool) []connectors.Change {
	out := make([]connectors.Change, len(changes))
	for i := range changes {
		c, row := &changes[i], changes[i].After
		out[i] = connectors.Change{Op: connectors.Message, Offset: c.Offset}
		switch c.Op {
		case connectors.Message, connectors.Truncate:
			continue
		case connectors.Delete:
			if row = c.Before; !deleted {
				continue
			}
		}
		out[i] = *c
		out[i].Op, out[i].Table, out[i].Before, out[i].After = connectors.Insert, m.Table(c.Table), nil, nil
		if len(row) == len(c.Table.Columns) {
			out[i].After = append(row[:len(row):len(row)], unchanged(c.Table, row))
		}
	}
	return out
}

// unchanged names what a row lacks.
func unchanged(t *connectors.Table, row []connectors.Value) connectors.Value {
	if !absent(row) {
		return connectors.NullValue()
	}
	var names []byte
	for i := range row {
		if row[i].IsAbsent() {
			names = append(names, "[,"[min(len(names), 1)])
			names = connectors.AppendJSONString(names, []byte(t.Columns[i].Name))
		}
	}
	return connectors.DataValue(connectors.Array, append(names, ']'))
}

// Mark sets Gone in the rows that changes make of deletes, after Fold of what Of returned for them.
func (b *Batch) Mark(changes []connectors.Change) {
	for _, r := range b.Rows {
		r.Gone = changes[r.Index].Op == connectors.Delete
	}
}
