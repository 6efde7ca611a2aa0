package broker

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// groupState is where a classic group stands between rebalances.
type groupState int8

const (
	empty      groupState = iota
	preparing             // members are to join
	completing            // the leader is to say who gets what
	stable
	dead // not in the coordinator any more
)

// String returns Kafka's name.
func (s groupState) String() string {
	return [...]string{"Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"}[s]
}

// group is a classic consumer group, or one of Kafka Connect's. What its members subscribe to and get is opaque bytes,
// made and read by the members. All fields are under mu; timers take it when they fire.
type group struct {
	s    *Server
	name string

	mu           sync.Mutex
	state        groupState
	generation   int32
	protocolType string
	protocol     string
	leader       string
	members      map[string]*member
	order        []string               // of ids, by their joining
	static       map[string]string      // instance id to member id
	promised     map[string]*time.Timer // ids that were given to clients who have not joined with them yet
	timer        *time.Timer            // the end of preparing
	round        int                    // tells a timer that fired late
	first        bool                   // the first rebalance waits for more members
}

// member is one member of a group.
type member struct {
	id         string
	instance   string // empty: dynamic
	clientID   string
	host       string
	session    time.Duration
	rebalance  time.Duration
	protocols  []kmsg.JoinGroupRequestProtocol
	assignment []byte
	carried    int32 // the generation that it knows from before the group was a classic one; 0: none
	expiry     *time.Timer
	joining    chan joined // the request that waits; nil: none
	syncing    chan synced
}

// joined is the end of a join that waited: what to answer.
type joined struct {
	err        *kerr.Error
	memberID   string
	generation int32
	protocol   string
	kind       string // protocol type
	leader     string
	skip       bool // the leader keeps the assignment
	members    []kmsg.JoinGroupResponseMember
}

// synced is the end of a sync that waited.
type synced struct {
	err        *kerr.Error
	kind       string
	protocol   string
	assignment []byte
}

func newGroup(s *Server, name string) *group {
	return &group{s: s, name: name, members: map[string]*member{}, static: map[string]string{}, promised: map[string]*time.Timer{}}
}

// newMemberID makes an id that shows whose it is.
func newMemberID(prefix string) string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	return prefix + "-" + base64.RawURLEncoding.EncodeToString(b)
}

// add makes a member.
func (g *group) add(m *member) {
	g.members[m.id] = m
	g.order = append(g.order, m.id)
	if m.instance != "" {
		g.static[m.instance] = m.id
	}
	if g.leader == "" {
		g.leader = m.id
	}
	id := m.id
	m.expiry = time.AfterFunc(m.session, func() { g.expire(id, m) })
}

// remove ends a membership. A request of the member that waits is answered.
func (g *group) remove(m *member) {
	m.expiry.Stop()
	m.answerJoin(joined{err: kerr.UnknownMemberID, memberID: m.id})
	m.answerSync(synced{err: kerr.UnknownMemberID})
	delete(g.members, m.id)
	g.order = slices.DeleteFunc(g.order, func(id string) bool { return id == m.id })
	if m.instance != "" && g.static[m.instance] == m.id {
		delete(g.static, m.instance)
	}
	if g.leader == m.id {
		g.leader = ""
		if len(g.order) > 0 {
			g.leader = g.order[0]
		}
	}
}

func (m *member) answerJoin(j joined) {
	if m.joining != nil {
		m.joining <- j
		m.joining = nil
	}
}

func (m *member) answerSync(s synced) {
	if m.syncing != nil {
		m.syncing <- s
		m.syncing = nil
	}
}

// alive puts off the end of a member's session.
func (m *member) alive() { m.expiry.Reset(m.session) }

// expire removes a member that was silent for too long. One whose join waits is alive.
func (g *group) expire(id string, m *member) {
	g.mu.Lock()
	if g.state == dead || g.members[id] != m {
		g.mu.Unlock()
		return
	}
	if m.joining != nil {
		m.alive()
		g.mu.Unlock()
		return
	}
	g.s.logger.Info("a member of a group was silent for too long", "group", g.name, "client", m.clientID)
	g.remove(m)
	g.changed()
	g.s.groups.release(g)
}

// changed follows a change in the membership.
func (g *group) changed() {
	switch g.state {
	case stable, completing:
		g.prepare()
	case preparing:
		g.completeIfAll()
	}
}

// prepare begins a rebalance: all members are to join anew.
func (g *group) prepare() {
	for _, m := range g.members {
		m.answerSync(synced{err: kerr.RebalanceInProgress})
	}
	g.first = g.state == empty
	g.state = preparing
	wait := g.s.o.RebalanceDelay
	if !g.first {
		wait = 0
		for _, m := range g.members {
			wait = max(wait, m.rebalance)
		}
	}
	g.startTimer(wait, g.complete)
	g.completeIfAll()
}

func (g *group) startTimer(wait time.Duration, f func()) {
	g.stopTimer()
	round := g.round
	g.timer = time.AfterFunc(wait, func() {
		g.mu.Lock()
		if g.state == dead || g.round != round {
			g.mu.Unlock()
			return
		}
		f()
		g.s.groups.release(g)
	})
}

func (g *group) stopTimer() {
	g.round++
	if g.timer != nil {
		g.timer.Stop()
	}
}

