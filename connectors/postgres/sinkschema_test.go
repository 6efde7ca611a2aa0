package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/trunkline/trunkline/connectors"
)

func TestSinkSchemaModes(t *testing.T) {
	one := tableOf("item", 1, "id integer", "a text")
	two := tableOf("item", 1, "id integer", "a text", "b numeric(6,1)")
	for _, c := range []struct {
		mode           connectors.Follow
		create, extend string // what the error says; empty: it works
		want           string
	}{
		{connectors.Evolve, "", "", "1|x|NULL\n2|y|2.5"},
		{connectors.Lenient, "", "", "1|x\n2|y"},
		{connectors.Freeze, `CREATE TABLE IF NOT EXISTS "public"."item"`, `ALTER TABLE "public"."item" ADD COLUMN "b" numeric(6,1)`, ""},
		{connectors.Ignore, `CREATE TABLE IF NOT EXISTS "public"."item"`, "", "1|x\n2|y"},
	} {
		t.Run(string(c.mode), func(t *testing.T) {
			st := newSinkTest(t)
			s := st.open(func(config *SinkConfig) { config.Schema = connectors.FollowAll(c.mode) })
			st.refuses(s, nil, one, c.create)
			if c.create != "" {
				st.exec("CREATE TABLE item (id int PRIMARY KEY, a text)")
				st.migrate(s, nil, one)
			}
			st.write(s, inserted(one, 1, "x"))
			st.refuses(s, one, two, c.extend)
			if c.extend != "" {
				return
			}
			st.write(s, inserted(two, 2, "y", "2.5"))
			st.want("SELECT * FROM item ORDER BY id", c.want)
		})
	}
}

// refuses makes a migration, which has to stop the table and name what to run; empty: it has to work.
func (t *sinkTest) refuses(s *Sink, from, to *connectors.Table, statement string) {
	t.Helper()
	err := s.Migrate(t.Context(), connectors.Migration{From: from, To: to})
	var misfit *connectors.SchemaError
	switch {
	case statement == "" && err != nil:
		t.Fatal(err)
	case statement != "" && (!errors.As(err, &misfit) || !strings.Contains(misfit.Statement, statement)):
		t.Fatalf("error %v, want one that asks for %s", err, statement)
	}
}

// TestSinkReportsAnAddedColumn is the sink's part of field case F34: rows from before are not silently NULL.
func TestSinkReportsAnAddedColumn(t *testing.T) {
	st := newSinkTest(t)
	var reports []connectors.Report
	config := DefaultSinkConfig()
	config.DSN = st.url
	env := connectors.NewEnv("test")
	env.Report = func(r connectors.Report) { reports = append(reports, r) }
	s, err := newSink(t.Context(), config, env)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background())
	one, two := tableOf("item", 1, "id integer"), tableOf("item", 1, "id integer", "c integer")
	st.migrate(s, nil, one)
	st.write(s, inserted(one, 1))
	st.migrate(s, one, two)
	st.write(s, inserted(two, 3, 22))
	st.write(s, inserted(one, 4)) // another partition may still be at the older version
	st.want("SELECT * FROM item ORDER BY id", "1|NULL\n3|22\n4|NULL")
	st.exec("CREATE UNIQUE INDEX ON item (c)")
	st.migrate(s, nil, two)
	if len(reports) != 2 || !strings.Contains(reports[1].Reason, "unique indexes besides its key") || reports[0].Table != "public.item" || !strings.Contains(reports[0].Reason, `"c"`) {
		t.Errorf("reports %v", reports)
	}
}

