package fold_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/fold"
	"github.com/trunkline/trunkline/connectors/memory"
)

var item = &connectors.Table{Schema: "shop", Name: "item", Key: []int{0}, Columns: []connectors.Column{
	{Name: "id", Kind: connectors.Int}, {Name: "a", Kind: connectors.Text}, {Name: "b", Kind: connectors.Text}}}

// value makes a value: absent, NULL, or a text.
func value(rng *rand.Rand, n int) connectors.Value {
	switch rng.IntN(4) {
	case 0:
		return connectors.Value{}
	case 1:
		return connectors.NullValue()
	}
	return connectors.DataValue(connectors.Text, fmt.Appendf(nil, "v%d", n))
}

// history is a random run of changes, each of which fits the ones before it.
func history(rng *rand.Rand) []connectors.Change {
	var out []connectors.Change
	live := map[int]bool{}
	for n := range 1 + rng.IntN(60) {
		id := rng.IntN(5)
		row := []connectors.Value{connectors.IntValue(int64(id)), value(rng, n), value(rng, n)}
		c := connectors.Change{Op: connectors.Update, Table: item, After: row, Offset: int64(n)}
		old := rng.IntN(5)
		switch k := rng.IntN(24); {
		case k == 0:
			c = connectors.Change{Op: connectors.Truncate, Table: item, Offset: int64(n)}
			clear(live)
		case k < 6:
			c = connectors.Change{Op: connectors.Delete, Table: item, Before: []connectors.Value{row[0], {}, {}}, Offset: int64(n)}
			delete(live, id)
		case k < 12 && live[old] && !live[id] && old != id:
			c.Before = []connectors.Value{connectors.IntValue(int64(old)), {}, {}}
			delete(live, old)
			live[id] = true
		case !live[id]:
			for i, v := range row {
				if v.IsAbsent() {
					row[i] = connectors.NullValue()
				}
			}
			c.Op, live[id] = connectors.Insert, true
		}
		out = append(out, c)
	}
	return out
}

// store applies folded batches in an order of its own.
type store map[string]map[string]string

func (s store) apply(rng *rand.Rand, b *fold.Batch) {
	if len(b.Truncated) > 0 {
		clear(s)
	}
	before := store{}
	for k, r := range s {
		before[k] = r
	}
	rng.Shuffle(len(b.Rows), func(i, j int) { b.Rows[i], b.Rows[j] = b.Rows[j], b.Rows[i] })
	for _, r := range b.Rows {
		if r.Values == nil {
			delete(s, r.Key)
			continue
		}
		s[r.Key] = before.complete(r.Table, r.Values, r.From)
	}
}

// complete returns a row with what the store has of it.
func (s store) complete(t *connectors.Table, values []connectors.Value, from []fold.Key) map[string]string {
	have := map[string]string{}
	for _, key := range from {
		if old, ok := s[key.Text]; ok {
			have = maps.Clone(old)
			break
		}
	}
	for i, v := range values {
		name := t.Columns[i].Name
		if v.IsAbsent() {
			continue
		}
		delete(have, name)
		if !v.IsNull() {
			have[name] = string(v.AppendText(nil))
		}
	}
	return have
}

// mark applies a folded batch, and keeps rows that are gone with a mark.
func (s store) mark(b *fold.Batch) {
	before := maps.Clone(s)
	for _, r := range b.Rows {
		switch {
		case r.Values != nil:
			s[r.Key] = before.complete(r.Table, r.Values, r.From)
			delete(s[r.Key], "gone")
		case r.Was != nil:
			s[r.Key] = before.complete(r.Table, r.Was, r.WasFrom)
			s[r.Key]["gone"] = "1"
		case s[r.Key] != nil:
			s[r.Key] = maps.Clone(s[r.Key])
			s[r.Key]["gone"] = "1"
		}
	}
}

// TestRowsThatAreGoneAreTheSameHoweverBatchesAreCut marks rows that are gone: change by change, and in batches.
func TestRowsThatAreGoneAreTheSameHoweverBatchesAreCut(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		changes := slices.DeleteFunc(history(rng), func(c connectors.Change) bool { return c.Op == connectors.Truncate })
		single, cut := store{}, store{}
		for i := range changes {
			single.mark(fold.Fold(changes[i:i+1], "t/0", nil))
		}
		for rest := changes; len(rest) > 0; {
			n := 1 + rng.IntN(len(rest))
			cut.mark(fold.Fold(rest[:n], "t/0", nil))
			rest = rest[n:]
		}
		if !maps.EqualFunc(single, cut, maps.Equal[map[string]string, map[string]string]) {
			t.Fatalf("seed %d: in batches %v, change by change %v", seed, cut, single)
		}
	}
}

