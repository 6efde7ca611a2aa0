package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/batch"
	"github.com/trunkline/trunkline/log/vfs"
)

// Recovery tells what Recover found.
type Recovery struct {
	Batches int64
	Cut     int64               // bytes of a tail that was never synced, cut away
	CutAt   int64               // where the file ends now
	Damage  []*log.CorruptError // damaged places in the middle, left as they are
}

// RecoverOptions says what the caller knows.
type RecoverOptions struct {
	Options
	// Durable is an offset below which everything is known to be durable, as from a checkpoint or a clean stop: nothing
	// below it is cut whatever it looks like, and checksums below it are left to the readers. 0: nothing is known.
	Durable int64
	// Visit, if set, sees every good batch in order: its header, and all of it if it is a control batch. v is valid
	// during the call.
	Visit func(v batch.View) error
}

// Recover opens the last segment of a partition after a crash or a clean stop, for writing. It reads the file from its
// start and cuts the tail that a crash left half written; what it keeps it syncs before it returns, so that nobody is
// served what another crash could take back. Its own crash at any point does no harm.
//
// What is cut: bytes that are no good batch, with no good batch behind them; and, where good batches follow, such bytes
// if they contain a sector of zeros, which is what a block looks like that never reached the disk, together with all
// behind them: none of it was acknowledged, because a sync covers all bytes before its end. Any other bad bytes with
// good batches behind are damage: they are reported and left, and all around them is served.
//
// Two things cannot be told from the bytes alone, and only Durable protects from them: damage in a batch whose values
// hold a sector of zeros by themselves, and damage in the very last batch.
func Recover(fsys vfs.FS, dir string, base int64, o RecoverOptions) (*Segment, Recovery, error) {
	s := newSegment(fsys, dir, base, o.Options)
	var report Recovery
	file, err := fsys.Open(s.path(LogSuffix), os.O_RDWR)
	if err != nil {
		return nil, report, fmt.Errorf("recover segment: %w", err)
	}
	s.file, s.write = file, true
	if err := s.recover(o, &report); err != nil {
		return nil, report, errors.Join(fmt.Errorf("recover %s: %w", s.Path(), err), file.Close())
	}
	return s, report, nil
}

func (s *Segment) recover(o RecoverOptions, report *Recovery) error {
	size, err := s.file.Size()
	if err != nil {
		return err
	}
	st := &state{end: Mark{Offset: s.base}, max: noTime, loaded: true}
	sc := newScanner(s.file, s.options.MaxBatch)
	sc.window = scanWindow
	w := walker{
		sc: sc, at: st.end, end: Mark{Position: size, Offset: s.base + math.MaxInt32 + 1},
		check: func(v batch.View) bool { return v.IsControl() || v.NextOffset() > o.Durable },
	}
	for w.at.Position < size {
		v, start, bad, err := w.next()
		if err != nil {
			return err
		}
		if bad != nil {
			torn, err := isTorn(&w, start, o.Durable)
			if err != nil {
				return err
			}
			if torn {
				break
			}
			report.Damage = append(report.Damage, s.corrupt(start, w.at, bad))
			st.end = w.at
			continue
		}
		report.Batches++
		if o.Visit != nil {
			if err := o.Visit(v); err != nil {
				return err
			}
		}
		st.index, st.times = s.indexing.add(st, st.index, st.times, v)
		st.end = w.at
	}
	if st.end.Offset < o.Durable {
		report.Damage = append(report.Damage, s.corrupt(st.end, Mark{Offset: o.Durable}, errors.New("the file is too short")))
		st.end.Offset = o.Durable
	}
	report.Cut, report.CutAt = size-st.end.Position, st.end.Position
	return s.settle(st, report.Cut > 0)
}

// isTorn decides about bad bytes that the walker found: they are where a crash tore the file, which ends at start; or
// they are damage that ends at w.at.
func isTorn(w *walker, start Mark, durable int64) (bool, error) {
	last := w.at == w.end
	if start.Offset < durable {
		if last {
			w.at.Offset = durable
		}
		return false, nil
	}
	if last {
		return true, nil
	}
	return hasHole(w.sc, start, w.at.Position, w.end.Position)
}

// settle cuts the file and makes what is left durable before anybody sees it.
func (s *Segment) settle(st *state, cut bool) error {
	if cut {
		if err := s.file.Truncate(st.end.Position); err != nil {
			return err
		}
	}
	if err := s.file.Sync(); err != nil {
		return err
	}
	if err := s.fs.SyncDir(s.dir); err != nil {
		return err
	}
	s.publish(st)
	end := st.end
	s.synced.Store(&end)
	return nil
}

// sector is the smallest unit that a disk writes or loses.
const sector = 512

// hasHole reports whether a sector between bad bytes and a position was never written. The good bytes before share the
// first: there, either a batch's first twelve bytes must be zero, which those of a written batch never are; or all up to
// the end of the sector where the offset that follows is not. The last may hold the first bytes of the good batch behind,
// as long as they are the zeros of its offset. size is that of the file.
func hasHole(sc *scanner, bad Mark, to, size int64) (bool, error) {
	var follows [8]byte
	binary.BigEndian.PutUint64(follows[:], uint64(bad.Offset))
	for at := bad.Position; at < to; {
		end := (at/sector + 1) * sector
		if end > size {
			return false, nil
		}
		b, err := sc.bytes(at, int(end-at), size)
		if err != nil {
			return false, err
		}
		if allZero(b) &&
			(len(b) >= batch.PrefixSize || at == bad.Position && !allZero(follows[:min(len(b), len(follows))])) {
			return true, nil
		}
		at = end
	}
	return false, nil
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// Truncate cuts all batches that end at or behind an offset, makes that durable, and returns the new end, which is at
// or before the offset. Readers must have been kept from what goes. To at or before Synced it heals a Sync that failed:
// what is not known to be on disk is gone then. Writer only, not beside Sync.
func (s *Segment) Truncate(offset int64) (Mark, error) {
	st := *s.state.Load()
	if err := s.truncatable(&st, offset); err != nil {
		return st.end, fmt.Errorf("truncate segment: %w", err)
	}
	if offset >= st.end.Offset && s.failed.Load() == nil { // else the Sync of an earlier Truncate may have failed
		return st.end, nil
	}
	at := s.Synced()
	if offset != at.Offset {
		var err error
		if at, err = s.locate(max(offset, s.base), st.end); err != nil {
			var c *log.CorruptError
			if !errors.As(err, &c) {
				return st.end, fmt.Errorf("truncate segment: %w", err)
			}
			at = Mark{Position: c.Position, Offset: c.First}
		}
	}
	after := state{end: at, max: noTime, loaded: true}
	indexing, err := s.walk(&after)
	if err != nil {
		return st.end, fmt.Errorf("truncate segment: %w", err)
	}
	if err := s.file.Truncate(at.Position); err != nil {
		return st.end, fmt.Errorf("truncate segment: %w", err)
	}
	s.indexing = indexing
	s.publish(&after)
	if at.Position < s.Synced().Position {
		s.synced.Store(&at)
	}
	if err := s.file.Sync(); err != nil {
		s.failed.Store(&err)
		return at, fmt.Errorf("truncate segment: %w", err)
	}
	s.synced.Store(&at)
	s.failed.Store(nil)
	return at, nil
}

// truncatable is writable, but that it allows to heal a failed segment.
func (s *Segment) truncatable(st *state, offset int64) error {
	if s.failed.Load() != nil && offset <= s.Synced().Offset && s.write && !st.sealed {
		return nil
	}
	return s.writable(st)
}
