package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/conformance"
	"github.com/trunkline/trunkline/connectors/postgres/localserver"
)

// newExtractHarness is a harness for mode timestamp whose tables have the given cursor. Each run ends by itself.
func newExtractHarness(t *testing.T, tables, cursor string, statements ...string) *harness {
	t.Helper()
	h := newHarness(t, tables, statements...)
	h.config.Mode = modeTimestamp
	h.config.Poll = 10 * time.Millisecond
	for i := range h.config.Tables {
		h.config.Tables[i].Cursor = cursor
	}
	h.env.Once = true
	return h
}

// extract makes one run and returns what it handed over.
func (h *harness) extract() string {
	h.t.Helper()
	h.changes = nil
	h.open()
	h.drain()
	h.close()
	return h.texts()
}

func TestExtractConformance(t *testing.T) {
	conformance.RunSource(t, conformance.SourceCase{New: func(t *testing.T) conformance.SourceSystem {
		db := localserver.ForTest(t)
		exec := func(t *testing.T, sql string) {
			t.Helper()
			conn, err := pgx.Connect(context.Background(), db.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(context.Background())
			if _, err := conn.Exec(context.Background(), sql); err != nil {
				t.Fatal(err)
			}
		}
		exec(t, `CREATE TABLE t (id int PRIMARY KEY, v text, at timestamptz NOT NULL DEFAULT now())`)
		config := DefaultSourceConfig()
		config.DSN, config.Mode, config.Tables = db.URL, modeTimestamp, []connectors.TableSpec{{Name: "public.t", Cursor: "at", Columns: []string{"id", "v"}}}
		config.Poll = 20 * time.Millisecond
		if err := config.Validate(); err != nil {
			t.Fatal(err)
		}
		return conformance.SourceSystem{
			Table: "public.t",
			Open: func(ctx context.Context, env connectors.Env, from connectors.Position) (connectors.Source, error) {
				return openMode(ctx, config, env, from)
			},
			Insert: func(t *testing.T, ids ...int) {
				var rows []string
				for _, id := range ids {
					rows = append(rows, fmt.Sprintf("(%d, 'v%d')", id, id))
				}
				exec(t, "INSERT INTO t VALUES "+strings.Join(rows, ", "))
			},
			Update: func(t *testing.T, id int, value string) {
				exec(t, fmt.Sprintf("UPDATE t SET v = '%s', at = now() WHERE id = %d", value, id))
			},
		}
	}})
}

// TestEqualTimestampsAcrossABatchEdge: each row comes once, after a crash in the middle of a tie too.
func TestEqualTimestampsAcrossABatchEdge(t *testing.T) {
	t.Parallel()
	h := newExtractHarness(t, "public.x", "updated_at", "CREATE TABLE x (id int PRIMARY KEY, updated_at timestamp(0))",
		"INSERT INTO x SELECT n, '2026-01-01 00:00:00' FROM generate_series(1, 10) n", "INSERT INTO x VALUES (11, '2026-01-01 00:00:01')")
	h.env.Limits.BatchRows = 4
	h.open()
	h.until("the first rows", func() bool { return len(h.changes) == 4 })
	h.exec("INSERT INTO x VALUES (0, '2026-01-01 00:00:00')") // behind the place where the next start goes on
	h.open()
	h.drain()
	if len(h.changes) != 12 {
		t.Fatalf("%d changes, want each of 12 rows once: %s", len(h.changes), h.texts())
	}
	h.wantTable("public.x", "id, to_char(updated_at, 'YYYY-MM-DD\"T\"HH24:MI:SS')", "id")
	if got := h.extract(); got != "" {
		t.Fatalf("a run without news read %s", got)
	}
}

// TestRowsThatCommitLateAreFound: whatever their cursor says.
func TestRowsThatCommitLateAreFound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, column, value, scan string }{
		{"stamped by the server", "timestamptz", "now()", ""},
		{"stamped without a zone", "timestamp", "now()::timestamp", ""},
		{"numbered by a sequence", "bigint", "nextval('s')", ""},
		{"stamped long ago", "timestamptz", "'2001-01-01'", ""},
		{"stamped in the future", "timestamptz", "now() + interval '1 year' / (1 + nextval('s'))", ""},
		{"stamped by the server, a part looked at", "timestamptz", "now()", scanNever},
		{"stamped in the future, a part looked at", "timestamptz", "now() + interval '1 year' / (1 + nextval('s'))", scanNever},
		{"stamped without a zone, a part looked at", "timestamp", "now() AT TIME ZONE 'UTC-14'", scanNever},
		{"numbered by a sequence, a part looked at", "bigint", "nextval('s')", scanNever},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newExtractHarness(t, "public.x", "c", "CREATE SEQUENCE s", "CREATE TABLE x (id int PRIMARY KEY, c "+c.column+" NOT NULL)")
			if c.scan != "" {
				h.config.Scan, h.config.Settle = c.scan, 0
				h.exec("CREATE INDEX ON x (c)")
				h.exec("INSERT INTO x VALUES (-1, " + c.value + ")")
				h.extract()
				h.exec("INSERT INTO x VALUES (-2, " + c.value + ")")
				h.extract()
			}
			late, err := pgx.Connect(context.Background(), h.dsn)
			if err != nil {
				t.Fatal(err)
			}
			defer late.Close(context.Background())
			begin := func(sql ...string) {
				for _, q := range sql {
					if _, err := late.Exec(context.Background(), q); err != nil {
						t.Fatal(err)
					}
				}
			}
			begin("BEGIN", "INSERT INTO x VALUES (1, "+c.value+")", "SAVEPOINT a", "INSERT INTO x VALUES (2, "+c.value+")")
			h.exec("INSERT INTO x VALUES (3, " + c.value + ")")
			first := h.extract()
			if strings.Count(first, " public.x -> [3 ") != 1 || len(h.changes) != 1 {
				t.Fatalf("the first run read %s", first)
			}
			begin("COMMIT")
			second := h.extract()
			if strings.Count(second, "u public.x") != 2 || len(h.changes) != 2 {
				t.Fatalf("the second run read %s", second)
			}
			if third := h.extract(); third != "" {
				t.Fatalf("the third run read %s", third)
			}
		})
	}
}

