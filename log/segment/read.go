package segment

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/batch"
)

// Run is a run of whole batches, one behind the other.
type Run struct {
	Bytes      []byte
	Start, End Mark // of the first batch, and behind the last
}

// Read reads whole batches, beginning with the one that holds from.Offset or the first behind it, into buf, which it
// replaces if it is too small. It reads at most maxBytes, but at least one batch, and no batch that begins at or behind
// end. Every checksum is right. If there is nothing to read the run is empty, and its End is where to go on.
//
// from.Position is 0, or the position where the caller knows that batch to begin, as the End of the run before: that
// saves the search. end is bounded by End too.
//
// A damaged batch ends the run before it. If it is the first, the error is *log.CorruptError, and reading can go on at
// the offset behind its Last. Any goroutine may read.
func (s *Segment) Read(buf []byte, from Mark, end int64, maxBytes int) (Run, error) {
	written := s.End()
	end = min(end, written.Offset)
	if from.Offset >= end {
		return Run{Bytes: buf[:0], Start: from, End: from}, nil
	}
	if from.Position > 0 {
		if run, err := s.readRun(buf, from, written, end, maxBytes, false); err == nil && run.End.Offset > from.Offset {
			return run, nil
		}
	}
	start, err := s.locate(from.Offset, written)
	for err == nil && start != written {
		var run Run
		if run, err = s.readRun(buf, start, written, end, maxBytes, true); !isBad(err) {
			return run, err
		}
		start, err = s.passDamage(start, written, from.Offset, err)
	}
	if err != nil {
		return Run{}, err
	}
	return Run{Bytes: buf[:0], Start: start, End: start}, nil
}

// readRun reads the run that begins at start and stops before the offset end. The error is about the first batch. located
// says that the first may leave out offsets before it: locate has looked at the one behind.
func (s *Segment) readRun(buf []byte, start, written Mark, end int64, maxBytes int, located bool) (Run, error) {
	left := written.Position - start.Position
	if left < batch.HeaderSize {
		return Run{}, batch.ErrShort
	}
	want := min(left, int64(max(maxBytes, batch.HeaderSize)))
	buf = slices.Grow(buf[:0], int(want))[:want]
	if n, err := s.file.ReadAt(buf, start.Position); int64(n) < want {
		return Run{}, readError(err)
	}
	if err := batch.CheckHeader(buf); err != nil {
		return Run{}, err
	}
	size := batch.View(buf).Length()
	if size > left {
		return Run{}, batch.ErrShort
	}
	if size > int64(s.options.MaxBatch) {
		return Run{}, batch.ErrTooLarge
	}
	if more := size - want; more > 0 {
		buf = slices.Grow(buf, int(more))[:size]
		if n, err := s.file.ReadAt(buf[want:], start.Position+want); int64(n) < more {
			return Run{}, readError(err)
		}
	}
	run := Run{Start: Mark{Position: start.Position, Offset: batch.View(buf).BaseOffset()}, End: start}
	last := start.Position + left
	for rest := buf; len(rest) > 0; {
		var v batch.View
		var err error
		v, rest, err = batch.Parse(rest)
		if err == nil {
			err = errors.Join(v.Verify(), between(v, run.End, written))
		}
		if first := run.End == start; err == nil && !(first && located) {
			err = overlap(v, rest, run.End, last-run.End.Position)
		}
		if err == nil && v.BaseOffset() >= end {
			run.End.Offset = max(run.End.Offset, end) // a hole reaches up to the batch that is not to be read
			break
		}
		if err != nil && run.End.Position == start.Position {
			return Run{}, err
		}
		if err != nil {
			break // cut by maxBytes, or damaged: then it is the first of the next run
		}
		run.End = Mark{Position: run.End.Position + int64(len(v)), Offset: v.NextOffset()}
	}
	run.Bytes = buf[:run.End.Position-run.Start.Position]
	return run, nil
}

// overlap does for batches in memory what scanner.next does in the file: v begins behind a hole, rest follows it.
func overlap(v batch.View, rest []byte, at Mark, left int64) error {
	if v.BaseOffset() == at.Offset || int64(len(v)) == left {
		return nil
	}
	if len(rest) < batch.HeaderSize {
		return batch.ErrShort
	}
	if batch.CheckHeader(rest) == nil && batch.View(rest).BaseOffset() < v.NextOffset() {
		return errOverlap
	}
	return nil
}

// readError is why fewer bytes came than stand before the end.
func readError(err error) error {
	if err == nil || err == io.EOF {
		return batch.ErrShort
	}
	return err
}

// locate returns where the batch begins that holds an offset or is the first behind it, or end; the mark's offset is the
// one that follows the batch before. An offset in a damaged place is *log.CorruptError.
func (s *Segment) locate(offset int64, end Mark) (Mark, error) {
	st, err := s.loaded()
	if err != nil {
		return end, err
	}
	return s.search(newScanner(s.file, s.options.MaxBatch), st, offset, end)
}

