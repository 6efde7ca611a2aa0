package endtoend

import (
	"bytes"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/trunkline/trunkline/connectors/postgres/localserver"
)

// withoutIdentity are tables of inserts alone. To publish them would make the application's updates fail, so they are
// refused but where somebody has published all tables already.
var withoutIdentity = []string{"chg.toast_nothing", "chg.nopk_insert_only"}

// hostile are settings that change the text of values.
var hostile = []string{"timezone = 'Asia/Kolkata'", "datestyle = 'SQL, DMY'", "intervalstyle = 'iso_8601'", "extra_float_digits = 0",
	"bytea_output = 'escape'", "search_path = 'types'", "lc_monetary = 'C.UTF-8'", "xmloption = 'document'"}

var postgresWays = []corpusWay{
	{name: "snapshot then stream", short: true},
	{name: "stream alone", stream: true},
	{name: "hostile settings", database: hostile},
	{name: "hostile settings, stream alone", database: hostile, stream: true},
	{name: "large transactions streamed in parts", database: []string{"logical_decoding_work_mem = '64kB'"}},
	// One by one, the 60,000 changes of one table and those of each type would take minutes and show nothing new.
	{name: "batches of one row", sink: []string{"batch: {rows: 1}"}, schema: "chg", leave: "chg.big_txn"},
	{name: "batches of 10,000 rows", sink: []string{"batch: {rows: 10000, wait: 1s}"}},
	{name: "killed now and then", kills: true},
	{name: "killed now and then, streamed in parts, stream alone", kills: true, stream: true, database: []string{"logical_decoding_work_mem = '64kB'"}},
	{name: "killed between statements", steps: 20},
	{name: "a publication for all tables", publish: "publish_via_partition_root = true"},
	{name: "a publication for all tables, partitions by themselves", publish: "publish_via_partition_root = false", split: true, schema: "chg"},
	{name: "prepared transactions", prepared: true, schema: "chg"},
	{name: "protocol 1", source: []string{"protocol: 1"}, stream: true},
	{name: "protocol 2, large transactions whole", source: []string{"protocol: 2", "streaming: false"}, stream: true},
	{name: "protocol 3, large transactions in parts", source: []string{"protocol: 3"}, stream: true, database: []string{"logical_decoding_work_mem = '64kB'"}, since: 150000},
	{name: "protocol 3, large transactions whole", source: []string{"protocol: 3", "streaming: false"}, schema: "chg", since: 150000},
	{name: "protocol 4, large transactions in parts", source: []string{"protocol: 4"}, stream: true, database: []string{"logical_decoding_work_mem = '64kB'"}, since: 160000},
	{name: "protocol 4, large transactions whole", source: []string{"protocol: 4", "streaming: false"}, schema: "chg", since: 160000},
	{name: "statements captured", source: []string{"ddl: capture"}, schema: "chg"},
}

// TestCorpusOfPostgres brings the corpus from PostgreSQL to PostgreSQL. TRUNKLINE_CORPUS=all runs every way.
func TestCorpusOfPostgres(t *testing.T) {
	runCorpus(t, "PostgreSQL to PostgreSQL", postgresWays, openPostgres)
}

// postgresPair is the corpus in two databases of PostgreSQL.
type postgresPair struct {
	t              *testing.T
	way            *corpusWay
	source, target *database
}

func openPostgres(t *testing.T, way *corpusWay) corpusPair {
	p := &postgresPair{t: t, way: way, source: newDatabase(t), target: newDatabase(t)}
	if way.prepared {
		p.source = preparingDatabase(t)
	}
	if version := p.source.list("SELECT current_setting('server_version_num')")[0]; version < fmt.Sprint(way.since) && way.since > 0 {
		t.Skipf("this way needs PostgreSQL %d, and the server is %s", way.since/10000, version)
	}
	for _, setting := range way.database {
		p.source.exec(fmt.Sprintf("ALTER DATABASE %s SET %s", pgx.Identifier{p.source.Name}.Sanitize(), setting))
	}
	return p
}

