package memory_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/memory"
)

var errBroken = errors.New("broken")

func insertOf(id int, v string) connectors.Change {
	return connectors.Change{Op: connectors.Insert, Table: item, After: row(id, v), Time: time.Unix(0, 0)}
}

func TestFeedFaults(t *testing.T) {
	t.Parallel()
	ctx := t.Context()

	t.Run("a batch that is kept too long is spoiled", func(t *testing.T) {
		t.Parallel()
		feed := memory.NewFeed()
		feed.Append(insertOf(1, "one"))
		feed.Append(insertOf(2, "two"))
		s, err := feed.Open(ctx, connectors.NewEnv("x"), nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := s.Read(ctx)
		if err != nil {
			t.Fatal(err)
		}
		kept := b.Changes[0].After[1].Data()
		if string(kept) != "one" {
			t.Fatalf("read %q", kept)
		}
		if _, err := s.Read(ctx); err != nil {
			t.Fatal(err)
		}
		if string(kept) != "???" {
			t.Errorf("after the next read the old batch still says %q", kept)
		}
	})

	t.Run("a large transaction comes in pieces and only its end is a position", func(t *testing.T) {
		t.Parallel()
		feed := memory.NewFeed()
		feed.Append(insertOf(1, "a"), insertOf(2, "b"), insertOf(3, "c"))
		feed.End()
		env := connectors.NewEnv("x")
		env.Limits.BatchRows = 2
		s, err := feed.Open(ctx, env, nil)
		if err != nil {
			t.Fatal(err)
		}
		first, err1 := s.Read(ctx)
		n, inside := len(first.Changes), first.Position
		second, err2 := s.Read(ctx)
		_, err3 := s.Read(ctx)
		if n != 2 || inside != nil || len(second.Changes) != 1 || string(second.Position) != "3" || err1 != nil || err2 != nil || !errors.Is(err3, io.EOF) {
			t.Errorf("%d changes at %q, %d at %q, %v %v %v", n, inside, len(second.Changes), second.Position, err1, err2, err3)
		}
	})

	t.Run("openings and reads fail on demand, once for each call", func(t *testing.T) {
		t.Parallel()
		feed := memory.NewFeed()
		feed.FailOpen(errBroken)
		if _, err := feed.Open(ctx, connectors.NewEnv("x"), nil); !errors.Is(err, errBroken) {
			t.Errorf("open: %v", err)
		}
		feed.FailRead(errBroken)
		s, err := feed.Open(ctx, connectors.NewEnv("x"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Read(ctx); !errors.Is(err, errBroken) {
			t.Errorf("read: %v", err)
		}
		feed.Append(insertOf(1, "a"))
		if b, err := s.Read(ctx); err != nil || len(b.Changes) != 1 {
			t.Errorf("the next read: %d changes, %v", len(b.Changes), err)
		}
		if times, now := feed.Opened(); times != 1 || now != 1 {
			t.Errorf("opened %d times, %d now", times, now)
		}
	})

	t.Run("a lost position says so", func(t *testing.T) {
		t.Parallel()
		feed := memory.NewFeed()
		first := feed.Append(insertOf(1, "a"))
		feed.Lose(feed.Append(insertOf(2, "b")))
		if _, err := feed.Open(ctx, connectors.NewEnv("x"), first); !errors.Is(err, connectors.ErrPositionLost) {
			t.Errorf("open: %v", err)
		}
	})

	t.Run("a paused feed goes on when it is resumed", func(t *testing.T) {
		t.Parallel()
		feed := memory.NewFeed()
		feed.Append(insertOf(1, "a"))
		feed.Pause()
		s, err := feed.Open(ctx, connectors.NewEnv("x"), nil)
		if err != nil {
			t.Fatal(err)
		}
		read := make(chan error, 1)
		go func() {
			_, err := s.Read(ctx)
			read <- err
		}()
		select {
		case err := <-read:
			t.Fatalf("a paused feed was read: %v", err)
		default:
		}
		feed.Resume()
		if err := <-read; err != nil {
			t.Error(err)
		}
	})
}

func TestStoreFaults(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	batch := connectors.Batch{Stream: "x/0", Changes: []connectors.Change{insertOf(1, "a")}, Position: connectors.Position("1")}
	open := func(t *testing.T, store *memory.Store) connectors.Sink {
		t.Helper()
		s, err := store.Open(ctx, connectors.NewEnv("x"))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}

	t.Run("an error before the commit leaves nothing, one after it everything", func(t *testing.T) {
		t.Parallel()
		store := memory.NewStore()
		s := open(t, store)
		store.FailBefore(errBroken)
		if err := s.Write(ctx, batch); !errors.Is(err, errBroken) || store.Writes() != 0 || store.Position("x", "x/0") != nil {
			t.Errorf("%v with %d writes", err, store.Writes())
		}
		store.FailAfter(errBroken)
		if err := s.Write(ctx, batch); !errors.Is(err, errBroken) || store.Count("shop.item") != 1 || string(store.Position("x", "x/0")) != "1" {
			t.Errorf("%v with %d rows", err, store.Count("shop.item"))
		}
		if err := s.Write(ctx, batch); err != nil || len(store.Log()) != 2 {
			t.Errorf("%v with %d changes applied; the log shows what was applied twice", err, len(store.Log()))
		}
	})

	t.Run("a blocked write goes on when it is released and ends with its context", func(t *testing.T) {
		t.Parallel()
		store := memory.NewStore()
		s := open(t, store)
		release := store.Block()
		cancelled, cancel := context.WithCancel(ctx)
		wrote := make(chan error, 1)
		go func() { wrote <- s.Write(cancelled, batch) }()
		if err := store.Wait(ctx, func() bool { return store.Blocked() == 1 }); err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := <-wrote; !errors.Is(err, context.Canceled) || store.Writes() != 0 {
			t.Errorf("%v with %d writes", err, store.Writes())
		}
		go func() { wrote <- s.Write(ctx, batch) }()
		if err := store.Wait(ctx, func() bool { return store.Blocked() == 1 }); err != nil {
			t.Fatal(err)
		}
		release()
		if err := <-wrote; err != nil || store.Writes() != 1 {
			t.Errorf("%v with %d writes", err, store.Writes())
		}
	})
}

func TestSpace(t *testing.T) {
	t.Parallel()
	space := memory.NewSpace()
	c := space.Connector()
	open, err := c.Sink(func(into any) error {
		into.(*memory.SinkConfig).Store = "there"
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := open(t.Context(), connectors.NewEnv("by another name"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Write(t.Context(), connectors.Batch{Changes: []connectors.Change{insertOf(1, "a")}}); err != nil {
		t.Fatal(err)
	}
	if n := space.Store("there").Count("shop.item"); n != 1 {
		t.Errorf("%d rows in the named store, want 1", n)
	}
}
