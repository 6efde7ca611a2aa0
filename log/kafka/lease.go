package kafka

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/trunkline/trunkline/log"
)

// leaseProtocol is the type of groups that share out names instead of partitions, as Kafka Connect's share out tasks. The
// coordinator does not look inside: it elects a leader among the members and carries what the leader decides.
const leaseProtocol = "trunkline-lease"

// leaseVersion is what the members of a group have to agree on.
const leaseVersion = "names-1"

// leasePause is how long to wait before the coordinator is asked again after an error.
const leasePause = 500 * time.Millisecond

// leases is one member. The loop owns everything but what mu guards.
type leases struct {
	l      *Log
	o      log.LeaseOptions
	client *kgo.Client

	id         string // given by the coordinator
	generation int32
	heard      time.Time // when the coordinator last took us for a member
	warned     bool      // since then, that it does not

	mu       sync.Mutex
	held     map[string]hold
	assigned map[string]bool // by the last round

	released chan struct{} // one slot: something was given up
	cancel   context.CancelFunc
	work     sync.WaitGroup
	ended    chan struct{}
	once     sync.Once
}

// hold is how a name is held.
type hold int8

const (
	holdFirm     hold = iota
	holdYielding      // Revoked runs; nobody else has it
	holdLost          // Revoked runs; others may have it
)

// leaseClaim is what a member tells the leader.
type leaseClaim struct {
	Can   []string `json:"can"`
	Holds []string `json:"holds"`
}

// leaseGrant is what the leader tells a member.
type leaseGrant struct {
	Names []string `json:"names"`
}

var _ log.Leaser = (*Log)(nil)

// Leases enters a group. It returns before anything is held.
func (l *Log) Leases(ctx context.Context, o log.LeaseOptions) (log.Leases, error) {
	if err := l.usable(); err != nil {
		return nil, err
	}
	client, err := l.client()
	if err != nil {
		return nil, fmt.Errorf("enter group %q: %w", o.Group, err)
	}
	loop, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &leases{
		l: l, o: o, client: client, held: map[string]hold{}, assigned: map[string]bool{}, heard: time.Now(),
		released: make(chan struct{}, 1), cancel: cancel, ended: make(chan struct{}),
	}
	if err := l.keep(s); err != nil {
		cancel()
		client.Close()
		return nil, err
	}
	go func() {
		defer close(s.ended)
		s.run(loop)
	}()
	return s, nil
}

// run keeps the membership alive until ctx ends.
func (s *leases) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := s.round(ctx)
		switch {
		case err == nil || ctx.Err() != nil:
			continue
		case errors.Is(err, kerr.UnknownMemberID) || errors.Is(err, kerr.IllegalGeneration) || errors.Is(err, kerr.FencedInstanceID):
			s.id = ""
			s.loseAll(ctx)
			continue
		case errors.Is(err, kerr.RebalanceInProgress):
			continue
		}
		if !s.warned { // once for each time
			s.warned = true
			s.l.o.Logger.Warn("the group that shares out work can't be reached, trying again", "group", s.o.Group, "error", err)
		}
		if time.Since(s.heard) > s.l.o.SessionTimeout {
			s.id = ""
			s.loseAll(ctx)
		}
		select {
		case <-ctx.Done():
		case <-time.After(leasePause):
		}
	}
}

// round is one generation of the group: join, learn what is ours, and stay until the group changes.
func (s *leases) round(ctx context.Context) error {
	joined, err := s.join(ctx)
	if err != nil {
		return err
	}
	s.heard = time.Now()
	grant, err := s.sync(ctx, joined)
	if err != nil {
		return err
	}
	s.heard, s.warned = time.Now(), false
	s.apply(ctx, grant.Names)
	return s.stay(ctx)
}

func (s *leases) join(ctx context.Context) (*kmsg.JoinGroupResponse, error) {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.MemberID, req.ProtocolType = s.o.Group, s.id, leaseProtocol
	req.SessionTimeoutMillis = int32(s.l.o.SessionTimeout.Milliseconds())
	req.RebalanceTimeoutMillis = int32((3 * s.l.o.SessionTimeout).Milliseconds())
	protocol := kmsg.NewJoinGroupRequestProtocol()
	protocol.Name = leaseVersion
	var err error
	if protocol.Metadata, err = json.Marshal(s.claim()); err != nil {
		return nil, err
	}
	req.Protocols = []kmsg.JoinGroupRequestProtocol{protocol}
	resp, err := req.RequestWith(ctx, s.client)
	if err != nil {
		return nil, err
	}
	err = kerr.ErrorForCode(resp.ErrorCode)
	if errors.Is(err, kerr.MemberIDRequired) {
		s.id = resp.MemberID
		return s.join(ctx)
	}
	if err != nil {
		return nil, err
	}
	s.id, s.generation = resp.MemberID, resp.Generation
	return resp, nil
}

func (s *leases) claim() leaseClaim {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := leaseClaim{Can: s.o.Names}
	for name, h := range s.held {
		if h != holdLost {
			c.Holds = append(c.Holds, name)
		}
	}
	return c
}

