package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"modernc.org/sqlite"

	"github.com/trunkline/trunkline/cmd/trunkline/command"
	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/memory"
)

// patience is how long a script waits for a condition.
const patience = time.Minute

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"trunkline": main, "stuck": stuck})
}

// stuck is a program with connectors of its own: a source with one row, and a sink whose writes hang for ever.
func stuck() {
	space := memory.NewSpace()
	table := &connectors.Table{Name: "t", Key: []int{0}, Columns: []connectors.Column{{Name: "id", Kind: connectors.Int}}}
	space.Feed("shop").Append(connectors.Change{Op: connectors.Insert, Table: table, Time: time.Now(), After: []connectors.Value{connectors.IntValue(1)}})
	space.Store("copy").Block()
	os.Exit(command.Main(command.Options{Connectors: []connectors.Connector{space.Connector()}}))
}

// TestScripts runs the program as a user does. Each script has a folder of its own, a free port in $HTTP and a taken one in $TAKEN.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			env.Setenv("HTTP", listener.Addr().String())
			env.Setenv("HOME", env.WorkDir)
			taken, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			env.Setenv("TAKEN", taken.Addr().String())
			env.Defer(func() { taken.Close() })
			return listener.Close()
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"sql": runSQL, "get": get, "until": until, "exitcode": exitCode, "lines": lines, "untilsql": untilSQL,
		},
		RequireExplicitExec: true,
	})
}

type sqliteName string

func (n sqliteName) Connect(context.Context) (driver.Conn, error) {
	return (&sqlite.Driver{}).Open(string(n))
}
func (n sqliteName) Driver() driver.Driver { return &sqlite.Driver{} }

// runSQL executes a statement in a SQLite file; of a query it prints the first column: sql FILE STATEMENT.
func runSQL(ts *testscript.TestScript, neg bool, args []string) {
	fmt.Fprint(ts.Stdout(), query(ts, args[0], args[1]))
}

func query(ts *testscript.TestScript, file, statement string) string {
	db := sql.OpenDB(sqliteName("file:" + ts.MkAbs(file) + "?_pragma=busy_timeout(10000)"))
	defer db.Close()
	rows, err := db.Query(statement)
	ts.Check(err)
	defer rows.Close()
	var out strings.Builder
	for rows.Next() {
		var value string
		ts.Check(rows.Scan(&value))
		out.WriteString(value + "\n")
	}
	ts.Check(rows.Err())
	return out.String()
}

// untilSQL waits until a query has a result: untilsql FILE QUERY VALUE.
func untilSQL(ts *testscript.TestScript, neg bool, args []string) {
	deadline := time.Now().Add(patience)
	for query(ts, args[0], args[1]) != args[2]+"\n" {
		if time.Now().After(deadline) {
			ts.Fatalf("%s never gives %s", args[1], args[2])
		}
		time.Sleep(10 * time.Millisecond) // between two looks at the condition
	}
}

// request sends METHOD to a path of the daemon and returns status and body.
func request(ts *testscript.TestScript, method, path string) (int, string) {
	r, err := http.NewRequest(method, "http://"+ts.Getenv("HTTP")+path, nil)
	ts.Check(err)
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(r)
	if err != nil {
		return 0, "" // nobody listens yet
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	ts.Check(err)
	return answer.StatusCode, string(text)
}

// get prints the answer to a request: get METHOD PATH.
func get(ts *testscript.TestScript, neg bool, args []string) {
	code, text := request(ts, args[0], args[1])
	fmt.Fprint(ts.Stdout(), text)
	if (code/100 == 2) == neg {
		ts.Fatalf("%s %s: %d: %s", args[0], args[1], code, text)
	}
}

// until waits for a text in the answer to GET: until PATH TEXT.
func until(ts *testscript.TestScript, neg bool, args []string) {
	deadline := time.Now().Add(patience)
	for {
		_, text := request(ts, "GET", args[0])
		if strings.Contains(text, args[1]) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s never has %q: %s", args[0], args[1], text)
		}
		time.Sleep(10 * time.Millisecond) // between two looks at the condition
	}
}

// exitCode runs the program and checks its exit code: exitcode N trunkline ARGS….
func exitCode(ts *testscript.TestScript, neg bool, args []string) {
	err := ts.Exec(args[1], args[2:]...)
	code := "0"
	if err != nil {
		code = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if code != args[0] {
		ts.Fatalf("exit code %s, want %s", code, args[0])
	}
}

// lines counts the lines of the finished files in a folder: lines DIR N.
func lines(ts *testscript.TestScript, neg bool, args []string) {
	n := 0
	ts.Check(filepath.WalkDir(ts.MkAbs(args[0]), func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".jsonl" {
			return err
		}
		text, err := os.ReadFile(path)
		n += strings.Count(string(text), "\n")
		return err
	}))
	if fmt.Sprint(n) != args[1] {
		ts.Fatalf("%s has %d lines, want %s", args[0], n, args[1])
	}
}
