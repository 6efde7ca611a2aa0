package endtoend

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// planned is what plan --json prints, as far as tests look at it.
type planned struct {
	Running   bool `json:"running"`
	Connected bool `json:"connected"`
	Create    int  `json:"create"`
	Change    int  `json:"change"`
	Leave     int  `json:"leave"`
	Keep      int  `json:"keep"`
	Steps     []struct {
		Action, Kind, Name, Of, Detail string
	} `json:"steps"`
	Findings []struct {
		Role, Name, Severity, Subject, Problem, Remedy string
	} `json:"findings"`
	Problems []string `json:"problems"`
}

// plansOnly runs plans, which has to leave what the servers hold as it is.
func plansOnly(t *testing.T, l *line, code int, holds func() []string) planned {
	t.Helper()
	before := holds()
	p := plans(t, l, code)
	if after := holds(); !slices.Equal(before, after) {
		t.Errorf("plan changed a server:\n%q\n%q", before, after)
	}
	return p
}

// plans calls plan --connect --json and returns what it prints.
func plans(t *testing.T, l *line, code int) planned {
	t.Helper()
	got, out := l.run("plan", "--connect", "--json")
	if got != code {
		t.Fatalf("plan ended with %d, want %d: %s", got, code, out)
	}
	var p planned
	text, _, _ := strings.Cut(out, "\n}\n") // the error, if any, stands behind it
	if err := json.Unmarshal([]byte(text+"\n}"), &p); err != nil {
		t.Fatalf("plan printed %q: %v", out, err)
	}
	sum := map[string]int{}
	for _, s := range p.Steps {
		sum[s.Action]++
	}
	if !p.Connected || p.Create != sum["create"] || p.Change != sum["change"] || p.Leave != sum["leave"] || p.Keep != sum["keep"] {
		t.Errorf("plan counts %+v of %v", p, sum)
	}
	return p
}

// has reports an error unless the plan has the steps, each "action kind name" and, behind a colon, part of its detail.
func (p planned) has(t *testing.T, steps ...string) {
	t.Helper()
	for _, want := range steps {
		step, detail, _ := strings.Cut(want, ": ")
		if !slices.ContainsFunc(p.Steps, func(s struct{ Action, Kind, Name, Of, Detail string }) bool {
			return s.Action+" "+s.Kind+" "+s.Name == step && strings.Contains(s.Detail, detail)
		}) {
			t.Errorf("the plan has no step %q:\n%+v", want, p.Steps)
		}
	}
}

