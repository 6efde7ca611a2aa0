package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// describeLogDirs tells how much stands in the one directory.
func (s *Server) describeLogDirs(r *request) answer {
	req := r.message.(*kmsg.DescribeLogDirsRequest)
	resp := req.ResponseKind().(*kmsg.DescribeLogDirsResponse)
	dir := kmsg.NewDescribeLogDirsResponseDir()
	dir.Dir, dir.Topics = s.journal.Dir(), []kmsg.DescribeLogDirsResponseDirTopic{}
	dir.TotalBytes, dir.UsableBytes = -1, -1
	asked := map[string]map[int32]bool{}
	for _, t := range req.Topics {
		asked[t.Topic] = map[int32]bool{}
		for _, p := range t.Partitions {
			asked[t.Topic][p] = true
		}
	}
	topics, err := s.journal.Topics(context.Background())
	if err != nil {
		dir.ErrorCode = codeOf(err)
	}
	for _, t := range topics {
		if req.Topics == nil && t.Internal() || req.Topics != nil && asked[t.Name] == nil {
			continue
		}
		topic := kmsg.DescribeLogDirsResponseDirTopic{Topic: t.Name}
		for i, p := range t.Partitions {
			if wanted := asked[t.Name]; req.Topics == nil || len(wanted) == 0 || wanted[int32(i)] {
				topic.Partitions = append(topic.Partitions, kmsg.DescribeLogDirsResponseDirTopicPartition{Partition: int32(i), Size: p.Bytes})
			}
		}
		dir.Topics = append(dir.Topics, topic)
	}
	resp.Dirs = []kmsg.DescribeLogDirsResponseDir{dir}
	return now(resp)
}

// listReassignments tells that none is under way: there is nowhere to move a partition to.
func (s *Server) listReassignments(r *request) answer {
	req := r.message.(*kmsg.ListPartitionReassignmentsRequest)
	resp := req.ResponseKind().(*kmsg.ListPartitionReassignmentsResponse)
	resp.Topics = []kmsg.ListPartitionReassignmentsResponseTopic{}
	return now(resp)
}

// Kafka's numbers of kinds of resources.
const (
	topicResource  = 2
	brokerResource = 4
)

// describeConfigs tells the settings of topics, and few of the broker.
func (s *Server) describeConfigs(r *request) answer {
	req := r.message.(*kmsg.DescribeConfigsRequest)
	resp := req.ResponseKind().(*kmsg.DescribeConfigsResponse)
	resp.Resources = []kmsg.DescribeConfigsResponseResource{}
	for i := range req.Resources {
		q := &req.Resources[i]
		out := kmsg.NewDescribeConfigsResponseResource()
		out.ResourceType, out.ResourceName, out.Configs = q.ResourceType, q.ResourceName, []kmsg.DescribeConfigsResponseResourceConfig{}
		entries, err := s.configsOf(q)
		if err != nil {
			out.ErrorCode, out.ErrorMessage = codeOf(err), text(err)
		}
		for _, e := range entries {
			if len(q.ConfigNames) == 0 || contains(q.ConfigNames, e.name) {
				out.Configs = append(out.Configs, kmsg.DescribeConfigsResponseResourceConfig{
					Name: e.name, Value: &e.value, ReadOnly: e.readOnly, IsDefault: e.source == fromDefault, Source: kmsg.ConfigSource(e.source),
					ConfigSynonyms: []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym{}, ConfigType: kmsg.ConfigType(e.kind)})
			}
		}
		resp.Resources = append(resp.Resources, out)
	}
	return now(resp)
}

func contains(list []string, name string) bool {
	for _, n := range list {
		if n == name {
			return true
		}
	}
	return false
}

func (s *Server) configsOf(q *kmsg.DescribeConfigsRequestResource) ([]entry, error) {
	switch q.ResourceType {
	case topicResource:
		t, err := s.journal.Name(q.ResourceName)
		if err != nil {
			return nil, err
		}
		return describeTopicConfig(t.Config), nil
	case brokerResource:
		return s.brokerConfig(), nil
	}
	return nil, kerr.InvalidRequest
}
