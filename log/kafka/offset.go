package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/trunkline/trunkline/log"
)

// bounds are the three ends of partitions.
type bounds struct {
	start, end, stable kadm.ListedOffsets
}

// ends reads them. While a partition has no leader it waits for one, as long as that may take: an end that is not known
// must not look like one that is.
func (l *Log) ends(ctx context.Context, names []string) (bounds, error) {
	var b bounds
	for _, list := range []struct {
		into *kadm.ListedOffsets
		read func(context.Context, ...string) (kadm.ListedOffsets, error)
	}{
		// The order keeps start <= stable <= end while the log grows.
		{&b.start, l.admin.ListStartOffsets}, {&b.stable, l.admin.ListCommittedOffsets}, {&b.end, l.admin.ListEndOffsets},
	} {
		err := patiently(ctx, func() (err error) {
			if *list.into, err = list.read(ctx, names...); err == nil {
				err = list.into.Error()
			}
			return err
		})
		if err != nil {
			return b, fmt.Errorf("list offsets: %w", translate(err))
		}
	}
	return b, nil
}

// partition puts together what is known of one. The number of segments follows from size and settings: brokers do not
// tell it.
func (b bounds) partition(d kadm.PartitionDetail, bytes, segment int64) log.Partition {
	p := log.Partition{Bytes: bytes, Leader: d.Leader, Replicas: d.Replicas, InSync: d.ISR, LeaderEpoch: d.LeaderEpoch}
	for _, list := range []struct {
		into *int64
		from kadm.ListedOffsets
	}{{&p.LogStart, b.start}, {&p.HighWatermark, b.end}, {&p.LastStable, b.stable}} {
		if o, ok := list.from.Lookup(d.Topic, d.Partition); ok && o.Err == nil {
			*list.into = o.Offset
		}
	}
	p.Segments = 1 + int(bytes/max(1, segment))
	return p
}

// sizes returns the bytes of each partition on its leader. A broker that does not tell, or may not, counts as nothing:
// a size is for people and decides nothing.
func (l *Log) sizes(ctx context.Context, details kadm.TopicDetails, names []string) map[log.TopicPartition]int64 {
	var set kadm.TopicsSet
	for _, name := range names {
		for p := range details[name].Partitions {
			set.Add(name, p)
		}
	}
	out := map[log.TopicPartition]int64{}
	brokers, err := l.admin.DescribeAllLogDirs(ctx, set)
	if err != nil && len(brokers) == 0 {
		return out
	}
	for broker, dirs := range brokers {
		dirs.EachPartition(func(p kadm.DescribedLogDirPartition) {
			if details[p.Topic].Partitions[p.Partition].Leader == broker && !p.IsFuture {
				out[log.TopicPartition{Topic: p.Topic, Partition: p.Partition}] += p.Size
			}
		})
	}
	return out
}

// OffsetAt returns the offset of the first record stamped at or after t, the end if there is none.
func (l *Log) OffsetAt(ctx context.Context, tp log.TopicPartition, t time.Time) (int64, error) {
	if err := l.usable(); err != nil {
		return 0, err
	}
	if _, err := l.checkPartition(ctx, tp); err != nil {
		return 0, err
	}
	listed, err := l.admin.ListOffsetsAfterMilli(ctx, t.UnixMilli(), tp.Topic)
	if err != nil {
		return 0, fmt.Errorf("find offset at a time in %s: %w", tp.Topic, translate(err))
	}
	return lookup(listed, tp)
}

// lookup takes one partition out of an answer.
func lookup(listed kadm.ListedOffsets, tp log.TopicPartition) (int64, error) {
	o, ok := listed.Lookup(tp.Topic, tp.Partition)
	switch {
	case !ok:
		return 0, fmt.Errorf("list offsets of %s-%d: %w", tp.Topic, tp.Partition, log.ErrUnknownTopic)
	case o.Err != nil:
		return 0, fmt.Errorf("list offsets of %s-%d: %w", tp.Topic, tp.Partition, translate(o.Err))
	}
	return o.Offset, nil
}

// startsOf returns where reading begins in partitions for which nothing is committed.
func (l *Log) startsOf(ctx context.Context, from log.Start, tps []log.TopicPartition) (log.Offsets, error) {
	topics := map[string]bool{}
	for _, tp := range tps {
		topics[tp.Topic] = true
	}
	out := log.Offsets{}
	for topic := range topics {
		var listed kadm.ListedOffsets
		var err error
		switch {
		case from.Latest:
			listed, err = l.admin.ListCommittedOffsets(ctx, topic)
		case !from.At.IsZero():
			listed, err = l.admin.ListOffsetsAfterMilli(ctx, from.At.UnixMilli(), topic)
		default:
			listed, err = l.admin.ListStartOffsets(ctx, topic)
		}
		if err != nil {
			return nil, fmt.Errorf("list offsets of %s: %w", topic, translate(err))
		}
		for _, tp := range tps {
			if tp.Topic != topic {
				continue
			}
			if out[tp], err = lookup(listed, tp); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// outOfRange tells where the readable part of a partition is.
func (l *Log) outOfRange(ctx context.Context, tp log.TopicPartition, offset int64) error {
	b, err := l.ends(ctx, []string{tp.Topic})
	if err != nil {
		return err
	}
	start, errStart := lookup(b.start, tp)
	end, errEnd := lookup(b.end, tp)
	if err := errors.Join(errStart, errEnd); err != nil {
		return err
	}
	return &log.OutOfRangeError{TopicPartition: tp, Offset: offset, LogStart: start, End: end}
}
