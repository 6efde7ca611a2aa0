package kafka

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/trunkline/trunkline/log"
)

// holeTime is how long a reader that is not at the end waits before it looks whether there is anything to read at all.
const holeTime = 200 * time.Millisecond

// probe returns the offset behind what can be read at an offset without finding a record: batches that compaction has
// emptied, whose client-side reader does not tell that it has passed them. If there is a record, it returns the offset
// unchanged. isolation is 0 for uncommitted, 1 for committed.
func (l *Log) probe(ctx context.Context, tp log.TopicPartition, offset int64, isolation int8) (int64, error) {
	for {
		next, records, err := l.fetchOnce(ctx, tp, offset, isolation)
		if err != nil || records || next <= offset {
			return offset, err
		}
		offset = next
	}
}

// fetchOnce asks the leader for what is at an offset, and does not wait for more to come.
func (l *Log) fetchOnce(ctx context.Context, tp log.TopicPartition, offset int64, isolation int8) (next int64, records bool, err error) {
	leader, epoch, id, err := l.leader(ctx, tp)
	if err != nil {
		return offset, false, err
	}
	part := kmsg.NewFetchRequestTopicPartition()
	part.Partition, part.CurrentLeaderEpoch, part.FetchOffset, part.PartitionMaxBytes = tp.Partition, epoch, offset, batchBytes
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.TopicID, topic.Partitions = tp.Topic, id, []kmsg.FetchRequestTopicPartition{part}
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.IsolationLevel = 1, 0, batchBytes, isolation
	req.SessionEpoch = -1
	req.Topics = []kmsg.FetchRequestTopic{topic}
	answer, err := l.meta.Broker(int(leader)).Request(ctx, req)
	if err != nil {
		return offset, false, fmt.Errorf("look at %s-%d offset %d: %w", tp.Topic, tp.Partition, offset, translate(err))
	}
	resp := answer.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return offset, false, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return offset, false, nil
	}
	got, after := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
		KeepControlRecords: true, Offset: offset, IsolationLevel: levelOf(isolation), Topic: tp.Topic, Partition: tp.Partition,
	}, &resp.Topics[0].Partitions[0], kgo.DefaultDecompressor(), nil)
	if got.Err != nil {
		return offset, false, translate(got.Err)
	}
	return after, len(got.Records) > 0, nil
}

func levelOf(isolation int8) kgo.IsolationLevel {
	if isolation == 1 {
		return kgo.ReadCommitted()
	}
	return kgo.ReadUncommitted()
}

// leader asks who leads a partition.
func (l *Log) leader(ctx context.Context, tp log.TopicPartition) (broker, epoch int32, id [16]byte, err error) {
	details, err := l.admin.ListTopicsWithInternal(ctx, tp.Topic)
	if err != nil {
		return 0, 0, id, translate(err)
	}
	d, ok := details[tp.Topic]
	p, known := d.Partitions[tp.Partition]
	switch {
	case !ok || !known:
		return 0, 0, id, fmt.Errorf("%s-%d: %w", tp.Topic, tp.Partition, log.ErrUnknownTopic)
	case p.Err != nil:
		return 0, 0, id, translate(p.Err)
	}
	return p.Leader, p.LeaderEpoch, d.ID, nil
}
