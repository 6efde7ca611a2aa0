package postgres

import "testing"

// A table without an identity is captured where somebody has published all tables: the server refuses what could not be
// decoded, so its inserts are all there is.
func TestPublicationForAllTablesTakesTablesOfInsertsAlone(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "public.*", `CREATE TABLE heap (a int)`, `CREATE TABLE nothing (id int PRIMARY KEY)`, `ALTER TABLE nothing REPLICA IDENTITY NOTHING`,
		`INSERT INTO heap VALUES (1), (1)`, `CREATE PUBLICATION everything FOR ALL TABLES WITH (publish_via_partition_root = true)`)
	h.config.Publication = "everything"
	h.open()
	h.catchUp()
	h.exec(`INSERT INTO heap VALUES (2)`, `INSERT INTO nothing VALUES (3)`, `TRUNCATE heap`)
	h.untilCount(5)
	want := "r public.heap -> [1] | r public.heap -> [1] | c public.heap -> [2] | c public.nothing -> [3] | t public.heap"
	if got := h.texts(); got != want {
		t.Errorf("changes:\n%s\nwant:\n%s", got, want)
	}
}
