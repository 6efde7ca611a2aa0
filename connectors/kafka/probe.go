package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/trunkline/trunkline/connectors"
)

// probeTime is how long a bounded reading waits for records before it asks the brokers whether there are any: compaction
// can leave nothing before the end, and the client library does not tell that it has passed what is empty.
const probeTime = 200 * time.Millisecond

// passHoles moves a bounded reading past what compaction has emptied before its ends, and reports whether it did. A
// partition in which records are on their way is left alone.
func (s *source) passHoles(ctx context.Context) (moved bool, err error) {
	for topic, list := range s.stop {
		for partition, end := range list {
			next, _ := s.at.Next.get(topic, partition)
			if next >= end {
				continue
			}
			after, err := s.probe(ctx, topic, partition, next, end)
			if err != nil {
				return moved, fmt.Errorf("look at topic %s, partition %d, offset %d: %w", topic, partition, next, err)
			}
			if after > next {
				s.at.Next.set(topic, partition, after)
				moved = true
			}
		}
	}
	return moved, nil
}

// probe returns how far a partition can be read from next without finding a record, and no further than end.
func (s *source) probe(ctx context.Context, topic string, partition int32, next, end int64) (int64, error) {
	details, err := s.admin.ListTopicsWithInternal(ctx, topic)
	if err != nil {
		return next, translate(err)
	}
	p, ok := details[topic].Partitions[partition]
	if !ok || p.Err != nil {
		return next, nil // it moves; the next poll says what is wrong
	}
	for next < end {
		got, after, empty, err := s.fetchOnce(ctx, details[topic].ID, topic, p, next)
		switch {
		case err != nil:
			return next, err
		case len(got) > 0:
			if got[0].Offset >= end {
				return end, nil
			}
			return next, nil // it is on its way
		case after > next:
			next = min(after, end)
		case empty && s.decided(ctx, topic, partition, end):
			return end, nil
		default:
			return next, nil
		}
	}
	return next, nil
}

// decided reports whether all below an offset is.
func (s *source) decided(ctx context.Context, topic string, partition int32, end int64) bool {
	e, err := endsOf(ctx, s.admin, map[string][]int32{topic: {partition}})
	last, _ := e.last.get(topic, partition)
	return err == nil && last >= end
}

// fetchOnce asks the leader for what is at an offset, and does not wait for more to come. empty says that it sent nothing
// at all and did not hold anything back.
func (s *source) fetchOnce(ctx context.Context, id kadm.TopicID, topic string, p kadm.PartitionDetail, offset int64) (got []*kgo.Record, after int64, empty bool, err error) {
	part := kmsg.NewFetchRequestTopicPartition()
	part.Partition, part.CurrentLeaderEpoch, part.FetchOffset, part.PartitionMaxBytes = p.Partition, p.LeaderEpoch, offset, fetchBytes
	asked := kmsg.NewFetchRequestTopic()
	asked.Topic, asked.TopicID, asked.Partitions = topic, id, []kmsg.FetchRequestTopicPartition{part}
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.IsolationLevel, req.SessionEpoch = 1, 0, fetchBytes, 1, -1
	req.Topics = []kmsg.FetchRequestTopic{asked}
	answer, err := s.look.Broker(int(p.Leader)).Request(ctx, req)
	if err != nil {
		return nil, offset, false, translate(err)
	}
	resp := answer.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, offset, false, translate(err)
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return nil, offset, false, nil
	}
	raw := &resp.Topics[0].Partitions[0]
	fetched, after := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
		KeepControlRecords: true, Offset: offset, IsolationLevel: kgo.ReadCommitted(), Topic: topic, Partition: p.Partition,
	}, raw, kgo.DefaultDecompressor(), nil)
	if errors.Is(fetched.Err, kerr.OffsetOutOfRange) {
		return nil, offset, false, fmt.Errorf("it is not there any more (retention, or the topic was made anew): %w", connectors.ErrPositionLost)
	}
	if fetched.Err != nil {
		return nil, offset, false, translate(fetched.Err)
	}
	return fetched.Records, after, len(raw.RecordBatches) == 0 && resp.ThrottleMillis == 0, nil
}
