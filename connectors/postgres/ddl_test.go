package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/trunkline/trunkline/connectors"
)

// untilRow reads until an insert of that id has come, and returns what came until then in short: rows as their first
// value, statements as tag and objects.
func (h *harness) untilRow(id int64) []string {
	h.t.Helper()
	var out []string
	h.until(fmt.Sprintf("row %d", id), func() bool {
		out = nil
		for _, c := range h.changes {
			switch c.Op {
			case connectors.Message:
				var m struct {
					Tag, Statement string
					Objects        []struct{ Type, Name string }
				}
				if err := json.Unmarshal(c.After[1].Data(), &m); err != nil {
					h.t.Fatal(err)
				}
				if !strings.Contains(m.Statement, m.Tag) {
					h.t.Errorf("statement %q with tag %q", m.Statement, m.Tag)
				}
				out = append(out, fmt.Sprint(m.Tag, m.Objects))
			case connectors.Insert:
				out = append(out, fmt.Sprint(c.After[0].Int()))
				if c.After[0].Int() == id {
					return true
				}
			}
		}
		return false
	})
	return out
}

// With ddl: capture, each statement that changes the schema stands between the rows before and after it, in its transaction.
func TestStatementsAreCaptured(t *testing.T) {
	t.Parallel()
	for name, memory := range map[string]string{"sent at its commit": "64MB", "streamed before its commit": "64kB"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, "public.a", `CREATE TABLE a (id int PRIMARY KEY, v text)`)
			h.exec(fmt.Sprintf("ALTER DATABASE %s SET logical_decoding_work_mem = '%s'", ident(h.name), memory))
			h.config.DDL, h.config.Altered = ddlCapture, alteredWarn
			h.open()
			h.catchUp()
			h.exec(`INSERT INTO a VALUES (1)`, `ALTER TABLE a ADD c int DEFAULT 7`, `INSERT INTO a VALUES (2)`,
				`BEGIN`, `SAVEPOINT s`, `ALTER TABLE a ADD gone int`, `ROLLBACK TO s`, `CREATE TEMP TABLE private (a int)`, `INSERT INTO a VALUES (3)`,
				`UPDATE a SET v = repeat('x', 100000)`, `ALTER TABLE a RENAME c TO d`, `INSERT INTO a VALUES (4)`, `COMMIT`,
				`BEGIN`, `ALTER TABLE a ADD gone int`, `ROLLBACK`, `ALTER TABLE a DROP d`, `SELECT pg_logical_emit_message(true, 'other', 'not ours')`, `INSERT INTO a VALUES (5)`)
			want := []string{"1", "ALTER TABLE[{table public.a}]", "2", "3", "ALTER TABLE[{table column public.a.d}]", "4",
				"ALTER TABLE[{table column public.a.d}]", "ALTER TABLE[{table public.a}]", "5"}
			if got := h.untilRow(5); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%q, want\n%q", got, want)
			}
			h.open() // the triggers are there already
			h.exec(`CREATE TYPE mood AS ENUM ('sad')`, `INSERT INTO a VALUES (6)`)
			if got := h.untilRow(6); got[len(got)-2] != "CREATE TYPE[{type public.mood}]" {
				t.Errorf("%q", got)
			}
		})
	}
}

// A user who may not make event triggers is told what a superuser has to run, and that is enough.
func TestEventTriggersNeedASuperuser(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "public.a", `CREATE TABLE a (id int PRIMARY KEY)`)
	user := h.name + "_cdc"
	h.exec(`CREATE ROLE `+ident(user)+` LOGIN REPLICATION`, `GRANT CREATE ON DATABASE `+ident(h.name)+` TO `+ident(user), `ALTER TABLE a OWNER TO `+ident(user))
	t.Cleanup(func() { h.exec(`DROP OWNED BY `+ident(user)+` CASCADE`, `DROP ROLE `+ident(user)) })
	h.config.DDL = ddlCapture
	h.as(user)
	h.wantFatal("no right to make event triggers", "CREATE EVENT TRIGGER _trunkline_ddl", "superuser")
	remedy := ""
	findings, err := check(context.Background(), h.config, h.env)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		if f.Subject == "ddl" && f.Severity == connectors.Fatal {
			remedy = f.Remedy
		}
	}
	h.exec(remedy)
	h.open()
	h.catchUp()
	h.exec(`ALTER TABLE a ADD b int`, `INSERT INTO a VALUES (1)`)
	if got := h.untilRow(1); len(got) != 2 {
		t.Errorf("%q", got)
	}
}

// Every version of the protocol that the server has brings the same, with large transactions in parts and whole.
func TestProtocolVersions(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "public.a", `CREATE TABLE a (id int PRIMARY KEY, v text)`)
	h.exec(fmt.Sprintf("ALTER DATABASE %s SET logical_decoding_work_mem = '64kB'", ident(h.name)))
	h.config.Altered = alteredWarn
	var version int
	if _, err := fmt.Sscan(h.query("SELECT current_setting('server_version_num')"), &version); err != nil {
		t.Fatal(err)
	}
	for protocol := 1; protocol <= maxProtocol; protocol++ {
		for _, h.config.Streaming = range []bool{true, false} {
			h.config.Protocol = protocol
			if version < protocols[protocol] {
				h.wantFatal("a version that the server lacks", fmt.Sprintf("protocol %d needs PostgreSQL", protocol))
				continue
			}
			h.open()
			h.catchUp()
			h.exec(`BEGIN`, `INSERT INTO a SELECT i, repeat('v', 100) FROM generate_series(1, 2000) i`, `SAVEPOINT s`, `DELETE FROM a`, `ROLLBACK TO s`, `UPDATE a SET v = 'w' WHERE id = 7`, `COMMIT`)
			h.catchUp()
			h.wantTable("public.a", "id, v", "id")
			h.exec(`TRUNCATE a`)
		}
	}
}

// What the stream does not carry of a table is said by check, with the names of the columns.
func TestCheckNamesTheColumnsThatTheStreamLeavesOut(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "public.*", tablesWithBig, `ALTER TABLE doc ADD size int GENERATED ALWAYS AS (length(big)) STORED, ADD twice int GENERATED ALWAYS AS (n * 2) STORED`,
		`INSERT INTO doc (id, n, big) VALUES (1, 1, repeat('x', 10000))`,
		`CREATE TYPE mood AS ENUM ('sad')`, `CREATE TABLE person (id int PRIMARY KEY, feels mood[], name text)`,
		`CREATE TABLE ev (id int PRIMARY KEY) PARTITION BY RANGE (id)`, `CREATE TABLE plain (id int PRIMARY KEY, v text)`)
	findings, err := check(context.Background(), h.config, h.env)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"table public.doc: an update that leaves a large value as it is does not carry it; records name such columns in unchanged: big, arr",
		"table public.doc: generated columns cannot be computed for an update that leaves a large value as it is which they are made of, and count as unchanged then: size",
		"table public.person: the stream does not carry a renamed label of an enum or another attribute of a composite type, which the table is read anew for: feels",
		"table public.ev: the stream does not carry rows that come with ATTACH PARTITION, or go with DETACH or DROP of a partition"} {
		if !slices.ContainsFunc(findings, func(f connectors.Finding) bool { return f.Subject+": "+f.Problem == want && f.Remedy != "" }) {
			t.Errorf("nothing says %q: %+v", want, findings)
		}
	}
	if i := slices.IndexFunc(findings, func(f connectors.Finding) bool { return f.Subject == "table public.plain" }); i >= 0 {
		t.Errorf("a table that is carried whole: %+v", findings[i])
	}
}
