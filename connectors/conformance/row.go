package conformance

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

// Row is a row as text by column name: the canonical form of each value. A NULL is not in it.
type Row map[string]string

// Entry is one change in a store that only appends.
type Entry struct {
	Op        connectors.Op
	Offset    int64
	Before    Row      // nil: none
	After     Row      // nil: none
	Unchanged []string // columns that the change does not carry
}

// fold applies entries in order and returns the rows that are there at the end, in no order.
func fold(t *testing.T, table *connectors.Table, log []Entry) []Row {
	t.Helper()
	keyed, others := map[string]Row{}, []Row(nil)
	key := func(r Row) (string, bool) {
		var name string
		for _, k := range table.Key {
			v := r[table.Columns[k].Name]
			name += strconv.Itoa(len(v)) + ":" + v
		}
		return name, len(table.Key) > 0 && r != nil
	}
	for _, e := range log {
		before, hadKey := key(e.Before)
		switch e.Op {
		case connectors.Truncate:
			keyed, others = map[string]Row{}, nil
		case connectors.Delete:
			if hadKey {
				delete(keyed, before)
			}
		default:
			next := maps.Clone(e.After)
			after, hasKey := key(e.After)
			if !hasKey {
				others = append(others, next)
				continue
			}
			old := keyed[after]
			if moved, ok := keyed[before]; ok && hadKey {
				old = moved
				delete(keyed, before)
			}
			for _, name := range e.Unchanged {
				if v, ok := old[name]; ok {
					next[name] = v
				}
			}
			keyed[after] = next
		}
	}
	return slices.AppendSeq(others, maps.Values(keyed))
}

// text makes a value of kind Text.
func text(s string) connectors.Value { return connectors.DataValue(connectors.Text, []byte(s)) }

// row makes an image: int, uint64, bool and string by their kinds, nil NULL, absent the zero value, or a value itself.
func row(values ...any) []connectors.Value {
	out := make([]connectors.Value, len(values))
	for i, v := range values {
		switch v := v.(type) {
		case nil:
			out[i] = connectors.NullValue()
		case int:
			out[i] = connectors.IntValue(int64(v))
		case string:
			out[i] = text(v)
		case connectors.Value:
			out[i] = v
		default:
			panic(fmt.Sprintf("a value of type %T", v))
		}
	}
	return out
}

var absent connectors.Value

// script makes batches of one stream with growing offsets.
type script struct {
	stream string
	next   int64
}

func newScript() *script { return &script{stream: "shop.item/0"} }

// batch numbers the changes.
func (s *script) batch(changes ...connectors.Change) connectors.Batch {
	for i := range changes {
		changes[i].Offset = s.next
		changes[i].Time = time.Date(2026, 1, 30, 12, 34, 56, 0, time.UTC)
		s.next++
	}
	return connectors.Batch{Stream: s.stream, Changes: changes, Position: strconv.AppendInt(nil, s.next, 10)}
}

func insert(t *connectors.Table, values ...any) connectors.Change {
	return connectors.Change{Op: connectors.Insert, Table: t, After: row(values...)}
}

func update(t *connectors.Table, values ...any) connectors.Change {
	return connectors.Change{Op: connectors.Update, Table: t, After: row(values...)}
}

func remove(t *connectors.Table, values ...any) connectors.Change {
	return connectors.Change{Op: connectors.Delete, Table: t, Before: row(values...)}
}

// show writes rows in an order that does not depend on how they were read.
func show(rows []Row) string {
	lines := make([]string, len(rows))
	for i, r := range rows {
		for _, name := range slices.Sorted(maps.Keys(r)) {
			lines[i] += fmt.Sprintf("%s=%q ", name, r[name])
		}
	}
	slices.Sort(lines)
	if len(lines) > 12 {
		lines = append(lines[:12:12], fmt.Sprintf("… %d rows in all", len(rows)))
	}
	return strings.Join(lines, "\n")
}
