// Package segment keeps one segment of a partition: a file of record batches with its two indexes, in Kafka's formats.
//
// It promises that a batch is readable again as it was appended, that recovery cuts nothing but a tail that no Sync
// covered, and that damaged bytes are told by file, position and offsets while all around them stays readable. It knows
// nothing of topics, transactions, retention or when to roll: log/disk decides that and is the only caller.
//
// Files of the segment whose first offset is B, named with %020d:
//
//	B.log        record batches, one behind the other (see log/batch)
//	B.index      entries of 8 bytes:  int32 offset - B, int32 position in B.log
//	B.timeindex  entries of 12 bytes: int64 largest timestamp so far, int32 offset - B
//
// Entry rule, as in Kafka's LogSegment: when more than IndexInterval bytes were appended since the last entry, the next
// batch gets one: its last offset and its position; and, if the largest timestamp so far is larger than in the last time
// entry, that one with the last offset of the batch that has it. So the first batch has no entry. Sealing adds a last
// time entry. The indexes of an open segment live in memory and are written when it is sealed; after a crash they are
// built anew.
//
// Concurrency: a segment has one writer (Append, Copy, Truncate, Seal, Close) and any number of readers, who take no
// lock: the writer publishes the end of what it wrote in one atomic step. Each method says what may run beside it.
package segment

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/batch"
	"github.com/trunkline/trunkline/log/vfs"
)

// Callers compare with errors.Is.
var (
	// ErrFull says that offsets or positions do not fit into the indexes any more: roll.
	ErrFull = errors.New("segment is full")
	// ErrFailed says that an earlier Sync failed, so that nobody knows what is on disk: close, and open with Recover.
	ErrFailed = errors.New("an earlier sync of the segment failed")
	// ErrSealed says that a sealed segment takes no batches.
	ErrSealed = errors.New("segment is sealed")
)

// Suffixes of the files.
const (
	LogSuffix       = ".log"
	IndexSuffix     = ".index"
	TimeIndexSuffix = ".timeindex"
)

const (
	defaultIndexInterval = 4096
	defaultMaxBatch      = 512 << 20
	maxPosition          = math.MaxInt32
)

// Name returns the name of a file of the segment that begins at base.
func Name(base int64, suffix string) string { return fmt.Sprintf("%020d%s", base, suffix) }

// ParseName returns the base offset in the name of a file with the suffix.
func ParseName(name, suffix string) (base int64, ok bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok || len(digits) != 20 {
		return 0, false
	}
	base, err := strconv.ParseInt(digits, 10, 64)
	return base, err == nil && base >= 0
}

// Options of a segment. Zero means default.
type Options struct {
	Partition     log.TopicPartition // for errors only
	IndexInterval int                // bytes of batches between index entries, default 4096
	MaxBatch      int                // the largest batch that is believed, bytes, default 512 MiB
}

func (o Options) withDefaults() Options {
	if o.IndexInterval <= 0 {
		o.IndexInterval = defaultIndexInterval
	}
	if o.MaxBatch <= 0 {
		o.MaxBatch = defaultMaxBatch
	}
	return o
}

// Mark is a place between two batches: the position in the file and the offset that the next batch has or will have.
type Mark struct {
	Position int64
	Offset   int64
}

// Segment is one open segment.
type Segment struct {
	fs      vfs.FS
	dir     string
	base    int64
	options Options
	file    vfs.File
	write   bool // opened for writing

	state  atomic.Pointer[state] // what readers see
	synced atomic.Pointer[Mark]
	failed atomic.Pointer[error] // of the first Sync that failed

	// The writer's own.
	dirty    bool // a failed write may have left bytes behind the end
	indexing indexer

	// Of segments opened with Open: indexes are loaded by the first reader that needs them.
	loading sync.Mutex
}

// state is an immutable picture of the segment. Its slices share memory with later ones, which only add to them.
type state struct {
	end    Mark
	max    timeEntry // the largest timestamp so far, and whose
	index  []entry
	times  []timeEntry
	loaded bool // index and times and max are known
	sealed bool
}

