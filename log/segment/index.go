package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"

	"github.com/trunkline/trunkline/log/batch"
)

// entry says that the batch at a position ends with an offset.
type entry struct{ relative, position uint32 }

// timeEntry says that no record before the end of the batch that ends with an offset is later than a timestamp.
type timeEntry struct {
	timestamp int64
	relative  uint32
}

// noTime stands for a segment without records.
var noTime = timeEntry{timestamp: -1}

const (
	entrySize     = 8
	timeEntrySize = 12
	// maxIndex is more than the densest index of the largest segment needs.
	maxIndex = 1 << 30
)

// indexer applies the entry rule of the package comment.
type indexer struct {
	base     int64
	interval int
	since    int // bytes since the last entry
}

// add takes the batch that begins at st.end: it moves st.max and returns the indexes with what the rule adds.
func (x *indexer) add(st *state, index []entry, times []timeEntry, v batch.View) ([]entry, []timeEntry) {
	relative := uint32(v.LastOffset() - x.base)
	if v.MaxTimestamp() > st.max.timestamp {
		st.max = timeEntry{timestamp: v.MaxTimestamp(), relative: relative}
	}
	if x.since > x.interval {
		index = append(index, entry{relative: relative, position: uint32(st.end.Position)})
		times = x.last(times, st.max)
		x.since = 0
	}
	x.since += int(v.Length())
	return index, times
}

// last adds a time entry if it is later than all before it.
func (x *indexer) last(times []timeEntry, t timeEntry) []timeEntry {
	if t.timestamp < 0 || len(times) > 0 && times[len(times)-1].timestamp >= t.timestamp {
		return times
	}
	return append(times, t)
}

// floor returns which indexed batch is the last that ends at or before an offset, -1 if none is.
func floor(index []entry, relative int64) int {
	i, found := slices.BinarySearchFunc(index, relative, func(e entry, r int64) int { return compare(int64(e.relative), r) })
	if found {
		return i
	}
	return i - 1
}

