package postgres

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/conformance"
	"github.com/trunkline/trunkline/connectors/postgres/localserver"
)

// F57: one TLS mode holds for every connection, nothing falls back to plain text, and names are checked when asked for.
func TestTLSModeHoldsForEveryConnection(t *testing.T) {
	t.Parallel()
	server := localserver.StartForTest(t, localserver.Options{Unsafe: true})
	h := harnessOn(t, server.DSN("postgres"), "secure", "public.t", `CREATE TABLE t (id int PRIMARY KEY)`, `INSERT INTO t VALUES (1)`)
	h.config.DSN = strings.Replace(h.dsn, "sslmode=disable", "", 1)
	h.config.TLS = "require"
	h.wantFatal("plain server", "the server has no TLS")
	cert, key := conformance.Certificate(t, "other.example")
	for file, text := range map[string]string{"server.crt": cert, "server.key": key} { // written by the server, so that it owns them
		h.exec(fmt.Sprintf("COPY (SELECT unnest(string_to_array('%s', E'\\n'))) TO PROGRAM 'umask 077; cat > %s'", text, file))
	}
	h.exec(`ALTER SYSTEM SET ssl = on`, `SELECT pg_reload_conf()`)
	h.until0(`SELECT (current_setting('ssl') = 'on')::text`)
	root := filepath.Join(t.TempDir(), "root.crt")
	if err := os.WriteFile(root, []byte(cert), 0o600); err != nil {
		t.Fatal(err)
	}
	h.config.SSLRootCert, h.config.TLS = root, "verify-full"
	h.wantFatal("wrong name", "certificate")
	for _, mode := range []string{"verify-ca", "require", "disable"} {
		h.config.TLS = mode
		if mode == "disable" {
			h.config.SSLRootCert = ""
		}
		h.open()
		h.catchUp()
		encrypted, all := "true", h.query(`SELECT count(*)::text FROM pg_stat_activity WHERE application_name LIKE 'trunkline %'`)
		if mode == "disable" {
			encrypted = "false"
		}
		if n := h.query(`SELECT count(*)::text FROM pg_stat_activity JOIN pg_stat_ssl USING (pid) WHERE application_name LIKE 'trunkline %' AND ssl = ` + encrypted); n != all || n == "0" {
			t.Errorf("%s: %s of %s connections have TLS %s", mode, n, all, encrypted)
		}
	}
	h.exec(`INSERT INTO t VALUES (2)`)
	h.untilCount(2)
	h.config.TLS = "verify_full"
	if err := h.tryOpen(); err == nil || errors.Is(err, connectors.ErrFatal) || !strings.Contains(err.Error(), "verify-full") {
		t.Errorf("misspelt mode: %v", err)
	}
}
