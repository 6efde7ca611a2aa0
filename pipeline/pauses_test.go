package pipeline

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/pipeline/ingest"
	"github.com/trunkline/trunkline/pipeline/pause"
)

var refunds = &connectors.Table{Schema: "public", Name: "refunds", Key: []int{0}, Columns: orders.Columns}

// of gives a change to another table.
func of(t *connectors.Table, c connectors.Change) connectors.Change {
	c.Table = t
	return c
}

// again runs the same configuration in a new pipeline over the same log, once the first has ended.
func (w *world) again(t *testing.T, o Options) {
	t.Helper()
	w.stop()
	<-w.done
	select {
	case err := <-w.ended:
		if err != nil {
			t.Fatal(err)
		}
	default: // the test has read it
	}
	next, err := New(w.Config(), w.journal, o)
	if err != nil {
		t.Fatal(err)
	}
	w.Pipeline, w.ended = next, make(chan error, 1)
	w.run(t)
	eventually(t, func() string { return "the pipeline does not run" }, func() bool { return w.Running() || len(w.ended) > 0 })
}

func (w *world) count(store, table string) int { return w.space.Store(store).Count(table) }

func (w *world) waitCount(t *testing.T, store, table string, n int) {
	t.Helper()
	eventually(t, func() string {
		return fmt.Sprintf("%s has %d rows of %s, want %d", store, w.count(store, table), table, n)
	},
		func() bool { return w.count(store, table) == n })
}

// table returns a condition about one table of a member.
func table(name string, cond func(TableStatus) bool) func(MemberStatus) bool {
	return func(m MemberStatus) bool {
		i := slices.IndexFunc(m.Tables, func(t TableStatus) bool { return t.Name == name })
		return i >= 0 && cond(m.Tables[i])
	}
}

func TestPauseOutlivesARestartAndAReload(t *testing.T) {
	t.Parallel()
	w := start(t, oneLine, Options{})
	source, sink := Target{Role: RoleSource, Name: "shop"}, Target{Role: RoleSink, Name: "copy"}
	w.space.Feed("shop").Append(row(1))
	w.waitRows(t, "copy", 1)
	for _, target := range []Target{source, sink} {
		if err := w.Pause(t.Context(), target); err != nil {
			t.Fatal(err)
		}
	}
	w.again(t, Options{})
	for _, target := range []Target{source, sink} {
		if m := w.member(t, target.Name, in(Paused)); m.Reason != "by a person: trunkline resume "+target.Name+" lets it go on" {
			t.Errorf("%s: reason = %q", target, m.Reason)
		}
	}
	w.space.Feed("shop").Append(row(2))
	if opened, _ := w.space.Feed("shop").Opened(); opened != 1 {
		t.Errorf("the paused source was opened %d times, want once", opened)
	}
	if err := w.Resume(t.Context(), source); err != nil {
		t.Fatal(err)
	}
	w.member(t, "copy", func(m MemberStatus) bool { return m.State == Paused && m.LagRows > 0 })
	changed := w.Config()
	changed.Sinks = slices.Clone(changed.Sinks)
	changed.Sinks[0].Digest += " changed"
	if done, err := w.Reload(t.Context(), changed); err != nil || len(done.Changed) != 1 {
		t.Fatalf("reload = %+v, %v", done, err)
	}
	w.member(t, "copy", in(Paused))
	if err := w.Resume(t.Context(), sink); err != nil {
		t.Fatal(err)
	}
	w.waitRows(t, "copy", 2)
	w.again(t, Options{})
	w.member(t, "copy", in(CaughtUp))
	w.member(t, "shop", in(CaughtUp))
}

func TestPauseWithoutADaemonHoldsFromTheNextStart(t *testing.T) {
	t.Parallel()
	w := prepare(t, oneLine, Options{Once: true})
	sink := Target{Role: RoleSink, Name: "copy"}
	if err := w.Pause(t.Context(), sink); err != nil {
		t.Fatal(err)
	}
	if s, err := w.Status(t.Context()); err != nil || s.Sinks[0].State != Paused || s.Sources[0].State != Stopped {
		t.Errorf("status = %+v, %v", s, err)
	}
	w.space.Feed("shop").Append(row(1))
	w.space.Feed("shop").End()
	w.run(t)
	if err := <-w.ended; err == nil || !strings.Contains(err.Error(), "trunkline resume copy") {
		t.Errorf("a run with an end and a paused sink ends with %v", err)
	}
	if err := w.Resume(t.Context(), sink); err != nil {
		t.Fatal(err)
	}
	w.again(t, Options{Once: true})
	if err := <-w.ended; err != nil || w.count("copy", "public.orders") != 1 {
		t.Errorf("after the resume: %v, %d rows", err, w.count("copy", "public.orders"))
	}
}

