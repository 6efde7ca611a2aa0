package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// errProtocol says that the peer's bytes are no request; the connection is closed.
var errProtocol = errors.New("not a request of the protocol")

// maxPending is how many requests of a connection may wait for their answer.
const maxPending = 8

// conn is one connection. One goroutine reads requests and hands them to their handlers in order; another, which starts
// with the first request, finishes and writes the answers in the same order. So a client may send the next batches
// while the first is on its way to the disk.
type conn struct {
	s       *Server
	net     net.Conn
	done    chan struct{} // closed when reading has ended
	pending chan pending
	session session
	buffer  []byte // of requests; what handlers keep of one they copy
	charged int    // of the budget, for buffer
	asked   bool   // a whole request came; until then the peer may be none of Kafka's clients
}

// request is one request.
type request struct {
	c        *conn
	key      int16
	version  int16
	clientID string
	message  kmsg.Request
	body     []byte // the message before it was decoded
}

// answer is what a handler returns. Either it has the response, or later is called for it by the goroutine that writes;
// later may wait, as long as it gives up when the connection is done or the server closes.
type answer struct {
	response kmsg.Response
	later    func() output
	silent   bool   // nothing is written: a produce request that wants no answer
	raw      []byte // written in a frame without a header
	last     bool   // the connection is closed behind it
}

// output is a response and, for fetches, the stored bytes that belong into it, in order.
type output struct {
	response kmsg.Response
	records  []stored
}

func now(r kmsg.Response) answer { return answer{response: r} }

func later(f func() output) answer { return answer{later: f} }

// pending is an answer on its way.
type pending struct {
	answer
	correlation int32
	flexible    bool
	cost        int64 // of the budget, until the answer is written
}

func newConn(s *Server, raw net.Conn) *conn {
	return &conn{s: s, net: raw, done: make(chan struct{}), pending: make(chan pending, maxPending)}
}

// run serves the connection until the peer goes or breaks the protocol.
func (c *conn) run() {
	var writing sync.WaitGroup
	started := false
	for {
		r, p, err := c.next()
		if err == nil && !started {
			started, c.asked = true, true
			writing.Go(c.write)
		}
		if err == nil {
			p.answer = c.s.dispatch(r)
			c.pending <- p
			continue
		}
		if errors.Is(err, errProtocol) {
			c.s.logger.Debug("closing a connection", "client", c.net.RemoteAddr().String(), "error", err)
		}
		break
	}
	c.shrink()
	close(c.done)
	close(c.pending)
	writing.Wait()
	c.net.Close()
}

// next reads one request.
func (c *conn) next() (*request, pending, error) {
	frame, err := c.frame()
	if err != nil {
		return nil, pending{}, err
	}
	if c.session.rawTokens() {
		return &request{c: c, key: rawToken, body: frame}, pending{}, nil
	}
	cost := min(int64(len(frame))*decodedRatio, c.s.o.MaxBufferedBytes/2)
	if isProduce := frame[0] == 0 && frame[1] == 0; isProduce || len(frame) < uncounted {
		cost = 0
	}
	if !c.s.budget.take(cost, c.s.closing, c.s.o.ReceiveTimeout) {
		return nil, pending{}, os.ErrDeadlineExceeded
	}
	r, p, err := c.decode(frame)
	if err != nil {
		c.s.budget.give(cost)
	}
	p.cost = cost
	return r, p, err
}

const (
	// decodedRatio is about how much larger a message is than its bytes, decoded and with its answer: what a request
	// other than produce counts against the budget until the answer has left.
	decodedRatio = 32
	// uncounted is the size below which that is not worth the counting.
	uncounted = 1 << 10
)

// frame reads a length and that many bytes into the connection's buffer. The buffer grows as bytes arrive, and only as
// far as the budget of all connections allows.
func (c *conn) frame() ([]byte, error) {
	var head [8]byte // the length, and with it the key, which decides about the limit
	timeout := c.s.o.IdleTimeout
	if !c.asked || !c.session.known(c.s) {
		timeout = min(timeout, c.s.o.LoginTimeout)
	}
	c.shrink()
	if err := c.net.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(c.net, head[:4]); err != nil {
		return nil, err
	}
	size := int(int32(binary.BigEndian.Uint32(head[:])))
	if size < 4 || size > c.s.o.MaxRequestBytes {
		return nil, fmt.Errorf("%w: a request of %d bytes", errProtocol, size)
	}
	if err := c.net.SetReadDeadline(time.Now().Add(c.s.o.ReceiveTimeout)); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(c.net, head[4:]); err != nil {
		return nil, err
	}
	if limit := c.limit(int16(binary.BigEndian.Uint16(head[4:]))); size > limit {
		return nil, fmt.Errorf("%w: a request of %d bytes, the limit is %d", errProtocol, size, limit)
	}
	if err := c.fill(head[4:], size); err != nil {
		return nil, err
	}
	return c.buffer, nil
}

