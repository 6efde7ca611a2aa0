package endtoend

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/trunkline/trunkline/connectors"
	maria "github.com/trunkline/trunkline/connectors/mysql/localserver"
	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/disk"
)

// The golden files are what Debezium's own engine writes about these tables, in every one of these formats; scripts/debezium-golden
// makes them. A record is a line of them, without what differs from run to run, and with its schema as a number.
const debeziumDir = "testdata/debezium"

// debeziumFormat is settings of a source, whose names are Debezium's.
type debeziumFormat struct {
	name     string
	settings []string
	postgres bool // PostgreSQL alone
	without  string
}

var debeziumFormats = []debeziumFormat{
	{name: "defaults", settings: []string{"envelope: debezium"}},
	{name: "texts", settings: []string{"envelope: debezium", "decimal.handling.mode: string", "time.precision.mode: isostring", "binary.handling.mode: hex",
		"interval.handling.mode: string", "hstore.handling.mode: map", "bigint.unsigned.handling.mode: precise", "tombstones.on.delete: false"}},
	{name: "connect", settings: []string{"envelope: debezium", "decimal.handling.mode: double", "time.precision.mode: connect", "binary.handling.mode: base64"}},
	{name: "micro", settings: []string{"envelope: debezium", "decimal.handling.mode: string", "time.precision.mode: adaptive_time_microseconds",
		"binary.handling.mode: base64-url-safe", "schemas.enable: false", "unavailable.value.placeholder: not sent"}},
	{name: "micros", settings: []string{"envelope: debezium", "time.precision.mode: microseconds", "schemas.enable: false"}, postgres: true},
	// Debezium stops at a delete of a row with a timestamp that is NOT NULL in this mode.
	{name: "nanos", settings: []string{"envelope: debezium", "time.precision.mode: nanoseconds"}, postgres: true, without: "strict"},
	{name: "flat", settings: []string{"envelope: flat", "add.fields: [op, table, source.ts_ms]"}},
	{name: "flatplain", settings: []string{"envelope: flat", "add.fields: []", "schemas.enable: false"}},
	{name: "events", settings: []string{"envelope: cloudevents", "schemas.enable: false"}},
	{name: "eventschemas", settings: []string{"envelope: cloudevents"}},
}

// goldenRecord is one record, as both sides write it.
type goldenRecord struct {
	topic, key, value string
	headers           []string
}

// volatile are members that no two runs have in common.
var volatile = regexp.MustCompile(`"((?:__source_|__)?(?:ts_ms|ts_us|ts_ns)|txId|lsn|xmin|sequence|version|db|file|pos|gtid|server_id|thread|time|id|` +
	`iodebezium(?:version|tsms|tsus|tsns|txId|lsn|xmin|sequence|db|file|pos|gtid|serverid|thread))":("(?:[^"\\]|\\.)*"|-?[0-9]+|null)`)

var snapshotWord = regexp.MustCompile(`"(snapshot|iodebeziumsnapshot)":"(?:first|last|first_in_data_collection|last_in_data_collection)"`)

// golden writes records as a golden file has them: topic by topic, in their order.
func golden(records []goldenRecord) []byte {
	slices.SortStableFunc(records, func(a, b goldenRecord) int { return strings.Compare(a.topic, b.topic) })
	schemas := map[string]int{}
	var list []string
	var out bytes.Buffer
	plain := func(text string) string {
		if at := strings.Index(text, `"schema":{`); at >= 0 {
			schema, rest, err := connectors.ScanJSON([]byte(text[at+len(`"schema":`):]))
			if err != nil {
				return "no JSON: " + text
			}
			if _, known := schemas[string(schema)]; !known {
				list = append(list, string(schema))
				schemas[string(schema)] = len(list)
			}
			text = fmt.Sprintf(`%s"schema":#%d%s`, text[:at], schemas[string(schema)], rest)
		}
		return text
	}
	// Both are JSON of one string.
	spelling := strings.NewReplacer(`\uD83D\uDE00`, "😀", `\u001F`, `\u001f`)
	for _, r := range records {
		value := spelling.Replace(plain(r.value))
		value = volatile.ReplaceAllStringFunc(value, func(member string) string {
			parts := volatile.FindStringSubmatch(member)
			if parts[1] == "id" && !strings.HasPrefix(parts[2], `"name:`) {
				return member // a column
			}
			return fmt.Sprintf(`"%s":~`, parts[1])
		})
		value = snapshotWord.ReplaceAllString(value, `"$1":"true"`)
		fmt.Fprintf(&out, "%s\t%s\t%s", r.topic, plain(r.key), value)
		for _, h := range r.headers {
			out.WriteString("\t" + plain(h))
		}
		out.WriteByte('\n')
	}
	for i, s := range list {
		fmt.Fprintf(&out, "#%d %s\n", i+1, s)
	}
	return out.Bytes()
}

