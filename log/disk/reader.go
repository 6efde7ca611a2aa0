package disk

import (
	"errors"
	"fmt"
	"time"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/batch"
	"github.com/trunkline/trunkline/log/segment"
)

// place is where a reader goes on: an offset and, if it is known, where its batch begins in which segment.
type place struct {
	offset int64
	base   int64 // of the segment that position is in
	at     int64 // 0: not known
}

// read reads whole batches that committed readers may see into buf, beginning with the one that holds the offset or the
// first behind it. It returns the place behind them. With no batches, everything up to that place is known to hold none.
func (p *partition) read(buf []byte, from place, maxBytes int) ([]byte, place, error) {
	p.files.RLock()
	defer p.files.RUnlock()
	if p.removed.Load() {
		return nil, from, p.gone()
	}
	start, stable := p.start.Load(), p.stable.Load()
	if from.offset < start || from.offset > p.high.Load() {
		return nil, from, &log.OutOfRangeError{TopicPartition: p.tp, Offset: from.offset, LogStart: start, End: p.high.Load()}
	}
	for from.offset < stable {
		s := p.segmentOf(from.offset)
		mark := segment.Mark{Offset: from.offset}
		if from.base == s.Base() {
			mark.Position = from.at
		}
		run, err := s.Read(buf, mark, stable, maxBytes)
		if err != nil {
			return nil, from, err
		}
		if len(run.Bytes) > 0 {
			return run.Bytes, place{offset: run.End.Offset, base: s.Base(), at: run.End.Position}, nil
		}
		from = place{offset: max(run.End.Offset, from.offset)}
		if s == p.segments[len(p.segments)-1] || s.End().Offset > from.offset {
			break
		}
	}
	return buf[:0], place{offset: max(from.offset, stable)}, nil
}

// segmentOf returns the segment that holds an offset; files is held.
func (p *partition) segmentOf(offset int64) *held {
	for i := len(p.segments) - 1; i > 0; i-- {
		if p.segments[i].Base() <= offset {
			return p.segments[i]
		}
	}
	return p.segments[0]
}

// corrupt is the error for a batch whose bytes are as they were written but make no sense.
func (p *partition) corrupt(first, last int64, cause error) error {
	p.files.RLock()
	defer p.files.RUnlock()
	return &log.CorruptError{TopicPartition: p.tp, Path: p.segmentOf(first).Path(), First: first, Last: last, Detail: cause.Error()}
}

// offsetAt returns the offset of the first record below the last stable offset that is stamped at or after t.
func (p *partition) offsetAt(t time.Time) (int64, error) {
	p.files.RLock()
	defer p.files.RUnlock()
	if p.removed.Load() {
		return 0, p.gone()
	}
	start, stable := p.start.Load(), p.stable.Load()
	for _, s := range p.segments {
		if s.End().Offset <= start {
			continue
		}
		offset, found, err := s.OffsetAt(t.UnixMilli(), s.Synced().Offset)
		if err != nil {
			return 0, fmt.Errorf("find time in %s-%d: %w", p.tp.Topic, p.tp.Partition, err)
		}
		if found {
			return min(max(offset, start), stable), nil
		}
	}
	return stable, nil
}

// scan calls fn for every record of one of the log's own topics. Damage is told and passed over: a log that does not
// open because of it would take everything else along.
func (p *partition) scan(fn func(r *log.Record) error) error {
	var (
		buf     []byte
		decoder batch.Decoder
		records []log.Record
	)
	for at := (place{offset: p.start.Load()}); at.offset < p.stable.Load(); {
		raw, next, err := p.read(buf, at, readBytes)
		var bad *log.CorruptError
		if errors.As(err, &bad) {
			p.l.logger.Error("records of the log's own topic are damaged", "topic", p.tp.Topic, "error", err)
			at = place{offset: bad.Last + 1}
			continue
		}
		if err != nil {
			return err
		}
		for rest := raw; len(rest) > 0; {
			var v batch.View
			if v, rest, err = batch.Parse(rest); err != nil {
				return err
			}
			if v.IsControl() || v.Transactional() && p.isAborted(v.Producer().ID, v.BaseOffset()) {
				continue
			}
			decoder.Reset()
			if records, err = decoder.Decode(records[:0], v); err != nil {
				return err
			}
			for i := range records {
				if err := fn(&records[i]); err != nil {
					return err
				}
			}
		}
		buf, at = raw, next
	}
	return nil
}
