package connectors

import (
	"testing"
)

func TestMemoMakesATextOnceForEachStreamAndTable(t *testing.T) {
	var m Memo
	made := 0
	of := func(stream string, table *Table) string {
		return m.Of(stream, table, func() string { made++; return stream + " " + table.FullName() })
	}
	a, b := &Table{Name: "a"}, &Table{Name: "b"}
	for range 3 {
		for stream, tables := range map[string][]*Table{"x/0": {a, b}, "x/1": {a}} {
			for _, table := range tables {
				if got := of(stream, table); got != stream+" "+table.Name {
					t.Fatalf("%s and %s give %q", stream, table.Name, got)
				}
			}
		}
	}
	if made != 3 {
		t.Errorf("made %d times, want 3", made)
	}
	for range 20_000 {
		of("x/0", &Table{Name: "a"})
	}
	if got := of("x/1", a); got != "x/1 a" || made != 20_004 {
		t.Errorf("%q after many versions, made %d times", got, made)
	}
}
