package secure_test

import (
	"crypto/tls"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/trunkline/trunkline/connectors/secure"
)

// TestEachModeTrustsWhatItSays connects to a server whose certificate is signed by itself and names example.com.
func TestEachModeTrustsWhatItSays(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	root := filepath.Join(t.TempDir(), "root.pem")
	if err := os.WriteFile(root, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		mode, root, host string
		ok               bool
	}{
		{"require", "", "other.org", true},
		{"verify-ca", "", "example.com", false},
		{"verify-ca", root, "other.org", true},
		{"verify-full", root, "other.org", false},
		{"verify-full", root, "example.com", true},
		{"verify-full", "", "example.com", false},
	} {
		settings := secure.TLS{TLS: c.mode, RootCert: c.root}
		config, err := settings.Config(c.host, "disable")
		if err != nil {
			t.Fatal(err)
		}
		conn, err := tls.Dial("tcp", server.Listener.Addr().String(), config)
		if err == nil {
			conn.Close()
		}
		if (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if config, err := (&secure.TLS{}).Config("x", "disable"); config != nil || err != nil {
		t.Errorf("no TLS: %v, %v", config, err)
	}
}

func TestSettingsAreChecked(t *testing.T) {
	t.Parallel()
	for _, bad := range []secure.TLS{{TLS: "yes"}, {TLS: "require", Cert: "a"}, {TLS: "require", Key: "a"}} {
		if bad.Validate() == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}
