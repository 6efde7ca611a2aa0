package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/conformance"
	"github.com/trunkline/trunkline/connectors/document"
	"github.com/trunkline/trunkline/connectors/rowfile"
)

// from makes settings as a configuration would.
func from(t *testing.T, path string, set func(*SourceConfig)) *SourceConfig {
	t.Helper()
	c, err := decodeSource(func(into any) error {
		c := into.(*SourceConfig)
		c.Path, c.Poll = path, time.Millisecond
		if set != nil {
			set(c)
		}
		return c.Validate()
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func types(t *testing.T, list map[string]string) map[string]document.Type {
	t.Helper()
	out := map[string]document.Type{}
	for name, text := range list {
		var typ document.Type
		if err := typ.UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
		out[name] = typ
	}
	return out
}

// line is a change as a test compares it.
func line(c connectors.Change) string {
	b := connectors.AppendLine(nil, "", &connectors.Change{Op: c.Op, Table: c.Table, Before: c.Before, After: c.After})
	_, rest, _ := strings.Cut(strings.TrimSuffix(string(b), "\n"), `"op":`)
	op, rest, _ := strings.Cut(rest, `,"ts":null`)
	return op + rest
}

// drain reads to the present end, and returns the changes and the last position.
func drain(t *testing.T, c *SourceConfig, at connectors.Position) ([]string, connectors.Position, error) {
	t.Helper()
	env := connectors.NewEnv("in")
	env.Once = true
	env.Limits.BatchRows = 3
	s, err := openSource(t.Context(), c, env, at)
	if err != nil {
		return nil, at, err
	}
	defer s.Close(context.Background())
	var out []string
	for {
		b, err := s.Read(t.Context())
		if errors.Is(err, io.EOF) {
			return out, at, nil
		}
		if err != nil {
			return out, at, err
		}
		for _, change := range b.Changes {
			out = append(out, line(change))
		}
		if b.Position != nil {
			at = bytes.Clone(b.Position)
		}
	}
}

func mustDrain(t *testing.T, c *SourceConfig, at connectors.Position) ([]string, connectors.Position) {
	t.Helper()
	out, at, err := drain(t, c, at)
	if err != nil {
		t.Fatal(err)
	}
	return out, at
}

func put(t *testing.T, path string, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func add(t *testing.T, path string, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

func pack(t *testing.T, ending, text string) string {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser = gzip.NewWriter(&b)
	if ending == "zst" {
		var err error
		if w, err = zstd.NewWriter(&b); err != nil {
			t.Fatal(err)
		}
	}
	_, err := io.WriteString(w, text)
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

type parquetItem struct {
	ID int64  `parquet:"id"`
	V  string `parquet:"v"`
}

func TestSourceConformance(t *testing.T) {
	jsonRow := func(id int) string { return fmt.Sprintf(`{"id":%d,"v":"v%[1]d"}`+"\n", id) }
	csvRow := func(id int) string { return fmt.Sprintf("%d,v%[1]d\n", id) }
	cases := []struct {
		name, ending, header string
		row                  func(int) string
		grows                bool
	}{
		{"a file of JSON lines that grows", "jsonl", "", jsonRow, true},
		{"new files of JSON lines", "ndjson", "", jsonRow, false},
		{"a CSV file that grows", "csv", "id,v\n", csvRow, true},
		{"new files of CSV, gzip", "csv.gz", "id,v\n", csvRow, false},
		{"new files of JSON lines, zstd", "jsonl.zst", "", jsonRow, false},
		{"new files of Parquet", "parquet", "", nil, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			conformance.RunSource(t, conformance.SourceCase{New: func(t *testing.T) conformance.SourceSystem {
				dir := filepath.Join(t.TempDir(), "item")
				if err := os.Mkdir(dir, 0o700); err != nil {
					t.Fatal(err)
				}
				config := from(t, dir, func(s *SourceConfig) {
					s.Table, s.Key = "shop.{dir}", []string{"id"}
					s.Types = types(t, map[string]string{"id": "bigint"})
				})
				files := 0
				return conformance.SourceSystem{
					Open: func(ctx context.Context, env connectors.Env, at connectors.Position) (connectors.Source, error) {
						return openSource(ctx, config, env, at)
					},
					Table: "shop.item",
					Insert: func(t *testing.T, ids ...int) {
						name := filepath.Join(dir, fmt.Sprintf("%04d.%s", files, c.ending))
						if !c.grows {
							files++
						}
						text := c.header
						if _, err := os.Stat(name); err == nil {
							text = ""
						}
						var rows []parquetItem
						for _, id := range ids {
							if c.row == nil {
								rows = append(rows, parquetItem{int64(id), "v" + strconv.Itoa(id)})
							} else {
								text += c.row(id)
							}
						}
						switch _, compression, _ := strings.Cut(c.ending, "."); {
						case c.row == nil: // under another name first, as whoever writes such files does
							if err := parquet.WriteFile(name+".new", rows); err != nil {
								t.Fatal(err)
							}
							if err := os.Rename(name+".new", name); err != nil {
								t.Fatal(err)
							}
						case compression != "":
							put(t, name, pack(t, compression, text))
						default:
							add(t, name, text)
						}
					},
				}
			}})
		})
	}
}

func wantLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func row(table, key, after string) string {
	return `"r","schema":"","table":"` + table + `","key":` + key + `,"before":null,"after":` + after + `,"unchanged":[]}`
}

func TestFilesThatAreStillWritten(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "in", "a.jsonl")
	put(t, path, `{"id":1}`+"\n"+`{"id":2`)
	c := from(t, filepath.Dir(path), nil)
	got, at := mustDrain(t, c, nil)
	wantLines(t, got, row("in", "null", `{"id":1}`))
	t.Run("a last line without an end waits for it", func(t *testing.T) {
		add(t, path, "}")
		if got, at = mustDrain(t, c, at); len(got) != 0 {
			t.Fatal(got)
		}
		add(t, path, "\n\n"+`{"id":3}`+"\r\n")
		if got, at = mustDrain(t, c, at); len(got) != 2 || !strings.Contains(got[1], `{"id":3}`) {
			t.Fatal(got)
		}
	})
	t.Run("a compressed file without its end waits for it", func(t *testing.T) {
		whole := pack(t, "gz", strings.Repeat(`{"id":4}`+"\n", 10))
		name := filepath.Join(filepath.Dir(path), "b.jsonl.gz")
		for _, n := range []int{5, len(whole) - 3} {
			put(t, name, whole[:n])
			var more []string
			more, at = mustDrain(t, c, at)
			got = append(got[:0], more...)
		}
		put(t, name, whole)
		more, next := mustDrain(t, c, at)
		if at = next; len(got)+len(more) != 10 {
			t.Errorf("%d and %d rows, want 10", len(got), len(more))
		}
		put(t, name, whole+pack(t, "gz", `{"id":5}`+"\n"))
		if got, at = mustDrain(t, c, at); len(got) != 1 {
			t.Errorf("after another member: %s", got)
		}
	})
	t.Run("a Parquet file without its footer waits for it", func(t *testing.T) {
		var b bytes.Buffer
		if err := parquet.Write(&b, []parquetItem{{6, "x"}}); err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(filepath.Dir(path), "c.parquet")
		put(t, name, b.String()[:b.Len()-1])
		if got, at = mustDrain(t, c, at); len(got) != 0 {
			t.Fatal(got)
		}
		put(t, name, b.String())
		if got, at = mustDrain(t, c, at); len(got) != 1 {
			t.Fatal(got)
		}
	})
	if got, _ = mustDrain(t, c, at); len(got) != 0 {
		t.Errorf("read again: %s", got)
	}
}

func TestFilesThatAreNotTheSame(t *testing.T) {
	t.Parallel()
	text := strings.Repeat(`{"id":1,"v":"abcdefghij"}`+"\n", 100)
	for name, change := range map[string]func(path string){
		"cut":                                 func(path string) { put(t, path, text[:500]) },
		"replaced by a longer one":            func(path string) { put(t, path, strings.ReplaceAll(text, "abc", "xyz")+text) },
		"replaced by one that begins alike":   func(path string) { put(t, path, text[:26*50]+strings.ReplaceAll(text, "abc", "xyz")) },
		"replaced while it was not looked at": func(path string) { put(t, path, strings.ReplaceAll(text, "abc", "xyz")) },
	} {
		t.Run(name+" is a lost position", func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "a.jsonl")
			put(t, path, text)
			c := from(t, filepath.Dir(path), nil)
			got, at := mustDrain(t, c, nil)
			if len(got) != 100 {
				t.Fatalf("%d rows", len(got))
			}
			change(path)
			_, _, err := drain(t, c, at)
			if !errors.Is(err, connectors.ErrPositionLost) || !strings.Contains(err.Error(), "a.jsonl") {
				t.Errorf("%v, want a lost position of a.jsonl", err)
			}
		})
	}
}

func TestOrderAndNames(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"b/2.jsonl", "a/9.jsonl", "b/10.jsonl", "b/.hidden.jsonl", "b/_temp.jsonl", "b/notes.txt", ".git/x.jsonl", "c/date=2026-01-30/1.jsonl"} {
		put(t, filepath.Join(dir, name), `{"f":"`+name+`"}`+"\n")
	}
	got, at := mustDrain(t, from(t, dir, nil), nil)
	wantLines(t, got, row("a", "null", `{"f":"a/9.jsonl"}`), row("b", "null", `{"f":"b/10.jsonl"}`), row("b", "null", `{"f":"b/2.jsonl"}`),
		row("c", "null", `{"f":"c/date=2026-01-30/1.jsonl"}`))
	put(t, filepath.Join(dir, "a/1.jsonl"), `{"f":"late"}`+"\n")
	if got, _ = mustDrain(t, from(t, dir, nil), at); len(got) != 1 || !strings.Contains(got[0], "late") {
		t.Errorf("a file whose name comes before those that were read: %s", got)
	}
	got, _ = mustDrain(t, from(t, filepath.Join(dir, "b", "*.jsonl"), func(c *SourceConfig) { c.Table = "main.{file}" }), nil)
	if len(got) != 2 || !strings.Contains(got[0], `"schema":"main","table":"10"`) {
		t.Errorf("by a glob: %s", got)
	}
	if _, err := list(from(t, filepath.Join(dir, "nothing"), nil)); err == nil {
		t.Error("a directory that is not there is no error")
	}
}

func TestColumnsFollowTheirValues(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x", "a.jsonl")
	put(t, path, strings.Join([]string{
		`{"id":"a","n":1,"big":9007199254740993,"x":null}`,
		`{"id":"b","n":1.50,"big":0.1,"x":true}`,
		`{"id":"c","n":123456789012345678901234567890.123,"big":1e400}`,
		`{"id":"d","n":7,"x":{"deep":[1, 2]},"new":"é\n"}`,
	}, "\n")+"\n")
	c := from(t, filepath.Dir(path), func(c *SourceConfig) { c.Key = []string{"id"} })
	got, at := mustDrain(t, c, nil)
	wantLines(t, got,
		row("x", `{"id":"a"}`, `{"id":"a","n":1,"big":9007199254740993}`),
		row("x", `{"id":"b"}`, `{"id":"b","n":1.5,"big":0.1,"x":true}`),
		row("x", `{"id":"c"}`, `{"id":"c","n":"123456789012345678901234567890.123","big":"1`+strings.Repeat("0", 400)+`","x":null}`),
		row("x", `{"id":"d"}`, `{"id":"d","n":"7","big":null,"x":"{\"deep\":[1, 2]}","new":"é\n"}`))
	t.Run("a restart changes no column", func(t *testing.T) {
		add(t, path, `{"id":"e","n":1,"x":false}`+"\n")
		got, _ := mustDrain(t, c, at)
		if len(got) != 1 || !strings.Contains(got[0], `{"id":"e","n":"1","big":null,"x":"false","new":null}`) {
			t.Error(got)
		}
	})
	t.Run("a key keeps its type", func(t *testing.T) {
		add(t, path, `{"id":5}`+"\n")
		_, _, err := drain(t, c, at)
		if !errors.Is(err, connectors.ErrFatal) || !strings.Contains(err.Error(), "a.jsonl:6") || !strings.Contains(err.Error(), "types: {id: text}") {
			t.Error(err)
		}
	})
}

func TestBadRows(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ file, text, where, why string }{
		"no JSON":           {"a.jsonl", `{"id":1}` + "\n{secret\n" + `{"id":3}` + "\n", "a.jsonl:2", "not valid JSON"},
		"no object":         {"a.jsonl", `{"id":1}` + "\n\n\"secret\"\n" + `{"id":3}` + "\n", "a.jsonl:3", "not a JSON object"},
		"no key":            {"a.jsonl", `{"id":1}` + "\n" + `{"v":"secret"}` + "\n" + `{"id":3}` + "\n", "a.jsonl:2", "no value for the key column id"},
		"no number":         {"a.csv", "id,v\n1,\"a\nb\"\nsecret,x\n3,\n", "a.csv:4", "column id of type int"},
		"a field too many":  {"a.csv", "id,v\n1,a\n2,secret,x\n3,\n", "a.csv:3", "3 fields, where the header has 2"},
		"a quote in a word": {"a.csv", "id,v\n1,a\n2,se\"cret\"\n3,\n", "a.csv:3", "quote"},
		"a line too long":   {"a.jsonl", `{"id":1}` + "\n" + `{"id":2,"v":"` + strings.Repeat("secret", 50_000) + `"}` + "\n" + `{"id":3}` + "\n", "a.jsonl:2", "max_record_bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			put(t, filepath.Join(dir, c.file), c.text)
			set := func(s *SourceConfig) {
				s.Key, s.Types = []string{"id"}, types(t, map[string]string{"id": "int"})
			}
			env := connectors.NewEnv("in")
			env.Once, env.Limits.RowBytes = true, 100_000
			read := func(c *SourceConfig) (int, error) {
				s, err := openSource(t.Context(), c, env, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close(context.Background())
				n := 0
				for {
					b, err := s.Read(t.Context())
					if n += len(b.Changes); err != nil {
						return n, err
					}
				}
			}
			_, err := read(from(t, dir, set))
			if !errors.Is(err, connectors.ErrFatal) || !strings.Contains(err.Error(), c.where) || !strings.Contains(err.Error(), c.why) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%v, want %s at %s", err, c.why, c.where)
			}
			var reason string
			env.Report = func(r connectors.Report) { reason += r.Reason }
			n, err := read(from(t, dir, func(s *SourceConfig) { set(s); s.BadRows = SkipBad }))
			if !errors.Is(err, io.EOF) || n != 2 || !strings.Contains(reason, c.where) || strings.Contains(reason, "secret") {
				t.Errorf("%d rows (%v), reason %q", n, err, reason)
			}
		})
	}
}

