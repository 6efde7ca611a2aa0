package broker

import (
	"bytes"
	"maps"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/trunkline/trunkline/log"
)

// placed is a partition by its topic's id: a topic that was made anew under its name is another one.
type placed struct {
	topic     [16]byte
	partition int32
}

// placedSet is a set of partitions; of those that a member holds, with the epoch in which it got them.
type placedSet map[placed]int32

// consumerGroup is a group whose members are assigned their partitions here (KIP-848). Its members say what they read, and
// each is brought to its target by heartbeats: it gives up what it is to lose, and gets what others have given up. All
// fields are under mu; timers take it when they fire.
type consumerGroup struct {
	s    *Server
	name string

	mu       sync.Mutex
	gone     bool // not in the coordinator any more
	epoch    int32
	targeted int32 // the epoch of the targets
	members  map[string]*consumerMember
	static   map[string]string // instance id to member id
	holders  map[placed]string // who may be reading a partition: it is assigned to the member, or to be revoked from it
	topics   map[string]topicShape
	looked   time.Time // when topics was made
	assignor string    // that made the targets
}

// topicShape is what an assignment depends on.
type topicShape struct {
	id         [16]byte
	partitions int32
}

// memberState is where a member stands on its way to the target.
type memberState int8

const (
	settled   memberState = iota // it has what it can have in its epoch
	revoking                     // it is to give something up first
	unsettled                    // others hold what it is to get
)

// consumerMember is one member of a consumer group.
type consumerMember struct {
	id        string
	instance  string
	rack      *string
	clientID  string
	host      string
	rebalance time.Duration
	assignor  string // empty: any
	names     []string
	pattern   string // empty: none
	matcher   *regexp.Regexp

	epoch, previous int32
	state           memberState
	assigned        placedSet
	revoked         placedSet // to be given up
	target          placedSet
	load            int            // of the assignor
	away            bool           // a static member that left to come back
	classic         *classicMember // nil: a member of the consumer protocol

	expiry *time.Timer
	giveUp *time.Timer // ends a revocation that takes too long; nil: none
}

func newConsumerGroup(s *Server, name string) *consumerGroup {
	return &consumerGroup{s: s, name: name, members: map[string]*consumerMember{}, static: map[string]string{},
		holders: map[placed]string{}, topics: map[string]topicShape{}}
}

func (g *consumerGroup) isGone() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.gone
}

// topicsAge is how old a group's knowledge of topics may be before a heartbeat looks again.
const topicsAge = time.Second

// refresh looks which topics the members read and what they are made of, and reports whether that has changed.
func (g *consumerGroup) refresh(now time.Time, force bool) bool {
	if !force && now.Sub(g.looked) < topicsAge {
		return false
	}
	g.looked = now
	topics := map[string]topicShape{}
	patterns := false
	for _, m := range g.members {
		patterns = patterns || m.matcher != nil
		for _, name := range m.names {
			if t, err := g.s.journal.Name(name); err == nil && !log.IsInternal(name) {
				topics[name] = topicShape{t.ID, t.Partitions}
			}
		}
	}
	if patterns {
		for _, t := range g.s.journal.Names() {
			if !log.IsInternal(t.Name) && g.matches(t.Name) {
				topics[t.Name] = topicShape{t.ID, t.Partitions}
			}
		}
	}
	changed := !maps.Equal(topics, g.topics)
	g.topics = topics
	return changed
}

func (g *consumerGroup) matches(topic string) bool {
	for _, m := range g.members {
		if m.matcher != nil && m.matcher.MatchString(topic) {
			return true
		}
	}
	return false
}

// reads reports whether a member subscribes to a topic.
func (m *consumerMember) reads(topic string) bool {
	return slices.Contains(m.names, topic) || m.matcher != nil && m.matcher.MatchString(topic)
}

// retarget computes who is to have what, if anything has changed since it was computed last.
func (g *consumerGroup) retarget() {
	if g.targeted == g.epoch {
		return
	}
	g.assignor = g.preferred()
	assignors[g.assignor](g)
	g.targeted = g.epoch
}

