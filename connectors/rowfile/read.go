package rowfile

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"

	"github.com/trunkline/trunkline/connectors"
)

// ErrNotWhole is a Parquet file without its footer: it is still being written, or it is none.
var ErrNotWhole = errors.New("no footer of Parquet at its end")

// Reader reads the rows of a Parquet file. It belongs to the goroutine that reads.
type Reader struct {
	file    *parquet.File
	rows    parquet.Rows
	columns []connectors.Column
	leaves  []leaf // one for each column
	buffer  []parquet.Row
	ready   []parquet.Row // of buffer, not handed out yet
	err     error         // that comes behind them
}

// leaf is where the values of a column stand: in one column of the file, two for a map.
type leaf struct {
	first   int // its number in the file
	shape   shape
	defined int // the level at which the list is there
	element int // the level at which its element is
	value   restore
	column  connectors.Column // of the elements of a list
}

// OpenParquet opens a file of a size. Its columns are single values, lists and maps of such; others are an error by name.
func OpenParquet(r io.ReaderAt, size int64) (*Reader, error) {
	tail := make([]byte, 4)
	if size < 12 {
		return nil, ErrNotWhole
	}
	if _, err := r.ReadAt(tail, size-4); err != nil {
		return nil, err
	}
	if string(tail) != "PAR1" {
		return nil, ErrNotWhole
	}
	file, err := parquet.OpenFile(r, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, fmt.Errorf("open parquet file: %w", err)
	}
	p := &Reader{file: file, buffer: make([]parquet.Row, rowsAtOnce)}
	next := 0
	for _, field := range file.Schema().Fields() {
		c, l, n, err := leafOf(field, next)
		if err != nil {
			return nil, err
		}
		p.columns, p.leaves = append(p.columns, c), append(p.leaves, l)
		next += n
	}
	p.rows = parquet.MultiRowGroup(file.RowGroups()...).Rows()
	return p, nil
}

// leafOf describes a column that begins at a number, and says how many columns of the file it takes.
func leafOf(field parquet.Field, at int) (connectors.Column, leaf, int, error) {
	level := func(n parquet.Node) int {
		if n.Required() {
			return 0
		}
		return 1
	}
	if field.Leaf() {
		c, value := restoreOf(field)
		l := leaf{first: at, value: value}
		c.Name = field.Name()
		if field.Repeated() {
			l.shape, l.element, l.column = list, 1, c
			c = connectors.Column{Name: c.Name, Kind: connectors.Array, Elem: c.Kind}
		}
		return c, l, 1, nil
	}
	nested := fmt.Errorf("column %s is a structure of several values; only lists and maps of single values can be read", field.Name())
	inner := field.Fields()
	if field.Repeated() || len(inner) != 1 || !inner[0].Repeated() {
		return connectors.Column{}, leaf{}, 0, nested
	}
	l := leaf{first: at, shape: list, defined: level(field)}
	c := connectors.Column{Name: field.Name(), Kind: connectors.Array}
	parts := inner[0].Fields()
	switch {
	case inner[0].Leaf():
		l.column, l.value = restoreOf(inner[0])
		l.element = l.defined + 1
	case len(parts) == 1 && parts[0].Leaf() && !parts[0].Repeated():
		l.column, l.value = restoreOf(parts[0])
		l.element = l.defined + 1 + level(parts[0])
	case len(parts) == 2 && parts[0].Leaf() && parts[1].Leaf() && !parts[0].Repeated() && !parts[1].Repeated():
		l.shape, c.Kind = dict, connectors.Map
		l.column, l.value = restoreOf(parts[1])
		l.element = l.defined + 1 + level(parts[1])
		return c, l, 2, nil
	default:
		return connectors.Column{}, leaf{}, 0, nested
	}
	c.Elem = l.column.Kind
	return c, l, 1, nil
}

// Columns are those of the file in their order.
func (p *Reader) Columns() []connectors.Column { return p.columns }

// Rows returns how many rows the file has.
func (p *Reader) Rows() int64 { return p.file.NumRows() }

// SeekRow goes to the row of a number, from 0.
func (p *Reader) SeekRow(row int64) error {
	p.ready, p.err = nil, nil
	if row >= p.Rows() {
		p.err = io.EOF
		return nil
	}
	return p.rows.SeekToRow(row)
}

// Read appends the values of the next row, one for each column. Their bytes are appended to arena. io.EOF: there is none.
func (p *Reader) Read(row []connectors.Value, arena []byte) ([]connectors.Value, []byte, error) {
	for len(p.ready) == 0 {
		if p.err != nil {
			return row, arena, p.err
		}
		n, err := p.rows.ReadRows(p.buffer)
		p.ready, p.err = p.buffer[:n], err
		if n == 0 && err == nil {
			p.err = io.ErrNoProgress
		}
	}
	values := p.ready[0]
	p.ready = p.ready[1:]
	for i := range p.leaves {
		l := &p.leaves[i]
		width := 1
		if l.shape == dict {
			width = 2
		}
		n := 0
		for n < len(values) && values[n].Column() < l.first+width {
			n++
		}
		var v connectors.Value
		v, arena = l.take(values[:n], arena)
		row = append(row, v)
		values = values[n:]
	}
	return row, arena, nil
}

// take makes the value of a column out of those of the file.
func (l *leaf) take(values []parquet.Value, arena []byte) (connectors.Value, []byte) {
	if len(values) == 0 {
		return connectors.NullValue(), arena
	}
	if l.shape == single {
		if values[0].IsNull() {
			return connectors.NullValue(), arena
		}
		return l.value(values[0], arena)
	}
	if values[0].DefinitionLevel() < l.defined {
		return connectors.NullValue(), arena
	}
	half := len(values)
	kind, ends := connectors.Array, "[]"
	if l.shape == dict {
		half, kind, ends = len(values)/2, connectors.Map, "{}"
	}
	text := []byte{ends[0]}
	for i, v := range values[len(values)-half:] {
		if v.DefinitionLevel() <= l.defined {
			break // it is empty
		}
		if i > 0 {
			text = append(text, ',')
		}
		if l.shape == dict {
			text = append(connectors.AppendJSONString(text, values[i].ByteArray()), ':')
		}
		if v.IsNull() || v.DefinitionLevel() < l.element {
			text = append(text, "null"...)
			continue
		}
		one, grown := l.value(v, arena)
		arena = grown
		if l.shape == dict { // a map holds texts
			if one.Kind() == connectors.Bytes {
				text = append(append(append(text, '"'), base64.StdEncoding.EncodeToString(one.Data())...), '"')
			} else {
				text = connectors.AppendJSONString(text, one.AppendText(nil))
			}
			continue
		}
		text = connectors.AppendJSON(text, one)
	}
	start := len(arena)
	arena = append(append(arena, text...), ends[1])
	return connectors.DataValue(kind, arena[start:len(arena):len(arena)]), arena
}

// Close releases what reading holds; the file stays open.
func (p *Reader) Close() error { return p.rows.Close() }
