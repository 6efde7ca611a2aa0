package broker

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Epochs in a heartbeat that are none.
const (
	joinEpoch  = 0
	leaveEpoch = -1
	awayEpoch  = -2 // a static member leaves to come back
)

// Limits of what members of consumer groups may say of themselves, bytes.
const (
	maxMemberName = 1 << 10
	maxPattern    = 4 << 10

	firstOwnMemberID = 1 // ConsumerGroupHeartbeat: clients make their ids themselves
)

// consumerHeartbeat is the one request of members of consumer groups: they join, stay, change what they read, say what
// they have given up, and leave with it, and hear what is theirs.
func (s *Server) consumerHeartbeat(r *request) answer {
	req := r.message.(*kmsg.ConsumerGroupHeartbeatRequest)
	resp := req.ResponseKind().(*kmsg.ConsumerGroupHeartbeatResponse)
	if err := s.beat(r, req, resp); err != nil {
		resp.ErrorCode, resp.ErrorMessage = codeOf(err), text(err)
		return now(resp)
	}
	resp.HeartbeatIntervalMillis = int32(s.o.ConsumerHeartbeat.Milliseconds())
	return now(resp)
}

func (s *Server) beat(r *request, req *kmsg.ConsumerGroupHeartbeatRequest, resp *kmsg.ConsumerGroupHeartbeatResponse) error {
	if err := checkHeartbeat(req); err != nil {
		return err
	}
	if s.o.Reserved(req.Group) || s.journal.HasConsumers(req.Group) {
		return fmt.Errorf("%w: %s is the group of a sink", kerr.GroupAuthorizationFailed, req.Group)
	}
	g, err := s.groups.consumers(req.Group, req.MemberEpoch == joinEpoch)
	if err != nil {
		return err
	}
	if g == nil {
		return s.groups.strangerIn(req)
	}
	defer s.groups.releaseConsumers(g)
	if req.MemberEpoch < joinEpoch {
		return g.leave(req, resp)
	}
	said, err := g.identify(req)
	if err != nil {
		return err
	}
	m := said.member
	changed, err := m.update(r, req)
	if err != nil {
		return err
	}
	if said.isNew {
		g.add(m)
	}
	changed = changed || said.isNew
	if g.refresh(time.Now(), changed) || changed {
		g.epoch++
	}
	g.retarget()
	m.expiry.Reset(s.o.ConsumerSession)
	moved := g.reconcile(m, said.owned)
	resp.MemberID, resp.MemberEpoch = &m.id, m.epoch
	saysAll := req.RebalanceTimeoutMillis != -1 && (req.SubscribedTopicNames != nil || req.SubscribedTopicRegex != nil) && req.Topics != nil
	if moved || saysAll || req.MemberEpoch == joinEpoch {
		resp.Assignment = m.assignment()
	}
	return nil
}

// checkHeartbeat says what is wrong with a request by itself.
func checkHeartbeat(req *kmsg.ConsumerGroupHeartbeatRequest) error {
	joins := req.MemberEpoch == joinEpoch
	why := ""
	switch {
	case req.Group == "":
		why = "it names no group"
	case req.MemberEpoch < awayEpoch:
		why = "there is no such member epoch"
	case req.MemberID == "" && (!joins || req.Version >= firstOwnMemberID):
		why = "it names no member"
	case len(req.MemberID) > maxMemberName || req.InstanceID != nil && len(*req.InstanceID) > maxMemberName:
		why = "its names are too long"
	case req.InstanceID != nil && *req.InstanceID == "":
		why = "its instance id is empty"
	case req.MemberEpoch == awayEpoch && req.InstanceID == nil:
		why = "only static members leave to come back"
	case joins && (req.RebalanceTimeoutMillis == -1 || req.SubscribedTopicNames == nil && req.SubscribedTopicRegex == nil):
		why = "who joins has to say what it reads and how long it needs to give it up"
	case joins && (req.Topics == nil || len(req.Topics) > 0):
		why = "who joins has no partitions"
	}
	if why != "" {
		return fmt.Errorf("%w: %s", kerr.InvalidRequest, why)
	}
	if req.ServerAssignor != nil && assignors[*req.ServerAssignor] == nil {
		return fmt.Errorf("%w: there are %s and %s", kerr.UnsupportedAssignor, uniformAssignor, rangeAssignor)
	}
	return nil
}

