package sqlite

import (
	"context"
	"testing"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

func TestARowInTheFutureHidesNothing(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"%Y-%m-%d %H:%M:%f", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d"} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			f := newFile(t, "CREATE TABLE x (id INTEGER PRIMARY KEY, u TEXT NOT NULL)")
			add := func(id int, when string) { f.exec("INSERT INTO x VALUES (?, strftime(?, 'now', ?))", id, form, when) }
			spec, env := connectors.TableSpec{Name: "x", Cursor: "u", Columns: []string{"id"}}, connectors.NewEnv("shop")
			add(1, "-2 days")
			add(2, "+365 days")
			got, at := f.extract(t, env, nil, spec)
			wantLines(t, "first", got, "r 1", "r 2")
			add(3, "-1 days")
			add(4, "+30 days")
			got, at = f.extract(t, env, at, spec)
			wantLines(t, "second", got, "u 3", "u 4")
			got, _ = f.extract(t, env, at, spec)
			wantLines(t, "third", got)
		})
	}
}

func TestAClockThatIsSetBackHidesNothing(t *testing.T) {
	t.Parallel()
	f := newFile(t, "CREATE TABLE x (id INTEGER PRIMARY KEY, u TEXT NOT NULL)")
	f.exec("INSERT INTO x VALUES (1, datetime('now', '-1 hour'))")
	spec, env := connectors.TableSpec{Name: "x", Cursor: "u", Columns: []string{"id"}}, connectors.NewEnv("shop")
	_, at := f.extract(t, env, nil, spec)
	places, err := parsePosition(at)
	if err != nil {
		t.Fatal(err)
	}
	places["x"].At[0] = "t" + time.Now().UTC().Add(time.Hour).Format(time.DateTime) // what a clock that was an hour fast had left
	if at, err = formatPosition(places); err != nil {
		t.Fatal(err)
	}
	got, at := f.extract(t, env, at, spec)
	wantLines(t, "at once", got, "u 1")
	f.exec("INSERT INTO x VALUES (2, strftime('%Y-%m-%d %H:%M:%f', 'now'))")
	got, _ = f.extract(t, env, at, spec)
	wantLines(t, "after it", got, "u 2")
}

func TestACursorInAnotherZoneIsFollowed(t *testing.T) {
	t.Parallel()
	f := newFile(t, "CREATE TABLE x (id INTEGER PRIMARY KEY, u TEXT NOT NULL)")
	f.exec("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1500) INSERT INTO x SELECT i, datetime('now', '+2 hours') FROM n")
	spec, env := connectors.TableSpec{Name: "x", Cursor: "u", Columns: []string{"id"}}, connectors.NewEnv("shop")
	got, at := f.extract(t, env, nil, spec)
	f.exec("INSERT INTO x VALUES (2000, datetime('now', '+121 minutes'))")
	more, _ := f.extract(t, env, at, spec)
	if len(got) != 1500 || len(more) != 1 {
		t.Fatalf("%d and %d rows, want 1500 and 1", len(got), len(more))
	}
}

func TestNullCursorCanBeSkipped(t *testing.T) {
	t.Parallel()
	f := newFile(t, "CREATE TABLE x (id INTEGER PRIMARY KEY, u TEXT)")
	f.exec("INSERT INTO x VALUES (1, NULL), (2, '2026-01-01')")
	c := f.source(connectors.TableSpec{Name: "x", Cursor: "u", Columns: []string{"id"}})
	c.NullCursor = NullSkip
	env := connectors.NewEnv("shop")
	env.Once = true
	s, err := openSource(t.Context(), c, env, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background())
	b, err := s.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, "first", texts(b.Changes), "r 2")
}