// TestReadsWhatTheSinkWrote reads back each format that the sink writes.
func TestReadsWhatTheSinkWrote(t *testing.T) {
	t.Parallel()
	table := &connectors.Table{
		Schema: "main", Name: "item", Key: []int{0},
		Columns: []connectors.Column{
			{Name: "id", Kind: connectors.Int}, {Name: "v", Kind: connectors.Text}, {Name: "total", Kind: connectors.Decimal, Type: "decimal(12,2)"},
			{Name: "at", Kind: connectors.TimestampTZ}, {Name: "raw", Kind: connectors.Bytes}, {Name: "on", Kind: connectors.Bool},
			{Name: "tags", Kind: connectors.Array, Elem: connectors.Text},
		},
	}
	data := func(k connectors.Kind, s string) connectors.Value { return connectors.DataValue(k, []byte(s)) }
	null := connectors.NullValue()
	infinite := append([]connectors.Value{connectors.IntValue(2), null, null}, data(connectors.Text, "infinity"), null, null, null)
	full := func(id int64, v string) []connectors.Value {
		return []connectors.Value{connectors.IntValue(id), data(connectors.Text, v), data(connectors.Decimal, "-1.50"),
			data(connectors.TimestampTZ, "2026-01-30T12:34:56.5Z"), data(connectors.Bytes, "\x00\xff"), connectors.BoolValue(true), data(connectors.Array, `["a",null]`)}
	}
	key := func(id int64) []connectors.Value {
		return append([]connectors.Value{connectors.IntValue(id)}, make([]connectors.Value, 6)...)
	}
	changes := []connectors.Change{
		{Op: connectors.Snapshot, After: full(1, "")},
		{Op: connectors.Insert, After: infinite},
		{Op: connectors.Update, After: append(full(1, "a,\"b\"\nc")[:4:4], connectors.Value{}, null, null)},
		{Op: connectors.Update, Before: key(2), After: full(3, "moved")},
		{Op: connectors.Delete, Before: key(1)},
		{Op: connectors.Truncate},
	}
	for i := range changes {
		changes[i].Table, changes[i].Offset, changes[i].Time = table, int64(i), time.Unix(1769776496, 0).UTC()
	}
	var want []string
	for i := range changes {
		want = append(want, line(changes[i]))
	}
	for _, s := range []rowfile.Settings{{Format: JSONL}, {Format: JSONL, Compression: rowfile.Zstd}, {Format: CSV}, {Format: CSV, Compression: rowfile.Gzip}, {Format: Parquet}} {
		t.Run(string(s.Format)+" "+string(s.Compression), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			c := &Config{Path: dir, Settings: s}
			if err := c.Validate(); err != nil {
				t.Fatal(err)
			}
			sink := openWith(t, c)
			for _, part := range [][]connectors.Change{changes[:2], changes[2:]} {
				if err := sink.Write(t.Context(), batchOf(part)); err != nil {
					t.Fatal(err)
				}
			}
			list := map[string]string{"id": "int", "total": "decimal(12,2)", "raw": "bytes", "on": "bool", "tags": "json"}
			source := from(t, dir, func(c *SourceConfig) {
				c.Content, c.Key = document.Changes, []string{"id"}
				if s.Format != Parquet {
					c.Types = types(t, list)
				}
			})
			got, at := mustDrain(t, source, nil)
			if s.Format != Parquet { // a list is a document there
				for i := range got {
					got[i] = strings.ReplaceAll(got[i], `"[\"a\",null]"`, `["a",null]`)
				}
			}
			wantLines(t, got, want...)
			if again, _ := mustDrain(t, source, at); len(again) > 0 {
				t.Errorf("read again: %s", again)
			}
		})
	}
}

