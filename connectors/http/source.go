package http

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/document"
)

const (
	positionVersion = 1
	headTime        = 10 * time.Second // for the head of a request
	bodyTime        = time.Minute      // for all of it
	idleTime        = 2 * time.Minute  // between two requests of a connection
	queued          = 10_000           // requests that were read and have not been made rows of
)

// position holds what a restart needs: what is known of the tables of each path, and the idempotency keys that came.
type position struct {
	Version int                        `json:"v"`
	Seq     int64                      `json:"seq"` // requests so far
	Tables  map[string]json.RawMessage `json:"tables,omitempty"`
	Keys    string                     `json:"keys,omitempty"`
}

// request is one that was taken in and waits for an answer.
type request struct {
	at      int // in paths
	table   string
	objects [][]byte
	key     *hash
	done    chan error // capacity 1: nil once it is durable
}

// refused is what a request hears whose objects are no rows.
type refused struct{ err error }

func (e *refused) Error() string { return e.err.Error() }

var errClosed = errors.New("the source stopped before the rows were durable; send the request again")

// source is used by one goroutine, which reads; the server's goroutines hand requests over to it, and Ack answers them.
type source struct {
	config *SourceConfig
	env    connectors.Env
	limits connectors.Limits
	tables []*document.Tables // one for each path
	server *http.Server
	served chan error
	queue  chan *request
	closed chan struct{}
	once   sync.Once

	mu      sync.Mutex
	seq     int64                // guarded by mu: of the last request that rows were made of
	acked   int64                // guarded by mu
	waiting map[int64][]*request // guarded by mu: by number, those that are not durable
	keys    *dedup               // guarded by mu
	held    int64                // guarded by mu: bytes of bodies without an answer

	batch []connectors.Change
	arena []byte
}

func openSource(ctx context.Context, c *SourceConfig, env connectors.Env, from connectors.Position) (connectors.Source, error) {
	p := position{}
	if from != nil {
		if err := json.Unmarshal(from, &p); err != nil || p.Version != positionVersion {
			return nil, fmt.Errorf("parse position: not one of this source: %w", connectors.ErrPositionLost)
		}
	}
	s := &source{
		config: c, env: env, limits: env.Limits.WithDefaults(), served: make(chan error, 1), queue: make(chan *request, queued), closed: make(chan struct{}),
		seq: p.Seq, acked: p.Seq, waiting: map[int64][]*request{},
	}
	var ok bool
	if s.keys, ok = newDedup(c.DedupWindow, c.DedupKeys, p.Keys); !ok {
		return nil, fmt.Errorf("parse position: not one of this source: %w", connectors.ErrPositionLost)
	}
	for i := range c.Paths {
		tables, err := document.New(&c.Paths[i].Settings, p.Tables[c.Paths[i].Path])
		if err != nil {
			return nil, err
		}
		s.tables = append(s.tables, tables)
	}
	listener, err := c.listen(ctx)
	if err != nil {
		return nil, err
	}
	s.server = &http.Server{Handler: s, ReadHeaderTimeout: headTime, ReadTimeout: bodyTime, IdleTimeout: idleTime, MaxHeaderBytes: 64 << 10}
	go func() { s.served <- s.server.Serve(listener) }()
	s.env.Logger.Info("opened", "source", env.Name, "address", listener.Addr().String())
	return s, nil
}

// Read returns the rows of the requests that wait, of at least one.
func (s *source) Read(ctx context.Context) (connectors.Batch, error) {
	s.batch, s.arena = s.batch[:0], s.arena[:0]
	taken, size := 0, 0
	for {
		r, err := s.next(ctx, taken == 0)
		if err != nil {
			return connectors.Batch{}, err
		}
		if r == nil {
			return s.position()
		}
		if !s.take(r) {
			continue
		}
		taken++
		for _, o := range r.objects {
			size += len(o)
		}
		if len(s.batch) >= s.limits.BatchRows || size >= s.limits.BatchBytes {
			return s.position()
		}
	}
}

