package mysql

import "testing"

func TestSnapshotThenStream(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "item", `CREATE TABLE item (id int PRIMARY KEY, name text, price decimal(10,2))`,
		`INSERT INTO item VALUES (1, 'one', 1.10), (2, 'tab\tnew\nline\\', NULL)`)
	h.open()
	h.catchUp()
	h.exec(`INSERT INTO item VALUES (3, 'three', 3)`, `UPDATE item SET price = 2 WHERE id = 2`, `UPDATE item SET id = 30 WHERE id = 3`,
		`DELETE FROM item WHERE id = 1`)
	h.untilCount(6)
	h.want("r item -> [1 one 1.10]", "r item -> [2 tab\tnew\nline\\ null]", "c item -> [3 three 3.00]",
		"u item [2 tab\tnew\nline\\ null] -> [2 tab\tnew\nline\\ 2.00]", "u item [3 three 3.00] -> [30 three 3.00]", "d item [1 one 1.10]")
	if c := h.changes[2]; c.Table != h.changes[0].Table {
		t.Error("one version of a table has two pointers")
	}
	h.close()
	h.exec(`INSERT INTO item VALUES (7, 'seven', 7)`)
	h.open()
	h.untilCount(7)
}
