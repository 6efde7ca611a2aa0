package connectors

import "testing"

func TestKeysThatDifferHaveDifferentTexts(t *testing.T) {
	t.Parallel()
	text := func(s string) Value { return DataValue(Text, []byte(s)) }
	seen := map[string]int{}
	for i, row := range [][]Value{{text("a"), text("bc")}, {text("ab"), text("c")}, {text("a:1"), text("bc")}, {text(""), text("abc")}, {text("abc"), text("")},
		{text("a1"), text(":bc")}, {text("a:"), text("1bc")}} {
		key := KeyText(row, []int{0, 1})
		if other, known := seen[key]; known {
			t.Errorf("keys %d and %d have the text %q", other, i, key)
		}
		seen[key] = i
	}
}

func TestKeysAreReadAsTheKindOfTheirColumn(t *testing.T) {
	t.Parallel()
	table := &Table{Columns: []Column{{Name: "v", Kind: Text}, {Name: "id", Kind: Int}}, Key: []int{1}}
	row := make([]Value, 2)
	if err := FillKey(table, row, []Value{UintValue(7)}); err != nil || row[1].Kind() != Int || row[1].Int() != 7 {
		t.Errorf("7 is read as %v of kind %v: %v", row[1], row[1].Kind(), err)
	}
}
