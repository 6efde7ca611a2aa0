package disk

import (
	"encoding/binary"
	"fmt"

	"github.com/trunkline/trunkline/log"
)

// Headers of a record of _trunkline.positions, whose key is the producer's id and whose value is its mark.
//
//	trunkline.producer  int64 producer id, int16 epoch
//	trunkline.touched   for each partition: 16 bytes topic id, int32 partition, int64 first offset of the transaction
//	trunkline.unset     empty; there is no mark, and the value means nothing
const (
	producerHeader = "trunkline.producer"
	touchedHeader  = "trunkline.touched"
	unsetHeader    = "trunkline.unset"

	producerSize = 8 + 2
	touchSize    = 16 + 4 + 8
)

func (d decision) record() log.Record {
	owner := binary.BigEndian.AppendUint64(make([]byte, 0, producerSize), uint64(d.pid))
	owner = binary.BigEndian.AppendUint16(owner, uint16(d.epoch))
	r := log.Record{Key: []byte(d.id), Value: d.mark, Headers: []log.Header{{Key: producerHeader, Value: owner}}}
	if len(d.touched) > 0 {
		b := make([]byte, 0, len(d.touched)*touchSize)
		for _, t := range d.touched {
			b = append(b, t.topic[:]...)
			b = binary.BigEndian.AppendUint32(b, uint32(t.partition))
			b = binary.BigEndian.AppendUint64(b, uint64(t.first))
		}
		r.Headers = append(r.Headers, log.Header{Key: touchedHeader, Value: b})
	}
	if d.mark == nil {
		// A null value would be a tombstone, and compaction would forget the producer's epoch with it.
		r.Value = []byte{}
		r.Headers = append(r.Headers, log.Header{Key: unsetHeader})
	}
	return r
}

func parseDecision(r *log.Record) (decision, error) {
	d := decision{id: string(r.Key), mark: append([]byte{}, r.Value...)}
	found := false
	for _, h := range r.Headers {
		switch h.Key {
		case producerHeader:
			if len(h.Value) != producerSize {
				return d, fmt.Errorf("header %s has %d bytes", h.Key, len(h.Value))
			}
			d.pid = int64(binary.BigEndian.Uint64(h.Value))
			d.epoch = int16(binary.BigEndian.Uint16(h.Value[8:]))
			found = true
		case touchedHeader:
			if len(h.Value)%touchSize != 0 {
				return d, fmt.Errorf("header %s has %d bytes", h.Key, len(h.Value))
			}
			for b := h.Value; len(b) > 0; b = b[touchSize:] {
				t := touch{partition: int32(binary.BigEndian.Uint32(b[16:])), first: int64(binary.BigEndian.Uint64(b[20:]))}
				copy(t.topic[:], b)
				d.touched = append(d.touched, t)
			}
		case unsetHeader:
			d.mark = nil
		}
	}
	if !found {
		return d, fmt.Errorf("header %s is missing", producerHeader)
	}
	return d, nil
}

// decide appends the record that decides a commit, or that an epoch begins, and returns when it is durable. Errors that
// wrap errUnsure leave open whether it is.
func (l *Log) decide(d decision) error {
	p, err := l.partition(log.TopicPartition{Topic: positionsTopic})
	if err != nil {
		return err
	}
	if _, err := p.appendRecords([]log.Record{d.record()}); err != nil {
		return fmt.Errorf("store position: %w", err)
	}
	return nil
}

// loadPositions fills the slots and returns every decision that is still on record.
func (l *Log) loadPositions() (map[fate]bool, error) {
	p, err := l.partition(log.TopicPartition{Topic: positionsTopic})
	if err != nil {
		return nil, err
	}
	decided := map[fate]bool{}
	err = p.scan(func(r *log.Record) error {
		if r.Value == nil {
			return nil
		}
		d, err := parseDecision(r)
		if err != nil {
			return fmt.Errorf("read position at offset %d: %w", r.Offset, err)
		}
		s := l.slots[d.id]
		if s == nil {
			s = &slot{id: d.id}
			l.slots[d.id] = s
		}
		s.pid, s.epoch, s.mark = d.pid, d.epoch, d.mark
		l.nextPID = max(l.nextPID, d.pid+1)
		for _, f := range d.fates() {
			decided[f] = true
		}
		return nil
	})
	return decided, err
}

// settle ends every transaction that a crash left open in a partition: by commit if its decision is on record, else by
// abort. The markers are durable before anything is served.
func (l *Log) settle(decided map[fate]bool) error {
	for _, p := range l.partitionList() {
		if err := p.settle(decided); err != nil {
			return fmt.Errorf("settle %s-%d: %w", p.tp.Topic, p.tp.Partition, err)
		}
	}
	return nil
}
