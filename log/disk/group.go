package disk

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/trunkline/trunkline/log"
)

// group is a consumer group. The list of topics is read under its lock, so that of two changes of it the later one wins.
type group struct {
	l    *Log
	name string

	mu      sync.Mutex
	members []*consumer // by id
	target  map[log.TopicPartition]*consumer
	owner   map[log.TopicPartition]*consumer // who reads it now; handed over only by the owner itself
	offsets log.Offsets                      // committed and durable

	metadata map[log.TopicPartition]string // of offsets that clients outside committed
}

func newGroup(l *Log, name string) *group {
	return &group{l: l, name: name, target: map[log.TopicPartition]*consumer{}, owner: map[log.TopicPartition]*consumer{}, offsets: log.Offsets{}}
}

// group returns the named group, making it if there is none.
func (l *Log) group(name string) *group {
	l.groupMu.Lock()
	defer l.groupMu.Unlock()
	g := l.groups[name]
	if g == nil {
		g = newGroup(l, name)
		l.groups[name] = g
	}
	return g
}

// groupList returns all groups by name.
func (l *Log) groupList() []*group {
	l.groupMu.Lock()
	defer l.groupMu.Unlock()
	return slices.SortedFunc(maps.Values(l.groups), func(a, b *group) int { return cmp.Compare(a.name, b.name) })
}

// Groups returns every group that has members or committed offsets.
func (l *Log) Groups(context.Context) ([]log.Group, error) {
	if err := l.usable(); err != nil {
		return nil, err
	}
	var out []log.Group
	for _, g := range l.groupList() {
		if d := g.describe(); len(d.Members) > 0 || len(d.Offsets) > 0 {
			out = append(out, d)
		}
	}
	return l.addOutside(out), nil
}

func (g *group) describe() log.Group {
	g.mu.Lock()
	defer g.mu.Unlock()
	d := log.Group{Name: g.name, Offsets: maps.Clone(g.offsets)}
	for _, m := range g.members {
		member := log.Member{ID: m.id}
		for tp, owner := range g.owner {
			if owner == m {
				member.Partitions = append(member.Partitions, tp)
			}
		}
		slices.SortFunc(member.Partitions, comparePartitions)
		d.Members = append(d.Members, member)
	}
	return d
}

// SetOffsets stores offsets for a group without members.
func (l *Log) SetOffsets(_ context.Context, name string, offsets log.Offsets) error {
	if err := l.usable(); err != nil {
		return err
	}
	for tp := range offsets {
		if _, err := l.partition(tp); err != nil {
			return err
		}
	}
	if err := l.idleOutside(name); err != nil {
		return err
	}
	g := l.group(name)
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.members) > 0 {
		return fmt.Errorf("set offsets of group %q: %w", name, log.ErrGroupActive)
	}
	return l.storeOffsets(g, offsets)
}

// DeleteGroup forgets the offsets of a group without members.
func (l *Log) DeleteGroup(_ context.Context, name string) error {
	if err := l.usable(); err != nil {
		return err
	}
	if err := l.idleOutside(name); err != nil {
		return err
	}
	g := l.group(name)
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.members) > 0 {
		return fmt.Errorf("delete group %q: %w", name, log.ErrGroupActive)
	}
	return l.forgetOffsets(g, slices.Collect(maps.Keys(g.offsets)))
}

// join makes c a member.
func (g *group) join(c *consumer) {
	g.mu.Lock()
	defer g.mu.Unlock()
	i, _ := slices.BinarySearchFunc(g.members, c.id, func(m *consumer, id string) int { return cmp.Compare(m.id, id) })
	g.members = slices.Insert(g.members, i, c)
	g.rebalance()
}

// leave gives up everything that c holds and its membership.
func (g *group) leave(c *consumer) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.members = slices.DeleteFunc(g.members, func(m *consumer) bool { return m == c })
	maps.DeleteFunc(g.owner, func(_ log.TopicPartition, m *consumer) bool { return m == c })
	maps.DeleteFunc(g.target, func(_ log.TopicPartition, m *consumer) bool { return m == c })
	g.rebalance()
}

