package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/batch"
)

const (
	// fillRecords is how many offsets one batch takes at the most; each record in it is a few bytes before compression.
	fillRecords = 50_000
	// fillRecordBytes is more than such a record takes.
	fillRecordBytes = 16
	// fillPause is how often to look whether brokers have finished a transaction.
	fillPause = 2 * time.Millisecond
)

// filler takes offsets of one partition that no committed reader sees: with transactions that it aborts. The client
// library has no transaction without records, whose marker alone takes one offset, so it speaks the protocol itself, in
// the versions before brokers joined steps of it.
type filler struct {
	l        *Log
	tp       log.TopicPartition
	id       string
	client   *kgo.Client
	pid      int64
	epoch    int16
	sequence int32
	most     int64 // records in one batch
	builder  batch.Builder
}

func newFiller(ctx context.Context, l *Log, tp log.TopicPartition, maxBytes int) (*filler, error) {
	client, err := l.client(kgo.MaxVersions(kversion.V3_7_0()))
	if err != nil {
		return nil, err
	}
	f := &filler{l: l, tp: tp, client: client, id: fmt.Sprintf("%smirror.%s.%d", transactionalPrefix, tp.Topic, tp.Partition)}
	f.most = min(fillRecords, max(1, int64(maxBytes-batchOverhead)/fillRecordBytes))
	if err := f.begin(ctx); err != nil {
		client.Close()
		return nil, err
	}
	return f, nil
}

// begin takes the transactional id over. What an earlier attempt left open is aborted.
func (f *filler) begin(ctx context.Context) error {
	return f.patiently(ctx, func() error {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionalID, req.TransactionTimeoutMillis = &f.id, int32(time.Minute.Milliseconds())
		resp, err := req.RequestWith(ctx, f.client)
		if err != nil {
			return err
		}
		f.pid, f.epoch, f.sequence = resp.ProducerID, resp.ProducerEpoch, 0
		return kerr.ErrorForCode(resp.ErrorCode)
	})
}

// patiently repeats what brokers refuse while the transaction before is being finished.
func (f *filler) patiently(ctx context.Context, call func() error) error {
	for {
		err := patiently(ctx, call)
		if !errors.Is(err, kerr.ConcurrentTransactions) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(fillPause):
		}
	}
}

// fill takes the offsets from at up to next, and returns when next is the end of the partition.
func (f *filler) fill(ctx context.Context, at, next int64) error {
	if err := f.patiently(ctx, func() error { return f.enlist(ctx) }); err != nil {
		return err
	}
	for left := next - at - 1; left > 0; { // one is for the marker
		n := min(left, f.most)
		if err := f.produce(ctx, int32(n)); err != nil {
			return err
		}
		left -= n
	}
	if err := f.patiently(ctx, func() error { return f.abort(ctx) }); err != nil {
		return err
	}
	return f.wait(ctx, next)
}

func (f *filler) enlist(ctx context.Context) error {
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch = f.id, f.pid, f.epoch
	topic := kmsg.NewAddPartitionsToTxnRequestTopic()
	topic.Topic, topic.Partitions = f.tp.Topic, []int32{f.tp.Partition}
	req.Topics = []kmsg.AddPartitionsToTxnRequestTopic{topic}
	resp, err := req.RequestWith(ctx, f.client)
	if err != nil {
		return err
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *filler) produce(ctx context.Context, n int32) error {
	f.builder.Reset()
	now := time.Now().UnixMilli()
	for range n {
		f.builder.Append(&log.Record{}, now)
	}
	records, err := f.builder.Build(nil, log.CompressionZstd, batch.Producer{ID: f.pid, Epoch: f.epoch, Sequence: f.sequence}, true)
	if err != nil {
		return err
	}
	part := kmsg.NewProduceRequestTopicPartition()
	part.Partition, part.Records = f.tp.Partition, records
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic, topic.Partitions = f.tp.Topic, []kmsg.ProduceRequestTopicPartition{part}
	req := kmsg.NewPtrProduceRequest()
	req.TransactionID, req.Acks, req.TimeoutMillis = &f.id, -1, int32(requestTime.Milliseconds())
	req.Topics = []kmsg.ProduceRequestTopic{topic}
	leader, _, _, err := f.l.leader(ctx, f.tp)
	if err != nil {
		return err
	}
	answer, err := f.client.Broker(int(leader)).Request(ctx, req)
	if err != nil {
		return err
	}
	for _, t := range answer.(*kmsg.ProduceResponse).Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return err
			}
		}
	}
	f.sequence += n
	return nil
}

func (f *filler) abort(ctx context.Context) error {
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = f.id, f.pid, f.epoch, false
	resp, err := req.RequestWith(ctx, f.client)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.ErrorCode)
}

// wait returns when the marker is in the partition: the coordinator writes it after it has answered.
func (f *filler) wait(ctx context.Context, next int64) error {
	ctx, cancel := context.WithTimeout(ctx, propagation)
	defer cancel()
	for {
		end, err := f.end(ctx)
		switch {
		case err != nil:
			return err
		case end == next:
			return nil
		case end > next:
			return fmt.Errorf("the partition ends at %d instead of %d: something else writes there", end, next)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the partition ends at %d instead of %d: %w", end, next, ctx.Err())
		case <-time.After(fillPause):
		}
	}
}

func (f *filler) end(ctx context.Context) (int64, error) {
	part := kmsg.NewListOffsetsRequestTopicPartition()
	part.Partition, part.Timestamp = f.tp.Partition, -1
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic, topic.Partitions = f.tp.Topic, []kmsg.ListOffsetsRequestTopicPartition{part}
	req := kmsg.NewPtrListOffsetsRequest()
	req.Topics = []kmsg.ListOffsetsRequestTopic{topic}
	resp, err := req.RequestWith(ctx, f.client)
	if err != nil {
		return 0, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return 0, kerr.UnknownTopicOrPartition
	}
	p := resp.Topics[0].Partitions[0]
	return p.Offset, kerr.ErrorForCode(p.ErrorCode)
}
