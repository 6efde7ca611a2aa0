package file

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/conformance"
	"github.com/trunkline/trunkline/connectors/conformance/duck"
	"github.com/trunkline/trunkline/connectors/rowfile"
)

var item = &connectors.Table{
	Schema: "main", Name: "item", Key: []int{0},
	Columns: []connectors.Column{{Name: "id", Kind: connectors.Int}, {Name: "v", Kind: connectors.Text}},
}

// rowsFrom makes n inserts with ids that equal their offsets.
func rowsFrom(first, n int64) []connectors.Change {
	var out []connectors.Change
	for id := first; id < first+n; id++ {
		out = append(out, connectors.Change{
			Op: connectors.Insert, Table: item, Offset: id, Time: time.Unix(1769776496, 0),
			After: []connectors.Value{connectors.IntValue(id), connectors.DataValue(connectors.Text, []byte("v"+strconv.FormatInt(id, 10)))},
		})
	}
	return out
}

func batchOf(changes []connectors.Change) connectors.Batch {
	next := changes[len(changes)-1].Offset + 1
	return connectors.Batch{Stream: "shop/0", Changes: changes, Position: strconv.AppendInt(nil, next, 10)}
}

// Shorter names of the formats, and settings that are complete.
const (
	JSONL   = rowfile.JSONL
	CSV     = rowfile.CSV
	Parquet = rowfile.Parquet
)

func settings(dir string, format rowfile.Format, roll connectors.Size) *Config {
	c := &Config{Path: dir, Settings: rowfile.Settings{Format: format}, Roll: roll}
	if err := c.Validate(); err != nil {
		panic(err)
	}
	return c
}

func openSink(t *testing.T, dir string, format rowfile.Format) connectors.Transactional {
	t.Helper()
	return openWith(t, settings(dir, format, 1<<20))
}

func openWith(t *testing.T, c *Config) connectors.Transactional {
	t.Helper()
	s, err := open(t.Context(), c, connectors.NewEnv("archive"))
	if err != nil {
		t.Fatal(err)
	}
	return s.(connectors.Transactional)
}

func committed(t *testing.T, s connectors.Transactional) string {
	t.Helper()
	p, err := s.Committed(t.Context(), "shop/0")
	if err != nil {
		t.Fatal(err)
	}
	return string(p)
}

// paths returns the finished files of all partitions, as a reader that knows the rule about covered files.
func paths(t *testing.T, root string) []string {
	t.Helper()
	folders := map[string][]span{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if s, ok := parseName(d.Name()); err == nil && ok {
			s.folder = filepath.Dir(path)
			partition := strings.TrimSuffix(s.folder, "/"+datePrefix+filepath.Base(s.folder)[min(len(datePrefix), len(filepath.Base(s.folder))):])
			folders[partition] = append(folders[partition], s)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(folders)) {
		spans := folders[name]
		slices.SortFunc(spans, func(a, b span) int { return strings.Compare(a.name(), b.name()) })
		for i, s := range spans {
			covered := slices.ContainsFunc(slices.Concat(spans[:i], spans[i+1:]), func(o span) bool { return o.first <= s.first && o.last >= s.last })
			if !covered {
				out = append(out, filepath.Join(s.folder, s.name()))
			}
		}
	}
	return out
}

// contents reads the finished files, and undoes their compression.
func contents(t *testing.T, root string) [][]byte {
	t.Helper()
	var out [][]byte
	for _, path := range paths(t, root) {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		_, ending, _ := strings.Cut(filepath.Base(path), ".")
		_, compression, _ := rowfile.ParseEnding(ending)
		r, err := rowfile.Decompress(f, compression)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close(), f.Close()); err != nil {
			t.Fatal(err)
		}
		out = append(out, b)
	}
	return out
}

// ids returns the ids of all lines in the order in which they stand.
func ids(t *testing.T, root string) []int64 {
	t.Helper()
	var out []int64
	for _, b := range contents(t, root) {
		for line := range bytes.Lines(b) {
			e, ok := conformance.ParseLine(t, line, item)
			if !ok {
				t.Fatalf("a line of another table: %s", line)
			}
			id, err := strconv.ParseInt(e.After["id"], 10, 64)
			if err != nil || id != e.Offset {
				t.Fatalf("id %q at offset %d", e.After["id"], e.Offset)
			}
			out = append(out, id)
		}
	}
	return out
}

func wantSequence(t *testing.T, got []int64, n int64) {
	t.Helper()
	for i, id := range got {
		if id != int64(i) {
			t.Fatalf("line %d has id %d", i, id)
		}
	}
	if int64(len(got)) != n {
		t.Fatalf("%d lines, want %d", len(got), n)
	}
}

