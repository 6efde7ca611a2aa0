package mysql

import (
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/trunkline/trunkline/connectors/conformance"
	"github.com/trunkline/trunkline/connectors/mysql/localserver"
)

// F57: one TLS mode holds for every connection of a source, those of the dump too, nothing falls back to plain text, and
// names are checked when asked for.
func TestTLSModeHoldsForEveryConnection(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "trunkline-tls-") // t.TempDir is closed to the server's user
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	cert, key := filepath.Join(dir, "server.crt"), filepath.Join(dir, "server.key")
	certText, keyText := conformance.Certificate(t, "other.example")
	for path, text := range map[string]string{cert: certText, key: keyText} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil { // the server may run as another user
			t.Fatal(err)
		}
	}
	plain := localserver.StartForTest(t, localserver.Options{Unsafe: true, Settings: map[string]string{"skip-ssl": ""}})
	if _, err := plain.CreateDatabase(t.Context(), "plain"); err != nil {
		t.Fatal(err)
	}
	p := harnessOn(t, plain, "plain", "t", "CREATE TABLE t (id int PRIMARY KEY)")
	p.config.TLS = "require"
	if err := p.tryOpen(); err == nil || !strings.Contains(err.Error(), "TLS") {
		t.Errorf("require against a plain server: %v", err)
	}
	server := localserver.StartForTest(t, localserver.Options{Unsafe: true, Settings: map[string]string{"ssl-cert": cert, "ssl-key": key}})
	if _, err := server.CreateDatabase(t.Context(), "secure"); err != nil {
		t.Fatal(err)
	}
	h := harnessOn(t, server, "secure", "t", "CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
	u, err := url.Parse(h.config.DSN)
	if err != nil {
		t.Fatal(err)
	}
	proxy := newTLSProxy(t, u.Host)
	u.Host = proxy.address
	h.config.DSN = u.String()
	h.config.SSLRootCert, h.config.TLS = cert, "verify-full"
	if err := h.tryOpen(); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a wrong name: %v", err)
	}
	for _, mode := range []string{"verify-ca", "require", "disable"} {
		h.config.TLS = mode
		if mode == "disable" {
			h.config.SSLRootCert = ""
		}
		h.mark = nil // so that it reads the table and the binary log
		proxy.seen()
		h.open()
		h.catchUp()
		if plain, secure := proxy.seen(); mode == "disable" && secure != 0 || mode != "disable" && plain != 0 || plain+secure < 2 {
			t.Errorf("%s: %d connections with TLS, %d without", mode, secure, plain)
		}
		h.close()
	}
	h.config.TLS = "verify_full"
	if err := h.config.Validate(); err == nil || !strings.Contains(err.Error(), "verify-full") {
		t.Errorf("a misspelt mode: %v", err)
	}
}

// tlsProxy stands before a server and notes of each connection whether its client asks for TLS before it says anything else.
type tlsProxy struct {
	address string
	mu      sync.Mutex
	plain   int
	secure  int
	conns   []net.Conn
}

func newTLSProxy(t *testing.T, server string) *tlsProxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &tlsProxy{address: listener.Addr().String()}
	var open sync.WaitGroup
	open.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			upstream, err := net.Dial("tcp", server)
			if err != nil {
				client.Close()
				continue
			}
			p.mu.Lock()
			p.conns = append(p.conns, client, upstream)
			p.mu.Unlock()
			open.Go(func() {
				_, _ = io.Copy(client, upstream) // the end of one side is the end of both
				client.Close()
			})
			open.Go(func() {
				p.serve(client, upstream)
				upstream.Close()
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		p.mu.Lock()
		for _, c := range p.conns {
			c.Close()
		}
		p.mu.Unlock()
		open.Wait()
	})
	return p
}

// serve looks at the first packet of a client: its capabilities stand behind the header of four bytes, and 0x800 is TLS.
func (p *tlsProxy) serve(client, upstream net.Conn) {
	var head [8]byte
	if _, err := io.ReadFull(client, head[:]); err != nil {
		return
	}
	p.mu.Lock()
	if binary.LittleEndian.Uint32(head[4:])&0x800 != 0 {
		p.secure++
	} else {
		p.plain++
	}
	p.mu.Unlock()
	if _, err := upstream.Write(head[:]); err == nil {
		_, _ = io.Copy(upstream, client)
	}
}

// seen returns the connections since the last call.
func (p *tlsProxy) seen() (plain, secure int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	plain, secure = p.plain, p.secure
	p.plain, p.secure = 0, 0
	return plain, secure
}
