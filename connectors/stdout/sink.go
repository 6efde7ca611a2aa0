// Package stdout shows changes on the standard output.
//
// It promises at least once: what Write accepted was handed to the operating system, and a batch that comes again is
// shown again. The format line is for people and may change; jsonl is connectors.AppendLine, one line for each change.
// It keeps nothing. The pipeline calls it.
package stdout

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/trunkline/trunkline/connectors"
)

// sink is used by one goroutine.
type sink struct {
	out    io.Writer
	format Format
	buf    []byte
}

// WholeRows is true: a line has no row of the store to leave a value in.
func (s *sink) WholeRows() bool { return true }

// Write shows the batch with one call of the operating system, so that lines of several sinks do not mix.
func (s *sink) Write(ctx context.Context, b connectors.Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.buf = s.buf[:0]
	for i := range b.Changes {
		if s.format == JSONL {
			s.buf = connectors.AppendLine(s.buf, b.Stream, &b.Changes[i])
		} else {
			s.buf = appendChange(s.buf, b.Stream, &b.Changes[i])
		}
	}
	if len(s.buf) == 0 {
		return nil
	}
	if _, err := s.out.Write(s.buf); err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	return nil
}

// Close leaves the standard output open: it is not ours.
func (s *sink) Close(context.Context) error { return nil }

// appendChange appends a line such as
//
//	shop.main.item/0@12  update    main.item  id=1 name="x" note=… (was id=7)
//
// in which … stands for a value that the change does not carry.
func appendChange(dst []byte, stream string, c *connectors.Change) []byte {
	dst = append(dst, stream...)
	dst = append(dst, '@')
	dst = strconv.AppendInt(dst, c.Offset, 10)
	dst = append(dst, "  "...)
	start := len(dst)
	dst = append(dst, c.Op.String()...)
	for len(dst) < start+len("snapshot")+2 {
		dst = append(dst, ' ')
	}
	if c.Table == nil {
		for _, v := range c.After {
			dst = append(appendValue(dst, v), ' ')
		}
		return append(dst, '\n')
	}
	dst = appendText(dst, c.Table.FullName())
	switch {
	case c.Op == connectors.Delete:
		dst = appendRow(append(dst, ' '), c.Table, c.Before)
	case c.After != nil:
		dst = appendRow(append(dst, ' '), c.Table, c.After)
		if c.Op == connectors.Update && c.Before != nil {
			dst = append(dst, " (was"...)
			dst = appendRow(dst, c.Table, c.Before)
			dst = append(dst, ')')
		}
	}
	return append(dst, '\n')
}

func appendRow(dst []byte, t *connectors.Table, row []connectors.Value) []byte {
	for i, v := range row {
		dst = append(dst, ' ')
		dst = appendText(dst, t.Columns[i].Name)
		dst = append(dst, '=')
		dst = appendValue(dst, v)
	}
	return dst
}

// maxShown is the number of bytes of a value above which its end is left out.
const maxShown = 120

func appendValue(dst []byte, v connectors.Value) []byte {
	switch {
	case v.IsAbsent():
		return append(dst, "…"...)
	case v.IsNull():
		return append(dst, "NULL"...)
	case len(v.Data()) > maxShown:
		cut := maxShown
		for cut > 0 && !utf8.RuneStart(v.Data()[cut]) {
			cut--
		}
		short := connectors.DataValue(connectors.Text, v.Data()[:cut])
		if v.Kind() == connectors.Bytes {
			short = connectors.DataValue(connectors.Bytes, v.Data()[:cut])
		}
		dst = connectors.AppendJSON(dst, short)
		return append(append(append(dst, "…("...), strconv.Itoa(len(v.Data()))...), " bytes)"...)
	}
	switch v.Kind() {
	case connectors.Bool, connectors.Int, connectors.Uint, connectors.Float, connectors.Decimal:
		return appendText(dst, string(v.AppendText(nil)))
	}
	return connectors.AppendJSON(dst, v)
}

// appendText appends a name, quoted when it holds anything that could change what the terminal shows.
func appendText(dst []byte, s string) []byte {
	for _, r := range s {
		if !strconv.IsPrint(r) || r == '"' || r == '=' || r == ' ' {
			return strconv.AppendQuote(dst, s)
		}
	}
	return append(dst, s...)
}