func (s *Segment) search(sc *scanner, st *state, offset int64, end Mark) (Mark, error) {
	at := Mark{Offset: s.base}
	// The indexed batch tells its own first offset. If it is damaged, the one before it is asked.
	for index := st.index; len(index) > 0; {
		i := floor(index, offset-s.base)
		if i < 0 {
			break
		}
		position := int64(index[i].position)
		v, err := sc.header(position, end.Position)
		if err == nil && v.LastOffset() == s.base+int64(index[i].relative) {
			at = Mark{Position: position, Offset: v.BaseOffset()}
			break
		}
		if err != nil && !isBad(err) {
			return end, fmt.Errorf("read segment: %w", err)
		}
		index = index[:i]
	}
	return s.locateFrom(sc, at, end, offset)
}

// locateFrom is locate from a batch on.
func (s *Segment) locateFrom(sc *scanner, at, end Mark, offset int64) (Mark, error) {
	w := walker{sc: sc, at: at, end: end}
	for w.at.Position < end.Position {
		v, start, bad, err := w.next()
		switch {
		case err != nil:
			return end, fmt.Errorf("read segment: %w", err)
		case bad != nil && w.at.Offset > offset:
			return end, s.corrupt(start, w.at, bad)
		case bad == nil && v.NextOffset() > offset:
			return start, nil
		}
	}
	return end, nil
}

// passDamage goes on behind a damaged batch whose header seemed to hold an offset. *log.CorruptError if the offset is in
// the damaged place.
func (s *Segment) passDamage(bad, end Mark, offset int64, cause error) (Mark, error) {
	sc := newScanner(s.file, s.options.MaxBatch)
	next, err := sc.resync(bad, end)
	if err != nil {
		return end, fmt.Errorf("read segment: %w", err)
	}
	if next.Offset > offset {
		return end, s.corrupt(bad, next, cause)
	}
	return s.locateFrom(sc, next, end, offset)
}

func (s *Segment) corrupt(at, next Mark, cause error) *log.CorruptError {
	return &log.CorruptError{
		TopicPartition: s.options.Partition, Path: s.Path(), Position: at.Position,
		First: at.Offset, Last: max(at.Offset, next.Offset-1), Detail: cause.Error(),
	}
}

// OffsetAt returns the offset of the first record that stands before the offset end and is stamped at or after a time in
// milliseconds; found is false if there is none. Damaged batches are passed over. Any goroutine may ask.
func (s *Segment) OffsetAt(timestamp, end int64) (offset int64, found bool, err error) {
	st, err := s.loaded()
	if err != nil {
		return 0, false, err
	}
	if st.max.timestamp < timestamp {
		return 0, false, nil
	}
	at := Mark{Offset: s.base}
	i, _ := slices.BinarySearchFunc(st.times, timestamp, func(e timeEntry, t int64) int { return compare(e.timestamp, t) })
	if i > 0 {
		if start, ok := s.timed(st, st.times[i-1]); ok {
			at = start
		}
	}
	w := walker{sc: newScanner(s.file, s.options.MaxBatch), at: at, end: st.end}
	var d batch.Decoder
	for w.at.Position < st.end.Position && w.at.Offset < end {
		v, start, bad, err := w.next()
		if err != nil {
			return 0, false, fmt.Errorf("read segment: %w", err)
		}
		if bad != nil || v.IsControl() || v.MaxTimestamp() < timestamp {
			continue
		}
		offset, found, err := firstAt(w.sc, &d, start, st.end, timestamp)
		if err != nil && !isBad(err) {
			return 0, false, fmt.Errorf("read segment: %w", err)
		}
		if found {
			return offset, offset < end, nil
		}
	}
	return 0, false, nil
}

// timed returns where the batch of a time entry begins; false if it is damaged or the entry is wrong.
func (s *Segment) timed(st *state, e timeEntry) (Mark, bool) {
	sc := newScanner(s.file, s.options.MaxBatch)
	last := s.base + int64(e.relative)
	at, err := s.search(sc, st, last, st.end)
	if err != nil {
		return at, false
	}
	v, _, err := sc.next(at, st.end)
	return at, err == nil && v.LastOffset() == last && v.MaxTimestamp() == e.timestamp
}

// firstAt looks for the record in the batch at a mark.
func firstAt(sc *scanner, d *batch.Decoder, at, end Mark, timestamp int64) (offset int64, ok bool, err error) {
	v, err := sc.batch(at.Position, end.Position)
	if err != nil {
		return 0, false, err
	}
	d.Reset()
	records, err := d.Decode(nil, v)
	if err != nil {
		return 0, false, err
	}
	for i := range records {
		if records[i].Timestamp >= timestamp {
			return records[i].Offset, true, nil
		}
	}
	return 0, false, nil
}
