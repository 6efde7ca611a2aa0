package file

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/document"
	"github.com/trunkline/trunkline/connectors/rowfile"
)

// columns reads Parquet.
type columns struct {
	config *SourceConfig
	tables *document.Tables
	input  input
	file   *os.File
	reader *rowfile.Reader
	list   []connectors.Column
	meta   int
	row    int64
	size   int64
	values []connectors.Value
	arena  []byte
}

// openColumns opens a file behind a place. rowfile.ErrNotWhole: it is not finished.
func openColumns(c *SourceConfig, tables *document.Tables, in input, from place) (_ *columns, err error) {
	f, err := os.Open(in.path)
	if err != nil {
		return nil, fmt.Errorf("open file: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	p := &columns{config: c, tables: tables, input: in, file: f, size: in.info.Size(), row: from.at}
	if p.reader, err = rowfile.OpenParquet(f, p.size); err != nil {
		if !errors.Is(err, rowfile.ErrNotWhole) {
			err = fmt.Errorf("read %s: %w: %w", in.name, err, connectors.ErrFatal)
		}
		return nil, err
	}
	p.list = p.reader.Columns()
	if c.Content == document.Changes {
		p.meta = len(metaNames) + 1
		if len(p.list) < p.meta {
			return nil, fmt.Errorf("read %s: no columns of a change, as sinks of Trunkline write them; set content: rows: %w", in.name, connectors.ErrFatal)
		}
	}
	for i := p.meta; i < len(p.list); i++ {
		if kind := tables.Kind(p.list[i].Name, p.list[i].Kind); kind != p.list[i].Kind {
			return nil, fmt.Errorf("read %s: column %s is of type %v, and types says %v; leave it out there: %w", in.name, p.list[i].Name, p.list[i].Kind, kind, connectors.ErrFatal)
		}
	}
	return p, p.reader.SeekRow(p.row)
}

func (p *columns) next(now time.Time) (c connectors.Change, row int64, err error) {
	p.values, p.arena, err = p.reader.Read(p.values[:0], p.arena)
	if err != nil {
		if !errors.Is(err, io.EOF) {
			err = fmt.Errorf("%w: %w", err, connectors.ErrFatal)
		}
		return c, p.row, err
	}
	p.row++
	if p.meta == 0 {
		c, err = flat(p.tables, p.input.table, p.list, p.values, 0, now)
	} else {
		c, err = p.change(now)
	}
	if err != nil {
		return c, p.row, &rowError{err}
	}
	return c, p.row, nil
}

// change is flat without the columns that only Parquet has: __deleted, and what the others could not hold.
func (p *columns) change(now time.Time) (connectors.Change, error) {
	end := len(p.list)
	var left []byte
	if p.list[end-1].Name == connectors.UnrepresentableColumn {
		end--
		left = p.values[end].Data()
	}
	list := append(append([]connectors.Column{}, p.list[:len(metaNames)]...), p.list[p.meta:end]...)
	values := append(append([]connectors.Value{}, p.values[:len(metaNames)]...), p.values[p.meta:end]...)
	if len(left) > 0 {
		var texts map[string]string
		if err := json.Unmarshal(left, &texts); err != nil {
			return connectors.Change{}, errors.New(connectors.UnrepresentableColumn + " is no object of texts")
		}
		for i := len(metaNames); i < len(list); i++ {
			if text, ok := texts[list[i].Name]; ok {
				values[i] = connectors.DataValue(connectors.Text, []byte(text))
			}
		}
	}
	return flat(p.tables, p.input.table, list, values, len(metaNames), now)
}

func (p *columns) forget()   { p.arena = p.arena[:0] }
func (p *columns) held() int { return len(p.arena) }

func (p *columns) place() place {
	return place{size: p.size, at: p.row, lines: p.row, done: p.row >= p.reader.Rows()}
}

func (p *columns) bytes() io.ReaderAt { return p.file }

func (p *columns) close() error { return errors.Join(p.reader.Close(), p.file.Close()) }
