package mysql

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/trunkline/trunkline/connectors"
)

// doltServer starts Dolt, a server of MySQL 8's dialect and replication protocol that is not MySQL, and returns the URL of
// its database shop. It takes eight minutes to build, so only a machine on which scripts/dolt-server has run has it.
func doltServer(t *testing.T) string {
	t.Helper()
	file := os.Getenv("TRUNKLINE_DOLT")
	for _, dir := range []string{"/usr/local/lib/trunkline", filepath.Join(os.Getenv("HOME"), ".cache", "trunkline")} {
		if _, err := os.Stat(filepath.Join(dir, "dolt")); file == "" && err == nil {
			file = filepath.Join(dir, "dolt")
		}
	}
	if file == "" {
		t.Skip("Dolt is not on this machine; scripts/dolt-server builds it, in eight minutes of one core")
	}
	dir := t.TempDir()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	url := fmt.Sprintf("mysql://root@127.0.0.1:%d/", port)
	start := func() (stop func()) {
		var out bytes.Buffer
		cmd := exec.Command(file, "sql-server", "--host", "127.0.0.1", "--port", strconv.Itoa(port), "--data-dir", dir)
		cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &out
		cmd.Env = append(os.Environ(), "HOME="+dir, "DOLT_ROOT_PATH="+dir, "DOLT_DISABLE_EVENT_FLUSH=true")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		stop = func() {
			cmd.Process.Kill()
			cmd.Wait()
		}
		for deadline := time.Now().Add(2 * patience); ; time.Sleep(20 * time.Millisecond) {
			conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
			if err == nil {
				conn.Close()
				return stop
			}
			if time.Now().After(deadline) {
				stop()
				t.Fatalf("Dolt does not answer: %s", out.String())
			}
		}
	}
	stop := start()
	doltExec(t, url, "CREATE DATABASE shop", "SET @@PERSIST.log_bin = 1", "SET @@PERSIST.gtid_mode = 'ON'", "SET @@PERSIST.enforce_gtid_consistency = 'ON'", "SET @@PERSIST.server_id = 7")
	stop() // the settings count from the next start on
	t.Cleanup(start())
	return url + "shop"
}

func doltExec(t *testing.T, url string, statements ...string) {
	t.Helper()
	e, err := address{dsn: url}.endpoint()
	if err != nil {
		t.Fatal(err)
	}
	db, err := e.pool()
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// TestDolt reads a snapshot, the binary log by GTID over a restart of the source, and by a cursor.
func TestDolt(t *testing.T) {
	t.Parallel()
	url := doltServer(t)
	h := &harness{t: t, name: "shop", config: DefaultSourceConfig(), env: connectors.NewEnv("shop")}
	h.config.DSN, h.config.Heartbeat, h.config.Tables = url, 100*time.Millisecond, []connectors.TableSpec{{Name: "shop.item"}}
	h.env.Dir, h.env.Report = t.TempDir(), func(connectors.Report) {}
	config, err := driver.ParseDSN(strings.NewReplacer("mysql://root@", "root@tcp(", "/shop", ")/shop").Replace(url))
	if err != nil {
		t.Fatal(err)
	}
	connector, err := driver.NewConnector(config)
	if err != nil {
		t.Fatal(err)
	}
	h.openPool(connector)
	t.Cleanup(func() { h.close(); h.conn.Close(); h.pool.Close() })
	h.exec("CREATE TABLE item (id bigint unsigned PRIMARY KEY, name varchar(20), price decimal(10,2), day date, doc json, at datetime(6))",
		`INSERT INTO item VALUES (18446744073709551615, 'Zoë', 1.50, '2026-01-30', '{"b": 1, "a": [null, "x"]}', '2026-01-30 12:34:56.123456')`)
	h.open()
	h.untilCount(1)
	h.exec(`INSERT INTO item (id, doc) VALUES (1, '{"b": 1.5, "a": [null, "x", true], "c": {"d": 7}}'), (2, NULL)`, "UPDATE item SET price = 2 WHERE id = 1")
	h.untilCount(4)
	h.close()
	h.exec("DELETE FROM item WHERE id = 2")
	h.open()
	h.untilCount(5)
	h.close()
	const doc = `{"a": [null, "x", true], "b": 1.5, "c": {"d": 7.0}}` // as MySQL prints it; Dolt writes every number as a double
	h.want(`r item -> [18446744073709551615 Zoë 1.50 2026-01-30 {"a":[null,"x"],"b":1} 2026-01-30T12:34:56.123456]`, "c item -> [1 null null null "+doc+" null]",
		"c item -> [2 null null null null null]", "u item [1 null null null "+doc+" null] -> [1 null 2.00 null "+doc+" null]", "d item [2 null null null null null]")

	h.mark, h.changes = nil, nil
	h.config.Mode, h.config.Tables[0].Cursor, h.config.margin, h.config.Settle = modeTimestamp, "id", time.Millisecond, time.Millisecond // it lists no transactions
	h.extractOnce()
	if len(h.changes) != 2 {
		t.Errorf("by cursor: %s", h.texts())
	}
}
