package postgres

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

// wrongQueries are queries that no second try helps, and what has to be said of them.
var wrongQueries = []struct{ name, query, cursor, key, want string }{
	{"a syntax error", "SELEC id, n FROM public.o", "n", "id", "syntax error"},
	{"a column that is missing", "SELECT id, nothing FROM public.o", "n", "id", `column "nothing" does not exist`},
	{"a table that is missing", "SELECT id, n FROM public.nowhere", "n", "id", `relation "public.nowhere" does not exist`},
	{"no cursor in the result", "SELECT id FROM public.o", "n", "id", `no column "n", which cursor names`},
	{"no key in the result", "SELECT n FROM public.o", "n", "id", `no column "id", which key names`},
}

// A query that cannot be read is a failure at the check and at the start that says what to correct, and one beside it is
// read all the same. A server that is away is none.
func TestAWrongQueryIsAFailure(t *testing.T) {
	t.Parallel()
	h := newExtractHarness(t, "public.o", "n", "CREATE TABLE o (id int PRIMARY KEY, n bigint NOT NULL)", "INSERT INTO o VALUES (1, 1)")
	good := h.config.Tables[0]
	for _, c := range wrongQueries {
		t.Run(c.name, func(t *testing.T) {
			wrong := connectors.TableSpec{Name: "public.q", Query: c.query, Cursor: c.cursor, Key: []string{c.key}}
			h.close()
			h.mark, h.changes, h.reports = nil, nil, nil
			h.config.Tables = []connectors.TableSpec{wrong}
			h.wantFinding("table public.q", c.want)
			err := h.tryOpen()
			if !errors.Is(err, connectors.ErrFatal) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "public.q") || !strings.Contains(err.Error(), "correct ") {
				t.Errorf("alone: %v, want one that is final, says %q and what to correct", err, c.want)
			}
			h.config.Tables = []connectors.TableSpec{wrong, good}
			h.open()
			h.drain()
			if got := h.texts(); got != "r public.o -> [1 1]" {
				t.Errorf("beside it was read: %s", got)
			}
			h.wantFailed("public.q", c.want)
		})
	}
	h.config.Tables = []connectors.TableSpec{{Name: "public.q", Query: "SELECT id, n FROM public.o -- as it is", Cursor: "n", Key: []string{"id"}}}
	if findings, err := check(t.Context(), h.config, h.env); err != nil || strings.Contains(fmt.Sprint(findings), "fatal") {
		t.Errorf("a query that is right: %v %v", findings, err)
	}
	h.config.DSN = "postgres://nobody@127.0.0.1:1/nothing"
	if err := h.tryOpen(); err == nil || errors.Is(err, connectors.ErrFatal) {
		t.Errorf("no server: %v, want an error that is tried again", err)
	}
}

// A query that breaks while the source runs stops alone, and goes on where it was once it is right again.
func TestAQueryThatBreaksLater(t *testing.T) {
	t.Parallel()
	h := newExtractHarness(t, "public.o", "n", "CREATE TABLE o (id int PRIMARY KEY, n bigint NOT NULL)", "CREATE TABLE p (id int PRIMARY KEY, n bigint NOT NULL)",
		"INSERT INTO o VALUES (1, 1)", "INSERT INTO p VALUES (1, 1)")
	h.config.Tables = append(h.config.Tables, connectors.TableSpec{Name: "public.q", Query: "SELECT id, n FROM public.p", Cursor: "n", Key: []string{"id"}})
	h.config.Settle = 0
	h.env.Once = false
	h.open()
	h.until("both", func() bool {
		return strings.Contains(h.texts(), "public.q -> [1 1]") && strings.Contains(h.texts(), "public.o -> [1 1]")
	})
	h.exec("ALTER TABLE p RENAME TO away", "INSERT INTO o VALUES (2, 2)", "INSERT INTO away VALUES (2, 2)")
	h.until("the other table", func() bool { return strings.Contains(h.texts(), "public.o -> [2 2]") })
	h.until("the failure", func() bool { return h.failed("public.q") != "" })
	h.wantFailed("public.q", `relation "public.p" does not exist`)
	h.exec("ALTER TABLE away RENAME TO p")
	h.open()
	h.until("its new row", func() bool { return strings.Contains(h.texts(), "public.q -> [2 2]") })
	if n := strings.Count(h.texts(), "public.q -> [1 1]"); n != 1 {
		t.Errorf("its first row came %d times: %s", n, h.texts())
	}
}

