package postgres

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

// TestDeletesAreDetected: with keys of several columns and of types whose text is not what a cast gives.
func TestDeletesAreDetected(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, columns, row, third, seventh string }{
		{"a number", "id int PRIMARY KEY, v text", "n, 'v'", "[3 ~ ~]", "[7 ~ ~]"},
		{"padded text", "id char(5) PRIMARY KEY, v text", "'ü' || n, 'v'", "[ü3    ~ ~]", "[ü7    ~ ~]"},
		{"two columns", "id text, b boolean, PRIMARY KEY (b, id)", "'3:a' || n, n > 5", "[3:a3 false ~]", "[3:a7 true ~]"},
		{"a time", "id timestamptz PRIMARY KEY, v text", "'2026-01-01 00:00:00.5+01'::timestamptz + n * interval '1 day', 'v'",
			"[2026-01-03T23:00:00.5Z ~ ~]", "[2026-01-07T23:00:00.5Z ~ ~]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newExtractHarness(t, "public.x", "c", "CREATE TABLE x (c int NOT NULL, "+c.columns+")", "ALTER TABLE x RENAME c TO d",
				"ALTER TABLE x ADD c int NOT NULL DEFAULT 1, DROP d", "INSERT INTO x SELECT "+c.row+", n FROM generate_series(1, 20) n")
			h.config.Deletes, h.config.DeletesEvery = deletesDetect, connectors.Every(time.Nanosecond)
			h.extract()
			h.exec("DELETE FROM x WHERE c IN (3, 7)")
			got := h.extract()
			if len(h.changes) != 2 || !strings.Contains(got, "d public.x "+c.third) || !strings.Contains(got, "d public.x "+c.seventh) {
				t.Errorf("the run after the deletes read %s", got)
			}
			if again := h.extract(); again != "" {
				t.Errorf("the next run read %s", again)
			}
		})
	}
}

// TestDeletesAreExactAfterACrash: at each position.
func TestDeletesAreExactAfterACrash(t *testing.T) {
	t.Parallel()
	h := newExtractHarness(t, "public.x", "c", "CREATE TABLE x (id int PRIMARY KEY, c int NOT NULL DEFAULT 0)", "INSERT INTO x SELECT generate_series(1, 100)")
	h.config.Deletes, h.config.DeletesEvery = deletesDetect, connectors.Every(time.Nanosecond)
	h.env.Limits.BatchRows = 7
	h.open()
	for range 20 { // no position is acknowledged: each start has the store of the one before
		h.noAck = true
		if _, err := h.read(); err != nil {
			break
		}
		h.open()
	}
	h.noAck = false
	h.exec("DELETE FROM x WHERE id % 2 = 0")
	h.open()
	for range 3 {
		if _, err := h.read(); err != nil {
			t.Fatal(err)
		}
	}
	h.exec("INSERT INTO x VALUES (2), (4), (100)", "DELETE FROM x WHERE id = 1")
	h.open() // in the middle of the deletes
	h.drain()
	h.open()
	h.drain()
	h.wantTable("public.x", "id, c", "id")
	h.close()
	if err := os.Remove(filepath.Join(h.env.Dir, "keys.db")); err != nil {
		t.Fatal(err)
	}
	h.exec("DELETE FROM x WHERE id = 3")
	h.extract()
	told := false
	for _, r := range h.reports {
		told = told || strings.Contains(r.Reason, "keys that were known are lost")
	}
	if !told {
		t.Error("nobody heard that the keys are lost")
	}
	h.exec("DELETE FROM x WHERE id = 5")
	if got := h.extract(); got != "d public.x [5 ~]" {
		t.Errorf("after the keys were read anew: %s", got)
	}
	if h.changes[0].Op != connectors.Delete {
		t.Error("it is no delete")
	}
}

// once is due at a moment and never again.
type once time.Time

func (o once) Next(after time.Time) time.Time {
	if due := time.Time(o); due.After(after) {
		return due
	}
	return time.Time{}
}

// TestDeletesHaveAScheduleOfTheirOwn: nothing is compared before it is due, nor again when that is over.
func TestDeletesHaveAScheduleOfTheirOwn(t *testing.T) {
	t.Parallel()
	h := newExtractHarness(t, "public.x", "id", "CREATE TABLE x (id int PRIMARY KEY)", "INSERT INTO x SELECT generate_series(1, 5)")
	h.config.Deletes, h.config.DeletesEvery = deletesDetect, once(time.Now().Add(time.Hour))
	h.extract()
	h.exec("DELETE FROM x WHERE id = 2")
	if got := h.extract(); got != "" {
		t.Errorf("before it was due: %s", got)
	}
	h.config.DeletesEvery = once(time.Now()) // after the rows were handed over, and before the run
	if got := h.extract(); got != "d public.x [2]" {
		t.Errorf("when it was due: %s", got)
	}
	h.exec("DELETE FROM x WHERE id = 3")
	if got := h.extract(); got != "" {
		t.Errorf("when it was over: %s", got)
	}
}