// Create makes a segment that begins at base. Its name is durable on return. An existing one is an error. The segment
// before it must have been sealed by then: whoever finds both after a crash may take the older for durable.
func Create(fsys vfs.FS, dir string, base int64, o Options) (*Segment, error) {
	s := newSegment(fsys, dir, base, o)
	file, err := fsys.Open(s.path(LogSuffix), os.O_RDWR|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return nil, fmt.Errorf("create segment: %w", err)
	}
	s.file, s.write = file, true
	if err := fsys.SyncDir(dir); err != nil {
		return nil, errors.Join(fmt.Errorf("create segment: %w", err), file.Close())
	}
	s.publish(&state{end: Mark{Offset: base}, max: noTime, loaded: true})
	s.synced.Store(&Mark{Offset: base})
	return s, nil
}

// Open opens a sealed segment whose content is durable; next is the offset behind its last, which is the base of the
// segment that follows. It reads nothing yet: indexes are loaded, or built anew if they are missing or wrong, when a
// reader first needs them.
func Open(fsys vfs.FS, dir string, base, next int64, o Options) (*Segment, error) {
	s := newSegment(fsys, dir, base, o)
	file, err := fsys.Open(s.path(LogSuffix), os.O_RDONLY)
	if err != nil {
		return nil, fmt.Errorf("open segment: %w", err)
	}
	size, err := file.Size()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open segment: %w", err), file.Close())
	}
	s.file = file
	end := Mark{Position: size, Offset: next}
	s.publish(&state{end: end, max: noTime, sealed: true})
	s.synced.Store(&end)
	return s, nil
}

func newSegment(fsys vfs.FS, dir string, base int64, o Options) *Segment {
	o = o.withDefaults()
	return &Segment{fs: fsys, dir: dir, base: base, options: o, indexing: indexer{base: base, interval: o.IndexInterval}}
}

func (s *Segment) path(suffix string) string { return filepath.Join(s.dir, Name(s.base, suffix)) }

func (s *Segment) publish(st *state) { s.state.Store(st) }

// Path returns the name of the log file.
func (s *Segment) Path() string { return s.path(LogSuffix) }

// Base returns the offset that the segment begins with.
func (s *Segment) Base() int64 { return s.base }

// End returns the end of what was appended. Any goroutine may ask.
func (s *Segment) End() Mark { return s.state.Load().end }

// Synced returns the end of what is durable. Any goroutine may ask.
func (s *Segment) Synced() Mark { return *s.synced.Load() }

// Sealed reports whether the segment takes no more batches. Any goroutine may ask.
func (s *Segment) Sealed() bool { return s.state.Load().sealed }

// MaxTimestamp returns the largest timestamp of a record, -1 without records. Any goroutine may ask; on a sealed segment
// the first call loads the indexes.
func (s *Segment) MaxTimestamp() (int64, error) {
	st, err := s.loaded()
	if err != nil {
		return 0, err
	}
	return st.max.timestamp, nil
}

// Append gives the batches in run, one behind the other, the next offsets and the leader epoch, which it writes into
// run, and writes them to the file in one call. It returns the first offset. They are readable at once up to End, and
// durable after Sync. Checksums are not compared: who takes batches from outside does that before. After an error nothing
// was appended, and Append may be tried again: a full disk heals by itself. Writer only.
func (s *Segment) Append(run []byte, epoch int32) (first int64, err error) {
	next := s.state.Load().end.Offset
	for rest := run; len(rest) > 0; {
		var v batch.View
		if v, rest, err = batch.Parse(rest); err != nil {
			return 0, fmt.Errorf("append batch: %w", err)
		}
		v.SetBaseOffset(next)
		v.SetLeaderEpoch(epoch)
		next = v.NextOffset()
	}
	return s.Copy(run)
}

