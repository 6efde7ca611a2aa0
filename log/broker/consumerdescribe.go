package broker

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// describeConsumers tells members and states of consumer groups. What is none has to be refused in this way: clients then
// ask for a classic one.
func (s *Server) describeConsumers(r *request) answer {
	req := r.message.(*kmsg.ConsumerGroupDescribeRequest)
	resp := req.ResponseKind().(*kmsg.ConsumerGroupDescribeResponse)
	resp.Groups = []kmsg.ConsumerGroupDescribeResponseGroup{}
	for _, name := range req.Groups {
		out := kmsg.NewConsumerGroupDescribeResponseGroup()
		out.Group, out.Members = name, []kmsg.ConsumerGroupDescribeResponseGroupMember{}
		if g, _ := s.groups.consumers(name, false); g != nil {
			g.describe(&out)
			s.groups.releaseConsumers(g)
		} else {
			err := fmt.Errorf("%w: %s is no consumer group", kerr.GroupIDNotFound, name)
			out.ErrorCode, out.ErrorMessage = codeOf(err), text(err)
		}
		resp.Groups = append(resp.Groups, out)
	}
	return now(resp)
}

// What ConsumerGroupDescribe says of members.
const (
	classicMemberType  = 0
	consumerMemberType = 1
)

func (g *consumerGroup) describe(out *kmsg.ConsumerGroupDescribeResponseGroup) {
	out.State, out.Epoch, out.AssignmentEpoch, out.AssignorName = g.stateName(), g.epoch, g.targeted, g.assignor
	for _, m := range g.sorted() {
		e := kmsg.NewConsumerGroupDescribeResponseGroupMember()
		e.MemberID, e.RackID, e.MemberEpoch, e.ClientID, e.ClientHost, e.MemberType = m.id, m.rack, m.epoch, m.clientID, m.host, consumerMemberType
		if m.classic != nil {
			e.MemberType = classicMemberType
		}
		if m.instance != "" {
			e.InstanceID = &m.instance
		}
		e.SubscribedTopics = append([]string{}, m.names...)
		if m.pattern != "" {
			e.SubscribedTopicRegex = &m.pattern
		}
		e.Assignment, e.TargetAssignment = g.assignmentOf(m.assigned), g.assignmentOf(m.target)
		out.Members = append(out.Members, e)
	}
}

func (g *consumerGroup) assignmentOf(set placedSet) kmsg.Assignment {
	a := kmsg.Assignment{TopicPartitions: []kmsg.AssignmentTopicPartition{}}
	byTopic := byTopicID(set)
	for _, name := range sortedKeys(g.topics) {
		id := g.topics[name].id
		if list := byTopic[id]; len(list) > 0 {
			a.TopicPartitions = append(a.TopicPartitions, kmsg.AssignmentTopicPartition{TopicID: id, Topic: name, Partitions: list})
		}
	}
	return a
}

// describeClassic shows a consumer group to clients that know only classic ones.
func (g *consumerGroup) describeClassic(out *kmsg.DescribeGroupsResponseGroup) {
	out.State, out.ProtocolType, out.Protocol = g.stateName(), consumerType, g.assignor
	if out.State != stable.String() {
		out.State = preparing.String()
	}
	for _, m := range g.sorted() {
		e := kmsg.NewDescribeGroupsResponseGroupMember()
		e.MemberID, e.ClientID, e.ClientHost = m.id, m.clientID, m.host
		if m.instance != "" {
			e.InstanceID = &m.instance
		}
		meta := kmsg.ConsumerMemberMetadata{Topics: m.names}
		e.ProtocolMetadata, e.MemberAssignment = meta.AppendTo(nil), g.classicAssignment(m)
		out.Members = append(out.Members, e)
	}
}
