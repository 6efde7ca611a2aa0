// Package http hands changes to a web server, and takes them from one that calls.
//
// As a sink it promises at least once, in the order of each key: a change counts as written once a request that carries it
// was answered with 2xx. What comes again is the same, byte for byte, and each request that carries one change has the
// same Idempotency-Key each time. It does not follow redirects.
//
// As a source it listens on an address of its own, and answers a request with 2xx once its rows are durable in the log. What
// comes twice with the same idempotency key is taken once, as long as the key is remembered, after kill -9 too. Without a key
// it cannot know: who got no answer sends again. The pipeline calls both.
package http

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"

	"github.com/trunkline/trunkline/connectors"
)

// sink is used by one goroutine, whose requests may run beside each other within one Write.
type sink struct {
	config *SinkConfig
	env    connectors.Env
	client *http.Client
	seed   maphash.Seed

	// done holds the offsets of a stream that were answered with 2xx in a Write that gave an error. The same batch comes
	// again, and they are left out.
	stream string
	done   map[int64]int
}

func open(ctx context.Context, c *SinkConfig, env connectors.Env) (connectors.Sink, error) {
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	return &sink{config: c, env: env, client: client, seed: maphash.MakeSeed(), done: map[int64]int{}}, ctx.Err()
}

func (c *SinkConfig) client() (*http.Client, error) {
	u, err := url.Parse(c.fill(c.URL, &message{}))
	if err != nil {
		return nil, errors.New("open http: url is not a URL")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = c.Parallel
	if c.TLS.TLS != "" || c.RootCert != "" || c.Cert != "" {
		if transport.TLSClientConfig, err = c.Config(u.Hostname(), "verify-full"); err != nil {
			return nil, fmt.Errorf("open http: %w", err)
		}
	}
	return &http.Client{
		Transport: transport, Timeout: c.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// Write returns once every change was taken, or names those that the server refuses.
func (s *sink) Write(ctx context.Context, b connectors.Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if b.Stream != s.stream {
		s.stream = b.Stream
		clear(s.done)
	}
	messages := s.messages(b)
	var results []result
	if s.config.Send == Events {
		results = s.lanes(ctx, messages)
	} else {
		results = s.batch(ctx, messages, nil)
	}
	var rows []connectors.RowError
	var failed error
	for _, r := range results {
		switch {
		case r.err == nil:
			for _, m := range r.messages {
				s.done[m.change.Offset]++
			}
		case isRefusal(r.err):
			rows = append(rows, connectors.RowError{Index: r.messages[0].index, Err: r.err})
		case failed == nil || errors.Is(r.err, connectors.ErrFatal):
			failed = r.err
		}
	}
	if failed != nil {
		return fmt.Errorf("send to %s: %w", s.host(), failed)
	}
	if len(rows) > 0 {
		slices.SortFunc(rows, func(a, b connectors.RowError) int { return a.Index - b.Index })
		return &connectors.RowsError{Rows: rows}
	}
	clear(s.done)
	return nil
}

// host is what an error may say of the URL, which can hold a secret.
func (s *sink) host() string {
	u, err := url.Parse(s.config.fill(s.config.URL, &message{}))
	if err != nil {
		return "the server"
	}
	return u.Host
}

// messages returns the changes that have not been taken yet.
func (s *sink) messages(b connectors.Batch) []*message {
	seen := map[int64]int{}
	var out []*message
	for i := range b.Changes {
		c := &b.Changes[i]
		if seen[c.Offset]++; seen[c.Offset] <= s.done[c.Offset] {
			continue
		}
		out = append(out, &message{stream: b.Stream, change: c, index: i, nth: seen[c.Offset]})
	}
	return out
}

// result is how a request ended.
type result struct {
	messages []*message
	err      error
}

// batch sends messages in one request. When they are refused together, it finds out which of them the server means.
func (s *sink) batch(ctx context.Context, messages []*message, into []result) []result {
	if len(messages) == 0 {
		return into
	}
	err := s.deliver(ctx, messages)
	if !isRefusal(err) || len(messages) == 1 {
		return append(into, result{messages, err})
	}
	middle := len(messages) / 2
	into = s.batch(ctx, messages[:middle], into)
	if last := into[len(into)-1]; last.err != nil && !isRefusal(last.err) {
		return into // what comes later must not overtake it
	}
	return s.batch(ctx, messages[middle:], into)
}

// lanes sends one request for each message, several at once. Messages of a key share a lane, and a lane stops at an error
// that is not the row's.
func (s *sink) lanes(ctx context.Context, messages []*message) []result {
	lanes := make([][]*message, s.config.Parallel)
	var results []result
	flush := func() {
		ended := make([][]result, len(lanes))
		var wg sync.WaitGroup
		for i, lane := range lanes {
			wg.Go(func() {
				for _, m := range lane {
					err := s.deliver(ctx, []*message{m})
					ended[i] = append(ended[i], result{[]*message{m}, err})
					if err != nil && !isRefusal(err) {
						return
					}
				}
			})
			lanes[i] = nil
		}
		wg.Wait()
		for _, e := range ended {
			results = append(results, e...)
		}
	}
	for _, m := range messages {
		keys, alone := m.keys()
		lane := s.lane(keys)
		// A change that concerns several keys, or all of them, waits for what comes before it, and what follows waits for it.
		if alone {
			flush()
			lane = 0
		}
		lanes[lane] = append(lanes[lane], m)
		if alone {
			flush()
		}
		if len(results) > 0 && stopped(results) {
			return results
		}
	}
	flush()
	return results
}

// stopped reports that a lane has ended early.
func stopped(results []result) bool {
	return slices.ContainsFunc(results, func(r result) bool { return r.err != nil && !isRefusal(r.err) })
}

func (s *sink) lane(key []byte) int {
	return int(maphash.Bytes(s.seed, key) % uint64(s.config.Parallel))
}

// Close ends idle connections.
func (s *sink) Close(context.Context) error {
	s.client.CloseIdleConnections()
	return nil
}

// check connects, and sends nothing.
func check(ctx context.Context, c *SinkConfig, _ connectors.Env) ([]connectors.Finding, error) {
	u, err := url.Parse(c.fill(c.URL, &message{}))
	if err != nil {
		return nil, errors.New("look at http: url is not a URL")
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return []connectors.Finding{{Severity: connectors.Fatal, Subject: u.Host, Problem: fmt.Sprintf("no connection: %v", err), Remedy: "start the server or set url"}}, nil
	}
	return nil, conn.Close()
}
