package endtoend

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	maria "github.com/trunkline/trunkline/connectors/mysql/localserver"
)

// hostileServer are settings of the source's server that change what values look like, or what is in its binary log.
var hostileServer = map[string]string{"default_time_zone": "+05:30", "sql_mode": "ANSI_QUOTES,PAD_CHAR_TO_FULL_LENGTH,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES",
	"character_set_server": "latin1", "group_concat_max_len": "4", "div_precision_increment": "0", "binlog_checksum": "CRC32"}

// compressed makes the server compress every event of rows and statements that is worth it.
var compressed = map[string]string{"log_bin_compress": "ON", "log_bin_compress_min_len": "10"}

var mariaWays = []corpusWay{
	{name: "snapshot then stream", short: true},
	{name: "stream alone", stream: true},
	{name: "hostile settings", server: hostileServer},
	{name: "hostile settings, stream alone", server: hostileServer, stream: true},
	{name: "row metadata NO_LOG, by file and position", server: map[string]string{"binlog_row_metadata": "NO_LOG"}, source: []string{"gtid: off"}, stream: true},
	{name: "row metadata MINIMAL", server: map[string]string{"binlog_row_metadata": "MINIMAL"}, stream: true},
	{name: "row metadata FULL", server: map[string]string{"binlog_row_metadata": "FULL"}, stream: true},
	{name: "compressed events", server: compressed, stream: true},
	{name: "compressed events, row metadata FULL, by file and position", server: with(compressed, "binlog_row_metadata", "FULL"), source: []string{"gtid: off"}, stream: true},
	{name: "without checksums, by GTID", server: map[string]string{"binlog_checksum": "NONE"}, source: []string{"gtid: on"}},
	{name: "by file and position", source: []string{"gtid: off"}},
	// One by one, the 60,000 changes of one table and those of each type would take minutes and show nothing new.
	{name: "batches of one row", sink: []string{"batch: {rows: 1}"}, schema: "corpus_chg", leave: "corpus_chg.big_txn"},
	{name: "batches of 10,000 rows", sink: []string{"batch: {rows: 10000, wait: 1s}"}},
	{name: "killed now and then", kills: true},
	{name: "killed now and then, by file and position, compressed events, stream alone", kills: true, stream: true, server: compressed, source: []string{"gtid: off"}},
	{name: "killed between statements", steps: 20},
}

func with(settings map[string]string, name, value string) map[string]string {
	out := map[string]string{name: value}
	for k, v := range settings {
		out[k] = v
	}
	return out
}

// TestCorpusOfMariaDB brings the corpus from MariaDB to MariaDB. TRUNKLINE_CORPUS=all runs every way.
func TestCorpusOfMariaDB(t *testing.T) {
	runCorpus(t, "MariaDB to MariaDB", mariaWays, openMaria)
}

// corpusDatabases are those that the corpus makes.
var corpusDatabases = []string{"corpus_types", "corpus_chg", "Corpus Odd-Db"}

// mariaPair is the corpus on a server of its own, which the way's settings are for, and in databases of a shared one whose
// names end with a suffix.
type mariaPair struct {
	t      *testing.T
	way    *corpusWay
	source *maria.Server
	pool   *sql.DB // of the source
	target *mariaDatabase
	suffix string
}

func openMaria(t *testing.T, way *corpusWay) corpusPair {
	p := &mariaPair{t: t, way: way, target: newMaria(t), source: maria.StartForTest(t, maria.Options{Unsafe: true, Settings: way.server})}
	p.suffix = "_" + p.target.Name
	var err error
	if p.pool, err = p.source.Open("", ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.pool.Close()
		for _, name := range corpusDatabases {
			if err := p.target.DropDatabase(context.Background(), name+p.suffix); err != nil {
				t.Error(err)
			}
		}
	})
	return p
}

func (p *mariaPair) dir() string { return "mariadb" }

var rowsLine = []byte("\n-- >>> ROWS")

func (p *mariaPair) fill() (source, sink string) {
	load := readCorpus(p.t, p.dir(), "load.sql")
	ddl, _, _ := bytes.Cut(load, rowsLine)
	var names []string
	for _, name := range corpusDatabases {
		names = append(names, name, name+p.suffix)
	}
	mariaClient(p.t, p.target.Server).feed(p.t, []byte(strings.NewReplacer(names...).Replace(string(ddl))), nil)
	own := []string{"heartbeat: 1s"}
	if p.way.stream {
		p.feed(ddl, nil)
		own = append(own, "snapshot: never")
	} else {
		p.feed(load, nil)
	}
	var tables []string
	for _, name := range corpusDatabases {
		if strings.HasPrefix(name, p.way.schema) {
			tables = append(tables, fmt.Sprintf("%q", name+".*"))
		}
	}
	own = append(own, "tables: ["+strings.Join(tables, ", ")+"]")
	if p.way.leave != "" {
		own = append(own, "exclude: ["+p.way.leave+"]")
	}
	source = fmt.Sprintf("  corpus:\n    type: mysql\n    dsn: %q\n    mode: cdc\n", p.source.DSN("corpus_types")) + settings(append(own, p.way.source...))
	sink = fmt.Sprintf("  replica:\n    type: mysql\n    dsn: %q\n    topics: [\"*\"]\n    table: %q\n", p.target.URL, "{schema}"+p.suffix+".{table}") + settings(p.way.sink)
	return source, sink
}

func (p *mariaPair) streams() bool {
	var n int
	err := p.pool.QueryRow("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog Dump%'").Scan(&n)
	return err == nil && n == 1
}

func (p *mariaPair) rows() []byte {
	ddl, rows, _ := bytes.Cut(readCorpus(p.t, p.dir(), "load.sql"), rowsLine)
	return append(append(settingsOf(ddl), "\n--"...), rows...)
}

func (p *mariaPair) feed(script []byte, after func([]byte)) {
	mariaClient(p.t, p.source).feed(p.t, script, after)
}

func (p *mariaPair) dump(wanted, got map[string][]byte) {
	dumpMaria(p.t, p.target, p.suffix, wanted, got)
}

// apart: a record has an enum's labels, so the invalid value, whose number is 0, is the empty label where one is declared.
func (p *mariaPair) apart() []string {
	files := []string{"corpus_types.t_enum_empty.csv"}
	if p.way.leave != "" {
		files = append(files, p.way.leave+".csv")
	}
	return files
}

// unequal: what the cascades of foreign keys do is in no binary log, and a target's partitions and its columns' character sets
// are its own.
func (p *mariaPair) unequal() []string {
	return []string{"corpus_chg.fk_cascade.csv", "corpus_chg.fk_setnull.csv", "corpus_chg.part_ddl.csv", "corpus_chg.alter_charset.csv"}
}

// mariaClient is the client of a server. It sends comments too, which belong to what is tested.
func mariaClient(t *testing.T, s *maria.Server) *sqlClient {
	t.Helper()
	path, err := exec.LookPath("mariadb")
	if err != nil {
		t.Fatalf("%v: install the client of MariaDB (Debian and Ubuntu: apt-get install mariadb-client)", err)
	}
	return &sqlClient{path: path, args: []string{"--no-defaults", "--default-character-set=utf8mb4", "--comments", "--batch", "--protocol=tcp", "--host=127.0.0.1",
		fmt.Sprintf("--port=%d", s.Port()), "--user=" + maria.User, "--max-allowed-packet=64M"}}
}
