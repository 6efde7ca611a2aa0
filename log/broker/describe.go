package broker

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/trunkline/trunkline/log"
)

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

const (
	consumerType = "consumer" // the protocol type of consumers
	classicType  = "classic"  // the type of a group whose members assign partitions among themselves
	sinkProtocol = "trunkline"
)

// groupKnown reports whether a group has members or offsets.
func (s *Server) groupKnown(name string) bool {
	if g, consumers := s.groups.either(name); g != nil || consumers != nil {
		s.groups.releaseEither(g, consumers)
		return true
	}
	return s.journal.HasConsumers(name) || len(s.journal.Committed(name)) > 0
}

// subscribed returns a test whether members of a group read a topic.
func (c *coordinator) subscribed(name string) func(topic string) bool {
	topics := map[string]bool{}
	g, consumers := c.either(name)
	defer c.releaseEither(g, consumers)
	if consumers != nil {
		read := maps.Clone(consumers.topics)
		return func(topic string) bool { _, ok := read[topic]; return ok }
	}
	if g == nil {
		return func(string) bool { return false }
	}
	if g.protocolType != consumerType {
		some := len(g.members) > 0
		return func(string) bool { return some }
	}
	for _, m := range g.members {
		for _, p := range m.protocols {
			var meta kmsg.ConsumerMemberMetadata
			if meta.ReadFrom(p.Metadata) == nil {
				for _, t := range meta.Topics {
					topics[t] = true
				}
			}
		}
	}
	return func(topic string) bool { return topics[topic] }
}

// describeGroups tells members and states. The groups of sinks are described like those of clients.
func (s *Server) describeGroups(r *request) answer {
	req := r.message.(*kmsg.DescribeGroupsRequest)
	resp := req.ResponseKind().(*kmsg.DescribeGroupsResponse)
	resp.Groups = []kmsg.DescribeGroupsResponseGroup{}
	var sinks []log.Group
	for _, name := range req.Groups {
		out := kmsg.NewDescribeGroupsResponseGroup()
		out.Group, out.State = name, dead.String()
		out.AuthorizedOperations, out.Members = unknownOperations, []kmsg.DescribeGroupsResponseGroupMember{}
		g, consumers := s.groups.either(name)
		switch {
		case g != nil:
			g.describe(&out)
		case consumers != nil:
			consumers.describeClassic(&out)
		case s.journal.HasConsumers(name):
			if sinks == nil {
				sinks, _ = s.journal.Groups(context.Background())
			}
			describeSink(&out, sinks)
		case len(s.journal.Committed(name)) > 0:
			out.State, out.ProtocolType = empty.String(), consumerType
		}
		s.groups.releaseEither(g, consumers)
		resp.Groups = append(resp.Groups, out)
	}
	return now(resp)
}

func (g *group) describe(out *kmsg.DescribeGroupsResponseGroup) {
	out.State, out.ProtocolType = g.state.String(), g.protocolType
	if g.state == stable || g.state == completing {
		out.Protocol = g.protocol
	}
	for _, id := range g.order {
		m := g.members[id]
		e := kmsg.NewDescribeGroupsResponseGroupMember()
		e.MemberID, e.ClientID, e.ClientHost = m.id, m.clientID, m.host
		if m.instance != "" {
			e.InstanceID = &m.instance
		}
		e.ProtocolMetadata, e.MemberAssignment = []byte{}, []byte{}
		if g.state == stable {
			e.ProtocolMetadata = append(e.ProtocolMetadata, m.metadata(g.protocol)...)
			e.MemberAssignment = append(e.MemberAssignment, m.assignment...)
		}
		out.Members = append(out.Members, e)
	}
}

