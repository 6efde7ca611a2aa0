package broker

import (
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A group moves between the protocols while its members go on, as with Kafka's default policy: the first member that joins
// with the consumer protocol makes a consumer group of a classic one, and when the last such member is gone the rest are a
// classic group again. In between, members of the classic protocol stay what they are to themselves: they join, sync and
// beat, and what they get by that is what the group has assigned to them here.

// errMigration says why a classic group stays one.
var errMigration = fmt.Errorf("%w: its members of the classic protocol cannot be served by the consumer protocol", kerr.GroupIDNotFound)

// classicMember is what a member of the classic protocol says of itself beside what all members do.
type classicMember struct {
	session   time.Duration
	protocols []kmsg.JoinGroupRequestProtocol
}

// subscription is what a member's protocols agree on: what it reads, and which partitions it says it has.
func subscription(kind string, protocols []kmsg.JoinGroupRequestProtocol) (kmsg.ConsumerMemberMetadata, error) {
	var meta kmsg.ConsumerMemberMetadata
	if kind != consumerType || len(protocols) == 0 {
		return meta, errMigration
	}
	if err := meta.ReadFrom(protocols[0].Metadata); err != nil {
		return meta, fmt.Errorf("%w: %w", errMigration, err)
	}
	return meta, nil
}

// either finds the group of a name, of whichever kind it is, with its lock held; neither if there is none.
func (c *coordinator) either(name string) (*group, *consumerGroup) {
	for {
		c.mu.Lock()
		classic, consumers := c.groups[name], c.consumerNames[name]
		c.mu.Unlock()
		switch {
		case classic != nil:
			classic.mu.Lock()
			if classic.state != dead {
				return classic, nil
			}
			classic.mu.Unlock()
		case consumers != nil:
			consumers.mu.Lock()
			if !consumers.gone {
				return nil, consumers
			}
			consumers.mu.Unlock()
		default:
			return nil, nil
		}
	}
}

// releaseEither gives the lock of what either returned back.
func (c *coordinator) releaseEither(g *group, consumers *consumerGroup) {
	if g != nil {
		c.release(g)
	}
	if consumers != nil {
		c.releaseConsumers(consumers)
	}
}

// upgrade makes a consumer group of a classic one, and returns it with its lock held; nil if the classic one is gone.
func (c *coordinator) upgrade(old *group) (*consumerGroup, error) {
	old.mu.Lock()
	defer old.mu.Unlock()
	if old.state == dead {
		return nil, nil
	}
	next, err := old.asConsumers()
	if err != nil {
		return nil, fmt.Errorf("group %s: %w", old.name, err)
	}
	old.dissolve()
	next.mu.Lock()
	for _, m := range next.sorted() {
		next.add(m)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.groups, old.name)
	c.consumerNames[next.name] = next
	return next, nil
}

// asConsumers is what a classic group is as a consumer group; its members have what their leader gave them. Who waits for
// the end of a rebalance, and may have given everything up for it, says so when it joins again.
func (g *group) asConsumers() (*consumerGroup, error) {
	next := newConsumerGroup(g.s, g.name)
	next.epoch, next.targeted = g.generation, g.generation
	for _, id := range g.order {
		old := g.members[id]
		meta, err := subscription(g.protocolType, old.protocols)
		if err != nil {
			return nil, err
		}
		m := &consumerMember{id: id, instance: old.instance, rack: meta.Rack, clientID: old.clientID, host: old.host, rebalance: old.rebalance,
			names: subscribedNames(meta.Topics), epoch: g.generation, previous: g.generation, assigned: placedSet{}, target: placedSet{},
			classic: &classicMember{session: old.session, protocols: old.protocols}}
		for _, tp := range assignedPartitions(old.assignment) {
			t, err := g.s.journal.Name(tp.Topic)
			at := placed{t.ID, tp.Partition}
			if _, held := next.holders[at]; err != nil || held || tp.Partition < 0 || tp.Partition >= t.Partitions {
				continue
			}
			next.holders[at], m.assigned[at], m.target[at] = id, g.generation, g.generation
		}
		next.members[id] = m
	}
	next.refresh(time.Now(), true)
	return next, nil
}

// dissolve ends a classic group whose members belong to another from now on. Requests that wait are answered, so that
// their members come again.
func (g *group) dissolve() {
	g.state = dead
	g.stopTimer()
	for _, t := range g.promised {
		t.Stop()
	}
	for _, m := range g.members {
		m.expiry.Stop()
		m.answerJoin(joined{err: kerr.RebalanceInProgress, memberID: m.id})
		m.answerSync(synced{err: kerr.RebalanceInProgress})
	}
}

// strangerIn is what a member of a consumer group that is none any more hears. If it was a static one, and its next process
// is in the classic group of that name, it must not come back and take the place away from that.
func (c *coordinator) strangerIn(req *kmsg.ConsumerGroupHeartbeatRequest) *kerr.Error {
	g, consumers := c.either(req.Group)
	defer c.releaseEither(g, consumers)
	if g != nil && req.InstanceID != nil && g.static[*req.InstanceID] != "" && g.static[*req.InstanceID] != req.MemberID {
		return kerr.FencedInstanceID
	}
	return kerr.UnknownMemberID
}

// onlyClassic reports whether no member of the consumer protocol is left, but others are.
func (g *consumerGroup) onlyClassic() bool {
	for _, m := range g.members {
		if m.classic == nil {
			return false
		}
	}
	return len(g.members) > 0
}

// downgrade makes a classic group of the members that are left, in the middle of a rebalance. The lock is held.
func (c *coordinator) downgrade(g *consumerGroup) {
	g.gone = true
	next := newGroup(c.s, g.name)
	next.mu.Lock()
	defer next.mu.Unlock()
	next.protocolType, next.generation, next.state = consumerType, g.epoch, stable
	for _, old := range g.sorted() {
		old.stopTimers()
		m := &member{id: old.id, instance: old.instance, clientID: old.clientID, host: old.host, session: old.classic.session, rebalance: old.rebalance,
			protocols: old.classic.protocols, assignment: g.classicAssignment(old), carried: old.epoch}
		next.add(m)
	}
	c.mu.Lock()
	delete(c.consumerNames, g.name)
	c.groups[g.name] = next
	c.mu.Unlock()
	next.protocol = next.choose()
	next.prepare()
}

// fitsClassic reports whether somebody with these protocols can be a member: the members of the classic protocol must have
// one in common, for the day when they are among themselves.
func (g *consumerGroup) fitsClassic(protocols []kmsg.JoinGroupRequestProtocol, id string) bool {
	return slices.ContainsFunc(protocols, func(p kmsg.JoinGroupRequestProtocol) bool {
		for _, m := range g.members {
			known := func(q kmsg.JoinGroupRequestProtocol) bool { return q.Name == p.Name }
			if m.id != id && m.classic != nil && !slices.ContainsFunc(m.classic.protocols, known) {
				return false
			}
		}
		return true
	})
}

// joinClassic lets a member of the classic protocol join, or come one step nearer to its target. It never waits.
func (g *consumerGroup) joinClassic(r *request, req *kmsg.JoinGroupRequest, session time.Duration) joined {
	refused := func(id string, err *kerr.Error) joined { return joined{err: err, memberID: id} }
	meta, err := subscription(req.ProtocolType, req.Protocols)
	if err != nil || !g.fitsClassic(req.Protocols, req.MemberID) {
		return refused(req.MemberID, kerr.InconsistentGroupProtocol)
	}
	id := req.MemberID
	switch {
	case len(id) > maxMemberName || req.InstanceID != nil && (*req.InstanceID == "" || len(*req.InstanceID) > maxMemberName):
		return refused(id, kerr.InvalidRequest)
	case id == "" && req.InstanceID != nil:
		id = newMemberID(*req.InstanceID)
	case id == "" && r.version >= firstWithMemberIDs:
		return refused(newMemberID(r.clientID), kerr.MemberIDRequired)
	case id == "":
		id = newMemberID(r.clientID)
	}
	m, isNew, bad := g.classicNamed(id, req)
	if bad != nil {
		return refused(req.MemberID, bad)
	}
	changed := m.updateClassic(r, req, meta, session)
	if isNew {
		g.add(m)
	}
	if g.refresh(time.Now(), changed || isNew) || changed || isNew {
		g.epoch++
	}
	g.retarget()
	m.expiry.Reset(session)
	if m.state != revoking {
		m.stopGiveUp()
	}
	g.reconcile(m, g.owned(meta))
	return joined{memberID: m.id, generation: m.epoch, protocol: m.classic.protocols[0].Name, kind: consumerType}
}

// classicNamed finds the member that joins. A new process of a static member takes the place of the old one.
func (g *consumerGroup) classicNamed(id string, req *kmsg.JoinGroupRequest) (m *consumerMember, isNew bool, bad *kerr.Error) {
	if req.InstanceID != nil {
		switch holder, known := g.static[*req.InstanceID]; {
		case known && holder != id && req.MemberID != "":
			return nil, false, kerr.FencedInstanceID
		case known && holder != id:
			return g.succeed(g.members[holder], id), false, nil
		case !known && req.MemberID != "" && g.members[id] == nil:
			return nil, false, kerr.UnknownMemberID
		}
	}
	if m = g.members[id]; m != nil {
		if m.classic == nil && m.instance == "" {
			return nil, false, kerr.UnknownMemberID // the id of somebody else
		}
		return m, false, nil
	}
	if len(g.members) >= maxMembers {
		return nil, false, kerr.GroupMaxSizeReached
	}
	m = &consumerMember{id: id, assigned: placedSet{}, target: placedSet{}, classic: &classicMember{}}
	if req.InstanceID != nil {
		m.instance = *req.InstanceID
	}
	return m, true, nil
}

// updateClassic takes what a join says of the member. changed: it reads something else than before.
func (m *consumerMember) updateClassic(r *request, req *kmsg.JoinGroupRequest, meta kmsg.ConsumerMemberMetadata, session time.Duration) (changed bool) {
	var said member
	said.takeProtocols(req.Protocols)
	m.classic = &classicMember{session: session, protocols: said.protocols}
	names := subscribedNames(meta.Topics)
	changed = !slices.Equal(names, m.names) || m.matcher != nil || m.assignor != ""
	m.names, m.pattern, m.matcher, m.assignor, m.rack = names, "", nil, "", meta.Rack
	m.rebalance = rebalanceOf(req, session)
	m.clientID, m.host = r.clientID, "/"+r.c.host()
	return changed
}

// owned is what a member of the classic protocol says it has; those that give up everything before they join say nothing.
func (g *consumerGroup) owned(meta kmsg.ConsumerMemberMetadata) placedSet {
	out := placedSet{}
	for _, t := range meta.OwnedPartitions {
		for _, p := range t.Partitions {
			if shape, ok := g.topics[t.Topic]; ok {
				out[placed{shape.id, p}] = 0
			}
		}
	}
	return out
}

func subscribedNames(topics []string) []string {
	names := slices.Clone(topics)
	slices.Sort(names)
	return slices.Compact(names)
}

// checkClassic finds a member of the classic protocol that says who it is.
func (g *consumerGroup) checkClassic(id string, instance *string, generation int32) (*consumerMember, *kerr.Error) {
	if instance != nil {
		switch holder, known := g.static[*instance]; {
		case !known:
			return nil, kerr.UnknownMemberID
		case holder != id:
			return nil, kerr.FencedInstanceID
		}
	}
	m := g.members[id]
	switch {
	case m == nil || m.classic == nil:
		return nil, kerr.UnknownMemberID
	case m.epoch != generation:
		return nil, kerr.IllegalGeneration
	}
	return m, nil
}

// syncClassic tells a member of the classic protocol what it has.
func (g *consumerGroup) syncClassic(req *kmsg.SyncGroupRequest) synced {
	m, bad := g.checkClassic(req.MemberID, req.InstanceID, req.Generation)
	if bad != nil {
		return synced{err: bad}
	}
	protocol := m.classic.protocols[0].Name
	if req.ProtocolType != nil && *req.ProtocolType != consumerType || req.Protocol != nil && *req.Protocol != protocol {
		return synced{err: kerr.InconsistentGroupProtocol}
	}
	m.expiry.Reset(m.classic.session)
	if g.epoch > m.epoch && m.state != revoking {
		return synced{err: kerr.RebalanceInProgress}
	}
	return synced{kind: consumerType, protocol: protocol, assignment: g.classicAssignment(m)}
}

// beatClassic keeps a member of the classic protocol alive, and makes it join when it is to lose something, or what it is
// to get is free. It has to come in its time.
func (g *consumerGroup) beatClassic(req *kmsg.HeartbeatRequest) *kerr.Error {
	m, bad := g.checkClassic(req.MemberID, req.InstanceID, req.Generation)
	if bad != nil {
		return bad
	}
	m.expiry.Reset(m.classic.session)
	if g.refresh(time.Now(), false) {
		g.epoch++
		g.retarget()
	}
	if m.epoch >= g.epoch && m.state == settled || m.epoch >= g.epoch && m.state == unsettled && g.waits(m) {
		return nil
	}
	if m.giveUp == nil {
		g.limit(m)
	}
	return kerr.RebalanceInProgress
}

// waits reports whether others hold something that a member is to get.
func (g *consumerGroup) waits(m *consumerMember) bool {
	for tp := range m.target {
		if holder, held := g.holders[tp]; held && holder != m.id {
			return true
		}
	}
	return false
}

// classicAssignment is what a member has, as the classic protocol says it.
func (g *consumerGroup) classicAssignment(m *consumerMember) []byte {
	var a kmsg.ConsumerMemberAssignment
	byTopic := byTopicID(m.assigned)
	for _, name := range sortedKeys(g.topics) {
		if list := byTopic[g.topics[name].id]; len(list) > 0 {
			a.Topics = append(a.Topics, kmsg.ConsumerMemberAssignmentTopic{Topic: name, Partitions: list})
		}
	}
	return a.AppendTo(nil)
}
