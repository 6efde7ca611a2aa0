package conformance

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// Proxy passes TCP connections on to a server, and can let them fall silent as a broken network does: bytes vanish in both
// directions, and nobody hears of it. A connection that has lost bytes never passes any again. It may be used by any goroutine.
type Proxy struct {
	listener net.Listener
	to       string
	silent   atomic.Bool

	mu     sync.Mutex
	conns  []net.Conn // guarded by mu
	closed bool       // guarded by mu
}

// NewProxy listens on the loopback interface until the test ends, and passes on to an address.
func NewProxy(t testing.TB, to string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: l, to: to}
	var done sync.WaitGroup
	done.Go(func() { p.accept(&done) })
	t.Cleanup(func() {
		l.Close()
		p.mu.Lock()
		p.closed = true
		for _, c := range p.conns {
			c.Close()
		}
		p.mu.Unlock()
		done.Wait()
	})
	return p
}

// Addr is where it listens.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Silence lets what connections carry vanish from now on, or lets new ones pass again.
func (p *Proxy) Silence(on bool) { p.silent.Store(on) }

func (p *Proxy) accept(done *sync.WaitGroup) {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.to)
		if err != nil {
			client.Close()
			continue
		}
		if !p.keep(client, server) {
			return
		}
		lost := &atomic.Bool{}
		done.Go(func() { p.pass(client, server, lost) })
		done.Go(func() { p.pass(server, client, lost) })
	}
}

// keep notes the two ends of a connection for the end of the test, unless that has come.
func (p *Proxy) keep(client, server net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		client.Close()
		server.Close()
		return false
	}
	p.conns = append(p.conns, client, server)
	return true
}

// pass carries one direction until either end closes. The other end of a connection that has lost bytes does not hear of it.
func (p *Proxy) pass(from, to net.Conn, lost *atomic.Bool) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if p.silent.Load() {
			lost.Store(true)
		}
		if lost.Load() {
			if err != nil {
				return
			}
			continue
		}
		if _, failed := to.Write(buf[:n]); failed != nil || err != nil {
			to.Close()
			return
		}
	}
}
