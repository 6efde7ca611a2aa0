package file

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/document"
	"github.com/trunkline/trunkline/connectors/rowfile"
)

// errPart is a file that ends in its middle: it is still being written, or it never will be whole.
var errPart = errors.New("it ends in its middle")

// reading is a file while it is read, up to the size that it had when it was opened.
type reading interface {
	// next returns the change of the next row and where it stands, a line or the number of a row. io.EOF: there is no more
	// for now; errPart: likewise, and something is cut off. A rowError is the row's own fault, and the next call goes on behind
	// it. The change is valid until forget.
	next(now time.Time) (c connectors.Change, row int64, err error)
	// forget lets the memory of the rows before be used again.
	forget()
	// held is how much memory that is.
	held() int
	// place says how far it was read.
	place() place
	// bytes are those of the file.
	bytes() io.ReaderAt
	close() error
}

// rowError is a row that cannot be read. It holds no value of it.
type rowError struct{ err error }

func (e *rowError) Error() string { return e.err.Error() }
func (e *rowError) Unwrap() error { return e.err }

// text reads JSON lines and CSV.
type text struct {
	config *SourceConfig
	tables *document.Tables
	input  input
	file   *os.File
	plain  io.Closer // of the decompression
	rows   records
	size   int64
	cut    bool // the end of the compressed text is not there

	header  []connectors.Column // of CSV
	meta    int                 // how many columns of the header are ours
	fields  []cell
	values  []connectors.Value
	records []byte
	arena   []byte
}

// openText opens a file behind a place.
func openText(c *SourceConfig, tables *document.Tables, in input, from place, limit int) (_ *text, err error) {
	f, err := os.Open(in.path)
	if err != nil {
		return nil, fmt.Errorf("open file: %w", err)
	}
	t := &text{config: c, tables: tables, input: in, file: f, size: in.info.Size()}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.close())
		}
	}()
	body, err := rowfile.Decompress(io.NewSectionReader(f, 0, t.size), in.compression)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		body, t.cut, err = io.NopCloser(bytes.NewReader(nil)), true, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open file %s: %w", in.name, err)
	}
	t.plain = body
	t.rows = records{r: bufio.NewReaderSize(body, 64<<10), quotes: in.format == rowfile.CSV, limit: limit, whole: in.compression != rowfile.None}
	if in.format == rowfile.CSV {
		if err := t.readHeader(); err != nil {
			return nil, err
		}
	}
	if from.at <= t.rows.at {
		return t, nil
	}
	if in.compression == rowfile.None {
		t.rows.r.Reset(io.NewSectionReader(f, from.at, t.size-from.at))
	} else if _, err := io.CopyN(io.Discard, t.rows.r, from.at-t.rows.at); err != nil && !t.short(err) && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("open file %s: %w", in.name, err)
	}
	t.rows.at, t.rows.lines = from.at, from.lines
	return t, nil
}

// short reports the end of a compressed text that is not whole.
func (t *text) short(err error) bool {
	if t.input.compression != rowfile.None && errors.Is(err, io.ErrUnexpectedEOF) {
		t.cut = true
	}
	return t.cut
}

var byteOrderMark = []byte("\xef\xbb\xbf")

// readHeader reads the names of the columns. While they are not there, the file has no rows.
func (t *text) readHeader() error {
	line, _, err := t.rows.next(nil)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, errTail):
		return nil
	case err != nil && t.short(err):
		return nil
	case err != nil:
		return fmt.Errorf("read %s:1: %w", t.input.name, err)
	}
	list, _, err := fields(bytes.TrimPrefix(line, byteOrderMark), t.config.Delimiter[0], nil, nil)
	if err != nil {
		return fmt.Errorf("read %s:1: %w: %w", t.input.name, err, connectors.ErrFatal)
	}
	seen := map[string]bool{}
	for i, f := range list {
		name := string(f.text)
		if own := t.config.Content == document.Changes && i < len(metaNames); own {
			if name != metaNames[i] {
				return fmt.Errorf("read %s:1: column %d is not %s, as sinks of Trunkline write changes; set content: rows: %w", t.input.name, i+1, metaNames[i], connectors.ErrFatal)
			}
			t.meta = i + 1
		} else if name == "" || seen[name] {
			return fmt.Errorf("read %s:1: column %d has no name, or that of another one: %w", t.input.name, i+1, connectors.ErrFatal)
		} else {
			seen[name] = true
		}
		t.header = append(t.header, connectors.Column{Name: name, Kind: t.tables.Kind(name, connectors.Text)})
	}
	return nil
}

func (t *text) next(now time.Time) (connectors.Change, int64, error) {
	for {
		start := len(t.records)
		grown, line, err := t.rows.next(t.records)
		t.records = grown
		record := grown[start:len(grown):len(grown)]
		switch {
		case errors.Is(err, errLong):
			return connectors.Change{}, line, &rowError{err}
		case err != nil && t.short(err), errors.Is(err, errTail):
			return connectors.Change{}, t.rows.lines + 1, errPart
		case err != nil:
			return connectors.Change{}, t.rows.lines, err
		}
		if line == 1 {
			record = bytes.TrimPrefix(record, byteOrderMark)
		}
		if len(bytes.TrimSpace(record)) == 0 {
			continue
		}
		c, err := t.change(record, now)
		if err != nil {
			return c, line, &rowError{err}
		}
		return c, line, nil
	}
}

// change makes the change of a record.
func (t *text) change(record []byte, now time.Time) (c connectors.Change, err error) {
	switch {
	case t.input.format == rowfile.CSV:
		return t.csv(record, now)
	case t.config.Content == document.Changes:
		c, t.arena, err = t.tables.Change(t.input.table, record, t.arena, nil, now)
	default:
		c, t.arena, err = t.tables.Row(t.input.table, record, t.arena, now)
	}
	return c, err
}

// csv makes the change of a record of CSV. An empty field is NULL, and one of two quotes the empty text.
func (t *text) csv(record []byte, now time.Time) (c connectors.Change, err error) {
	if t.fields, t.arena, err = fields(record, t.config.Delimiter[0], t.fields[:0], t.arena); err != nil {
		return c, err
	}
	if len(t.fields) != len(t.header) {
		return c, fmt.Errorf("%d fields, where the header has %d", len(t.fields), len(t.header))
	}
	t.values = t.values[:0]
	for i, f := range t.fields {
		if len(f.text) == 0 && !f.quoted {
			t.values = append(t.values, connectors.NullValue())
			continue
		}
		v, grown, err := document.FromText(t.header[i].Kind, f.text, t.arena)
		if t.arena = grown; err != nil {
			return c, fmt.Errorf("column %s of type %v: %w", t.header[i].Name, t.header[i].Kind, err)
		}
		t.values = append(t.values, v)
	}
	return flat(t.tables, t.input.table, t.header, t.values, t.meta, now)
}

func (t *text) forget()   { t.records, t.arena = t.records[:0], t.arena[:0] }
func (t *text) held() int { return len(t.records) + len(t.arena) }

func (t *text) place() place {
	p := place{size: t.size, at: t.rows.at, lines: t.rows.lines}
	if t.input.compression == rowfile.None {
		p.size = p.at
	}
	return p
}

func (t *text) bytes() io.ReaderAt { return t.file }

func (t *text) close() error {
	var err error
	if t.plain != nil {
		err = t.plain.Close()
	}
	return errors.Join(err, t.file.Close())
}

// where names a row in a file for people.
func where(in input, row int64) string { return in.name + ":" + strconv.FormatInt(row, 10) }