// preferred is the assignor that most members ask for.
func (g *consumerGroup) preferred() string {
	votes := map[string]int{}
	for _, m := range g.members {
		if m.assignor != "" {
			votes[m.assignor]++
		}
	}
	best := uniformAssignor
	for _, name := range sortedKeys(votes) {
		if votes[name] > votes[best] {
			best = name
		}
	}
	return best
}

// sorted lists the members by id.
func (g *consumerGroup) sorted() []*consumerMember {
	out := make([]*consumerMember, 0, len(g.members))
	for _, id := range sortedKeys(g.members) {
		out = append(out, g.members[id])
	}
	return out
}

// add makes a member.
func (g *consumerGroup) add(m *consumerMember) {
	g.members[m.id] = m
	if m.instance != "" {
		g.static[m.instance] = m.id
	}
	session := g.s.o.ConsumerSession
	if m.classic != nil && m.classic.session > 0 {
		session = m.classic.session
	}
	m.expiry = time.AfterFunc(session, func() { g.end(m, "was silent for too long") })
}

// remove ends a membership; what the member held is free.
func (g *consumerGroup) remove(m *consumerMember) {
	m.stopTimers()
	for tp, id := range g.holders {
		if id == m.id {
			delete(g.holders, tp)
		}
	}
	delete(g.members, m.id)
	if m.instance != "" && g.static[m.instance] == m.id {
		delete(g.static, m.instance)
	}
	g.epoch++
	g.refresh(time.Now(), true)
}

func (m *consumerMember) stopTimers() {
	m.expiry.Stop()
	m.stopGiveUp()
}

func (m *consumerMember) stopGiveUp() {
	if m.giveUp != nil {
		m.giveUp.Stop()
		m.giveUp = nil
	}
}

// end removes a member whose time is over.
func (g *consumerGroup) end(m *consumerMember, why string) {
	g.mu.Lock()
	if g.gone || g.members[m.id] != m {
		g.mu.Unlock()
		return
	}
	g.s.logger.Info("a member of a group "+why, "group", g.name, "client", m.clientID)
	g.remove(m)
	g.s.groups.releaseConsumers(g)
}

// stateName is Kafka's name of what the group is doing.
func (g *consumerGroup) stateName() string {
	switch {
	case len(g.members) == 0:
		return empty.String()
	case g.targeted != g.epoch:
		return "Assigning"
	}
	for _, m := range g.members {
		if m.state != settled || m.epoch != g.targeted && !m.away {
			return "Reconciling"
		}
	}
	return stable.String()
}

// check finds a member that fetches or commits offsets. Its epoch has to be the one it was told last, or, when it commits,
// one in which it had the partitions already: the answer to its last heartbeat may still be on its way.
func (g *consumerGroup) check(id string, epoch int32, commits []log.TopicPartition) *kerr.Error {
	m := g.members[id]
	switch {
	case m == nil:
		return kerr.UnknownMemberID
	case m.epoch == epoch:
		return nil
	case m.classic != nil:
		return kerr.IllegalGeneration
	case epoch > m.epoch || len(commits) == 0:
		return kerr.StaleMemberEpoch
	}
	for _, tp := range commits {
		at := placed{g.topics[tp.Topic].id, tp.Partition}
		since, holds := m.assigned[at]
		if !holds {
			since, holds = m.revoked[at]
		}
		if !holds || since > epoch {
			return kerr.StaleMemberEpoch
		}
	}
	return nil
}

// partitions lists a set as the log names partitions.
func (g *consumerGroup) partitions(set placedSet) []log.TopicPartition {
	var out []log.TopicPartition
	for _, topic := range sortedKeys(g.topics) {
		for i := range g.topics[topic].partitions {
			if _, ok := set[placed{g.topics[topic].id, i}]; ok {
				out = append(out, log.TopicPartition{Topic: topic, Partition: i})
			}
		}
	}
	return out
}

// byTopicID lists a set by topic, the partitions in order.
func byTopicID(set placedSet) map[[16]byte][]int32 {
	out := map[[16]byte][]int32{}
	for tp := range set {
		out[tp.topic] = append(out[tp.topic], tp.partition)
	}
	for _, list := range out {
		slices.Sort(list)
	}
	return out
}

func sortedIDs(m map[[16]byte][]int32) [][16]byte {
	return slices.SortedFunc(maps.Keys(m), func(a, b [16]byte) int { return bytes.Compare(a[:], b[:]) })
}
