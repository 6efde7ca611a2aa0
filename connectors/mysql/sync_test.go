package mysql

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/trunkline/trunkline/connectors"
)

// A table is read again while others and itself change.
func TestResyncWhileTheStreamGoesOn(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "r loose", "CREATE TABLE r (id int PRIMARY KEY, k int, v text)", "CREATE TABLE loose (id int, v text)",
		"INSERT INTO r SELECT seq, 1, 'old' FROM seq_1_to_300", "INSERT INTO loose SELECT seq, 'x' FROM seq_1_to_100")
	h.env.Limits.BatchRows = 25
	h.open()
	h.catchUp()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- disturb(ctx, h) }()
	h.untilMore(200)
	source := h.source.(*Source)
	if err := source.Resync(ctx, "other.r"); err == nil {
		t.Error("a table that nobody reads was taken")
	}
	snapshots := func() int { return strings.Count(h.texts(), "r r ") }
	before := snapshots()
	for _, table := range []string{".r", ".loose"} {
		if err := source.Resync(ctx, h.name+table); err != nil {
			t.Fatal(err)
		}
	}
	h.until("the rows again", func() bool { return snapshots() > before+100 })
	h.open() // in the middle of it, perhaps
	h.untilMore(200)
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	h.catchUp()
	h.wantTable("r", "CONCAT_WS(' ', id, k, v)")
	h.wantLoose()
}

// untilMore reads until so many more changes were read.
func (h *harness) untilMore(n int) {
	h.t.Helper()
	n += len(h.changes)
	h.until(fmt.Sprintf("%d changes", n), func() bool { return len(h.changes) >= n })
}

// Tables that are new to the configuration are read, those that come into being are seen from their first row on.
func TestNewTablesAreRead(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "a n*", "CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int PRIMARY KEY, v varchar(5))", "INSERT INTO b VALUES (1, 'x')")
	h.open()
	h.catchUp()
	h.exec("CREATE TABLE n1 (id int PRIMARY KEY)", "INSERT INTO n1 VALUES (1)")
	h.untilCount(1)
	h.close()
	h.config.Tables[0].Name = h.name + ".?"
	h.exec("INSERT INTO b VALUES (2, 'y')", "ALTER TABLE b ADD w int", "INSERT INTO b VALUES (3, 'z', 1)", "CREATE TABLE n2 (id int)", "INSERT INTO n2 VALUES (7)")
	h.open()
	h.untilCount(5)
	h.exec("INSERT INTO b VALUES (4, 'u', 2)", "INSERT INTO n2 VALUES (8)")
	h.untilCount(7)
	h.open()
	h.exec("INSERT INTO n1 VALUES (2)")
	h.untilCount(8)
	h.want("c n1 -> [1]", "r b -> [1 x null]", "r b -> [2 y null]", "r b -> [3 z 1]", "r n2 -> [7]", "c b -> [4 u 2]", "c n2 -> [8]", "c n1 -> [2]")
}

// A table whose rows cannot be told apart from a version that is not known stops alone, and is whole again when it is read
// anew: here its history is one that never was.
func TestTableStopsAloneAndIsReadAnew(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "a b", "CREATE TABLE a (id int PRIMARY KEY, v int)", "CREATE TABLE b (id int PRIMARY KEY)", "INSERT INTO a VALUES (1, 1), (2, 2)")
	h.open()
	h.catchUp()
	h.close()
	p, err := parsePosition(h.mark)
	if err != nil {
		t.Fatal(err)
	}
	p.History, err = packHistory(history{tableName{h.name, "a"}: {Key: []string{"id"}, Columns: []columnDef{{Name: "id", Type: "int(11)"}, {Name: "w", Type: "date"}, {Name: "v", Type: "int(11)"}}},
		tableName{h.name, "b"}: {Key: []string{"id"}, Columns: []columnDef{{Name: "id", Type: "int(11)"}}}})
	if err != nil {
		t.Fatal(err)
	}
	h.exec("INSERT INTO a VALUES (3, 3)", "ALTER TABLE a ADD x int", "INSERT INTO b VALUES (1)", "DELETE FROM a WHERE id = 1")
	h.mark = p.encode()
	h.open()
	h.untilCount(3)
	failed := false
	for _, r := range h.reports {
		failed = failed || r.Table == h.name+".a" && strings.Contains(r.Reason, "trunkline resync")
	}
	if !failed {
		t.Error("nobody was told")
	}
	if err := h.source.(*Source).Resync(context.Background(), h.name+".a"); err != nil {
		t.Fatal(err)
	}
	h.until("the rows again", func() bool { return len(h.changes) >= 6 })
	h.exec("INSERT INTO a VALUES (4, 4, 4)")
	h.untilCount(7)
	h.want("r a -> [1 1]", "r a -> [2 2]", "c b -> [1]", "t a", "r a -> [2 2 null]", "r a -> [3 3 null]", "c a -> [4 4 4]")
}

// alteredTables are tables, and what is done to them while a snapshot is taken.
var alteredTables = map[string][]string{
	"retyped": {"INSERT INTO retyped VALUES (3, '3')", "ALTER TABLE retyped MODIFY v int", "INSERT INTO retyped VALUES (4, 4)"},
	"renamed": {"UPDATE renamed SET v = 'before' WHERE id = 1", "ALTER TABLE renamed CHANGE v w varchar(9)", "INSERT INTO renamed VALUES (4, 'after')"},
	"dropped": {"DELETE FROM dropped WHERE id = 1", "ALTER TABLE dropped DROP v", "INSERT INTO dropped VALUES (4)"},
	"added":   {"INSERT INTO added VALUES (3, '3')", "ALTER TABLE added ADD n int DEFAULT 7", "INSERT INTO added VALUES (4, '4', 4)"},
	"plain":   {"INSERT INTO plain VALUES (3, '3')", "DELETE FROM plain WHERE id = 1"},
}

