// Package duck reads files with DuckDB, a reader that others have written, for tests.
//
// It promises the values as DuckDB's own Python module hands them over, each as the text that a record has. The module is
// what scripts/setup-stores installs into bin/duckdb, or what TRUNKLINE_DUCKDB names. Only tests call it.
package duck

import (
	"bufio"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/conformance"
)

//go:embed reader.py
var script string

// DB is a running DuckDB without tables of its own.
type DB struct {
	mu  sync.Mutex
	in  io.WriteCloser
	out *bufio.Reader
}

// Result is what a query gave.
type Result struct {
	Columns []string
	Types   []string
	Rows    [][]*string // nil: NULL
	Error   string
}

// Start runs DuckDB until the test ends. root is the way from the test's folder to the top of the repository.
func Start(t *testing.T, root string) *DB {
	t.Helper()
	folder, err := filepath.Abs(filepath.Join(root, "bin", "duckdb"))
	if dir := os.Getenv("TRUNKLINE_DUCKDB"); dir != "" {
		folder = dir
	}
	if err == nil {
		_, err = os.Stat(filepath.Join(folder, "duckdb"))
	}
	if err != nil {
		t.Fatalf("find DuckDB's Python module: %v; run scripts/setup-stores", err)
	}
	cmd := exec.Command("python3", "-c", script)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+folder)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start python3: %v; run scripts/setup-stores", err)
	}
	t.Cleanup(func() {
		_ = in.Close() // it ends at the end of its input
		if err := cmd.Wait(); err != nil {
			t.Errorf("end DuckDB: %v", err)
		}
	})
	return &DB{in: in, out: bufio.NewReader(out)}
}

// Try runs a query; the result says why it could not.
func (db *DB) Try(t *testing.T, sql string) Result {
	t.Helper()
	db.mu.Lock()
	defer db.mu.Unlock()
	if err := json.NewEncoder(db.in).Encode(map[string]string{"sql": sql}); err != nil {
		t.Fatalf("ask DuckDB: %v", err)
	}
	line, err := db.out.ReadBytes('\n')
	if err != nil {
		t.Fatalf("read DuckDB's answer: %v", err)
	}
	var r Result
	if err := json.Unmarshal(line, &r); err != nil {
		t.Fatalf("read DuckDB's answer: %v", err)
	}
	return r
}

// Query runs a query that must not fail.
func (db *DB) Query(t *testing.T, sql string) Result {
	t.Helper()
	r := db.Try(t, sql)
	if r.Error != "" {
		t.Fatalf("DuckDB: %s: %s", sql, r.Error)
	}
	return r
}

// Entries reads the changes of a table in a Parquet file. A column beside those of the table, which an older file lacks or
// a newer one has, counts as it stands in the file.
func (db *DB) Entries(t *testing.T, path string, table *connectors.Table) []conformance.Entry {
	t.Helper()
	r := db.Query(t, "SELECT * FROM read_parquet('"+strings.ReplaceAll(path, "'", "''")+"', hive_partitioning=false)")
	var out []conformance.Entry
	for _, row := range r.Rows {
		if *row[3] != table.FullName() {
			continue
		}
		offset, err := strconv.ParseInt(*row[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		e := conformance.Entry{Op: connectors.OpOf((*row[0])[0]), Offset: offset}
		if row[4] != nil {
			var key map[string]json.Number
			if err := json.Unmarshal([]byte(*row[4]), &key); err != nil {
				t.Fatal(err)
			}
			e.Before = conformance.Row{}
			for name, v := range key {
				e.Before[name] = v.String()
			}
		}
		if row[5] != nil {
			if err := json.Unmarshal([]byte(*row[5]), &e.Unchanged); err != nil {
				t.Fatal(err)
			}
		}
		image := rowOf(t, r, row, table, e.Unchanged)
		switch e.Op {
		case connectors.Delete:
			e.Before = image
		case connectors.Truncate:
		default:
			e.After = image
		}
		if (*row[6] == "true") != (e.Op == connectors.Delete) {
			t.Errorf("__deleted is %s where _op is %s", *row[6], *row[0])
		}
		out = append(out, e)
	}
	return out
}

// rowOf returns the columns of the table, those behind the seven of ours.
func rowOf(t *testing.T, r Result, row []*string, table *connectors.Table, unchanged []string) conformance.Row {
	t.Helper()
	image := conformance.Row{}
	for i, name := range r.Columns[7:] {
		v := row[7+i]
		if v == nil || slices.Contains(unchanged, name) {
			continue
		}
		image[name] = *v
		if at := table.Column(name); at >= 0 && table.Columns[at].Kind == connectors.Bytes {
			b, err := base64.StdEncoding.DecodeString(*v)
			if err != nil {
				t.Fatal(err)
			}
			image[name] = string(b)
		}
	}
	return image
}
