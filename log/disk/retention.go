package disk

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/segment"
)

// retain removes the oldest segments that are over age or over size. Age counts from when the last record of a segment
// was appended and not from the records' own timestamps: a record stamped in the future would keep its segment for ever,
// and a backfill stamped long ago would go as it lands. The active segment is rolled first if all of it is too old, so
// that an emptied partition keeps its next offset in the name of an empty segment.
func (p *partition) retain(now time.Time) error {
	if p.removed.Load() {
		return nil
	}
	if err := p.rollAged(now); err != nil {
		return fmt.Errorf("roll: %w", err)
	}
	doomed := p.doomed(now)
	if len(doomed) == 0 {
		return nil
	}
	next := doomed[len(doomed)-1].End().Offset
	p.l.logger.Info("retention removes segments", "topic", p.tp.Topic, "partition", p.tp.Partition, "segments", len(doomed), "offset", next)
	return p.removeBelow(next)
}

// tooOld reports whether the segment's last append is over the retention ago. A clock that was set back makes an age
// negative, which is not old.
func (p *partition) tooOld(s *held, now time.Time) bool {
	limit := p.topic.config().Retention
	return limit != log.Forever && now.Sub(s.appended) > limit
}

// rollAged rolls the active segment if every record in it is too old and nothing undecided is in it.
func (p *partition) rollAged(now time.Time) error {
	p.flush.Lock()
	defer p.flush.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.active()
	if p.removed.Load() || p.broken.Load() || a.End().Position == 0 || !p.tooOld(a, now) || p.stable.Load() < p.high.Load() {
		return nil
	}
	return p.roll()
}

// doomed returns the segments at the beginning that have to go.
func (p *partition) doomed(now time.Time) []*held {
	p.files.RLock()
	segments := slices.Clone(p.segments)
	p.files.RUnlock() // a group's lock is asked for below, and is taken before this one elsewhere
	total := int64(0)
	for _, s := range segments {
		total += s.End().Position
	}
	limit, stable := p.topic.config().RetentionBytes, p.stable.Load()
	n := 0
	for _, s := range segments[:len(segments)-1] {
		end := s.End()
		over := limit > 0 && total-end.Position >= limit
		if end.Offset > stable || !over && !p.tooOld(s, now) {
			break
		}
		if group, read, unread := p.unread(end.Offset); unread {
			if !over {
				break
			}
			from := max(read, s.Base())
			p.l.Counters.RetentionForced.Add(end.Offset - from)
			p.l.logger.Error("retention_bytes removes records that a sink has not read", "topic", p.tp.Topic,
				"partition", p.tp.Partition, "group", group, "first", from, "last", end.Offset-1)
		}
		total -= end.Position
		n++
	}
	return segments[:n:n]
}

// unread finds the protected group that has read least, if it has not read everything below end.
func (p *partition) unread(end int64) (name string, read int64, unread bool) {
	groups := p.l.protected.Load()
	if groups == nil {
		return "", 0, false
	}
	read = end
	for group, patterns := range *groups {
		for _, pattern := range patterns {
			if !matches(pattern, p.tp.Topic) {
				continue
			}
			next, ok := p.l.group(group).committed(p.tp)
			if !ok {
				next = p.start.Load()
			}
			if next < read {
				name, read, unread = group, next, true
			}
		}
	}
	return name, read, unread
}

// removeBelow moves the log start and removes the segments below it. The start is durable before the first file goes, so
// that a crash in between cannot bring back one of them behind a hole.
func (p *partition) removeBelow(next int64) error {
	p.raiseLogStart(next)
	if err := p.l.writeLogStarts(); err != nil {
		return err
	}
	p.flush.Lock()
	defer p.flush.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.removed.Load() {
		return nil
	}
	p.files.Lock()
	n := 0
	for n < len(p.segments)-1 && p.segments[n+1].Base() <= next {
		n++
	}
	gone := p.segments[:n:n]
	p.segments = p.segments[n:]
	var errs []error
	for _, s := range gone {
		errs = append(errs, s.Close())
	}
	p.files.Unlock()
	for _, s := range gone {
		errs = append(errs, segment.Remove(p.l.fs, p.dir, s.Base()))
	}
	errs = append(errs, p.dropSides(p.bases()), p.l.fs.SyncDir(p.dir))
	p.aborts.trim(next)
	return errors.Join(errs...)
}

// raiseLogStart moves the log start offset up, but not past what is durable.
func (p *partition) raiseLogStart(next int64) {
	if next > p.start.Load() && next <= p.high.Load() {
		p.start.Store(next)
	}
}