func TestSourceSettings(t *testing.T) {
	t.Parallel()
	for problem, set := range map[string]func(*SourceConfig){
		"path is missing":      func(c *SourceConfig) { c.Path = "" },
		"not a valid pattern":  func(c *SourceConfig) { c.Path = "a/[" },
		"path has **":          func(c *SourceConfig) { c.Path = "a/**/b" },
		"format is not one":    func(c *SourceConfig) { c.Format = "xml" },
		"content is not one":   func(c *SourceConfig) { c.Content = "x" },
		"table is not a name":  func(c *SourceConfig) { c.Table = "{dri}" },
		"not one character":    func(c *SourceConfig) { c.Delimiter = "ab" },
		"bad_rows is not one":  func(c *SourceConfig) { c.BadRows = "drop" },
		"poll must be above 0": func(c *SourceConfig) { c.Poll = 0 },
		"key has an empty":     func(c *SourceConfig) { c.Key = []string{"a", "a"} },
	} {
		_, err := decodeSource(func(into any) error {
			c := into.(*SourceConfig)
			c.Path = "data"
			set(c)
			return c.Validate()
		})
		if err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%v, want %s", err, problem)
		}
	}
}

func FuzzSourcePosition(f *testing.F) {
	p, err := places{nameOf("a"): {size: 300, at: 7, lines: 2, done: true}}.format(true, []byte("[]"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(p))
	f.Add([]byte(`{"v":1,"files":"AAAA"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, head, err := parsePosition(b)
		if err != nil || b == nil {
			return
		}
		again, err := list.format(head.First, head.Tables)
		if err != nil {
			return // tables are checked where they are read
		}
		second, _, err := parsePosition(again)
		if err != nil || len(second) != len(list) {
			t.Errorf("%d files, %d after writing them (%v)", len(list), len(second), err)
		}
	})
}
