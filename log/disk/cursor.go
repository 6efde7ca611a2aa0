package disk

import (
	"errors"
	"slices"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/batch"
)

// cursor is a consumer's place in one partition.
type cursor struct {
	p       *partition
	next    int64 // offset of the next record to return
	ahead   place // where the next read from the file begins
	paused  bool
	stopped bool // by an error, until Seek

	chunk *chunk // nil: nothing is read ahead
}

// chunk holds batches as they stand in the file and the records of some of them. Consumers use chunks again.
//
// Records that are left of one Poll are the first of the next, together with those behind them, so that a reader who asks for
// a number of records gets that many and not the ends of batches in between. They are copied, which is at most one batch.
type chunk struct {
	raw     []byte // whole batches, all below the last stable offset
	left    []byte // the end of raw that is not decoded yet
	decoder batch.Decoder
	records []log.Record
	at      int   // the first of records that was not returned
	fresh   int   // the first of records that decoder has made; those before are in kept
	pinned  bool  // some of the records may point into raw
	end     int64 // the offset behind what was decoded

	kept        []byte
	keptHeaders []log.Header
}

// readBytes is how much is read from a file at once, if the consumer's MaxBytes is not less.
const readBytes = 1 << 20

const (
	keepRecords = 64 << 10 // how many records a chunk may have room for when it is kept
	maxChunks   = 8        // that a consumer reads ahead at once, whatever the number of its partitions
)

// takeChunk returns a chunk for the partition whose turn it is. If there are too many, what was read ahead for the one
// whose turn is farthest away is forgotten.
func (c *consumer) takeChunk() *chunk {
	if c.chunks >= maxChunks && len(c.free) == 0 {
		for i := range c.cursors {
			k := (c.turn + len(c.cursors) - 1 - i) % len(c.cursors)
			if c.cursors[k].chunk != nil {
				c.recycle(c.cursors[k])
				break
			}
		}
	}
	if n := len(c.free); n > 0 {
		k := c.free[n-1]
		c.free = c.free[:n-1]
		return k
	}
	c.chunks++
	return &chunk{}
}

// recycle takes a cursor's chunk away. What was read ahead is forgotten.
func (c *consumer) recycle(cur *cursor) {
	k := cur.chunk
	if k == nil {
		return
	}
	cur.chunk = nil
	k.empty()
	k.left = nil
	if cap(k.records) > keepRecords {
		k.records = nil
	}
	if cap(k.raw) > 2*readBytes {
		k.raw = nil
	}
	clear(k.keptHeaders)
	if cap(k.kept) > 2*readBytes {
		k.kept, k.keptHeaders = nil, nil
	}
	c.free = append(c.free, k)
}

// fetch returns the next records of a partition. false: there is nothing new.
func (c *consumer) fetch(cur *cursor, maxRecords int) (log.Fetch, bool, error) {
	if k := cur.chunk; k != nil && k.at == len(k.records) && len(k.left) == 0 {
		c.recycle(cur)
	}
	if cur.chunk == nil || cur.chunk.wants(maxRecords) {
		if err := c.fill(cur, maxRecords); err != nil {
			c.recycle(cur)
			return log.Fetch{}, false, err
		}
	}
	k := cur.chunk
	if k == nil || (len(k.records) == 0 && k.end <= cur.next) {
		return log.Fetch{}, false, nil
	}
	n := min(len(k.records)-k.at, maxRecords)
	f := log.Fetch{TopicPartition: cur.p.tp, Records: k.records[k.at : k.at+n : k.at+n], Next: k.end, HighWatermark: cur.p.stable.Load()}
	k.at += n
	if k.at < len(k.records) {
		f.Next = k.records[k.at].Offset
	}
	cur.next = f.Next
	return f, true, nil
}

// wants reports whether more should be decoded before maxRecords are returned.
func (k *chunk) wants(maxRecords int) bool {
	waiting := len(k.records) - k.at
	return waiting == 0 || waiting < maxRecords && k.at >= k.fresh
}

// empty forgets the records.
func (k *chunk) empty() {
	k.decoder.Reset()
	clear(k.records)
	k.records, k.at, k.fresh, k.pinned = k.records[:0], 0, 0, false
}

// carry makes room behind the records that were not returned yet.
func (k *chunk) carry() {
	if k.at == len(k.records) {
		k.empty()
		return
	}
	k.keep(k.records[k.at:])
	k.decoder.Reset()
	n := copy(k.records, k.records[k.at:])
	clear(k.records[n:])
	k.records, k.at, k.fresh, k.pinned = k.records[:n], 0, n, false
}