func TestConformance(t *testing.T) {
	db := duck.Start(t, "../..")
	for _, c := range []Config{
		{Settings: rowfile.Settings{Format: JSONL}},
		{Settings: rowfile.Settings{Format: CSV}},
		{Settings: rowfile.Settings{Format: CSV, Compression: rowfile.Gzip}, Layout: Hive},
		{Settings: rowfile.Settings{Format: Parquet}, Layout: Hive},
	} {
		t.Run(fmt.Sprint(c.Format, c.Compression, c.Layout), func(t *testing.T) {
			conformance.RunSink(t, conformance.SinkCase{Late: true, New: func(t *testing.T) conformance.SinkSystem {
				c := c
				c.Path, c.Roll = t.TempDir(), 1<<20
				if err := c.Validate(); err != nil {
					t.Fatal(err)
				}
				return conformance.SinkSystem{
					Open: func(ctx context.Context, env connectors.Env) (connectors.Sink, error) { return open(ctx, &c, env) },
					Log:  func(t *testing.T, table *connectors.Table) []conformance.Entry { return entries(t, db, &c, table) },
				}
			}})
		})
	}
}

// entries reads all changes of a table back.
func entries(t *testing.T, db *duck.DB, c *Config, table *connectors.Table) []conformance.Entry {
	t.Helper()
	var out []conformance.Entry
	if c.Format == Parquet {
		for _, path := range paths(t, c.Path) {
			out = append(out, db.Entries(t, path, table)...)
		}
		return out
	}
	for _, b := range contents(t, c.Path) {
		if c.Format == CSV {
			out = append(out, csvEntries(t, b, table)...)
			continue
		}
		for line := range bytes.Lines(b) {
			if e, ok := conformance.ParseLine(t, line, table); ok {
				out = append(out, e)
			}
		}
	}
	return out
}

// field is a CSV field; quoted tells an empty text from NULL.
type field struct {
	text   string
	quoted bool
}

// parseCSV is RFC 4180, written apart from the writer.
func parseCSV(t *testing.T, b []byte) [][]field {
	t.Helper()
	var lines [][]field
	r := bufio.NewReader(bytes.NewReader(b))
	line, f, inside := []field{}, field{}, false
	for {
		c, err := r.ReadByte()
		if err != nil {
			if inside || len(line) > 0 {
				t.Fatal("the file ends inside a line")
			}
			return lines
		}
		switch {
		case c == '"' && inside:
			if next, err := r.Peek(1); err == nil && next[0] == '"' {
				_, _ = r.ReadByte()
				f.text += `"`
			} else {
				inside = false
			}
		case inside:
			f.text += string([]byte{c})
		case c == '"':
			inside, f.quoted = true, true
		case c == ',':
			line, f = append(line, f), field{}
		case c == '\r':
		case c == '\n':
			lines = append(lines, append(line, f))
			line, f = nil, field{}
		default:
			f.text += string([]byte{c})
		}
	}
}

