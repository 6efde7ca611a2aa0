package rowfile

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/trunkline/trunkline/connectors"
)

// FuzzCell writes one value of any kind into a column of any type and reads the file back: whatever the bytes are, the file
// is whole, has the row, and the value is not NULL where the column said that it holds it.
func FuzzCell(f *testing.F) {
	types := []string{"", "uuid", "numeric(10,2)", "decimal(38,18)", "numeric(1000,500)", "time with time zone", "integer[]", "numeric(10,2)[]"}
	for kind := connectors.Bool; kind <= connectors.Map; kind++ {
		for _, text := range []string{"", "1", "-0.00", "2026-01-30", "0044-03-15 BC", "12:34:56.123456", "2026-01-30T12:34:56.5Z", "NaN", `[1,null,"a"]`, `[[1]]`, `{"a":null,"b":"c"}`,
			`{"a"`, "99999999.99", "00112233-4455-6677-8899-aabbccddeeff"} {
			f.Add(uint8(kind), uint8(connectors.Int), uint8(2), uint64(7), []byte(text))
		}
	}
	f.Fuzz(func(t *testing.T, kind, elem, typ uint8, number uint64, text []byte) {
		column := connectors.Column{Name: "v", Type: types[int(typ)%len(types)], Kind: connectors.Kind(kind % uint8(connectors.Map+1)), Elem: connectors.Kind(elem % uint8(connectors.Map+1))}
		var v connectors.Value
		switch column.Kind {
		case connectors.Absent, connectors.Null:
			return // no column has these kinds
		case connectors.Bool:
			v = connectors.BoolValue(number&1 == 1)
		case connectors.Int:
			v = connectors.IntValue(int64(number))
		case connectors.Uint:
			v = connectors.UintValue(number)
		default:
			v = connectors.DataValue(column.Kind, text)
		}
		if number%3 == 0 { // a value of another kind than its column's, as SQLite has them
			v = connectors.DataValue(connectors.Text, text)
		}
		c := cellOf(&column)
		held := c.holds()(v)
		row := writeCell(t, &column, v)
		if null := isNull(&c, row); null == held {
			t.Errorf("the column of type %s says that it holds the value: %v, and it is NULL in the file: %v", c.node.Type(), held, null)
		}
		if c.shape == single && held && column.Kind == connectors.Text && column.Type != "uuid" && !bytes.Equal(row[0].ByteArray(), v.AppendText(nil)) {
			t.Errorf("a text came back as %q", row[0].ByteArray())
		}
	})
}

// writeCell returns the values of the column after the way through a file.
func writeCell(t *testing.T, column *connectors.Column, v connectors.Value) parquet.Row {
	t.Helper()
	table := &connectors.Table{Name: "t", Columns: []connectors.Column{*column}}
	e := NewEncoder(Settings{Format: Parquet, Compression: None}, func(connectors.Report) {})
	change := connectors.Change{Op: connectors.Insert, Table: table, After: []connectors.Value{v}, Time: time.Unix(1769776496, 0)}
	// Once with the value and once without, to see that no row spoils the next.
	data, n, err := e.Encode("t/0", []connectors.Change{change, {Op: connectors.Insert, Table: table, After: []connectors.Value{connectors.NullValue()}}})
	if err != nil || n != 2 {
		t.Fatalf("encode: %d changes, %v", n, err)
	}
	p, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatalf("open what was written: %v", err)
	}
	rows := p.RowGroups()[0].Rows()
	defer rows.Close()
	buffer := make([]parquet.Row, 3)
	n, err = rows.ReadRows(buffer)
	if n != 2 || err != nil && err != io.EOF {
		t.Fatalf("read %d rows: %v", n, err)
	}
	own := func(row parquet.Row) (out parquet.Row) {
		for _, v := range row {
			if v.Column() >= len(metaColumns) {
				out = append(out, v)
			}
		}
		return out
	}
	if behind := own(buffer[1]); len(behind) == 0 || behind[0].DefinitionLevel() != 0 {
		t.Errorf("the row behind it is %v", behind)
	}
	return own(buffer[0])
}

// isNull reports that the column has no value; an empty list is one.
func isNull(c *cell, row parquet.Row) bool {
	return len(row) == 0 || row[0].DefinitionLevel() == 0
}

// TestUnscaled holds the decimals against their digits.
func TestUnscaled(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"1.10": true, "-1.10": true, "0.00": true, "99999999.99": true, "100000000.00": false, "1.1": false, "1.100": false, "1": false,
		"": false, "-": false, ".10": false, "1.": false, "1..0": false, "NaN": false, "1e2": false, "+1.10": false, " 1.10": false, "-.10": false,
	} {
		if _, _, ok := unscaled([]byte(text), 10, 2); ok != want {
			t.Errorf("%q: %v, want %v", text, ok, want)
		}
	}
	high, low, ok := unscaled([]byte("-"+strings.Repeat("9", 38)), 38, 0)
	if !ok || high != 0xb4c4b357a5793b85 || low != 0xf675ddc000000001 {
		t.Errorf("38 digits: %x %x %v", high, low, ok)
	}
}
