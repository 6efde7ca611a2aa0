// Package broker serves Kafka's wire protocol in front of the embedded log, so that Kafka's clients read and write it.
//
// It promises that every request is answered within the versions that ApiVersions names, that responses of a connection
// come in the order of its requests, that a produce request is acknowledged once its batches are durable, and that what
// a peer sends or leaves unread costs no more memory than the limits in Options. Batches are stored and handed out as
// their producer made them. It is one broker that leads every partition: it does not replicate, knows no quotas and no
// ACLs beyond users who may read and users who may write. Records of a topic that a source owns, and the log's own
// topics, cannot be written from here. The commands run and serve are its callers.
package broker

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/disk"
)

// Options opens a server. Zero fields take the default in the comment.
type Options struct {
	Address    string       // host:port to listen on; default 127.0.0.1:9092
	Advertised string       // host:port that clients are told; default: the address that they reached
	Logger     *slog.Logger // silent
	TLS        *tls.Config  // nil: plain TCP
	Users      []User       // none: everybody may do everything, and only a loopback address may be listened on

	NoAutoCreate bool // refuse to make topics that are asked for and do not exist
	// Owner names the source that writes a topic, "" for none. Nobody else may then write it. Default: there are none.
	Owner func(topic string) string

	// Reserved reports whether a group is kept for a sink, whether it runs or not; clients cannot join it. Default: none is.
	Reserved func(group string) bool

	MaxConnections       int           // more are closed at once; 2000
	MaxRequestBytes      int           // of a produce request; 100 MiB
	MaxControlBytes      int           // of any other request; 4 MiB
	MaxFirstBytes        int           // of any request before authentication; 64 KiB
	MaxBufferedBytes     int64         // requests being received or handled, all connections together; 256 MiB
	MaxFetchBytes        int           // of one fetch response, but at least one batch; 50 MiB
	MaxFetchSessions     int           // of all clients; 1000
	MaxPartitions        int           // of the log, above which clients cannot make more; 20000
	MaxSessionPartitions int           // of all fetch sessions together; 100000
	IdleTimeout          time.Duration // without a request; 10 minutes
	LoginTimeout         time.Duration // for a connection's first request, and its login; 10 s
	ReceiveTimeout       time.Duration // for a request to arrive, and for a MiB of a response to leave; 30 s
	ConsumerSession      time.Duration // of members of consumer groups, without a heartbeat; 45 s
	ConsumerHeartbeat    time.Duration // what such members are told to keep; 1 s
	RebalanceDelay       time.Duration // how long a new group waits for more members; 300 ms
}