func (s *leases) sync(ctx context.Context, joined *kmsg.JoinGroupResponse) (leaseGrant, error) {
	var grant leaseGrant
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.MemberID, req.Generation = s.o.Group, s.id, s.generation
	req.ProtocolType, req.Protocol = kmsg.StringPtr(leaseProtocol), kmsg.StringPtr(leaseVersion)
	if joined.LeaderID == s.id {
		claims := map[string]leaseClaim{}
		for _, m := range joined.Members {
			var c leaseClaim
			if err := json.Unmarshal(m.ProtocolMetadata, &c); err != nil {
				return grant, fmt.Errorf("read what member %s can do: %w", m.MemberID, err)
			}
			claims[m.MemberID] = c
		}
		for member, names := range shareOut(claims) {
			a := kmsg.NewSyncGroupRequestGroupAssignment()
			a.MemberID = member
			var err error
			if a.MemberAssignment, err = json.Marshal(leaseGrant{Names: names}); err != nil {
				return grant, err
			}
			req.GroupAssignment = append(req.GroupAssignment, a)
		}
	}
	resp, err := req.RequestWith(ctx, s.client)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return grant, err
	}
	if len(resp.MemberAssignment) > 0 {
		if err := json.Unmarshal(resp.MemberAssignment, &grant); err != nil {
			return grant, fmt.Errorf("read what the leader decided: %w", err)
		}
	}
	return grant, nil
}

// apply takes what is new and begins to give up what is not ours any more.
func (s *leases) apply(ctx context.Context, names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.assigned = map[string]bool{}
	for _, name := range names {
		s.assigned[name] = true
		if _, known := s.held[name]; !known {
			s.held[name] = holdFirm
			s.o.Granted(name)
		}
	}
	for name, h := range s.held {
		if h == holdFirm && !s.assigned[name] {
			s.giveUp(ctx, name, holdYielding)
		}
	}
}

// giveUp runs Revoked at the side. The lock is held.
func (s *leases) giveUp(ctx context.Context, name string, h hold) {
	s.held[name] = h
	s.work.Go(func() {
		s.o.Revoked(ctx, name)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.held, name)
		if s.assigned[name] && ctx.Err() == nil { // it came back meanwhile
			s.held[name] = holdFirm
			s.o.Granted(name)
		}
		select {
		case s.released <- struct{}{}:
		default:
		}
	})
}

// loseAll is for a member that the coordinator does not know any more: others have its names already.
func (s *leases) loseAll(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.assigned = map[string]bool{}
	for name, h := range s.held {
		if h == holdFirm {
			s.giveUp(ctx, name, holdLost)
		} else {
			s.held[name] = holdLost
		}
	}
}

// stay tells the coordinator that we live until the group changes or something was given up.
func (s *leases) stay(ctx context.Context) error {
	ticker := time.NewTicker(s.l.o.SessionTimeout / 5)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.released:
			return nil
		case <-ticker.C:
		}
		req := kmsg.NewPtrHeartbeatRequest()
		req.Group, req.MemberID, req.Generation = s.o.Group, s.id, s.generation
		beat, cancel := context.WithTimeout(ctx, s.l.o.SessionTimeout)
		resp, err := req.RequestWith(beat, s.client)
		cancel()
		if err == nil {
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		if err != nil {
			return err
		}
		s.heard = time.Now()
	}
}

// Close leaves the group.
func (s *leases) Close(ctx context.Context) error {
	var err error
	s.once.Do(func() {
		s.l.forget(s)
		s.cancel()
		s.client.Close() // ends a join that waits for others
		<-s.ended
		s.work.Wait()
		err = s.leave(ctx)
	})
	return err
}

// leave tells the coordinator, so that others need not wait for the session to end.
func (s *leases) leave(ctx context.Context) error {
	if s.id == "" || s.l.closed.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, closeTime)
	defer cancel()
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group, req.MemberID = s.o.Group, s.id
	member := kmsg.NewLeaveGroupRequestMember()
	member.MemberID = s.id
	req.Members = []kmsg.LeaveGroupRequestMember{member}
	resp, err := req.RequestWith(ctx, s.l.meta)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil && !errors.Is(err, kerr.UnknownMemberID) {
		return fmt.Errorf("leave group %q: %w", s.o.Group, translate(err))
	}
	return nil
}

// shut ends the membership with the log.
func (s *leases) shut() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	_ = s.Close(ctx)
}

// shareOut is what the leader decides: a name stays with its holder unless that one has two more than another that could
// take one, and a name that has to move goes to nobody in this round: its holder gives it up and then asks for the next.
func shareOut(claims map[string]leaseClaim) map[string][]string {
	members := slices.Sorted(maps.Keys(claims))
	can, holder, now := map[string][]string{}, map[string]string{}, map[string]string{}
	for _, m := range members {
		for _, name := range claims[m].Can {
			can[name] = append(can[name], m)
		}
	}
	for _, m := range members {
		for _, name := range claims[m].Holds {
			if slices.Contains(can[name], m) && holder[name] == "" {
				holder[name] = m
			}
		}
	}
	load := map[string]int{}
	idlest := func(list []string) string {
		return slices.MinFunc(list, func(a, b string) int { return load[a] - load[b] })
	}
	names := slices.Sorted(maps.Keys(can))
	for _, name := range names {
		if m := holder[name]; m != "" {
			now[name] = m
			load[m]++
		}
	}
	for _, name := range names {
		if now[name] == "" {
			now[name] = idlest(can[name])
			load[now[name]]++
		}
	}
	for moved := true; moved; {
		moved = false
		for _, name := range names {
			from, to := now[name], idlest(can[name])
			if load[from] >= load[to]+2 {
				now[name] = to
				load[from]--
				load[to]++
				moved = true
			}
		}
	}
	out := map[string][]string{}
	for _, m := range members {
		out[m] = nil
	}
	for _, name := range names {
		if h := holder[name]; h == "" || h == now[name] {
			out[now[name]] = append(out[now[name]], name)
		}
	}
	return out
}
