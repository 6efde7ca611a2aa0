package rowfile

import (
	"bufio"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

// A CSV file is as RFC 4180 has it: fields with a comma, a quote or a line break are quoted, a quote is doubled, lines
// end with CR LF, the first line names the columns:
//
//	_op,_offset,_ts,_table,_old_key,_unchanged,id,name,note
//	c,12,2026-01-30T12:34:56.000000Z,main.item,,,1,"",
//	u,13,2026-01-30T12:34:57.000000Z,main.item,"{""id"":1}","[""note""]",2,x,
//
// NULL is an empty field and the empty text is "", as PostgreSQL's COPY reads them. A column that the change does not
// carry is an empty field too and is named in _unchanged, a JSON array, empty when there is none. Bytes are base64.
// A delete has the old row, as far as it is known. An update of the key has the key that the row had in _old_key, a JSON
// object. Messages are left out.

const eol = "\r\n"

// appendHeader appends the first line of a file of the table.
func appendHeader(dst []byte, t *connectors.Table) []byte {
	dst = append(dst, "_op,_offset,_ts,_table,_old_key,_unchanged"...)
	for _, c := range t.Columns {
		dst = append(dst, ',')
		dst = appendField(dst, []byte(c.Name))
	}
	return append(dst, eol...)
}

// appendChange appends the line of a change.
func appendChange(dst []byte, c *connectors.Change) []byte {
	row := c.After
	if c.Op == connectors.Delete {
		row = c.Before
	}
	dst = append(dst, c.Op.Code(), ',')
	dst = strconv.AppendInt(dst, c.Offset, 10)
	dst = append(dst, ',')
	dst = appendTime(dst, c.Time)
	dst = append(dst, ',')
	dst = appendField(dst, []byte(c.Table.FullName()))
	dst = append(dst, ',')
	if c.Op == connectors.Update && moves(c) {
		dst = appendField(dst, appendOldKey(nil, c))
	}
	dst = append(dst, ',')
	if unchanged := appendUnchanged(nil, c.Table, row); len(unchanged) > 0 {
		dst = appendField(dst, unchanged)
	}
	for i := range c.Table.Columns {
		dst = append(dst, ',')
		if i < len(row) {
			dst = appendValue(dst, row[i])
		}
	}
	return append(dst, eol...)
}

func appendValue(dst []byte, v connectors.Value) []byte {
	switch v.Kind() {
	case connectors.Absent, connectors.Null:
		return dst
	case connectors.Bool, connectors.Int, connectors.Uint:
		return v.AppendText(dst)
	case connectors.Bytes:
		if len(v.Data()) > 0 {
			return base64.StdEncoding.AppendEncode(dst, v.Data())
		}
	}
	return appendField(dst, v.Data())
}

// moves reports an update of the key.
func moves(c *connectors.Change) bool {
	if c.Before == nil {
		return false
	}
	return slices.ContainsFunc(c.Table.Key, func(k int) bool {
		return !c.Before[k].IsAbsent() && !c.Before[k].Equal(c.After[k])
	})
}

// appendOldKey appends the key that the row had.
func appendOldKey(dst []byte, c *connectors.Change) []byte {
	dst = append(dst, '{')
	for i, k := range c.Table.Key {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = connectors.AppendJSONString(dst, []byte(c.Table.Columns[k].Name))
		dst = append(dst, ':')
		dst = connectors.AppendJSON(dst, c.Before[k])
	}
	return append(dst, '}')
}

func appendTime(dst []byte, t time.Time) []byte {
	if t.IsZero() {
		return dst
	}
	return t.UTC().AppendFormat(dst, "2006-01-02T15:04:05.000000Z07:00")
}

func appendUnchanged(dst []byte, t *connectors.Table, row []connectors.Value) []byte {
	for i, v := range row {
		if !v.IsAbsent() {
			continue
		}
		if len(dst) == 0 {
			dst = append(dst, '[')
		} else {
			dst = append(dst, ',')
		}
		dst = connectors.AppendJSONString(dst, []byte(t.Columns[i].Name))
	}
	if len(dst) > 0 {
		dst = append(dst, ']')
	}
	return dst
}

// appendField appends a text that is there: an empty one is quoted.
func appendField(dst, text []byte) []byte {
	if len(text) > 0 && !slices.ContainsFunc(text, func(b byte) bool { return b == ',' || b == '"' || b == '\r' || b == '\n' }) {
		return append(dst, text...)
	}
	dst = append(dst, '"')
	for _, b := range text {
		if b == '"' {
			dst = append(dst, '"')
		}
		dst = append(dst, b)
	}
	return append(dst, '"')
}

// maxHeader bounds the first line that is looked at.
const maxHeader = 1 << 20

// readHeader reads the first line of a CSV file with its end.
func readHeader(r *bufio.Reader) (string, error) {
	var line []byte
	quoted := false
	for len(line) < maxHeader {
		b, err := r.ReadByte()
		if errors.Is(err, io.EOF) {
			return "", io.ErrUnexpectedEOF
		}
		if err != nil {
			return "", err
		}
		line = append(line, b)
		switch {
		case b == '"':
			quoted = !quoted
		case b == '\n' && !quoted:
			return string(line), nil
		}
	}
	return "", fmt.Errorf("longer than %d bytes", maxHeader)
}
