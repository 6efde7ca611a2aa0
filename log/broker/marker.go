package broker

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/disk"
)

// writeTxnMarkers ends transactions that hang, as kafka-transactions abort asks for: their clients are gone, and readers of
// committed records wait behind them. As in Kafka, readers of the one partition that is named go on, and the transaction
// stays open in its others. Unlike in Kafka, what is left of it can only be aborted: half a transaction must never be seen.
// Only brokers write markers of commits, and there are no others.
func (s *Server) writeTxnMarkers(r *request) answer {
	req := r.message.(*kmsg.WriteTxnMarkersRequest)
	resp := req.ResponseKind().(*kmsg.WriteTxnMarkersResponse)
	resp.Markers = []kmsg.WriteTxnMarkersResponseMarker{}
	for i := range req.Markers {
		m := &req.Markers[i]
		out := kmsg.WriteTxnMarkersResponseMarker{ProducerID: m.ProducerID, Topics: []kmsg.WriteTxnMarkersResponseMarkerTopic{}}
		for _, t := range m.Topics {
			topic := kmsg.WriteTxnMarkersResponseMarkerTopic{Topic: t.Topic, Partitions: []kmsg.WriteTxnMarkersResponseMarkerTopicPartition{}}
			refused := s.mayWrite(r, t.Topic)
			for _, p := range t.Partitions {
				err := refused
				if err != nil {
					err = kerr.ClusterAuthorizationFailed // the one refusal that the tool knows
				} else {
					err = s.abortHanging(log.TopicPartition{Topic: t.Topic, Partition: p}, m)
				}
				topic.Partitions = append(topic.Partitions, kmsg.WriteTxnMarkersResponseMarkerTopicPartition{Partition: p, ErrorCode: codeOf(err)})
			}
			out.Topics = append(out.Topics, topic)
		}
		resp.Markers = append(resp.Markers, out)
	}
	return now(resp)
}

// abortHanging aborts the transaction that a producer has open in a partition. There may be none any more.
func (s *Server) abortHanging(tp log.TopicPartition, m *kmsg.WriteTxnMarkersRequestMarker) error {
	producers, err := s.journal.Producers(tp)
	if err != nil {
		return fmt.Errorf("write a marker: %w", err)
	}
	if m.Committed {
		return kerr.InvalidTxnState
	}
	known := disk.ActiveProducer{OpenSince: -1}
	for _, p := range producers {
		if p.ID == m.ProducerID {
			known = p
		}
	}
	switch {
	case m.ProducerEpoch < known.Epoch:
		return kerr.InvalidProducerEpoch
	case known.OpenSince < 0:
		return nil
	}
	return s.transactions.abort(m.ProducerID, tp)
}

// abort aborts what a producer has open in one partition. Its transaction takes nothing more and cannot be committed.
func (t *transactions) abort(id int64, tp log.TopicPartition) error {
	for _, x := range t.list() {
		x.mu.Lock()
		if !x.known || x.producer.ID != id {
			x.mu.Unlock()
			continue
		}
		var err error
		switch {
		case x.open && x.deciding:
			err = kerr.ConcurrentTransactions
		case x.open:
			t.s.logger.Warn("an administrator aborts a transaction", "transaction", x.id, "topic", tp.Topic, "partition", tp.Partition)
			x.broken = true
			if err = t.s.journal.EndTransaction(disk.Ending{Transaction: x.id, Producer: x.producer, Partitions: []log.TopicPartition{tp}}); err == nil {
				delete(x.partitions, tp)
			}
		}
		x.mu.Unlock()
		return err
	}
	return kerr.ClusterAuthorizationFailed // a producer of this process, which ends its transactions itself
}
