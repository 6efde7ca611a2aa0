package disk

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/batch"
)

// Errors of batches that clients of the wire protocol made. Callers compare with errors.Is.
var (
	// ErrSequence says that a batch of an idempotent producer is not the one that follows its last.
	ErrSequence = errors.New("batch is out of its producer's sequence")
	// ErrProducerEpoch says that a newer epoch of the producer has written.
	ErrProducerEpoch = errors.New("producer has a newer epoch")
)

const (
	sequenceWindow    = 5              // batches that a producer may have in flight, as in Kafka
	sequenceRetention = 24 * time.Hour // how long an idle producer is remembered
	maxSequences      = 50_000         // producers of one partition above which idle ones are looked for
)

// sequence is what a partition remembers of one idempotent producer: its last batches, by which one that was sent twice
// is known.
type sequence struct {
	epoch   int16
	touched int64 // ms; of the last batch
	runs    [sequenceWindow]sequenceRun
	n       int // runs in use, the oldest first
}

// sequenceRun is one batch.
type sequenceRun struct {
	first, last int32 // sequence numbers
	offset      int64 // of its first record
}

// next is the sequence number after one; Kafka's numbers wrap to zero.
func nextSequence(n int32) int32 {
	if n == math.MaxInt32 {
		return 0
	}
	return n + 1
}

func lastSequence(first, delta int32) int32 {
	if first > math.MaxInt32-delta {
		return delta - (math.MaxInt32 - first) - 1
	}
	return first + delta
}

func firstSequence(last, delta int32) int32 {
	if last >= delta {
		return last - delta
	}
	return math.MaxInt32 - (delta - last - 1)
}

// delta is the number of records behind the first.
func (r sequenceRun) delta() int32 {
	if r.last >= r.first {
		return r.last - r.first
	}
	return r.last + (math.MaxInt32 - r.first) + 1
}

func (s *sequence) add(r sequenceRun) {
	if s.n == sequenceWindow {
		copy(s.runs[:], s.runs[1:])
		s.n--
	}
	s.runs[s.n] = r
	s.n++
}

// checkSequence decides about a batch before it is appended; mu is held. duplicate: it is there already, at offset. A
// producer that is not known here is taken at its word, unless nothing was ever written: then records before are missing.
func (p *partition) checkSequence(v batch.View) (offset int64, duplicate bool, err error) {
	owner := v.Producer()
	if owner.ID < 0 {
		return 0, false, nil
	}
	s := p.sequences[owner.ID]
	if s == nil {
		if owner.Sequence != 0 && p.active().End().Offset == 0 {
			return 0, false, fmt.Errorf("%w: it begins with %d", ErrSequence, owner.Sequence)
		}
		return 0, false, nil
	}
	if owner.Epoch < s.epoch {
		return 0, false, fmt.Errorf("%w: %d, the batch has %d", ErrProducerEpoch, s.epoch, owner.Epoch)
	}
	if owner.Epoch > s.epoch {
		if owner.Sequence != 0 {
			return 0, false, fmt.Errorf("%w: a new epoch begins with %d", ErrSequence, owner.Sequence)
		}
		return 0, false, nil
	}
	last := lastSequence(owner.Sequence, v.LastOffsetDelta())
	for _, r := range s.runs[:s.n] {
		if r.first == owner.Sequence && r.last == last {
			return r.offset, true, nil
		}
	}
	if s.n > 0 {
		if want := nextSequence(s.runs[s.n-1].last); owner.Sequence != want {
			return 0, false, fmt.Errorf("%w: %d came, %d was due", ErrSequence, owner.Sequence, want)
		}
	}
	return 0, false, nil
}

// noteSequence remembers a batch that was appended; mu is held.
func (p *partition) noteSequence(v batch.View) {
	if v.Producer().ID < 0 {
		return
	}
	if p.sequences == nil {
		p.sequences = map[int64]*sequence{}
	}
	if len(p.sequences) >= maxSequences {
		expireSequences(p.sequences, time.Now())
	}
	noteSequence(p.sequences, v)
}

func noteSequence(all map[int64]*sequence, v batch.View) {
	owner := v.Producer()
	if owner.ID < 0 || owner.Sequence < 0 {
		return
	}
	s := all[owner.ID]
	if s == nil || s.epoch != owner.Epoch {
		s = &sequence{epoch: owner.Epoch}
		all[owner.ID] = s
	}
	s.touched = v.MaxTimestamp()
	s.add(sequenceRun{first: owner.Sequence, last: lastSequence(owner.Sequence, v.LastOffsetDelta()), offset: v.BaseOffset()})
}

// forgetSequences drops what was noted of batches at and above an offset, which a failed sync took; mu is held.
func (p *partition) forgetSequences(from int64) {
	for id, s := range p.sequences {
		for s.n > 0 && s.runs[s.n-1].offset >= from {
			s.n--
		}
		if s.n == 0 {
			delete(p.sequences, id)
		}
	}
}

// expireSequences forgets producers that were idle for long.
func expireSequences(all map[int64]*sequence, now time.Time) {
	limit := now.Add(-sequenceRetention).UnixMilli()
	for id, s := range all {
		if s.touched < limit {
			delete(all, id)
		}
	}
}

// ActiveProducer is what a partition knows of a producer that writes to it.
type ActiveProducer struct {
	ID           int64
	Epoch        int16
	LastSequence int32 // -1: it numbers nothing
	Touched      int64 // ms; when its last numbered batch was stamped; -1: there is none
	OpenSince    int64 // offset at which its open transaction begins; -1: it has none
}

// Producers returns the producers that a partition remembers, by id: idempotent ones, and those with an open transaction.
func (l *Log) Producers(tp log.TopicPartition) ([]ActiveProducer, error) {
	p, err := l.outsidePartition(tp)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	found := map[int64]ActiveProducer{}
	for id, s := range p.sequences {
		a := ActiveProducer{ID: id, Epoch: s.epoch, LastSequence: -1, Touched: s.touched, OpenSince: -1}
		if s.n > 0 {
			a.LastSequence = s.runs[s.n-1].last
		}
		found[id] = a
	}
	for id, t := range p.open {
		a, ok := found[id]
		if !ok {
			a = ActiveProducer{ID: id, LastSequence: -1, Touched: -1}
		}
		a.Epoch, a.OpenSince = t.epoch, t.first
		found[id] = a
	}
	return slices.SortedFunc(maps.Values(found), func(a, b ActiveProducer) int { return cmp.Compare(a.ID, b.ID) }), nil
}
