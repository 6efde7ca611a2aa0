package deliver_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/memory"
	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/pipeline/codec"
	"github.com/trunkline/trunkline/pipeline/deliver"
)

func TestKeyChangesEndAsOneRowEachAlsoAfterAReplay(t *testing.T) {
	t.Parallel()
	s := newLine(t)
	s.topics.Partitions = 8
	s.feed.Append(insert(1, "a"), insert(5, "p"), insert(6, "q"))
	s.feed.Append(rekey(1, 1001, "a"))
	s.feed.Append(insert(3, "c"), rekey(3, 4, "c"))
	s.feed.Append(rekey(5, -5, "p"), rekey(6, 5, "q"), rekey(-5, 6, "p"))
	s.ingest()
	want := map[string]string{"1001": "a", "4": "c", "5": "q", "6": "p"}
	s.mustDeliver(s.options())
	s.want(want)
	o := s.options()
	o.Group = "again" // the whole log once more into the same target
	s.mustDeliver(o)
	s.want(want)
	o.Group, o.Open = "plain", s.store.OpenPlain
	s.mustDeliver(o)
	s.want(want)
}

func TestEachRecordIsDealtWithOnceAndThePositionReachesTheEnd(t *testing.T) {
	t.Parallel()
	for name, plain := range map[string]bool{"transactional": false, "plain": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newLine(t)
			s.topics = log.TopicConfig{Partitions: 3, Compact: true} // deletes leave tombstones
			for id := range 50 {
				s.feed.Append(insert(id, "v"))
			}
			s.feed.Append(remove(0), remove(1))
			s.ingest()
			o := s.options()
			if plain {
				o.Open = s.store.OpenPlain
			}
			d := s.mustDeliver(o)
			s.want(numbered(2, 50))
			if n := len(s.store.Log()); n != 52 {
				t.Errorf("%d changes, want 52", n)
			}
			status := d.Status(t.Context())
			ends := s.ends(s.log)
			groups, err := s.log.Groups(t.Context())
			if err != nil || len(groups) != 1 || len(groups[0].Members) != 0 {
				t.Fatalf("groups %+v, %v", groups, err)
			}
			for _, p := range status.Partitions {
				if p.Next != ends[p.TopicPartition] || p.Lag != 0 || groups[0].Offsets[p.TopicPartition] != p.Next {
					t.Errorf("partition %+v, committed %d, end %d", p, groups[0].Offsets[p.TopicPartition], ends[p.TopicPartition])
				}
			}
			if len(status.Partitions) != 3 || status.LagRecords != 0 || status.LagTime != 0 {
				t.Errorf("status %+v", status)
			}
			s.mustDeliver(o)
			if n := len(s.store.Log()); n != 52 {
				t.Errorf("a second run brought the changes to %d", n)
			}
		})
	}
}

func TestThePositionOfTheTargetWins(t *testing.T) {
	t.Parallel()
	s := newLine(t)
	s.topics.Partitions = 1
	for id := range 10 {
		s.feed.Append(insert(id, "v"))
	}
	s.ingest()
	s.mustDeliver(s.options())
	tp := log.TopicPartition{Topic: itemTopic}
	if err := s.log.SetOffsets(t.Context(), "target", log.Offsets{tp: 0}); err != nil {
		t.Fatal(err)
	}
	s.mustDeliver(s.options())
	if n := len(s.store.Log()); n != 10 {
		t.Errorf("%d changes, want 10", n)
	}
	if err := deliver.Reset(t.Context(), s.options(), log.Offsets{tp: 0}); err != nil {
		t.Fatal(err)
	}
	s.mustDeliver(s.options())
	if n := len(s.store.Log()); n != 20 {
		t.Errorf("%d changes after a reset, want 20", n)
	}
}