// TestMarkOfAnExtractReadsBack: and what is none is refused.
func TestMarkOfAnExtractReadsBack(t *testing.T) {
	t.Parallel()
	a, b := "2026-01-01", "7"
	m := &extractMark{System: "1", Tables: map[uint32]*tableMark{5: {Name: "public.t", Cursor: "c", First: true, At: place{&a, &b},
		Steps: []step{{To: place{nil, &b}, XID: 3}, {XID: 9}}}}}
	for _, xid := range []uint64{900, 10, 1 << 40} {
		m.Tables[5].Steps[1].Seen.add(xid)
	}
	text, err := m.encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err := parseExtractMark(text)
	if err != nil {
		t.Fatal(err)
	}
	again, err := back.encode()
	if err != nil || !bytes.Equal(text, again) {
		t.Fatalf("%s came back as %s (%v)", text, again, err)
	}
	seen := back.Tables[5].Steps[1].Seen
	if !seen.has(900) || !seen.has(1<<40) || seen.has(11) {
		t.Fatal("the set of transactions came back wrong")
	}
	for _, bad := range []string{`{}`, `{"extract":{"tables":{"1":null}}}`, `{"extract":{"tables":{"1":{"steps":[{"seen":"####"}]}}}}`, `x`} {
		if _, err := parseExtractMark([]byte(bad)); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
}

// TestStepsAreBounded: what is merged is handed over again rather than lost.
func TestStepsAreBounded(t *testing.T) {
	t.Parallel()
	var steps []step
	for i := range 3 * maxSteps {
		steps = append(steps, step{XID: uint64(100 - i)})
	}
	out := capSteps(slices.Clone(steps))
	if len(out) != maxSteps || out[0].XID > steps[len(steps)-maxSteps].XID || !out[len(out)-1].Seen.IsZero() {
		t.Fatalf("%d steps, the first %d", len(out), out[0].XID)
	}
}

func FuzzParseExtractMark(f *testing.F) {
	f.Add([]byte(`{"extract":{"system":"7","tables":{"1":{"name":"public.t","cursor":"c","at":["1",null],"steps":[{"to":["1","2"],"xid":3,"seen":"AwE="},{"xid":4}]}}}}`))
	f.Add([]byte(`{"slot":"s","system":"7","lsn":"0/1"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := parseExtractMark(text)
		if err != nil || m == nil {
			return
		}
		if _, err := m.encode(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestRowsWithoutACursor: skipped and counted, or read like the others.
func TestRowsWithoutACursor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ choice, first, second string }{
		{nullSkip, "r public.x -> [2 2026-01-01 a]", "u public.x -> [1 2026-01-02 a]"},
		{nullFirst, "r public.x -> [1 null a] | r public.x -> [3 null a] | r public.x -> [2 2026-01-01 a]",
			"u public.x -> [3 null b] | u public.x -> [1 2026-01-02 a]"},
	} {
		t.Run(c.choice, func(t *testing.T) {
			t.Parallel()
			h := newExtractHarness(t, "public.x", "c", "CREATE TABLE x (id int PRIMARY KEY, c date, v text DEFAULT 'a')",
				"INSERT INTO x VALUES (1, NULL), (2, '2026-01-01'), (3, NULL)")
			h.config.NullCursor = c.choice
			if got := h.extract(); got != c.first {
				t.Fatalf("the first run read %s", got)
			}
			h.exec("UPDATE x SET c = '2026-01-02' WHERE id = 1", "UPDATE x SET v = 'b' WHERE id = 3")
			if got := h.extract(); got != c.second {
				t.Fatalf("the second run read %s", got)
			}
			h.mu.Lock()
			defer h.mu.Unlock()
			var unseen []int64
			for _, r := range h.reports {
				if r.Unseen != nil {
					unseen = append(unseen, *r.Unseen)
				}
			}
			if c.choice == nullSkip && !slices.Equal(unseen, []int64{2, 1}) || c.choice == nullFirst && unseen != nil {
				t.Fatalf("unseen rows: %v", unseen)
			}
		})
	}
}

// TestAnExtractFollowsTheTable: its columns as they are at the moment of the run, a rewrite, and its end.
func TestAnExtractFollowsTheTable(t *testing.T) {
	t.Parallel()
	h := newExtractHarness(t, "public.x public.y", "c", "CREATE TABLE x (id int PRIMARY KEY, c int NOT NULL)", "CREATE TABLE y (c int PRIMARY KEY)",
		"INSERT INTO x VALUES (1, 1)", "INSERT INTO y VALUES (1)")
	h.env.Once = false
	h.open()
	h.untilCount(2)
	h.exec("BEGIN; ALTER TABLE x ADD v text; INSERT INTO x VALUES (2, 2, 'new'); COMMIT")
	h.untilCount(3)
	h.exec("ALTER TABLE x ALTER c TYPE bigint", "INSERT INTO x VALUES (3, 3, 'wide')") // writes every row again
	h.until("the rows of the rewritten table", func() bool { return len(h.changes) >= 6 })
	h.exec("DROP TABLE x", "INSERT INTO y VALUES (2)")
	h.until("the other table", func() bool { return strings.Contains(h.texts(), "c public.y -> [2]") })
	for _, want := range []string{"u public.x -> [2 2 new]", "u public.x -> [3 3 wide]"} {
		if !strings.Contains(h.texts(), want) {
			t.Errorf("%s is missing: %s", want, h.texts())
		}
	}
}

// TestRunsOfOneSourceNeverOverlap: in two processes either, and the lock ends with its owner.
func TestRunsOfOneSourceNeverOverlap(t *testing.T) {
	t.Parallel()
	h := newExtractHarness(t, "public.x", "c", "CREATE TABLE x (c int PRIMARY KEY)", "INSERT INTO x VALUES (1)")
	h.env.Once = false
	h.open()
	h.untilCount(1)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	other, err := openMode(ctx, h.config, h.env, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close(ctx)
	for err == nil {
		_, err = other.Read(ctx)
	}
	if !strings.Contains(err.Error(), "another process extracts") {
		t.Fatalf("the second reader got %v", err)
	}
	h.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'trunkline " + h.name + "'") // as kill -9 of its process
	third, err := openMode(ctx, h.config, h.env, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer third.Close(ctx)
	for {
		b, err := third.Read(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if len(b.Changes) > 0 {
			return
		}
	}
}

// TestAServerThatIsNotTheSame: what cannot be trusted is read again, or stops the source.
func TestAServerThatIsNotTheSame(t *testing.T) {
	t.Parallel()
	h := newExtractHarness(t, "public.x", "c", "CREATE TABLE x (c int PRIMARY KEY)", "INSERT INTO x VALUES (1)")
	h.extract()
	mark := h.mark
	for _, c := range []struct {
		name, old, new string
		lost           bool
		want           string
	}{
		{"the same", "", "", false, ""},
		{"a standby that took over", `"timeline":1`, `"timeline":7`, false, "u public.x -> [1]"},
		{"a backup", `"xid":`, `"xid":9`, true, ""},
		{"another server", `"system":"`, `"system":"9`, true, ""},
	} {
		h.mark = []byte(strings.Replace(string(mark), c.old, c.new, 1))
		h.changes = nil
		err := h.tryOpen()
		for err == nil {
			_, err = h.read()
		}
		if errors.Is(err, connectors.ErrPositionLost) != c.lost || !c.lost && !errors.Is(err, io.EOF) || h.texts() != c.want {
			t.Errorf("%s: %v, read %q", c.name, err, h.texts())
		}
	}
}

// TestCheckOfAnExtract: it names what a cursor cannot see.
func TestCheckOfAnExtract(t *testing.T) {
	t.Parallel()
	h := newExtractHarness(t, "public.*", "c", "CREATE TABLE a (id int PRIMARY KEY, c timestamptz)", "CREATE TABLE b (c int PRIMARY KEY)", "CREATE TABLE d (id int)")
	h.config.NullCursor = nullSkip
	findings, err := check(context.Background(), h.config, h.env)
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprint(findings)
	for _, want := range []string{"table public.a the cursor c may be NULL", "table public.a no index begins with the cursor c", "table public.b the cursor c is the row's own key",
		"table public.b deletes are not seen", "table public.d has no column \"c\""} {
		if !strings.Contains(text, want) {
			t.Errorf("nothing says %s: %s", want, text)
		}
	}
}

// TestAnExtractNeedsNoRightButSelect: a user that does not see the transactions of others loses nothing to them either.
func TestAnExtractNeedsNoRightButSelect(t *testing.T) {
	t.Parallel()
	h := newExtractHarness(t, "public.x", "c", "CREATE TABLE x (id int PRIMARY KEY, c timestamptz NOT NULL DEFAULT now())", "CREATE INDEX ON x (c)")
	role := "reader_" + h.name[:min(20, len(h.name))]
	h.exec("DROP ROLE IF EXISTS "+role, "CREATE ROLE "+role+" LOGIN", "GRANT SELECT ON x TO "+role)
	t.Cleanup(func() { h.exec("DROP OWNED BY "+role, "DROP ROLE "+role) })
	u, err := url.Parse(h.dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.User(role)
	h.config.DSN, h.config.Scan, h.config.Settle = u.String(), scanNever, 0
	h.exec("INSERT INTO x VALUES (1)")
	h.extract()
	h.exec("INSERT INTO x VALUES (2)")
	h.extract()
	late, err := pgx.Connect(context.Background(), h.dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close(context.Background())
	tx, err := late.Begin(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(context.Background(), "INSERT INTO public.x VALUES (3)"); err != nil {
		t.Fatal(err)
	}
	h.exec("INSERT INTO x VALUES (4)")
	first := h.extract()
	if err := tx.Commit(context.Background()); err != nil {
		t.Fatal(err)
	}
	if second := h.extract(); !strings.Contains(first, "-> [4 ") || !strings.Contains(second, "-> [3 ") {
		t.Errorf("read %q, then %q", first, second)
	}
	findings, err := check(context.Background(), h.config, h.env)
	if err != nil || !strings.Contains(fmt.Sprint(findings), "pg_read_all_stats") {
		t.Errorf("nothing names the right: %v %v", findings, err)
	}
}

// TestExtractOfUnusualTables: partitioned, without a key, with a cursor inside the key, with names that need quotes, and
// with a cursor of a type that sorts in its own way.
func TestExtractOfUnusualTables(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, create, row string }{
		{"partitioned", `CREATE TABLE x (id int, c timestamptz, PRIMARY KEY (id, c)) PARTITION BY RANGE (c); CREATE TABLE x1 PARTITION OF x FOR VALUES FROM ('2000-01-01') TO ('2026-01-01');
			CREATE TABLE x2 PARTITION OF x DEFAULT; CREATE INDEX ON x (c)`, "n, '2025-12-31 23:59:50'::timestamptz + n * interval '1 second'"},
		{"without a key", "CREATE TABLE x (id int, c int)", "n, n / 3"},
		{"cursor in the key", "CREATE TABLE x (id int, c int, PRIMARY KEY (c, id))", "n % 4, n / 4"},
		{"quoted", `CREATE TABLE x (id int, c int, "odd ""name" int GENERATED ALWAYS AS (1) STORED, PRIMARY KEY (id))`, "n, n"},
		{"text", "CREATE TABLE x (id int PRIMARY KEY, c text COLLATE \"C\")", "n, chr(64 + n % 7) || '''\\'"},
		{"numeric", "CREATE TABLE x (id int PRIMARY KEY, c numeric)", "n, CASE WHEN n = 5 THEN 'NaN' ELSE n * 0.1 END"},
		{"infinity", "CREATE TABLE x (id int PRIMARY KEY, c date)", "n, CASE WHEN n = 5 THEN 'infinity' WHEN n = 6 THEN '-infinity' ELSE '2026-01-01'::date + n END"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newExtractHarness(t, "public.x", "c", c.create, "INSERT INTO x (id, c) SELECT "+c.row+" FROM generate_series(1, 20) n")
			h.env.Limits.BatchRows = 3
			for range 12 { // each start goes on after a crash
				h.open()
				for range 2 {
					if _, err := h.read(); err != nil {
						break
					}
				}
			}
			h.open()
			h.drain()
			n := len(h.changes)
			h.wantCount(n, 20)
			h.exec("INSERT INTO x (id, c) SELECT " + c.row + " FROM generate_series(21, 30) n")
			h.open()
			h.drain()
			h.wantCount(len(h.changes)-n, 10)
		})
	}
}

// wantCount compares a number of changes.
func (h *harness) wantCount(got, want int) {
	h.t.Helper()
	if got != want {
		h.t.Fatalf("%d changes, want %d: %s", got, want, h.texts())
	}
}
