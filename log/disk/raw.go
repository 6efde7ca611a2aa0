package disk

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/batch"
	"github.com/trunkline/trunkline/log/segment"
)

// Appended is a batch that was appended as it came.
type Appended struct {
	First     int64 // offset of its first record
	LogStart  int64
	Duplicate bool // it was there before, at First

	p          *partition
	end        int64
	generation int
}

// AppendBatch appends one record batch as its producer made it; only the base offset and the leader epoch are written
// into b, which is not kept. The caller has checked what stands in the records. A transactional batch opens its producer's
// transaction in the partition. It is durable after Wait.
//
// Errors are ErrSequence, ErrProducerEpoch, log.ErrRecordTooLarge, log.ErrUnknownTopic, log.ErrFull and those of package
// batch.
func (l *Log) AppendBatch(tp log.TopicPartition, b []byte) (Appended, error) {
	if err := l.usable(); err != nil {
		return Appended{}, err
	}
	p, err := l.partition(tp)
	if err != nil {
		return Appended{}, err
	}
	if limit := p.topic.config().MaxRecordBytes; len(b) > limit {
		return Appended{}, fmt.Errorf("append to %s-%d: batch of %d bytes, the limit is %d: %w", tp.Topic, tp.Partition, len(b), limit, log.ErrRecordTooLarge)
	}
	v, rest, err := batch.Parse(b)
	if err == nil && (len(rest) > 0 || v.IsControl() || v.Count() == 0 || v.LastOffsetDelta() != v.Count()-1) {
		err = fmt.Errorf("%w: not one batch of records", batch.ErrCorrupt)
	}
	if err == nil {
		err = v.Verify()
	}
	if err != nil {
		return Appended{}, fmt.Errorf("append to %s-%d: %w", tp.Topic, tp.Partition, err)
	}
	return p.appendBatch(v)
}

func (p *partition) appendBatch(v batch.View) (Appended, error) {
	a := Appended{p: p, LogStart: p.start.Load()}
	var err error
	a.First, a.generation, err = p.appendChecked(v, func() (int64, error) {
		first, duplicate, err := p.checkSequence(v)
		if duplicate {
			a.Duplicate = true
			return first, errDuplicate
		}
		return 0, err
	}, func(first int64) {
		p.noteSequence(v)
		p.gathering.arrive()
		owner := v.Producer()
		if _, ok := p.open[owner.ID]; !ok && v.Transactional() {
			p.open[owner.ID] = openTransaction{epoch: owner.Epoch, first: first}
		}
	})
	if err != nil && !a.Duplicate {
		return Appended{}, fmt.Errorf("append to %s-%d: %w", p.tp.Topic, p.tp.Partition, err)
	}
	a.end = a.First + int64(v.LastOffsetDelta()) + 1
	return a, nil
}

var errDuplicate = errors.New("the batch is there already")

// Chunk is a run of stored batches and what a reader has to know of the partition with it.
type Chunk struct {
	Bytes         []byte // whole batches; the first holds the offset that was asked for, or is the first behind it
	LogStart      int64
	HighWatermark int64
	LastStable    int64
	Aborted       []Aborted // transactions with batches among Bytes that were aborted; only for committed readers
}

// Aborted is a transaction that was aborted.
type Aborted struct {
	Producer int64
	First    int64 // its first offset in the partition
}

// Place is where stored batches stand, for callers who send a file's bytes without reading them.
type Place struct {
	Path     string
	Position int64
	Length   int64 // 0: there is nothing to read
}

// FindBatches finds stored batches, from the one that holds the offset, up to the last stable offset for committed readers,
// else up to the high watermark: at most maxBytes, but one whole batch at the least; with maxBytes 0 nothing. Up to small
// bytes are read; of more the caller gets the place where they stand. The error may be *log.OutOfRangeError, which comes
// with a chunk that tells the bounds. The file may be gone by the time it is opened, when retention took it; then the caller asks again. The
// checksums of bytes that are not read are not compared.
func (l *Log) FindBatches(tp log.TopicPartition, offset int64, maxBytes, small int, committed bool) (Chunk, Place, error) {
	p, err := l.outsidePartition(tp)
	if err != nil {
		return Chunk{}, Place{}, err
	}
	c := p.bounds()
	end := c.HighWatermark
	if committed {
		end = c.LastStable
	}
	if maxBytes <= 0 || offset >= end && offset <= c.HighWatermark && offset >= c.LogStart {
		return c, Place{}, nil
	}
	place, next, err := p.findRaw(offset, end, maxBytes, small, &c)
	if err == nil && committed && next > offset {
		c.Aborted = p.aborts.within(offset, next)
	}
	return c, place, err
}

