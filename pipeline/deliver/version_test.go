package deliver_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/memory"
	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/vfs"
	"github.com/trunkline/trunkline/pipeline/deliver"
)

// versionOf is a version of the table item whose columns, behind the key, are written as name#ID.
func versionOf(columns ...string) *connectors.Table {
	t := *items
	t.Columns = []connectors.Column{{Name: "id", Kind: connectors.Int, ID: 1}}
	for _, c := range columns {
		name, id, _ := strings.Cut(c, "#")
		column := connectors.Column{Name: name, Kind: connectors.Text}
		fmt.Sscan(id, &column.ID)
		t.Columns = append(t.Columns, column)
	}
	return &t
}

func put(t *connectors.Table, id int, values ...string) connectors.Change {
	row := []connectors.Value{connectors.IntValue(int64(id))}
	for _, v := range values {
		row = append(row, text(v))
	}
	return connectors.Change{Op: connectors.Update, Table: t, After: row, Time: time.Now()}
}

func TestRowsOfAnOlderVersionComeBeforeTheStep(t *testing.T) {
	t.Parallel()
	s := newLine(t)
	s.topics.Partitions = 5
	one, two := versionOf("a#2", "b#3"), versionOf("b#2", "a#3")
	var first, second []connectors.Change
	want := map[string]string{}
	for id := range 200 {
		first = append(first, put(one, id, "x", fmt.Sprint(id)))
		want[fmt.Sprint(id)] = fmt.Sprint("x ", id)
	}
	for id := range 20 { // most partitions see the new version late or never
		second = append(second, put(two, id, "y", fmt.Sprint(id)))
		want[fmt.Sprint(id)] = fmt.Sprint("y ", id)
	}
	s.feed.Append(first...)
	s.feed.Append(second[:3]...)
	s.feed.Append(second[3:]...)
	s.ingest()
	o := s.options()
	o.Batch.Rows = 7
	s.mustDeliver(o)
	got := map[string]string{}
	for _, r := range s.store.Rows("public.item") {
		got[r["id"]] = r["b"] + " " + r["a"]
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("target holds %v, want %v", got, want)
	}
	if steps := s.store.Migrations(); len(steps) != 2 || steps[1].From != steps[0].To {
		t.Errorf("steps %+v", steps)
	}
	place := s.store.Position("target", deliver.SchemaStream(itemTopic, "public.item"))
	s.mustDeliver(o)
	if steps := s.store.Migrations(); len(steps) != 2 {
		t.Errorf("steps %+v after a restart with nothing to do", steps)
	}
	s.feed.Append(put(two, 1, "z", "z"))
	s.ingest()
	s.mustDeliver(o)
	if steps := s.store.Migrations(); len(steps) != 3 || steps[2].From != steps[2].To || string(steps[2].Position) != string(place) {
		t.Errorf("steps %+v after a restart", steps)
	}
}

func TestAVersionThatComesBackIsAStep(t *testing.T) {
	t.Parallel()
	s := newLine(t)
	one, two := versionOf("a#2"), versionOf("b#2")
	ahead := put(two, 4, "w")
	ahead.Op = connectors.Snapshot
	s.feed.Append(put(one, 1, "x"))
	s.feed.Append(put(two, 2, "y"))
	s.feed.Append(put(one, 3, "z"))
	s.feed.Append(ahead) // a snapshot that runs ahead of the stream
	s.feed.Append(put(one, 5, "v"))
	s.ingest()
	s.mustDeliver(s.options())
	var names []string
	for _, step := range s.store.Migrations() {
		names = append(names, step.To.Columns[1].Name)
	}
	if got := strings.Join(names, " "); got != "a b a b" {
		t.Errorf("steps to %s", got)
	}
	want := map[string]string{"1": "x", "2": "y", "3": "z", "4": "w", "5": "v"}
	got := map[string]string{}
	for _, r := range s.store.Rows("public.item") {
		got[r["id"]] = r["b"]
	}
	if !maps.Equal(got, want) {
		t.Errorf("rows %v, want %v", got, want)
	}
}

