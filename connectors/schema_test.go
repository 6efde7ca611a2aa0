package connectors

import (
	"fmt"
	"strings"
	"testing"
)

// versionOf makes a table from columns written as name#ID.
func versionOf(id uint64, columns string) *Table {
	t := &Table{Dialect: "d", Name: "t", ID: id}
	for c := range strings.FieldsSeq(columns) {
		name, number, _ := strings.Cut(c, "#")
		column := Column{Name: name}
		fmt.Sscan(number, &column.ID)
		t.Columns = append(t.Columns, column)
	}
	return t
}

func TestColumnsAreTheSameByIdentity(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		from, to *Table
		want     string // places, dropped, renamed
	}{
		{"nothing", versionOf(1, "a#1 b#2"), versionOf(1, "a#1 b#2"), "[0 1] [] []"},
		{"a rename", versionOf(1, "a#1 b#2"), versionOf(1, "a#1 c#2"), "[0 1] [] [{b c}]"},
		{"names that change places", versionOf(1, "a#1 b#2"), versionOf(1, "b#1 a#2"), "[0 1] [] [{a b} {b a}]"},
		{"a successor of the same name", versionOf(1, "a#1 b#2"), versionOf(1, "a#1 b#3"), "[0 -1] [b] []"},
		{"another table of that name", versionOf(1, "a#1 b#2"), versionOf(2, "b#1 c#2"), "[1 -1] [a] []"},
		{"no identities", versionOf(0, "a b"), versionOf(0, "b c"), "[1 -1] [a] []"},
		{"identities that become known", versionOf(0, "a b"), versionOf(0, "b#2 a#1"), "[1 0] [] []"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := Migration{From: c.from, To: c.to}
			if got := fmt.Sprint(Match(c.from, c.to), m.Dropped(), m.Renames()); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestRenamesInTurnNeverMeet(t *testing.T) {
	t.Parallel()
	for start, want := range map[string]string{
		"a>b":                 "b=a",
		"a>b b>a":             "a=b b=a",
		"a>b b>c c>a":         "a=c b=a c=b",
		"a>b b>c":             "b=a c=b",
		"a>b b>a c>d d>e e>c": "a=b b=a c=e d=c e=d",
	} {
		var list []Renamed
		columns := map[string]string{} // name now: name at first
		for r := range strings.FieldsSeq(start) {
			from, to, _ := strings.Cut(r, ">")
			list = append(list, Renamed{From: from, To: to})
			columns[from] = from
		}
		for _, r := range InTurn(list, func(name string) bool { return columns[name] != "" }) {
			if columns[r.From] == "" || columns[r.To] != "" {
				t.Fatalf("%s: renames %s to %s with %v", start, r.From, r.To, columns)
			}
			columns[r.To] = columns[r.From]
			delete(columns, r.From)
		}
		for pair := range strings.FieldsSeq(want) {
			name, first, _ := strings.Cut(pair, "=")
			if columns[name] != first {
				t.Errorf("%s: %v, want %s", start, columns, want)
			}
		}
	}
}

func TestSchemaPolicyKnowsFourWords(t *testing.T) {
	t.Parallel()
	var p SchemaPolicy
	if err := p.UnmarshalText([]byte("lenient")); err != nil || p.Validate() != nil || p != FollowAll(Lenient) {
		t.Errorf("%v, %v", p, err)
	}
	p.Rename = "evolv"
	if err := p.Validate(); err == nil || !strings.Contains(err.Error(), "freeze") {
		t.Errorf("%v", err)
	}
}
