package endtoend

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	maria "github.com/trunkline/trunkline/connectors/mysql/localserver"
)

// cell is one value as a store's own reader gives it.
type cell struct {
	null  bool
	text  string // as flat has it
	bytes bool   // text is what the bytes are, which in a record are base64
	raw   bool   // text is a text, or the bytes: the store does not tell
	list  bool   // text is a JSON array or object, however it is written
	exact bool   // text is a number, whose zeros behind the point the store leaves out
}

// storeRows are the rows of a store by table and key.
type storeRows map[string]map[string]map[string]cell

// add puts a row at its key, the column id.
func (s storeRows) add(table string, row map[string]cell) {
	if s[table] == nil {
		s[table] = map[string]map[string]cell{}
	}
	s[table][`{"id":`+row["id"].text+`}`] = row
}

// sourceRows returns the after images of a source's records by table and key, each value as its JSON.
func sourceRows(t *testing.T, l *line, source string) map[string]map[string]map[string]json.RawMessage {
	t.Helper()
	out := map[string]map[string]map[string]json.RawMessage{}
	for _, r := range recordsOf(t, filepath.Join(l.dir, "log"), source) {
		var value struct {
			After  map[string]json.RawMessage
			Source struct{ Table string }
		}
		if err := json.Unmarshal([]byte(r.value), &value); err != nil {
			t.Fatalf("%s: %v", r.topic, err)
		}
		if out[value.Source.Table] == nil {
			out[value.Source.Table] = map[string]map[string]json.RawMessage{}
		}
		out[value.Source.Table][r.key] = value.After
	}
	return out
}

// listText writes a JSON array or object with each single value as its text, so that 1 and "1" are the same.
func listText(text string) string {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return text
	}
	var plain func(v any) any
	plain = func(v any) any {
		switch v := v.(type) {
		case nil:
			return nil
		case []any:
			for i := range v {
				v[i] = plain(v[i])
			}
			return v
		case map[string]any:
			for k := range v {
				v[k] = plain(v[k])
			}
			return v
		}
		return strings.TrimSuffix(flatText(fmt.Sprint(v)), ".0") // of a float
	}
	out, err := json.Marshal(plain(v))
	if err != nil {
		return text
	}
	return string(out)
}

func flatText(s string) string {
	if momentText.MatchString(s) {
		s = strings.Replace(s, " ", "T", 1)
	}
	if momentText.MatchString(s) || clockText.MatchString(s) {
		if s = strings.TrimSuffix(s, "Z"); strings.Contains(s, ".") {
			s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
		}
	}
	return s
}

// sameCell compares a value of a record with what a store says.
func sameCell(t *testing.T, want json.RawMessage, got cell) bool {
	if string(want) == "null" || got.null {
		return string(want) == "null" && got.null
	}
	encoded := string(want) == `"`+base64.StdEncoding.EncodeToString([]byte(got.text))+`"`
	if got.bytes || got.raw && encoded {
		return encoded
	}
	if word := string(want); word == "true" || word == "false" {
		return got.text == word || got.text == map[string]string{"true": "1", "false": "0"}[word]
	}
	if got.list || want[0] == '[' || want[0] == '{' {
		return listText(string(want)) == listText(got.text)
	}
	text := flatText(flat(t, want))
	if got.exact && strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return sameText(text, flatText(got.text))
}

// compareStore compares every value of the source's tables of the families with the store's. What a column cannot hold
// stands as text beside it. It returns the numbers of tables, rows, values, and values beside their columns.
func compareStore(t *testing.T, name string, source map[string]map[string]map[string]json.RawMessage, store storeRows) (tables, rows, values, beside int) {
	t.Helper()
	differences := 0
	differ := func(format string, args ...any) {
		if differences++; differences < 20 {
			t.Errorf(name+": "+format, args...)
		}
	}
	for table, list := range source {
		if !strings.HasPrefix(table, "t_") {
			continue
		}
		tables++
		for key, want := range list {
			rows++
			got, ok := store[table][key]
			if !ok {
				differ("%s %s is not there", table, key)
				continue
			}
			var texts map[string]string
			if object := got["_unrepresentable"]; !object.null && object.text != "" {
				if err := json.Unmarshal([]byte(object.text), &texts); err != nil {
					t.Fatalf("%s: %s %s: %v", name, table, key, err)
				}
			}
			for column, text := range want {
				values++
				g, ok := got[column]
				if kept, found := texts[column]; found && g.null {
					g = cell{text: kept}
					beside++
				}
				if !ok || !sameCell(t, text, g) {
					differ("%s %s %s: %.200s in the source, %+.200v in the store", table, key, column, text, g)
				}
			}
		}
	}
	if differences > 20 {
		t.Errorf("%s: %d values differ", name, differences)
	}
	return tables, rows, values, beside
}