func TestSinkFollowsTypes(t *testing.T) {
	for _, c := range []struct{ have, want, target, refused string }{
		{"integer", "bigint", "bigint", ""},
		{"bigint", "integer", "integer", ""},
		{"integer", "text", "text", ""},
		{"character varying(5)", "character varying(20)", "character varying(20)", ""},
		{"character varying(20)", "character varying(5)", "character varying(5)", ""},
		{"character varying(5)", "text", "text", ""},
		{"numeric(5,2)", "numeric(10,2)", "numeric(10,2)", ""},
		{"numeric(5,2)", "numeric(5,3)", "numeric(5,3)", ""},
		{"numeric(5,2)", "numeric", "numeric", ""},
		{"text", "integer", "integer", ""},
		{"integer", "date", "integer", "ALTER COLUMN"},
		{"timestamp without time zone", "timestamp with time zone", "timestamp with time zone", ""},
	} {
		t.Run(c.have+" to "+c.want, func(t *testing.T) {
			st := newSinkTest(t)
			s := st.open(nil)
			one, two := tableOf("item", 1, "id integer", "v "+c.have), tableOf("item", 1, "id integer", "v "+c.want)
			st.migrate(s, nil, one)
			value := "1"
			if strings.HasPrefix(c.have, "timestamp") {
				value = "1000-01-01"
			}
			st.write(s, inserted(one, 1, value))
			st.refuses(s, one, two, c.refused)
			st.want("SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attname = 'v' AND attrelid = 'item'::regclass", c.target)
			st.want("SELECT v::text LIKE '1%' FROM item", "t")
		})
	}
}

// TestSinkTellsAColumnFromItsSuccessor is the sink's part of field case F33: a column that was dropped and added again
// as another is not the old one, and a restart between two versions changes nothing.
func TestSinkTellsAColumnFromItsSuccessor(t *testing.T) {
	st := newSinkTest(t)
	s := st.open(nil)
	first := identified(tableOf("ddl", 1, "id integer", "b integer"), 1, 2)
	again := identified(tableOf("ddl", 1, "id integer", "b date"), 1, 3)
	st.migrate(s, nil, first)
	st.write(s, inserted(first, 1, 7))
	st.migrate(s, first, again)
	st.want("SELECT pg_typeof(b), b FROM ddl", "date|NULL")
	st.write(s, inserted(again, 2, "2026-01-30"))

	renamed := identified(tableOf("ddl", 1, "id integer", "b2 date"), 1, 3)
	st.migrate(s, again, renamed)
	st.want("SELECT id, b2 FROM ddl ORDER BY id", "1|NULL\n2|2026-01-30")

	st.exec("ALTER TABLE ddl ALTER b2 TYPE text")
	st.migrate(st.open(nil), nil, renamed)
	st.want("SELECT pg_typeof(b2) FROM ddl WHERE id = 1", "text")
}

// identified gives the columns of a table their identities.
func identified(t *connectors.Table, ids ...int) *connectors.Table {
	for i := range t.Columns {
		t.Columns[i].ID = ids[i]
	}
	return t
}

func TestSinkFollowsNamesThatChangePlaces(t *testing.T) {
	st := newSinkTest(t)
	s := st.open(nil)
	one := identified(tableOf("item", 1, "id integer", "a text", "b integer", "c text"), 1, 2, 3, 4)
	two := identified(tableOf("item", 1, "key integer", "b text", "a integer", "d text", "c text"), 1, 2, 3, 4, 5)
	st.migrate(s, nil, one)
	st.write(s, inserted(one, 1, "x", 7, "y"))
	step := connectors.Migration{From: one, To: two, Stream: "shop.item/-2/public.item", Position: []byte("2")}
	for range 2 { // the second time as after a crash
		if err := s.Migrate(t.Context(), step); err != nil {
			t.Fatal(err)
		}
		s = st.open(nil)
	}
	st.write(s, updated(two, 1, "x", 8, "z", "new"))
	st.want("SELECT key, b, a, d, c FROM item", "1|x|8|z|new")
	held, err := s.Committed(t.Context(), step.Stream)
	if err != nil || string(held) != "2" {
		t.Errorf("position %q, %v", held, err)
	}
	old := st.open(nil)
	if _, err := old.Committed(t.Context(), step.Stream); err != nil {
		t.Fatal(err)
	}
	step.Position = []byte("3")
	if err := s.Migrate(t.Context(), step); !errors.Is(err, connectors.ErrFenced) {
		t.Errorf("a writer that another one has followed: %v", err)
	}
}

