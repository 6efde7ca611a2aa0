package kafka

import (
	"cmp"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// wholeTopics is a cooperative balancer that gives all partitions of a topic to one member. A truncate has to take effect
// between the same rows in all of them, and only who reads them all can see to that.
type wholeTopics struct{ kgo.GroupBalancer }

// ProtocolName is what the members of a group have to agree on.
func (wholeTopics) ProtocolName() string { return "trunkline-whole-topics" }

// MemberBalancer is called on the member that leads the group.
func (w wholeTopics) MemberBalancer(members []kmsg.JoinGroupResponseMember) (kgo.GroupMemberBalancer, map[string]struct{}, error) {
	b, err := kgo.NewConsumerBalancer(w, members)
	return b, b.MemberTopics(), err
}

// Balance keeps a topic with the member that has most of it where that leaves nobody with two partitions more than
// needed, and gives the rest to the member with the fewest partitions, large topics first.
func (wholeTopics) Balance(b *kgo.ConsumerBalancer, topics map[string]int32) kgo.IntoSyncAssignment {
	plan := b.NewPlan()
	var list []*candidate
	holds := map[string]map[string]int{} // topic, member: partitions
	b.EachMember(func(m *kmsg.JoinGroupResponseMember, meta *kmsg.ConsumerMemberMetadata) {
		c := &candidate{member: m, wants: map[string]bool{}}
		for _, t := range meta.Topics {
			c.wants[t] = true
		}
		for _, owned := range meta.OwnedPartitions {
			if holds[owned.Topic] == nil {
				holds[owned.Topic] = map[string]int{}
			}
			holds[owned.Topic][m.MemberID] += len(owned.Partitions)
		}
		list = append(list, c)
	})
	slices.SortFunc(list, func(a, b *candidate) int { return cmp.Compare(a.member.MemberID, b.member.MemberID) })
	order := slices.SortedFunc(maps.Keys(topics), func(a, b string) int {
		return cmp.Or(cmp.Compare(topics[b], topics[a]), cmp.Compare(a, b))
	})
	total := int32(0)
	for _, t := range order {
		total += topics[t]
	}
	if len(list) == 0 {
		return plan
	}
	fair := (total + int32(len(list)) - 1) / int32(len(list))
	var rest []string
	for _, t := range order {
		holder := holderOf(list, t, holds[t])
		if holder == nil || holder.load > 0 && holder.load+topics[t] > fair {
			rest = append(rest, t)
			continue
		}
		holder.give(plan, t, topics[t])
	}
	for _, t := range rest {
		if c := idlest(list, t); c != nil {
			c.give(plan, t, topics[t])
		}
	}
	plan.AdjustCooperative(b)
	return plan
}

// candidate is a member to whom topics can be given.
type candidate struct {
	member *kmsg.JoinGroupResponseMember
	wants  map[string]bool
	load   int32
}

func (c *candidate) give(plan *kgo.BalancePlan, topic string, partitions int32) {
	for p := range partitions {
		plan.AddPartition(c.member, topic, p)
	}
	c.load += partitions
}

func holderOf(list []*candidate, topic string, holds map[string]int) *candidate {
	var best *candidate
	for _, c := range list {
		n := holds[c.member.MemberID]
		if n > 0 && c.wants[topic] && (best == nil || n > holds[best.member.MemberID]) {
			best = c
		}
	}
	return best
}

func idlest(list []*candidate, topic string) *candidate {
	var best *candidate
	for _, c := range list {
		if c.wants[topic] && (best == nil || c.load < best.load) {
			best = c
		}
	}
	return best
}