// preparingDatabase is a database on a server where transactions can be prepared.
func preparingDatabase(t *testing.T) *database {
	t.Helper()
	server := localserver.StartForTest(t, localserver.Options{Unsafe: true, Settings: map[string]string{"max_prepared_transactions": "10"}})
	url, err := server.CreateDatabase(t.Context(), "prepared")
	if err != nil {
		t.Fatal(err)
	}
	return connectTo(t, &localserver.Database{Server: server, Name: "prepared", URL: url})
}

func (p *postgresPair) dir() string { return "postgres" }

func (p *postgresPair) fill() (source, sink string) {
	load := readCorpus(p.t, p.dir(), "load.sql")
	psql(p.t, p.target, load, "--set=ddl_only=1")
	settings := append([]string{`tables: ["` + p.way.schema + `*"]`, "rescan: 500ms"}, p.way.source...)
	if p.way.stream {
		psql(p.t, p.source, load, "--set=ddl_only=1")
		settings = append(settings, "snapshot: never")
	} else {
		psql(p.t, p.source, load)
	}
	if p.way.publish != "" {
		p.source.exec("CREATE PUBLICATION everything FOR ALL TABLES WITH (" + p.way.publish + ")")
		settings = append(settings, "publication: everything")
	}
	if left := p.left(); len(left) > 0 {
		settings = append(settings, "exclude: ["+strings.Join(left, ", ")+"]")
	}
	return postgresSource(p.source, "corpus", settings...), postgresSink(p.target, "replica", p.way.sink...)
}

// left returns the tables that the source leaves out.
func (p *postgresPair) left() []string {
	var left []string
	if p.way.leave != "" {
		left = append(left, p.way.leave)
	}
	if p.way.publish == "" {
		left = append(left, withoutIdentity...)
	}
	return left
}

func (p *postgresPair) streams() bool {
	return len(p.source.list("SELECT slot_name::text FROM pg_replication_slots WHERE active AND database = current_database()")) == 1
}

func (p *postgresPair) rows() []byte { return rowsOnly(readCorpus(p.t, p.dir(), "load.sql")) }

func (p *postgresPair) feed(script []byte, after func([]byte)) {
	psqlClient(p.source).feed(p.t, script, after)
}

func (p *postgresPair) dump(wanted, got map[string][]byte) { dumpCorpus(p.t, p.target, wanted, got) }

func (p *postgresPair) apart() []string {
	left := p.left()
	if p.way.split {
		for _, name := range []string{"", "_east", "_east_high", "_east_low", "_north", "_south", "_other", "_up", "_trunc", "_trunc_0", "_trunc_1"} {
			left = append(left, "chg.part"+name)
		}
	}
	var files []string
	for _, table := range left {
		files = append(files, table+".csv")
	}
	return files
}

func (p *postgresPair) unequal() []string {
	return strings.Fields(string(readCorpus(p.t, p.dir(), "needs-ddl.txt")))
}

var settingLine = regexp.MustCompile(`^(SET|\\encoding|\\set)`)

// rowsOnly cuts the DDL out of the script that loads, which would drop the tables.
func rowsOnly(script []byte) []byte {
	ddl, rows, _ := bytes.Cut(script, []byte("\n-- PART 2: rows"))
	return append(append(settingsOf(ddl), "\n--"...), rows...)
}

func settingsOf(script []byte) []byte {
	var out []byte
	for line := range bytes.Lines(script) {
		if settingLine.Match(line) {
			out = append(out, line...)
		}
	}
	return out
}

func psqlClient(db *database, args ...string) *sqlClient {
	args = append([]string{"--no-psqlrc", "--quiet", "--dbname=" + db.URL, "--file=-"}, args...)
	return &sqlClient{path: filepath.Join(db.Server.Binaries().Dir, "psql"), args: args}
}

// psql runs a script with the server's own client.
func psql(t *testing.T, db *database, script []byte, args ...string) {
	t.Helper()
	psqlClient(db, args...).feed(t, script, nil)
}
