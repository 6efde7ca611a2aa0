package mysql

import (
	"fmt"
	"strings"
	"testing"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/mysql/localserver"
)

func TestCheckNamesWhatWouldNotWork(t *testing.T) {
	t.Parallel()
	server := localserver.StartForTest(t, localserver.Options{Unsafe: true, Settings: map[string]string{"binlog-format": "MIXED", "binlog-row-image": "MINIMAL"}})
	if _, err := server.CreateDatabase(t.Context(), "odd"); err != nil {
		t.Fatal(err)
	}
	h := harnessOn(t, server, "odd", "p c loose nothing", "CREATE TABLE p (id int PRIMARY KEY)", "CREATE TABLE loose (id int) ENGINE=Aria",
		"CREATE TABLE c (id int PRIMARY KEY, p int, FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE)",
		"CREATE USER weak@'127.0.0.1'", "GRANT SELECT ON odd.* TO weak@'127.0.0.1'")
	h.config.DSN = strings.Replace(h.config.DSN, "root@", "weak@", 1)
	findings, err := check(t.Context(), h.config, h.env)
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprint(findings)
	for _, want := range []string{"GRANT REPLICATION SLAVE", "GRANT REPLICATION CLIENT", "binlog_format is MIXED", "binlog_row_image", "binlog_row_metadata",
		"table odd.c has a foreign key with ON DELETE CASCADE", "table odd.loose has no key", "nothing matches \"odd.nothing\"", "engine Aria"} {
		if !strings.Contains(text, want) {
			t.Errorf("nothing about %q in:\n%s", want, strings.ReplaceAll(text, "} {", "}\n{"))
		}
	}
	h.config.Mode = modeTimestamp
	h.config.Tables = []connectors.TableSpec{{Name: "odd.q", Query: "SELECT id, p FROM odd.c", Key: []string{"id"}, Cursor: "p"}, {Name: "odd.r", Query: "SELECT 1 FROM odd.none", Key: []string{"id"}, Cursor: "id"}}
	if findings, err = check(t.Context(), h.config, h.env); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"table odd.q its cursor p can be NULL", "table odd.r has a query that cannot be read"} {
		if text := fmt.Sprint(findings); !strings.Contains(text, want) || strings.Contains(text, "nothing matches") {
			t.Errorf("want %q in:\n%s", want, text)
		}
	}
	h.config.Mode, h.config.Tables = modeCDC, h.config.Tables[:1]
	h.config.Tables[0] = connectors.TableSpec{Name: "odd.c"}
	if err := h.tryOpen(); err == nil || !strings.Contains(err.Error(), "binlog_format") {
		t.Errorf("open: %v", err)
	}
	if findings, err = lookAtSink(t.Context(), SinkConfig{DSN: h.config.DSN, Offsets: "odd"}); err != nil || !strings.Contains(fmt.Sprint(findings), "may not write") {
		t.Errorf("sink: %v %v", findings, err)
	}
}

// A condition is tried before a run does it, on a table and on a query.
func TestCheckTriesTheConditions(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "a b", "CREATE TABLE a (id int PRIMARY KEY, u timestamp NOT NULL)", "CREATE TABLE b (id int PRIMARY KEY, u timestamp NOT NULL)")
	schema := strings.TrimSuffix(h.config.Tables[0].Name, ".a")
	h.config.Mode = modeTimestamp
	q := connectors.TableSpec{Name: schema + ".q", Query: "SELECT id, u FROM " + schema + ".a", Key: []string{"id"}, Cursor: "u"}
	wrong := q
	wrong.Name, wrong.Where, q.Where = schema+".w", "v IS NULL", "u IS NOT NULL"
	h.config.Tables = []connectors.TableSpec{{Name: schema + ".a", Cursor: "u", Where: "id > 1"}, {Name: schema + ".b", Cursor: "u", Where: "id ! 'hidden'"}, q, wrong}
	findings, err := check(t.Context(), h.config, h.env)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range findings {
		if f.Severity == connectors.Fatal {
			got = append(got, strings.ReplaceAll(f.Subject, schema, "s")+" "+f.Key+": "+f.Problem)
		}
	}
	if len(got) != 2 || !strings.HasPrefix(got[0], "table s.b tables[1].where: has a condition that cannot be read: error 1064") ||
		!strings.HasPrefix(got[1], "table s.w tables[3].where: has a condition") || !strings.Contains(got[1], "Unknown column 'v'") || strings.Contains(fmt.Sprint(got), "hidden") {
		t.Errorf("found %q", got)
	}
}

// Settings that cannot work are refused offline.
func TestSettingsAreValidated(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		change func(*SourceConfig)
		want   string
	}{
		{func(c *SourceConfig) { c.DSN = "" }, "dsn or host"},
		{func(c *SourceConfig) { c.DSN = "mysql://u:p%zz@h/d" }, "percent-encoded"},
		{func(c *SourceConfig) { c.DSN = "mysql://h/d?nonsense=1" }, "nonsense"},
		{func(c *SourceConfig) { c.Tables[0].Name = "item" }, "database.table"},
		{func(c *SourceConfig) { c.Tables = nil }, "tables"},
		{func(c *SourceConfig) { c.GTID = "maybe" }, "gtid"},
		{func(c *SourceConfig) { c.TLS = "prefer" }, "tls"},
		{func(c *SourceConfig) { c.SnapshotWorkers = 0 }, "snapshot_workers"},
		{func(c *SourceConfig) { c.Tables[0].Query = "SELECT 1" }, "belong to mode timestamp"},
		{func(c *SourceConfig) { c.Mode, c.Tables[0].Query = modeTimestamp, "SELECT 1" }, "without wildcards"},
		{func(c *SourceConfig) {
			c.Mode, c.Tables[0] = modeTimestamp, connectors.TableSpec{Name: "d.q", Query: "SELECT 1"}
		}, "cursor and key"},
		{func(c *SourceConfig) { c.Mode, c.Tables[0].Cursor, c.Deletes = modeTimestamp, "c", "maybe" }, "deletes"},
	} {
		config := DefaultSourceConfig()
		config.DSN = "mysql://u:secret@h:3306/d"
		config.Tables = []connectors.TableSpec{{Name: "d.*"}}
		if err := config.Validate(); err != nil {
			t.Fatal(err)
		}
		c.change(&config)
		if err := config.Validate(); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v, want something about %s", err, c.want)
		}
	}
}
