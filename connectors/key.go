package connectors

import (
	"fmt"
	"strconv"
)

// KeyText is a text that two rows of a table share only if they have the same key: each value's text with its length.
func KeyText(row []Value, key []int) string {
	var b []byte
	for _, k := range key {
		start := len(b)
		b = row[k].AppendText(b)
		b = strconv.AppendInt(append(b, ':'), int64(len(b)-start), 10)
	}
	return string(b)
}

// FillKey puts the values of a key, which may be of another kind that says the same, into a row of t as values of its columns.
func FillKey(t *Table, row, values []Value) error {
	for i, k := range t.Key {
		v, _, err := ParseJSON(t.Columns[k].Kind, AppendJSON(nil, values[i]), nil)
		if err != nil {
			return fmt.Errorf("read key column %s: %w", t.Columns[k].Name, err)
		}
		row[k] = v
	}
	return nil
}
