// Package conformance is the suite that every source and every sink passes.
//
// It promises to ask of each the same things, in the contract's words: that nothing is lost or read twice from any
// position, that a sink's rows are what the changes say whatever was replayed, that an error leaves nothing behind, that
// Close leaves no goroutine. It knows no system: a connector's own test gives it a small system with functions that
// change it and read it back. Only tests call it, and none of them may run in parallel with it, because it counts
// goroutines.
package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/trunkline/trunkline/connectors"
)

// patience bounds everything that should happen at once.
const patience = 30 * time.Second

// maxChanges is more than any test has; a source that reads the same rows again and again is stopped by it.
const maxChanges = 1000

// SourceSystem is a system with one table whose columns are id, an integer and the key, and v, a text.
type SourceSystem struct {
	Open  connectors.OpenSource
	Table string // its full name, schema.table

	Insert func(t *testing.T, ids ...int)           // adds rows (id, "v" and the id) in one transaction
	Update func(t *testing.T, id int, value string) // sets v; nil: the source does not see updates
	Delete func(t *testing.T, id int)               // nil: the source does not see deletes
}

// SourceCase is a source under test.
type SourceCase struct {
	New func(t *testing.T) SourceSystem // an empty system of its own for each call

	// Repeats says that a source opened in the middle of its snapshot may hand out Snapshot rows again.
	Repeats bool

	// Pushed says that the system keeps nothing: what is inserted goes to the source that is open, or waits for one, as new
	// rows. Then what was read and not acknowledged is the system's to send again, and positions are no places in it.
	Pushed bool
}

// RunSource runs the suite.
func RunSource(t *testing.T, c SourceCase) {
	if !c.Pushed {
		t.Run("reads each row once and ends", c.readsAll)
		t.Run("goes on from every position", c.resumes)
		t.Run("a restart sees only what is new", c.restarts)
	}
	t.Run("sees what comes while it runs", c.follows)
	t.Run("an empty table is read to its end", c.readsEmpty)
	t.Run("a read ends with its context", c.cancels)
	t.Run("a foreign position is refused", c.refuses)
}

// opened is a source with what it has said.
type opened struct {
	connectors.Source
	t         *testing.T
	system    SourceSystem
	seen      []seen
	positions []place
	last      connectors.Position
}

// seen is a change as the suite remembers it, copied out of the batch.
type seen struct {
	op    connectors.Op
	id    int
	value string
}

// place is a position and how many changes came before it.
type place struct {
	position connectors.Position
	changes  int
}

func env(t *testing.T, once bool) connectors.Env {
	e := connectors.NewEnv("conformance")
	e.Dir = t.TempDir()
	e.Once = once
	e.Limits.BatchRows = 4
	return e
}

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// open opens the system; the source is closed and its goroutines are counted when the test ends.
func open(t *testing.T, s SourceSystem, once bool, from connectors.Position) *opened {
	t.Helper()
	before := goleak.IgnoreCurrent()
	src, err := s.Open(deadline(t), env(t, once), from)
	if err != nil {
		t.Fatalf("open source: %v", err)
	}
	o := &opened{Source: src, t: t, system: s}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := src.Close(ctx); err != nil {
			t.Errorf("close source: %v", err)
		}
		goroutinesEnd(t, before)
	})
	return o
}

// goroutinesEnd waits for the goroutines that were started since: one that knows that it has to end may get to it late.
func goroutinesEnd(t *testing.T, since ...goleak.Option) {
	t.Helper()
	for end := time.Now().Add(patience); goleak.Find(since...) != nil && time.Now().Before(end); {
	}
	goleak.VerifyNone(t, since...)
}

// read takes one batch over. It reports false at the end of a bounded source.
func (o *opened) read(ctx context.Context) bool {
	o.t.Helper()
	b, err := o.Read(ctx)
	if errors.Is(err, io.EOF) {
		return false
	}
	if err != nil {
		o.t.Fatalf("read: %v", err)
	}
	if b.Position == nil && len(b.Changes) == 0 {
		o.t.Fatal("a batch with neither changes nor a position")
	}
	for i := range b.Changes {
		o.take(&b.Changes[i])
	}
	if b.Position != nil {
		o.last = slices.Clone(b.Position)
		o.positions = append(o.positions, place{o.last, len(o.seen)})
	}
	return true
}

