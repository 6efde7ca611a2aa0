package disk

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/batch"
	"github.com/trunkline/trunkline/log/segment"
	"github.com/trunkline/trunkline/log/vfs"
)

// errUnsure says that it is not known whether appended records are durable: their sync failed, and so did cutting them off.
var errUnsure = errors.New("it is not known whether the records are durable")

const (
	logSuffix   = segment.LogSuffix
	leaderEpoch = 0 // one machine: nobody else ever leads

	// maxBatchBytes bounds what is written as one batch, before compression. Readers refuse what is twice as large.
	maxBatchBytes = batch.DefaultMaxDecompressed / 2

	// maxUnsynced is how much of a transaction that is still open waits for a sync.
	maxUnsynced = 16 << 20
)

// partition is one partition: a run of segments of which the last is written to.
//
// Readers are bounded by stable: it is below the first offset of every undecided transaction and never above high, what
// is durable. Commit markers lie above the data of their transaction and may become durable later; nothing else does.
type partition struct {
	l     *Log
	topic *topic
	tp    log.TopicPartition
	dir   string

	start, high, stable atomic.Int64
	removed             atomic.Bool
	broken              atomic.Bool // a sync failed; what is above high has to be cut off first

	flush     sync.Mutex // held for the length of a sync, a roll or a repair; taken before mu
	gathering gathering

	mu         sync.Mutex // held for the length of an append
	open       map[int64]openTransaction
	owed       []marker // decided, but not written: the disk is full
	unsynced   []marker // written above high
	cuts       []int64  // for each generation that ended, where its tail was cut off
	generation int

	files    sync.RWMutex // readers hold it while they are in a segment
	segments []*held

	aborts abortIndex

	watchMu  sync.Mutex
	watchers []*consumer
	outside  map[*Watch]struct{}

	sequences map[int64]*sequence // of producers from outside; under mu
}

// held is a segment with what the file does not say.
type held struct {
	*segment.Segment
	created  time.Time // when its first batch was appended, as far as is known
	appended time.Time // when its last batch was
}

// openTransaction is an undecided transaction in one partition.
type openTransaction struct {
	epoch int16
	first int64
}

// marker is a control batch that ends a transaction.
type marker struct {
	batch.Marker
	pid    int64
	epoch  int16
	first  int64 // offset of the transaction
	offset int64 // where it was written; not set while it is owed
}

func (p *partition) active() *held { return p.segments[len(p.segments)-1] }

// appendRecords appends records outside any transaction and returns the first offset once they are durable.
func (p *partition) appendRecords(records []log.Record) (int64, error) {
	if len(records) == 0 {
		return p.high.Load(), nil
	}
	builder := builders.Get().(*batch.Builder)
	defer giveBuilder(builder)
	now := time.Now().UnixMilli()
	for i := range records {
		r := &records[i]
		if n := recordSize(r); n > p.topic.config().MaxRecordBytes {
			return 0, fmt.Errorf("append to %s-%d: record of %d bytes, the limit is %d: %w",
				p.tp.Topic, p.tp.Partition, n, p.topic.config().MaxRecordBytes, log.ErrRecordTooLarge)
		}
		stamp := r.Timestamp
		if stamp == 0 {
			stamp = now
		}
		builder.Append(r, stamp)
		if builder.Size() > maxBatchBytes {
			return 0, fmt.Errorf("append to %s-%d: %d records at once are over %d bytes: %w",
				p.tp.Topic, p.tp.Partition, len(records), maxBatchBytes, log.ErrRecordTooLarge)
		}
	}
	buffer := takeBuffer()
	defer giveBuffer(buffer)
	var err error
	if *buffer, err = builder.Build((*buffer)[:0], *p.topic.config().Compression, batch.NoProducer, false); err != nil {
		return 0, fmt.Errorf("append to %s-%d: %w", p.tp.Topic, p.tp.Partition, err)
	}
	first, generation, err := p.append(*buffer, nil)
	if err == nil {
		err = p.syncTo(first+int64(len(records)), generation)
	}
	if err != nil {
		return 0, fmt.Errorf("append to %s-%d: %w", p.tp.Topic, p.tp.Partition, err)
	}
	return first, nil
}