func TestRefusedRowsBecomeDeadLettersAndTheRestLands(t *testing.T) {
	t.Parallel()
	for name, plain := range map[string]bool{"transactional": false, "plain": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newLine(t)
			s.topics.Partitions = 1
			var all []connectors.Change
			for id := range 20 {
				v := "v"
				if id == 7 || id == 8 {
					v = "poison"
				}
				all = append(all, insert(id, v))
			}
			s.feed.Append(all...)
			s.ingest()
			foreign := log.Record{Key: []byte("k"), Value: []byte("by hand")}
			if _, err := s.log.Append(t.Context(), log.TopicPartition{Topic: itemTopic}, foreign); err != nil {
				t.Fatal(err)
			}
			s.store.Refuse(func(c *connectors.Change) error {
				if len(c.After) > 1 && string(c.After[1].Data()) == "poison" {
					return errors.New("not digestible")
				}
				return nil
			})
			o := s.options()
			if plain {
				o.Open = s.store.OpenPlain
			}
			d := s.mustDeliver(o)
			want := numbered(0, 20)
			delete(want, "7")
			delete(want, "8")
			s.want(want)
			letters := s.records(deliver.DeadLetters("target"))
			if len(letters) != 3 || d.Status(t.Context()).DeadLetters != 3 {
				t.Fatalf("%d dead letters", len(letters))
			}
			got := map[string]string{}
			for _, r := range letters {
				for _, h := range r.Headers {
					got[h.Key+" "+string(r.Key)] = string(h.Value)
				}
			}
			for header, want := range map[string]string{
				deliver.HeaderLetterTopic + ` {"id":7}`:     itemTopic,
				deliver.HeaderLetterPartition + ` {"id":7}`: "0",
				deliver.HeaderLetterOffset + ` {"id":7}`:    "7",
				deliver.HeaderLetterOffset + ` {"id":8}`:    "8",
				deliver.HeaderLetterReason + ` {"id":8}`:    "not digestible",
			} {
				if got[header] != want {
					t.Errorf("%s is %q, want %q", header, got[header], want)
				}
			}
			if got[codec.HeaderSchema+` {"id":7}`] == "" || !strings.Contains(got[deliver.HeaderLetterReason+" k"], codec.HeaderSchema) {
				t.Errorf("headers %q", got)
			}
			s.mustDeliver(o)
			if n := len(s.records(deliver.DeadLetters("target"))); n != 3 {
				t.Errorf("%d dead letters after a restart", n)
			}
		})
	}
}

func TestStopOnErrorNamesTheRecord(t *testing.T) {
	t.Parallel()
	s := newLine(t)
	s.topics.Partitions = 1
	s.feed.Append(insert(1, "a"), insert(2, "secret"))
	s.ingest()
	s.store.Refuse(func(c *connectors.Change) error {
		if string(c.After[1].Data()) == "secret" {
			return errors.New("not digestible")
		}
		return nil
	})
	o := s.options()
	o.StopOnError = true
	_, err := s.deliver(o)
	if !errors.Is(err, connectors.ErrFatal) || !strings.Contains(err.Error(), itemTopic+"-0-1") || strings.Contains(err.Error(), "secret") {
		t.Errorf("error %v", err)
	}
}

func TestSinkSeesANewVersionBeforeItsRows(t *testing.T) {
	t.Parallel()
	s := newLine(t)
	s.topics.Partitions = 2
	wide := *items
	wide.Columns = append(wide.Columns[:2:2], connectors.Column{Name: "w", Kind: connectors.Text})
	for id := range 20 {
		s.feed.Append(insert(id, "v"))
	}
	for id := range 20 {
		s.feed.Append(connectors.Change{Op: connectors.Update, Table: &wide, After: append(row(id, "v"), text("w"))})
	}
	s.ingest()
	s.mustDeliver(s.options())
	steps := s.store.Migrations()
	if len(steps) != 2 || steps[0].From != nil || !steps[0].To.Equal(items) || steps[1].From != steps[0].To || !steps[1].To.Equal(&wide) {
		t.Errorf("migrations %+v", steps)
	}
}

