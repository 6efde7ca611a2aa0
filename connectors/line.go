package connectors

import (
	"strconv"
	"strings"
	"time"
)

// SplitStream splits the name of a sink's stream, topic/partition. Without a number behind the last slash, all of it is
// the topic and the partition is zero.
func SplitStream(stream string) (topic string, partition int) {
	at := strings.LastIndexByte(stream, '/')
	if at < 0 {
		return stream, 0
	}
	n, err := strconv.Atoi(stream[at+1:])
	if err != nil || n < 0 {
		return stream, 0
	}
	return stream[:at], n
}

// AppendLine appends a change as one line of JSON, for sinks whose store is made of lines:
//
//	{"topic":"shop.main.item","partition":0,"offset":12,"op":"u","ts":"2026-01-30T12:34:56.000000Z","schema":"main",
//	 "table":"item","key":{"id":1},"before":null,"after":{"id":1,"name":"x"},"unchanged":["note"]}
//
// op has Debezium's letters (r c u d t m), ts is Change.Time in UTC or null, values are as in records (AppendJSON). key
// is null without a key; before and after are null where the change has none. What an image does not carry is left out
// of it, and for after named in unchanged. A Message has neither schema, table nor key, and its after is
// {"prefix":…,"content":…}. The line ends with a newline.
func AppendLine(dst []byte, stream string, c *Change) []byte {
	topic, partition := SplitStream(stream)
	dst = append(dst, `{"topic":`...)
	dst = AppendJSONString(dst, []byte(topic))
	dst = append(dst, `,"partition":`...)
	dst = strconv.AppendInt(dst, int64(partition), 10)
	dst = append(dst, `,"offset":`...)
	dst = strconv.AppendInt(dst, c.Offset, 10)
	dst = append(dst, `,"op":"`...)
	dst = append(dst, c.Op.Code())
	dst = append(dst, `","ts":`...)
	dst = appendTime(dst, c.Time)
	table := c.Table
	if c.Op == Message || table == nil {
		table = messageTable
		dst = append(dst, `,"schema":null,"table":null,"key":null`...)
	} else {
		dst = append(dst, `,"schema":`...)
		dst = AppendJSONString(dst, []byte(table.Schema))
		dst = append(dst, `,"table":`...)
		dst = AppendJSONString(dst, []byte(table.Name))
		dst = append(dst, `,"key":`...)
		dst = appendKey(dst, c)
	}
	dst = append(dst, `,"before":`...)
	dst = appendImage(dst, table, c.Before)
	dst = append(dst, `,"after":`...)
	dst = appendImage(dst, table, c.After)
	dst = append(dst, `,"unchanged":[`...)
	first := true
	for i := range c.After {
		if !c.After[i].IsAbsent() || i >= len(table.Columns) {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = AppendJSONString(dst, []byte(table.Columns[i].Name))
	}
	return append(dst, "]}\n"...)
}

// messageTable names the values of a Message.
var messageTable = &Table{Columns: []Column{{Name: "prefix", Kind: Text}, {Name: "content", Kind: Bytes}}}

func appendTime(dst []byte, t time.Time) []byte {
	if t.IsZero() {
		return append(dst, "null"...)
	}
	dst = append(dst, '"')
	dst = t.UTC().AppendFormat(dst, "2006-01-02T15:04:05.000000Z07:00")
	return append(dst, '"')
}

// appendKey takes the key from the new row, or from the old one of a delete.
func appendKey(dst []byte, c *Change) []byte {
	row := c.After
	if row == nil {
		row = c.Before
	}
	if len(c.Table.Key) == 0 || row == nil {
		return append(dst, "null"...)
	}
	dst = append(dst, '{')
	for i, k := range c.Table.Key {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendJSONString(dst, []byte(c.Table.Columns[k].Name))
		dst = append(dst, ':')
		dst = AppendJSON(dst, row[k])
	}
	return append(dst, '}')
}

func appendImage(dst []byte, t *Table, row []Value) []byte {
	if row == nil {
		return append(dst, "null"...)
	}
	dst = append(dst, '{')
	first := true
	for i, v := range row {
		if v.IsAbsent() || i >= len(t.Columns) {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = AppendJSONString(dst, []byte(t.Columns[i].Name))
		dst = append(dst, ':')
		dst = AppendJSON(dst, v)
	}
	return append(dst, '}')
}