// take checks one change and remembers it.
func (o *opened) take(c *connectors.Change) {
	o.t.Helper()
	if err := checkChange(c); err != nil {
		o.t.Fatalf("change %d: %v", len(o.seen), err)
	}
	if c.Op == connectors.Message {
		return
	}
	if c.Table.FullName() != o.system.Table {
		o.t.Fatalf("change of table %q, want %q", c.Table.FullName(), o.system.Table)
	}
	row := c.After
	if c.Op == connectors.Delete {
		row = c.Before
	}
	s := seen{op: c.Op}
	if at := c.Table.Column("id"); at >= 0 && row != nil {
		s.id, _ = strconv.Atoi(string(row[at].AppendText(nil)))
	}
	if at := c.Table.Column("v"); at >= 0 && c.After != nil {
		s.value = string(c.After[at].AppendText(nil))
	}
	o.seen = append(o.seen, s)
	if len(o.seen) > maxChanges {
		o.t.Fatalf("%d changes and no end", len(o.seen))
	}
}

// checkChange checks what the contract says of every change.
func checkChange(c *connectors.Change) error {
	if c.Op < connectors.Snapshot || c.Op > connectors.Message {
		return fmt.Errorf("operation %d does not exist", c.Op)
	}
	if c.Op == connectors.Message {
		return nil
	}
	if c.Table == nil {
		return errors.New("no table")
	}
	for _, k := range c.Table.Key {
		if k < 0 || k >= len(c.Table.Columns) {
			return errors.New("a key column that does not exist")
		}
	}
	for _, row := range [][]connectors.Value{c.Before, c.After} {
		if row != nil && len(row) != len(c.Table.Columns) {
			return fmt.Errorf("row of %d values for %d columns", len(row), len(c.Table.Columns))
		}
	}
	needsAfter := c.Op == connectors.Snapshot || c.Op == connectors.Insert || c.Op == connectors.Update
	switch {
	case needsAfter && c.After == nil:
		return fmt.Errorf("%v without a new row", c.Op)
	case c.Op == connectors.Delete && c.Before == nil:
		return errors.New("delete without an old row")
	case c.Op == connectors.Truncate && (c.Before != nil || c.After != nil):
		return errors.New("truncate with a row")
	case c.Op != connectors.Truncate && c.Time.IsZero():
		return errors.New("no time")
	}
	return nil
}

// all reads to the end of a bounded source.
func (o *opened) all() []seen {
	o.t.Helper()
	ctx := deadline(o.t)
	for o.read(ctx) {
	}
	if len(o.positions) == 0 && len(o.seen) > 0 {
		o.t.Fatal("the source ended without a position")
	}
	if n := len(o.positions); n > 0 && o.positions[n-1].changes != len(o.seen) {
		o.t.Fatal("the source ended with changes that no position covers")
	}
	return o.seen
}

// until reads until n changes were seen in all.
func (o *opened) until(n int) {
	o.t.Helper()
	ctx := deadline(o.t)
	for len(o.seen) < n {
		if !o.read(ctx) {
			o.t.Fatalf("the source ended after %d changes, want %d", len(o.seen), n)
		}
	}
}

// sequence returns the numbers from first to last.
func sequence(first, last int) []int {
	var out []int
	for i := first; i <= last; i++ {
		out = append(out, i)
	}
	return out
}

// wantIDs checks that each id came exactly once, with the value it was inserted with.
func wantIDs(t *testing.T, got []seen, want []int) {
	t.Helper()
	var ids []int
	for _, s := range got {
		ids = append(ids, s.id)
		if s.value != "v"+strconv.Itoa(s.id) {
			t.Errorf("row %d has v %q", s.id, s.value)
		}
	}
	slices.Sort(ids)
	if !slices.Equal(ids, want) {
		t.Errorf("ids %v, want %v", ids, want)
	}
}

func (c SourceCase) readsAll(t *testing.T) {
	s := c.New(t)
	s.Insert(t, sequence(1, 25)...)
	o := open(t, s, true, nil)
	got := o.all()
	wantIDs(t, got, sequence(1, 25))
	for _, g := range got {
		if g.op != connectors.Snapshot {
			t.Fatalf("a row that was there before came as %v", g.op)
		}
	}
	for _, p := range o.positions {
		if err := o.Ack(deadline(t), p.position); err != nil {
			t.Fatalf("ack: %v", err)
		}
	}
}

