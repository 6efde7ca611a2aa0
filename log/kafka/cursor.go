package kafka

import (
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/trunkline/trunkline/log"
)

// cursor is one assigned partition: what was fetched of it and how much of that was handed out.
type cursor struct {
	tp     log.TopicPartition
	next   int64 // offset of the next record
	stable int64 // end of what committed readers may see, as far as it is known

	held []*kgo.Record // fetched, control records too; from last on, for a Seek back into the last Fetch
	last int           // where the last Fetch begins in held
	at   int           // the first in held that was not handed out

	paused      bool
	stopped     bool  // by an error, until Seek
	err         error // to return from Poll once
	started     bool  // the client reads it
	soughtEarly bool  // Seek came before the client read it
	moved       bool  // next went past something invisible, and no Fetch has told
	unsettled   bool  // it is not known whether next is the end

	records []log.Record // of the last Fetch
}

// add appends what was fetched.
func (cur *cursor) add(records []*kgo.Record, stable int64) {
	cur.stable = max(cur.stable, stable)
	expected := cur.next
	if n := len(cur.held); n > cur.at {
		expected = cur.held[n-1].Offset + 1
	}
	for len(records) > 0 && records[0].Offset < expected {
		records = records[1:] // the client reads whole batches
	}
	if len(records) == 0 {
		return
	}
	kept := copy(cur.held, cur.held[cur.last:])
	clear(cur.held[kept:])
	cur.held = append(cur.held[:kept], records...)
	cur.at -= cur.last
	cur.last = 0
	cur.unsettled = true
}

// hand takes the next Fetch. Control records end up in no Fetch, but its Next is past them.
func (cur *cursor) hand(maxRecords, maxBytes int) (log.Fetch, bool) {
	if cur.at == len(cur.held) && !cur.moved {
		return log.Fetch{}, false
	}
	cur.moved = false
	cur.last = cur.at
	cur.records = cur.records[:0]
	bytes := 0
	for ; cur.at < len(cur.held); cur.at++ {
		r := cur.held[cur.at]
		if r.Attrs.IsControl() {
			cur.next = r.Offset + 1
			continue
		}
		size := len(r.Key) + len(r.Value)
		if len(cur.records) > 0 && (len(cur.records) == maxRecords || bytes+size > maxBytes) {
			break
		}
		bytes += size
		cur.records = append(cur.records, fromKafka(r))
		cur.next = r.Offset + 1
	}
	cur.stable = max(cur.stable, cur.next)
	return log.Fetch{TopicPartition: cur.tp, Records: cur.records, Next: cur.next, HighWatermark: cur.stable}, true
}

// fromKafka copies no bytes: they belong to the client's fetch, which lives as long as they are used.
func fromKafka(r *kgo.Record) log.Record {
	out := log.Record{Key: r.Key, Value: r.Value, Timestamp: r.Timestamp.UnixMilli(), Offset: r.Offset}
	if len(r.Headers) > 0 {
		out.Headers = make([]log.Header, len(r.Headers))
		for i, h := range r.Headers {
			out.Headers[i] = log.Header{Key: h.Key, Value: h.Value}
		}
	}
	return out
}

// rewind moves to an offset that is held, and reports whether it is.
func (cur *cursor) rewind(next int64) bool {
	if cur.stopped || cur.soughtEarly {
		return false
	}
	for i := cur.last; i < len(cur.held); i++ {
		if cur.held[i].Offset == next {
			cur.at, cur.last, cur.next, cur.moved = i, i, next, false
			return true
		}
	}
	return next == cur.next && cur.at == len(cur.held) && cur.started
}

// seek forgets what is held.
func (cur *cursor) seek(next int64) {
	clear(cur.held)
	cur.held, cur.last, cur.at = cur.held[:0], 0, 0
	cur.next, cur.stopped, cur.err, cur.moved, cur.unsettled = next, false, nil, false, true
	cur.stable = 0
}
