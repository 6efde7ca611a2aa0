package broker

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/batch"
	"github.com/trunkline/trunkline/log/disk"
)

// faults maps the errors of the log to those of the protocol. The first that matches stands.
var faults = []struct {
	err  error
	code *kerr.Error
}{
	{log.ErrUnknownTopic, kerr.UnknownTopicOrPartition},
	{log.ErrTopicExists, kerr.TopicAlreadyExists},
	{log.ErrRecordTooLarge, kerr.MessageTooLarge},
	{log.ErrGroupActive, kerr.NonEmptyGroup},
	{log.ErrFull, kerr.KafkaStorageError},
	{log.ErrClosed, kerr.NotLeaderForPartition}, // clients look again and come back
	{disk.ErrSequence, kerr.OutOfOrderSequenceNumber},
	{disk.ErrProducerEpoch, kerr.InvalidProducerEpoch},
	{batch.ErrMagic, kerr.UnsupportedForMessageFormat},
	{batch.ErrCorrupt, kerr.CorruptMessage},
	{batch.ErrShort, kerr.CorruptMessage},
	{batch.ErrTooLarge, kerr.MessageTooLarge},
}

// codeOf returns the protocol's code of an error; 0 for nil.
func codeOf(err error) int16 {
	if err == nil {
		return 0
	}
	var own *kerr.Error
	if errors.As(err, &own) {
		return own.Code
	}
	var gone *log.OutOfRangeError
	if errors.As(err, &gone) {
		return kerr.OffsetOutOfRange.Code
	}
	for _, f := range faults {
		if errors.Is(err, f.err) {
			return f.code.Code
		}
	}
	return kerr.KafkaStorageError.Code
}

// text returns what a response says beside the code.
func text(err error) *string {
	if err == nil {
		return nil
	}
	s := err.Error()
	return &s
}