func TestFoldedBatchesLeaveWhatTheChangesLeave(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 0))
		model := memory.NewStore()
		sink, err := model.OpenPlain(t.Context(), connectors.NewEnv("x"))
		if err != nil {
			t.Fatal(err)
		}
		got := store{}
		var b *fold.Batch
		for changes := history(rng); len(changes) > 0; {
			n := 1 + rng.IntN(len(changes))
			if err := sink.Write(t.Context(), connectors.Batch{Changes: changes[:n]}); err != nil {
				t.Fatal(err)
			}
			if b = fold.Fold(changes[:n], "t/0", b); b.Refused() != nil {
				t.Fatal(b.Refused())
			}
			got.apply(rng, b)
			changes = changes[n:]
		}
		var want, have []string
		for _, r := range model.Rows("shop.item") {
			want = append(want, fmt.Sprint(map[string]string(r)))
		}
		for _, r := range got {
			have = append(have, fmt.Sprint(r))
		}
		slices.Sort(want)
		slices.Sort(have)
		if !slices.Equal(want, have) {
			t.Fatalf("seed %d: %v, want %v", seed, have, want)
		}
	}
}

func TestChangesWithoutAKeyAreRefusedByIndex(t *testing.T) {
	t.Parallel()
	keyless := &connectors.Table{Name: "log", Columns: item.Columns}
	row := []connectors.Value{connectors.NullValue(), {}, {}}
	b := fold.Fold([]connectors.Change{
		{Op: connectors.Insert, Table: keyless, After: row, Offset: 1},
		{Op: connectors.Insert, Table: keyless, After: row, Offset: 2},
		{Op: connectors.Update, Table: keyless, After: row, Before: row, Offset: 3},
		{Op: connectors.Delete, Table: keyless, Before: row, Offset: 4},
		{Op: connectors.Insert, Table: item, After: row, Offset: 5},
		{Op: connectors.Insert, Table: item, After: row[:1], Offset: 6},
	}, "log/3", nil)
	if len(b.Rows) != 2 || b.Rows[0].Key != "log/3/1" || b.Rows[1].Key != "log/3/2" {
		t.Errorf("rows %+v", b.Rows)
	}
	var refused *connectors.RowsError
	if !errors.As(b.Refused(), &refused) || len(refused.Rows) != 4 {
		t.Fatalf("refused %v, want four", b.Refused())
	}
	for i, want := range []error{fold.ErrNoOldRow, fold.ErrNoOldRow, fold.ErrNoKey, fold.ErrNoColumns} {
		if r := refused.Rows[i]; r.Index != i+2 || !errors.Is(r.Err, want) {
			t.Errorf("refused %d: %v, want %d: %v", r.Index, r.Err, i+2, want)
		}
	}
}

func TestPartsEndBeforeATruncateAndNameRowsOfTheBatch(t *testing.T) {
	ops := []connectors.Op{connectors.Truncate, connectors.Insert, connectors.Insert, connectors.Truncate, connectors.Truncate, connectors.Insert}
	b := connectors.Batch{Stream: "t/0", Position: connectors.Position("6")}
	for _, op := range ops {
		b.Changes = append(b.Changes, connectors.Change{Op: op})
	}
	var sizes []int
	err := fold.Parts(b, func(part connectors.Batch) error {
		if part.Stream != b.Stream || string(part.Position) != "6" {
			t.Errorf("a part is of %s at %s", part.Stream, part.Position)
		}
		if sizes = append(sizes, len(part.Changes)); len(sizes) == 3 {
			return &connectors.RowsError{Rows: []connectors.RowError{{Index: 1}}}
		}
		return nil
	})
	var rows *connectors.RowsError
	if !slices.Equal(sizes, []int{3, 1, 2}) || !errors.As(err, &rows) || rows.Rows[0].Index != 5 {
		t.Errorf("parts %v, error %v", sizes, err)
	}
}
