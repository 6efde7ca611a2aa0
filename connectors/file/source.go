package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/document"
	"github.com/trunkline/trunkline/connectors/rowfile"
)

// maxWarnings bounds the bad rows of an opening that are named one by one.
const maxWarnings = 100

// source is used by one goroutine; Resync may run beside Read.
//
// It promises every row of every file once, in the order of the files' names and of the rows in them: a position says of each
// file how far it was read. A file that grew is read on where it was left. Whether it is still the same one is told by
// hashes of its first and of the last bytes that were read: one that was replaced or cut is a lost position, and not
// read.
type source struct {
	mu     sync.Mutex
	resync bool // guarded by mu

	config *SourceConfig
	env    connectors.Env
	limits connectors.Limits
	tables *document.Tables
	places places
	first  bool // the files that were there at the beginning are not all read
	passes int

	looked  map[name8]os.FileInfo // of each file when it was read last; its place is the end of what there was
	pending []input               // files of this pass that may have more
	current reading               // nil: none
	reading input
	due     time.Time
	batch   []connectors.Change
	origins []byte
	bad     int64
}

func openSource(ctx context.Context, c *SourceConfig, env connectors.Env, from connectors.Position) (connectors.Source, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	where, head, err := parsePosition(from)
	if err != nil {
		return nil, err
	}
	tables, err := document.New(&c.Settings, head.Tables)
	if err != nil {
		return nil, err
	}
	return &source{
		config: c, env: env, limits: env.Limits.WithDefaults(), tables: tables, places: where, first: head.First, looked: map[name8]os.FileInfo{},
	}, nil
}

// Read returns the next rows of one file.
func (s *source) Read(ctx context.Context) (connectors.Batch, error) {
	for {
		if err := ctx.Err(); err != nil {
			return connectors.Batch{}, err
		}
		if s.current == nil && len(s.pending) == 0 {
			ended, err := s.pass(ctx)
			if err != nil {
				return connectors.Batch{}, err
			}
			if ended { // the rows that come from now on are new
				return s.position(nil)
			}
		}
		if s.current == nil {
			if err := s.open(); err != nil {
				return connectors.Batch{}, err
			}
			continue
		}
		b, err := s.fill()
		if err != nil || b.Position != nil {
			return b, err
		}
	}
}

// pass looks for files to read, waiting until it is time. It reports that the first one has ended.
func (s *source) pass(ctx context.Context) (ended bool, err error) {
	if s.passes > 0 && s.first {
		s.first = false
		s.env.Report(connectors.Report{Phase: connectors.PhaseStreaming})
		return true, nil
	}
	if s.env.Once && s.passes > 0 {
		s.env.Report(connectors.Report{Phase: connectors.PhaseDone})
		return false, io.EOF
	}
	if s.passes == 0 && s.first {
		s.env.Report(connectors.Report{Phase: connectors.PhaseSnapshot})
	}
	timer := time.NewTimer(time.Until(s.due))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	s.due = time.Now().Add(s.config.Poll)
	s.restart()
	found, err := list(s.config)
	if err != nil {
		return false, err
	}
	s.passes++
	s.places.prune(found)
	for _, in := range found {
		if !same(s.looked[nameOf(in.name)], in.info) {
			s.pending = append(s.pending, in)
		}
	}
	return false, nil
}

// open opens the next file that has something to read. What was read of it must still be there.
func (s *source) open() error {
	if len(s.pending) == 0 {
		return nil
	}
	in := s.pending[0]
	s.pending = s.pending[1:]
	id := nameOf(in.name)
	from, known := s.places[id]
	if known {
		if err := verify(in, from); err != nil {
			if errors.Is(err, os.ErrNotExist) {
				return nil // it went; the next look will tell
			}
			return err
		}
	}
	left := in.info.Size() > from.size || in.info.Size() > 0 && !from.done && (in.format == rowfile.Parquet || in.compression != rowfile.None)
	if !left {
		s.looked[id] = in.info
		return nil
	}
	var err error
	if in.format == rowfile.Parquet {
		s.current, err = asReading(openColumns(s.config, s.tables, in, from))
	} else {
		s.current, err = asReading(openText(s.config, s.tables, in, from, s.limits.RowBytes))
	}
	switch {
	case errors.Is(err, rowfile.ErrNotWhole):
		s.looked[id] = in.info
		s.waits(in, "it is no whole Parquet file yet")
		return nil
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	s.reading = in
	return nil
}

// asReading keeps a nil pointer from becoming a reading.
func asReading[T reading](r T, err error) (reading, error) {
	if err != nil {
		return nil, err
	}
	return r, nil
}

// verify reports a file that is not the one that was read up to a place.
func verify(in input, from place) error {
	lost := func(what string) error {
		return fmt.Errorf("read %s: the file was %s after %d lines or rows of it were read; what it holds now was not read: give it another name, or read all files anew: %w",
			in.name, what, from.lines, connectors.ErrPositionLost)
	}
	switch size := in.info.Size(); {
	case size < from.size:
		return lost("cut or replaced")
	case in.format == rowfile.Parquet && from.size > 0 && size != from.size:
		return lost("replaced")
	}
	f, err := os.Open(in.path)
	if err != nil {
		return fmt.Errorf("open file: %w", err)
	}
	print, err := printOf(f, from.size)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("read %s: %w", in.name, err)
	}
	if print != from.print {
		return lost("replaced")
	}
	return nil
}

