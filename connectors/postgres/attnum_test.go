package postgres

import (
	"fmt"
	"strings"
	"testing"
)

// columnsFrom reads "1:id:23 3:b:25": number, name and type. A name that begins with = is that of a generated column.
func columnsFrom(text string) []attribute {
	var list []attribute
	for item := range strings.FieldsSeq(text) {
		parts := strings.Split(item, ":")
		a := attribute{name: parts[1], typ: typeRef{mod: -1}}
		a.name, a.generated = strings.CutPrefix(a.name, "=")
		fmt.Sscan(parts[0], &a.number)
		fmt.Sscan(parts[2], &a.typ.oid)
		list = append(list, a)
	}
	return list
}

// Columns of a relation message get the attribute numbers that the catalog and the version before allow, and it is known
// when that leaves a choice.
func TestNumbersOfColumns(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		before, now string
		last        int16
		dropped     string // with the transaction that did it, in place of a type
		message     string // of transaction 100
		want        string // with a question mark where another assignment can be
	}{
		"nothing changed":                             {"1:id:23 2:a:25", "1:id:23 2:a:25", 2, "", "0:id:23 0:a:25", "1 2"},
		"a rename keeps the number":                   {"1:id:23 2:a:25", "1:id:23 2:b:25", 2, "", "0:id:23 0:b:25", "1 2"},
		"another type keeps the number":               {"1:id:23 2:a:25", "1:id:23 2:a:20", 2, "", "0:id:23 0:a:20", "1 2"},
		"another name and another type keep it":       {"1:id:23 2:a:25", "1:id:23 2:b:20", 2, "", "0:id:23 0:b:20", "1 2"},
		"names and types that are gone since keep it": {"1:id:23 2:a:25", "1:id:23 2:c:23", 2, "", "0:id:23 0:b:20", "1 2"},
		"two names are exchanged":                     {"1:id:23 2:a:25 3:b:25", "1:id:23 2:b:25 3:a:25", 3, "", "0:id:23 0:b:25 0:a:25", "1 2 3"},
		"dropped and added under the same name":       {"1:id:23 2:a:25", "1:id:23 3:a:25", 3, "2::90", "0:id:23 0:a:25", "1 3 ?"},
		"dropped, and another added":                  {"1:id:23 2:a:25", "1:id:23 3:b:25", 3, "2::90", "0:id:23 0:b:25", "1 3"},
		"dropped, and others added":                   {"1:id:23 2:a:25 3:b:25", "1:id:23 3:b:25 4:c:25 5:d:25", 5, "2::90", "0:id:23 0:b:25 0:c:25 0:d:25", "1 3 4 5"},
		"dropped by this transaction or a part of it": {"1:id:23 2:a:25", "1:id:23 3:b:25", 3, "2::101", "0:id:23 0:b:25", "1 3 ?"},
		"added since":                                 {"1:id:23 2:a:25", "1:id:23 2:a:25 3:b:25 4:c:25", 4, "", "0:id:23 0:a:25", "1 2"},
		"the first one of those that were added":      {"1:id:23 2:a:25", "1:id:23 2:a:25 3:b:25 4:c:25", 4, "", "0:id:23 0:a:25 0:c:25", "1 2 3"},
		"dropped since":                               {"1:id:23 2:a:25", "1:id:23", 2, "2::110", "0:id:23 0:a:25", "1 2"},
		"one that came and went, or the next one":     {"1:id:23 2:a:25", "1:id:23 2:a:25 4:c:25", 4, "3::110", "0:id:23 0:a:25 0:b:25", "1 2 3 ?"},
		"came and went, and the next one":             {"1:id:23 2:a:25", "1:id:23 2:a:25 4:c:25", 4, "3::90", "0:id:23 0:a:25 0:c:25", "1 2 4"},
		"renamed, dropped, and the name taken":        {"1:id:23 2:a:25", "1:id:23 3:b:25", 3, "2::110", "0:id:23 0:b:25", "1 3 ?"},
		"a message older than the catalog":            {"1:id:23 2:a:25 4:c:23", "1:id:23 2:a:25 4:c:23", 4, "3::110", "0:id:23 0:a:25 0:c:23", "1 2 4"},
		"a message from before the drop":              {"1:id:23 2:a:25 3:b:23", "1:id:23 4:c:25", 4, "2::110 3::111", "0:id:23 0:a:25 0:b:23", "1 2 3 ?"},
		"renamed since the message":                   {"1:id:23 2:new:25", "1:id:23 2:new:25", 2, "", "0:id:23 0:old:25", "1 2"},
		"a generated column is not in the message":    {"1:id:23 3:a:25", "1:id:23 2:=g:25 3:a:25", 3, "", "0:id:23 0:a:25", "1 3"},
		"a list of columns leaves some out":           {"1:id:23 2:a:25 3:b:23", "1:id:23 2:a:25 3:b:23", 3, "", "0:id:23 0:b:23", "1 3"},
		"a list of columns goes on leaving some out":  {"1:id:23 3:b:23", "1:id:23 2:a:25 3:b:23", 3, "", "0:id:23 0:b:23", "1 3"},
		"the table is gone, its last version is left": {"1:id:23 2:a:25", "1:id:23 2:a:25", 2, "", "0:id:23 0:a:25 0:b:25", "0 0 0 ?"},
		"dropped and added later":                     {"1:id:23 2:a:25", "1:id:23 3:a:25", 3, "2::110", "0:id:23 0:a:25", "1 2 ?"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			columns := columnsFrom(test.message)
			dropped := columnsFrom(test.dropped)
			for i := range dropped {
				dropped[i].writer = dropped[i].typ.oid
			}
			sure := number(columns, &relation{columns: columnsFrom(test.now), dropped: dropped, last: test.last}, columnsFrom(test.before), 100)
			var got []string
			for _, a := range columns {
				got = append(got, fmt.Sprint(a.number))
			}
			if !sure {
				got = append(got, "?")
			}
			if got := strings.Join(got, " "); got != test.want {
				t.Errorf("numbers %s, want %s", got, test.want)
			}
		})
	}
}

// A rename keeps the column's id, a column that takes the name of a dropped one gets another, and so does a table.
func TestIdentityOfColumnsAndTables(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "public.ids", `CREATE TABLE ids (id int PRIMARY KEY, a text, b text)`)
	h.open()
	h.catchUp()
	h.exec(`INSERT INTO ids VALUES (1, 'a', 'b')`,
		`BEGIN; ALTER TABLE ids RENAME a TO c; ALTER TABLE ids RENAME b TO a; ALTER TABLE ids RENAME c TO b; COMMIT`, `INSERT INTO ids VALUES (2, 'b', 'a')`)
	h.untilCount(2)
	h.exec(`ALTER TABLE ids DROP a`, `ALTER TABLE ids ADD a text`, `INSERT INTO ids VALUES (3, 'b', 'a')`)
	h.untilCount(3)
	for i, want := range []string{"id1 a2 b3", "id1 b2 a3", "id1 b2 a4"} {
		var got []string
		for _, c := range h.changes[i].Table.Columns {
			got = append(got, fmt.Sprintf("%s%d", c.Name, c.ID))
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("row %d has %s, want %s", i+1, got, want)
		}
	}
	if got, want := fmt.Sprint(h.changes[0].Table.ID), h.query("SELECT 'ids'::regclass::oid::text"); got != want {
		t.Errorf("table %s, want %s", got, want)
	}
}
