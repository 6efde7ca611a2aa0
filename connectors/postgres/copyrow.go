package postgres

import (
	"bytes"
	"fmt"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

// copyReader turns the text format of COPY into Snapshot changes. It is the io.Writer that the driver copies to.
//
//	row      field \t field … \n
//	\N       NULL
//	\b \f \n \r \t \v \\   these characters inside a field; any other character after a backslash is itself
type copyReader struct {
	shape    *shape
	limits   connectors.Limits
	at       time.Time
	origin   []byte
	position connectors.Position

	rows    *rows
	full    func() error // hands rows over and puts an empty buffer in its place
	count   int64
	partial []byte // the beginning of a row whose end has not come yet
	scratch []byte
}

// Write takes whole or partial rows.
func (c *copyReader) Write(data []byte) (int, error) {
	n := len(data)
	for {
		end := bytes.IndexByte(data, '\n')
		if end < 0 {
			c.partial = append(c.partial, data...)
			return n, c.fits(len(c.partial))
		}
		line := data[:end]
		if len(c.partial) > 0 {
			line = append(c.partial, line...)
			c.partial = line[:0]
		}
		if err := c.row(line); err != nil {
			return 0, err
		}
		if data = data[end+1:]; len(data) == 0 {
			return n, nil
		}
	}
}

func (c *copyReader) fits(size int) error {
	if size > c.limits.RowBytes {
		return tooLarge(c.shape.table, size, c.limits.RowBytes)
	}
	return nil
}

func tooLarge(t *connectors.Table, size, limit int) error {
	return fmt.Errorf("table %s: a row of %d bytes is larger than the limit of %d bytes; leave the large column out with columns, or raise max_record_bytes: %w",
		t.FullName(), size, limit, connectors.ErrFatal)
}

func (c *copyReader) row(line []byte) error {
	if err := c.fits(len(line)); err != nil {
		return err
	}
	after := c.rows.image(len(c.shape.table.Columns))
	for i, index := range c.shape.index {
		field, rest, more := bytes.Cut(line, tab)
		if more != (i < len(c.shape.index)-1) {
			return fmt.Errorf("copy table %s: a row does not have its %d fields", c.shape.table.FullName(), len(c.shape.index))
		}
		line = rest
		if index < 0 {
			continue
		}
		if escape := bytes.IndexByte(field, '\\'); escape >= 0 {
			if len(field) == 2 && field[1] == 'N' {
				after[index] = connectors.NullValue()
				continue
			}
			c.scratch = unescapeCopy(c.scratch[:0], field)
			field = c.scratch
		}
		after[index] = c.shape.decoders[i].value(c.rows, field)
	}
	change := c.rows.add(connectors.Snapshot, c.shape.table, c.at)
	change.After, change.Origin, change.Position = after, c.origin, c.position
	c.count++
	if c.rows.full(c.limits) {
		return c.full()
	}
	return nil
}

var tab = []byte{'\t'}

func unescapeCopy(dst, field []byte) []byte {
	for {
		i := bytes.IndexByte(field, '\\')
		if i < 0 || i+1 == len(field) {
			return append(dst, field...)
		}
		dst = append(dst, field[:i]...)
		c := field[i+1]
		switch c {
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		case 'v':
			c = '\v'
		}
		dst = append(dst, c)
		field = field[i+2:]
	}
}