// keep makes records independent of the decoder and of raw.
func (k *chunk) keep(records []log.Record) {
	size, headers := recordBytes(records), 0
	for i := range records {
		headers += len(records[i].Headers)
		for _, h := range records[i].Headers {
			size += len(h.Value)
		}
	}
	k.kept, k.keptHeaders = slices.Grow(k.kept[:0], size), slices.Grow(k.keptHeaders[:0], headers)
	for i := range records {
		r := &records[i]
		r.Key, r.Value = k.own(r.Key), k.own(r.Value)
		start := len(k.keptHeaders)
		for _, h := range r.Headers {
			k.keptHeaders = append(k.keptHeaders, log.Header{Key: h.Key, Value: k.own(h.Value)})
		}
		r.Headers = k.keptHeaders[start:len(k.keptHeaders):len(k.keptHeaders)]
	}
}

// own copies bytes into kept, which has room for them. nil stays nil.
func (k *chunk) own(b []byte) []byte {
	if b == nil {
		return nil
	}
	start := len(k.kept)
	k.kept = append(k.kept, b...)
	return k.kept[start:len(k.kept):len(k.kept)]
}

func recordBytes(records []log.Record) int {
	size := 0
	for i := range records {
		size += len(records[i].Key) + len(records[i].Value)
	}
	return size
}

// fill decodes until there are maxRecords records or MaxBytes of them, or the end is reached. Afterwards the cursor's
// chunk is nil if nothing was there, and has an end past cur.next and perhaps no records if all of it was invisible.
func (c *consumer) fill(cur *cursor, maxRecords int) error {
	k := cur.chunk
	if k == nil && cur.ahead.offset != cur.next {
		cur.ahead = place{offset: cur.next}
	}
	next, size := cur.next, 0
	if k != nil {
		if k.carry(); len(k.records) > 0 {
			next, size = k.end, recordBytes(k.records)
		}
	}
	for len(k.decoded()) < maxRecords && size < c.o.MaxBytes {
		if k == nil || len(k.left) == 0 {
			if len(k.decoded()) > 0 && k.pinned {
				return nil // raw may not be overwritten while records point into it
			}
			if next >= cur.p.stable.Load() && next <= cur.p.high.Load() && next >= cur.p.start.Load() && !cur.p.removed.Load() {
				return nil
			}
			if k == nil {
				k = c.takeChunk()
				cur.chunk = k
			}
			k.end = next
			raw, ahead, err := cur.p.read(k.raw, cur.ahead, min(readBytes, c.o.MaxBytes))
			if err != nil {
				return k.stopped(cur, err)
			}
			cur.ahead, k.raw, k.left = ahead, raw, raw
			if len(raw) == 0 {
				k.end = ahead.offset
				return nil
			}
		}
		n, err := k.decode(cur.p, next)
		if err != nil {
			return k.stopped(cur, err)
		}
		size += n
		next = max(next, k.end)
	}
	return nil
}

// stopped returns the error unless records came before it: they are returned first, and the next read meets it again.
func (k *chunk) stopped(cur *cursor, err error) error {
	if len(k.records) == 0 {
		return err
	}
	k.left, cur.ahead = nil, place{}
	return nil
}

func (k *chunk) decoded() []log.Record {
	if k == nil {
		return nil
	}
	return k.records
}

// decode appends the records of the first batch that is left, but those below next and those that are not to be seen.
// It returns how many bytes they are.
func (k *chunk) decode(p *partition, next int64) (int, error) {
	v, rest, err := batch.Parse(k.left)
	if err != nil {
		return 0, p.corrupt(next, next, err)
	}
	k.left = rest
	end := v.NextOffset()
	if v.IsControl() || v.Transactional() && p.isAborted(v.Producer().ID, v.BaseOffset()) {
		k.end = max(k.end, end)
		return 0, nil
	}
	from := len(k.records)
	k.pinned = k.pinned || v.Codec() == log.CompressionNone
	if k.records, err = k.decoder.Decode(k.records, v); err != nil {
		if errors.Is(err, batch.ErrCorrupt) || errors.Is(err, batch.ErrTooLarge) {
			return 0, p.corrupt(v.BaseOffset(), v.LastOffset(), err)
		}
		return 0, err
	}
	k.end = max(k.end, end)
	skip := from
	for skip < len(k.records) && k.records[skip].Offset < next {
		skip++
	}
	if skip > from {
		k.records = append(k.records[:from], k.records[skip:]...)
	}
	return recordBytes(k.records[from:]), nil
}
