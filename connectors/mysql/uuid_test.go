package mysql

import (
	"fmt"
	"strings"
	"testing"
)

func TestUUIDsOfEveryVersionAndVariant(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "u", "CREATE TABLE u (id int PRIMARY KEY, v uuid)")
	h.open()
	var rows []string
	for version := range 16 {
		for _, variant := range []int{0, 4, 8, 12, 15} {
			rows = append(rows, fmt.Sprintf("(%d, '01234567-89ab-%xdef-%x123-456789abcdef')", len(rows), version, variant))
		}
	}
	h.exec("INSERT IGNORE INTO u VALUES " + strings.Join(rows, ", "))
	h.untilCount(len(rows))
	for i, c := range h.changes {
		got, want := strings.ToUpper(valueText(c.After[1])), strings.ToUpper(h.query(fmt.Sprintf("SELECT v FROM u WHERE id = %d", i)))
		if got != want {
			t.Errorf("%s is %s", want, got)
		}
	}
}