// What plan --connect foresees of PostgreSQL is what the next start does there, and plan itself changes nothing.
func TestPlanLooksIntoPostgres(t *testing.T) {
	t.Parallel()
	source, target := newServerDatabase(t, map[string]string{"max_replication_slots": "1"}), newDatabase(t)
	source.exec("CREATE TABLE item (id int PRIMARY KEY, note text)", "CREATE TABLE more (id int PRIMARY KEY)", "CREATE TABLE loose (id int)",
		"INSERT INTO item SELECT i, 'a' FROM generate_series(1, 3) i", "ANALYZE item")
	// What both servers hold that a source or a sink could have made.
	holds := func() []string {
		const query = `SELECT 'slot ' || slot_name FROM pg_replication_slots WHERE database = current_database()
			UNION ALL SELECT 'publication ' || p.oid || ' ' || pubname || coalesce(obj_description(p.oid, 'pg_publication'), '') FROM pg_publication p
			UNION ALL SELECT 'published ' || pubname || ' ' || tablename FROM pg_publication_tables
			UNION ALL SELECT 'trigger ' || evtname FROM pg_event_trigger
			UNION ALL SELECT 'class ' || oid::regclass || ' ' || xmin FROM pg_class WHERE relpersistence <> 't' AND (relnamespace >= 16384 OR relnamespace = 'public'::regnamespace)
			UNION ALL SELECT 'schema ' || nspname FROM pg_namespace WHERE oid >= 16384 AND nspname !~ '^pg_' ORDER BY 1`
		return slices.Concat(source.list(query), target.list(query))
	}
	shop := func(more ...string) string { return postgresSource(source, "shop", more...) }
	plan := func(l *line, code int) planned {
		t.Helper()
		return plansOnly(t, l, code, holds)
	}

	slot := slotOf(source)
	sink := postgresSink(target, "replica", `table: "copy.{table}"`)
	l := newLine(t, shop("tables: [public.item]", "publication: pub_plan", "ddl: capture"), sink)
	p := plan(l, 0)
	p.has(t, "create source shop", "create sink replica", "create group replica", "create topic shop.public.item: about 3 rows",
		"create slot "+slot+": the server keeps WAL from then on", "create publication pub_plan: for 1 tables", "create event trigger _trunkline_ddl",
		"create table public._trunkline_offsets", "create schema copy", "create table copy.item")
	if p.Running || len(p.Findings)+len(p.Problems) > 0 {
		t.Errorf("before the first start: %+v", p)
	}

	// With a daemon that did all of it, nothing is left to do.
	l.start()
	eventually(t, "the rows are in the target", func() bool { return len(target.list("SELECT 'x' FROM copy.item")) == 3 })
	p = plan(l, 0)
	if !p.Running || p.Create+p.Change+p.Leave > 0 {
		t.Errorf("of what runs: %+v", p)
	}
	p.has(t, "keep slot "+slot, "keep publication pub_plan", "keep event trigger _trunkline_ddl", "keep table copy.item", "keep topic shop.public.item")

	// Another list of tables, of which one could not be captured, and a target that lacks a column.
	target.exec("ALTER TABLE copy.item DROP COLUMN note")
	l.configure(shop("tables: [public.item, public.more, public.loose]", "publication: pub_plan", "ddl: capture"), sink)
	p = plan(l, 1)
	p.has(t, "change source shop: settings tables", "change publication pub_plan: adds public.more", "create topic shop.public.more", "create table copy.more",
		"change table copy.item: adds note")
	if len(p.Findings) != 1 || p.Findings[0].Subject != "table public.loose" || p.Findings[0].Severity != "error" || p.Findings[0].Remedy == "" {
		t.Errorf("a table without a key: %+v", p.Findings)
	}
	if code, out := l.run("plan", "--connect"); code != 1 || !strings.Contains(out, "would not work: source shop: table public.loose: ") {
		t.Errorf("plan ended with %d: %s", code, out)
	}

	// Fewer tables, another slot where the server has room for one only, a target that may not be made.
	l.configure(shop("tables: [public.more]", "publication: pub_plan", "slot: second_plan", "ddl: capture"), postgresSink(target, "replica", `table: "copy.{table}"`, "schema: freeze"))
	p = plan(l, 1)
	p.has(t, "create slot second_plan", "leave slot "+slot+": it stays on the server", "change publication pub_plan: adds public.more; takes away 1 tables",
		"leave topic shop.public.item", "keep table copy.more: with schema: freeze it is not made")
	if !slices.ContainsFunc(p.Findings, func(f struct{ Role, Name, Severity, Subject, Problem, Remedy string }) bool {
		return f.Subject == "max_replication_slots"
	}) {
		t.Errorf("a slot too many: %+v", p.Findings)
	}

	// A server that does not answer is asked once, and the rest is told.
	l.configure(shop("tables: [public.item]", "publication: pub_plan", "ddl: capture"), postgresSink(target, "replica", `table: "copy.{table}"`)+
		fmt.Sprintf("  away:\n    type: postgres\n    dsn: postgres://nobody:s3cret@%s/none\n    topics: [\"*\"]\n", freeAddress(t)))
	p = plan(l, 1)
	p.has(t, "create sink away", "keep slot "+slot)
	if len(p.Problems) != 1 || !strings.HasPrefix(p.Problems[0], "sink away: ") || strings.Contains(p.Problems[0], "s3cret") {
		t.Errorf("a server that does not answer: %q", p.Problems)
	}

	// What was foreseen is what is done.
	l.stop()
	l.configure(shop("tables: [public.item, public.more]", "publication: pub_plan", "ddl: capture"), sink)
	plan(l, 0).has(t, "change publication pub_plan: adds public.more", "create table copy.more")
	l.start()
	source.exec("INSERT INTO more VALUES (1)")
	eventually(t, "the new table is in the target", func() bool { return len(target.list("SELECT 'x' FROM copy.more")) == 1 })
	if tables := source.list("SELECT tablename::text FROM pg_publication_tables WHERE pubname = 'pub_plan' ORDER BY 1"); !slices.Equal(tables, []string{"item", "more"}) {
		t.Errorf("the publication has %q", tables)
	}
	if code := l.stop(); code != 0 {
		t.Errorf("a clean drain ended with %d", code)
	}
}