func TestTransformChangesWhatTheSinkGets(t *testing.T) {
	t.Parallel()
	s := newLine(t)
	s.feed.Append(insert(1, "keep"), insert(2, "drop"), insert(3, "refuse"))
	s.ingest()
	o := s.options()
	o.Transform = func(_ context.Context, in []connectors.Change) (out []connectors.Change, err error) {
		for i, c := range in {
			if c.Op == connectors.Truncate {
				out = append(out, c)
				continue
			}
			switch string(c.After[1].Data()) {
			case "keep":
				c.After = row(1, "kept")
				out = append(out, c)
			case "refuse":
				return nil, &connectors.RowsError{Rows: []connectors.RowError{{Index: i, Err: errors.New("no")}}}
			}
		}
		return out, nil
	}
	s.mustDeliver(o)
	s.want(map[string]string{"1": "kept"})
	if n := len(s.records(deliver.DeadLetters("target"))); n != 1 {
		t.Errorf("%d dead letters", n)
	}
}

func TestSmallBatchesWaitForMore(t *testing.T) {
	t.Parallel()
	s := newLine(t)
	s.topics.Partitions = 1
	s.feed.Append(insert(0, "v"))
	s.ingest()
	seen := make(chan struct{})
	o := s.options()
	o.Batch.Wait = 2 * time.Second
	o.Batch.Rows = 10
	var end log.Offsets
	done := make(chan error, 1)
	looks := 0
	o.Until = func() log.Offsets { // it is asked between polls, so the first row was polled and put back by the third time
		if looks++; looks == 3 {
			for id := 1; id < 10; id++ {
				s.feed.Append(insert(id, "v"))
			}
			s.ingest()
			end = s.ends(s.log)
			close(seen)
		}
		return end
	}
	d, err := deliver.New(o)
	if err != nil {
		t.Fatal(err)
	}
	go func() { done <- d.Run(t.Context()) }()
	<-seen
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	s.want(numbered(0, 10))
	if n := s.store.Writes(); n != 1 {
		t.Errorf("%d writes, want 1", n)
	}
}

func TestStopFinishesTheBatchInHand(t *testing.T) {
	t.Parallel()
	s := newLine(t)
	s.feed.Append(insert(1, "v"))
	s.ingest()
	release := s.store.Block()
	o := s.options()
	o.Until = nil
	d, err := deliver.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	if err := s.store.Wait(t.Context(), func() bool { return s.store.Blocked() == 1 }); err != nil {
		t.Fatal(err)
	}
	if status := d.Status(t.Context()); status.WriteTakes == 0 || status.LagRecords == 0 || !status.Connected {
		t.Errorf("status %+v", status)
	}
	cancel()
	release()
	if err := <-done; err != nil {
		t.Error(err)
	}
	s.want(numbered(1, 2))
}

