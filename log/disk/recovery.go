package disk

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/batch"
	"github.com/trunkline/trunkline/log/segment"
	"github.com/trunkline/trunkline/log/vfs"
)

// known is what checkpoints say of a partition.
type known struct {
	start   int64 // log start offset
	durable int64 // after a clean end: where the partition ends
}

// replay follows the transactions through the batches of a partition.
type replay struct {
	open      map[int64]openTransaction
	aborts    *abortIndex
	sequences map[int64]*sequence
}

func (r *replay) visit(v batch.View) error {
	owner := v.Producer()
	switch {
	case v.IsControl():
		m, err := v.Marker()
		if err != nil {
			return err
		}
		if t, ok := r.open[owner.ID]; ok {
			delete(r.open, owner.ID)
			if m == batch.Abort {
				r.aborts.add(owner.ID, t.first, v.BaseOffset())
			}
		}
	case owner.ID >= 0:
		noteSequence(r.sequences, v)
		if !v.Transactional() {
			return nil
		}
		if _, ok := r.open[owner.ID]; !ok {
			r.open[owner.ID] = openTransaction{epoch: owner.Epoch, first: v.BaseOffset()}
		}
	}
	return nil
}

// openPartition opens a partition, or makes one that is not there. Everything in it is durable afterwards; transactions
// without a marker are open until settle.
func (l *Log) openPartition(t *topic, number int32, k known) (*partition, error) {
	p := &partition{l: l, topic: t, tp: log.TopicPartition{Topic: t.name, Partition: number}, dir: partitionDir(l.dir, t.name, number),
		open: map[int64]openTransaction{}, sequences: map[int64]*sequence{}, gathering: gathering{arrived: make(chan struct{}, 1)}}
	if err := l.fs.Mkdir(p.dir); err != nil {
		return nil, err
	}
	if err := p.writeMetadata(); err != nil {
		return nil, err
	}
	bases, err := p.segmentBases(k.start)
	if err != nil {
		return nil, err
	}
	if err := p.openSegments(bases, k); err != nil {
		return nil, errors.Join(err, p.closeFiles())
	}
	end := p.active().End().Offset
	p.start.Store(max(p.segments[0].Base(), min(k.start, end)))
	p.high.Store(end)
	p.aborts.trim(p.start.Load())
	p.stable.Store(p.start.Load())
	p.publish()
	return p, nil
}