// next returns the next request; nil: there is none, and it need not be waited for.
func (s *source) next(ctx context.Context, wait bool) (*request, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case r := <-s.queue:
		return r, nil
	default:
	}
	switch {
	case !wait:
		return nil, nil
	case s.env.Once: // who calls later finds nobody
		s.env.Report(connectors.Report{Phase: connectors.PhaseDone})
		return nil, io.EOF
	}
	select {
	case r := <-s.queue:
		return r, nil
	case err := <-s.served:
		s.served <- err
		return nil, fmt.Errorf("serve %s: %w", s.config.Listen, err)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// take makes the rows of a request, or none at all, and reports whether it brought some.
func (s *source) take(r *request) bool {
	now := time.Now()
	s.mu.Lock()
	if r.key != nil {
		if seq, ok := s.keys.find(*r.key, now); ok {
			if seq <= s.acked {
				r.done <- nil
			} else {
				s.waiting[seq] = append(s.waiting[seq], r)
			}
			s.mu.Unlock()
			return false
		}
	}
	s.mu.Unlock()
	start := len(s.batch)
	p := &s.config.Paths[r.at]
	for i, object := range r.objects {
		c, err := s.change(p, r, object, now)
		if err == nil && !s.fits(object, &c) {
			err = errors.New("the row is larger than a record may be (max_record_bytes)")
		}
		if err != nil {
			s.batch = s.batch[:start]
			if len(r.objects) > 1 {
				err = fmt.Errorf("object %d: %w", i+1, err)
			}
			r.done <- &refused{err}
			return false
		}
		s.batch = append(s.batch, c)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seq++
	s.waiting[s.seq] = append(s.waiting[s.seq], r)
	if r.key != nil {
		s.keys.add(*r.key, s.seq, now)
	}
	return true
}

// fits reports that a row will be no larger than the log takes: who calls must not be able to stop the source.
func (s *source) fits(object []byte, c *connectors.Change) bool {
	const around, escaped, column = 4 << 10, 6, 300 // bytes of an envelope, of a byte at the worst, of a column's name and NULL
	if c.Table == nil {
		return escaped*len(object)+around < s.limits.RowBytes
	}
	if escaped*len(object)+column*len(c.Table.Columns)+around < s.limits.RowBytes {
		return true
	}
	return len(connectors.AppendLine(nil, "", c))+around < s.limits.RowBytes
}

func (s *source) change(p *Path, r *request, object []byte, now time.Time) (c connectors.Change, err error) {
	name := document.SplitName(r.table)
	if p.Content == document.Changes {
		c, s.arena, err = s.tables[r.at].Change(name, object, s.arena, nil, now)
	} else {
		c, s.arena, err = s.tables[r.at].Row(name, object, s.arena, now)
	}
	return c, err
}

// position returns the batch with the position that covers it.
func (s *source) position() (connectors.Batch, error) {
	p := position{Version: positionVersion, Tables: map[string]json.RawMessage{}}
	for i, t := range s.tables {
		state, err := t.State()
		if err != nil {
			return connectors.Batch{}, fmt.Errorf("format position: %w", err)
		}
		p.Tables[s.config.Paths[i].Path] = state
	}
	s.mu.Lock()
	p.Seq, p.Keys = s.seq, s.keys.text()
	s.mu.Unlock()
	b, err := json.Marshal(p)
	if err != nil {
		return connectors.Batch{}, fmt.Errorf("format position: %w", err)
	}
	return connectors.Batch{Changes: s.batch, Position: b}, nil
}

// Ack answers the requests whose rows are durable.
func (s *source) Ack(ctx context.Context, p connectors.Position) error {
	var at struct {
		Seq int64 `json:"seq"`
	}
	if err := json.Unmarshal(p, &at); err != nil {
		return fmt.Errorf("acknowledge position: not one of this source: %w", connectors.ErrPositionLost)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for ; s.acked < at.Seq; s.acked++ {
		for _, r := range s.waiting[s.acked+1] {
			r.done <- nil
		}
		delete(s.waiting, s.acked+1)
	}
	return ctx.Err()
}

// Close stops listening. Requests whose rows are not durable hear that they have to come again.
func (s *source) Close(ctx context.Context) error {
	var err error
	s.once.Do(func() {
		close(s.closed)
		err = s.server.Shutdown(ctx)
		if err != nil {
			err = errors.Join(err, s.server.Close())
		}
		if serve := <-s.served; !errors.Is(serve, http.ErrServerClosed) && !errors.Is(serve, net.ErrClosed) {
			err = errors.Join(err, serve)
		}
	})
	return err
}
