package disk

import (
	"errors"

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
type chunk struct {
	raw     []byte // whole batches, all below the last stable offset
	left    []byte // the end of raw that is not decoded yet
	decoder batch.Decoder
	records []log.Record
	at      int   // the first of records that was not returned
	end     int64 // the offset behind what was decoded
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
	k.decoder.Reset()
	clear(k.records)
	k.records, k.at, k.left = k.records[:0], 0, nil
	if cap(k.records) > keepRecords {
		k.records = nil
	}
	if cap(k.raw) > 2*readBytes {
		k.raw = nil
	}
	c.free = append(c.free, k)
}

// fetch returns the next records of a partition. false: there is nothing new.
func (c *consumer) fetch(cur *cursor, maxRecords int) (log.Fetch, bool, error) {
	if k := cur.chunk; k != nil && k.at == len(k.records) && len(k.left) == 0 {
		c.recycle(cur)
	}
	if cur.chunk == nil || cur.chunk.at == len(cur.chunk.records) {
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

// fill decodes until there are maxRecords records or MaxBytes of them, or the end is reached. Afterwards the cursor's
// chunk is nil if nothing was there, and has an end past cur.next and perhaps no records if all of it was invisible.
func (c *consumer) fill(cur *cursor, maxRecords int) error {
	k := cur.chunk
	if k == nil && cur.ahead.offset != cur.next {
		cur.ahead = place{offset: cur.next}
	}
	if k != nil {
		k.decoder.Reset()
		clear(k.records)
		k.records, k.at = k.records[:0], 0
	}
	for next, size := cur.next, 0; len(k.decoded()) < maxRecords && size < c.o.MaxBytes; {
		if k == nil || len(k.left) == 0 {
			if len(k.decoded()) > 0 {
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
				return err
			}
			cur.ahead, k.raw, k.left = ahead, raw, raw
			if len(raw) == 0 {
				k.end = ahead.offset
				return nil
			}
		}
		n, err := k.decode(cur.p, next)
		if err != nil {
			if len(k.records) > 0 {
				k.left, cur.ahead = nil, place{} // what came before is returned first; the next read meets the damage again
				return nil
			}
			return err
		}
		size += n
		next = max(next, k.end)
	}
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
	size := 0
	for i := from; i < len(k.records); i++ {
		size += len(k.records[i].Key) + len(k.records[i].Value)
	}
	return size, nil
}