// Copy is Append for batches that have their offsets, as compaction writes them: each must begin at or after the end.
// Writer only.
func (s *Segment) Copy(run []byte) (first int64, err error) {
	st := *s.state.Load()
	if err := s.writable(&st); err != nil {
		return 0, fmt.Errorf("append batch: %w", err)
	}
	first = st.end.Offset
	saved := s.indexing
	index, times := st.index, st.times
	defer func() {
		if err != nil {
			s.indexing = saved
		}
	}()
	for rest := run; len(rest) > 0; {
		var v batch.View
		if v, rest, err = batch.Parse(rest); err != nil {
			return 0, fmt.Errorf("append batch: %w", err)
		}
		if v.BaseOffset() < st.end.Offset {
			return 0, fmt.Errorf("append batch: offset %d is before the end %d", v.BaseOffset(), st.end.Offset)
		}
		if st.end.Position+int64(len(v)) > maxPosition || v.LastOffset()-s.base > math.MaxInt32 {
			return 0, fmt.Errorf("append batch: %w", ErrFull)
		}
		index, times = s.indexing.add(&st, index, times, v)
		st.end = Mark{Position: st.end.Position + int64(len(v)), Offset: v.NextOffset()}
	}
	st.index, st.times = index, times
	at := s.state.Load().end.Position
	if _, err := s.file.WriteAt(run, at); err != nil {
		s.dirty = true
		_ = s.clean() // tried again before the next write
		return 0, fmt.Errorf("append batch: %w", err)
	}
	s.publish(&st)
	return first, nil
}

// writable finds out whether the segment can take a batch.
func (s *Segment) writable(st *state) error {
	if st.sealed || !s.write {
		return ErrSealed
	}
	if cause := s.failed.Load(); cause != nil {
		return fmt.Errorf("%w: %w", ErrFailed, *cause)
	}
	return s.clean()
}

// clean cuts what a failed write left behind the end: a later, shorter write would leave the rest of it standing, and
// recovery would take it for batches.
func (s *Segment) clean() error {
	if !s.dirty {
		return nil
	}
	if err := s.file.Truncate(s.End().Position); err != nil {
		return err
	}
	s.dirty = false
	return nil
}

// Sync makes all that was appended before the call durable, and returns its end. It may run beside Append and readers,
// not beside itself. After an error the segment takes nothing more (ErrFailed).
func (s *Segment) Sync() (Mark, error) {
	if cause := s.failed.Load(); cause != nil {
		return s.Synced(), fmt.Errorf("sync segment: %w: %w", ErrFailed, *cause)
	}
	end := s.End()
	if end == s.Synced() {
		return end, nil
	}
	if err := s.file.Sync(); err != nil {
		s.failed.Store(&err)
		return s.Synced(), fmt.Errorf("sync segment: %w", err)
	}
	s.synced.Store(&end)
	return end, nil
}

// Seal ends the segment: it adds the last time entry, writes the indexes and makes all durable. The caller makes the
// next segment. Readers may go on. Writer only.
func (s *Segment) Seal() error {
	st := *s.state.Load()
	if st.sealed {
		return nil
	}
	if err := s.clean(); err != nil {
		return fmt.Errorf("seal segment: %w", err)
	}
	if _, err := s.Sync(); err != nil {
		return err
	}
	st.times = s.indexing.last(st.times, st.max)
	if err := s.writeIndexes(&st); err != nil {
		return fmt.Errorf("seal segment: %w", err)
	}
	st.sealed = true
	s.publish(&st)
	return nil
}

// Close closes the file; it does not sync it. No reader may be in the segment. Writer only.
func (s *Segment) Close() error {
	if err := s.file.Close(); err != nil {
		return fmt.Errorf("close segment: %w", err)
	}
	return nil
}

// Remove removes the files of a closed segment. The caller makes the removal durable. Missing files are no error.
func Remove(fsys vfs.FS, dir string, base int64) error {
	for _, suffix := range []string{LogSuffix, IndexSuffix, TimeIndexSuffix} {
		if err := vfs.RemoveAll(fsys, filepath.Join(dir, Name(base, suffix))); err != nil {
			return fmt.Errorf("remove segment: %w", err)
		}
	}
	return nil
}
