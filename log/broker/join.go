package broker

import (
	"bytes"
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Limits of what members may ask for.
const (
	minSession = 500 * time.Millisecond
	maxSession = 30 * time.Minute
	maxMembers = 2000 // of one group

	firstWithMemberIDs  = 4 // JoinGroup: a client without an id is given one and comes again
	firstSkipAssignment = 9
)

// joinGroup makes the client a member, or lets a member join the next generation. It answers when that begins.
func (s *Server) joinGroup(r *request) answer {
	req := r.message.(*kmsg.JoinGroupRequest)
	wait, direct := s.join(r, req)
	return later(func() output {
		j := direct
		if wait != nil {
			select {
			case j = <-wait:
			case <-r.c.done:
				return output{}
			case <-s.closing:
				j = joined{err: kerr.CoordinatorNotAvailable, memberID: req.MemberID}
			}
		}
		resp := req.ResponseKind().(*kmsg.JoinGroupResponse)
		resp.MemberID, resp.Generation, resp.LeaderID = j.memberID, j.generation, j.leader
		resp.SkipAssignment = j.skip
		resp.Members = []kmsg.JoinGroupResponseMember{}
		resp.Protocol = &j.protocol
		if j.err != nil {
			resp.ErrorCode, resp.Generation = j.err.Code, -1
			return output{response: resp}
		}
		resp.ProtocolType = &j.kind
		resp.Members = append(resp.Members, j.members...)
		return output{response: resp}
	})
}

func refusedJoin(id string, err *kerr.Error) (chan joined, joined) {
	return nil, joined{err: err, memberID: id}
}

// join returns a channel to wait on, or the answer.
func (s *Server) join(r *request, req *kmsg.JoinGroupRequest) (chan joined, joined) {
	session := time.Duration(req.SessionTimeoutMillis) * time.Millisecond
	switch {
	case req.Group == "":
		return refusedJoin(req.MemberID, kerr.InvalidGroupID)
	case session < minSession || session > maxSession:
		return refusedJoin(req.MemberID, kerr.InvalidSessionTimeout)
	case s.o.Reserved(req.Group) || s.journal.HasConsumers(req.Group):
		s.logger.Warn("a Kafka client wants to join the group of a sink", "group", req.Group, "client", r.clientID)
		return refusedJoin(req.MemberID, kerr.GroupAuthorizationFailed)
	}
	g, err := s.groups.group(req.Group, true)
	for errors.Is(err, errConsumers) {
		if consumers, _ := s.groups.consumers(req.Group, false); consumers != nil {
			defer s.groups.releaseConsumers(consumers)
			return nil, consumers.joinClassic(r, req, session)
		}
		g, err = s.groups.group(req.Group, true)
	}
	if err != nil {
		return refusedJoin(req.MemberID, kerr.TypedErrorForCode(codeOf(err)))
	}
	defer s.groups.release(g)
	if !g.fits(req.ProtocolType, req.Protocols, req.MemberID) {
		return refusedJoin(req.MemberID, kerr.InconsistentGroupProtocol)
	}
	if req.MemberID == "" {
		return g.joinNew(r, req, session)
	}
	return g.joinKnown(r, req, session)
}

// joinNew lets in a client without an id.
func (g *group) joinNew(r *request, req *kmsg.JoinGroupRequest, session time.Duration) (chan joined, joined) {
	if len(g.members)+len(g.promised) >= maxMembers {
		return refusedJoin("", kerr.GroupMaxSizeReached)
	}
	if req.InstanceID != nil {
		id := newMemberID(*req.InstanceID)
		if old := g.members[g.static[*req.InstanceID]]; old != nil {
			return g.replace(r, old, id, req, session)
		}
		return g.enter(r, id, req, session)
	}
	id := newMemberID(r.clientID)
	if r.version < firstWithMemberIDs {
		return g.enter(r, id, req, session)
	}
	g.promise(id, session)
	return refusedJoin(id, kerr.MemberIDRequired)
}

// promise keeps an id for a client that is to come again with it.
func (g *group) promise(id string, session time.Duration) {
	g.promised[id] = time.AfterFunc(session, func() {
		g.mu.Lock()
		if g.state == dead || g.promised[id] == nil {
			g.mu.Unlock()
			return
		}
		delete(g.promised, id)
		g.changedPromise()
		g.s.groups.release(g)
	})
}

func (g *group) changedPromise() {
	if g.state == preparing {
		g.completeIfAll()
	}
}

// joinKnown lets in a client that comes with an id.
func (g *group) joinKnown(r *request, req *kmsg.JoinGroupRequest, session time.Duration) (chan joined, joined) {
	if t := g.promised[req.MemberID]; t != nil {
		t.Stop()
		delete(g.promised, req.MemberID)
		return g.enter(r, req.MemberID, req, session)
	}
	if req.InstanceID != nil {
		if have, ok := g.static[*req.InstanceID]; ok && have != req.MemberID {
			return refusedJoin(req.MemberID, kerr.FencedInstanceID)
		}
	}
	m := g.members[req.MemberID]
	if m == nil {
		return refusedJoin(req.MemberID, kerr.UnknownMemberID)
	}
	same := m.sameProtocols(req.Protocols)
	m.update(r, req, session)
	if same && (g.state == completing || g.state == stable && m.id != g.leader) {
		return nil, g.joinedAs(m)
	}
	return g.await(m)
}

// enter makes a member and waits for the rebalance that this begins.
func (g *group) enter(r *request, id string, req *kmsg.JoinGroupRequest, session time.Duration) (chan joined, joined) {
	m := &member{id: id}
	if req.InstanceID != nil {
		m.instance = *req.InstanceID
	}
	m.session = session
	if len(g.members) == 0 {
		g.protocolType = req.ProtocolType
	}
	g.add(m)
	m.update(r, req, session)
	return g.await(m)
}

// update takes what a join request says. What it points into is used again by the connection.
func (m *member) update(r *request, req *kmsg.JoinGroupRequest, session time.Duration) {
	m.session, m.rebalance = session, rebalanceOf(req, session)
	m.clientID, m.host = r.clientID, "/"+r.c.host()
	m.takeProtocols(req.Protocols)
	m.alive()
}

func (m *member) takeProtocols(protocols []kmsg.JoinGroupRequestProtocol) {
	m.protocols = slices.Clone(protocols)
	for i := range m.protocols {
		m.protocols[i].Metadata = bytes.Clone(m.protocols[i].Metadata)
	}
}

// rebalanceOf is how long a member may take to join the next generation.
func rebalanceOf(req *kmsg.JoinGroupRequest, session time.Duration) time.Duration {
	d := time.Duration(req.RebalanceTimeoutMillis) * time.Millisecond
	if d <= 0 {
		d = session
	}
	return min(d, maxSession)
}

// await makes the member's join wait for the next generation.
func (g *group) await(m *member) (chan joined, joined) {
	m.answerJoin(joined{err: kerr.RebalanceInProgress, memberID: m.id}) // an older request of the same member
	wait := make(chan joined, 1)
	m.joining = wait
	if g.state == preparing {
		g.completeIfAll()
	} else {
		g.prepare()
	}
	return wait, joined{}
}

// replace puts a static member's new process in the place of the old one, which is fenced. If the group is stable and
// the new one says what the old one said, nothing else changes.
func (g *group) replace(r *request, old *member, id string, req *kmsg.JoinGroupRequest, session time.Duration) (chan joined, joined) {
	old.answerJoin(joined{err: kerr.FencedInstanceID, memberID: old.id})
	old.answerSync(synced{err: kerr.FencedInstanceID})
	old.expiry.Stop()
	m := &member{id: id, instance: old.instance, session: session, assignment: old.assignment}
	formerLeader, wasLeader := g.leader, g.leader == old.id
	delete(g.members, old.id)
	g.order[slices.Index(g.order, old.id)] = id
	g.members[id] = m
	g.static[m.instance] = id
	if wasLeader {
		g.leader = id
	}
	m.expiry = time.AfterFunc(session, func() { g.expire(id, m) })
	m.update(r, req, session)
	if g.state != stable || !old.sameSubscription(m.protocols) {
		return g.await(m)
	}
	j := g.joinedAs(m)
	if wasLeader && r.version >= firstSkipAssignment {
		j.skip = true
	} else {
		j.leader, j.members = formerLeader, nil // it is not to assign anything
	}
	return nil, j
}

// syncGroup hands out what the leader has assigned.
func (s *Server) syncGroup(r *request) answer {
	req := r.message.(*kmsg.SyncGroupRequest)
	wait, direct := s.sync(req)
	return later(func() output {
		y := direct
		if wait != nil {
			select {
			case y = <-wait:
			case <-r.c.done:
				return output{}
			case <-s.closing:
				y = synced{err: kerr.CoordinatorNotAvailable}
			}
		}
		resp := req.ResponseKind().(*kmsg.SyncGroupResponse)
		resp.MemberAssignment = []byte{}
		if y.err != nil {
			resp.ErrorCode = y.err.Code
			return output{response: resp}
		}
		resp.ProtocolType, resp.Protocol = &y.kind, &y.protocol
		resp.MemberAssignment = append(resp.MemberAssignment, y.assignment...)
		return output{response: resp}
	})
}

func (s *Server) sync(req *kmsg.SyncGroupRequest) (chan synced, synced) {
	g, consumers := s.groups.either(req.Group)
	defer s.groups.releaseEither(g, consumers)
	if consumers != nil {
		return nil, consumers.syncClassic(req)
	}
	if g == nil {
		return nil, synced{err: kerr.UnknownMemberID}
	}
	m, bad := g.check(req.MemberID, req.InstanceID, req.Generation)
	if bad != nil {
		return nil, synced{err: bad}
	}
	if req.ProtocolType != nil && *req.ProtocolType != g.protocolType || req.Protocol != nil && *req.Protocol != g.protocol {
		return nil, synced{err: kerr.InconsistentGroupProtocol}
	}
	m.alive()
	switch g.state {
	case preparing:
		return nil, synced{err: kerr.RebalanceInProgress}
	case stable:
		return nil, g.syncedAs(m)
	case completing:
	default:
		return nil, synced{err: kerr.UnknownMemberID}
	}
	m.answerSync(synced{err: kerr.RebalanceInProgress})
	wait := make(chan synced, 1)
	m.syncing = wait
	if m.id == g.leader {
		g.assign(req.GroupAssignment)
	}
	return wait, synced{}
}

// assign takes the leader's assignment and answers all who wait for it.
func (g *group) assign(list []kmsg.SyncGroupRequestGroupAssignment) {
	for _, m := range g.members {
		m.assignment = nil
	}
	for _, a := range list {
		if m := g.members[a.MemberID]; m != nil {
			m.assignment = bytes.Clone(a.MemberAssignment)
		}
	}
	g.state = stable
	for _, m := range g.members {
		m.answerSync(g.syncedAs(m))
	}
}

func (g *group) syncedAs(m *member) synced {
	return synced{kind: g.protocolType, protocol: g.protocol, assignment: m.assignment}
}

// heartbeat keeps a member alive and tells it of a rebalance.
func (s *Server) heartbeat(r *request) answer {
	req := r.message.(*kmsg.HeartbeatRequest)
	resp := req.ResponseKind().(*kmsg.HeartbeatResponse)
	g, consumers := s.groups.either(req.Group)
	defer s.groups.releaseEither(g, consumers)
	bad := kerr.UnknownMemberID
	switch {
	case consumers != nil:
		bad = consumers.beatClassic(req)
	case g != nil:
		bad = g.beat(req)
	}
	if bad != nil {
		resp.ErrorCode = bad.Code
	}
	return now(resp)
}

func (g *group) beat(req *kmsg.HeartbeatRequest) *kerr.Error {
	m, bad := g.check(req.MemberID, req.InstanceID, req.Generation)
	if bad != nil {
		return bad
	}
	m.alive()
	if g.state == preparing {
		return kerr.RebalanceInProgress
	}
	return nil
}

// leaveGroup ends memberships.
func (s *Server) leaveGroup(r *request) answer {
	const firstWithList = 3
	req := r.message.(*kmsg.LeaveGroupRequest)
	resp := req.ResponseKind().(*kmsg.LeaveGroupResponse)
	resp.Members = []kmsg.LeaveGroupResponseMember{}
	leaving := req.Members
	if r.version < firstWithList {
		leaving = []kmsg.LeaveGroupRequestMember{{MemberID: req.MemberID}}
	}
	g, consumers := s.groups.either(req.Group)
	defer s.groups.releaseEither(g, consumers)
	for _, l := range leaving {
		var bad *kerr.Error
		if consumers != nil {
			bad = consumers.expel(l)
		} else {
			bad = g.leave(l)
		}
		out := kmsg.LeaveGroupResponseMember{MemberID: l.MemberID, InstanceID: l.InstanceID}
		if bad != nil {
			out.ErrorCode = bad.Code
		}
		if r.version < firstWithList {
			resp.ErrorCode = out.ErrorCode
		}
		resp.Members = append(resp.Members, out)
	}
	return now(resp)
}

func (g *group) leave(l kmsg.LeaveGroupRequestMember) *kerr.Error {
	if g == nil {
		return kerr.UnknownMemberID
	}
	if t := g.promised[l.MemberID]; t != nil {
		t.Stop()
		delete(g.promised, l.MemberID)
		g.changedPromise()
		return nil
	}
	id := l.MemberID
	if l.InstanceID != nil {
		have, ok := g.static[*l.InstanceID]
		switch {
		case !ok:
			return kerr.UnknownMemberID
		case id != "" && id != have:
			return kerr.FencedInstanceID
		}
		id = have
	}
	m := g.members[id]
	if m == nil {
		return kerr.UnknownMemberID
	}
	g.remove(m)
	g.changed()
	return nil
}
