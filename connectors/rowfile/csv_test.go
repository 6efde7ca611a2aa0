package rowfile

import (
	"testing"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

func TestCSVGolden(t *testing.T) {
	t.Parallel()
	text := func(s string) connectors.Value { return connectors.DataValue(connectors.Text, []byte(s)) }
	table := &connectors.Table{
		Schema: "main", Name: "item", Key: []int{0},
		Columns: []connectors.Column{{Name: "id", Kind: connectors.Int}, {Name: "a,b", Kind: connectors.Text}, {Name: "c", Kind: connectors.Bytes}},
	}
	at := time.Unix(1769776496, 0)
	b := appendHeader(nil, table)
	for _, c := range []connectors.Change{
		{Op: connectors.Insert, After: []connectors.Value{connectors.IntValue(1), text(""), connectors.NullValue()}},
		{Op: connectors.Update, After: []connectors.Value{connectors.IntValue(1), text("x \"y\"\r\nz"), {}}},
		{Op: connectors.Update, After: []connectors.Value{connectors.IntValue(2), {}, connectors.DataValue(connectors.Bytes, []byte{0xff})},
			Before: []connectors.Value{connectors.IntValue(1), {}, {}}},
		{Op: connectors.Delete, Before: []connectors.Value{connectors.IntValue(2), {}, {}}},
		{Op: connectors.Truncate},
	} {
		c.Table, c.Time, c.Offset = table, at, 7
		b = appendChange(b, &c)
	}
	want := "_op,_offset,_ts,_table,_old_key,_unchanged,id,\"a,b\",c\r\n" +
		"c,7,2026-01-30T12:34:56.000000Z,main.item,,,1,\"\",\r\n" +
		"u,7,2026-01-30T12:34:56.000000Z,main.item,,\"[\"\"c\"\"]\",1,\"x \"\"y\"\"\r\nz\",\r\n" +
		"u,7,2026-01-30T12:34:56.000000Z,main.item,\"{\"\"id\"\":1}\",\"[\"\"a,b\"\"]\",2,,/w==\r\n" +
		"d,7,2026-01-30T12:34:56.000000Z,main.item,,\"[\"\"a,b\"\",\"\"c\"\"]\",2,,\r\n" +
		"t,7,2026-01-30T12:34:56.000000Z,main.item,,,,,\r\n"
	if string(b) != want {
		t.Errorf("got\n%s\nwant\n%s", b, want)
	}
}