func TestSinkFollowsKeys(t *testing.T) {
	st := newSinkTest(t)
	s := st.open(nil)
	one := identified(tableOf("item", 1, "id integer", "a text"), 1, 2)
	two := identified(tableOf("item", 2, "id integer", "a text"), 1, 2)
	three := identified(tableOf("item", 0, "id integer", "a text"), 1, 2)
	st.migrate(s, nil, one)
	st.write(s, inserted(one, 1, "x"))
	st.migrate(s, one, two)
	st.write(s, inserted(two, 1, "y"), inserted(two, 1, "x"))
	st.want("SELECT * FROM item ORDER BY a", "1|x\n1|y")
	st.migrate(s, two, three)
	st.write(s, inserted(three, 1, "x"), connectors.Change{Op: connectors.Insert, Table: three, After: []connectors.Value{connectors.NullValue(), connectors.NullValue()}})
	st.want("SELECT * FROM item ORDER BY a", "1|x\n1|x\n1|y\nNULL|NULL")
}

// TestSinkTreatsEachKindOfChangeAsItIsTold also shows that a table goes on once what was asked for has been done.
func TestSinkTreatsEachKindOfChangeAsItIsTold(t *testing.T) {
	one := identified(tableOf("item", 1, "id integer", "a text", "b text", "c integer"), 1, 2, 3, 4)
	two := identified(tableOf("item", 1, "id integer", "a2 text", "c text", "d text"), 1, 2, 4, 5)
	for _, f := range []connectors.Follow{connectors.Evolve, connectors.Lenient, connectors.Ignore} {
		t.Run(string(f), func(t *testing.T) {
			st := newSinkTest(t)
			st.migrate(st.open(nil), nil, one)
			s := st.open(func(c *SinkConfig) { c.Schema = connectors.FollowAll(f) })
			st.migrate(s, one, two)
			st.write(s, inserted(two, 1, "a", "7", "d"))
			want := map[connectors.Follow]string{connectors.Evolve: "id=1,a2=a,c=7,d=d", connectors.Lenient: "id=1,a=NULL,b=NULL,c=7", connectors.Ignore: "id=1,a=NULL,b=NULL,c=7"}
			st.want("SELECT string_agg(key || '=' || coalesce(value, 'NULL'), ',' ORDER BY n) FROM item, json_each_text(row_to_json(item)) WITH ORDINALITY AS j(key, value, n)", want[f])
		})
	}
	for kind, policy := range map[string]func(*connectors.SchemaPolicy){
		`DROP COLUMN "b"`:            func(p *connectors.SchemaPolicy) { p.Drop = connectors.Freeze },
		`RENAME COLUMN "a" TO "a2"`:  func(p *connectors.SchemaPolicy) { p.Rename = connectors.Freeze },
		`ADD COLUMN "d" text`:        func(p *connectors.SchemaPolicy) { p.Add = connectors.Freeze },
		`ALTER COLUMN "c" TYPE text`: func(p *connectors.SchemaPolicy) { p.Retype = connectors.Freeze },
	} {
		t.Run(kind, func(t *testing.T) {
			st := newSinkTest(t)
			st.migrate(st.open(nil), nil, one)
			s := st.open(func(c *SinkConfig) { policy(&c.Schema) })
			st.refuses(s, one, two, kind)
			st.want("SELECT count(*) FROM pg_attribute WHERE attrelid = 'item'::regclass AND attnum > 0 AND NOT attisdropped", "4")
			st.exec("ALTER TABLE item " + kind)
			st.migrate(s, one, two)
			st.write(s, inserted(two, 1, "a", "7", "d"))
			st.want("SELECT * FROM item", "1|a|7|d")
		})
	}
}

