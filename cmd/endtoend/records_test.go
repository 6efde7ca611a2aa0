package endtoend

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"modernc.org/sqlite"

	maria "github.com/trunkline/trunkline/connectors/mysql/localserver"
)

// The golden files hold the records of a snapshot of every type, with every edge case of the corpus, as docs/records.md promises them.
// A change there is a change of what readers rely on. TRUNKLINE_GOLDEN=update writes them anew.
const recordsDir = "testdata/records"

// longest is how many bytes of a record a golden file shows; of a longer one it has the digest.
const longest = 3000

var sourceBlock = regexp.MustCompile(`"source":\{[^{}]*\}`)

// goldenRecords writes records with all of their values. Of the source block, which is the same in each but for the table,
// the first shows all.
func goldenRecords(records []goldenRecord) []byte {
	slices.SortStableFunc(records, func(a, b goldenRecord) int { return strings.Compare(a.topic, b.topic) })
	var out bytes.Buffer
	for i, r := range records {
		value := volatile.ReplaceAllStringFunc(r.value, func(member string) string {
			if parts := volatile.FindStringSubmatch(member); parts[1] != "id" {
				return `"` + parts[1] + `":~`
			}
			return member
		})
		if i > 0 {
			value = sourceBlock.ReplaceAllString(value, `"source":~`)
		}
		if len(value) > longest {
			value = fmt.Sprintf("%d bytes %x", len(value), sha256.Sum256([]byte(value)))
		}
		fmt.Fprintf(&out, "%s\t%s\t%s\n", r.topic, r.key, value)
	}
	return out.Bytes()
}

// wantRecords compares with a golden file.
func wantRecords(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join(recordsDir, name+".golden")
	if os.Getenv("TRUNKLINE_GOLDEN") == "update" {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, strings.Split(string(want), "\n"), strings.Split(string(got), "\n"))
}

// wantLines shows the first few lines that differ, around the first byte that does.
func wantLines(t *testing.T, want, got []string) {
	t.Helper()
	differences := 0
	for i := range max(len(want), len(got)) {
		a, b := "nothing", "nothing"
		if i < len(want) {
			a = want[i]
		}
		if i < len(got) {
			b = got[i]
		}
		if a == b {
			continue
		}
		if differences++; differences > 5 {
			return
		}
		at := 0
		for at < min(len(a), len(b)) && a[at] == b[at] {
			at++
		}
		at = max(0, at-60)
		t.Errorf("line %d, from byte %d\nwant %.300s\ngot  %.300s", i+1, at, a[at:], b[at:])
	}
}

func TestRecordsOfPostgres(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	psql(t, db, readCorpus(t, "postgres", "load.sql"))
	// What stands in these depends on the server: numbers of its own catalog.
	l := newLineOn(t, "  topics: {partitions: 1}\n", postgresSource(db, "golden", "tables: [types.*]", "exclude: [types.t_oid]", "snapshot: only"), "  {}\n")
	l.once()
	wantRecords(t, "postgres", goldenRecords(recordsOf(t, filepath.Join(l.dir, "log"), "golden")))
}

func TestRecordsOfMariaDB(t *testing.T) {
	t.Parallel()
	s := maria.StartForTest(t, maria.Options{Unsafe: true})
	script, err := os.ReadFile("testdata/corpus/mariadb/load.sql")
	if err != nil {
		t.Fatal(err)
	}
	mariaScript(t, s, "", script)
	l := newLineOn(t, "  topics: {partitions: 1}\n",
		fmt.Sprintf("  golden:\n    type: mysql\n    dsn: %q\n    mode: cdc\n    tables: [corpus_types.*]\n    snapshot: only\n", s.DSN("corpus_types")), "  {}\n")
	l.once()
	wantRecords(t, "mariadb", goldenRecords(recordsOf(t, filepath.Join(l.dir, "log"), "golden")))
}

// sqliteFile opens connections to a database file.
type sqliteFile string

func (f sqliteFile) Connect(context.Context) (driver.Conn, error) { return f.Driver().Open(string(f)) }

func (f sqliteFile) Driver() driver.Driver { return &sqlite.Driver{} }

func TestRecordsOfSQLite(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "golden.db")
	db := sql.OpenDB(sqliteFile(path))
	defer db.Close()
	script, err := os.ReadFile(filepath.Join(recordsDir, "sqlite.sql"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(string(script)); err != nil {
		t.Fatal(err)
	}
	l := newLineOn(t, "  topics: {partitions: 1}\n",
		fmt.Sprintf("  golden:\n    type: sqlite\n    path: %q\n    mode: timestamp\n    tables: [{name: \"*\", cursor: at}]\n", path), "  {}\n")
	l.once()
	wantRecords(t, "sqlite", goldenRecords(recordsOf(t, filepath.Join(l.dir, "log"), "golden")))
}
