package conformance

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/trunkline/trunkline/connectors"
)

// What has gone wrong in other people's sinks, under the numbers of the list of field cases. F46 is (*trial).sameKey and
// (*trial).wide.

// poison is F47: characters that some stores can't hold, and a number that some have no word for, with ten good rows around
// each. The good rows land. The others are kept as they are, are counted as what the columns can't hold, or are named.
func (r *trial) poison() {
	t, s := &connectors.Table{
		Dialect: "postgres", Schema: r.c.Schema, Name: "poison", Key: []int{0},
		Columns: []connectors.Column{{Name: "id", Type: "bigint", Kind: connectors.Int, NotNull: true}, {Name: "name", Type: "text", Kind: connectors.Text},
			{Name: "doc", Type: "jsonb", Kind: connectors.JSON}, {Name: "x", Type: "double precision", Kind: connectors.Float}},
	}, newScript()
	const escaped = `{"k":"x\\u0000y"}` // a backslash and five more characters: no NUL
	doc := func(text string) connectors.Value { return connectors.DataValue(connectors.JSON, []byte(text)) }
	number := func(text string) connectors.Value { return connectors.DataValue(connectors.Float, []byte(text)) }
	changes := make([]connectors.Change, 43)
	for id := range changes {
		changes[id] = insert(t, id, "good "+strconv.Itoa(id), doc(escaped), number("0.5"))
	}
	bad := map[int]connectors.Change{10: insert(t, 10, "a\x00b", doc("{}"), number("0.5")), 21: insert(t, 21, "doc", doc(`{"k":"x\u0000y"}`), number("0.5")),
		32: insert(t, 32, "number", doc("{}"), number("NaN"))}
	for id, c := range bad {
		changes[id] = c
	}
	b := s.batch(changes...)
	refused := r.writeAll(&b)
	for _, id := range refused {
		if _, ok := bad[id]; !ok {
			r.Errorf("row %d is refused, which is good", id)
		}
	}
	found := map[string]Row{}
	for _, row := range r.rows(t) {
		found[row["id"]] = row
	}
	for id := range changes {
		row, there := found[strconv.Itoa(id)]
		if slices.Contains(refused, id) {
			if there {
				r.Errorf("row %d is refused and there", id)
			}
			continue
		}
		_, mayLack := bad[id]
		mayLack = mayLack && r.lacking.Load() > 0
		for i, c := range t.Columns {
			want := string(changes[id].After[i].AppendText(nil))
			if r.c.Shows != nil {
				if text, ok := r.c.Shows(changes[id].After[i]); ok {
					want = text
				}
			}
			got, ok := row[c.Name]
			if compact(got) != compact(want) && !(mayLack && !ok) {
				r.Errorf("row %d: column %s holds %q, want %q", id, c.Name, got, want)
			}
		}
	}
}

// compact takes the white space out of a document, which some stores write in their own way.
func compact(text string) string {
	var out bytes.Buffer
	if !strings.HasPrefix(text, "{") || json.Compact(&out, []byte(text)) != nil {
		return text
	}
	return out.String()
}

// writeAll writes a batch as the pipeline does, without the rows that the store refuses, and returns their ids.
func (r *trial) writeAll(b *connectors.Batch) (refused []int) {
	r.Helper()
	r.claim(r.sink, b.Stream)
	r.migrate(nil, b.Changes[0].Table)
	changes := b.Changes
	for range len(b.Changes) {
		err := r.sink.Write(deadline(r.T), connectors.Batch{Stream: b.Stream, Changes: changes, Position: b.Position})
		if err == nil {
			return refused
		}
		var rows *connectors.RowsError
		if !errors.As(err, &rows) {
			r.Fatalf("write: %v, want rows that are refused by name", err)
		}
		var kept []connectors.Change
		for i, c := range changes {
			at := slices.IndexFunc(rows.Rows, func(e connectors.RowError) bool { return e.Index == i })
			if at < 0 {
				kept = append(kept, c)
				continue
			}
			refused = append(refused, int(c.After[0].Int()))
			if strings.ContainsAny(rows.Rows[at].Err.Error(), "\x00") {
				r.Errorf("the reason holds the row's value: %q", rows.Rows[at].Err)
			}
		}
		changes = kept
	}
	r.Fatal("the store refuses one row after the other")
	return nil
}