func readGolden(t *testing.T, system, file string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(debeziumDir, system, file))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// recordsOf reads what a log that nobody has open holds of a source.
func recordsOf(t *testing.T, dir, source string) []goldenRecord {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	l, err := disk.Open(dir, disk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	topics, err := l.Topics(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var out []goldenRecord
	for _, topic := range topics {
		if !strings.HasPrefix(topic.Name, source+".") {
			continue
		}
		out = append(out, recordsIn(ctx, t, l, topic)...)
	}
	return out
}

// recordsIn reads a topic of one partition.
func recordsIn(ctx context.Context, t *testing.T, l log.Log, topic log.Topic) []goldenRecord {
	t.Helper()
	c, err := l.Consumer(ctx, log.ConsumerOptions{Partitions: []log.TopicPartition{{Topic: topic.Name}}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	var out []goldenRecord
	for next := topic.Partitions[0].LogStart; next < topic.Partitions[0].LastStable; {
		fetch, err := c.Poll(ctx, 1000)
		if err != nil {
			t.Fatal(err)
		}
		next = fetch.Next
		for _, r := range fetch.Records {
			g := goldenRecord{topic: topic.Name, key: jsonOrNull(r.Key), value: jsonOrNull(r.Value)}
			for _, h := range r.Headers {
				if strings.HasPrefix(h.Key, "__debezium.") {
					g.headers = append(g.headers, h.Key+"="+string(h.Value))
				}
			}
			out = append(out, g)
		}
	}
	return out
}

func jsonOrNull(b []byte) string {
	if b == nil {
		return "null"
	}
	return string(b)
}

// compareGolden compares what we wrote with what Debezium did.
func compareGolden(t *testing.T, system string, l *line, only func(debeziumFormat) bool) {
	t.Helper()
	for _, f := range debeziumFormats {
		if !only(f) {
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			want := strings.Split(string(readGolden(t, system, f.name+".golden")), "\n")
			got := strings.Split(string(golden(recordsOf(t, filepath.Join(l.dir, "log"), f.name))), "\n")
			wantLines(t, want, got)
		})
	}
}

// A consumer that was written for Debezium's connector for PostgreSQL reads ours unchanged.
func TestDebeziumOfPostgres(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	psql(t, db, readGolden(t, "postgres", "load.sql"))
	var sources strings.Builder
	for i, f := range debeziumFormats {
		more := append([]string{`tables: ["shop.*"]`, "snapshot_workers: 1", fmt.Sprintf("slot: %s_%d", slotOf(db), i), fmt.Sprintf("publication: p%d", i)}, f.settings...)
		if f.without != "" {
			more = append(more, "exclude: [shop."+f.without+"]")
		}
		sources.WriteString(postgresSource(db, f.name, more...))
	}
	l := newLineOn(t, "  topics: {partitions: 1}\n", sources.String(), "  {}\n")
	l.once()
	psql(t, db, readGolden(t, "postgres", "changes.sql"))
	l.once()
	compareGolden(t, "postgres", l, func(debeziumFormat) bool { return true })
}

// mariaScript runs a script of many statements.
func mariaScript(t *testing.T, s *maria.Server, database string, script []byte) {
	t.Helper()
	pool, err := s.Open(database, "multiStatements=true&charset=utf8mb4")
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Exec(string(script)); err != nil {
		t.Fatal(err)
	}
}

// A consumer that was written for Debezium's connector for MySQL reads ours unchanged. What Debezium calls mysql was recorded
// on MariaDB.
func TestDebeziumOfMariaDB(t *testing.T) {
	t.Parallel()
	s := maria.StartForTest(t, maria.Options{Unsafe: true})
	mariaScript(t, s, "", []byte("CREATE DATABASE golden"))
	mariaScript(t, s, "golden", readGolden(t, "mariadb", "load.sql"))
	var sources strings.Builder
	for _, f := range debeziumFormats {
		if f.postgres {
			continue
		}
		sources.WriteString(fmt.Sprintf("  %s:\n    type: mysql\n    dsn: %q\n    mode: cdc\n    tables: [golden.*]\n    snapshot_workers: 1\n%s", f.name, s.DSN("golden"), settings(f.settings)))
	}
	l := newLineOn(t, "  topics: {partitions: 1}\n", sources.String(), "  {}\n")
	l.once()
	mariaScript(t, s, "golden", readGolden(t, "mariadb", "changes.sql"))
	l.once()
	compareGolden(t, "mariadb", l, func(f debeziumFormat) bool { return !f.postgres })
}

// A sink does not take what may have lost something for the rows.
func TestSinksRefuseForeignEnvelopes(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	db.exec("CREATE TABLE item (id int PRIMARY KEY)", "INSERT INTO item VALUES (1)")
	source := postgresSource(db, "shop", "tables: [{name: public.item, topic: named}]", "envelope: debezium")
	l := newLine(t, source, fileSink)
	code, out := l.run("check")
	if code != 2 || !strings.Contains(out, "takes topics of source shop") {
		t.Errorf("check ended with %d: %s", code, out)
	}
	l.configure(source, strings.Replace(fileSink, `["*"]`, "[named]", 1)) // a topic that only the table names
	code, out = l.run("run", "--once")
	if code != 1 || !strings.Contains(out, "its source writes envelope debezium") {
		t.Errorf("run --once ended with %d: %s", code, lastPart([]byte(out), 2000))
	}
	if files, _ := filepath.Glob(filepath.Join(l.dir, "archive", "*", "*", "*.jsonl")); len(files) > 0 {
		t.Errorf("the sink wrote %v", files)
	}
}
