package rowfile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"github.com/trunkline/trunkline/connectors"
)

// A Parquet file has a row for each change:
//
//	_op         STRING                 r c u d t, as in CSV
//	_offset     INT64                  of the change's record in its partition
//	_ts         TIMESTAMP(MICROS, UTC) when the change was committed
//	_table      STRING                 schema.table
//	_old_key    JSON                   the key that the row had, where an update changed it
//	_unchanged  LIST of STRING         columns that the change does not carry
//	__deleted   BOOLEAN                the row is gone
//
// and then the columns of the table in their order. A delete has the old row, as far as it is known. Every column of the
// table is optional, because a delete may have its key alone. Where a table has a column of one of these names, ours gets
// one more underscore in front. Messages are left out.
var metaColumns = []struct {
	name string
	node parquet.Node
}{
	{"_op", parquet.String()}, {"_offset", parquet.Int(64)}, {"_ts", parquet.Optional(parquet.Timestamp(parquet.Microsecond))},
	{"_table", parquet.String()}, {"_old_key", parquet.Optional(parquet.JSON())},
	{"_unchanged", parquet.Optional(parquet.List(parquet.String()))}, {"__deleted", parquet.Leaf(parquet.BooleanType)},
}

// layout is how the rows of one version of a table stand in a file.
type layout struct {
	schema *parquet.Schema
	text   string // of the schema; tables with the same one share a file
	cells  []cell // one for each column of the table
	holds  []connectors.Holds
	table  []byte
}

// maxLayouts bounds the versions of tables that are remembered.
const maxLayouts = 1024

func (e *Encoder) layout(t *connectors.Table) *layout {
	if l := e.layouts[t]; l != nil {
		return l
	}
	if len(e.layouts) >= maxLayouts {
		clear(e.layouts)
	}
	taken := map[string]bool{}
	for _, c := range t.Columns {
		taken[strings.ToLower(c.Name)] = true
	}
	l := &layout{table: []byte(t.FullName())}
	root := ordered{Group: parquet.Group{}}
	for _, m := range metaColumns {
		name := m.name
		for taken[name] {
			name = "_" + name
		}
		root.add(name, m.node)
	}
	for i := range t.Columns {
		c := cellOf(&t.Columns[i])
		root.add(t.Columns[i].Name, parquet.Optional(c.node))
		l.cells = append(l.cells, c)
		l.holds = append(l.holds, c.holds())
	}
	l.schema = parquet.NewSchema("change", root.finish())
	l.text = l.schema.String()
	e.layouts[t] = l
	return l
}

// ordered is a group whose fields keep their order; the library's own sorts them by name.
type ordered struct {
	parquet.Group
	names  []string
	fields []parquet.Field
}

func (o *ordered) add(name string, node parquet.Node) {
	o.Group[name] = node
	o.names = append(o.names, name)
}

func (o *ordered) finish() *ordered {
	o.fields = o.Group.Fields()
	place := make(map[string]int, len(o.names))
	for i, name := range o.names {
		place[name] = i
	}
	slices.SortFunc(o.fields, func(a, b parquet.Field) int { return place[a.Name()] - place[b.Name()] })
	return o
}

// Fields returns the fields in the order of the table.
func (o *ordered) Fields() []parquet.Field { return o.fields }

// String returns the schema's text.
func (o *ordered) String() string { return fmt.Sprint(o.names) }

// rowsAtOnce is how many rows are handed to the library together.
const rowsAtOnce = 128

// rowsPerGroup bounds a row group, which a reader takes as a whole.
const rowsPerGroup = 1 << 20

// rowBuffer holds rows in the library's form until it has copied them.
type rowBuffer struct {
	rows  []parquet.Row
	arena []byte
}

// fastZstd takes half the time of the library's default for files that are a few hundredths larger.
var fastZstd = zstd.Codec{Level: zstd.SpeedFastest}

