// Package file writes changes into files, JSON lines, CSV or Parquet, for people and programs that read files, and reads
// those that others write.
//
// As a sink it promises each change exactly once, after kill -9 and power loss too. A batch becomes a file whose name is its range
// of offsets, <path>/<topic>/<partition>/<first>-<last>.jsonl, or in the layout hive
// <path>/topic=<topic>/partition=<n>/date=<day>/<first>-<last>.parquet; it is written under another name that begins with a dot,
// synced, and renamed. The names are the position: whoever opens the directory reads from them where to go on, so the
// newest file of a partition must stay where it is. Ranges may leave offsets out (compacted records, aborted
// transactions) and never overlap. A file with a final name never changes.
//
// Small files are merged into one with the common range, up to a size (roll), and then removed. Between the two a reader
// finds rows in both: a reader must ignore a file whose range another file covers. How many files are written at all is
// decided by the sink's batch: with rows that trickle, wait is what makes files larger.
//
// One writer at a time has a partition: an older one is fenced. This is what .owner and .lock are for; .owner also holds
// a position that no name says.
// It does not delete what a retention would.
//
// As a source it reads rows or changes out of files, each of them exactly once (source.go). It leaves the files as they are.
// The pipeline calls both.
package file

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/rowfile"
)

// sink is used by one goroutine.
type sink struct {
	config     *Config
	env        connectors.Env
	epoch      int64
	partitions map[string]*partition
	encoder    *rowfile.Encoder
}

func open(ctx context.Context, c *Config, env connectors.Env) (connectors.Sink, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := makeDir(c.Path); err != nil {
		return nil, err
	}
	s := &sink{config: c, env: env, partitions: map[string]*partition{}, encoder: rowfile.NewEncoder(c.Settings, env.Report)}
	err := locked(c.Path, func() error {
		o, err := readOwner(c.Path)
		if err != nil {
			return err
		}
		if o.Group != "" && o.Group != env.Group {
			return fmt.Errorf("open %s: it belongs to group %q; give each sink a path of its own: %w", c.Path, o.Group, connectors.ErrFatal)
		}
		if o.Layout == "" {
			o.Layout = Plain
		}
		if o.Group != "" && o.Layout != c.Layout {
			return fmt.Errorf("open %s: its layout is %s, and the position stands there; set layout: %[2]s, or give the sink another path: %w", c.Path, o.Layout, connectors.ErrFatal)
		}
		s.epoch = o.Epoch + 1
		return writeOwner(c.Path, owner{Group: env.Group, Epoch: s.epoch, Layout: c.Layout})
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Committed claims the stream for this writer and returns the offset after the last file.
func (s *sink) Committed(ctx context.Context, stream string) (connectors.Position, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	delete(s.partitions, stream)
	p, err := s.claim(stream)
	if err != nil {
		return nil, fmt.Errorf("read position of %s: %w", stream, err)
	}
	if p.next() == 0 {
		return nil, nil
	}
	return strconv.AppendInt(nil, p.next(), 10), nil
}

// claim returns the partition, taken over from older writers.
func (s *sink) claim(stream string) (*partition, error) {
	if p := s.partitions[stream]; p != nil {
		return p, nil
	}
	p := &partition{dir: directory(s.config.Path, stream, s.config.Layout)}
	if err := makeDir(p.dir); err != nil {
		return nil, err
	}
	err := locked(p.dir, func() error {
		o, err := s.fence(p)
		if err != nil {
			return err
		}
		p.floor = o.Next
		if err := writeOwner(p.dir, owner{Group: s.env.Group, Epoch: s.epoch, Next: p.floor}); err != nil {
			return err
		}
		return p.load()
	})
	if err != nil {
		return nil, err
	}
	s.partitions[stream] = p
	return p, nil
}

// fence is called with the partition locked.
func (s *sink) fence(p *partition) (owner, error) {
	o, err := readOwner(p.dir)
	if err == nil && o.Epoch > s.epoch {
		err = fmt.Errorf("write into %s: %w", p.dir, connectors.ErrFenced)
	}
	return o, err
}

// place stores a position that no file's name says. One before the last file is refused, because what came again would
// stand in two files.
func (s *sink) place(p *partition, next int64) error {
	if next < p.end() {
		return fmt.Errorf("set position %d: %s has files up to offset %d; move them away first: %w", next, p.dir, p.end()-1, connectors.ErrFatal)
	}
	if err := writeOwner(p.dir, owner{Group: s.env.Group, Epoch: s.epoch, Next: next}); err != nil {
		return err
	}
	p.floor = next
	return nil
}

// WholeRows is true: a line has no row of the store to leave a value in.
func (s *sink) WholeRows() bool { return true }

// Write makes files of the batch. After an error some of them may be there; the position says so, and what comes again is
// left out.
func (s *sink) Write(ctx context.Context, b connectors.Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	next, err := strconv.ParseInt(string(b.Position), 10, 64)
	if err != nil || next < 0 {
		return fmt.Errorf("write batch of %s: its position is not an offset: %w", b.Stream, connectors.ErrFatal)
	}
	p, err := s.claim(b.Stream)
	if err != nil {
		return err
	}
	changes, err := s.encoder.Fit(b.Changes)
	if err != nil {
		return err
	}
	for len(changes) > 0 && changes[0].Offset < p.next() {
		changes = changes[1:]
	}
	if len(changes) == 0 && len(b.Changes) > 0 {
		return nil
	}
	if n := len(changes); n > 0 && changes[n-1].Offset >= next {
		last := changes[n-1].Offset
		return fmt.Errorf("write batch of %s: offset %d is not before its position %d: %w", b.Stream, last, next, connectors.ErrFatal)
	}
	err = locked(p.dir, func() error {
		if _, err := s.fence(p); err != nil {
			return err
		}
		if err := s.add(p, b.Stream, changes, next); err != nil {
			return err
		}
		s.encoder.Written()
		if p.next() != next {
			return s.place(p, next)
		}
		if err := p.merge(int64(s.config.Roll), &s.config.Settings); err != nil && !errors.Is(err, errHeader) {
			// The batch is durable; the next one tries to merge again.
			s.env.Logger.Warn("retry", "sink", s.env.Name, "error", err)
			return p.load()
		}
		return nil
	})
	if err != nil {
		delete(s.partitions, b.Stream)
		return fmt.Errorf("write batch of %s: %w", b.Stream, err)
	}
	return nil
}

// add writes the changes, one file for each run of rows that may stand in one.
func (s *sink) add(p *partition, stream string, changes []connectors.Change, next int64) error {
	for len(changes) > 0 {
		day, n := "", len(changes)
		if s.config.Layout == Hive {
			day, n = rowfile.Day(changes)
			day = datePrefix + day
		}
		data, n, err := s.encoder.Encode(stream, changes[:n])
		if err != nil {
			return err
		}
		f := span{first: changes[0].Offset, last: next - 1, ending: s.config.Ending(), folder: day}
		if n < len(changes) {
			f.last = changes[n].Offset - 1
		}
		if f.last < f.first {
			return fmt.Errorf("offset %d holds rows of several tables, which one %s file cannot; use format jsonl: %w", f.first, s.config.Format, connectors.ErrFatal)
		}
		if len(data) > 0 {
			if err := p.add(f, data); err != nil {
				return err
			}
		}
		changes = changes[n:]
	}
	return nil
}

// Close has nothing to release: no file stays open between two calls.
func (s *sink) Close(context.Context) error {
	return nil
}