// The same with MariaDB, whose sources make nothing on their server.
func TestPlanLooksIntoMariaDB(t *testing.T) {
	t.Parallel()
	source, target := newMaria(t), newMaria(t)
	source.exec("CREATE TABLE item (id int PRIMARY KEY, note text)", "CREATE TABLE more (id int PRIMARY KEY)", "INSERT INTO item VALUES (1, 'a'), (2, 'b')")
	fresh := target.Name + "_copy"
	t.Cleanup(func() { target.exec("DROP DATABASE IF EXISTS " + fresh) })
	holds := func() []string {
		list := fmt.Sprintf("IN ('%s', '%s', '%s', '%s_offsets')", source.Name, target.Name, fresh, fresh)
		return target.list(`SELECT CONCAT_WS(' ', TABLE_SCHEMA, TABLE_NAME, CREATE_TIME) FROM information_schema.TABLES WHERE TABLE_SCHEMA ` + list +
			` UNION ALL SELECT CONCAT_WS(' ', TABLE_NAME, COLUMN_NAME, COLUMN_TYPE) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA ` + list +
			` UNION ALL SELECT SCHEMA_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME ` + list + ` ORDER BY 1`)
	}
	plan := func(l *line, code int) planned {
		t.Helper()
		return plansOnly(t, l, code, holds)
	}
	offsets := fresh + "_offsets"
	t.Cleanup(func() { target.exec("DROP DATABASE IF EXISTS " + offsets) })
	sink := fmt.Sprintf("  replica:\n    type: mysql\n    dsn: %q\n    topics: [\"*\"]\n    table: %q\n    offsets_database: %s\n", target.URL, fresh+".{table}", offsets)
	shop := func(tables string) string {
		return strings.Replace(source.source("shop"), fmt.Sprintf("[\"%s.*\"]", source.Name), tables, 1)
	}
	l := newLine(t, shop("["+source.Name+".item]"), sink)
	topic := "shop." + source.Name + ".item"
	plan(l, 0).has(t, "create source shop", "create topic "+topic, "create database "+offsets, "create table "+offsets+"._trunkline_offsets", "create database "+fresh, "create table "+fresh+".item")
	l.start()
	eventually(t, "the rows are in the target", func() bool { return len(target.list("SELECT 'x' FROM "+fresh+".item")) == 2 })
	if p := plan(l, 0); !p.Running || p.Create+p.Change+p.Leave > 0 {
		t.Errorf("of what runs: %+v", p)
	}
	target.exec("ALTER TABLE " + fresh + ".item DROP COLUMN note")
	l.configure(shop("["+source.Name+".item, "+source.Name+".more]"), sink)
	plan(l, 0).has(t, "change source shop: settings tables", "create topic shop."+source.Name+".more", "create table "+fresh+".more", "change table "+fresh+".item: adds note")

	// A setting that the server would refuse: the number of the server itself.
	l.configure(strings.Replace(shop("["+source.Name+".item]"), "    mode: cdc\n", "    mode: cdc\n    server_id: "+source.list("SELECT @@server_id")[0]+"\n", 1), sink)
	p := plan(l, 1)
	p.has(t, "change source shop: settings server_id")
	if len(p.Findings) != 1 || p.Findings[0].Subject != "server_id" || p.Findings[0].Name != "shop" || p.Findings[0].Remedy == "" {
		t.Errorf("the server's own number: %+v", p.Findings)
	}

	// What was foreseen is what is done.
	l.configure(shop("["+source.Name+".item, "+source.Name+".more]"), sink)
	if code := l.stop(); code != 0 {
		t.Errorf("a clean drain ended with %d", code)
	}
	l.start()
	source.exec("INSERT INTO more VALUES (1)", "INSERT INTO item VALUES (3, 'c')")
	eventually(t, "the new table is in the target", func() bool { return len(target.list("SELECT 'x' FROM "+fresh+".more")) == 1 })
	eventually(t, "the new column is in the target", func() bool {
		return slices.Equal(target.list("SELECT note FROM "+fresh+".item WHERE id = 3"), []string{"c"})
	})
}