// refresh is called when topics came or went.
func (g *group) refresh() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.rebalance()
}

// rebalance computes who should own what, moving as little as it can, and wakes all members. Every member gives up and
// takes in its own Poll.
func (g *group) rebalance() {
	wanted := map[log.TopicPartition][]*consumer{}
	for _, t := range g.l.topicList() {
		var readers []*consumer
		for _, m := range g.members {
			if m.wants(t.name) {
				readers = append(readers, m)
			}
		}
		if len(readers) > 0 {
			for i := range t.partitions {
				wanted[log.TopicPartition{Topic: t.name, Partition: int32(i)}] = readers
			}
		}
	}
	g.target = assign(wanted, g.target)
	for _, m := range g.members {
		m.rebalance.Store(true)
		m.notify()
	}
}

// assign keeps every partition with its present owner where that leaves no member with two partitions more than another
// that could take one, and gives the rest to the member with the fewest.
func assign(wanted map[log.TopicPartition][]*consumer, now map[log.TopicPartition]*consumer) map[log.TopicPartition]*consumer {
	next := make(map[log.TopicPartition]*consumer, len(wanted))
	load := map[*consumer]int{}
	order := slices.SortedFunc(maps.Keys(wanted), comparePartitions)
	for _, tp := range order {
		if m := now[tp]; m != nil && slices.Contains(wanted[tp], m) {
			next[tp] = m
			load[m]++
		}
	}
	for _, tp := range order {
		if next[tp] == nil {
			m := idlest(wanted[tp], load)
			next[tp] = m
			load[m]++
		}
	}
	for moved := true; moved; {
		moved = false
		for _, tp := range order {
			from, to := next[tp], idlest(wanted[tp], load)
			if load[from] >= load[to]+2 {
				next[tp] = to
				load[from]--
				load[to]++
				moved = true
			}
		}
	}
	return next
}

func idlest(members []*consumer, load map[*consumer]int) *consumer {
	return slices.MinFunc(members, func(a, b *consumer) int {
		return cmp.Or(cmp.Compare(load[a], load[b]), cmp.Compare(a.id, b.id))
	})
}

// changes returns what c has to give up, with what is gone in any case, and what it may take now, in order.
func (g *group) changes(c *consumer, gone []log.TopicPartition) (lost, gained []log.TopicPartition) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for tp, m := range g.owner {
		if m == c && (g.target[tp] != c || slices.Contains(gone, tp)) {
			lost = append(lost, tp)
		}
	}
	for tp, m := range g.target {
		if m == c && g.owner[tp] == nil {
			gained = append(gained, tp)
			g.owner[tp] = c
		}
	}
	slices.SortFunc(lost, comparePartitions)
	slices.SortFunc(gained, comparePartitions)
	return lost, gained
}

// release hands over what c gave up, and tells those who wait for it.
func (g *group) release(c *consumer, lost []log.TopicPartition) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, tp := range lost {
		if g.owner[tp] != c {
			continue
		}
		delete(g.owner, tp)
		if next := g.target[tp]; next != nil {
			next.rebalance.Store(true)
			next.notify()
		}
	}
}

// committed returns the stored offset of a partition.
func (g *group) committed(tp log.TopicPartition) (int64, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	offset, ok := g.offsets[tp]
	return offset, ok
}

func comparePartitions(a, b log.TopicPartition) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}

// matches reports whether a pattern with the wildcards * and ? names the topic. Internal topics are named in full only.
func matches(pattern, name string) bool {
	if !strings.ContainsAny(pattern, "*?") {
		return pattern == name
	}
	return !log.IsInternal(name) && glob(pattern, name)
}

// glob matches with one point of return, the last star: it takes pattern times name at the most.
func glob(pattern, name string) bool {
	p, n, star, mark := 0, 0, -1, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, n
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == name[n]):
			p++
			n++
		case star >= 0:
			mark++
			p, n = star+1, mark
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}
