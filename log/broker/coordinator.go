package broker

import (
	"errors"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/trunkline/trunkline/log"
)

// coordinator keeps the groups that have members: classic ones, and consumer groups. A name is one or the other at a time.
// Offsets are kept by the log. Its lock is taken last, behind those of groups.
type coordinator struct {
	s             *Server
	mu            sync.Mutex
	closed        bool
	groups        map[string]*group
	consumerNames map[string]*consumerGroup
}

func newCoordinator(s *Server) *coordinator {
	return &coordinator{s: s, groups: map[string]*group{}, consumerNames: map[string]*consumerGroup{}}
}

// errConsumers says that a name is that of a consumer group.
var errConsumers = errors.New("the group has members of the consumer protocol")

// maxGroups bounds the groups that are known at one time.
const maxGroups = 10_000

// group returns a group with its lock held; nil if there is none and none is to be made.
func (c *coordinator) group(name string, create bool) (*group, error) {
	for {
		c.mu.Lock()
		g := c.groups[name]
		if g == nil && create {
			if other := c.consumerNames[name]; other != nil {
				c.mu.Unlock()
				if other.isGone() {
					continue
				}
				return nil, errConsumers
			}
			if len(c.groups)+len(c.consumerNames) >= maxGroups {
				c.mu.Unlock()
				return nil, kerr.GroupMaxSizeReached
			}
			g = newGroup(c.s, name)
			c.groups[name] = g
		}
		c.mu.Unlock()
		if g == nil {
			return nil, nil
		}
		g.mu.Lock()
		if g.state != dead {
			return g, nil
		}
		g.mu.Unlock()
	}
}

// release gives a group's lock back. One without members is forgotten.
func (c *coordinator) release(g *group) {
	gone := len(g.members) == 0 && len(g.promised) == 0
	if gone {
		g.state = dead
		g.stopTimer()
	}
	g.mu.Unlock()
	if !gone {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.groups[g.name] == g {
		delete(c.groups, g.name)
	}
}

// consumers is group for consumer groups. One that is to be made is made of the classic group of the name, if there is one.
func (c *coordinator) consumers(name string, create bool) (*consumerGroup, error) {
	for {
		c.mu.Lock()
		g := c.consumerNames[name]
		if g == nil && create {
			if other := c.groups[name]; other != nil {
				c.mu.Unlock()
				if g, err := c.upgrade(other); g != nil || err != nil {
					return g, err
				}
				continue
			}
			if len(c.groups)+len(c.consumerNames) >= maxGroups {
				c.mu.Unlock()
				return nil, kerr.GroupMaxSizeReached
			}
			g = newConsumerGroup(c.s, name)
			c.consumerNames[name] = g
		}
		c.mu.Unlock()
		if g == nil {
			return nil, nil
		}
		g.mu.Lock()
		if !g.gone {
			return g, nil
		}
		g.mu.Unlock()
	}
}

// releaseConsumers is release for consumer groups. One whose members are all of the classic protocol is a classic group
// from then on.
func (c *coordinator) releaseConsumers(g *consumerGroup) {
	if !g.gone && g.onlyClassic() && !c.isClosed() {
		c.downgrade(g)
		g.mu.Unlock()
		return
	}
	g.gone = g.gone || len(g.members) == 0
	gone := g.gone
	g.mu.Unlock()
	if !gone {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.consumerNames[g.name] == g {
		delete(c.consumerNames, g.name)
	}
}

// all returns the groups with members, by name, at one moment: each name once.
func (c *coordinator) all() (classic []*group, consumers []*consumerGroup) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range sortedKeys(c.groups) {
		classic = append(classic, c.groups[name])
	}
	for _, name := range sortedKeys(c.consumerNames) {
		consumers = append(consumers, c.consumerNames[name])
	}
	return classic, consumers
}

func (c *coordinator) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// close stops the timers.
func (c *coordinator) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	classic, consumers := c.all()
	for _, g := range classic {
		g.mu.Lock()
		g.state = dead
		g.stopTimer()
		for _, m := range g.members {
			m.expiry.Stop()
		}
		for _, t := range g.promised {
			t.Stop()
		}
		g.mu.Unlock()
	}
	for _, g := range consumers {
		g.mu.Lock()
		g.gone = true
		for _, m := range g.members {
			m.stopTimers()
		}
		g.mu.Unlock()
	}
}

// members tells the log who is in the groups.
func (c *coordinator) members() map[string][]log.Member {
	out := map[string][]log.Member{}
	classic, consumers := c.all()
	for _, g := range classic {
		g.mu.Lock()
		for _, id := range g.order {
			m := g.members[id]
			out[g.name] = append(out[g.name], log.Member{ID: m.id, Partitions: assignedPartitions(m.assignment)})
		}
		g.mu.Unlock()
	}
	for _, g := range consumers {
		g.mu.Lock()
		for _, m := range g.sorted() {
			out[g.name] = append(out[g.name], log.Member{ID: m.id, Partitions: g.partitions(m.assigned)})
		}
		g.mu.Unlock()
	}
	return out
}

// assignedPartitions reads a consumer's assignment; none if it is something else.
func assignedPartitions(b []byte) []log.TopicPartition {
	var a kmsg.ConsumerMemberAssignment
	if len(b) == 0 || a.ReadFrom(b) != nil {
		return nil
	}
	var out []log.TopicPartition
	for _, t := range a.Topics {
		for _, p := range t.Partitions {
			out = append(out, log.TopicPartition{Topic: t.Topic, Partition: p})
		}
	}
	return out
}

// findCoordinator names this broker for every group and transaction.
func (s *Server) findCoordinator(r *request) answer {
	const firstBatched = 4
	req := r.message.(*kmsg.FindCoordinatorRequest)
	resp := req.ResponseKind().(*kmsg.FindCoordinatorResponse)
	host, port := s.address(r.c)
	code := int16(0)
	if req.CoordinatorType != 0 && req.CoordinatorType != 1 {
		code = kerr.InvalidRequest.Code
	}
	resp.ErrorCode, resp.NodeID, resp.Host, resp.Port = code, nodeID, host, port
	if r.version < firstBatched {
		return now(resp)
	}
	resp.Coordinators = []kmsg.FindCoordinatorResponseCoordinator{}
	for _, key := range req.CoordinatorKeys {
		resp.Coordinators = append(resp.Coordinators, kmsg.FindCoordinatorResponseCoordinator{Key: key, NodeID: nodeID, Host: host, Port: port, ErrorCode: code})
	}
	return now(resp)
}