func TestStopDoesNotWaitForAHungSink(t *testing.T) {
	t.Parallel()
	s := newLine(t)
	s.feed.Append(insert(1, "v"))
	s.ingest()
	defer s.store.Block()()
	o := s.options()
	o.Until, o.StopTimeout = nil, 10*time.Millisecond
	d, err := deliver.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	if err := s.store.Wait(t.Context(), func() bool { return s.store.Blocked() == 1 }); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestStuckSinkDoesNotHoldUpTheOthers(t *testing.T) {
	t.Parallel()
	s := newLine(t)
	stuck := memory.NewStore()
	release := stuck.Block()
	so := s.options()
	so.Sink, so.Open = "stuck", stuck.Open
	end := make(chan log.Offsets, 1)
	var known log.Offsets
	so.Until = func() log.Offsets {
		select {
		case known = <-end:
		default:
		}
		return known
	}
	d, err := deliver.New(so)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- d.Run(t.Context()) }()
	s.feed.Append(insert(0, "v"))
	s.ingest()
	if err := stuck.Wait(t.Context(), func() bool { return stuck.Blocked() == 1 }); err != nil {
		t.Fatal(err)
	}
	for at := 1; at < 5000; at += 500 {
		var tx []connectors.Change
		for id := at; id < at+500; id++ {
			tx = append(tx, insert(id, "v"))
		}
		s.feed.Append(tx...)
	}
	s.ingest()
	s.mustDeliver(s.options())
	if n := s.store.Count("public.item"); n != 5001 {
		t.Errorf("the other sink holds %d rows", n)
	}
	if status := d.Status(t.Context()); status.LagRecords < 5000 || status.WriteTakes == 0 || status.LagTime == 0 {
		t.Errorf("the stuck sink shows %+v", status)
	}
	end <- s.ends(s.log)
	release()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if n := stuck.Count("public.item"); n != 5001 || len(stuck.Log()) != 5001 {
		t.Errorf("the stuck sink holds %d rows by %d changes", n, len(stuck.Log()))
	}
}

func TestHugeTransactionArrivesWhole(t *testing.T) {
	t.Parallel()
	s := newLine(t)
	var tx []connectors.Change
	for id := range 20000 {
		tx = append(tx, insert(id, "v"))
	}
	s.feed.Append(tx...)
	s.ingest()
	o := s.options()
	o.Batch.Rows = 700
	s.mustDeliver(o)
	if n := s.store.Count("public.item"); n != 20000 || len(s.store.Log()) != 20000 {
		t.Errorf("%d rows by %d changes", n, len(s.store.Log()))
	}
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	s := newLine(t)
	for name, spoil := range map[string]func(*deliver.Options){
		"no sink":    func(o *deliver.Options) { o.Sink = "" },
		"no topics":  func(o *deliver.Options) { o.Topics = nil },
		"no journal": func(o *deliver.Options) { o.Journal = nil },
	} {
		o := s.options()
		spoil(&o)
		if _, err := deliver.New(o); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

func TestFailureOfTheSinkEndsTheAttempt(t *testing.T) {
	t.Parallel()
	s := newLine(t)
	s.feed.Append(insert(1, "v"))
	s.ingest()
	broken := errors.New("connection lost")
	s.store.FailBefore(broken)
	if _, err := s.deliver(s.options()); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	s.store.FailAfter(fmt.Errorf("answer lost"))
	if _, err := s.deliver(s.options()); err == nil {
		t.Error("an answer that did not come is a success")
	}
	s.mustDeliver(s.options())
	if n := len(s.store.Log()); n != 1 {
		t.Errorf("%d changes, want 1", n)
	}
}

func TestMembersOfAGroupShareThePartitionsWithoutLoss(t *testing.T) {
	t.Parallel()
	s := newLine(t)
	var tx []connectors.Change
	for id := range 2000 {
		tx = append(tx, insert(id, "v"))
	}
	s.feed.Append(tx...)
	s.ingest()
	ends := s.ends(s.log)
	stores := []*memory.Store{s.store, memory.NewStore(), memory.NewStore()}
	done := make(chan error, len(stores))
	for _, store := range stores { // they join one after the other, while the first ones read
		o := s.options()
		o.Open, o.Batch.Rows = store.OpenPlain, 20
		o.Until = func() log.Offsets { return ends }
		d, err := deliver.New(o)
		if err != nil {
			t.Fatal(err)
		}
		go func() { done <- d.Run(t.Context()) }()
	}
	for range stores {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	once := map[string]int{}
	for _, store := range stores {
		for _, a := range store.Log() {
			once[fmt.Sprint(a.Stream, " ", a.Offset)]++
		}
	}
	if len(once) != 2000 {
		t.Errorf("%d changes, want 2000", len(once))
	}
	for at, n := range once {
		if n != 1 {
			t.Errorf("%s was delivered %d times", at, n)
		}
	}
}