// heard is who sent a heartbeat.
type heard struct {
	member *consumerMember
	isNew  bool
	owned  placedSet // what it says it has; nil: it does not say
}

// identify finds the member that joins or stays.
func (g *consumerGroup) identify(req *kmsg.ConsumerGroupHeartbeatRequest) (heard, error) {
	h := heard{member: g.members[req.MemberID]}
	if req.Topics != nil {
		h.owned = placedSet{}
		for _, t := range req.Topics {
			for _, p := range t.Partitions {
				h.owned[placed{t.TopicID, p}] = req.MemberEpoch
			}
		}
	}
	joins := req.MemberEpoch == joinEpoch
	if req.InstanceID != nil {
		holder, known := g.static[*req.InstanceID]
		switch {
		case !known && !joins:
			return h, kerr.UnknownMemberID
		case known && !joins && holder != req.MemberID:
			return h, kerr.FencedInstanceID
		case known && joins && holder != req.MemberID && !g.members[holder].away && g.members[holder].classic == nil:
			return h, kerr.UnreleasedInstanceID
		case known && joins && holder != req.MemberID:
			h.member = g.succeed(g.members[holder], req.MemberID)
			return h, nil
		}
	}
	switch {
	case h.member == nil && !joins:
		return h, kerr.UnknownMemberID
	case h.member == nil && len(g.members) >= maxMembers:
		return h, kerr.GroupMaxSizeReached
	case h.member == nil:
		h.member, h.isNew = &consumerMember{id: req.MemberID, assigned: placedSet{}, target: placedSet{}}, true
		if h.member.id == "" {
			h.member.id = newMemberID("consumer")
		}
		if req.InstanceID != nil {
			h.member.instance = *req.InstanceID
		}
	case joins:
		h.member.away = false
	case req.MemberEpoch != h.member.epoch && !(req.MemberEpoch == h.member.previous && h.owned != nil && within(h.owned, h.member.assigned)):
		return h, kerr.FencedMemberEpoch // one epoch back is who did not get the last answer
	case h.member.classic != nil && !joins:
		return h, kerr.UnknownMemberID // it goes on with the protocol that it joined with
	}
	return h, nil
}

func within(a, b placedSet) bool {
	for tp := range a {
		if _, ok := b[tp]; !ok {
			return false
		}
	}
	return true
}

func overlap(a, b placedSet) bool {
	for tp := range a {
		if _, ok := b[tp]; ok {
			return true
		}
	}
	return false
}

// succeed puts a static member's new process in the place of the one that left to come back. It gets what that had.
func (g *consumerGroup) succeed(old *consumerMember, id string) *consumerMember {
	old.stopTimers()
	delete(g.members, old.id)
	m := *old
	m.id, m.epoch, m.previous, m.away, m.giveUp = id, joinEpoch, joinEpoch, false, nil
	for tp, holder := range g.holders {
		if holder == old.id {
			g.holders[tp] = id
		}
	}
	g.add(&m)
	return &m
}

// leave ends a membership, or, of a static member, its process: it keeps its partitions until its session ends.
func (g *consumerGroup) leave(req *kmsg.ConsumerGroupHeartbeatRequest, resp *kmsg.ConsumerGroupHeartbeatResponse) error {
	id := req.MemberID
	if req.InstanceID != nil {
		holder, known := g.static[*req.InstanceID]
		switch {
		case !known:
			return kerr.UnknownMemberID
		case holder != id:
			return kerr.FencedInstanceID
		}
	}
	m := g.members[id]
	if m == nil {
		return kerr.UnknownMemberID
	}
	resp.MemberID, resp.MemberEpoch = &m.id, req.MemberEpoch
	if req.MemberEpoch == leaveEpoch {
		g.remove(m)
		return nil
	}
	m.away = true
	m.epoch, m.previous = awayEpoch, awayEpoch
	g.release(m)
	m.state = settled
	return nil
}

// expel removes a member that an administrator names, by its id or as a static one.
func (g *consumerGroup) expel(l kmsg.LeaveGroupRequestMember) *kerr.Error {
	id := l.MemberID
	if l.InstanceID != nil {
		holder, known := g.static[*l.InstanceID]
		switch {
		case !known:
			return kerr.UnknownMemberID
		case id != "" && id != holder:
			return kerr.FencedInstanceID
		}
		id = holder
	}
	m := g.members[id]
	if m == nil {
		return kerr.UnknownMemberID
	}
	g.remove(m)
	return nil
}

