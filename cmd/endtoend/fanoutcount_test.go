package endtoend

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// number reads one number.
func number(t *testing.T, list []string) int64 {
	t.Helper()
	if len(list) != 1 {
		t.Fatalf("a count is %q", list)
	}
	n, err := strconv.ParseInt(list[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// oneReading checks a count of the source's: more than once is what a restart reads again, or a second look at some rows;
// a source that each sink reads for itself counts nine.
func oneReading(t *testing.T, what string, counted, once int64) {
	t.Helper()
	t.Logf("%s: %d, once is %d", what, counted, once)
	if counted < once/2 || counted >= 2*once {
		t.Errorf("%s: the source handed out %d; reading it once is %d", what, counted, once)
	}
}

// snapshotsWereReadOnce asks the databases how many rows of the tables were read.
func (f *fan) snapshotsWereReadOnce() {
	f.t.Helper()
	read := func() int64 {
		return number(f.t, f.pg.list("SELECT (seq_tup_read + coalesce(idx_tup_fetch, 0))::text FROM pg_stat_user_tables WHERE relname = 'orders'"))
	}
	f.patiently("PostgreSQL has counted", func() bool { return read() >= fanRows })
	oneReading(f.t, "rows of PostgreSQL's snapshot", read(), fanRows)
	var n int64
	if err := f.maria.QueryRow("SELECT ROWS_READ FROM information_schema.TABLE_STATISTICS WHERE TABLE_NAME = 'invoices'").Scan(&n); err != nil {
		f.t.Fatal(err)
	}
	oneReading(f.t, "rows of MariaDB's snapshot", n, fanRows)
}

// readings counts what the sources hand out from a moment on.
type readings struct {
	f           *fan
	wal, binlog int64
	file        string
	position    int64
}

// beginToCount makes a slot of the test's own, which one reader would read.
func (f *fan) beginToCount() *readings {
	f.t.Helper()
	f.pg.exec("SELECT pg_create_logical_replication_slot('control', 'pgoutput')")
	r := &readings{f: f}
	_, r.wal = f.wal.count()
	_, r.binlog = f.binlog.count()
	r.file, r.position = f.endOfBinlog()
	return r
}

func (f *fan) endOfBinlog() (file string, position int64) {
	f.t.Helper()
	var do, ignore string
	if err := f.maria.QueryRow("SHOW MASTER STATUS").Scan(&file, &position, &do, &ignore); err != nil {
		f.t.Fatal(err)
	}
	return file, position
}

// wereOne compares what was handed out with what one reader gets.
func (r *readings) wereOne() {
	r.f.t.Helper()
	f := r.f
	const overhead = 30 // bytes around each message: 5 of CopyData, 25 of XLogData
	once := number(f.t, f.pg.list(fmt.Sprintf(`SELECT sum(length(data) + %d)::text FROM pg_logical_slot_peek_binary_changes('control', NULL, NULL,
		'proto_version', '1', 'publication_names', (SELECT quote_ident(pubname) FROM pg_publication))`, overhead)))
	readers, n := f.wal.count()
	oneReading(f.t, "bytes of WAL", n-r.wal, once)
	if slots := f.pg.list("SELECT slot_name::text FROM pg_replication_slots WHERE slot_name <> 'control'"); len(slots) != 1 {
		f.t.Errorf("slots %v, want one", slots)
	}
	f.patiently("one process of PostgreSQL sends WAL", func() bool { return len(f.pg.list("SELECT pid::text FROM pg_stat_replication")) == 1 })
	file, position := f.endOfBinlog()
	if file != r.file {
		f.t.Fatalf("the binary log went on in %s", file)
	}
	dumps, n := f.binlog.count()
	oneReading(f.t, "bytes of the binary log", n-r.binlog, position-r.position)
	f.patiently("one thread of MariaDB sends the binary log", func() bool {
		var n int
		err := f.maria.QueryRow("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog Dump%'").Scan(&n)
		return err == nil && n == 1
	})
	// Every start of the program makes one of each, and every connection that breaks one more. A sink that reads makes its own.
	starts := f.kills + 1
	if readers < starts || readers >= 3*starts || dumps < starts || dumps >= 3*starts {
		f.t.Errorf("%d connections read WAL and %d the binary log, over %d starts of the program", readers, dumps, starts)
	}
	f.databaseFileIsOpenOnce()
}

// databaseFileIsOpenOnce looks which files the program has open: that of SQLite once to read and once for a look beside it,
// however many sinks there are.
func (f *fan) databaseFileIsOpenOnce() {
	f.t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", f.l.cmd.Process.Pid)
	list, err := os.ReadDir(dir)
	if err != nil {
		f.t.Log("the system does not tell which files are open")
		return
	}
	n := 0
	for _, fd := range list {
		if path, err := os.Readlink(filepath.Join(dir, fd.Name())); err == nil && filepath.Base(path) == "tills.db" {
			n++
		}
	}
	if n < 1 || n > 2 {
		f.t.Errorf("SQLite's file is open %d times", n)
	}
}

// logHasEachOnce checks what came exactly once to the Kafka cluster: each record of the log, and each version of each row.
// SQLite counts no reads; that no version was read twice shows here.
func (f *fan) logHasEachOnce() {
	f.t.Helper()
	f.broker.mu.Lock()
	defer f.broker.mu.Unlock()
	for what, seen := range map[string]map[string]int{"record": f.broker.places, "version": f.broker.versions} {
		f.t.Logf("%d %ss", len(seen), what)
		for name, n := range seen {
			if n != 1 {
				f.t.Errorf("%s %s came %d times", what, name, n)
			}
		}
	}
}