// findRaw finds batches, and reads them into c if they are few; next is the offset behind the last.
func (p *partition) findRaw(offset, end int64, maxBytes, small int, c *Chunk) (place Place, next int64, err error) {
	p.files.RLock()
	defer p.files.RUnlock()
	if p.removed.Load() {
		return place, 0, log.ErrUnknownTopic
	}
	start, high := p.start.Load(), p.high.Load()
	if offset < start || offset > high {
		return place, 0, &log.OutOfRangeError{TopicPartition: p.tp, Offset: offset, LogStart: start, End: high}
	}
	for offset < end {
		s := p.segmentOf(offset)
		from, to, err := s.Span(offset, end, maxBytes)
		if err != nil {
			return place, 0, err
		}
		length := to.Position - from.Position
		switch {
		case length > 0 && length <= int64(small):
			run, err := s.Read(nil, segment.Mark{Position: from.Position, Offset: offset}, end, int(length))
			c.Bytes = run.Bytes
			return place, run.End.Offset, err
		case length > 0:
			return Place{Path: s.Path(), Position: from.Position, Length: length}, to.Offset, nil
		case s == p.segments[len(p.segments)-1] || s.End().Offset <= offset:
			return place, offset, nil
		}
		offset = s.End().Offset
	}
	return place, offset, nil
}

// outsidePartition finds a partition of an open log.
func (l *Log) outsidePartition(tp log.TopicPartition) (*partition, error) {
	if err := l.usable(); err != nil {
		return nil, err
	}
	return l.partition(tp)
}

// bounds reads the watermarks so that the stable one is never above the high one. Nor is it below the start: a transaction
// may be open whose first records were deleted.
func (p *partition) bounds() Chunk {
	c := Chunk{LogStart: p.start.Load(), LastStable: p.stable.Load()}
	c.LastStable = max(c.LastStable, c.LogStart)
	c.HighWatermark = p.high.Load()
	return c
}

// readRaw reads whole batches before an end of the caller's choice.
func (p *partition) readRaw(buf []byte, offset, end int64, maxBytes int) ([]byte, error) {
	p.files.RLock()
	defer p.files.RUnlock()
	if p.removed.Load() {
		return nil, log.ErrUnknownTopic
	}
	start, high := p.start.Load(), p.high.Load()
	if offset < start || offset > high {
		return nil, &log.OutOfRangeError{TopicPartition: p.tp, Offset: offset, LogStart: start, End: high}
	}
	for offset < end {
		s := p.segmentOf(offset)
		run, err := s.Read(buf, segment.Mark{Offset: offset}, end, maxBytes)
		if err != nil {
			return nil, err
		}
		if len(run.Bytes) > 0 || s == p.segments[len(p.segments)-1] || s.End().Offset <= offset {
			return run.Bytes, nil
		}
		offset = s.End().Offset // the rest of the segment is a hole
	}
	return nil, nil
}

// Bounds returns the offsets that readers of a partition are bound by.
func (l *Log) Bounds(tp log.TopicPartition) (Chunk, error) {
	p, err := l.outsidePartition(tp)
	if err != nil {
		return Chunk{}, err
	}
	return p.bounds(), nil
}

// TimeIndexed is a record by its time.
type TimeIndexed struct {
	Offset    int64 // -1: there is none
	Timestamp int64 // ms
}

// FirstSince returns the first record that readers may see and that is stamped at or after t.
func (l *Log) FirstSince(tp log.TopicPartition, t int64) (TimeIndexed, error) {
	none := TimeIndexed{Offset: -1, Timestamp: -1}
	p, err := l.outsidePartition(tp)
	if err != nil {
		return none, err
	}
	offset, err := p.offsetAt(time.UnixMilli(t))
	if err != nil || offset >= p.stable.Load() {
		return none, err
	}
	run, err := p.readRaw(nil, offset, p.stable.Load(), 1)
	if err != nil || len(run) == 0 {
		return none, err
	}
	v, _, err := batch.Parse(run)
	if err != nil {
		return none, err
	}
	var d batch.Decoder
	records, err := d.Decode(nil, v)
	if err != nil {
		return none, err
	}
	for i := range records {
		if records[i].Offset >= offset && records[i].Timestamp >= t {
			return TimeIndexed{Offset: records[i].Offset, Timestamp: records[i].Timestamp}, nil
		}
	}
	return none, nil
}

// Newest returns the first record with the largest timestamp of the partition.
func (l *Log) Newest(tp log.TopicPartition) (TimeIndexed, error) {
	p, err := l.outsidePartition(tp)
	if err != nil {
		return TimeIndexed{Offset: -1, Timestamp: -1}, err
	}
	newest, err := p.maxTimestamp()
	if err != nil || newest < 0 {
		return TimeIndexed{Offset: -1, Timestamp: -1}, err
	}
	return l.FirstSince(tp, newest)
}