func alteredSetup(key string) (list []string) {
	list = []string{"CREATE TABLE a (id " + key + " PRIMARY KEY)", "INSERT INTO a VALUES (1)", "CREATE TABLE z (id int PRIMARY KEY)", "INSERT INTO z VALUES (1)"}
	for name := range alteredTables {
		list = append(list, "CREATE TABLE "+name+" (id "+key+" PRIMARY KEY, v varchar(9))", "INSERT INTO "+name+" VALUES (1, '1'), (2, '2')")
	}
	return list
}

// wantAltered waits until the changes add up to what is in the database, and makes sure that no row of an old shape came behind one
// of a new one, where a sink could not write it any more.
func (h *harness) wantAltered() {
	h.t.Helper()
	h.catchUp()
	for name, text := range map[string]string{"retyped": "CONCAT_WS(' ', id, v)", "renamed": "CONCAT_WS(' ', id, w)", "dropped": "id", "added": "CONCAT_WS(' ', id, v, n)", "plain": "CONCAT_WS(' ', id, v)"} {
		h.until("table "+name+" as it is", func() bool { return h.differences(name, text) == nil })
	}
	shapes := map[string][]string{}
	for _, c := range h.changes {
		var shape []string
		for _, column := range c.Table.Columns {
			shape = append(shape, column.Name+" "+column.Type)
		}
		text, seen := strings.Join(shape, ", "), shapes[c.Table.Name]
		if i := slices.Index(seen, text); i < 0 {
			shapes[c.Table.Name] = append(seen, text)
		} else if i < len(seen)-1 {
			h.t.Errorf("a change of table %s with %s came behind one with %s", c.Table.Name, text, seen[len(seen)-1])
		}
	}
}

// Tables that are altered while the first snapshot is taken come right by themselves.
func TestAltersDuringTheFirstSnapshot(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "*", alteredSetup("varchar(9)")...) // of an integer, the ends are read first, which keeps others from altering the table
	h.config.SnapshotWorkers = 1                           // which waits with the rows of the first table until they are read
	h.open()
	for _, statements := range alteredTables {
		h.exec(statements...)
	}
	h.wantAltered()
}

// So do those that were read when a crash ended the snapshot, and are altered until it goes on.
func TestAltersWhileAnEndedSnapshotWaits(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "*", alteredSetup("int")...)
	h.config.SnapshotWorkers = 1
	h.open()
	h.until("the rows of all tables but one", func() bool { return len(h.changes) >= 1+2*len(alteredTables) })
	h.close()
	for _, statements := range alteredTables {
		h.exec(statements...)
	}
	h.open()
	h.wantAltered()
}

// And a table that is read again while the stream has not come to what was done to it.
func TestAltersBeforeAResync(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "*", alteredSetup("int")...)
	h.open()
	h.catchUp()
	for name, statements := range alteredTables {
		h.exec(statements...)
		if err := h.source.(connectors.Resyncer).Resync(t.Context(), h.name+"."+name); err != nil {
			t.Fatal(err)
		}
	}
	h.wantAltered()
}

// Where the catalog has another key than the stream knows, what was handed over goes before the version with that key comes: in
// a target the rows from before may not fit it.
func TestRowsGoBeforeTheirKeyChanges(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(*harness){
		"in the middle of a resync": func(h *harness) {
			if err := h.source.(connectors.Resyncer).Resync(t.Context(), h.name+".t"); err != nil {
				t.Fatal(err)
			}
			h.until("some of the rows again", func() bool {
				p, err := parsePosition(h.mark)
				return err == nil && p.Snapshot != nil && p.Snapshot.begun(tableName{h.name, "t"})
			})
			h.close()
		},
		"left out for a while": func(h *harness) {
			h.close()
			h.config.Tables[0].Name = h.name + ".other"
			h.open()
			h.exec("DELETE FROM t WHERE id <= 10", "INSERT INTO t VALUES (1000, 7)", "INSERT INTO other VALUES (2)")
			h.untilMore(1)
			h.close()
			h.config.Tables[0].Name = h.name + ".*"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, "*", "CREATE TABLE t (id varchar(9) PRIMARY KEY, a int NOT NULL)", "CREATE TABLE other (id int PRIMARY KEY)",
				"INSERT INTO t SELECT seq, 7 FROM seq_1_to_300", "INSERT INTO other VALUES (1)")
			h.env.Limits.BatchRows, h.config.SnapshotChunk = 10, 10
			h.open()
			h.catchUp()
			leave(h)
			h.exec("UPDATE t SET a = id", "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (a)")
			h.open()
			h.catchUp()
			h.until("the rows under their new key", func() bool {
				last := h.changes[len(h.changes)-1].Table
				return last.Columns[last.Key[0]].Name == "a" && slices.Equal(h.replica("t"), h.rowsOf("t"))
			})
			emptied, rekeyed := false, false
			for _, c := range h.changes {
				if c.Table == nil || c.Table.Name != "t" {
					continue
				}
				rekeyed = rekeyed || c.Table.Columns[c.Table.Key[0]].Name == "a"
				if emptied = emptied || c.Op == connectors.Truncate; rekeyed && !emptied {
					t.Fatal("the table has another key while its rows from before are there")
				}
				if c.Op == connectors.Truncate && rekeyed {
					t.Fatal("the rows go with the new key, which a target has to give them first")
				}
			}
			if !emptied || !rekeyed {
				t.Errorf("emptied: %v, with another key: %v", emptied, rekeyed)
			}
		})
	}
}
