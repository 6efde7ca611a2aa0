package mysql

import (
	"slices"
	"strings"
	"testing"

	"github.com/trunkline/trunkline/connectors"
)

// replica returns the rows of a table as somebody has them who has followed all changes: their values by the columns of the
// newest version, in order.
func (h *harness) replica(name string) []string {
	rows := map[string]map[string]string{}
	var newest *connectors.Table
	for _, c := range h.changes {
		if c.Table == nil || c.Table.Name != name {
			continue
		}
		newest = c.Table
		if c.Op == connectors.Truncate {
			clear(rows)
		}
		if c.Before != nil {
			delete(rows, connectors.KeyText(c.Before, c.Table.Key))
		}
		if c.After != nil {
			row := map[string]string{}
			for i, v := range c.After {
				row[c.Table.Columns[i].Name] = valueText(v)
			}
			rows[connectors.KeyText(c.After, c.Table.Key)] = row
		}
	}
	var list []string
	for _, row := range rows {
		var values []string
		for _, column := range newest.Columns {
			values = append(values, row[column.Name])
		}
		list = append(list, strings.Join(values, " "))
	}
	slices.Sort(list)
	return list
}

// rowsOf returns the rows of a table as the server has them, as replica does.
func (h *harness) rowsOf(name string) []string {
	h.t.Helper()
	columns := h.query("SELECT GROUP_CONCAT(CONCAT('COALESCE(', COLUMN_NAME, ', ''null'')') ORDER BY ORDINAL_POSITION SEPARATOR ', ') FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = '" + name + "'")
	return strings.Split(h.query("SELECT GROUP_CONCAT(r ORDER BY BINARY r SEPARATOR '\n') FROM (SELECT CONCAT_WS(' ', "+columns+") AS r FROM "+name+") AS t"), "\n")
}

// With altered: warn, the table is left as it is and said to be so.
func TestChangedRowsAreWarnedOf(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "t", "CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
	h.config.Altered = alteredWarn
	h.open()
	h.catchUp()
	h.exec("ALTER TABLE t ADD c int DEFAULT 11", "INSERT INTO t VALUES (2, 2)")
	h.untilCount(2)
	h.want("r t -> [1]", "c t -> [2 2]")
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.ContainsFunc(h.reports, func(r connectors.Report) bool {
		return strings.Contains(r.Reason, "trunkline resync") && r.Table == h.name+".t"
	}) {
		t.Errorf("no report names the command: %v", h.reports)
	}
}

// F34: a statement that changed stored rows without an event for each has the table read anew: at once, after a restart too, and
// each row says what the server's does. The default of a column is that of the time at which it was added.
func TestRowsThatAStatementChanged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, statements []string
		empties            bool
	}{
		"a column with a default": {[]string{"CREATE TABLE t (id int PRIMARY KEY, a int)", "INSERT INTO t VALUES (1, 1), (2, 2)"},
			[]string{"ALTER TABLE t ADD c int DEFAULT 11", "INSERT INTO t VALUES (3, 3, 22)", "ALTER TABLE t ALTER c SET DEFAULT 12"}, false},
		"a column without NULL": {[]string{"CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)"}, []string{"ALTER TABLE t ADD c varchar(5) NOT NULL FIRST"}, false},
		"a generated column":    {[]string{"CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)"}, []string{"ALTER TABLE t ADD c int AS (id + 1) STORED"}, false},
		"two types in turn":     {[]string{"CREATE TABLE t (id int PRIMARY KEY, a int)", "INSERT INTO t VALUES (1, 7)"}, []string{"ALTER TABLE t MODIFY a decimal(8,2)", "ALTER TABLE t MODIFY a varchar(20)"}, false},
		"another key":           {[]string{"CREATE TABLE t (id int PRIMARY KEY, a int NOT NULL)", "INSERT INTO t VALUES (1, 7)"}, []string{"ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (a)"}, true},
		"another name":          {[]string{"CREATE TABLE u (id int PRIMARY KEY)", "INSERT INTO u VALUES (1)"}, []string{"INSERT INTO u VALUES (2)", "RENAME TABLE u TO t"}, true},
		"names exchanged": {[]string{"CREATE TABLE t (id int PRIMARY KEY, a int)", "CREATE TABLE u (id int PRIMARY KEY, b text, a int)", "INSERT INTO t VALUES (1, 7)", "INSERT INTO u VALUES (1, 'b', 3)"},
			[]string{"RENAME TABLE t TO v, u TO t, v TO u", "INSERT INTO t VALUES (2, 'c', 4)"}, true},
		"rows of a partition gone": {[]string{"CREATE TABLE t (id int PRIMARY KEY) PARTITION BY RANGE (id) (PARTITION a VALUES LESS THAN (10), PARTITION b VALUES LESS THAN (20))", "INSERT INTO t VALUES (1), (11)"},
			[]string{"ALTER TABLE t TRUNCATE PARTITION a"}, true},
		"a name that is taken": {[]string{"CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)"}, []string{"DROP TABLE t", "CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (2)"}, true},
	} {
		for _, while := range []string{"while it runs", "while it is stopped"} {
			t.Run(name+" "+while, func(t *testing.T) {
				t.Parallel()
				h := newHarness(t, "*", c.before...)
				h.open()
				h.catchUp()
				if while == "while it is stopped" {
					h.close()
					h.exec(c.statements...)
					h.open()
				} else {
					h.exec(c.statements...)
				}
				h.exec("CREATE TABLE last (id int PRIMARY KEY)", "INSERT INTO last VALUES (1)")
				emptied := func() bool { // what is found at the start under a new name has no rows from before
					return !c.empties || while != "while it runs" || slices.ContainsFunc(h.changes, func(c connectors.Change) bool { return c.Op == connectors.Truncate && c.Table.Name == "t" })
				}
				last := func() bool { return strings.Contains(h.texts(), "last -> [1]") }
				h.until("the rows of t as the server has them", func() bool { return last() && emptied() && slices.Equal(h.replica("t"), h.rowsOf("t")) })
			})
		}
	}
}

// A label with a character that the catalog does not show, and that no row had at the start, is known when a row has it.
func TestLabelsThatTheCatalogDoesNotShow(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "t", "CREATE TABLE t (id int PRIMARY KEY, e enum('a','😀','why?') CHARACTER SET utf8mb4)", "INSERT INTO t VALUES (1, 'a')")
	h.open()
	h.catchUp()
	h.exec("INSERT INTO t VALUES (2, '😀'), (3, 'why?')")
	h.untilCount(3)
	h.want("r t -> [1 a]", "c t -> [2 😀]", "c t -> [3 why?]")
}