func TestPausedTableOfASourceWaitsInTheLogAndComesInOrder(t *testing.T) {
	t.Parallel()
	w := start(t, oneLine, Options{})
	feed, target := w.space.Feed("shop"), Target{Role: RoleSource, Name: "shop", Table: "public.orders"}
	feed.Append(row(1), of(refunds, row(1)))
	w.waitCount(t, "copy", "public.refunds", 1)
	w.waitRows(t, "copy", 1)
	if err := w.Pause(t.Context(), target); err != nil {
		t.Fatal(err)
	}
	gone := row(1)
	gone.Op, gone.Before, gone.After = connectors.Delete, gone.After, nil
	feed.Append(gone)
	for i := 2; i < 50; i++ {
		feed.Append(row(i), of(refunds, row(i)))
	}
	w.waitCount(t, "copy", "public.refunds", 49)
	w.waitRows(t, "copy", 1) // the delete waits too
	w.member(t, "shop", func(m MemberStatus) bool {
		return m.State != Paused && table("public.orders", func(t TableStatus) bool {
			return t.State == Paused && strings.Contains(t.Reason, "by a person; about ")
		})(m)
	})
	w.again(t, Options{})
	feed.Append(row(50), of(refunds, row(50)))
	w.waitCount(t, "copy", "public.refunds", 50)
	w.waitRows(t, "copy", 1)
	before := w.countRecords(t, "shop.public.orders")
	if err := w.Resume(t.Context(), target); err != nil {
		t.Fatal(err)
	}
	feed.Append(row(51))
	w.waitRows(t, "copy", 50)
	w.member(t, "shop", table("public.orders", func(t TableStatus) bool { return t.State != Paused }))
	// One delete and fifty rows, each once.
	if n := w.countRecords(t, "shop.public.orders") - before; n != 51 {
		t.Errorf("%d records came into the topic, want 51", n)
	}
	if _, err := w.journal.Topic(t.Context(), ingest.HeldTopic("shop", "public.orders")); !errors.Is(err, log.ErrUnknownTopic) {
		t.Errorf("the topic in which they waited: %v", err)
	}
}

