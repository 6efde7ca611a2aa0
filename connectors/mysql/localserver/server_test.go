package localserver

import (
	"context"
	"os"
	"testing"
)

func TestServerKeepsItsDataOverStopAndKill(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "trunkline-maria-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	s, err := Start(ctx, Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	if _, err := s.CreateDatabase(ctx, "Shop x"); err != nil {
		t.Fatal(err)
	}
	db, err := s.Open("Shop x", "")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, statement := range []string{"CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (7)"} {
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	port := s.Port()
	for name, end := range map[string]func() error{"stop": s.Stop, "kill": s.Kill} {
		if err := end(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := db.Ping(); err == nil {
			t.Errorf("%s: the server still answers", name)
		}
		if err := s.Restart(ctx); err != nil {
			t.Fatalf("restart after %s: %v", name, err)
		}
		var id int
		if err := db.QueryRow("SELECT id FROM t").Scan(&id); err != nil || id != 7 || s.Port() != port {
			t.Errorf("after %s: %d %v", name, id, err)
		}
	}
	if _, err := os.Stat(dir); err != nil {
		t.Error("Stop removed a folder that it was given")
	}
}

func TestForTestGivesEachTestItsOwnDatabase(t *testing.T) {
	t.Parallel()
	a, b := ForTest(t), ForTest(t)
	if a.Name == b.Name || a.Server != b.Server {
		t.Errorf("databases %q and %q", a.Name, b.Name)
	}
}

func TestFindNamesWhatToInstall(t *testing.T) {
	t.Setenv(BinDirVar, t.TempDir())
	if _, err := Find(); err == nil {
		t.Error("an empty folder has a server")
	}
}
