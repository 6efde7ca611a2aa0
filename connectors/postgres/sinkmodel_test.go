package postgres

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/trunkline/trunkline/connectors"
)

// TestSinkEqualsAModel writes random histories, cut into random batches, some of them twice as after a reset, with rows
// that the target refuses between them, and compares the target with a map that took the same changes one by one.
func TestSinkEqualsAModel(t *testing.T) {
	for seed := range uint64(6) {
		deletes := []string{deletesApply, deletesSoft}[seed%2]
		t.Run(deletes+" "+strconv.FormatUint(seed, 10), func(t *testing.T) {
			st := newSinkTest(t)
			m := &sinkModel{sinkTest: st, rand: rand.New(rand.NewPCG(seed, 7)), rows: map[int][2]string{}, sink: st.open(func(c *SinkConfig) { c.Deletes = deletes }),
				table: tableOf("item", 1, "id integer", "a text", "b text"), query: "SELECT id, coalesce(a, ''), coalesce(b, '') FROM item ORDER BY id"}
			if deletes == deletesSoft {
				m.query = strings.Replace(m.query, "ORDER", "WHERE NOT _deleted ORDER", 1)
			}
			st.migrate(m.sink, nil, m.table)
			st.exec("ALTER TABLE item ADD CHECK (a <> 'bad')")
			for range 40 {
				m.step()
			}
		})
	}
}

// sinkModel is a table as it should be: a and b by id; NULL is the empty text.
type sinkModel struct {
	*sinkTest
	rand  *rand.Rand
	sink  *Sink
	table *connectors.Table
	rows  map[int][2]string
	query string

	// again says that the batch in hand is written twice. Then an update of some columns comes with its old image: the
	// row that it changed may be gone when it comes again, and only a replay from the row's insert would bring it back.
	again bool
}

// step writes one batch and compares.
func (m *sinkModel) step() {
	var changes []connectors.Change
	bad, refused := map[int]bool{}, map[int]bool{}
	m.again = m.rand.IntN(4) == 0
	size := 1 + m.rand.IntN(1+m.rand.IntN(40))
	for len(changes) < size {
		if m.rand.IntN(25) == 0 {
			bad[len(changes)], refused[len(changes)] = true, true
			changes = append(changes, inserted(m.table, 1000+len(changes), "bad", "x"))
			continue
		}
		c := m.change()
		if c.Op == connectors.Truncate {
			clear(refused) // what goes at once need not be refused
		}
		changes = append(changes, c)
	}
	batch := batchOf(changes...)
	err := m.sink.Write(m.Context(), batch)
	var rows *connectors.RowsError
	if errors.As(err, &rows) {
		for _, r := range rows.Rows {
			if !bad[r.Index] {
				m.Fatalf("row %d is refused and good: %v", r.Index, r.Err)
			}
			delete(refused, r.Index)
		}
		for _, r := range slices.Backward(rows.Rows) {
			batch.Changes = slices.Delete(batch.Changes, r.Index, r.Index+1)
		}
		err = m.sink.Write(m.Context(), batch)
	}
	if err != nil || len(refused) > 0 {
		m.Fatalf("write: %v, rows that should have been refused: %v", err, refused)
	}
	if m.again {
		m.write(m.sink, batch.Changes...)
	}
	var lines []string
	for _, id := range slices.Sorted(maps.Keys(m.rows)) {
		lines = append(lines, fmt.Sprintf("%d|%s|%s", id, m.rows[id][0], m.rows[id][1]))
	}
	m.want(m.query, strings.Join(lines, "\n"))
	if m.Failed() {
		m.FailNow()
	}
}

// change makes a change that the source could make now, and takes it into the model.
func (m *sinkModel) change() connectors.Change {
	id := m.rand.IntN(12)
	old, there := m.rows[id]
	a, b := m.text(), m.text()
	switch op := m.rand.IntN(20); {
	case op == 0:
		clear(m.rows)
		return truncated(m.table)
	case !there:
		m.rows[id] = [2]string{a, b}
		return inserted(m.table, id, m.value(a), m.value(b))
	case op < 5:
		delete(m.rows, id)
		return deleted(m.table, id)
	case op < 8:
		return m.move(id, old, a)
	case op < 14:
		m.rows[id] = [2]string{a, old[1]}
		c := updated(m.table, id, m.value(a), absent)
		c.Before = m.before(id, old)
		return c
	default:
		m.rows[id] = [2]string{a, b}
		return updated(m.table, id, m.value(a), m.value(b))
	}
}

// move changes the key of a row to one that is free, with an unchanged column that only the target has.
func (m *sinkModel) move(id int, old [2]string, a string) connectors.Change {
	to := id
	for range 50 {
		if to = m.rand.IntN(12); to != id {
			if _, taken := m.rows[to]; !taken {
				break
			}
		}
		to = id
	}
	delete(m.rows, id)
	m.rows[to] = [2]string{a, old[1]}
	c := updated(m.table, to, m.value(a), absent)
	if c.Before = m.before(id, old); c.Before == nil {
		c.Before = row(m.table, id, absent, absent)
	}
	return c
}

// before returns the old image, or none.
func (m *sinkModel) before(id int, old [2]string) []connectors.Value {
	if m.again || m.rand.IntN(2) == 0 {
		return row(m.table, id, absent, m.value(old[1]))
	}
	return nil
}

func (m *sinkModel) text() string {
	return []string{"", "x", "y", "tab\t", "back\\slash"}[m.rand.IntN(5)]
}

func (m *sinkModel) value(text string) any {
	if text == "" {
		return nil
	}
	return text
}
