package endtoend

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/trunkline/trunkline/connectors"
	maria "github.com/trunkline/trunkline/connectors/mysql/localserver"
)

// acrossRow is a row of the corpus, column by column as text.
type acrossRow map[string]string

// rowsOf returns the rows of a source's topics by table and key.
func rowsOf(t *testing.T, l *line, source string) map[string]map[string]acrossRow {
	t.Helper()
	out := map[string]map[string]acrossRow{}
	for _, r := range recordsOf(t, filepath.Join(l.dir, "log"), source) {
		var value struct {
			After  map[string]json.RawMessage
			Source struct{ Table string }
		}
		if err := json.Unmarshal([]byte(r.value), &value); err != nil {
			t.Fatalf("%s: %v", r.topic, err)
		}
		row := acrossRow{}
		for name, v := range value.After {
			row[name] = flat(t, v)
		}
		if out[value.Source.Table] == nil {
			out[value.Source.Table] = map[string]acrossRow{}
		}
		out[value.Source.Table][r.key] = row
	}
	return out
}

var (
	momentText = regexp.MustCompile(`^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?$`)
	clockText  = regexp.MustCompile(`^-?\d+:\d\d:\d\d(\.\d+)?$`)
)

// flat makes texts alike that say the same in two databases: true and 1, a moment with and without zeros behind its point
// or with the zone that both know to be UTC. Everything else has to be the same text.
func flat(t *testing.T, v json.RawMessage) string {
	t.Helper()
	switch string(v) {
	case "null":
		return "NULL"
	case "true":
		return "1"
	case "false":
		return "0"
	}
	if v[0] != '"' {
		return string(v)
	}
	text, _, err := connectors.Unquote(v, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := string(text)
	if momentText.MatchString(s) || clockText.MatchString(s) {
		if s = strings.TrimSuffix(s, "Z"); strings.Contains(s, ".") {
			s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
		}
	}
	return s
}

// sameText compares two flat texts. Two spellings of one float are the same. MariaDB has one zero.
func sameText(a, b string) bool {
	if a == b {
		return true
	}
	if len(a) > 30 || len(b) > 30 || !strings.ContainsAny(a+b, "eE.") {
		return false
	}
	x, err := strconv.ParseFloat(a, 64)
	y, err2 := strconv.ParseFloat(b, 64)
	return err == nil && err2 == nil && x == y && (math.Signbit(x) == math.Signbit(y) || x == 0)
}

// compareAcross compares every row of the source with what another source read from the target. What a column could not
// hold stands in the column beside. It returns how many values did.
func compareAcross(t *testing.T, source, target map[string]map[string]acrossRow) (rows, beside int) {
	t.Helper()
	differences := 0
	for table, list := range source {
		for key, want := range list {
			rows++
			got, ok := target[table][key]
			if !ok {
				if differences++; differences < 40 {
					t.Errorf("%s %s is not in the target", table, key)
				}
				continue
			}
			var texts map[string]string
			if object := got["_unrepresentable"]; object != "NULL" && object != "" {
				if err := json.Unmarshal([]byte(object), &texts); err != nil {
					t.Fatalf("%s %s: %v", table, key, err)
				}
			}
			for column, text := range want {
				g, ok := got[column]
				if kept, found := texts[column]; found && g == "NULL" {
					g = flat(t, connectors.AppendJSONString(nil, []byte(kept)))
					beside++
				}
				if !ok || !sameText(text, g) {
					if differences++; differences < 40 {
						t.Errorf("%s %s %s: %.200q in the source, %.200q in the target", table, key, column, text, g)
					}
				}
			}
		}
	}
	return rows, beside
}

// Every row of the corpus of PostgreSQL is in MariaDB, with each of its values in its column or, as text, beside it.
func TestCorpusFromPostgresToMariaDB(t *testing.T) {
	t.Parallel()
	source, target := newDatabase(t), newMaria(t)
	psql(t, source, readCorpus(t, "postgres", "load.sql"))
	// A name in MariaDB has no characters above U+FFFF.
	l := newLineOn(t, "  topics: {partitions: 1}\n", postgresSource(source, "out", "tables: [types.*]", "exclude: [types.tabl*_*, types.t_columns]", "snapshot: only"), target.sink("copy", "unrepresentable: text"))
	l.once()
	l.configure(fmt.Sprintf("  back:\n    type: mysql\n    dsn: %q\n    mode: cdc\n    snapshot: only\n    tables: [\"%s.*\"]\n", target.URL, target.Name), "  {}\n")
	l.once()
	rows, beside := compareAcross(t, rowsOf(t, l, "out"), rowsOf(t, l, "back"))
	if rows < 500 || beside < 20 {
		t.Errorf("compared %d rows with %d values beside their columns", rows, beside)
	}
	t.Logf("corpus: %d rows from PostgreSQL to MariaDB, %d values as text beside their columns", rows, beside)
}

// Every row of the corpus of MariaDB is in PostgreSQL.
func TestCorpusFromMariaDBToPostgres(t *testing.T) {
	t.Parallel()
	s := maria.StartForTest(t, maria.Options{Unsafe: true})
	script, err := os.ReadFile("testdata/corpus/mariadb/load.sql")
	if err != nil {
		t.Fatal(err)
	}
	mariaScript(t, s, "", bytes.Clone(script))
	target := newDatabase(t)
	// A name in PostgreSQL has 63 bytes.
	l := newLineOn(t, "  topics: {partitions: 1}\n",
		fmt.Sprintf("  out:\n    type: mysql\n    dsn: %q\n    mode: cdc\n    tables: [corpus_types.*]\n    exclude: [\"corpus_types.a table name*\", corpus_types.t_columns]\n    snapshot: only\n", s.DSN("corpus_types")),
		postgresSink(target, "copy", "table: copied.{table}", "unrepresentable: text"))
	l.once()
	l.configure(postgresSource(target, "back", "tables: [copied.*]", "snapshot: only"), "  {}\n")
	l.once()
	rows, beside := compareAcross(t, rowsOf(t, l, "out"), rowsOf(t, l, "back"))
	if rows < 250 || beside < 10 {
		t.Errorf("compared %d rows with %d values beside their columns", rows, beside)
	}
	t.Logf("corpus: %d rows from MariaDB to PostgreSQL, %d values as text beside their columns", rows, beside)
}