// writeMetadata writes the two small files that Kafka keeps beside the segments, if they are not as they should be. They
// are not synced: what a crash takes is written again.
func (p *partition) writeMetadata() error {
	id := base64.RawURLEncoding.EncodeToString(p.topic.id[:])
	for _, f := range []struct{ name, content string }{
		{"partition.metadata", "version: 0\ntopic_id: " + id + "\n"},
		{"leader-epoch-checkpoint", "0\n1\n0 0\n"},
	} {
		path := filepath.Join(p.dir, f.name)
		if b, err := vfs.ReadFile(p.l.fs, path, maxTopicFile); err == nil && string(b) == f.content {
			continue
		}
		file, err := p.l.fs.Open(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
		if err != nil {
			return err
		}
		_, err = file.WriteAt([]byte(f.content), 0)
		if err := errors.Join(err, file.Close()); err != nil {
			return err
		}
	}
	return nil
}

// segmentBases lists the segments, after it finished what a crash left of compaction and retention.
func (p *partition) segmentBases(start int64) ([]int64, error) {
	if err := p.finishCompaction(); err != nil {
		return nil, err
	}
	names, err := p.l.fs.List(p.dir)
	if err != nil {
		return nil, err
	}
	var bases []int64
	for _, name := range names {
		if base, ok := segment.ParseName(name, segment.LogSuffix); ok {
			bases = append(bases, base)
		}
	}
	slices.Sort(bases)
	removed := false
	for len(bases) > 1 && bases[1] <= start {
		if err := segment.Remove(p.l.fs, p.dir, bases[0]); err != nil {
			return nil, err
		}
		bases, removed = bases[1:], true
	}
	if removed {
		return bases, p.l.fs.SyncDir(p.dir)
	}
	return bases, nil
}

// openSegments opens the segments, recovers the last, and follows the transactions through all of them.
func (p *partition) openSegments(bases []int64, k known) error {
	if len(bases) == 0 {
		s, err := segment.Create(p.l.fs, p.dir, k.start, p.segmentOptions())
		if err != nil {
			return err
		}
		p.hold(s)
		return nil
	}
	last := len(bases) - 1
	for i, base := range bases[:last] {
		s, err := segment.Open(p.l.fs, p.dir, base, bases[i+1], p.segmentOptions())
		if err != nil {
			return err
		}
		p.hold(s)
	}
	follow := replay{open: p.open, aborts: &p.aborts, sequences: p.sequences}
	if err := p.followSealed(bases, &follow); err != nil {
		return err
	}
	s, report, err := segment.Recover(p.l.fs, p.dir, bases[last], segment.RecoverOptions{
		Options: p.segmentOptions(), Durable: k.durable, Visit: follow.visit})
	if err != nil {
		return err
	}
	p.hold(s)
	if report.Cut > 0 {
		p.l.Counters.Truncated.Add(report.Cut)
		p.l.logger.Warn("cut a tail that a crash left", "topic", p.tp.Topic, "partition", p.tp.Partition,
			"offset", s.End().Offset, "bytes", report.Cut)
	}
	for _, d := range report.Damage {
		p.l.logger.Error("records are damaged", "topic", p.tp.Topic, "partition", p.tp.Partition, "error", d)
	}
	return nil
}

// followSealed finds the transactions of the sealed segments: from the side files, or by a walk over the batches.
func (p *partition) followSealed(bases []int64, r *replay) error {
	if len(bases) == 1 {
		return nil
	}
	err := p.loadSides(bases, r)
	if !errors.Is(err, errSnapshot) {
		return err
	}
	*r.aborts = abortIndex{}
	for _, s := range p.segments {
		if err := r.walk(s.Segment); err != nil {
			return err
		}
	}
	return nil
}

// hold adds an opened segment. When its records were appended is taken from the time of the file.
func (p *partition) hold(s *segment.Segment) {
	h := &held{Segment: s, created: time.Now(), appended: time.Now()}
	if info, err := p.l.fs.Stat(s.Path()); err == nil && !info.Modified.IsZero() {
		h.appended, h.created = info.Modified, info.Modified
	}
	p.segments = append(p.segments, h)
}

// walk visits the batches of a sealed segment, around damaged ones.
func (r *replay) walk(s *segment.Segment) error {
	var buf []byte
	end := s.End().Offset
	for at := (segment.Mark{Offset: s.Base()}); at.Offset < end; {
		run, err := s.Read(buf, at, end, readBytes)
		var bad *log.CorruptError
		if errors.As(err, &bad) {
			at = segment.Mark{Offset: bad.Last + 1}
			continue
		}
		if err != nil {
			return err
		}
		for rest := run.Bytes; len(rest) > 0; {
			var v batch.View
			if v, rest, err = batch.Parse(rest); err != nil {
				return err
			}
			if err := r.visit(v); err != nil {
				return err
			}
		}
		if len(run.Bytes) == 0 {
			return nil // a hole up to the end
		}
		buf, at = run.Bytes, run.End
	}
	return nil
}

// settle ends the transactions that were open when the log was last in use.
func (p *partition) settle(decided map[fate]bool) error {
	p.mu.Lock()
	pids := make([]int64, 0, len(p.open))
	for pid := range p.open {
		pids = append(pids, pid)
	}
	slices.SortFunc(pids, func(a, b int64) int { return cmp.Compare(p.open[a].first, p.open[b].first) })
	for _, pid := range pids {
		t := p.open[pid]
		m := batch.Abort
		if decided[fate{touch: touch{topic: p.topic.id, partition: p.tp.Partition, first: t.first}, pid: pid, epoch: t.epoch}] {
			m = batch.Commit
		}
		p.end(pid, t, m)
		p.l.logger.Info("ended a transaction that was open", "topic", p.tp.Topic, "partition", p.tp.Partition,
			"offset", t.first, "outcome", m.String())
	}
	p.publish()
	p.mu.Unlock()
	if len(pids) == 0 {
		return nil
	}
	if err := p.flushTail(); err != nil {
		if vfs.IsFull(err) {
			p.l.wakeFlusher() // readers do not need the markers; they are written when there is room
			return nil
		}
		return err
	}
	return nil
}

// repair cuts off what a failed sync left in doubt.
func (p *partition) repair() error {
	p.flush.Lock()
	defer p.flush.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.broken.Load() {
		return nil
	}
	if err := p.cutTail(); err != nil {
		return fmt.Errorf("%w: %w", errUnsure, err)
	}
	return nil
}

// cutTail cuts the active segment to what is durable. What was appended above that belongs to an ended
// generation; its writers find out. Markers that go with it are owed again. Both locks are held.
func (p *partition) cutTail() error {
	high, active := p.high.Load(), p.active()
	lost := active.End().Offset
	mark, err := active.Truncate(high)
	if err == nil && mark.Offset != high {
		err = fmt.Errorf("the segment ends at offset %d, not at %d", mark.Offset, high)
	}
	if err != nil {
		return err
	}
	p.cuts = append(p.cuts, high)
	p.generation++
	for pid, t := range p.open {
		if t.first >= high {
			delete(p.open, pid)
		}
	}
	p.forgetSequences(high)
	p.aborts.cut(high)
	p.owed = append(p.unsynced, p.owed...)
	p.unsynced = nil
	p.broken.Store(false)
	p.l.logger.Warn("cut what a failed sync left in doubt", "topic", p.tp.Topic, "partition", p.tp.Partition,
		"offset", high, "records", lost-high)
	return nil
}

// seal makes the partition ready for a clean end. A large active segment is rolled, so that the next start, which reads
// the active one, has nothing to read.
func (p *partition) seal() error {
	if p.removed.Load() {
		return nil
	}
	if err := p.flushTail(); err != nil {
		return fmt.Errorf("%s-%d: %w", p.tp.Topic, p.tp.Partition, err)
	}
	p.flush.Lock()
	defer p.flush.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.active().End().Position < rollAtClose {
		return nil
	}
	if err := p.roll(); err != nil {
		// Everything is durable as it is.
		p.l.logger.Warn("rolling at the end", "topic", p.tp.Topic, "partition", p.tp.Partition, "error", err)
	}
	return nil
}

// rollAtClose is the size from which an active segment is rolled at a clean end.
const rollAtClose = 8 << 20
