package kafka

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/trunkline/trunkline/log"
)

const (
	// batchBytes bounds one batch of records that are small.
	batchBytes = 1 << 20
	// batchOverhead is what a batch of one record adds to its key, value and headers, at the most.
	batchOverhead = 61 + 5 + 1 + 10 + 5 + 5 + 5 + 5
	// headerOverhead is the same for one header.
	headerOverhead = 10
	// bufferedBytes bounds what of a transaction waits for brokers, beside one record.
	bufferedBytes = 16 << 20
	// bufferedRecords switches off the client's own bound: callers bound what they append.
	bufferedRecords = 1 << 30
	// wireBytes is above the largest record that a topic may allow.
	wireBytes = 1 << 30
)

// appender appends outside transactions with one codec.
type appender struct {
	*kgo.Client
	mu sync.Mutex // held while the records of one call are buffered, so that they are neighbours
}

// appender returns the one for a codec.
func (l *Log) appender(c log.Compression) (*appender, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed.Load() {
		return nil, log.ErrClosed
	}
	if client := l.appenders[c]; client != nil {
		return client, nil
	}
	client, err := l.client(append(l.producerOptions(c), kgo.ManualFlushing())...)
	if err != nil {
		return nil, err
	}
	l.appenders[c] = &appender{Client: client}
	return l.appenders[c], nil
}

// producerOptions are those of every client that writes. Writing is idempotent, so what the client sends again after a
// lost answer is in the log once.
func (l *Log) producerOptions(c log.Compression) []kgo.Opt {
	return []kgo.Opt{
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(codecOf(c)...), kgo.ProducerBatchMaxBytesFn(l.batchLimit), kgo.BrokerMaxWriteBytes(wireBytes),
		kgo.MaxBufferedRecords(bufferedRecords), kgo.UnknownTopicRetries(10),
	}
}

// batchLimit keeps a batch below what the brokers take for a topic, and no larger than one large record needs.
func (l *Log) batchLimit(topic string) int32 {
	l.topics.mu.Lock()
	defer l.topics.mu.Unlock()
	if e, ok := l.topics.entries[topic]; ok {
		return int32(min(e.config.MaxRecordBytes, wireBytes-1<<20))
	}
	return batchBytes
}

func codecOf(c log.Compression) []kgo.CompressionCodec {
	switch c {
	case log.CompressionGzip:
		return []kgo.CompressionCodec{kgo.GzipCompression()}
	case log.CompressionSnappy:
		return []kgo.CompressionCodec{kgo.SnappyCompression()}
	case log.CompressionLZ4:
		return []kgo.CompressionCodec{kgo.Lz4Compression()}
	case log.CompressionZstd:
		return []kgo.CompressionCodec{kgo.ZstdCompression()}
	}
	return []kgo.CompressionCodec{kgo.NoCompression()}
}

// Append writes records outside any transaction. They are all or none in the partition as long as one batch can hold
// them; the client splits what is larger than the topic's largest record, because the brokers would refuse it.
func (l *Log) Append(ctx context.Context, tp log.TopicPartition, records ...log.Record) (int64, error) {
	if err := l.usable(); err != nil {
		return 0, err
	}
	config, err := l.checkPartition(ctx, tp)
	if err != nil {
		return 0, fmt.Errorf("append: %w", err)
	}
	if len(records) == 0 {
		listed, err := l.admin.ListEndOffsets(ctx, tp.Topic)
		if err != nil {
			return 0, fmt.Errorf("append: %w", translate(err))
		}
		return lookup(listed, tp)
	}
	if err := checkSize(tp, config, records); err != nil {
		return 0, fmt.Errorf("append: %w", err)
	}
	client, err := l.appender(*config.Compression)
	if err != nil {
		return 0, fmt.Errorf("append: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, deliveryTime)
	defer cancel()
	first, err := client.append(ctx, convert(tp, records))
	if err != nil {
		l.topics.drop(tp.Topic)
		return 0, fmt.Errorf("append to %s-%d: %w", tp.Topic, tp.Partition, translate(err))
	}
	return first, nil
}

// append returns the offset of the first record when all are acknowledged.
func (a *appender) append(ctx context.Context, list []*kgo.Record) (int64, error) {
	var (
		wait   sync.WaitGroup
		mu     sync.Mutex
		failed error
	)
	wait.Add(len(list))
	a.mu.Lock()
	for _, r := range list {
		a.Produce(ctx, r, func(_ *kgo.Record, err error) {
			if err != nil {
				mu.Lock()
				failed = err
				mu.Unlock()
			}
			wait.Done()
		})
	}
	a.mu.Unlock()
	if err := a.Flush(ctx); err != nil {
		return 0, err // the outcome is not known
	}
	wait.Wait()
	return list[0].Offset, failed
}

// checkSize refuses a record that the brokers would refuse, before it takes an offset.
func checkSize(tp log.TopicPartition, c log.TopicConfig, records []log.Record) error {
	for i := range records {
		if size := sizeOf(&records[i]) + batchOverhead; size > c.MaxRecordBytes {
			return fmt.Errorf("record %d for %s-%d has %d bytes, the topic takes %d: %w", i, tp.Topic, tp.Partition, size,
				c.MaxRecordBytes, log.ErrRecordTooLarge)
		}
	}
	return nil
}

// sizeOf is what a record takes in a batch, at the most, but for the batch's overhead.
func sizeOf(r *log.Record) int {
	n := len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value) + headerOverhead
	}
	return n
}

// convert copies records, because the client keeps them for longer than the call. One allocation holds all bytes.
func convert(tp log.TopicPartition, records []log.Record) []*kgo.Record {
	size, headers := 0, 0
	for i := range records {
		size += sizeOf(&records[i])
		headers += len(records[i].Headers)
	}
	arena := make([]byte, 0, size)
	keep := func(b []byte) []byte {
		if b == nil {
			return nil
		}
		start := len(arena)
		arena = append(arena, b...)
		return arena[start:len(arena):len(arena)]
	}
	list := make([]kgo.Record, len(records))
	out := make([]*kgo.Record, len(records))
	all := make([]kgo.RecordHeader, 0, headers)
	now := time.Now()
	for i := range records {
		r := &records[i]
		k := &list[i]
		k.Topic, k.Partition, k.Timestamp = tp.Topic, tp.Partition, now
		if r.Timestamp != 0 {
			k.Timestamp = time.UnixMilli(r.Timestamp)
		}
		k.Key, k.Value = keep(r.Key), keep(r.Value)
		start := len(all)
		for _, h := range r.Headers {
			all = append(all, kgo.RecordHeader{Key: h.Key, Value: keep(h.Value)})
		}
		k.Headers = all[start:len(all):len(all)]
		out[i] = k
	}
	return out
}