func (c SourceCase) readsEmpty(t *testing.T) {
	s := c.New(t)
	if got := open(t, s, true, nil).all(); len(got) != 0 {
		t.Errorf("%d changes out of an empty table", len(got))
	}
}

func (c SourceCase) resumes(t *testing.T) {
	s := c.New(t)
	s.Insert(t, sequence(1, 18)...)
	var first *opened
	t.Run("first reading", func(t *testing.T) {
		first = open(t, s, true, nil)
		wantIDs(t, first.all(), sequence(1, 18))
	})
	if first == nil || len(first.positions) == 0 {
		t.Fatal("the first reading has no position")
	}
	for i, p := range first.positions {
		t.Run("position "+strconv.Itoa(i), func(t *testing.T) {
			second := open(t, s, true, p.position).all()
			got := slices.Concat(first.seen[:p.changes], second)
			if c.Repeats {
				got = withoutRepeats(got)
			}
			wantIDs(t, got, sequence(1, 18))
		})
	}
}

// withoutRepeats drops rows of a snapshot that came before.
func withoutRepeats(list []seen) []seen {
	known := map[int]bool{}
	var out []seen
	for _, s := range list {
		if s.op != connectors.Snapshot || !known[s.id] {
			out = append(out, s)
		}
		known[s.id] = true
	}
	return out
}

func (c SourceCase) restarts(t *testing.T) {
	s := c.New(t)
	s.Insert(t, sequence(1, 6)...)
	var from connectors.Position
	next := 7
	for round := range 3 {
		t.Run("round "+strconv.Itoa(round), func(t *testing.T) {
			o := open(t, s, true, from)
			got := o.all()
			if round == 0 {
				wantIDs(t, got, sequence(1, 6))
			} else {
				wantIDs(t, got, sequence(next-3, next-1))
			}
			if o.last != nil {
				from = o.last
			}
		})
		s.Insert(t, next, next+1, next+2)
		next += 3
	}
}

func (c SourceCase) follows(t *testing.T) {
	s := c.New(t)
	s.Insert(t, 1, 2, 3)
	o := open(t, s, false, nil)
	o.until(3)
	s.Insert(t, 4, 5)
	o.until(5)
	wantIDs(t, o.seen, sequence(1, 5))
	for _, g := range o.seen[3:] {
		if g.op == connectors.Delete || g.op == connectors.Snapshot {
			t.Errorf("a new row came as %v", g.op)
		}
	}
	n := 5
	if s.Update != nil {
		s.Update(t, 2, "changed")
		n++
		o.until(n)
		if g := o.seen[n-1]; g.id != 2 || g.value != "changed" {
			t.Errorf("after the update of row 2 came %v of row %d", g.op, g.id)
		}
	}
	if s.Delete != nil {
		s.Delete(t, 3)
		n++
		o.until(n)
		if g := o.seen[n-1]; g.id != 3 || g.op != connectors.Delete {
			t.Errorf("after the delete of row 3 came %v of row %d", g.op, g.id)
		}
	}
	if o.last == nil {
		t.Fatal("no position")
	}
	if err := o.Ack(deadline(t), o.last); err != nil {
		t.Errorf("ack: %v", err)
	}
}

func (c SourceCase) cancels(t *testing.T) {
	s := c.New(t)
	s.Insert(t, 1)
	o := open(t, s, false, nil)
	o.until(1)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		for {
			if _, err := o.Read(ctx); err != nil {
				done <- err
				return
			}
		}
	}()
	cancel()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("read: %v, want the context's error", err)
		}
	case <-time.After(patience):
		t.Fatal("read goes on after its context")
	}
}

func (c SourceCase) refuses(t *testing.T) {
	s := c.New(t)
	s.Insert(t, 1)
	src, err := s.Open(deadline(t), env(t, true), connectors.Position("\x00no position of this source"))
	if err == nil {
		err = src.Close(deadline(t))
		t.Fatalf("a foreign position was taken (close: %v)", err)
	}
	if !errors.Is(err, connectors.ErrPositionLost) && !errors.Is(err, connectors.ErrFatal) {
		t.Errorf("open: %v, want ErrPositionLost or ErrFatal, for trying again cannot help", err)
	}
}