func TestASinkNeverGoesBackToAnOlderVersion(t *testing.T) {
	t.Parallel()
	s := newLine(t)
	one, two, three := versionOf("a#2", "b#3"), versionOf("c#2", "d#4"), versionOf("a#2")
	s.feed.Append(put(one, 1, "x", "y"))
	s.feed.Append(put(two, 2, "z", "w"))
	s.feed.Append(put(three, 3, "last"))
	s.ingest()
	s.mustDeliver(s.options())
	want := fmt.Sprint([]memory.Row{{"id": "1", "a": "x"}, {"id": "2", "a": "z"}, {"id": "3", "a": "last"}})
	if got := fmt.Sprint(s.store.Rows("public.item")); got != want {
		t.Fatalf("rows %s, want %s", got, want)
	}
	start := log.Offsets{}
	for tp := range s.ends(s.log) {
		if tp.Topic == itemTopic {
			start[tp] = 0
		}
	}
	if err := deliver.Reset(t.Context(), s.options(), start); err != nil {
		t.Fatal(err)
	}
	before := len(s.store.Log())
	s.mustDeliver(s.options())
	if got := fmt.Sprint(s.store.Rows("public.item")); got != want {
		t.Errorf("rows %s after everything came again, want %s", got, want)
	}
	if n := len(s.store.Log()) - before; n != 3 {
		t.Errorf("%d changes came again, want 3", n)
	}
	for _, step := range s.store.Migrations()[3:] {
		if step.From != step.To || !step.To.Equal(three) {
			t.Errorf("step from %+v to %+v", step.From, step.To)
		}
	}
}

// The stop is the table's alone, and ends by itself.
func TestATableThatDoesNotFitStopsAlone(t *testing.T) {
	t.Parallel()
	s := newLine(t)
	s.topics.Partitions = 3
	one, two := versionOf("v#2"), versionOf("w#2")
	other := *items
	other.Name = "other"
	for id := range 30 {
		s.feed.Append(put(one, id, "v"))
	}
	for id := range 30 {
		s.feed.Append(put(two, id, "v"))
	}
	for id := range 30 {
		s.feed.Append(connectors.Change{Op: connectors.Insert, Table: &other, After: row(id, "v")})
	}
	s.ingest()
	misfit := &connectors.SchemaError{Target: "item", Problem: "it has no column w", Statement: "ALTER TABLE item …"}
	resist := func(m connectors.Migration) error {
		if m.From != nil && m.From != m.To && m.To.Name == "item" {
			return misfit
		}
		return nil
	}
	s.store.Resist(resist)
	_, err := s.deliver(s.options())
	if !errors.Is(err, connectors.ErrFatal) || !errors.As(err, &misfit) || len(s.store.Rows("public.other")) != 30 || s.store.Rows("public.item")[0]["v"] != "v" {
		t.Fatalf("a run with an end: %v, %v", err, s.store.Rows("public.item"))
	}

	var mu sync.Mutex
	var phases []connectors.Phase
	o := s.options()
	o.Until = nil
	o.OnReport = func(r connectors.Report) {
		mu.Lock()
		defer mu.Unlock()
		if r.Table == "public.item" {
			phases = append(phases, r.Phase)
		}
	}
	d, err := deliver.New(o)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { done <- d.Run(ctx) }()
	said := func(phase connectors.Phase) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return slices.Contains(phases, phase)
		}
	}
	eventually(t, said(connectors.PhaseFailed))
	s.feed.Append(connectors.Change{Op: connectors.Insert, Table: &other, After: row(100, "v")})
	s.ingest()
	eventually(t, func() bool { return len(s.store.Rows("public.other")) == 31 })
	if len(d.Status(t.Context()).Partitions) == 0 || s.store.Rows("public.item")[0]["v"] != "v" {
		t.Error("the table went on too early")
	}
	s.store.Resist(nil)
	eventually(t, func() bool { return s.store.Rows("public.item")[0]["w"] == "v" })
	eventually(t, said(connectors.PhaseStreaming))
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// eventually waits for a condition.
func eventually(t *testing.T, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(2 * time.Minute); !cond(); {
		select {
		case <-tick.C:
		case <-end:
			t.Fatal("it did not come to pass")
		}
	}
}

// life is a random history of a table whose columns come, go and change their names.
type life struct {
	rng     *rand.Rand
	table   *connectors.Table
	next    int // the identity of the next column
	values  int
	rows    map[int]map[int]string // by key, by identity
	pending []connectors.Change
	out     [][]connectors.Change
}

