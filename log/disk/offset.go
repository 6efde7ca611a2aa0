package disk

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/trunkline/trunkline/log"
)

// A record of _trunkline.offsets has the key ["group","topic",partition] in JSON and the offset in decimal as its value;
// a tombstone forgets it.

func offsetKey(group string, tp log.TopicPartition) []byte {
	b, err := json.Marshal([]any{group, tp.Topic, tp.Partition})
	if err != nil {
		panic(err) // two strings and a number always encode
	}
	return b
}

func parseOffsetKey(b []byte) (group string, tp log.TopicPartition, err error) {
	into := []any{&group, &tp.Topic, &tp.Partition}
	if err := json.Unmarshal(b, &into); err != nil {
		return "", tp, err
	}
	if len(into) != 3 {
		return "", tp, fmt.Errorf("offset key has %d parts", len(into))
	}
	return group, tp, nil
}

// storeOffsets makes offsets of a group durable. The caller holds g.mu or is the only one who may change them.
func (l *Log) storeOffsets(g *group, offsets log.Offsets) error {
	if len(offsets) == 0 {
		return nil
	}
	records := make([]log.Record, 0, len(offsets))
	for tp, next := range offsets {
		records = append(records, log.Record{Key: offsetKey(g.name, tp), Value: strconv.AppendInt(nil, next, 10)})
	}
	if err := l.appendOffsets(records); err != nil {
		return fmt.Errorf("store offsets of group %q: %w", g.name, err)
	}
	for tp, next := range offsets {
		g.offsets[tp] = next
		g.noteMetadata(tp, "")
	}
	return nil
}

// forgetOffsets removes what a group committed for some partitions. The caller holds g.mu.
func (l *Log) forgetOffsets(g *group, tps []log.TopicPartition) error {
	if len(tps) == 0 {
		return nil
	}
	records := make([]log.Record, 0, len(tps))
	for _, tp := range tps {
		records = append(records, log.Record{Key: offsetKey(g.name, tp)})
	}
	if err := l.appendOffsets(records); err != nil {
		return fmt.Errorf("forget offsets of group %q: %w", g.name, err)
	}
	for _, tp := range tps {
		delete(g.offsets, tp)
		g.noteMetadata(tp, "")
	}
	return nil
}

func (l *Log) appendOffsets(records []log.Record) error {
	p, err := l.partition(log.TopicPartition{Topic: offsetsTopic})
	if err != nil {
		return err
	}
	_, err = p.appendRecords(records)
	return err
}

// forgetTopic removes what all groups committed for a topic.
func (l *Log) forgetTopic(name string) error {
	for _, g := range l.groupList() {
		if err := l.forgetTopicOf(g, name); err != nil {
			return err
		}
	}
	return nil
}

func (l *Log) forgetTopicOf(g *group, name string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	var gone []log.TopicPartition
	for tp := range g.offsets {
		if tp.Topic == name {
			gone = append(gone, tp)
		}
	}
	slices.SortFunc(gone, comparePartitions)
	return l.forgetOffsets(g, gone)
}

// loadOffsets fills the groups. A crash in the middle of a deletion may have kept offsets of a topic that is gone; they
// are forgotten now, before a new topic takes the name.
func (l *Log) loadOffsets() error {
	p, err := l.partition(log.TopicPartition{Topic: offsetsTopic})
	if err != nil {
		return err
	}
	if err := l.scanOffsets(p); err != nil {
		return err
	}
	for _, g := range l.groupList() {
		var gone []log.TopicPartition
		for tp := range g.offsets {
			if l.topics[tp.Topic] == nil {
				gone = append(gone, tp)
			}
		}
		slices.SortFunc(gone, comparePartitions)
		if err := l.forgetOffsets(g, gone); err != nil {
			return err
		}
	}
	return nil
}

func (l *Log) scanOffsets(p *partition) error {
	return p.scan(func(r *log.Record) error {
		name, tp, err := parseOffsetKey(r.Key)
		if err != nil {
			return fmt.Errorf("read committed offset at offset %d: %w", r.Offset, err)
		}
		g := l.group(name)
		if r.Value == nil {
			delete(g.offsets, tp)
			g.noteMetadata(tp, "")
			return nil
		}
		next, err := strconv.ParseInt(string(r.Value), 10, 64)
		if err != nil {
			return fmt.Errorf("read committed offset at offset %d: %w", r.Offset, err)
		}
		g.offsets[tp] = next
		g.noteMetadata(tp, commitMetadata(r))
		return nil
	})
}