// completeIfAll ends preparing once nobody is missing.
func (g *group) completeIfAll() {
	if g.first || len(g.promised) > 0 {
		return
	}
	for _, m := range g.members {
		if m.joining == nil {
			return
		}
	}
	g.complete()
}

// complete ends preparing: those who have not joined are out, unless they are static, and the leader is asked who gets
// what.
func (g *group) complete() {
	g.stopTimer()
	g.first = false
	for _, id := range slices.Clone(g.order) {
		if m := g.members[id]; m.joining == nil && m.instance == "" {
			g.remove(m)
		}
	}
	g.generation++
	if len(g.members) == 0 {
		g.state, g.protocol = empty, ""
		return
	}
	if m := g.members[g.leader]; m.joining == nil {
		for _, id := range g.order {
			if g.members[id].joining != nil {
				g.leader = id
				break
			}
		}
	}
	g.protocol = g.choose()
	g.state = completing
	for _, id := range g.order {
		m := g.members[id]
		m.carried = 0
		m.alive()
		m.answerJoin(g.joinedAs(m))
	}
}

// joinedAs is what a member hears at the end of a join.
func (g *group) joinedAs(m *member) joined {
	j := joined{memberID: m.id, generation: g.generation, protocol: g.protocol, kind: g.protocolType, leader: g.leader}
	if m.id == g.leader {
		j.members = g.memberList()
	}
	return j
}

func (g *group) memberList() []kmsg.JoinGroupResponseMember {
	out := make([]kmsg.JoinGroupResponseMember, 0, len(g.order))
	for _, id := range g.order {
		m := g.members[id]
		e := kmsg.JoinGroupResponseMember{MemberID: id, ProtocolMetadata: m.metadata(g.protocol)}
		if m.instance != "" {
			e.InstanceID = &m.instance
		}
		out = append(out, e)
	}
	return out
}

func (m *member) metadata(protocol string) []byte {
	for _, p := range m.protocols {
		if p.Name == protocol {
			return p.Metadata
		}
	}
	return []byte{}
}

func (m *member) supports(protocol string) bool {
	return slices.ContainsFunc(m.protocols, func(p kmsg.JoinGroupRequestProtocol) bool { return p.Name == protocol })
}

// choose picks the protocol that all members know and most like best.
func (g *group) choose() string {
	votes := map[string]int{}
	var candidates []string
	for _, id := range g.order {
		for _, p := range g.members[id].protocols {
			if !g.allSupport(p.Name, "") {
				continue
			}
			if votes[p.Name] == 0 {
				candidates = append(candidates, p.Name)
			}
			votes[p.Name]++
			break
		}
	}
	if len(candidates) == 0 {
		return ""
	}
	return slices.MaxFunc(candidates, func(a, b string) int { return votes[a] - votes[b] })
}

// allSupport reports whether all members but one know a protocol.
func (g *group) allSupport(protocol, but string) bool {
	for id, m := range g.members {
		if id != but && !m.supports(protocol) {
			return false
		}
	}
	return true
}

// fits reports whether somebody with these protocols can be a member.
func (g *group) fits(kind string, protocols []kmsg.JoinGroupRequestProtocol, id string) bool {
	if kind == "" || len(protocols) == 0 {
		return false
	}
	others := len(g.members)
	if g.members[id] != nil {
		others--
	}
	if others == 0 {
		return true
	}
	return kind == g.protocolType && slices.ContainsFunc(protocols, func(p kmsg.JoinGroupRequestProtocol) bool { return g.allSupport(p.Name, id) })
}

// sameProtocols reports whether a member that joins anew says what it said before.
func (m *member) sameProtocols(protocols []kmsg.JoinGroupRequestProtocol) bool {
	return slices.EqualFunc(m.protocols, protocols, func(a, b kmsg.JoinGroupRequestProtocol) bool {
		return a.Name == b.Name && bytes.Equal(a.Metadata, b.Metadata)
	})
}

// sameSubscription is sameProtocols for a new process of a static member: it has no partitions yet, while the old one told
// which it had, and in which generation.
func (m *member) sameSubscription(protocols []kmsg.JoinGroupRequestProtocol) bool {
	return slices.EqualFunc(m.protocols, protocols, func(a, b kmsg.JoinGroupRequestProtocol) bool {
		if a.Name != b.Name {
			return false
		}
		var x, y kmsg.ConsumerMemberMetadata
		if x.ReadFrom(a.Metadata) != nil || y.ReadFrom(b.Metadata) != nil {
			return bytes.Equal(a.Metadata, b.Metadata)
		}
		slices.Sort(x.Topics)
		slices.Sort(y.Topics)
		return slices.Equal(x.Topics, y.Topics) && bytes.Equal(x.UserData, y.UserData) && (x.Rack == nil) == (y.Rack == nil) && (x.Rack == nil || *x.Rack == *y.Rack)
	})
}

// check finds a member that says who it is.
func (g *group) check(id string, instance *string, generation int32) (*member, *kerr.Error) {
	if instance != nil {
		have, ok := g.static[*instance]
		switch {
		case !ok:
			return nil, kerr.UnknownMemberID
		case have != id:
			return nil, kerr.FencedInstanceID
		}
	}
	m := g.members[id]
	if m == nil {
		return nil, kerr.UnknownMemberID
	}
	if generation != g.generation && (m.carried == 0 || generation != m.carried) {
		return nil, kerr.IllegalGeneration
	}
	return m, nil
}
