package broker

import (
	"cmp"
	"slices"
)

// Names of the assignors, as clients ask for them.
const (
	uniformAssignor = "uniform"
	rangeAssignor   = "range"
)

// assignors set the target of every member of a group.
var assignors = map[string]func(g *consumerGroup){
	uniformAssignor: (*consumerGroup).assignUniform,
	rangeAssignor:   (*consumerGroup).assignRange,
}

// assignRange gives each reader of a topic a run of its partitions. The readers of a topic stand in the same order for
// all topics, so that those who read topics of the same width get the same partitions of each.
func (g *consumerGroup) assignRange() {
	members := g.sorted()
	slices.SortStableFunc(members, func(a, b *consumerMember) int {
		return cmp.Compare(cmp.Or(a.instance, a.id), cmp.Or(b.instance, b.id))
	})
	for _, m := range members {
		m.target = placedSet{}
	}
	for topic, shape := range g.topics {
		readers := slices.DeleteFunc(slices.Clone(members), func(m *consumerMember) bool { return !m.reads(topic) })
		next, n := int32(0), int32(len(readers))
		for i, m := range readers {
			width := shape.partitions / n
			if int32(i) < shape.partitions%n {
				width++
			}
			for range width {
				m.target[placed{shape.id, next}] = g.epoch
				next++
			}
		}
	}
}

// assignUniform gives every member about the same number of partitions, and moves as few as it can: members keep what
// they have, what nobody has goes to the reader with the least, and then the one with the most hands over to the one
// with the least until that changes nothing.
func (g *consumerGroup) assignUniform() {
	members := g.sorted()
	owner := map[placed]*consumerMember{}
	for _, m := range members {
		for tp := range m.target {
			owner[tp] = m
		}
		m.target, m.load = placedSet{}, 0
	}
	least := func(readers []*consumerMember) *consumerMember {
		return slices.MinFunc(readers, func(a, b *consumerMember) int { return cmp.Compare(a.load, b.load) })
	}
	type spot struct {
		tp      placed
		readers []*consumerMember
	}
	var all, free []spot
	for _, topic := range sortedKeys(g.topics) {
		shape := g.topics[topic]
		readers := slices.DeleteFunc(slices.Clone(members), func(m *consumerMember) bool { return !m.reads(topic) })
		if len(readers) == 0 {
			continue
		}
		for i := range shape.partitions {
			s := spot{placed{shape.id, i}, readers}
			all = append(all, s)
			if o := owner[s.tp]; o != nil && slices.Contains(readers, o) {
				o.load++
			} else {
				free = append(free, s)
			}
		}
	}
	for _, s := range free {
		m := least(s.readers)
		owner[s.tp] = m
		m.load++
	}
	for moved := true; moved; {
		moved = false
		for _, s := range all {
			from, to := owner[s.tp], least(s.readers)
			if from.load > to.load+1 {
				from.load--
				to.load++
				owner[s.tp] = to
				moved = true
			}
		}
	}
	for _, s := range all {
		owner[s.tp].target[s.tp] = g.epoch
	}
}