func TestSinkFollowsEnums(t *testing.T) {
	st := newSinkTest(t)
	s := st.open(func(c *SinkConfig) { c.Table = "Copy of {schema}.{table}" })
	one := tableOf("item", 1, "id integer", "m public.mood")
	one.Columns[1].Labels = []string{"sad", "it's"}
	st.migrate(s, nil, one)
	st.write(s, inserted(one, 1, "it's"))
	two := tableOf("item", 1, "id integer", "m public.mood")
	two.Columns[1].Labels = []string{"sad", "so-so", "it's", "happy"}
	st.migrate(s, one, two)
	st.write(s, inserted(two, 2, "happy"), inserted(two, 3, "so-so"))
	st.want(`SELECT id, m FROM "Copy of public".item ORDER BY m`, "3|so-so\n1|it's\n2|happy")
	st.want("SELECT enumlabel FROM pg_enum ORDER BY enumsortorder", "sad\nso-so\nit's\nhappy")
}

// TestSinkLeavesGeneratedColumnsAlone is the sink's part of field case F13.
func TestSinkLeavesGeneratedColumnsAlone(t *testing.T) {
	st := newSinkTest(t)
	st.exec("CREATE TABLE gen (id int PRIMARY KEY, name text, up text GENERATED ALWAYS AS (upper(name)) STORED)")
	s := st.open(nil)
	table := tableOf("gen", 1, "id integer", "name text", "up text")
	st.migrate(s, nil, table)
	st.write(s, inserted(table, 1, "a", "wrong"), inserted(table, 2, "b", absent))
	st.write(s, updated(table, 1, "c", absent), updated(table, 2, "d", "wrong"))
	st.want("SELECT * FROM gen ORDER BY id", "1|c|C\n2|d|D")

	table = tableOf("made", 1, "id integer", "name text", "up text")
	table.Columns[2].Generated = true
	st.migrate(s, nil, table)
	st.write(s, inserted(table, 1, "a", "A"))
	st.want("SELECT * FROM made", "1|a")
}

func TestSinkWritesIdentityColumns(t *testing.T) {
	st := newSinkTest(t)
	st.exec("CREATE TABLE ident (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v text); CREATE TABLE seq (id int PRIMARY KEY, n int GENERATED ALWAYS AS IDENTITY, v text)")
	s := st.open(nil)
	ident, seq := tableOf("ident", 1, "id integer", "v text"), tableOf("seq", 1, "id integer", "n integer", "v text")
	st.migrate(s, nil, ident)
	st.migrate(s, nil, seq)
	st.write(s, inserted(ident, 5, "a"), inserted(seq, 5, 55, "a"))
	st.write(s, updated(ident, 5, "b"), updated(ident, 6, "c"), updated(seq, 5, 55, "b"), updated(seq, 6, 66, "c"))
	st.want("SELECT * FROM ident ORDER BY id", "5|b\n6|c")
	st.want("SELECT * FROM seq ORDER BY id", "5|55|b\n6|66|c")
}

// TestSinkWritesWideRows is field case F46, second half: more values than a statement may have parameters.
func TestSinkWritesWideRows(t *testing.T) {
	st := newSinkTest(t)
	s := st.open(nil)
	columns := []string{"id integer"}
	for i := range 1599 {
		columns = append(columns, fmt.Sprintf("c%d smallint", i))
	}
	table := tableOf("wide", 1, columns...)
	st.migrate(s, nil, table)
	var changes []connectors.Change
	for n := range 41 {
		values := []any{n}
		for i := range 1599 {
			values = append(values, (i+n)%1000)
		}
		changes = append(changes, inserted(table, values...))
	}
	st.write(s, changes...)
	for i := range changes {
		changes[i].Op = connectors.Update
		changes[i].After[2] = connectors.IntValue(7)
		changes[i].After[3] = absent
	}
	st.write(s, changes...)
	st.want("SELECT count(*), sum(c0), sum(c1), sum(c2), sum(c1598) FROM wide", "41|820|287|902|25338")
}