// countRecords counts what a reader of committed records gets of a topic.
func (w *world) countRecords(t *testing.T, topic string) int {
	t.Helper()
	described, err := w.journal.Topic(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for i, part := range described.Partitions {
		tp := log.TopicPartition{Topic: topic, Partition: int32(i)}
		c, err := w.journal.Consumer(t.Context(), log.ConsumerOptions{Partitions: []log.TopicPartition{tp}})
		if err != nil {
			t.Fatal(err)
		}
		for next := part.LogStart; next < part.LastStable; {
			f, err := c.Poll(t.Context(), 1000)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range f.Records {
				for _, h := range r.Headers {
					if strings.HasSuffix(h.Key, ".held") {
						t.Errorf("a moved record carries %s", h.Key)
					}
				}
			}
			n += len(f.Records)
			next = f.Next
		}
		if err := c.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// TestMoveOfWaitingRecordsGoesOnWhereItWasCut ends a move in the middle, by a log without room, and before its last step.
func TestMoveOfWaitingRecordsGoesOnWhereItWasCut(t *testing.T) {
	t.Parallel()
	w := start(t, oneLine, Options{})
	feed, target := w.space.Feed("shop"), Target{Role: RoleSource, Name: "shop", Table: "public.orders"}
	feed.Append(row(0))
	w.waitRows(t, "copy", 1)
	if err := w.Pause(t.Context(), target); err != nil {
		t.Fatal(err)
	}
	const rows = 12_000 // more than one step
	batch := make([]connectors.Change, 0, rows)
	for i := 1; i <= rows; i++ {
		c := row(i) // with a note that does not compress, so that the room is filled
		c.After[1] = connectors.DataValue(connectors.Text, []byte(rand.Text()+rand.Text()+rand.Text()))
		batch = append(batch, c)
	}
	feed.Append(batch...)
	w.member(t, "shop", table("public.orders", func(t TableStatus) bool { return t.Rows == rows+1 }))
	w.disk.SetRoom(200 << 10)
	if err := w.Resume(t.Context(), target); err == nil {
		w.member(t, "shop", func(m MemberStatus) bool { return strings.Contains(m.LastError, "waited") })
	} else if !errors.Is(err, log.ErrFull) {
		t.Fatal(err)
	}
	w.disk.SetRoom(-1)
	if err := w.Resume(t.Context(), target); err != nil {
		t.Fatal(err)
	}
	w.waitRows(t, "copy", rows+1)
	if n := w.countRecords(t, "shop.public.orders"); n != rows+1 {
		t.Errorf("the topic has %d records, want %d", n, rows+1)
	}
}

func TestPausedTableOfASinkWaitsInItsTopic(t *testing.T) {
	t.Parallel()
	w := start(t, oneLine, Options{})
	feed, target := w.space.Feed("shop"), Target{Role: RoleSink, Name: "copy", Table: "public.orders"}
	feed.Append(row(1), of(refunds, row(1)))
	w.waitRows(t, "copy", 1)
	w.waitCount(t, "copy", "public.refunds", 1)
	if err := w.Pause(t.Context(), Target{Role: RoleSink, Name: "copy", Table: "public.order"}); !errors.Is(err, ErrUnknown) {
		t.Errorf("pause of a table that is not there gives %v", err)
	}
	if err := w.Pause(t.Context(), target); err != nil {
		t.Fatal(err)
	}
	feed.Append(row(2), of(refunds, row(2)))
	w.waitCount(t, "copy", "public.refunds", 2)
	m := w.member(t, "copy", func(m MemberStatus) bool { return m.LagRows > 0 && m.State == CaughtUp })
	if !table("public.orders", func(t TableStatus) bool {
		return t.State == Paused && t.Reason == "by a person: trunkline resume copy/public.orders lets it go on"
	})(m) {
		t.Errorf("tables = %+v", m.Tables)
	}
	w.again(t, Options{})
	feed.Append(of(refunds, row(3)))
	w.waitCount(t, "copy", "public.refunds", 3)
	if n := w.count("copy", "public.orders"); n != 1 {
		t.Errorf("%d rows of the paused table, want 1", n)
	}
	if err := w.Resume(t.Context(), target); err != nil {
		t.Fatal(err)
	}
	w.waitRows(t, "copy", 2)
}

func TestBookTellsTheNewestWordToEveryReader(t *testing.T) {
	t.Parallel()
	w := prepare(t, oneLine, Options{})
	mine, other := pause.New(w.journal), pause.New(w.journal)
	a, b := pause.Target{Role: "sink", Name: "a"}, pause.Target{Role: "source", Name: "b", Table: "public.<t>"}
	set := func(book *pause.Book, target pause.Target, is bool) {
		t.Helper()
		if err := book.Set(t.Context(), target, is); err != nil {
			t.Fatal(err)
		}
	}
	follow := func(book *pause.Book, news bool, want ...pause.Target) {
		t.Helper()
		got, err := book.CatchUp(context.WithoutCancel(t.Context()))
		if err != nil || got != news || !slices.Equal(book.All(), want) {
			t.Errorf("news = %v, %v; paused = %v, want %v", got, err, book.All(), want)
		}
	}
	follow(other, false)
	set(mine, a, true)
	set(mine, b, true)
	follow(other, true, a, b)
	set(other, a, false)
	follow(mine, true, b)
	follow(mine, false, b)
	if err := mine.Hold(t.Context(), b, "_trunkline.held.b"); err != nil {
		t.Fatal(err)
	}
	set(mine, b, false)
	follow(other, true)
	if !other.Waits(b) || len(other.Held("b")) != 1 {
		t.Errorf("what waits of a resumed table is forgotten: %v", other.Held("b"))
	}
	if err := other.Release(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	follow(mine, true)
	if mine.Waits(b) {
		t.Error("what was released waits still")
	}
}
