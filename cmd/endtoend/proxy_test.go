package endtoend

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
)

// countingProxy stands between the program and the server of a source, and counts what the server hands out to those who
// read its changes.
type countingProxy struct {
	address string
	target  string
	// reader finds out from what a client sends whether it reads changes.
	reader func() streamReader

	mu      sync.Mutex
	readers int // connections that read changes, over time
	bytes   atomic.Int64
}

// streamReader is told all that one client sends, and says from when on it reads changes.
type streamReader func(sent []byte) bool

// countReads returns the DSN with the proxy in place of its server.
func countReads(t *testing.T, dsn string, reader func() streamReader) (*countingProxy, string) {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &countingProxy{address: listener.Addr().String(), target: u.Host, reader: reader}
	var open sync.WaitGroup
	open.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			open.Go(func() { p.serve(client) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		open.Wait() // the program has ended before, and its connections with it
	})
	u.Host = p.address
	return p, u.String()
}

func (p *countingProxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer server.Close()
	var reads atomic.Bool
	var both sync.WaitGroup
	both.Go(func() {
		defer server.Close()
		watch := p.reader()
		buffer := make([]byte, 64<<10)
		for {
			n, err := client.Read(buffer)
			if !reads.Load() && watch(buffer[:n]) {
				reads.Store(true)
				p.mu.Lock()
				p.readers++
				p.mu.Unlock()
			}
			if _, failed := server.Write(buffer[:n]); err != nil || failed != nil {
				return
			}
		}
	})
	both.Go(func() {
		defer client.Close()
		buffer := make([]byte, 64<<10)
		for {
			n, err := server.Read(buffer)
			if reads.Load() {
				p.bytes.Add(int64(n))
			}
			if _, failed := client.Write(buffer[:n]); err != nil || failed != nil {
				return
			}
		}
	})
	both.Wait()
}

// count returns how many connections have read changes so far, and how many bytes they got.
func (p *countingProxy) count() (readers int, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.readers, p.bytes.Load()
}

// walReader knows a client of PostgreSQL that starts to replicate.
func walReader() streamReader {
	var seen []byte
	return func(sent []byte) bool {
		if seen = append(seen, sent...); bytes.Contains(seen, []byte("START_REPLICATION")) {
			seen = nil
			return true
		}
		seen = seen[max(0, len(seen)-64):]
		return false
	}
}

// binlogReader knows a client of MySQL or MariaDB that asks for the binary log. A packet is three bytes of length, a number
// that begins at 0 with each command, and the command: 18 or 30.
func binlogReader() streamReader {
	var rest []byte
	return func(sent []byte) bool {
		rest = append(rest, sent...)
		for len(rest) >= 5 {
			length := int(binary.LittleEndian.Uint32(append(rest[:3:3], 0)))
			if rest[3] == 0 && (rest[4] == 18 || rest[4] == 30) {
				return true
			}
			if len(rest) < 4+length {
				return false
			}
			rest = rest[4+length:]
		}
		return false
	}
}

// The proxy counts from the command on that asks for changes, whatever way it is cut.
func TestCountingProxyKnowsReaders(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reader func() streamReader
		before []string
		asks   string
	}{
		"PostgreSQL": {walReader, []string{"\x00\x00\x00\x08user", "Q\x00\x00IDENTIFY_SYSTEM", "Q\x00\x00START_REP"}, "LICATION SLOT x"},
		"MariaDB":    {binlogReader, []string{"\x05\x00\x00\x01login", "\x03\x00\x00\x00\x03SQ", "\x01\x00\x00\x00\x12"}, ""},
	} {
		watch := c.reader()
		for i, sent := range c.before {
			if got := watch([]byte(sent)); got != (c.asks == "" && i == len(c.before)-1) {
				t.Errorf("%s: packet %d: %v", name, i, got)
			}
		}
		if c.asks != "" && !watch([]byte(c.asks)) {
			t.Errorf("%s: a reader is not seen", name)
		}
	}
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() {
		conn, err := server.Accept()
		if err == nil {
			_, _ = io.Copy(conn, conn)
			conn.Close()
		}
	}()
	p, dsn := countReads(t, "postgres://"+server.Addr().String()+"/x", walReader)
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, text := range []string{"not counted", "START_REPLICATION", "counted"} {
		if _, err := conn.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, make([]byte, len(text))); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	}
	if readers, n := p.count(); readers != 1 || n != int64(len("START_REPLICATIONcounted")) {
		t.Errorf("%d readers, %d bytes", readers, n)
	}
}
