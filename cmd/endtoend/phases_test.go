package endtoend

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestCorpusIsTheSameInEveryPhase reads the rows of the corpus in three ways, as a snapshot, as changes and by a cursor, and
// compares the records: the same rows have the same keys and values in the same order of columns, to the byte.
func TestCorpusIsTheSameInEveryPhase(t *testing.T) {
	t.Parallel()
	source := newDatabase(t)
	load := readCorpus(t, "postgres", "load.sql")
	psql(t, source, load, "--set=ddl_only=1")
	source.exec("CREATE PUBLICATION everything FOR ALL TABLES WITH (publish_via_partition_root = true)")
	dir := t.TempDir()
	archive := func(name string) string {
		return "  archive_" + name + ":\n    type: file\n    path: " + filepath.Join(dir, name) + "\n    topics: ['" + name + ".*']\n"
	}
	l := newLine(t, postgresSource(source, "stream", `tables: ["*"]`, "snapshot: never", "publication: everything"), archive("stream"))
	l.start()
	eventually(t, "the stream runs", func() bool {
		return len(source.list("SELECT slot_name::text FROM pg_replication_slots WHERE active AND database = current_database()")) == 1 && runs(l, "stream")
	})
	psql(t, source, rowsOnly(load))
	source.exec("CREATE TABLE types.last (id int PRIMARY KEY)")
	if code := l.stop(); code != 0 {
		t.Fatalf("a clean drain ended with %d", code)
	}
	l.once()

	var cursors []string
	for _, name := range source.list(`SELECT '''' || replace(n.nspname || '.' || c.relname, '''', '''''') || '''' FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
  WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND a.attname = 'id' AND a.atttypid IN (20, 21, 23) AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' ORDER BY 1`) {
		cursors = append(cursors, "{name: "+name+", cursor: id}")
	}
	for name, from := range map[string]string{
		"snapshot": postgresSource(source, "snapshot", `tables: ["*"]`, "snapshot: only"),
		"extract":  fmt.Sprintf("  extract:\n    type: postgres\n    dsn: %q\n    mode: timestamp\n    tables: [%s]\n", source.URL, strings.Join(cursors, ", ")),
	} {
		newLine(t, from, archive(name)).once()
	}

	snapshot, stream, extract := archivedRows(t, dir, "snapshot"), archivedRows(t, dir, "stream"), archivedRows(t, dir, "extract")
	rows := 0
	for table, want := range snapshot {
		rows += len(want)
		if got := stream[table]; !slices.Equal(got, want) {
			t.Errorf("the stream of %s: %s", table, firstDifference(want, got))
		}
		if got, ok := extract[table]; ok && !slices.Equal(got, want) {
			t.Errorf("the extract of %s: %s", table, firstDifference(want, got))
		}
	}
	for table := range stream {
		if snapshot[table] == nil {
			t.Errorf("the snapshot has no rows of %s", table)
		}
	}
	if len(extract) < 130 || len(snapshot) < 140 {
		t.Errorf("rows of %d tables by a cursor, of %d in the snapshot", len(extract), len(snapshot))
	}
	t.Logf("%d rows of %d tables are the same in snapshot and stream, of %d tables by a cursor too", rows, len(snapshot), len(extract))
}

// archivedRows returns key and values of the archived rows by table, sorted.
func archivedRows(t *testing.T, dir, source string) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	err := filepath.Walk(filepath.Join(dir, source), func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() || !strings.HasSuffix(path, ".jsonl") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for line := range bytes.Lines(text) {
			var r struct {
				Op, Schema, Table string
				Key, After        json.RawMessage
				Unchanged         []string
			}
			if err := json.Unmarshal(line, &r); err != nil {
				return err
			}
			if r.Op != "r" && r.Op != "c" || len(r.Unchanged) > 0 {
				t.Errorf("%s: a record with op %q and unchanged %v", path, r.Op, r.Unchanged)
			}
			name := r.Schema + "." + r.Table
			out[name] = append(out[name], string(r.Key)+" "+string(r.After))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, rows := range out {
		slices.Sort(rows)
	}
	return out
}