// TestCorporaThroughStores brings both corpora into ClickHouse, Parquet, SQLite and Redis at once, and compares each value
// with what the store's own reader says of it.
func TestCorporaThroughStores(t *testing.T) {
	t.Parallel()
	pg, s := newDatabase(t), maria.StartForTest(t, maria.Options{Unsafe: true})
	psql(t, pg, readCorpus(t, "postgres", "load.sql"))
	script, err := os.ReadFile("testdata/corpus/mariadb/load.sql")
	if err != nil {
		t.Fatal(err)
	}
	mariaScript(t, s, "", script)
	dir := t.TempDir()
	ch, redis := startClickHouse(t), startRedis(t)
	topics := map[string]string{"pg": "pg.types.t_*", "maria": "maria.corpus_types.t_*"}
	var sinks strings.Builder
	for i, name := range []string{"pg", "maria"} {
		add := func(kind, settings string) {
			fmt.Fprintf(&sinks, "  %s_%s:\n    topics: [%q]\n    batch: {rows: 2000}\n%s", kind, name, topics[name], settings)
		}
		// SQLite's names have no case, so one of two that differ in that alone is left out.
		add("sqlite", fmt.Sprintf("    type: sqlite\n    path: %q\n    table: \"{table}\"\n", filepath.Join(dir, name+".db")))
		add("parquet", fmt.Sprintf("    type: file\n    format: parquet\n    path: %q\n", filepath.Join(dir, name)))
		add("clickhouse", fmt.Sprintf("    type: clickhouse\n    dsn: http://%s/default\n    table: \"%s.{table}\"\n    unrepresentable: text\n", ch, name))
		add("hash", fmt.Sprintf("    type: redis\n    dsn: redis://%s/%d\n    key: \"{table}:{key}\"\n", redis, 2*i))
		add("json", fmt.Sprintf("    type: redis\n    dsn: redis://%s/%d\n    key: \"{table}:{key}\"\n    format: json\n", redis, 2*i+1))
	}
	l := newLineOn(t, "  topics: {partitions: 1}\n", postgresSource(pg, "pg", "tables: [types.t_*]", "exclude: [types.t_columns]", "snapshot: only")+
		fmt.Sprintf("  maria:\n    type: mysql\n    dsn: %q\n    mode: cdc\n    tables: [corpus_types.t_*]\n    exclude: [corpus_types.t_columns]\n    snapshot: only\n",
			s.DSN("corpus_types")), sinks.String())
	l.once()
	for i, name := range []string{"pg", "maria"} {
		least := map[string]int{"pg": 700, "maria": 300}[name]
		source := sourceRows(t, l, name)
		for store, read := range map[string]func() storeRows{
			"SQLite":                      func() storeRows { return readSQLite(t, filepath.Join(dir, name+".db")) },
			"Parquet, read by DuckDB":     func() storeRows { return readParquetDuck(t, filepath.Join(dir, name)) },
			"Parquet, read by parquet-go": func() storeRows { return readParquet(t, filepath.Join(dir, name)) },
			"ClickHouse":                  func() storeRows { return readClickHouse(t, ch, name) },
			"Redis, hashes":               func() storeRows { return readHashes(t, redis, 2*i, source) },
			"Redis, JSON":                 func() storeRows { return readDocuments(t, redis, 2*i+1) },
		} {
			tables, rows, values, beside := compareStore(t, store+" from "+name, source, read())
			if rows < least {
				t.Errorf("compared %d rows of %s in %s", rows, name, store)
			}
			t.Logf("corpus: %d tables, %d rows, %d values from %s to %s, %d of them as text beside their columns", tables, rows, values, name, store, beside)
		}
	}
}