// update takes what a heartbeat says of the member. changed: it reads something else than before.
func (m *consumerMember) update(r *request, req *kmsg.ConsumerGroupHeartbeatRequest) (changed bool, err error) {
	if p := req.SubscribedTopicRegex; p != nil && *p != m.pattern {
		if len(*p) > maxPattern {
			return false, kerr.InvalidRegularExpression
		}
		var matcher *regexp.Regexp
		if *p != "" {
			if matcher, err = regexp.Compile("^(?:" + *p + ")$"); err != nil {
				return false, fmt.Errorf("%w: %w", kerr.InvalidRegularExpression, err)
			}
		}
		m.pattern, m.matcher, changed = *p, matcher, true
	}
	if req.SubscribedTopicNames != nil {
		names := slices.Clone(req.SubscribedTopicNames)
		slices.Sort(names)
		names = slices.Compact(names)
		changed = changed || !slices.Equal(names, m.names)
		m.names = names
	}
	if req.ServerAssignor != nil {
		changed = changed || m.assignor != *req.ServerAssignor
		m.assignor = *req.ServerAssignor
	}
	if req.RebalanceTimeoutMillis != -1 {
		m.rebalance = min(max(time.Duration(req.RebalanceTimeoutMillis)*time.Millisecond, minSession), maxSession)
	}
	if req.RackID != nil {
		m.rack = req.RackID
	}
	m.clientID, m.host, m.classic = r.clientID, "/"+r.c.host(), nil
	return changed, nil
}

// reconcile brings a member a step nearer to its target. moved: what it has is not what it had.
func (g *consumerGroup) reconcile(m *consumerMember, owned placedSet) (moved bool) {
	switch {
	case m.state == settled && m.epoch == g.targeted:
		return false
	case m.state == revoking && (owned == nil || overlap(owned, m.revoked)):
		return false
	}
	g.release(m)
	kept, gained, lost, waits := placedSet{}, placedSet{}, placedSet{}, false
	for tp := range m.target {
		since, has := m.assigned[tp]
		holder, held := g.holders[tp]
		switch {
		case has:
			kept[tp] = since
		case held && holder != m.id:
			waits = true
		default:
			gained[tp] = g.targeted
		}
	}
	for tp, since := range m.assigned {
		if _, stays := kept[tp]; !stays {
			lost[tp] = since
		}
	}
	m.revoked = lost
	if len(lost) > 0 && (owned == nil || overlap(owned, lost)) {
		m.assigned, m.state = kept, revoking
		g.limit(m)
		return true
	}
	g.release(m)
	for tp := range gained {
		g.holders[tp] = m.id
	}
	maps.Copy(kept, gained)
	m.assigned, m.state = kept, settled
	if waits {
		m.state = unsettled
	}
	if m.epoch != g.targeted {
		m.previous, m.epoch = m.epoch, g.targeted
	}
	return len(gained) > 0 || len(lost) > 0
}

// release frees what a member was to give up.
func (g *consumerGroup) release(m *consumerMember) {
	for tp := range m.revoked {
		delete(g.holders, tp)
	}
	m.revoked = nil
	m.stopGiveUp()
}

// limit ends the membership if the member does not give up in time what it is to lose.
func (g *consumerGroup) limit(m *consumerMember) {
	var timer *time.Timer
	timer = time.AfterFunc(m.rebalance, func() {
		g.mu.Lock()
		late := m.giveUp == timer
		g.mu.Unlock()
		if late {
			g.end(m, "did not give up its partitions in time")
		}
	})
	m.giveUp = timer
}

// assignment is what a member may read.
func (m *consumerMember) assignment() *kmsg.ConsumerGroupHeartbeatResponseAssignment {
	a := &kmsg.ConsumerGroupHeartbeatResponseAssignment{Topics: []kmsg.ConsumerGroupHeartbeatResponseAssignmentTopic{}}
	byTopic := byTopicID(m.assigned)
	for _, id := range sortedIDs(byTopic) {
		a.Topics = append(a.Topics, kmsg.ConsumerGroupHeartbeatResponseAssignmentTopic{TopicID: id, Partitions: byTopic[id]})
	}
	return a
}