func compare(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// writeIndexes replaces both index files and makes them durable. Their names are durable with the next SyncDir; a
// missing index is built anew.
func (s *Segment) writeIndexes(st *state) error {
	b := make([]byte, 0, len(st.index)*entrySize)
	for _, e := range st.index {
		b = binary.BigEndian.AppendUint32(b, e.relative)
		b = binary.BigEndian.AppendUint32(b, e.position)
	}
	if err := s.writeIndex(IndexSuffix, b); err != nil {
		return err
	}
	b = b[:0]
	for _, e := range st.times {
		b = binary.BigEndian.AppendUint64(b, uint64(e.timestamp))
		b = binary.BigEndian.AppendUint32(b, e.relative)
	}
	return s.writeIndex(TimeIndexSuffix, b)
}

func (s *Segment) writeIndex(suffix string, b []byte) error {
	f, err := s.fs.Open(s.path(suffix), os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	if len(b) > 0 {
		_, err = f.WriteAt(b, 0)
	}
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}

// loaded returns the state with indexes, which it loads or builds the first time.
func (s *Segment) loaded() (*state, error) {
	if st := s.state.Load(); st.loaded {
		return st, nil
	}
	s.loading.Lock()
	defer s.loading.Unlock()
	st := *s.state.Load()
	if st.loaded {
		return &st, nil
	}
	if err := s.loadIndexes(&st); err != nil {
		var bad errIndex
		if !errors.As(err, &bad) {
			return nil, fmt.Errorf("load index of %s: %w", s.Path(), err)
		}
		if err := s.buildIndexes(&st); err != nil {
			return nil, fmt.Errorf("build index of %s: %w", s.Path(), err)
		}
	}
	st.loaded = true
	s.publish(&st)
	return &st, nil
}

// errIndex says why an index cannot be used; it is built anew.
type errIndex string

func (e errIndex) Error() string { return string(e) }

// loadIndexes fills st from the files, if they are there and fit the log file.
func (s *Segment) loadIndexes(st *state) error {
	index, err := s.readIndex()
	if err != nil {
		return err
	}
	times, err := s.readTimeIndex()
	if err != nil {
		return err
	}
	st.index, st.times, st.max = index, times, noTime
	if len(times) > 0 {
		st.max = times[len(times)-1]
		if _, ok := s.timed(st, st.max); !ok {
			return errIndex("last time entry points nowhere")
		}
	}
	return s.checkTail(st)
}

func (s *Segment) indexFile(suffix string, size int) ([]byte, error) {
	f, err := s.fs.Open(s.path(suffix), os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errIndex("missing")
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	n, err := f.Size()
	if err != nil {
		return nil, err
	}
	if n%int64(size) != 0 || n > maxIndex {
		return nil, errIndex("odd size")
	}
	b := make([]byte, n)
	if got, err := f.ReadAt(b, 0); got < len(b) {
		return nil, err
	}
	return b, nil
}

func (s *Segment) readIndex() ([]entry, error) {
	b, err := s.indexFile(IndexSuffix, entrySize)
	if err != nil {
		return nil, err
	}
	end := s.End()
	index := make([]entry, 0, len(b)/entrySize)
	for ; len(b) > 0; b = b[entrySize:] {
		e := entry{relative: binary.BigEndian.Uint32(b), position: binary.BigEndian.Uint32(b[4:])}
		if s.base+int64(e.relative) >= end.Offset || int64(e.position) >= end.Position || e.position == 0 ||
			len(index) > 0 && (e.relative <= index[len(index)-1].relative || e.position <= index[len(index)-1].position) {
			return nil, errIndex("entries out of order")
		}
		index = append(index, e)
	}
	return index, nil
}

func (s *Segment) readTimeIndex() ([]timeEntry, error) {
	b, err := s.indexFile(TimeIndexSuffix, timeEntrySize)
	if err != nil {
		return nil, err
	}
	end := s.End()
	times := make([]timeEntry, 0, len(b)/timeEntrySize)
	for ; len(b) > 0; b = b[timeEntrySize:] {
		e := timeEntry{timestamp: int64(binary.BigEndian.Uint64(b)), relative: binary.BigEndian.Uint32(b[8:])}
		if e.timestamp < 0 || s.base+int64(e.relative) >= end.Offset || e.relative > math.MaxInt32 ||
			len(times) > 0 && (e.timestamp <= times[len(times)-1].timestamp || e.relative < times[len(times)-1].relative) {
			return nil, errIndex("entries out of order")
		}
		times = append(times, e)
	}
	return times, nil
}

// checkTail finds an index that was cut, or belongs to another file, by what lies behind its last entry: that entry
// must point at its batch, and more bytes than the interval must not follow without one. It walks over headers only.
func (s *Segment) checkTail(st *state) error {
	at, since := int64(0), 0
	sc := newScanner(s.file, s.options.MaxBatch)
	if n := len(st.index); n > 0 {
		last := st.index[n-1]
		at = int64(last.position)
		v, err := sc.header(at, st.end.Position)
		if err != nil || v.LastOffset() != s.base+int64(last.relative) {
			return errIndex("last entry points nowhere")
		}
		at, since = at+v.Length(), int(v.Length())
	}
	for at < st.end.Position {
		v, err := sc.header(at, st.end.Position)
		if err != nil {
			return nil // damage is found, and told, by who reads there
		}
		if since > s.options.IndexInterval {
			return errIndex("entries are missing")
		}
		if v.MaxTimestamp() > st.max.timestamp {
			return errIndex("time entries are missing")
		}
		at += v.Length()
		since += int(v.Length())
	}
	return nil
}

// buildIndexes fills st from the log file, and stores the result. That the files cannot be
// written, as on a full disk, is no error.
func (s *Segment) buildIndexes(st *state) error {
	x, err := s.walk(st)
	if err != nil {
		return err
	}
	st.times = x.last(st.times, st.max)
	_ = s.writeIndexes(st)
	return nil
}

// walk fills the indexes of st from all good batches before its end.
func (s *Segment) walk(st *state) (indexer, error) {
	x := indexer{base: s.base, interval: s.options.IndexInterval}
	sc := newScanner(s.file, s.options.MaxBatch)
	sc.window = scanWindow
	w := walker{sc: sc, at: Mark{Offset: s.base}, end: st.end, check: func(batch.View) bool { return true }}
	at := state{max: noTime}
	for w.at.Position < w.end.Position {
		v, start, bad, err := w.next()
		if err != nil {
			return x, err
		}
		if bad == nil {
			at.end = start
			at.index, at.times = x.add(&at, at.index, at.times, v)
		}
	}
	st.index, st.times, st.max = at.index, at.times, at.max
	return x, nil
}