func (o Options) withDefaults() Options {
	if o.Address == "" {
		o.Address = "127.0.0.1:9092"
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Owner == nil {
		o.Owner = func(string) string { return "" }
	}
	if o.Reserved == nil {
		o.Reserved = func(string) bool { return false }
	}
	setDefault(&o.MaxConnections, 2000)
	setDefault(&o.MaxRequestBytes, 100<<20)
	setDefault(&o.MaxControlBytes, 4<<20)
	setDefault(&o.MaxFirstBytes, 64<<10)
	setDefault(&o.MaxBufferedBytes, 256<<20)
	setDefault(&o.MaxFetchBytes, 50<<20)
	setDefault(&o.MaxFetchSessions, 1000)
	setDefault(&o.MaxSessionPartitions, 100_000)
	setDefault(&o.MaxPartitions, 20_000)
	setDefault(&o.IdleTimeout, 10*time.Minute)
	setDefault(&o.LoginTimeout, 10*time.Second)
	setDefault(&o.ReceiveTimeout, 30*time.Second)
	setDefault(&o.ConsumerSession, 45*time.Second)
	setDefault(&o.ConsumerHeartbeat, time.Second)
	setDefault(&o.RebalanceDelay, 300*time.Millisecond)
	return o
}

func setDefault[T ~int | ~int64](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

// ErrExposed says that a listener off loopback would let everybody in.
var ErrExposed = errors.New("the address is reachable from other machines and no users are configured")

// Server is an open listener.
type Server struct {
	journal  *disk.Log
	o        Options
	logger   *slog.Logger
	listener net.Listener
	cluster  string
	apis     map[int16]api
	budget   *budget

	credentials credentials
	buffers     sync.Pool // *[]byte, of large requests
	ids         sync.Map  // [16]byte topic id to its name

	groups       *coordinator
	transactions *transactions
	fetches      *fetchSessions

	mu      sync.Mutex
	conns   map[*conn]struct{}
	closed  atomic.Bool
	closing chan struct{}
	done    sync.WaitGroup
}

// Listen opens the listener and serves until Close.
func Listen(journal *disk.Log, o Options) (*Server, error) {
	o = o.withDefaults()
	if len(o.Users) == 0 && !isLoopback(o.Address) {
		return nil, fmt.Errorf("listen on %s: %w", o.Address, ErrExposed)
	}
	s := &Server{journal: journal, o: o, logger: o.Logger, conns: map[*conn]struct{}{}, closing: make(chan struct{})}
	s.budget = newBudget(o.MaxBufferedBytes)
	s.apis = apis()
	own, err := journal.Topic(context.Background(), log.InternalPrefix+"offsets")
	if err != nil {
		return nil, fmt.Errorf("open broker: %w", err)
	}
	s.cluster = base64.RawURLEncoding.EncodeToString(own.ID[:])
	s.groups = newCoordinator(s)
	s.transactions = newTransactions(s)
	s.fetches = newFetchSessions(o.MaxFetchSessions, o.MaxSessionPartitions)
	if s.listener, err = net.Listen("tcp", o.Address); err != nil {
		return nil, fmt.Errorf("listen for Kafka clients: %w", err)
	}
	journal.SetOutsideGroups(s.groups.members)
	s.done.Go(s.accept)
	s.done.Go(s.transactions.expire)
	return s, nil
}

func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Addr returns the address of the listener.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Connections returns how many connections are open.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// acceptBackoff is the pause after the system had no descriptor for a connection.
const acceptBackoff = 50 * time.Millisecond

func (s *Server) accept() {
	for {
		raw, err := s.listener.Accept()
		if s.closed.Load() {
			if err == nil {
				raw.Close()
			}
			return
		}
		if err != nil {
			s.logger.Warn("accepting a Kafka client", "error", err)
			select {
			case <-s.closing:
				return
			case <-time.After(acceptBackoff):
			}
			continue
		}
		s.serve(raw)
	}
}

// serve starts a connection, or closes it if there are too many.
func (s *Server) serve(raw net.Conn) {
	if s.o.TLS != nil {
		raw = tls.Server(raw, s.o.TLS)
	}
	c := newConn(s, raw)
	s.mu.Lock()
	full := s.closed.Load() || len(s.conns) >= s.o.MaxConnections
	if !full {
		s.conns[c] = struct{}{}
	}
	s.mu.Unlock()
	if full {
		raw.Close()
		return
	}
	s.done.Go(func() {
		c.run()
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	})
}

// Close ends all connections and returns when every goroutine of the server has ended. Transactions that are open are
// aborted by the log when their producers begin anew.
func (s *Server) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	close(s.closing)
	err := s.listener.Close()
	s.mu.Lock()
	for c := range s.conns {
		c.net.Close()
	}
	s.mu.Unlock()
	s.done.Wait()
	s.groups.close()
	s.journal.SetOutsideGroups(nil)
	return err
}

// address returns what a client on c is told to connect to.
func (s *Server) address(c *conn) (string, int32) {
	address := s.o.Advertised
	if address == "" {
		address = c.net.LocalAddr().String()
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address, 0
	}
	n, _ := strconv.ParseUint(port, 10, 16)
	return host, int32(n)
}
