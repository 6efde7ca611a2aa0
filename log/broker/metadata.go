package broker

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/disk"
)

const (
	nodeID      = 0 // the one broker
	leaderEpoch = 0 // which always leads

	// unknownOperations is what Kafka answers when nobody asked which operations are allowed.
	unknownOperations = -2147483648
)

// metadata tells the broker and topics, and makes topics that are asked for by name.
func (s *Server) metadata(r *request) answer {
	req := r.message.(*kmsg.MetadataRequest)
	resp := req.ResponseKind().(*kmsg.MetadataResponse)
	host, port := s.address(r.c)
	resp.Brokers = []kmsg.MetadataResponseBroker{{NodeID: nodeID, Host: host, Port: port}}
	resp.ClusterID = &s.cluster
	resp.ControllerID = nodeID
	resp.AuthorizedOperations = unknownOperations
	resp.Topics = []kmsg.MetadataResponseTopic{}
	if req.Topics == nil || r.version == 0 && len(req.Topics) == 0 {
		for _, t := range s.journal.Names() {
			if !log.IsInternal(t.Name) {
				resp.Topics = append(resp.Topics, describe(t))
			}
		}
		return now(resp)
	}
	create := !s.o.NoAutoCreate && r.c.session.may(s, writer)
	if r.version >= 4 {
		create = create && req.AllowAutoTopicCreation
	}
	for i := range req.Topics {
		resp.Topics = append(resp.Topics, s.topicMetadata(&req.Topics[i], create))
	}
	return now(resp)
}

func (s *Server) topicMetadata(t *kmsg.MetadataRequestTopic, create bool) kmsg.MetadataResponseTopic {
	out := kmsg.NewMetadataResponseTopic()
	out.AuthorizedOperations = unknownOperations
	out.Partitions = []kmsg.MetadataResponseTopicPartition{}
	out.Topic, out.TopicID = t.Topic, t.TopicID
	if t.Topic == nil {
		name, ok := s.topicName(t.TopicID)
		if !ok {
			out.ErrorCode = kerr.UnknownTopicID.Code
			return out
		}
		t.Topic = &name
	}
	summary, err := s.journal.Name(*t.Topic)
	if errors.Is(err, log.ErrUnknownTopic) && create && log.CheckTopicName(*t.Topic) == nil {
		if err = s.autoCreate(*t.Topic); err == nil {
			summary, err = s.journal.Name(*t.Topic)
		}
	}
	if err != nil {
		out.ErrorCode = codeOf(err)
		if log.CheckTopicName(*t.Topic) != nil {
			out.ErrorCode = kerr.InvalidTopicException.Code
		}
		return out
	}
	return describe(summary)
}

// autoCreate makes a topic with the log's defaults. Somebody else may have been faster.
func (s *Server) autoCreate(name string) error {
	if err := s.mayCreate(name, 0); err != nil {
		return err
	}
	err := s.journal.CreateTopic(context.Background(), name, log.TopicConfig{})
	if errors.Is(err, log.ErrTopicExists) {
		return nil
	}
	if err == nil {
		s.logger.Info("topic created for a Kafka client", "topic", name)
	}
	return err
}

// describe is the metadata of a topic.
func describe(t disk.Summary) kmsg.MetadataResponseTopic {
	out := kmsg.NewMetadataResponseTopic()
	out.Topic, out.TopicID, out.IsInternal = &t.Name, t.ID, log.IsInternal(t.Name)
	out.AuthorizedOperations = unknownOperations
	out.Partitions = make([]kmsg.MetadataResponseTopicPartition, t.Partitions)
	for i := range out.Partitions {
		out.Partitions[i] = kmsg.MetadataResponseTopicPartition{
			Partition: int32(i), Leader: nodeID, LeaderEpoch: leaderEpoch,
			Replicas: []int32{nodeID}, ISR: []int32{nodeID}, OfflineReplicas: []int32{},
		}
	}
	return out
}

// topicName returns the name behind a topic's id.
func (s *Server) topicName(id [16]byte) (string, bool) {
	if name, ok := s.ids.Load(id); ok {
		if t, err := s.journal.Name(name.(string)); err == nil && t.ID == id {
			return t.Name, true
		}
		s.ids.Delete(id)
	}
	all := s.journal.Names()
	i := slices.IndexFunc(all, func(t disk.Summary) bool { return t.ID == id })
	if i < 0 {
		return "", false
	}
	s.ids.Store(id, all[i].Name)
	return all[i].Name, true
}

// describeCluster tells the one broker.
func (s *Server) describeCluster(r *request) answer {
	req := r.message.(*kmsg.DescribeClusterRequest)
	resp := req.ResponseKind().(*kmsg.DescribeClusterResponse)
	host, port := s.address(r.c)
	resp.ClusterID, resp.ControllerID, resp.ClusterAuthorizedOperations = s.cluster, nodeID, unknownOperations
	resp.EndpointType = cmp.Or(req.EndpointType, 1)
	resp.Brokers = []kmsg.DescribeClusterResponseBroker{{NodeID: nodeID, Host: host, Port: port}}
	return now(resp)
}