func TestSinkKeepsOddNames(t *testing.T) {
	st := newSinkTest(t)
	s := st.open(nil)
	for _, name := range []string{"Mixed Table", `quo"te`, "dot.ted", "select", "täble 漢", "back\\slash", "{braces}", "per%cent"} {
		t.Run(name, func(t *testing.T) {
			st := &sinkTest{T: t, url: st.url, conn: st.conn}
			table := tableOf(name, 1, "id integer")
			table.Schema = name
			table.Columns[0].Name = name
			table.Columns = append(table.Columns, connectors.Column{Name: name + `'"2`, Type: "text", Kind: connectors.Text})
			st.migrate(s, nil, table)
			st.write(s, inserted(table, 1, "a"), inserted(table, 2, "b"))
			st.write(s, updated(table, 1, "c"), updated(table, 3, absent), deleted(table, 2))
			st.want("SELECT * FROM "+qualified(name, name)+" ORDER BY 1", "1|c\n3|NULL")
		})
	}
	long := tableOf(strings.Repeat("n", 64), 1, "id integer")
	if err := s.Migrate(t.Context(), connectors.Migration{To: long}); !errors.Is(err, connectors.ErrFatal) {
		t.Errorf("a name that the server would cut: %v", err)
	}
}

func TestSinkAsksForAUniqueIndex(t *testing.T) {
	st := newSinkTest(t)
	st.exec("CREATE TABLE item (id int, code text PRIMARY KEY)")
	s := st.open(nil)
	table := tableOf("item", 1, "id integer", "code text")
	st.refuses(s, nil, table, `CREATE UNIQUE INDEX ON "public"."item" ("id")`)
	st.exec("CREATE UNIQUE INDEX ON item (id)")
	st.migrate(s, nil, table)
	st.write(s, inserted(table, 1, "a"), updated(table, 1, "b"))
	st.want("SELECT * FROM item", "1|b")
}

func TestSinkAddsAPrimaryKeyToATableWithout(t *testing.T) {
	st := newSinkTest(t)
	s := st.open(nil)
	without, with := tableOf("item", 0, "id integer", "v text"), tableOf("item", 1, "id integer", "v text")
	st.migrate(s, nil, without)
	st.write(s, inserted(without, 1, "a"))
	st.migrate(s, without, with)
	st.write(s, updated(with, 1, "b"))
	st.want("SELECT * FROM item", "1|b")
}

func TestSinkConfigIsChecked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*SinkConfig)
		want   string
	}{
		"no address":       {func(c *SinkConfig) { c.DSN = "" }, "dsn or host"},
		"unknown write":    {func(c *SinkConfig) { c.Write = "merge" }, "upsert, append"},
		"append and apply": {func(c *SinkConfig) { c.Write, c.Deletes = writeAppend, deletesApply }, "write: upsert"},
		"unknown schema":   {func(c *SinkConfig) { c.Schema.Add = "evolv" }, "evolve, lenient"},
		"unknown part":     {func(c *SinkConfig) { c.Table = "{schma}.{table}" }, "{schma}"},
		"open brace":       {func(c *SinkConfig) { c.Table = "{schema.x" }, "brace"},
		"no table":         {func(c *SinkConfig) { c.Table = "{schema}." }, "no table"},
		"misspelt tls":     {func(c *SinkConfig) { c.TLS = "verify_full" }, "verify-full"},
	} {
		config := DefaultSinkConfig()
		config.DSN = "postgres://u:secret@localhost/db"
		c.change(&config)
		if err := config.Validate(); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	table := &connectors.Table{Database: "d", Schema: "a.b", Name: "t"}
	for text, want := range map[string]string{"{schema}.{table}": "a.b t", "raw.{database}_{schema}_{table}": "raw d_a.b_t", "{table}": "public t", "{schema}_x.one": "a.b_x one"} {
		parsed, err := parseTemplate(text)
		if schema, name := parsed.expand(table); err != nil || schema+" "+name != want {
			t.Errorf("%s: %q %q %v, want %q", text, schema, name, err, want)
		}
	}
}