func (p *partition) maxTimestamp() (int64, error) {
	p.files.RLock()
	defer p.files.RUnlock()
	newest := int64(-1)
	if p.removed.Load() {
		return newest, log.ErrUnknownTopic
	}
	for _, s := range p.segments {
		t, err := s.MaxTimestamp()
		if err != nil {
			return newest, err
		}
		newest = max(newest, t)
	}
	return newest, nil
}

// Watch wakes a reader when something it waits for may have come.
type Watch struct {
	C chan struct{} // holds one token

	once       sync.Once
	partitions []*partition
}

// Watch watches partitions; unknown ones are left out. Close ends it.
func (l *Log) Watch(tps []log.TopicPartition) *Watch {
	w := &Watch{C: make(chan struct{}, 1)}
	for _, tp := range tps {
		if p, err := l.partition(tp); err == nil {
			w.partitions = append(w.partitions, p)
			p.watchMu.Lock()
			if p.outside == nil {
				p.outside = map[*Watch]struct{}{}
			}
			p.outside[w] = struct{}{}
			p.watchMu.Unlock()
		}
	}
	return w
}

// Close ends the watch.
func (w *Watch) Close() {
	w.once.Do(func() {
		for _, p := range w.partitions {
			p.watchMu.Lock()
			delete(p.outside, w)
			p.watchMu.Unlock()
		}
	})
}

func (w *Watch) notify() {
	select {
	case w.C <- struct{}{}:
	default:
	}
}

// wakeOutside tells those who watch the partition that a watermark moved.
func (p *partition) wakeOutside() {
	p.watchMu.Lock()
	defer p.watchMu.Unlock()
	for w := range p.outside {
		w.notify()
	}
}

// RaiseLogStart removes the records below an offset from what readers see; -1 is the high watermark. Segments that lie
// below as a whole go with the next retention. It returns the new log start offset.
func (l *Log) RaiseLogStart(tp log.TopicPartition, offset int64) (int64, error) {
	p, err := l.outsidePartition(tp)
	if err != nil {
		return 0, err
	}
	start, high := p.start.Load(), p.high.Load()
	if offset == -1 {
		offset = high
	}
	if offset < 0 || offset > high {
		return start, &log.OutOfRangeError{TopicPartition: tp, Offset: offset, LogStart: start, End: high}
	}
	if offset <= start {
		return start, nil
	}
	if err := p.removeBelow(offset); err != nil {
		return p.start.Load(), fmt.Errorf("delete records of %s-%d: %w", tp.Topic, tp.Partition, err)
	}
	return p.start.Load(), nil
}

// within returns the transactions that were aborted and reach into the offsets from first to before end.
func (x *abortIndex) within(first, end int64) []Aborted {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var out []Aborted
	for pid, spans := range x.byPID {
		for _, s := range spans {
			if s.first < end && s.end >= first {
				out = append(out, Aborted{Producer: pid, First: s.first})
			}
		}
	}
	return out
}

// NewProducerID returns a producer id that no producer of this log ever had: the clock's milliseconds and microseconds
// stand above a count, so that nothing has to be stored.
func (l *Log) NewProducerID() int64 {
	const millisBits, microsBits = 20, 10
	now := time.Now().UnixMicro()
	l.producerMu.Lock()
	defer l.producerMu.Unlock()
	l.nextPID = max(l.nextPID, now/1000<<millisBits|now%1000<<microsBits)
	l.nextPID++
	return l.nextPID - 1
}

// Summary is what a topic is, without a look at its partitions.
type Summary struct {
	Name       string
	ID         [16]byte
	Partitions int32
	Config     log.TopicConfig
}

func (t *topic) summary() Summary {
	return Summary{Name: t.name, ID: t.id, Partitions: int32(len(t.partitions)), Config: *t.config()}
}

// Name looks a topic up; log.ErrUnknownTopic.
func (l *Log) Name(name string) (Summary, error) {
	if err := l.usable(); err != nil {
		return Summary{}, err
	}
	l.topicMu.RLock()
	t := l.topics[name]
	l.topicMu.RUnlock()
	if t == nil {
		return Summary{}, fmt.Errorf("%s: %w", name, log.ErrUnknownTopic)
	}
	return t.summary(), nil
}

// Names returns all topics by name.
func (l *Log) Names() []Summary {
	all := l.topicList()
	out := make([]Summary, 0, len(all))
	for _, t := range all {
		out = append(out, t.summary())
	}
	return out
}
