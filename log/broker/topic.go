package broker

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/trunkline/trunkline/log"
)

// createTopics makes topics.
func (s *Server) createTopics(r *request) answer {
	req := r.message.(*kmsg.CreateTopicsRequest)
	resp := req.ResponseKind().(*kmsg.CreateTopicsResponse)
	resp.Topics = []kmsg.CreateTopicsResponseTopic{}
	asked := map[string]int{}
	for i := range req.Topics {
		asked[req.Topics[i].Topic]++
	}
	for i := range req.Topics {
		t := &req.Topics[i]
		out := kmsg.NewCreateTopicsResponseTopic()
		out.Topic, out.NumPartitions, out.ReplicationFactor = t.Topic, -1, -1
		out.Configs = []kmsg.CreateTopicsResponseTopicConfig{} // not null: Java clients fall over it
		err := error(kerr.InvalidRequest)
		if asked[t.Topic] == 1 {
			err = s.createTopic(r, t, req.ValidateOnly, &out)
		}
		if err != nil {
			out.ErrorCode, out.ErrorMessage = codeOf(err), text(err)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return now(resp)
}

func (s *Server) createTopic(r *request, t *kmsg.CreateTopicsRequestTopic, validateOnly bool, out *kmsg.CreateTopicsResponseTopic) error {
	if !r.c.session.may(s, writer) {
		return fmt.Errorf("%w: the user may only read", kerr.TopicAuthorizationFailed)
	}
	c, err := topicConfig(t)
	if err != nil {
		return err
	}
	if err := s.mayCreate(t.Topic, c.Partitions); err != nil {
		return err
	}
	if _, err := s.journal.Name(t.Topic); err == nil {
		return fmt.Errorf("topic %s: %w", t.Topic, log.ErrTopicExists)
	}
	if validateOnly {
		return nil
	}
	if err := s.journal.CreateTopic(context.Background(), t.Topic, c); err != nil {
		return err
	}
	s.logger.Info("topic created by a Kafka client", "topic", t.Topic, "client", r.clientID)
	made, err := s.journal.Name(t.Topic)
	if err != nil {
		return err
	}
	out.TopicID, out.NumPartitions, out.ReplicationFactor = made.ID, made.Partitions, 1
	for _, e := range describeTopicConfig(made.Config) {
		out.Configs = append(out.Configs, kmsg.CreateTopicsResponseTopicConfig{Name: e.name, Value: &e.value, Source: e.source, ReadOnly: e.readOnly})
	}
	return nil
}

// topicConfig reads what a topic is to be made with.
func topicConfig(t *kmsg.CreateTopicsRequestTopic) (log.TopicConfig, error) {
	c := log.TopicConfig{}
	switch n := t.NumPartitions; {
	case len(t.ReplicaAssignment) > 0:
		if n != -1 || t.ReplicationFactor != -1 {
			return c, fmt.Errorf("%w: replicas are assigned, and a number of partitions or replicas is given too", kerr.InvalidRequest)
		}
		for _, a := range t.ReplicaAssignment {
			if len(a.Replicas) != 1 || a.Replicas[0] != nodeID || a.Partition < 0 || int(a.Partition) >= len(t.ReplicaAssignment) {
				return c, fmt.Errorf("%w: there is one broker, with the id %d", kerr.InvalidReplicaAssignment, nodeID)
			}
		}
		c.Partitions = int32(len(t.ReplicaAssignment))
	case n == 0 || n < -1:
		return c, fmt.Errorf("%w: %d partitions", kerr.InvalidPartitions, n)
	case n > 0:
		c.Partitions = n
	}
	if len(t.ReplicaAssignment) == 0 && t.ReplicationFactor != 1 && t.ReplicationFactor != -1 {
		return c, fmt.Errorf("%w: %d replicas, and there is one broker", kerr.InvalidReplicationFactor, t.ReplicationFactor)
	}
	for _, e := range t.Configs {
		if err := setTopicConfig(&c, e.Name, e.Value); err != nil {
			return c, err
		}
	}
	return c, nil
}

// mayCreate says why a topic cannot be made.
func (s *Server) mayCreate(name string, partitions int32) error {
	if err := log.CheckTopicName(name); err != nil {
		return fmt.Errorf("%w: %w", kerr.InvalidTopicException, err)
	}
	if log.IsInternal(name) {
		return fmt.Errorf("%w: names that begin with %s are Trunkline's own", kerr.TopicAuthorizationFailed, log.InternalPrefix)
	}
	total := int(max(partitions, 1))
	for _, t := range s.journal.Names() {
		total += int(t.Partitions)
	}
	if total > s.o.MaxPartitions {
		return fmt.Errorf("%w: the log would have %d partitions, the limit for Kafka clients is %d", kerr.PolicyViolation, total, s.o.MaxPartitions)
	}
	return nil
}

// deleteTopics removes topics.
func (s *Server) deleteTopics(r *request) answer {
	const firstByID = 6
	req := r.message.(*kmsg.DeleteTopicsRequest)
	resp := req.ResponseKind().(*kmsg.DeleteTopicsResponse)
	resp.Topics = []kmsg.DeleteTopicsResponseTopic{}
	topics := req.Topics
	if r.version < firstByID {
		for i := range req.TopicNames {
			topics = append(topics, kmsg.DeleteTopicsRequestTopic{Topic: &req.TopicNames[i]})
		}
	}
	for _, t := range topics {
		out := kmsg.NewDeleteTopicsResponseTopic()
		out.Topic, out.TopicID = t.Topic, t.TopicID
		if err := s.deleteTopic(r, &out); err != nil {
			out.ErrorCode, out.ErrorMessage = codeOf(err), text(err)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return now(resp)
}

func (s *Server) deleteTopic(r *request, out *kmsg.DeleteTopicsResponseTopic) error {
	if out.Topic == nil {
		name, ok := s.topicName(out.TopicID)
		if !ok {
			return kerr.UnknownTopicID
		}
		out.Topic = &name
	}
	if err := s.mayWrite(r, *out.Topic); err != nil {
		return err
	}
	t, err := s.journal.Name(*out.Topic)
	if err != nil {
		return err
	}
	out.TopicID = t.ID
	if err := s.journal.DeleteTopic(context.Background(), *out.Topic); err != nil {
		return err
	}
	s.logger.Info("topic deleted by a Kafka client", "topic", *out.Topic, "client", r.clientID)
	return nil
}

// createPartitions adds partitions to topics.
func (s *Server) createPartitions(r *request) answer {
	req := r.message.(*kmsg.CreatePartitionsRequest)
	resp := req.ResponseKind().(*kmsg.CreatePartitionsResponse)
	resp.Topics = []kmsg.CreatePartitionsResponseTopic{}
	for i := range req.Topics {
		t := &req.Topics[i]
		out := kmsg.NewCreatePartitionsResponseTopic()
		out.Topic = t.Topic
		if err := s.addPartitions(r, t, req.ValidateOnly); err != nil {
			out.ErrorCode, out.ErrorMessage = codeOf(err), text(err)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return now(resp)
}

func (s *Server) addPartitions(r *request, t *kmsg.CreatePartitionsRequestTopic, validateOnly bool) error {
	if err := s.mayWrite(r, t.Topic); err != nil {
		return err
	}
	have, err := s.journal.Name(t.Topic)
	if err != nil {
		return err
	}
	if t.Count <= have.Partitions {
		return fmt.Errorf("%w: the topic has %d partitions, %d were asked for", kerr.InvalidPartitions, have.Partitions, t.Count)
	}
	if t.Assignment != nil && len(t.Assignment) != int(t.Count-have.Partitions) {
		return fmt.Errorf("%w: %d assignments for %d new partitions", kerr.InvalidReplicaAssignment, len(t.Assignment), t.Count-have.Partitions)
	}
	for _, a := range t.Assignment {
		if len(a.Replicas) != 1 || a.Replicas[0] != nodeID {
			return fmt.Errorf("%w: there is one broker, with the id %d", kerr.InvalidReplicaAssignment, nodeID)
		}
	}
	if err := s.mayCreate(t.Topic, t.Count-have.Partitions); err != nil {
		return err
	}
	if validateOnly {
		return nil
	}
	return s.journal.AddPartitions(t.Topic, t.Count)
}

// deleteRecords moves log start offsets up.
func (s *Server) deleteRecords(r *request) answer {
	req := r.message.(*kmsg.DeleteRecordsRequest)
	resp := req.ResponseKind().(*kmsg.DeleteRecordsResponse)
	resp.Topics = []kmsg.DeleteRecordsResponseTopic{}
	for i := range req.Topics {
		t := &req.Topics[i]
		topic := kmsg.DeleteRecordsResponseTopic{Topic: t.Topic}
		refused := s.mayWrite(r, t.Topic)
		for _, p := range t.Partitions {
			part := kmsg.NewDeleteRecordsResponseTopicPartition()
			part.Partition, part.LowWatermark = p.Partition, -1
			err := refused
			if err == nil {
				part.LowWatermark, err = s.journal.RaiseLogStart(log.TopicPartition{Topic: t.Topic, Partition: p.Partition}, p.Offset)
			}
			if err != nil {
				part.ErrorCode, part.LowWatermark = codeOf(err), -1
			}
			topic.Partitions = append(topic.Partitions, part)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return now(resp)
}
