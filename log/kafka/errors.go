package kafka

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/trunkline/trunkline/log"
)

// translations says which error of the contract stands for an error of the cluster.
var translations = []struct {
	from error
	to   error
}{
	{kerr.TopicAlreadyExists, log.ErrTopicExists},
	{kerr.UnknownTopicOrPartition, log.ErrUnknownTopic},
	{kerr.UnknownTopicID, log.ErrUnknownTopic},
	{kerr.InvalidProducerEpoch, log.ErrFenced},
	{kerr.ProducerFenced, log.ErrFenced},
	{kerr.InvalidProducerIDMapping, log.ErrFenced},
	{kerr.MessageTooLarge, log.ErrRecordTooLarge},
	{kerr.RecordListTooLarge, log.ErrRecordTooLarge},
	{kerr.NonEmptyGroup, log.ErrGroupActive},
	{kerr.UnknownMemberID, log.ErrNotAssigned},
	{kerr.IllegalGeneration, log.ErrNotAssigned},
	{kerr.KafkaStorageError, log.ErrFull},
	{kgo.ErrClientClosed, log.ErrClosed},
}

// translate adds the error of the contract to an error of the cluster.
func translate(err error) error {
	for _, t := range translations {
		if errors.Is(err, t.from) {
			return fmt.Errorf("%w: %w", t.to, err)
		}
	}
	return err
}
