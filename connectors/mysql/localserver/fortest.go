package localserver

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// TB is the part of testing.TB that is used here; the package is not for tests alone, so it does not import testing.
type TB interface {
	Helper()
	Name() string
	Fatalf(format string, args ...any)
	Cleanup(func())
}

// Database is an empty database on the test binary's shared server.
type Database struct {
	*Server
	Name string
	URL  string // its connection string over TCP
}

// sharedServer is one that all tests of the binary use.
type sharedServer struct {
	once   sync.Once
	server *Server
	err    error
}

var (
	sharedMariaDB, sharedMySQL sharedServer
	lastDatabase               atomic.Int64
)

// ForTest returns an empty database for the test, on a server that all tests of the binary share and that ends with the
// binary. The database is dropped when the test ends. A machine without MariaDB fails the test and says what to
// install: a test that silently does not run proves nothing. Do not stop, kill or restart this server; a test
// that needs that uses StartForTest.
func ForTest(t TB) *Database {
	t.Helper()
	return sharedMariaDB.database(t, Find)
}

// MySQLForTest is ForTest with a MySQL server.
func MySQLForTest(t TB) *Database {
	t.Helper()
	return sharedMySQL.database(t, FindMySQL)
}

func (shared *sharedServer) database(t TB, find func() (Binaries, error)) *Database {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*startTimeout)
	defer cancel()
	shared.once.Do(func() {
		var b Binaries
		if b, shared.err = find(); shared.err == nil {
			shared.server, shared.err = Start(ctx, Options{Unsafe: true, Binaries: b})
		}
	})
	if shared.err != nil {
		t.Fatalf("%v", shared.err)
	}
	name := fmt.Sprintf("t%d_%s", lastDatabase.Add(1), databaseName(t.Name()))
	dsn, err := shared.server.CreateDatabase(ctx, name)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := shared.server.DropDatabase(ctx, name); err != nil {
			t.Fatalf("%v", err)
		}
	})
	return &Database{Server: shared.server, Name: name, URL: dsn}
}

// StartForTest returns a server of the test's own, which it may kill and restart. It ends with the test.
func StartForTest(t TB, opts Options) *Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*startTimeout)
	defer cancel()
	s, err := Start(ctx, opts)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() { s.Stop() })
	return s
}

// databaseName makes a test's name fit for a database: at most 40 letters, digits and underscores.
func databaseName(test string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToLower(test))
	return name[:min(len(name), 40)]
}
