package kafka

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/document"
)

// offsets are places in partitions, by topic and number.
type offsets map[string]map[int32]int64

func (o offsets) get(topic string, partition int32) (int64, bool) {
	at, ok := o[topic][partition]
	return at, ok
}

func (o offsets) set(topic string, partition int32, at int64) {
	if o[topic] == nil {
		o[topic] = map[int32]int64{}
	}
	o[topic][partition] = at
}

func (o offsets) remove(topic string, partition int32) {
	if delete(o[topic], partition); len(o[topic]) == 0 {
		delete(o, topic)
	}
}

const positionVersion = 1

// position is what a source of type kafka stores in the log:
//
//	{"v":1,"next":{"orders":{"0":17}},"until":{"orders":{"0":20}},"tables":[…],"names":{"orders":["public","orders"]}}
type position struct {
	Version int             `json:"v"`
	Next    offsets         `json:"next"`            // the offset to be read next
	Until   offsets         `json:"until,omitempty"` // records before it were there at the first start
	Tables  json.RawMessage `json:"tables,omitempty"`

	// Names are the tables of the changes in a topic: a tombstone does not say its own.
	Names map[string]document.Name `json:"names,omitempty"`
}

func parsePosition(p connectors.Position) (position, error) {
	out := position{Next: offsets{}, Until: offsets{}, Names: map[string]document.Name{}}
	if p == nil {
		return out, nil
	}
	if err := json.Unmarshal(p, &out); err != nil || out.Version != positionVersion {
		return out, fmt.Errorf("parse position: not one of this source: %w", connectors.ErrPositionLost)
	}
	return out, nil
}

// ends are the first offset that is there of each partition, and the one behind the last that is decided.
type ends struct{ first, last offsets }

func endsOf(ctx context.Context, admin *kadm.Client, topics map[string][]int32) (ends, error) {
	e := ends{offsets{}, offsets{}}
	names := make([]string, 0, len(topics))
	for name := range topics {
		names = append(names, name)
	}
	if len(names) == 0 {
		return e, nil
	}
	slices.Sort(names)
	first, err := admin.ListStartOffsets(ctx, names...)
	if err == nil {
		err = first.Error()
	}
	if err != nil {
		return e, fmt.Errorf("list offsets: %w", translate(err))
	}
	last, err := admin.ListCommittedOffsets(ctx, names...)
	if err == nil {
		err = last.Error()
	}
	if err != nil {
		return e, fmt.Errorf("list offsets: %w", translate(err))
	}
	first.Each(func(o kadm.ListedOffset) { e.first.set(o.Topic, o.Partition, o.Offset) })
	last.Each(func(o kadm.ListedOffset) { e.last.set(o.Topic, o.Partition, o.Offset) })
	return e, nil
}

// verify reports a place that the cluster can no longer serve.
func (e ends) verify(topic string, partition int32, at int64) error {
	first, _ := e.first.get(topic, partition)
	last, _ := e.last.get(topic, partition)
	switch {
	case at < first:
		return fmt.Errorf("read topic %s, partition %d: offsets %d to %d were deleted before they were read (retention): %w", topic, partition, at, first-1, connectors.ErrPositionLost)
	case at > last:
		return fmt.Errorf("read topic %s, partition %d: offset %d is behind its end at %d: it was made anew, or lost records: %w", topic, partition, at, last, connectors.ErrPositionLost)
	}
	return nil
}