// describeSink describes a group of consumers of this process as if they were clients.
func describeSink(out *kmsg.DescribeGroupsResponseGroup, groups []log.Group) {
	i := slices.IndexFunc(groups, func(g log.Group) bool { return g.Name == out.Group })
	if i < 0 {
		return
	}
	out.State, out.ProtocolType, out.Protocol = stable.String(), consumerType, sinkProtocol
	for _, m := range groups[i].Members {
		byTopic := map[string][]int32{}
		for _, tp := range m.Partitions {
			byTopic[tp.Topic] = append(byTopic[tp.Topic], tp.Partition)
		}
		var a kmsg.ConsumerMemberAssignment
		var meta kmsg.ConsumerMemberMetadata
		for _, topic := range sortedKeys(byTopic) {
			a.Topics = append(a.Topics, kmsg.ConsumerMemberAssignmentTopic{Topic: topic, Partitions: byTopic[topic]})
			meta.Topics = append(meta.Topics, topic)
		}
		e := kmsg.NewDescribeGroupsResponseGroupMember()
		e.MemberID, e.ClientID, e.ClientHost = m.ID, "trunkline", "/127.0.0.1"
		e.ProtocolMetadata, e.MemberAssignment = meta.AppendTo(nil), a.AppendTo(nil)
		out.Members = append(out.Members, e)
	}
}

// listGroups names all groups.
func (s *Server) listGroups(r *request) answer {
	req := r.message.(*kmsg.ListGroupsRequest)
	resp := req.ResponseKind().(*kmsg.ListGroupsResponse)
	resp.Groups = []kmsg.ListGroupsResponseGroup{}
	found := map[string]kmsg.ListGroupsResponseGroup{}
	for _, name := range s.journal.GroupNames() {
		state := empty
		if s.journal.HasConsumers(name) {
			state = stable
		}
		found[name] = kmsg.ListGroupsResponseGroup{Group: name, ProtocolType: consumerType, GroupState: state.String(), GroupType: classicType}
	}
	classic, consumers := s.groups.all()
	for _, g := range classic {
		g.mu.Lock()
		found[g.name] = kmsg.ListGroupsResponseGroup{Group: g.name, ProtocolType: g.protocolType, GroupState: g.state.String(), GroupType: classicType}
		g.mu.Unlock()
	}
	for _, g := range consumers {
		g.mu.Lock()
		found[g.name] = kmsg.ListGroupsResponseGroup{Group: g.name, ProtocolType: consumerType, GroupState: g.stateName(), GroupType: consumerType}
		g.mu.Unlock()
	}
	for _, name := range sortedKeys(found) {
		g := found[name]
		if wanted(req.StatesFilter, g.GroupState) && wanted(req.TypesFilter, g.GroupType) && !strings.HasPrefix(name, log.InternalPrefix) {
			resp.Groups = append(resp.Groups, g)
		}
	}
	return now(resp)
}

// wanted applies a filter that takes all when it is empty.
func wanted(filter []string, value string) bool {
	return len(filter) == 0 || slices.ContainsFunc(filter, func(f string) bool { return strings.EqualFold(f, value) })
}

// deleteGroups forgets groups without members.
func (s *Server) deleteGroups(r *request) answer {
	req := r.message.(*kmsg.DeleteGroupsRequest)
	resp := req.ResponseKind().(*kmsg.DeleteGroupsResponse)
	resp.Groups = []kmsg.DeleteGroupsResponseGroup{}
	for _, name := range req.Groups {
		out := kmsg.NewDeleteGroupsResponseGroup()
		out.Group = name
		switch {
		case name == "":
			out.ErrorCode = kerr.InvalidGroupID.Code
		case !r.c.session.may(s, writer):
			out.ErrorCode = kerr.GroupAuthorizationFailed.Code
		case !s.groupKnown(name):
			out.ErrorCode = kerr.GroupIDNotFound.Code
		default:
			out.ErrorCode = codeOf(s.journal.DeleteGroup(context.Background(), name))
		}
		resp.Groups = append(resp.Groups, out)
	}
	return now(resp)
}
