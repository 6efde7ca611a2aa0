package exec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"sync"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/document"
)

// The lines that a child writes are changes, as connectors.AppendLine has them, of which most members may be missing, and
// positions:
//
//	{"table":"shop.orders","key":{"id":1},"op":"c","after":{"id":1,"total":"9.50"},"position":"17"}
//	{"after":{"id":2}}
//	{"position":"18"}
//
// A position is a text that means something to the child alone: everything that it wrote up to there. It gets back the last
// one that is durable, in its first line of input and in the environment, and then each newer one:
//
//	{"start":{"position":"17","once":false}}
//	{"ack":"18"}

const positionVersion = 1

type position struct {
	Version int             `json:"v"`
	At      *string         `json:"at"`
	Tables  json.RawMessage `json:"tables,omitempty"`
}

// source is used by one goroutine; Ack may run beside Read.
type source struct {
	config *SourceConfig
	env    connectors.Env
	limits connectors.Limits
	tables *document.Tables
	at     *string // the last position of the child; nil: none yet
	open   int     // changes that no position covers yet

	mu    sync.Mutex
	child *child // guarded by mu for Ack; nil: none runs
	acked string // guarded by mu

	stash  []byte // a line that belongs to the next batch
	batch  []connectors.Change
	arena  []byte
	bytes  int   // of the lines of the batch, which the changes point into
	number int64 // lines of this child
}

func openSource(ctx context.Context, c *SourceConfig, env connectors.Env, from connectors.Position) (connectors.Source, error) {
	s := &source{config: c, env: env, limits: env.Limits.WithDefaults()}
	var p position
	if from != nil {
		if err := json.Unmarshal(from, &p); err != nil || p.Version != positionVersion {
			return nil, fmt.Errorf("parse position: not one of this source: %w", connectors.ErrPositionLost)
		}
	}
	var err error
	if s.tables, err = document.New(&c.Settings, p.Tables); err != nil {
		return nil, err
	}
	s.at = p.At
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s, s.start()
}

// start runs the program behind the last position.
func (s *source) start() error {
	at := "null"
	environment := []string{"TRUNKLINE_SOURCE=" + s.env.Name, "TRUNKLINE_POSITION=", "TRUNKLINE_ONCE=" + strconv.FormatBool(s.env.Once)}
	if s.at != nil {
		at = string(connectors.AppendJSONString(nil, []byte(*s.at)))
		environment[1] += *s.at
	}
	line := fmt.Sprintf(`{"start":{"position":%s,"once":%t}}`+"\n", at, s.env.Once)
	c, err := start(s.config, environment, []byte(line), s.limits.RowBytes+1<<10, s.env.Logger)
	if err != nil {
		return err
	}
	s.number = 0
	s.mu.Lock()
	s.child = c
	s.mu.Unlock()
	return nil
}

// Read returns what the child has written: up to a position, and a long transaction in pieces.
func (s *source) Read(ctx context.Context) (connectors.Batch, error) {
	s.batch, s.arena, s.bytes = s.batch[:0], s.arena[:0], 0
	var found bool
	for {
		line, more, err := s.line(ctx, !found)
		switch {
		case err != nil:
			return connectors.Batch{}, err
		case !more:
			return s.position()
		}
		covers, taken, err := s.take(line, found)
		if err != nil {
			return connectors.Batch{}, fmt.Errorf("read line %d of %s: %w", s.number, s.config.Command[0], err)
		}
		if !taken {
			s.stash = line
			return s.position()
		}
		found = found || covers
		if len(s.batch) >= s.limits.BatchRows || s.bytes+len(s.arena) >= s.limits.BatchBytes {
			if found {
				return s.position()
			}
			return connectors.Batch{Changes: s.batch}, nil
		}
	}
}

// line returns the next line. Without wait it reports false when there is none yet.
func (s *source) line(ctx context.Context, wait bool) ([]byte, bool, error) {
	if line := s.stash; line != nil {
		s.stash = nil
		return line, true, nil
	}
	for {
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
		var r reply
		if wait {
			select {
			case r = <-s.child.lines:
			case <-ctx.Done():
				return nil, false, ctx.Err()
			}
		} else {
			select {
			case r = <-s.child.lines:
			default:
				return nil, false, nil
			}
		}
		if r.err == nil && len(r.line) > 0 {
			s.number++
			return r.line, true, nil
		}
		if r.err == nil && r.line != nil {
			s.number++
			continue
		}
		if !wait { // what was found goes first; the end is told again
			s.child.lines = ended(r.err)
			return nil, false, nil
		}
		if err := s.over(ctx, r.err); err != nil {
			return nil, false, err
		}
	}
}