func csvEntries(t *testing.T, b []byte, table *connectors.Table) []conformance.Entry {
	t.Helper()
	lines := parseCSV(t, b)
	var out []conformance.Entry
	for _, line := range lines[1:] {
		if line[3].text != table.FullName() {
			continue
		}
		offset, err := strconv.ParseInt(line[1].text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		e := conformance.Entry{Op: connectors.OpOf(line[0].text[0]), Offset: offset}
		if line[4].text != "" {
			var key map[string]json.Number
			if err := json.Unmarshal([]byte(line[4].text), &key); err != nil {
				t.Fatal(err)
			}
			e.Before = conformance.Row{}
			for name, v := range key {
				e.Before[name] = v.String()
			}
		}
		if line[5].text != "" {
			if err := json.Unmarshal([]byte(line[5].text), &e.Unchanged); err != nil {
				t.Fatal(err)
			}
		}
		row := conformance.Row{}
		for i, f := range line[6:] {
			name := lines[0][6+i].text
			if slices.Contains(e.Unchanged, name) || f.text == "" && !f.quoted {
				continue
			}
			row[name] = f.text
			if at := table.Column(name); at >= 0 && table.Columns[at].Kind == connectors.Bytes {
				raw, err := base64.StdEncoding.DecodeString(f.text)
				if err != nil {
					t.Fatal(err)
				}
				row[name] = string(raw)
			}
		}
		switch e.Op {
		case connectors.Delete:
			e.Before = row
		case connectors.Truncate:
		default:
			e.After = row
		}
		out = append(out, e)
	}
	return out
}

func TestCrash(t *testing.T) {
	t.Parallel()

	t.Run("leftovers are removed and parts of a merge do not count", func(t *testing.T) {
		t.Parallel()
		root := t.TempDir()
		s := openSink(t, root, JSONL)
		for i := range int64(3) {
			if err := s.Write(t.Context(), batchOf(rowsFrom(10*i, 10))); err != nil {
				t.Fatal(err)
			}
		}
		dir := filepath.Join(root, "shop", "0")
		var whole []byte
		for _, b := range contents(t, root) {
			whole = append(whole, b...)
		}
		for name, data := range map[string][]byte{
			span{first: 0, last: 29, ending: "jsonl"}.name():               whole,
			tempPrefix + span{first: 30, last: 39, ending: "jsonl"}.name(): []byte(`{"topic":"sh`),
			"notes.txt": nil,
		} {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if p := committed(t, openSink(t, root, JSONL)); p != "30" {
			t.Errorf("position %q, want 30", p)
		}
		wantSequence(t, ids(t, root), 30)
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		want := []string{lockName, ownerName, span{first: 0, last: 29, ending: "jsonl"}.name(), "notes.txt"}
		if !slices.Equal(names, want) {
			t.Errorf("files %v, want %v", names, want)
		}
	})

	t.Run("what is there already is not written again", func(t *testing.T) {
		t.Parallel()
		root := t.TempDir()
		s := openSink(t, root, JSONL)
		for _, b := range [][]connectors.Change{rowsFrom(0, 10), rowsFrom(0, 10), rowsFrom(5, 10), rowsFrom(3, 4)} {
			if err := s.Write(t.Context(), batchOf(b)); err != nil {
				t.Fatal(err)
			}
		}
		wantSequence(t, ids(t, root), 15)
	})

	t.Run("files that overlap stop the sink", func(t *testing.T) {
		t.Parallel()
		root := t.TempDir()
		s := openSink(t, root, JSONL)
		if err := s.Write(t.Context(), batchOf(rowsFrom(0, 10))); err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(root, "shop", "0", span{first: 5, last: 12, ending: "jsonl"}.name())
		if err := os.WriteFile(name, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := openSink(t, root, JSONL).Committed(t.Context(), "shop/0"); !errors.Is(err, connectors.ErrFatal) {
			t.Errorf("committed: %v, want ErrFatal", err)
		}
	})

	t.Run("another group is told to take another path", func(t *testing.T) {
		t.Parallel()
		root := t.TempDir()
		openSink(t, root, JSONL)
		if _, err := open(t.Context(), settings(root, JSONL, 0), connectors.NewEnv("other")); !errors.Is(err, connectors.ErrFatal) {
			t.Errorf("open: %v, want ErrFatal", err)
		}
		findings, err := check(t.Context(), settings(root, JSONL, 0), connectors.NewEnv("other"))
		if err != nil || len(findings) != 1 || findings[0].Severity != connectors.Fatal {
			t.Errorf("check: %v, %v", findings, err)
		}
	})

	t.Run("a position before the last file is refused", func(t *testing.T) {
		t.Parallel()
		root := t.TempDir()
		s := openSink(t, root, JSONL)
		if err := s.Write(t.Context(), batchOf(rowsFrom(0, 10))); err != nil {
			t.Fatal(err)
		}
		err := s.Write(t.Context(), connectors.Batch{Stream: "shop/0", Position: connectors.Position("3")})
		if !errors.Is(err, connectors.ErrFatal) {
			t.Errorf("write: %v, want ErrFatal", err)
		}
	})
}

func TestMerge(t *testing.T) {
	t.Parallel()
	db := duck.Start(t, "../..")
	for _, format := range []rowfile.Format{JSONL, CSV, Parquet} {
		t.Run("many small batches make few files of "+string(format), func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			s := openSink(t, root, format)
			const batches, rows = 345, 5
			for i := range int64(batches) {
				if err := s.Write(t.Context(), batchOf(rowsFrom(rows*i, rows))); err != nil {
					t.Fatal(err)
				}
			}
			if n := len(paths(t, root)); n > 30 {
				t.Errorf("%d files", n)
			}
			var got []int64
			for _, e := range entries(t, db, settings(root, format, 0), item) {
				got = append(got, e.Offset)
			}
			wantSequence(t, got, batches*rows)
			if p := committed(t, openSink(t, root, format)); p != fmt.Sprint(batches*rows) {
				t.Errorf("position %q, want %d", p, batches*rows)
			}
		})
	}

	t.Run("a file of the full size is left alone", func(t *testing.T) {
		t.Parallel()
		p := &partition{dir: t.TempDir()}
		line := []byte(strings.Repeat("x", 999) + "\n")
		for i := range int64(30) {
			if err := p.add(span{first: i, last: i, ending: "jsonl"}, line); err != nil {
				t.Fatal(err)
			}
			if err := p.merge(8000, &rowfile.Settings{}); err != nil {
				t.Fatal(err)
			}
		}
		if len(p.files) != 3 || p.files[0].size != 10_000 {
			t.Errorf("%d files, the first of %d bytes", len(p.files), p.files[0].size)
		}
	})
}

func FuzzParseName(f *testing.F) {
	f.Add(span{first: 0, last: 4999, ending: "jsonl"}.name())
	f.Add("00000000000000000000--0000000000000000001.csv")
	f.Fuzz(func(t *testing.T, name string) {
		if s, ok := parseName(name); ok && s.name() != name {
			t.Errorf("%q came back as %q", name, s.name())
		}
	})
}
