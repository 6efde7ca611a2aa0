package broker

import (
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/trunkline/trunkline/log"
)

// Names that Kafka has for the states of transactions. Only these occur here: an end is decided and done in one step,
// unless the disk fails in between.
const (
	transactionEmpty      = "Empty"
	transactionOngoing    = "Ongoing"
	transactionCommitting = "PrepareCommit"
	transactionCommitted  = "CompleteCommit"
	transactionAborted    = "CompleteAbort"
)

// transactionStates are all names that a filter may have.
var transactionStates = []string{transactionEmpty, transactionOngoing, transactionCommitting, "PrepareAbort", transactionCommitted, transactionAborted, "Dead", "PrepareEpochFence"}

func (x *transaction) stateName() string {
	switch {
	case x.open && x.deciding:
		return transactionCommitting
	case x.open:
		return transactionOngoing
	case x.last == committed:
		return transactionCommitted
	case x.last == aborted:
		return transactionAborted
	}
	return transactionEmpty
}

// list returns the transactional ids that began an epoch, in order.
func (t *transactions) list() []*transaction {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]*transaction, 0, len(t.all))
	for _, id := range sortedKeys(t.all) {
		out = append(out, t.all[id])
	}
	return out
}

// listTransactions names transactional ids and what they are at.
func (s *Server) listTransactions(r *request) answer {
	req := r.message.(*kmsg.ListTransactionsRequest)
	resp := req.ResponseKind().(*kmsg.ListTransactionsResponse)
	resp.UnknownStateFilters = []string{}
	resp.TransactionStates = []kmsg.ListTransactionsResponseTransactionState{}
	for _, f := range req.StateFilters {
		if !slices.Contains(transactionStates, f) {
			resp.UnknownStateFilters = append(resp.UnknownStateFilters, f)
		}
	}
	var pattern *regexp.Regexp
	if p := req.TransactionalIDPattern; p != nil && *p != "" {
		var err error
		if pattern, err = regexp.Compile("^(?:" + *p + ")$"); err != nil || len(*p) > maxPattern {
			resp.ErrorCode = kerr.InvalidRegularExpression.Code
			return now(resp)
		}
	}
	present := time.Now()
	for _, x := range s.transactions.list() {
		x.mu.Lock()
		out := kmsg.ListTransactionsResponseTransactionState{TransactionalID: x.id, ProducerID: x.producer.ID, TransactionState: x.stateName()}
		keep := x.known && (len(req.StateFilters) == 0 || slices.Contains(req.StateFilters, out.TransactionState)) &&
			(len(req.ProducerIDFilters) == 0 || slices.Contains(req.ProducerIDFilters, out.ProducerID)) &&
			(req.DurationFilterMillis < 0 || x.open && present.Sub(x.started).Milliseconds() > req.DurationFilterMillis) &&
			(pattern == nil || pattern.MatchString(x.id))
		x.mu.Unlock()
		if keep {
			resp.TransactionStates = append(resp.TransactionStates, out)
		}
	}
	return now(resp)
}

// describeTransactions tells what transactional ids have open.
func (s *Server) describeTransactions(r *request) answer {
	req := r.message.(*kmsg.DescribeTransactionsRequest)
	resp := req.ResponseKind().(*kmsg.DescribeTransactionsResponse)
	resp.TransactionStates = []kmsg.DescribeTransactionsResponseTransactionState{}
	for _, id := range req.TransactionalIDs {
		out := kmsg.NewDescribeTransactionsResponseTransactionState()
		out.TransactionalID, out.StartTimestamp, out.ProducerID, out.ProducerEpoch = id, -1, -1, -1
		out.Topics = []kmsg.DescribeTransactionsResponseTransactionStateTopic{}
		out.ErrorCode = kerr.TransactionalIDNotFound.Code
		if x := s.transactions.find(id); x != nil {
			x.describe(&out)
			x.mu.Unlock()
		}
		resp.TransactionStates = append(resp.TransactionStates, out)
	}
	return now(resp)
}

// find returns an id that began an epoch, with its lock held; nil if there is none. A look at it does not keep it known.
func (t *transactions) find(id string) *transaction {
	t.mu.Lock()
	x := t.all[id]
	t.mu.Unlock()
	if x == nil {
		return nil
	}
	x.mu.Lock()
	if !x.known {
		x.mu.Unlock()
		return nil
	}
	return x
}

func (x *transaction) describe(out *kmsg.DescribeTransactionsResponseTransactionState) {
	out.ErrorCode, out.State, out.TimeoutMillis = 0, x.stateName(), int32(x.timeout.Milliseconds())
	out.ProducerID, out.ProducerEpoch = x.producer.ID, x.producer.Epoch
	if !x.open {
		return
	}
	out.StartTimestamp = x.started.UnixMilli()
	byTopic := map[string][]int32{}
	for tp := range x.partitions {
		byTopic[tp.Topic] = append(byTopic[tp.Topic], tp.Partition)
	}
	for _, topic := range sortedKeys(byTopic) {
		slices.Sort(byTopic[topic])
		out.Topics = append(out.Topics, kmsg.DescribeTransactionsResponseTransactionStateTopic{Topic: topic, Partitions: byTopic[topic]})
	}
}

// describeProducers tells who writes to partitions.
func (s *Server) describeProducers(r *request) answer {
	req := r.message.(*kmsg.DescribeProducersRequest)
	resp := req.ResponseKind().(*kmsg.DescribeProducersResponse)
	resp.Topics = []kmsg.DescribeProducersResponseTopic{}
	for _, t := range req.Topics {
		topic := kmsg.DescribeProducersResponseTopic{Topic: t.Topic, Partitions: []kmsg.DescribeProducersResponseTopicPartition{}}
		for _, p := range t.Partitions {
			part := kmsg.NewDescribeProducersResponseTopicPartition()
			part.Partition, part.ActiveProducers = p, []kmsg.DescribeProducersResponseTopicPartitionActiveProducer{}
			active, err := s.journal.Producers(log.TopicPartition{Topic: t.Topic, Partition: p})
			if err != nil {
				err = fmt.Errorf("describe producers: %w", err)
			}
			part.ErrorCode, part.ErrorMessage = codeOf(err), text(err)
			for _, a := range active {
				e := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
				e.ProducerID, e.ProducerEpoch, e.LastSequence = a.ID, int32(a.Epoch), a.LastSequence
				e.LastTimestamp, e.CurrentTxnStartOffset, e.CoordinatorEpoch = a.Touched, a.OpenSince, leaderEpoch
				part.ActiveProducers = append(part.ActiveProducers, e)
			}
			topic.Partitions = append(topic.Partitions, part)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return now(resp)
}
