package broker

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/batch"
	"github.com/trunkline/trunkline/log/disk"
)

const (
	maxProduceTopics     = 10_000 // of one request
	maxProducePartitions = 10_000 // of one topic in it

	firstFlexibleProduce = 9
)

// checkProduce walks over a produce request before it is decoded: a decoder believes the lengths of arrays, and a request
// may be large enough to make it ask for gigabytes.
func checkProduce(version int16, body []byte) error {
	b := kbin.Reader{Src: body}
	flexible := version >= firstFlexibleProduce
	length, span, text := b.ArrayLen, b.NullableBytes, func() { b.Span(int(b.Int16())) }
	if flexible {
		length, span = b.CompactArrayLen, b.CompactNullableBytes
		text = func() { b.CompactNullableBytes() }
	}
	tags := func() {
		if flexible {
			skipTags(&b)
		}
	}
	if flexible {
		b.CompactNullableString()
	} else {
		b.NullableString()
	}
	b.Int16()
	b.Int32()
	topics := length()
	if topics > maxProduceTopics {
		return fmt.Errorf("%w: %d topics in one produce request", errProtocol, topics)
	}
	for range topics {
		text()
		partitions := length()
		if partitions > maxProducePartitions {
			return fmt.Errorf("%w: %d partitions of one topic in a produce request", errProtocol, partitions)
		}
		for range partitions {
			b.Int32()
			span()
			tags()
		}
		tags()
		if !b.Ok() {
			break
		}
	}
	tags()
	if !b.Ok() {
		return fmt.Errorf("%w: a produce request that is cut short", errProtocol)
	}
	return nil
}

// produce appends the batches at once, in the order of the connection's requests, and answers when they are durable.
// With one acknowledgement it does as with all: there is one disk, and readers see only what is on it.
func (s *Server) produce(r *request) answer {
	req := r.message.(*kmsg.ProduceRequest)
	resp := req.ResponseKind().(*kmsg.ProduceResponse)
	var waiting []disk.Appended
	var places [][2]int // of what waits, as indexes in the response
	for i := range req.Topics {
		t := &req.Topics[i]
		out := kmsg.ProduceResponseTopic{Topic: t.Topic}
		refused := s.mayWrite(r, t.Topic)
		for j := range t.Partitions {
			part := kmsg.NewProduceResponseTopicPartition()
			part.Partition = t.Partitions[j].Partition
			part.BaseOffset, part.LogAppendTime, part.LogStartOffset = -1, -1, -1
			err := refused
			var appended disk.Appended
			if err == nil {
				appended, err = s.append(req, t.Topic, &t.Partitions[j], &part)
			}
			if err != nil {
				s.refuse(&part, err)
			} else {
				part.BaseOffset, part.LogStartOffset = appended.First, appended.LogStart
				waiting, places = append(waiting, appended), append(places, [2]int{i, j})
			}
			out.Partitions = append(out.Partitions, part)
		}
		resp.Topics = append(resp.Topics, out)
	}
	silent := req.Acks == 0
	return later(func() output {
		for i, err := range disk.WaitAll(waiting) {
			if err != nil {
				s.refuse(&resp.Topics[places[i][0]].Partitions[places[i][1]], err)
			}
		}
		if silent {
			if refusedAny(resp) {
				r.c.net.Close() // the one way to tell a client that wants no answer
			}
			return output{}
		}
		return output{response: resp}
	})
}

func refusedAny(resp *kmsg.ProduceResponse) bool {
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode != 0 {
				return true
			}
		}
	}
	return false
}

func (s *Server) refuse(part *kmsg.ProduceResponseTopicPartition, err error) {
	part.ErrorCode, part.ErrorMessage = codeOf(err), text(err)
	part.BaseOffset, part.LogStartOffset = -1, -1
}

// append checks one batch and appends it.
func (s *Server) append(req *kmsg.ProduceRequest, topic string, p *kmsg.ProduceRequestTopicPartition, out *kmsg.ProduceResponseTopicPartition) (disk.Appended, error) {
	if req.Acks < -1 || req.Acks > 1 {
		return disk.Appended{}, kerr.InvalidRequiredAcks
	}
	tp := log.TopicPartition{Topic: topic, Partition: p.Partition}
	v, rest, err := batch.Parse(p.Records)
	if err != nil {
		return disk.Appended{}, err
	}
	if len(rest) > 0 || v.IsControl() || v.Count() == 0 {
		return disk.Appended{}, fmt.Errorf("%w: a partition of a produce request holds one batch of records", kerr.InvalidRecord)
	}
	if t, err := s.journal.Name(topic); err == nil && t.Config.Compact {
		if err := checkKeys(v, out); err != nil {
			return disk.Appended{}, err
		}
	}
	if v.Transactional() {
		return s.transactions.append(req.TransactionID, tp, v)
	}
	return s.journal.AppendBatch(tp, v)
}

// checkKeys refuses records without a key: compaction would not know what to make of them.
func checkKeys(v batch.View, out *kmsg.ProduceResponseTopicPartition) error {
	if err := v.Verify(); err != nil {
		return err
	}
	var d batch.Decoder
	records, err := d.Decode(nil, v)
	if err != nil {
		return err
	}
	for i := range records {
		if records[i].Key == nil {
			bad := kmsg.NewProduceResponseTopicPartitionErrorRecord()
			message := "a compacted topic takes no record without a key"
			bad.RelativeOffset, bad.ErrorMessage = int32(i), &message
			out.ErrorRecords = append(out.ErrorRecords, bad)
		}
	}
	if len(out.ErrorRecords) > 0 {
		return fmt.Errorf("%w: a compacted topic takes no record without a key", kerr.InvalidRecord)
	}
	return nil
}

// mayWrite says why a topic is closed to the user.
func (s *Server) mayWrite(r *request, topic string) error {
	switch {
	case !r.c.session.may(s, writer):
		return fmt.Errorf("%w: the user may only read", kerr.TopicAuthorizationFailed)
	case log.IsInternal(topic):
		return fmt.Errorf("%w: %s is Trunkline's own", kerr.TopicAuthorizationFailed, topic)
	}
	if owner := s.o.Owner(topic); owner != "" {
		return fmt.Errorf("%w: source %s writes %s, and nobody else may", kerr.TopicAuthorizationFailed, owner, topic)
	}
	return nil
}