// ended is a channel that tells an end again.
func ended(err error) chan reply {
	c := make(chan reply, 1)
	c <- reply{err: err}
	close(c)
	return c
}

// over decides what the end of the child's output means, and starts it again after a while.
func (s *source) over(ctx context.Context, err error) error {
	if !errors.Is(err, io.EOF) {
		return fmt.Errorf("read %s: %w", s.config.Command[0], err)
	}
	err = s.child.wait(ctx)
	s.mu.Lock()
	s.child = nil
	s.mu.Unlock()
	switch {
	case err != nil:
		return fmt.Errorf("read %s: it ended: %w", s.config.Command[0], err)
	case s.open > 0:
		return fmt.Errorf("read %s: it ended and its last %d changes have no position", s.config.Command[0], s.open)
	case s.env.Once:
		s.env.Report(connectors.Report{Phase: connectors.PhaseDone})
		return io.EOF
	}
	timer := time.NewTimer(s.config.Restart)
	defer timer.Stop()
	select {
	case <-timer.C:
		return s.start()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// take reads a line. covers: it has a position. It is not taken if it has none and the batch has one, because it belongs to
// what comes next.
func (s *source) take(line []byte, behind bool) (covers, taken bool, err error) {
	token, err := document.Find(line, "position")
	if err != nil {
		return false, false, err
	}
	if token != nil && token[0] != '"' {
		return false, false, errors.New("position is no text")
	}
	if token == nil && behind {
		return false, false, nil
	}
	s.bytes += len(line)
	if token == nil || hasMore(line) {
		c, arena, err := s.tables.Change(s.name(), line, s.arena, nil, time.Now())
		if s.arena = arena; err != nil {
			return false, false, err
		}
		s.batch = append(s.batch, c)
		s.open++
	}
	if token == nil {
		return false, true, nil
	}
	text, _, err := connectors.Unquote(token, nil)
	if err != nil {
		return false, false, err
	}
	at := string(text)
	s.at, s.open = &at, 0
	return true, true, nil
}

// hasMore reports that a line says more than a position.
func hasMore(line []byte) bool {
	names, err := document.Members(line)
	return err != nil || len(names) != 1
}

// name is the table of lines that do not say theirs.
func (s *source) name() document.Name {
	if s.config.Table == "" {
		return document.Name{Table: s.env.Name}
	}
	return document.SplitName(s.config.Table)
}

// position returns the batch with the position that covers it.
func (s *source) position() (connectors.Batch, error) {
	tables, err := s.tables.State()
	if err != nil {
		return connectors.Batch{}, fmt.Errorf("format position: %w", err)
	}
	p, err := json.Marshal(position{positionVersion, s.at, tables})
	if err != nil {
		return connectors.Batch{}, fmt.Errorf("format position: %w", err)
	}
	return connectors.Batch{Changes: s.batch, Position: p}, nil
}

// Ack tells the child.
func (s *source) Ack(ctx context.Context, p connectors.Position) error {
	var at position
	if err := json.Unmarshal(p, &at); err != nil || at.At == nil {
		return fmt.Errorf("acknowledge position: not one of this source: %w", connectors.ErrPositionLost)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.child != nil && s.acked != *at.At {
		s.child.tell(append(append([]byte(`{"ack":`), connectors.AppendJSONString(nil, []byte(*at.At))...), "}\n"...))
	}
	s.acked = *at.At
	return ctx.Err()
}

// Close ends the child. How it ends then says nothing.
func (s *source) Close(ctx context.Context) error {
	if s.child == nil {
		return nil
	}
	err := s.child.end(ctx)
	var exit *exec.ExitError
	if errors.As(err, &exit) || errors.Is(err, exec.ErrWaitDelay) {
		err = nil
	}
	s.mu.Lock()
	s.child = nil
	s.mu.Unlock()
	return err
}