// busy writes while the store has no time: that is no fault of a row, and nobody's to put right.
func (r *trial) busy() {
	if r.system.Busy == nil {
		r.Skip("the store is never busy for a row")
	}
	t, s := r.table(), newScript()
	r.write(s.batch(insert(t, 1, "one", nil)))
	release := r.system.Busy(r.T, t)
	b := s.batch(insert(t, 2, "two", nil), update(t, 1, "uno", nil))
	err := r.sink.Write(deadline(r.T), b)
	var rows *connectors.RowsError
	if err == nil || errors.As(err, &rows) || errors.Is(err, connectors.ErrFatal) || errors.Is(err, connectors.ErrFenced) {
		r.Errorf("write: %v, want an error that is tried again", err)
	}
	release()
	r.want(t, Row{"id": "1", "name": "one"})
	r.write(b)
	r.want(t, Row{"id": "1", "name": "uno"}, Row{"id": "2", "name": "two"})
}

// oddKeys has keys that mean something in the languages of stores. What a change does not carry is looked up by them.
func (r *trial) oddKeys() {
	t, s := r.table(), newScript()
	t.Key, t.Columns[1].NotNull = []int{1}, true
	keys := []string{`a\`, `\' OR 1=1 -- `, "it's", "tab\tline\n", "%:._*?[x]", `"q"`, `\n`, "日本 🙂"}
	var inserts, updates []connectors.Change
	var want []Row
	for i, key := range keys {
		inserts = append(inserts, insert(t, i, key, "note "+strconv.Itoa(i)))
		updates = append(updates, update(t, 100+i, key, absent))
		want = append(want, Row{"id": strconv.Itoa(100 + i), "name": key, "note": "note " + strconv.Itoa(i)})
	}
	r.write(s.batch(inserts...))
	r.write(s.batch(updates...))
	r.want(t, want...)
	r.write(s.batch(remove(t, absent, keys[0], absent), remove(t, absent, keys[1], absent)))
	r.want(t, want[2:]...)
}

// lateWrite is F49: what was written, and then changed and deleted, comes once more.
func (r *trial) lateWrite() {
	if !r.c.Late {
		r.Skip("a batch that comes late is written again; the pipeline sends none")
	}
	t, s := r.table(), newScript()
	first := s.batch(insert(t, 1, "one", nil), insert(t, 2, "two", nil))
	second := s.batch(remove(t, 1, absent, absent), update(t, 2, "dos", nil))
	for _, b := range []connectors.Batch{first, second, first} {
		r.write(b)
	}
	r.want(t, Row{"id": "2", "name": "dos"})
}

// orderAndEmpties is F50: two keys that come and go in one batch, NULL, and the empty string.
func (r *trial) orderAndEmpties() {
	t, s := r.table(), newScript()
	r.write(s.batch(insert(t, 1, "k", "x"), remove(t, 1, absent, absent), insert(t, 2, "k2", "x"), remove(t, 2, absent, absent), insert(t, 2, nil, "")))
	r.want(t, Row{"id": "2", "note": ""})
	r.write(s.batch(update(t, 2, "", nil)))
	r.want(t, Row{"id": "2", "name": ""})
}

// exactValues is F51: integers above what a float holds, a decimal of 38 digits, microseconds, a delete; and the same once
// more from a sink that was opened anew.
func (r *trial) exactValues() {
	t, s := &connectors.Table{
		Dialect: "postgres", Schema: r.c.Schema, Name: "exact", Key: []int{0},
		Columns: []connectors.Column{{Name: "id", Type: "bigint", Kind: connectors.Int, NotNull: true}, {Name: "n", Type: "bigint", Kind: connectors.Int},
			{Name: "price", Type: "numeric(38,18)", Kind: connectors.Decimal}, {Name: "at", Type: "timestamp without time zone", Kind: connectors.Timestamp}},
	}, newScript()
	price := connectors.DataValue(connectors.Decimal, []byte("12345678901234567890.123456789012345678"))
	small := connectors.DataValue(connectors.Decimal, []byte("-0.000000000000000001"))
	at := connectors.DataValue(connectors.Timestamp, []byte("2026-01-30T12:34:56.123456"))
	shown := func(v connectors.Value) string {
		if r.c.Shows != nil {
			if text, ok := r.c.Shows(v); ok {
				return text
			}
		}
		return string(v.AppendText(nil))
	}
	want := []Row{{"id": "1648218655338", "n": "9007199254740993", "price": shown(price), "at": shown(at)},
		{"id": "9007199254740993", "n": "-9007199254740993", "price": shown(small), "at": shown(at)}}
	r.write(s.batch(insert(t, 1648218655338, 9007199254740993, price, at), insert(t, 9007199254740993, 0, price, at), insert(t, 9007199254740992, 0, price, at)))
	b := s.batch(update(t, 9007199254740993, -9007199254740993, small, at), remove(t, 9007199254740992, absent, absent, absent))
	r.write(b)
	r.want(t, want...)
	r.sink, r.migrated = r.open(), nil
	r.write(b)
	r.want(t, want...)
}
