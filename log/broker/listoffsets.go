package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/trunkline/trunkline/log"
)

// What stands for a time in a request for offsets.
const (
	latestOffset   = -1
	earliestOffset = -2
	maxTimestamp   = -3
	earliestLocal  = -4
	latestTiered   = -5
	readCommitted  = 1
	unknownOffset  = -1
)

// listOffsets finds offsets by time.
func (s *Server) listOffsets(r *request) answer {
	req := r.message.(*kmsg.ListOffsetsRequest)
	resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
	resp.Topics = []kmsg.ListOffsetsResponseTopic{}
	for i := range req.Topics {
		t := &req.Topics[i]
		topic := kmsg.ListOffsetsResponseTopic{Topic: t.Topic}
		for j := range t.Partitions {
			p := &t.Partitions[j]
			part := kmsg.NewListOffsetsResponseTopicPartition()
			part.Partition, part.Offset, part.Timestamp, part.LeaderEpoch = p.Partition, unknownOffset, -1, -1
			tp := log.TopicPartition{Topic: t.Topic, Partition: p.Partition}
			if p.CurrentLeaderEpoch > leaderEpoch {
				part.ErrorCode = kerr.UnknownLeaderEpoch.Code
			} else if err := s.offsetAt(tp, p.Timestamp, req.IsolationLevel == readCommitted, &part); err != nil {
				part.ErrorCode = codeOf(err)
			}
			if part.Offset >= 0 {
				part.LeaderEpoch = leaderEpoch
			}
			topic.Partitions = append(topic.Partitions, part)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return now(resp)
}

func (s *Server) offsetAt(tp log.TopicPartition, t int64, committed bool, out *kmsg.ListOffsetsResponseTopicPartition) error {
	b, err := s.journal.Bounds(tp)
	if err != nil {
		return err
	}
	switch t {
	case latestOffset:
		out.Offset = b.HighWatermark
		if committed {
			out.Offset = b.LastStable
		}
		return nil
	case earliestOffset, earliestLocal:
		out.Offset = b.LogStart
		return nil
	case latestTiered:
		return nil
	case maxTimestamp:
		found, err := s.journal.Newest(tp)
		out.Offset, out.Timestamp = found.Offset, found.Timestamp
		return err
	}
	found, err := s.journal.FirstSince(tp, t)
	out.Offset, out.Timestamp = found.Offset, found.Timestamp
	return err
}
