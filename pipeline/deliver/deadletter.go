package deliver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/pipeline/trace"
)

// Headers of a dead letter, beside those of the record that it is.
const (
	HeaderLetterTopic     = "trunkline.deadletter.topic"
	HeaderLetterPartition = "trunkline.deadletter.partition"
	HeaderLetterOffset    = "trunkline.deadletter.offset"
	HeaderLetterReason    = "trunkline.deadletter.reason"
)

// maxReason bounds the reason in a dead letter, in bytes.
const maxReason = 1024

// DeadLetters returns the topic with the dead letters of a sink.
func DeadLetters(sink string) string { return log.InternalPrefix + "deadletters." + sink }

// bury makes refused records durable as dead letters. A crash before the offset is committed buries them again: the
// headers tell the copies as one.
func (r *run) bury(hard context.Context, p *partition, refused []refusal) error {
	if len(refused) == 0 {
		return nil
	}
	if r.o.StopOnError {
		first := refused[0]
		return fmt.Errorf("row at %s-%d-%d refused: %w: %w", p.Topic, p.Partition, first.record.Offset, first.reason, connectors.ErrFatal)
	}
	topic := DeadLetters(r.o.Sink)
	if !r.letters {
		err := r.o.Journal.CreateTopic(hard, topic, log.TopicConfig{Partitions: 1})
		if err != nil && !errors.Is(err, log.ErrTopicExists) {
			return fmt.Errorf("create topic of dead letters: %w", err)
		}
		r.letters = true
	}
	letters := make([]log.Record, len(refused))
	for i, f := range refused {
		letters[i] = letter(p, f)
	}
	if _, err := r.o.Journal.Append(hard, log.TopicPartition{Topic: topic}, letters...); err != nil {
		return fmt.Errorf("append dead letters: %w", err)
	}
	if span := trace.FromContext(hard); span != nil { // the reason may quote a row, so it stays in the letter
		span.Event("dead letters", trace.Rows.Int(len(letters)), trace.Offset.Int64(refused[0].record.Offset))
	}
	r.meter.letters.Add(int64(len(letters)))
	r.o.Logger.Warn("rows refused", "sink", r.o.Sink, "topic", p.Topic, "partition", p.Partition,
		"offset", refused[0].record.Offset, "rows", len(refused), "reason", refused[0].reason)
	return nil
}

func letter(p *partition, f refusal) log.Record {
	reason := f.reason.Error()
	if len(reason) > maxReason {
		reason = reason[:maxReason]
	}
	return log.Record{
		Key: f.record.Key, Value: f.record.Value, Timestamp: f.record.Timestamp,
		Headers: append(slices.Clone(f.record.Headers),
			log.Header{Key: HeaderLetterTopic, Value: []byte(p.Topic)},
			log.Header{Key: HeaderLetterPartition, Value: strconv.AppendInt(nil, int64(p.Partition), 10)},
			log.Header{Key: HeaderLetterOffset, Value: strconv.AppendInt(nil, f.record.Offset, 10)},
			log.Header{Key: HeaderLetterReason, Value: []byte(reason)}),
	}
}
