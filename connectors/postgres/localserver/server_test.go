package localserver

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// childVar makes the test binary start a server, print where it is, and wait to be killed.
const childVar = "TRUNKLINE_TEST_LOCALSERVER_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVar) != "" {
		s, err := Start(context.Background(), Options{Unsafe: true})
		if err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		fmt.Println(s.dir, s.DSN("postgres"))
		select {}
	}
	os.Exit(m.Run())
}

func TestServer(t *testing.T) {
	t.Parallel()
	parent, err := os.MkdirTemp("", "localserver-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(parent)
	os.Chmod(parent, 0o755) // as root, the server's user has to enter it; t.TempDir is closed to others
	dir := filepath.Join(parent, "server")
	s := StartForTest(t, Options{Dir: dir, Unsafe: true, Settings: map[string]string{"work_mem": "5MB"}})
	ctx := t.Context()
	dsn, err := s.CreateDatabase(ctx, "Shop x")
	if err != nil {
		t.Fatal(err)
	}
	query := func(dsn, sql string) string {
		t.Helper()
		conn, err := pgx.Connect(ctx, dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(ctx)
		var out string
		if err := conn.QueryRow(ctx, sql).Scan(&out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	for sql, want := range map[string]string{"SHOW wal_level": "logical", "SHOW work_mem": "5MB", "SELECT current_database()": "Shop x", "SHOW server_encoding": "UTF8"} {
		if got := query(dsn, sql); got != want {
			t.Errorf("%s: %q, want %q", sql, got, want)
		}
	}
	if got := query(s.SocketDSN("Shop x"), "SELECT coalesce(inet_server_addr()::text, 'socket')"); got != "socket" {
		t.Errorf("socket connection came over %s", got)
	}
	query(dsn, "WITH x AS (SELECT pg_create_logical_replication_slot('held', 'pgoutput')) SELECT 'done' FROM x")
	before := s.DSN("Shop x")
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := pgx.Connect(ctx, dsn); err == nil {
		t.Fatal("a killed server answers")
	}
	if err := s.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	if s.DSN("Shop x") != before {
		t.Error("the port changed over a restart")
	}
	if got := query(dsn, "SELECT slot_name::text FROM pg_replication_slots"); got != "held" {
		t.Errorf("slot after recovery: %q", got)
	}
	if err := s.DropDatabase(ctx, "Shop x"); err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Error("Stop removed a folder that it was given")
	}
}

func TestServerEndsWithItsKilledParent(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVar+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	dir, dsn, ok := strings.Cut(strings.TrimSpace(line), " ")
	if err != nil || !ok || dir == "error:" {
		t.Fatalf("start a server in a child: %q %v", line, err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	deadline := time.Now().Add(20 * time.Second)
	for {
		conn, dialErr := pgx.Connect(t.Context(), dsn)
		if dialErr == nil {
			conn.Close(t.Context())
		}
		_, statErr := os.Stat(dir)
		if dialErr != nil && os.IsNotExist(statErr) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after the parent was killed: server gone %v, folder gone %v", dialErr != nil, os.IsNotExist(statErr))
		}
		time.Sleep(probeEvery)
	}
}

func TestFindNamesWhatToInstall(t *testing.T) {
	t.Setenv(BinDirVar, t.TempDir())
	if _, err := Find(); err == nil || !strings.Contains(err.Error(), BinDirVar) {
		t.Errorf("an empty folder in $%s: %v", BinDirVar, err)
	}
}

func TestForTestGivesEachTestItsOwnDatabase(t *testing.T) {
	t.Parallel()
	a, b := ForTest(t), ForTest(t)
	if a.Name == b.Name || a.Server != b.Server {
		t.Errorf("databases %q and %q", a.Name, b.Name)
	}
}
