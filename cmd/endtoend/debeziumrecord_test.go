package endtoend

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	maria "github.com/trunkline/trunkline/connectors/mysql/localserver"
)

// properties are the settings as Debezium has them.
func (f debeziumFormat) properties() []string {
	var out []string
	for _, s := range f.settings {
		key, value, _ := strings.Cut(s, ": ")
		switch {
		case s == "envelope: flat":
			out = append(out, "transforms=unwrap", "transforms.unwrap.type=io.debezium.transforms.ExtractNewRecordState",
				"transforms.unwrap.delete.tombstone.handling.mode=rewrite")
		case s == "envelope: cloudevents":
			out = append(out, "record.cloudevents=true")
		case key == "envelope":
		case key == "schemas.enable":
			out = append(out, "converter.schemas.enable="+value, "converter.json.schemas.enable="+value)
		case key == "add.fields":
			if fields := strings.NewReplacer("[", "", "]", "", " ", "").Replace(value); fields != "" {
				out = append(out, "transforms.unwrap.add.fields="+fields)
			}
		default:
			out = append(out, key+"="+value)
		}
	}
	return out
}

// recording is a folder in which engines run.
type recording struct {
	t      *testing.T
	system string
	dir    string
	jars   string
	names  []string
}

func newRecording(t *testing.T, system string) *recording {
	t.Helper()
	jars := os.Getenv("TRUNKLINE_DEBEZIUM")
	if jars == "" {
		t.Skip("makes the golden files anew, with Debezium's engine: scripts/debezium-golden runs it")
	}
	return &recording{t: t, system: system, dir: t.TempDir(), jars: jars}
}

// add puts an engine into the folder.
func (r *recording) add(f debeziumFormat, more ...string) {
	r.t.Helper()
	r.names = append(r.names, f.name)
	lines := append([]string{
		"name=" + f.name, "topic.prefix=" + f.name, "database.hostname=127.0.0.1", "offset.flush.interval.ms=60000",
		"offset.storage=org.apache.kafka.connect.storage.FileOffsetBackingStore", "offset.storage.file.filename=" + filepath.Join(r.dir, f.name+".offsets"),
	}, more...)
	text := strings.Join(append(lines, f.properties()...), "\n")
	if err := os.WriteFile(filepath.Join(r.dir, f.name+".properties"), []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// run starts the engines, makes the changes once all have read what is there, and keeps what they wrote.
func (r *recording) run(change func()) {
	r.t.Helper()
	cmd := exec.Command("java", "-Dfile.encoding=UTF-8", "-Duser.timezone=UTC", "-cp", r.jars+string(os.PathListSeparator)+filepath.Join(r.jars, "*"), "Record", r.dir)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	if line == "ready\n" {
		change()
	}
	if err := cmd.Wait(); err != nil {
		r.t.Fatalf("Debezium: %v: %s", err, lastPart(said.Bytes(), 5000))
	}
	for _, name := range r.names {
		b, err := os.ReadFile(filepath.Join(r.dir, name+".out"))
		if err != nil {
			r.t.Fatal(err)
		}
		var records []goldenRecord
		for line := range strings.Lines(string(b)) {
			parts := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
			g := goldenRecord{topic: parts[0], key: parts[1], value: parts[2]}
			for _, h := range parts[3:] {
				if !strings.HasPrefix(h, "__debezium.context.") {
					g.headers = append(g.headers, h)
				}
			}
			records = append(records, g)
		}
		if err := os.WriteFile(filepath.Join(debeziumDir, r.system, name+".golden"), golden(records), 0o644); err != nil {
			r.t.Fatal(err)
		}
		r.t.Logf("%s: %d records", name, len(records))
	}
}

func TestRecordDebeziumOfPostgres(t *testing.T) {
	r := newRecording(t, "postgres")
	db := newDatabase(t)
	psql(t, db, readGolden(t, "postgres", "load.sql"))
	db.exec("CREATE PUBLICATION recorded FOR ALL TABLES")
	for _, f := range debeziumFormats {
		more := []string{
			"connector.class=io.debezium.connector.postgresql.PostgresConnector", fmt.Sprintf("database.port=%d", db.Server.Port()), "database.user=postgres",
			"database.password=x", "database.dbname=" + db.Name, "schema.include.list=shop", "plugin.name=pgoutput", "slot.name=recorded_" + f.name,
			"slot.drop.on.stop=true", "publication.name=recorded", "publication.autocreate.mode=disabled",
		}
		if f.without != "" {
			more = append(more, "table.exclude.list=shop."+f.without)
		}
		r.add(f, more...)
	}
	r.run(func() { psql(t, db, readGolden(t, "postgres", "changes.sql")) })
}

// Debezium's connector for MariaDB is not recorded but that for MySQL, to which a MariaDB can pass itself off as MySQL 5.7: the
// values and the envelope are the same, the name in the source block is mysql. Its engines get in each other's way, so
// they run one after the other.
func TestRecordDebeziumOfMariaDB(t *testing.T) {
	for i, f := range debeziumFormats {
		if f.postgres {
			continue
		}
		r := newRecording(t, "mariadb")
		s := maria.StartForTest(t, maria.Options{Unsafe: true, Settings: map[string]string{"version": "5.7.10-log", "default_time_zone": "+00:00"}})
		mariaScript(t, s, "", []byte("CREATE DATABASE golden; CREATE USER cdc@'%' IDENTIFIED BY 'x'; GRANT ALL ON *.* TO cdc@'%'"))
		mariaScript(t, s, "golden", readGolden(t, "mariadb", "load.sql"))
		r.add(f, "connector.class=io.debezium.connector.mysql.MySqlConnector", fmt.Sprintf("database.port=%d", s.Port()), "database.user=cdc", "database.password=x",
			fmt.Sprintf("database.server.id=%d", 7000+i), "database.include.list=golden", "include.schema.changes=false", "snapshot.locking.mode=none",
			"schema.history.internal=io.debezium.storage.file.history.FileSchemaHistory", "schema.history.internal.file.filename="+filepath.Join(r.dir, f.name+".history"))
		r.run(func() { mariaScript(t, s, "golden", readGolden(t, "mariadb", "changes.sql")) })
	}
}