// waits tells that the end of a file is not there.
func (s *source) waits(in input, why string) {
	s.env.Report(connectors.Report{Reason: fmt.Sprintf("%s: %s; it is read on when it has grown", in.name, why)})
}

// fill reads a batch of the current file. A batch without a position means that it had no more.
func (s *source) fill() (connectors.Batch, error) {
	now := time.Now()
	s.current.forget()
	s.batch, s.origins = s.batch[:0], s.origins[:0]
	before := s.current.place()
	var ended, part bool
	for len(s.batch) < s.limits.BatchRows && s.current.held() < s.limits.BatchBytes {
		c, row, err := s.current.next(now)
		var bad *rowError
		switch {
		case errors.As(err, &bad):
			if err := s.refuse(row, bad); err != nil {
				return connectors.Batch{}, err
			}
			continue
		case errors.Is(err, errPart):
			part, ended = true, true
		case errors.Is(err, io.EOF):
			ended = true
		case err != nil:
			return connectors.Batch{}, fmt.Errorf("read %s: %w", where(s.reading, row), err)
		}
		if ended {
			break
		}
		if s.first && c.Op == connectors.Insert && s.config.Content == document.Rows {
			c.Op = connectors.Snapshot
		}
		start := len(s.origins)
		s.origins = append(s.origins, `"file":`...)
		s.origins = connectors.AppendJSONString(s.origins, []byte(s.reading.name))
		s.origins = strconv.AppendInt(append(s.origins, `,"row":`...), row, 10)
		c.Origin = s.origins[start:len(s.origins):len(s.origins)]
		c.Position = connectors.Position(where(s.reading, row))
		s.batch = append(s.batch, c)
	}
	return s.settle(before, ended, part)
}

// settle stores how far the current file was read, and leaves it at its end.
func (s *source) settle(before place, ended, part bool) (connectors.Batch, error) {
	id := nameOf(s.reading.name)
	after := s.current.place()
	if ended && !part && s.reading.compression != rowfile.None {
		after.done = true
	}
	var err error
	if after.print, err = printOf(s.current.bytes(), after.size); err != nil {
		return connectors.Batch{}, fmt.Errorf("read %s: %w", s.reading.name, err)
	}
	if ended {
		if part {
			s.waits(s.reading, "its last line has no end")
		}
		err := s.current.close()
		s.current, s.looked[id] = nil, s.reading.info
		if err != nil {
			return connectors.Batch{}, fmt.Errorf("close %s: %w", s.reading.name, err)
		}
	}
	if after.at == before.at && after.done == before.done {
		return connectors.Batch{}, nil
	}
	s.places[id] = after
	return s.position(s.batch)
}

// refuse leaves out a row that cannot be read, or stops.
func (s *source) refuse(row int64, bad *rowError) error {
	if s.config.BadRows == StopAtBad {
		return fmt.Errorf("read %s: %w; correct the file's rest, or leave such rows out: bad_rows: skip: %w", where(s.reading, row), bad.err, connectors.ErrFatal)
	}
	s.bad++
	text := fmt.Sprintf("%d rows were left out, the last at %s: %v", s.bad, where(s.reading, row), bad.err)
	if s.bad <= maxWarnings {
		s.env.Logger.Warn("row left out", "source", s.env.Name, "position", where(s.reading, row), "error", bad.err)
	}
	s.env.Report(connectors.Report{Reason: text})
	return nil
}

// position returns a batch whose position covers what was read.
func (s *source) position(changes []connectors.Change) (connectors.Batch, error) {
	tables, err := s.tables.State()
	if err != nil {
		return connectors.Batch{}, fmt.Errorf("format position: %w", err)
	}
	p, err := s.places.format(s.first, tables)
	return connectors.Batch{Changes: changes, Position: p}, err
}

// Resync has all files read anew, at the latest after poll. Rows of one table stand in any of them.
func (s *source) Resync(_ context.Context, table string) error {
	if s.config.Content == document.Changes {
		return fmt.Errorf("resync table %s: the files hold changes, which would undo each other when they come again", table)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resync = true
	return nil
}

// restart forgets the places of all files if that was asked for.
func (s *source) restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.resync {
		s.resync, s.first, s.passes = false, true, 0
		clear(s.places)
		clear(s.looked)
		s.env.Report(connectors.Report{Phase: connectors.PhaseSnapshot})
	}
}

// Ack has nothing to tell: files stay where they are.
func (s *source) Ack(ctx context.Context, _ connectors.Position) error { return ctx.Err() }

// Close closes the file that is open.
func (s *source) Close(context.Context) error {
	if s.current == nil {
		return nil
	}
	err := s.current.close()
	s.current = nil
	return err
}