func (l *life) step() {
	switch n := l.rng.IntN(12); {
	case n == 0:
		l.alter()
	case n == 1 && len(l.rows) > 0:
		id := slices.Sorted(maps.Keys(l.rows))[l.rng.IntN(len(l.rows))]
		before := make([]connectors.Value, len(l.table.Columns))
		before[0] = connectors.IntValue(int64(id))
		l.pending = append(l.pending, connectors.Change{Op: connectors.Delete, Table: l.table, Before: before})
		delete(l.rows, id)
	case n == 2 && l.rng.IntN(4) == 0:
		l.pending = append(l.pending, connectors.Change{Op: connectors.Truncate, Table: l.table})
		clear(l.rows)
	default:
		id := l.rng.IntN(25)
		l.rows[id] = map[int]string{}
		var values []string
		for _, c := range l.table.Columns[1:] {
			l.values++
			v := fmt.Sprint(l.values)
			l.rows[id][c.ID] = v
			values = append(values, v)
		}
		l.pending = append(l.pending, put(l.table, id, values...))
	}
	if l.rng.IntN(4) == 0 {
		l.out, l.pending = append(l.out, l.pending), nil
	}
}

// alter makes the next version: a column more, one less, or two names that change places.
func (l *life) alter() {
	t := *l.table
	t.Columns = slices.Clone(t.Columns)
	at := 1 + l.rng.IntN(max(1, len(t.Columns)-1))
	switch n := l.rng.IntN(4); {
	case n == 0 || len(t.Columns) < 3:
		l.next++
		name := string(rune('a' + l.rng.IntN(6)))
		if t.Column(name) >= 0 {
			name += fmt.Sprint(l.next)
		}
		t.Columns = append(t.Columns, connectors.Column{Name: name, Kind: connectors.Text, ID: l.next})
	case n == 1:
		for _, values := range l.rows {
			delete(values, t.Columns[at].ID)
		}
		t.Columns = slices.Delete(t.Columns, at, at+1)
	case n == 2:
		other := 1 + l.rng.IntN(len(t.Columns)-1)
		t.Columns[at].Name, t.Columns[other].Name = t.Columns[other].Name, t.Columns[at].Name
	default:
		name := string(rune('a' + l.rng.IntN(6)))
		if t.Column(name) < 0 {
			t.Columns[at].Name = name
		}
	}
	l.table = &t
}

// want is what the target has to hold at the end.
func (l *life) want() map[string]string {
	want := map[string]string{}
	for id, values := range l.rows {
		row := memory.Row{"id": fmt.Sprint(id)}
		for _, c := range l.table.Columns[1:] {
			if v, ok := values[c.ID]; ok {
				row[c.Name] = v
			}
		}
		want[row["id"]] = fmt.Sprint(row)
	}
	return want
}

func TestNoCrashLosesOrRepeatsAStep(t *testing.T) {
	t.Parallel()
	seeds := uint64(40)
	if testing.Short() {
		seeds = 20
	}
	for seed := range seeds {
		c := crashes{t: t, rng: rand.New(rand.NewPCG(seed, 7)), fs: vfs.NewMemory(), feed: memory.NewFeed(), store: memory.NewStore()}
		c.dice = &dice{rng: rand.New(rand.NewPCG(seed, 8)), odds: 0.002 + 0.03*c.rng.Float64()}
		l := &life{rng: c.rng, table: versionOf("a#2", "b#3"), next: 3, rows: map[int]map[int]string{}}
		for range 100 + c.rng.IntN(100) {
			l.step()
		}
		end := make([]string, len(l.table.Columns)-1)
		for i := range end {
			end[i] = "end"
		}
		l.rows[99] = map[int]string{} // the last version arrives with a row of it
		for _, column := range l.table.Columns[1:] {
			l.rows[99][column.ID] = "end"
		}
		c.left = append(l.out, append(l.pending, put(l.table, 99, end...)))
		c.run()
		got := map[string]string{}
		for _, r := range c.store.Rows("public.item") {
			got[r["id"]] = fmt.Sprint(r)
		}
		if want := l.want(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("seed %d: target holds %v, want %v", seed, got, want)
		}
		checkOnce(t, seed, c.store)
	}
}