// appendTransactional appends a batch of a transaction, which it opens with its first, and notes in w where it stands.
func (p *partition) appendTransactional(v batch.View, w *written) error {
	owner := v.Producer()
	first, generation, err := p.append(v, func(first int64) {
		if _, ok := p.open[owner.ID]; !ok {
			p.open[owner.ID] = openTransaction{epoch: owner.Epoch, first: first}
		}
	})
	if err != nil {
		return fmt.Errorf("append to %s-%d: %w", p.tp.Topic, p.tp.Partition, err)
	}
	if !w.begun {
		w.begun, w.first, w.generation = true, first, generation
	}
	if w.generation != generation {
		return fmt.Errorf("append to %s-%d: %w", p.tp.Topic, p.tp.Partition, errLost)
	}
	w.end = v.NextOffset()
	return nil
}

// append writes one batch at the end. note runs under the lock once it is written.
func (p *partition) append(run []byte, note func(first int64)) (first int64, generation int, err error) {
	return p.appendChecked(run, nil, note)
}

// appendChecked is append with a check under the same lock. An error of the check ends it, with the offset from there.
func (p *partition) appendChecked(run []byte, check func() (int64, error), note func(first int64)) (first int64, generation int, err error) {
	if p.broken.Load() {
		if err := p.repair(); err != nil {
			return 0, 0, err
		}
	}
	if err := p.makeRoom(int64(len(run))); err != nil {
		return 0, 0, p.writeError(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.removed.Load() {
		return 0, 0, p.gone()
	}
	if err := p.payOwed(); err != nil {
		return 0, 0, p.writeError(err)
	}
	if check != nil {
		if first, err = check(); err != nil {
			return first, p.generation, err
		}
	}
	first, err = p.active().Append(run, leaderEpoch)
	if err != nil {
		return 0, 0, p.writeError(err)
	}
	p.active().appended = time.Now()
	if note != nil {
		note(first)
	}
	return first, p.generation, nil
}

// writeError names a full disk by the contract's error and counts.
func (p *partition) writeError(err error) error {
	p.l.Counters.WriteErrors.Add(1)
	if vfs.IsFull(err) {
		return fmt.Errorf("%w: %w", log.ErrFull, err)
	}
	return err
}

// makeRoom rolls if the active segment is too large or too old for n bytes more.
func (p *partition) makeRoom(n int64) error {
	p.mu.Lock()
	full := p.full(n)
	p.mu.Unlock()
	if !full {
		return nil
	}
	p.flush.Lock()
	defer p.flush.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.full(n) || p.removed.Load() {
		return nil
	}
	return p.roll()
}

func (p *partition) full(n int64) bool {
	a := p.active()
	end := a.End()
	if end.Position == 0 {
		return false
	}
	c := p.topic.config()
	limit := min(c.SegmentBytes, maxSegment)
	if c.RetentionBytes > 0 {
		limit = min(limit, c.RetentionBytes) // the active segment is never removed
	}
	return a.Sealed() || end.Position+n > limit || time.Since(a.created) > c.SegmentAge ||
		end.Offset-a.Base() > maxSegmentOffsets
}

// The indexes hold 31 bits of position and of relative offset; half of the latter is left for one batch.
const (
	maxSegment        = 1<<31 - 1
	maxSegmentOffsets = 1 << 30
)

// roll seals the active segment and begins the next. If a full disk stops it half way the active one stays sealed, and
// the next append tries again. Both locks are held.
func (p *partition) roll() error {
	old := p.active()
	end := old.End().Offset
	if err := old.Seal(); err != nil {
		if old.Synced().Offset != end {
			p.noteSyncError(old.Segment)
		}
		return err
	}
	p.advance(end)
	if err := p.writeSides(old, end); err != nil {
		return err
	}
	next, err := segment.Create(p.l.fs, p.dir, end, p.segmentOptions())
	if err != nil {
		// The name may be there already; Create takes no file that exists.
		return errors.Join(err, segment.Remove(p.l.fs, p.dir, end))
	}
	now := time.Now()
	p.files.Lock()
	p.segments = append(p.segments, &held{Segment: next, created: now, appended: now})
	p.files.Unlock()
	if err := p.dropSides(p.bases()); err != nil {
		p.l.logger.Warn("removing old snapshots", "topic", p.tp.Topic, "partition", p.tp.Partition, "error", err)
	}
	return nil
}

// bases returns the first offsets of the segments; mu or files is held.
func (p *partition) bases() []int64 {
	out := make([]int64, 0, len(p.segments))
	for _, s := range p.segments {
		out = append(out, s.Base())
	}
	return out
}

func (p *partition) segmentOptions() segment.Options { return segment.Options{Partition: p.tp} }

// syncTo returns once everything below end, which was appended in that generation, is durable. Callers that come while a
// sync is under way wait and share the next.
func (p *partition) syncTo(end int64, generation int) error {
	return p.syncGathered(end, generation, false)
}

// syncGathered is syncTo, after a wait for more batches of clients if that is worth it.
func (p *partition) syncGathered(end int64, generation int, gather bool) error {
	p.flush.Lock()
	defer p.flush.Unlock()
	p.mu.Lock()
	if generation < p.generation {
		durable := end <= p.cuts[generation]
		p.mu.Unlock()
		if durable {
			return nil
		}
		return errLost
	}
	active := p.active()
	p.mu.Unlock()
	if active.Synced().Offset >= end {
		return nil
	}
	if gather {
		p.gathering.wait(p.gathering.limit(), p.l.closing)
	}
	return p.sync(active)
}

// syncIfBehind makes a large transaction durable as it grows, so that its commit, and those that others make meanwhile,
// do not wait for all of it at once. An error is found by whoever needs what was lost with it.
func (p *partition) syncIfBehind() {
	p.mu.Lock()
	active := p.active()
	p.mu.Unlock()
	if active.End().Position-active.Synced().Position < maxUnsynced || !p.flush.TryLock() {
		return
	}
	defer p.flush.Unlock()
	if p.broken.Load() || p.removed.Load() {
		return
	}
	p.mu.Lock()
	active = p.active()
	p.mu.Unlock()
	_ = p.sync(active)
}

// sync makes the active segment durable; flush is held.
func (p *partition) sync(active *held) error {
	appended, began := p.gathering.appended.Load(), time.Now()
	mark, err := active.Sync()
	p.gathering.synced(appended, time.Since(began))
	if err == nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.advance(mark.Offset)
		return nil
	}
	p.noteSyncError(active.Segment)
	p.mu.Lock()
	defer p.mu.Unlock()
	if repair := p.cutTail(); repair != nil {
		return p.writeError(fmt.Errorf("%w: %w: %w", errUnsure, err, repair))
	}
	return p.writeError(err)
}

func (p *partition) noteSyncError(s *segment.Segment) {
	p.broken.Store(true)
	p.l.logger.Error("a sync failed; what was not durable is dropped and its writers are told",
		"topic", p.tp.Topic, "partition", p.tp.Partition, "offset", p.high.Load(), "segment", s.Path())
}

// advance raises the high watermark; mu is held.
func (p *partition) advance(end int64) {
	if end > p.high.Load() {
		p.high.Store(end)
	}
	p.unsynced = slices.DeleteFunc(p.unsynced, func(m marker) bool { return m.offset < end })
	p.publish()
	p.wakeOutside()
}

// publish moves the last stable offset and wakes readers; mu is held.
func (p *partition) publish() {
	stable := p.high.Load()
	for _, t := range p.open {
		stable = min(stable, t.first)
	}
	if stable <= p.stable.Load() {
		return
	}
	p.stable.Store(stable)
	p.watchMu.Lock()
	defer p.watchMu.Unlock()
	for _, c := range p.watchers {
		c.notify()
	}
}

// finish ends a transaction whose outcome is decided. Its marker is written without a sync, or owed.
func (p *partition) finish(pid int64, epoch int16, m batch.Marker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t, ok := p.open[pid]
	if !ok || t.epoch != epoch {
		return
	}
	p.end(pid, t, m)
	// A marker that cannot be written stays owed. Whoever appends next writes it first, and hears of the error.
	_ = p.payOwed()
	p.publish()
	p.wakeOutside()
	p.l.wakeFlusher()
}

// end takes a transaction off the open ones and owes its marker; mu is held.
func (p *partition) end(pid int64, t openTransaction, m batch.Marker) {
	delete(p.open, pid)
	if m == batch.Abort {
		p.aborts.add(pid, t.first, p.active().End().Offset)
	}
	p.owed = append(p.owed, marker{Marker: m, pid: pid, epoch: t.epoch, first: t.first})
}

// payOwed writes the markers that are owed; mu is held. They come before anything that the same producer appends next.
func (p *partition) payOwed() error {
	if p.broken.Load() || p.removed.Load() {
		return nil
	}
	for len(p.owed) > 0 {
		m := p.owed[0]
		b := batch.AppendMarker(nil, m.Marker, m.pid, m.epoch, leaderEpoch, time.Now().UnixMilli())
		first, err := p.active().Append(b, leaderEpoch)
		if err != nil {
			return err
		}
		p.active().appended = time.Now()
		m.offset = first
		p.unsynced = append(p.unsynced, m)
		p.owed = p.owed[1:]
	}
	p.owed = nil
	return nil
}

// flushTail makes durable what was written without a sync.
func (p *partition) flushTail() error {
	if p.broken.Load() {
		if err := p.repair(); err != nil {
			return err
		}
	}
	if err := p.makeRoom(0); err != nil { // a full disk may have stopped a roll half way
		return err
	}
	p.flush.Lock()
	defer p.flush.Unlock()
	p.mu.Lock()
	err := p.payOwed()
	active := p.active()
	behind := active.End().Offset > active.Synced().Offset
	p.mu.Unlock()
	if err != nil || !behind {
		return err
	}
	return p.sync(active)
}

func (p *partition) describe() log.Partition {
	p.files.RLock()
	defer p.files.RUnlock()
	b := p.bounds()
	d := log.Partition{LogStart: b.LogStart, HighWatermark: b.HighWatermark, LastStable: b.LastStable, Segments: len(p.segments)}
	for _, s := range p.segments {
		d.Bytes += s.End().Position
	}
	return d
}

func (p *partition) watch(c *consumer) {
	p.watchMu.Lock()
	defer p.watchMu.Unlock()
	p.watchers = append(p.watchers, c)
}

func (p *partition) unwatch(c *consumer) {
	p.watchMu.Lock()
	defer p.watchMu.Unlock()
	p.watchers = slices.DeleteFunc(p.watchers, func(w *consumer) bool { return w == c })
}

// remove ends a partition whose topic was deleted, and closes its files.
func (p *partition) remove() {
	p.flush.Lock()
	defer p.flush.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.removed.Store(true)
	if err := p.closeFiles(); err != nil {
		p.l.logger.Warn("closing a deleted partition", "topic", p.tp.Topic, "partition", p.tp.Partition, "error", err)
	}
	p.watchMu.Lock()
	defer p.watchMu.Unlock()
	for _, c := range p.watchers {
		c.notify()
	}
	for w := range p.outside {
		w.notify()
	}
}

// shut closes the files once no writer is in them.
func (p *partition) shut() error {
	p.flush.Lock()
	defer p.flush.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closeFiles()
}

// gone is the error for a partition whose files are closed.
func (p *partition) gone() error {
	if p.l.closed.Load() {
		return log.ErrClosed
	}
	return log.ErrUnknownTopic
}

// closeFiles closes all segments. Readers get an error from then on.
func (p *partition) closeFiles() error {
	p.files.Lock()
	defer p.files.Unlock()
	var errs []error
	for _, s := range p.segments {
		errs = append(errs, s.Close())
	}
	p.removed.Store(true)
	return errors.Join(errs...)
}