func codec(c Compression) compress.Codec {
	switch c {
	case Gzip:
		return &parquet.Gzip
	case Zstd:
		return &fastZstd
	}
	return &parquet.Uncompressed
}

// parquet fills out with the rows that have the columns of the first one.
func (e *Encoder) parquet(changes []connectors.Change) (int, error) {
	var first, l *layout
	var table *connectors.Table
	var w *parquet.GenericWriter[any]
	b := &e.rows
	b.rows, b.arena = b.rows[:0], b.arena[:0]
	n := 0
	for ; n < len(changes); n++ {
		c := &changes[n]
		if c.Op == connectors.Message {
			continue
		}
		if c.Table != table {
			table, l = c.Table, e.layout(c.Table)
			if first == nil {
				first = l
				w = parquet.NewGenericWriter[any](&e.out, l.schema, parquet.Compression(codec(e.settings.Compression)), parquet.MaxRowsPerRowGroup(rowsPerGroup))
			}
			if l.text != first.text {
				break
			}
		}
		b.add(l, c)
		if len(b.rows) == rowsAtOnce {
			if err := b.flush(w); err != nil {
				return 0, err
			}
		}
	}
	if w == nil {
		return n, nil
	}
	if err := b.flush(w); err != nil {
		return 0, err
	}
	if err := w.Close(); err != nil {
		return 0, fmt.Errorf("write parquet: %w", err)
	}
	return n, nil
}

func (b *rowBuffer) flush(w *parquet.GenericWriter[any]) error {
	if _, err := w.WriteRows(b.rows); err != nil {
		return fmt.Errorf("write parquet: %w", err)
	}
	b.rows, b.arena = b.rows[:0], b.arena[:0]
	return nil
}

// add appends a change. The memory of a row that stood at its place before is used again.
func (b *rowBuffer) add(l *layout, c *connectors.Change) {
	n := len(b.rows)
	if n < cap(b.rows) {
		b.rows = b.rows[:n+1]
	} else {
		b.rows = append(b.rows, nil)
	}
	image := c.After
	if c.Op == connectors.Delete {
		image = c.Before
	}
	row := b.head(b.rows[n][:0], l, c, image)
	at := len(metaColumns)
	for i := range l.cells {
		var v connectors.Value
		if i < len(image) {
			v = image[i]
		}
		row = l.cells[i].add(b, row, v, &at)
	}
	b.rows[n] = row
}

// head appends the columns of ours.
func (b *rowBuffer) head(row parquet.Row, l *layout, c *connectors.Change, image []connectors.Value) parquet.Row {
	start := len(b.arena)
	b.arena = append(b.arena, c.Op.Code())
	row = append(row, parquet.ByteArrayValue(b.arena[start:]).Level(0, 0, 0), parquet.Int64Value(c.Offset).Level(0, 0, 1))
	if c.Time.IsZero() {
		row = append(row, parquet.NullValue().Level(0, 0, 2))
	} else {
		row = append(row, parquet.Int64Value(c.Time.UnixMicro()).Level(0, 1, 2))
	}
	row = append(row, parquet.ByteArrayValue(l.table).Level(0, 0, 3))
	old := parquet.NullValue().Level(0, 0, 4)
	if c.Op == connectors.Update && moves(c) {
		start := len(b.arena)
		b.arena = appendOldKey(b.arena, c)
		old = parquet.ByteArrayValue(b.arena[start:]).Level(0, 1, 4)
	}
	row = append(row, old)
	none := true
	for i, v := range image {
		if v.IsAbsent() {
			repetition := 1
			if none {
				repetition, none = 0, false
			}
			start := len(b.arena)
			b.arena = append(b.arena, c.Table.Columns[i].Name...)
			row = append(row, parquet.ByteArrayValue(b.arena[start:]).Level(repetition, 2, 5))
		}
	}
	if none {
		row = append(row, parquet.NullValue().Level(0, 0, 5))
	}
	return append(row, parquet.BooleanValue(c.Op == connectors.Delete).Level(0, 0, 6))
}