// A condition is tried before a run does it, on a table and on a query.
func TestCheckTriesTheConditions(t *testing.T) {
	t.Parallel()
	h := newExtractHarness(t, "public.a", "u", "CREATE TABLE a (id int PRIMARY KEY, u bigint NOT NULL)", "CREATE TABLE b (id int PRIMARY KEY, u bigint NOT NULL)", "CREATE TABLE c (id int PRIMARY KEY, u bigint NOT NULL)")
	q := connectors.TableSpec{Name: "public.q", Query: "SELECT id, u FROM public.a", Key: []string{"id"}, Cursor: "u"}
	wrong := q
	wrong.Name, wrong.Where, q.Where = "public.w", "v IS NULL", "u IS NOT NULL"
	table := func(name, where string) connectors.TableSpec {
		return connectors.TableSpec{Name: name, Cursor: "u", Where: where}
	}
	h.config.Tables = []connectors.TableSpec{table("public.a", "id > 1"), table("public.b", "id = 'hidden'"), table("public.c", "id ~~~ 'hidden"), q, wrong}
	findings, err := check(t.Context(), h.config, h.env)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"table public.b tables[1].where": "a value in it is not of the type that it is compared with (SQLSTATE 22P02)",
		"table public.c tables[2].where": "unterminated quoted string (SQLSTATE 42601)",
		"table public.w tables[4].where": `column "v" does not exist`,
	}
	for _, f := range findings {
		if f.Severity != connectors.Fatal {
			continue
		}
		at := f.Subject + " " + f.Key
		if w, known := want[at]; !known || !strings.Contains(f.Problem, w) || !strings.Contains(f.Remedy, "where") || strings.Contains(f.Problem, "hidden") {
			t.Errorf("%s: %s; %s", at, f.Problem, f.Remedy)
		}
		delete(want, at)
	}
	if len(want) > 0 {
		t.Errorf("nothing is said of %v", want)
	}
}

// wantFinding checks that check finds something fatal about a subject.
func (h *harness) wantFinding(subject, want string) {
	h.t.Helper()
	findings, err := check(h.t.Context(), h.config, h.env)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, f := range findings {
		if f.Subject == subject && f.Severity == connectors.Fatal && strings.Contains(f.Problem, want) && f.Remedy != "" {
			return
		}
	}
	h.t.Errorf("check does not say of %s that %s: %+v", subject, want, findings)
}

// failed is why a table has stopped; empty: it has not.
func (h *harness) failed(table string) (reason string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.reports {
		if r.Table == table && r.Phase == connectors.PhaseFailed {
			reason = r.Reason
		}
	}
	return reason
}

func (h *harness) wantFailed(table, want string) {
	h.t.Helper()
	if got := h.failed(table); !strings.Contains(got, want) {
		h.t.Errorf("%s has failed because %q, want %q", table, got, want)
	}
}

// TestAClockThatWasSetBack: a table is too large for a run to look at all of it, and so it looks from the floor on. If the
// server's clock stands before the last run, rows may be stamped below the floor, and the run looks at all.
func TestAClockThatWasSetBack(t *testing.T) {
	t.Parallel()
	for _, scan := range []string{scanAuto, scanNever} {
		t.Run(scan, func(t *testing.T) {
			t.Parallel()
			h := newExtractHarness(t, "public.x", "c", "CREATE TABLE x (id int PRIMARY KEY, c timestamptz NOT NULL DEFAULT now(), big text)", "ALTER TABLE x ALTER big SET STORAGE PLAIN", "CREATE INDEX ON x (c)",
				"INSERT INTO x (id, big) SELECT n, repeat('v', 7000) FROM generate_series(1, 2600) n") // more than scanLeast
			h.config.Scan, h.config.Settle, h.config.Tables[0].Columns = scan, 0, []string{"id"}
			h.extract()
			h.untilFloor("public.x")
			h.exec("INSERT INTO x (id, c) VALUES (-1, now() - interval '1 hour')") // as a clock stamps that was set back
			if got := h.extract(); scan == scanNever && got != "" {
				t.Errorf("a run that looks at a part, and whose clock runs on, has read %s", got)
			}
			h.setClock("public.x", 2*3600*1_000_000) // so that now lies before the last run
			h.exec("INSERT INTO x (id, c) VALUES (-2, now() - interval '1 hour')")
			got, want := h.extract(), "-2"
			if scan == scanNever {
				want = ""
			}
			if strings.Contains(got, "[-2]") != (want != "") {
				t.Errorf("after the clock was set back: %q", got)
			}
			if again := h.extract(); again != "" {
				t.Errorf("the run after it has read %s", again)
			}
		})
	}
}

// untilFloor runs until a run may look at a part of the table. It rises at the run after the first, unless a transaction is open
// anywhere on the server, of another test too.
func (h *harness) untilFloor(table string) {
	h.t.Helper()
	for deadline := time.Now().Add(patience); h.floor(table).Floor == nil; {
		if time.Now().After(deadline) {
			h.t.Fatal("there is no floor: the runs do not look at a part")
		}
		h.extract()
	}
}

// floor is the mark of a table.
func (h *harness) floor(table string) *tableMark {
	h.t.Helper()
	m, err := parseExtractMark(h.mark)
	if err != nil || m == nil {
		h.t.Fatalf("mark %s: %v", h.mark, err)
	}
	for _, t := range m.Tables {
		if t.Name == table {
			return t
		}
	}
	h.t.Fatalf("mark %s has no table %s", h.mark, table)
	return nil
}

// setClock moves the clock that the last run of a table saw by microseconds.
func (h *harness) setClock(table string, by int64) {
	h.t.Helper()
	m, err := parseExtractMark(h.mark)
	if err != nil || m == nil {
		h.t.Fatalf("mark %s: %v", h.mark, err)
	}
	for _, t := range m.Tables {
		if t.Name == table {
			t.Clock += by
		}
	}
	if h.mark, err = m.encode(); err != nil {
		h.t.Fatal(err)
	}
}
