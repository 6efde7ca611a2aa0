package file

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

var (
	// errTail is a last record without the end of its line: somebody may still be writing it.
	errTail = errors.New("the last line has no end yet")
	// errLong is a record above the limit; it was passed over.
	errLong = errors.New("longer than a row may be (max_record_bytes)")
)

// records cuts a text into lines, and the text of a CSV file into lines whose quotes are closed.
type records struct {
	r      *bufio.Reader
	at     int64 // bytes up to the end of the last record
	lines  int64 // lines up to there
	quotes bool  // a line goes on where a quote is open
	limit  int   // bytes of a record
	whole  bool  // the end of the text is the end of its last record
}

// next appends a record without the end of its line to dst, and returns the line that it begins in. io.EOF: there is no more.
func (r *records) next(dst []byte) (grown []byte, line int64, err error) {
	start, size, lines := len(dst), int64(0), int64(0)
	open, long := false, false
	for {
		part, err := r.r.ReadSlice('\n')
		size += int64(len(part))
		if long = long || len(dst)-start+len(part) > r.limit+2; long {
			dst = dst[:start]
		} else {
			dst = append(dst, part...)
		}
		if r.quotes && bytes.Count(part, []byte{'"'})%2 == 1 {
			open = !open
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && size == 0:
			return dst[:start], 0, io.EOF
		case errors.Is(err, io.EOF) && !r.whole:
			return dst[:start], 0, errTail
		case err != nil && !errors.Is(err, io.EOF):
			return dst[:start], 0, err
		}
		lines++
		if open && err == nil {
			continue
		}
		line = r.lines + 1
		r.at += size
		r.lines += lines
		if long {
			return dst[:start], line, errLong
		}
		return trimEnd(dst, start), line, nil
	}
}

func trimEnd(b []byte, start int) []byte {
	if n := len(b); n > start && b[n-1] == '\n' {
		b = b[:n-1]
	}
	if n := len(b); n > start && b[n-1] == '\r' {
		b = b[:n-1]
	}
	return b
}

// cell is one field of a CSV record.
type cell struct {
	text   []byte
	quoted bool
}

var errQuote = errors.New("a quote that is not at the ends of a field, or is not doubled")

// fields splits a CSV record. What it unquotes is appended to arena.
func fields(record []byte, delimiter byte, into []cell, arena []byte) ([]cell, []byte, error) {
	for {
		if len(record) == 0 || record[0] != '"' {
			end := bytes.IndexByte(record, delimiter)
			text := record
			if end >= 0 {
				text = record[:end]
			}
			if bytes.IndexByte(text, '"') >= 0 {
				return into, arena, errQuote
			}
			into = append(into, cell{text: text})
			if end < 0 {
				return into, arena, nil
			}
			record = record[end+1:]
			continue
		}
		start := len(arena)
		rest := record[1:]
		for {
			end := bytes.IndexByte(rest, '"')
			if end < 0 {
				return into, arena, errQuote
			}
			arena = append(arena, rest[:end]...)
			rest = rest[end+1:]
			if len(rest) == 0 || rest[0] != '"' {
				break
			}
			arena = append(arena, '"')
			rest = rest[1:]
		}
		into = append(into, cell{text: arena[start:len(arena):len(arena)], quoted: true})
		if len(rest) == 0 {
			return into, arena, nil
		}
		if rest[0] != delimiter {
			return into, arena, errQuote
		}
		record = rest[1:]
	}
}
