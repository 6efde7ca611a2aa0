package demo

import (
	"bufio"
	"bytes"
	"cmp"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// archive is what the JSON lines say when they are played from the first to the last: the rows of each table by key.
type archive struct {
	tables map[string]map[int64]string // table, id, row as rowLine writes it
	seen   map[place]bool
	twice  map[string]int // lines of a table that stand in the archive more than once
}

// place is where a record stands in the log.
type place struct {
	topic     string
	partition int
	offset    int64
}

// archiveLine is the part of a line that is looked at.
type archiveLine struct {
	Topic     string          `json:"topic"`
	Partition int             `json:"partition"`
	Offset    int64           `json:"offset"`
	Op        string          `json:"op"`
	Table     string          `json:"table"`
	Key       map[string]any  `json:"key"`
	After     json.RawMessage `json:"after"`
}

// readArchive plays all files. The lines of a partition are in order inside a file, and the files' names are in order.
func readArchive(dir string) (*archive, error) {
	a := &archive{tables: map[string]map[int64]string{}, seen: map[place]bool{}, twice: map[string]int{}}
	var files []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && strings.HasSuffix(path, ".jsonl") && !strings.HasPrefix(d.Name(), ".") {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the archive: %w", err)
	}
	slices.Sort(files)
	for _, path := range files {
		if err := a.play(path); err != nil {
			return nil, err
		}
	}
	return a, nil
}

func (a *archive) play(path string) error {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // merged into a larger file since it was listed; the next look sees it
	}
	if err != nil {
		return fmt.Errorf("read the archive: %w", err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(make([]byte, 0, 1<<16), 1<<24)
	for lines.Scan() {
		var l archiveLine
		decoder := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		decoder.UseNumber()
		if err := decoder.Decode(&l); err != nil {
			return fmt.Errorf("read the archive: %s: %w", path, err)
		}
		if err := a.apply(l); err != nil {
			return fmt.Errorf("read the archive: %s: %w", path, err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read the archive: %s: %w", path, err)
	}
	return nil
}

func (a *archive) apply(l archiveLine) error {
	at := place{l.Topic, l.Partition, l.Offset}
	if a.seen[at] {
		a.twice[l.Table]++
	}
	a.seen[at] = true
	number, ok := l.Key["id"].(json.Number)
	if !ok {
		return errors.New("a line without its key")
	}
	id, err := number.Int64()
	if err != nil {
		return fmt.Errorf("a key that is no number: %w", err)
	}
	if a.tables[l.Table] == nil {
		a.tables[l.Table] = map[int64]string{}
	}
	if l.Op == "d" {
		delete(a.tables[l.Table], id)
		return nil
	}
	row, err := cellsOf(l.After)
	if err != nil {
		return err
	}
	a.tables[l.Table][id] = rowLine(row)
	return nil
}

// cellsOf returns the values of a JSON object in its own order: text as it is, everything else as JSON writes it.
func cellsOf(object []byte) ([]sql.NullString, error) {
	decoder := json.NewDecoder(bytes.NewReader(object))
	if _, err := decoder.Token(); err != nil {
		return nil, fmt.Errorf("read a row: %w", err)
	}
	var cells []sql.NullString
	for decoder.More() {
		if _, err := decoder.Token(); err != nil {
			return nil, fmt.Errorf("read a column's name: %w", err)
		}
		var raw json.RawMessage
		if err := decoder.Decode(&raw); err != nil {
			return nil, fmt.Errorf("read a column: %w", err)
		}
		cell := sql.NullString{String: string(raw), Valid: string(raw) != "null"}
		if raw[0] == '"' {
			if err := json.Unmarshal(raw, &cell.String); err != nil {
				return nil, fmt.Errorf("read a column: %w", err)
			}
		}
		cells = append(cells, cell)
	}
	return cells, nil
}

// rows yields the rows of a table by key.
func (a *archive) rows(table string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		rows := a.tables[table]
		ids := make([]int64, 0, len(rows))
		for id := range rows {
			ids = append(ids, id)
		}
		slices.SortFunc(ids, cmp.Compare)
		for _, id := range ids {
			if !yield(rows[id], nil) {
				return
			}
		}
	}
}

// compare holds the played archive against the shop's rows. A line that stands twice is a difference too.
func (a *archive) compare(table string, source iter.Seq2[string, error]) (comparison, error) {
	c, err := compareTable(table, "archive", source, a.rows(table))
	if err == nil && c.differ == "" && a.twice[table] > 0 {
		c.differ = fmt.Sprintf("%d lines stand twice", a.twice[table])
	}
	return c, err
}
