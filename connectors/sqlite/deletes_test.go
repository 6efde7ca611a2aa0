package sqlite

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

// detecting reads a bounded source that looks for deletes, as extract does.
func (f *file) detecting(env connectors.Env, from connectors.Position, spec connectors.TableSpec) ([]string, connectors.Position) {
	f.t.Helper()
	return f.detectingBy(connectors.Every(time.Nanosecond), env, from, spec)
}

func (f *file) detectingBy(every connectors.Timing, env connectors.Env, from connectors.Position, spec connectors.TableSpec) ([]string, connectors.Position) {
	f.t.Helper()
	c := f.source(spec)
	c.Deletes, c.DeletesEvery = deletesDetect, every
	s, err := openSource(f.t.Context(), c, env, from)
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() {
		if err := s.Close(context.Background()); err != nil {
			f.t.Error(err)
		}
	}()
	var out []string
	for {
		b, err := s.Read(f.t.Context())
		if errors.Is(err, io.EOF) {
			return out, from
		}
		if err != nil {
			f.t.Fatal(err)
		}
		for _, c := range b.Changes {
			row := c.After
			if c.Op == connectors.Delete {
				row = c.Before
			}
			out = append(out, string(c.Op.Code())+" "+string(connectors.AppendJSON(nil, row[0]))+" "+string(connectors.AppendJSON(nil, row[1])))
		}
		from = slices.Clone(b.Position)
		if err := s.Ack(f.t.Context(), from); err != nil {
			f.t.Fatal(err)
		}
	}
}

func TestDeletesAreDetected(t *testing.T) {
	t.Parallel()
	f := newFile(t, "CREATE TABLE x (a TEXT, b, u INTEGER NOT NULL, PRIMARY KEY (a, b)) WITHOUT ROWID")
	f.exec("INSERT INTO x VALUES ('3:a', 1, 1), ('3:a', '1', 2), ('ü', 2.5, 3), ('', x'00', 4), ('z', 'z', 5)")
	spec, env := connectors.TableSpec{Name: "x", Cursor: "u"}, connectors.NewEnv("shop")
	env.Once, env.Dir, env.Limits.BatchRows = true, t.TempDir(), 2
	var reasons []string
	env.Report = func(r connectors.Report) { reasons = append(reasons, r.Reason) }
	got, at := f.detecting(env, nil, spec)
	if len(got) != 5 {
		t.Fatalf("first: %v", got)
	}
	f.exec("DELETE FROM x WHERE u IN (2, 3, 4)")
	got, at = f.detecting(env, at, spec)
	slices.Sort(got)
	wantLines(t, "deleted", got, "d \"\" \"X'00'\"", `d "3:a" "1"`, `d "ü" "2.5"`)
	got, at = f.detecting(env, at, spec)
	wantLines(t, "again", got)
	f.exec("INSERT INTO x VALUES ('ü', 2.5, 9)")
	got, at = f.detecting(env, at, spec)
	wantLines(t, "back", got, `u "ü" "2.5"`)
	f.exec("DELETE FROM x WHERE u = 9")
	got, at = f.detecting(env, at, spec)
	wantLines(t, "gone again", got, `d "ü" "2.5"`)
	if err := os.Remove(filepath.Join(env.Dir, "keys.db")); err != nil {
		t.Fatal(err)
	}
	f.exec("DELETE FROM x WHERE u = 5")
	got, at = f.detecting(env, at, spec)
	wantLines(t, "with the keys lost", got)
	if !strings.Contains(strings.Join(reasons, ""), "keys that were known are lost") {
		t.Error("nobody heard that the keys are lost")
	}
	f.exec("DELETE FROM x")
	got, _ = f.detecting(env, at, spec)
	wantLines(t, "the last", got, `d "3:a" "1"`)
}

// nightly is due once a day at three.
type nightly struct{}

func (nightly) Next(after time.Time) time.Time {
	due := time.Date(after.Year(), after.Month(), after.Day(), 3, 0, 0, 0, after.Location())
	if !due.After(after) {
		due = due.AddDate(0, 0, 1)
	}
	return due
}

// TestDeletesHaveAScheduleOfTheirOwn: nothing is compared before it is due, and a due time that passed while no process ran is
// made up for.
func TestDeletesHaveAScheduleOfTheirOwn(t *testing.T) {
	t.Parallel()
	f := newFile(t, "CREATE TABLE x (id INTEGER PRIMARY KEY, v TEXT)", "INSERT INTO x VALUES (1, 'a'), (2, 'b'), (3, 'c')")
	env := connectors.NewEnv("shop")
	env.Once, env.Dir = true, t.TempDir()
	spec, timing := connectors.TableSpec{Name: "x"}, connectors.Timing(connectors.Every(48*time.Hour))
	got, at := f.detectingBy(timing, env, nil, spec)
	wantLines(t, "first", got, `r 1 "a"`, `r 2 "b"`, `r 3 "c"`)
	f.exec("DELETE FROM x WHERE id = 2")
	got, at = f.detectingBy(timing, env, at, spec)
	wantLines(t, "not due", got)
	places, err := parsePosition(at)
	if err != nil {
		t.Fatal(err)
	}
	places["x"].Looked -= (24 * time.Hour).Microseconds()
	if at, err = formatPosition(places); err != nil {
		t.Fatal(err)
	}
	got, at = f.detectingBy(timing, env, at, spec)
	wantLines(t, "a day later by an interval of two", got)
	got, at = f.detectingBy(nightly{}, env, at, spec)
	wantLines(t, "a day later by night", got, `d 2 null`)
	f.exec("DELETE FROM x WHERE id = 1")
	if places, err = parsePosition(at); err != nil {
		t.Fatal(err)
	}
	places["x"].Looked += (96 * time.Hour).Microseconds()
	if at, err = formatPosition(places); err != nil {
		t.Fatal(err)
	}
	got, _ = f.detectingBy(timing, env, at, spec)
	wantLines(t, "the clock was set back", got, `d 1 null`)
}
