package connectors

import (
	"testing"
	"time"
)

func TestAppendLine(t *testing.T) {
	t.Parallel()
	text := func(s string) Value { return DataValue(Text, []byte(s)) }
	item := &Table{
		Schema: "main", Name: "item", Key: []int{0},
		Columns: []Column{{Name: "id", Kind: Int}, {Name: `n"`, Kind: Text}, {Name: "note", Kind: Text}},
	}
	at := time.Date(2026, 1, 30, 12, 34, 56, 789_000, time.FixedZone("", 3600))
	var absent Value
	cases := []struct {
		name   string
		change Change
		want   string
	}{
		{"an update names what it does not carry", Change{
			Op: Update, Table: item, Time: at, Offset: 12, After: []Value{IntValue(1), text("a\n"), absent},
		}, `{"topic":"shop/x","partition":3,"offset":12,"op":"u","ts":"2026-01-30T11:34:56.000789Z","schema":"main","table":"item",` +
			`"key":{"id":1},"before":null,"after":{"id":1,"n\"":"a\n"},"unchanged":["note"]}` + "\n"},
		{"a delete has the key of the old row", Change{
			Op: Delete, Table: item, Before: []Value{IntValue(1), absent, NullValue()},
		}, `{"topic":"shop/x","partition":3,"offset":0,"op":"d","ts":null,"schema":"main","table":"item",` +
			`"key":{"id":1},"before":{"id":1,"note":null},"after":null,"unchanged":[]}` + "\n"},
		{"a truncate has no row", Change{Op: Truncate, Table: item},
			`{"topic":"shop/x","partition":3,"offset":0,"op":"t","ts":null,"schema":"main","table":"item","key":null,"before":null,"after":null,"unchanged":[]}` + "\n"},
		{"a message has its own members", Change{
			Op: Message, After: []Value{text("p"), DataValue(Bytes, []byte{0})},
		}, `{"topic":"shop/x","partition":3,"offset":0,"op":"m","ts":null,"schema":null,"table":null,"key":null,"before":null,` +
			`"after":{"prefix":"p","content":"AA=="},"unchanged":[]}` + "\n"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := string(AppendLine(nil, "shop/x/3", &c.change)); got != c.want {
				t.Errorf("got  %swant %s", got, c.want)
			}
		})
	}
}