func (c *conn) limit(key int16) int {
	switch {
	case !c.session.known(c.s):
		return min(c.s.o.MaxFirstBytes, c.s.o.MaxRequestBytes)
	case key == 0:
		return c.s.o.MaxRequestBytes
	}
	return min(c.s.o.MaxControlBytes, c.s.o.MaxRequestBytes)
}

const (
	freeBytes = 64 << 10 // of a request that are not counted against the budget, and what an idle connection may keep
	poolBytes = 1 << 20  // buffers from here on are used again by other connections
	maxPooled = 8 << 20
	growth    = 8 // how much larger each next buffer of one request is
)

// fill reads a request of size bytes that begins with head.
func (c *conn) fill(head []byte, size int) error {
	c.buffer = append(c.buffer, head...)
	for step := freeBytes; ; step *= growth {
		want := min(size, step)
		if err := c.grow(want, size); err != nil {
			return err
		}
		have := len(c.buffer)
		c.buffer = c.buffer[:want]
		if _, err := io.ReadFull(c.net, c.buffer[have:]); err != nil {
			return err
		}
		if want == size {
			return nil
		}
	}
}

// grow makes room for want bytes.
func (c *conn) grow(want, size int) error {
	if want <= cap(c.buffer) {
		return nil
	}
	room := want
	if want > freeBytes {
		room = max(want, min(poolBytes, size))
		if !c.s.budget.take(int64(room-c.charged), c.s.closing, c.s.o.ReceiveTimeout) {
			return os.ErrDeadlineExceeded
		}
		c.charged = room
	}
	old := c.buffer
	if b, ok := c.s.buffers.Get().(*[]byte); ok && cap(*b) >= room {
		c.buffer = append((*b)[:0], old...)
	} else {
		c.buffer = append(make([]byte, 0, room), old...)
	}
	return nil
}

// shrink empties the buffer; a large one goes to other connections.
func (c *conn) shrink() {
	if cap(c.buffer) > freeBytes {
		if b := c.buffer[:0]; cap(b) <= maxPooled {
			c.s.buffers.Put(&b)
		}
		c.buffer = nil
	}
	c.s.budget.give(int64(c.charged))
	c.charged = 0
	c.buffer = c.buffer[:0]
}

// decode reads the header of a request and, if its kind and version are served, the message.
func (c *conn) decode(frame []byte) (*request, pending, error) {
	b := kbin.Reader{Src: frame}
	r := &request{c: c, key: b.Int16(), version: b.Int16()}
	p := pending{correlation: b.Int32()}
	if id := b.NullableString(); id != nil {
		r.clientID = *id
	}
	if !b.Ok() {
		return nil, p, fmt.Errorf("%w: its header is cut short", errProtocol)
	}
	a, known := c.s.apis[r.key]
	switch {
	case !known:
		return nil, p, fmt.Errorf("%w: key %d", errProtocol, r.key)
	case r.key == int16(kmsg.ApiVersions) && (r.version < 0 || r.version > a.max):
		return r, p, nil
	case r.version < a.serve || r.version > a.max:
		return nil, p, fmt.Errorf("%w: key %d version %d", errProtocol, r.key, r.version)
	}
	message := kmsg.RequestForKey(r.key)
	message.SetVersion(r.version)
	if message.IsFlexible() {
		skipTags(&b)
		p.flexible = r.key != int16(kmsg.ApiVersions) // whose response never has the newer header
	}
	if !b.Ok() {
		return nil, p, fmt.Errorf("%w: its header is cut short", errProtocol)
	}
	r.body = b.Src
	if r.key == 0 {
		if err := checkProduce(r.version, r.body); err != nil {
			return nil, p, err
		}
	}
	if err := message.ReadFrom(r.body); err != nil {
		return nil, p, fmt.Errorf("%w: key %d version %d: %w", errProtocol, r.key, r.version, err)
	}
	r.message = message
	return r, p, nil
}

// skipTags passes over tagged fields without keeping them.
func skipTags(b *kbin.Reader) {
	for n := b.Uvarint(); n > 0 && b.Ok(); n-- {
		b.Uvarint()
		b.Span(int(b.Uvarint()))
	}
}

// dispatch hands a request to its handler, if the user may do that.
func (s *Server) dispatch(r *request) answer {
	if r.key == rawToken {
		return s.rawToken(r)
	}
	if r.message == nil {
		return s.refuseVersion()
	}
	a := s.apis[r.key]
	if a.need > anybody && !r.c.session.known(s) {
		return answer{silent: true, last: true}
	}
	return a.handle(s, r)
}

// host is the address of the peer without its port.
func (c *conn) host() string {
	address := c.net.RemoteAddr().String()
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}
