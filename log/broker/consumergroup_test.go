package broker

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// peer is a member of a consumer group that speaks for itself.
type peer struct {
	*wire
	id    string
	epoch int32
	owned map[string]bool // topic id and partition, as it was told
	holds map[string]bool // what it has not given up, of a test that is late
	last  *kmsg.ConsumerGroupHeartbeatResponse
}

func (r *rig) peer(id string) *peer { return &peer{wire: r.wire(), id: id, owned: map[string]bool{}} }

// beat sends a heartbeat, after change, and follows the answer.
func (p *peer) beat(change func(req *kmsg.ConsumerGroupHeartbeatRequest)) *kerr.Error {
	p.t.Helper()
	req := version(kmsg.NewPtrConsumerGroupHeartbeatRequest(), 1)
	req.Group, req.MemberID, req.MemberEpoch, req.RebalanceTimeoutMillis = "g", p.id, p.epoch, -1
	if change != nil {
		change(req)
	}
	p.last = p.ask(req).(*kmsg.ConsumerGroupHeartbeatResponse)
	if p.last.ErrorCode != 0 {
		return kerr.TypedErrorForCode(p.last.ErrorCode)
	}
	p.epoch = p.last.MemberEpoch
	if p.last.Assignment != nil {
		p.owned = map[string]bool{}
		for _, t := range p.last.Assignment.Topics {
			for _, n := range t.Partitions {
				p.owned[fmt.Sprintf("%x-%d", t.TopicID, n)] = true
			}
		}
	}
	return nil
}

// numbers lists the partitions of one topic that the member was told.
func (p *peer) numbers(id [16]byte) []int32 {
	p.t.Helper()
	var out []int32
	for at := range p.owned {
		if n, ok := strings.CutPrefix(at, fmt.Sprintf("%x-", id)); ok {
			i, err := strconv.Atoi(n)
			if err != nil {
				p.t.Fatal(err)
			}
			out = append(out, int32(i))
		}
	}
	slices.Sort(out)
	return out
}

func joining(topics ...string) func(*kmsg.ConsumerGroupHeartbeatRequest) {
	return func(req *kmsg.ConsumerGroupHeartbeatRequest) {
		req.MemberEpoch, req.RebalanceTimeoutMillis = 0, 60_000
		req.SubscribedTopicNames, req.Topics = topics, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	}
}

// has tells the group what the member still has: partitions of one topic.
func has(id [16]byte, partitions ...int32) func(*kmsg.ConsumerGroupHeartbeatRequest) {
	return func(req *kmsg.ConsumerGroupHeartbeatRequest) {
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{{TopicID: id, Partitions: partitions}}
	}
}

func (p *peer) want(err *kerr.Error, change func(*kmsg.ConsumerGroupHeartbeatRequest)) {
	p.t.Helper()
	if got := p.beat(change); got != err {
		p.t.Fatalf("a heartbeat of %s in epoch %d is answered %v, want %v", p.id, p.epoch, got, err)
	}
}

func (r *rig) topicID(name string) [16]byte {
	r.t.Helper()
	t, err := r.journal.Name(name)
	if err != nil {
		r.t.Fatal(err)
	}
	return t.ID
}

func TestPartitionsChangeHandsOnlyOnceTheyAreGivenUp(t *testing.T) {
	t.Parallel()
	r := openRig(t, Options{})
	r.topic("t", 4)
	id := r.topicID("t")
	a, b := r.peer("a"), r.peer("b")
	a.want(nil, joining("t"))
	if len(a.owned) != 4 || a.epoch != 1 || a.last.HeartbeatIntervalMillis != 1000 {
		t.Fatalf("alone it has %v in epoch %d", a.owned, a.epoch)
	}
	b.want(nil, joining("t"))
	if len(b.owned) != 0 || b.epoch != 2 {
		t.Fatalf("before the other gave up, it has %v in epoch %d", b.owned, b.epoch)
	}
	a.want(nil, nil)
	if len(a.owned) != 2 || a.epoch != 1 {
		t.Fatalf("it is to have %v in epoch %d", a.owned, a.epoch)
	}
	a.want(nil, has(id, 0, 1, 2, 3)) // it still works on them
	b.want(nil, nil)
	if len(b.owned) != 0 || a.epoch != 1 {
		t.Fatalf("while the other works on them, it has %v", b.owned)
	}
	var kept []int32
	for n := range int32(4) {
		if a.owned[fmt.Sprintf("%x-%d", id, n)] {
			kept = append(kept, n)
		}
	}
	a.want(nil, has(id, kept...))
	if a.epoch != 2 {
		t.Errorf("it gave up what it was to, and stays in epoch %d", a.epoch)
	}
	b.want(nil, nil)
	if len(b.owned) != 2 {
		t.Fatalf("after the other gave up, it has %v", b.owned)
	}
	for tp := range b.owned {
		if a.owned[tp] {
			t.Errorf("both have %s", tp)
		}
	}
	b.want(nil, func(req *kmsg.ConsumerGroupHeartbeatRequest) { req.MemberEpoch = -1 })
	a.want(nil, nil)
	if len(a.owned) != 4 || a.epoch != 3 {
		t.Errorf("after the other left, it has %v in epoch %d", a.owned, a.epoch)
	}
	b.epoch = 2
	b.want(kerr.UnknownMemberID, nil)
}

func TestMemberIsFencedByItsEpoch(t *testing.T) {
	t.Parallel()
	r := openRig(t, Options{})
	r.topic("t", 2)
	id := r.topicID("t")
	a := r.peer("a")
	a.want(kerr.UnknownMemberID, func(req *kmsg.ConsumerGroupHeartbeatRequest) { req.MemberEpoch = 7 })
	a.want(nil, joining("t"))
	a.want(kerr.FencedMemberEpoch, func(req *kmsg.ConsumerGroupHeartbeatRequest) { req.MemberEpoch = 5 })
	a.want(nil, joining("t", "later"))
	if a.epoch != 2 {
		t.Fatalf("who reads something else is in epoch %d", a.epoch)
	}
	lost := func(partitions ...int32) func(req *kmsg.ConsumerGroupHeartbeatRequest) {
		return func(req *kmsg.ConsumerGroupHeartbeatRequest) {
			has(id, partitions...)(req)
			req.MemberEpoch = 1
		}
	}
	a.want(nil, lost(0, 1)) // the last answer was lost
	a.want(kerr.FencedMemberEpoch, lost(0, 1, 2))
	a.want(kerr.InvalidRequest, func(req *kmsg.ConsumerGroupHeartbeatRequest) { req.MemberEpoch = -3 })
	a.want(kerr.InvalidRequest, func(req *kmsg.ConsumerGroupHeartbeatRequest) { req.MemberEpoch = 0 })
	a.want(kerr.UnsupportedAssignor, func(req *kmsg.ConsumerGroupHeartbeatRequest) { req.ServerAssignor = kmsg.StringPtr("sticky") })
}

func TestEpochsGuardOffsets(t *testing.T) {
	t.Parallel()
	r := openRig(t, Options{})
	r.topic("t", 2)
	a, b := r.peer("a"), r.peer("b")
	commit := func(v int16, member string, epoch int32, partition int32) *kerr.Error {
		req := version(kmsg.NewPtrOffsetCommitRequest(), v)
		req.Group, req.MemberID, req.Generation = "g", member, epoch
		req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Partition: partition, Offset: 0}}}}
		return kerr.TypedErrorForCode(a.ask(req).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode)
	}
	fetch := func(member string, epoch int32) *kerr.Error {
		req := version(kmsg.NewPtrOffsetFetchRequest(), 9)
		req.Groups = []kmsg.OffsetFetchRequestGroup{{Group: "g", MemberID: &member, MemberEpoch: epoch}}
		return kerr.TypedErrorForCode(a.ask(req).(*kmsg.OffsetFetchResponse).Groups[0].ErrorCode)
	}
	check := func(what string, got, want *kerr.Error) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	a.want(nil, joining("t"))
	check("a member", commit(9, "a", 1, 0), nil)
	check("an epoch to come", commit(9, "a", 2, 0), kerr.StaleMemberEpoch)
	check("an epoch to come, of an older client", commit(8, "a", 2, 0), kerr.IllegalGeneration)
	check("a stranger", commit(9, "z", 1, 0), kerr.UnknownMemberID)
	check("nobody", commit(9, "", -1, 0), kerr.UnknownMemberID)
	check("a member's fetch", fetch("a", 1), nil)
	check("an old fetch", fetch("a", 0), kerr.StaleMemberEpoch)
	check("a stranger's fetch", fetch("z", 1), kerr.UnknownMemberID)
	b.want(nil, joining("t"))
	a.want(nil, nil) // it is to give one up, and may still commit it
	check("what is being given up", commit(9, "a", 1, 0), nil)
	a.want(nil, has(r.topicID("t"), 1))
	b.want(nil, nil)
	check("the last epoch, for what it had then", commit(9, "a", 1, 1), nil)
	check("the last epoch, for what another has now", commit(9, "a", 1, 0), kerr.StaleMemberEpoch)
	check("an epoch before it had that", commit(9, "b", 1, 0), kerr.StaleMemberEpoch)
	check("what it has", commit(9, "b", 2, 0), nil)
}

func TestStaticMemberOfTheConsumerProtocolKeepsItsPlace(t *testing.T) {
	t.Parallel()
	r := openRig(t, Options{})
	r.topic("t", 4)
	static := func(change func(*kmsg.ConsumerGroupHeartbeatRequest)) func(*kmsg.ConsumerGroupHeartbeatRequest) {
		return func(req *kmsg.ConsumerGroupHeartbeatRequest) {
			req.InstanceID = kmsg.StringPtr("one")
			if change != nil {
				change(req)
			}
		}
	}
	old, other, fresh := r.peer("old"), r.peer("other"), r.peer("fresh")
	old.want(nil, static(joining("t")))
	fresh.want(kerr.UnreleasedInstanceID, static(joining("t")))
	old.want(nil, static(func(req *kmsg.ConsumerGroupHeartbeatRequest) { req.MemberEpoch = -2 }))
	if old.last.MemberEpoch != -2 {
		t.Errorf("it left in epoch %d", old.last.MemberEpoch)
	}
	other.want(nil, joining("t"))
	if len(other.owned) != 0 {
		t.Errorf("while one is away, the other got %v of it", other.owned)
	}
	fresh.want(nil, static(joining("t")))
	if len(fresh.owned) != 2 {
		t.Errorf("who came back has %v", fresh.owned)
	}
	old.epoch = 1
	old.want(kerr.FencedInstanceID, static(nil))
	old.want(kerr.UnknownMemberID, nil)
	leave := version(kmsg.NewPtrLeaveGroupRequest(), 5)
	leave.Group, leave.Members = "g", []kmsg.LeaveGroupRequestMember{{InstanceID: kmsg.StringPtr("one")}}
	if m := other.ask(leave).(*kmsg.LeaveGroupResponse).Members[0]; m.ErrorCode != 0 {
		t.Errorf("an administrator removes it: error %d", m.ErrorCode)
	}
	other.want(nil, nil)
	if len(other.owned) != 4 {
		t.Errorf("alone it has %v", other.owned)
	}
}

func TestMembersAreEndedByTime(t *testing.T) {
	t.Parallel()
	wait := func(what string, done func() bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal(what)
			}
		}
	}
	t.Run("who is silent", func(t *testing.T) {
		t.Parallel()
		r := openRig(t, Options{ConsumerSession: 50 * time.Millisecond})
		r.topic("t", 2)
		a := r.peer("a")
		a.want(nil, joining("t"))
		wait("a silent member stays", func() bool {
			_, left := r.server.groups.all()
			return len(left) == 0
		})
		a.want(kerr.UnknownMemberID, nil)
	})
	t.Run("who does not give up", func(t *testing.T) {
		t.Parallel()
		r := openRig(t, Options{})
		r.topic("t", 2)
		a, b := r.peer("a"), r.peer("b")
		a.want(nil, func(req *kmsg.ConsumerGroupHeartbeatRequest) {
			joining("t")(req)
			req.RebalanceTimeoutMillis = 1 // which is raised to the least there is
		})
		b.want(nil, joining("t"))
		a.want(nil, nil)
		wait("the other never gets all", func() bool { b.want(nil, nil); return len(b.owned) == 2 })
		a.want(kerr.UnknownMemberID, nil)
	})
}

func TestConsumerGroupFollowsTopics(t *testing.T) {
	t.Parallel()
	r := openRig(t, Options{})
	r.topic("shop.a", 1)
	r.topic("shopping", 1)
	a := r.peer("a")
	a.want(kerr.InvalidRegularExpression, func(req *kmsg.ConsumerGroupHeartbeatRequest) {
		joining()(req)
		req.SubscribedTopicRegex = kmsg.StringPtr("shop.(")
	})
	a.want(nil, func(req *kmsg.ConsumerGroupHeartbeatRequest) {
		joining()(req)
		req.SubscribedTopicRegex = kmsg.StringPtr(`shop\..*|_trunkline.*`)
	})
	if len(a.owned) != 1 {
		t.Fatalf("the pattern reads %v", a.owned)
	}
	r.topic("shop.b", 3)
	grows := func(n int) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); len(a.owned) != n; time.Sleep(10 * time.Millisecond) {
			a.want(nil, func(req *kmsg.ConsumerGroupHeartbeatRequest) {
				req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
			})
			if time.Now().After(deadline) {
				t.Fatalf("it has %v, want %d partitions", a.owned, n)
			}
		}
	}
	grows(4)
	if _, err := r.admin().CreatePartitions(r.context(), 2, "shop.b"); err != nil {
		t.Fatal(err)
	}
	grows(6)
	if _, err := r.admin().DeleteTopics(r.context(), "shop.a"); err != nil {
		t.Fatal(err)
	}
	grows(5)
}

func TestProtocolsOfGroupsStayApart(t *testing.T) {
	t.Parallel()
	r := openRig(t, Options{})
	r.topic("t", 2)
	a := r.peer("a")
	join := version(kmsg.NewPtrJoinGroupRequest(), 5)
	join.Group, join.ProtocolType, join.SessionTimeoutMillis = "g", "consumer", 10_000
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
	classic := func() *kmsg.JoinGroupResponse { return r.wire().ask(join).(*kmsg.JoinGroupResponse) }
	a.want(nil, joining("t"))
	if resp := classic(); resp.ErrorCode != kerr.InconsistentGroupProtocol.Code {
		t.Errorf("a classic member is answered %d", resp.ErrorCode)
	}
	beat := version(kmsg.NewPtrHeartbeatRequest(), 3)
	beat.Group, beat.MemberID, beat.Generation = "g", "a", a.epoch
	if resp := a.ask(beat).(*kmsg.HeartbeatResponse); resp.ErrorCode != kerr.UnknownMemberID.Code {
		t.Errorf("a classic heartbeat is answered %d", resp.ErrorCode)
	}
	groups, err := r.journal.Groups(r.context())
	if err != nil || len(groups) != 1 || len(groups[0].Members) != 1 || len(groups[0].Members[0].Partitions) != 2 {
		t.Errorf("the log knows the groups %+v, %v", groups, err)
	}
	if err := r.journal.DeleteGroup(r.context(), "g"); err == nil {
		t.Error("a group with members was deleted")
	}
	a.want(nil, func(req *kmsg.ConsumerGroupHeartbeatRequest) { req.MemberEpoch = -1 })
	member := classic()
	if member.ErrorCode != kerr.MemberIDRequired.Code {
		t.Fatalf("the name is free, and a classic member is answered %d", member.ErrorCode)
	}
	a.want(nil, joining("t")) // nobody is in the classic group yet
	r.restart(Options{})
	a = r.peer("a")
	a.epoch = 1
	a.want(kerr.UnknownMemberID, nil)
	a.want(nil, joining("t"))
}

func TestConsumerGroupIsDescribed(t *testing.T) {
	t.Parallel()
	r := openRig(t, Options{})
	r.topic("t", 3)
	a := r.peer("a")
	a.want(nil, func(req *kmsg.ConsumerGroupHeartbeatRequest) {
		joining("t")(req)
		req.ServerAssignor, req.InstanceID = kmsg.StringPtr("range"), kmsg.StringPtr("one")
	})
	describe := version(kmsg.NewPtrConsumerGroupDescribeRequest(), 1)
	describe.Groups = []string{"g", "nobody"}
	got := a.ask(describe).(*kmsg.ConsumerGroupDescribeResponse).Groups
	if g := got[0]; g.State != "Stable" || g.Epoch != 1 || g.AssignorName != "range" || len(g.Members) != 1 ||
		*g.Members[0].InstanceID != "one" || len(g.Members[0].Assignment.TopicPartitions[0].Partitions) != 3 {
		t.Errorf("described as %+v", g)
	}
	if got[1].ErrorCode != kerr.GroupIDNotFound.Code {
		t.Errorf("a group that is none: %+v", got[1])
	}
	old := version(kmsg.NewPtrDescribeGroupsRequest(), 4)
	old.Groups = []string{"g"}
	g := a.ask(old).(*kmsg.DescribeGroupsResponse).Groups[0]
	if g.State != "Stable" || g.ProtocolType != "consumer" || len(assignedPartitions(g.Members[0].MemberAssignment)) != 3 {
		t.Errorf("to older clients it is %+v", g)
	}
	list := version(kmsg.NewPtrListGroupsRequest(), 5)
	list.TypesFilter = []string{"consumer"}
	if all := a.ask(list).(*kmsg.ListGroupsResponse).Groups; len(all) != 1 || all[0].GroupType != "consumer" {
		t.Errorf("listed as %+v", all)
	}
}

func TestAssignors(t *testing.T) {
	t.Parallel()
	shape := func(id byte, n int32) topicShape { return topicShape{[16]byte{id}, n} }
	for name, c := range map[string]struct {
		assignor string
		topics   map[string]topicShape
		members  map[string][]string
		had      map[string][]int32 // of topic t
		want     map[string][]int32 // of topic t
		counts   map[string]int     // of all topics
	}{
		"range gives runs": {rangeAssignor, map[string]topicShape{"t": shape(1, 5), "u": shape(2, 2)}, map[string][]string{"a": {"t", "u"}, "b": {"t", "u"}},
			nil, map[string][]int32{"a": {0, 1, 2}, "b": {3, 4}}, map[string]int{"a": 4, "b": 3}},
		"range leaves out who has no part": {rangeAssignor, map[string]topicShape{"t": shape(1, 1)}, map[string][]string{"a": {"t"}, "b": {"t"}, "c": {"u"}},
			nil, map[string][]int32{"a": {0}}, map[string]int{"a": 1}},
		"uniform counts all topics": {uniformAssignor, map[string]topicShape{"t": shape(1, 3), "u": shape(2, 3)}, map[string][]string{"a": {"t", "u"}, "b": {"t", "u"}},
			nil, nil, map[string]int{"a": 3, "b": 3}},
		"uniform moves little": {uniformAssignor, map[string]topicShape{"t": shape(1, 6)}, map[string][]string{"a": {"t"}, "b": {"t"}, "c": {"t"}},
			map[string][]int32{"a": {1, 3, 5}, "b": {0, 2, 4}}, nil, map[string]int{"a": 2, "b": 2, "c": 2}},
		"uniform respects what is read": {uniformAssignor, map[string]topicShape{"t": shape(1, 2), "u": shape(2, 4)}, map[string][]string{"a": {"t", "u"}, "b": {"t"}},
			nil, map[string][]int32{"b": {0, 1}}, map[string]int{"a": 4, "b": 2}},
	} {
		t.Run(name, func(t *testing.T) {
			g := newConsumerGroup(nil, "g")
			g.topics = c.topics
			for id, names := range c.members {
				m := &consumerMember{id: id, names: names, target: placedSet{}}
				for _, n := range c.had[id] {
					m.target[placed{[16]byte{1}, n}] = 0
				}
				g.members[id] = m
			}
			assignors[c.assignor](g)
			got, counts := map[string][]int32{}, map[string]int{}
			stayed := 0
			for id, m := range g.members {
				if list := byTopicID(m.target)[[16]byte{1}]; len(list) > 0 {
					got[id] = list
				}
				if len(m.target) > 0 {
					counts[id] = len(m.target)
				}
				for _, n := range c.had[id] {
					if slices.Contains(got[id], n) {
						stayed++
					}
				}
			}
			if c.want != nil && !maps.EqualFunc(got, c.want, slices.Equal) {
				t.Errorf("assigned %v, want %v", got, c.want)
			}
			if !maps.Equal(counts, c.counts) {
				t.Errorf("counts %v, want %v", counts, c.counts)
			}
			if c.had != nil && stayed != 4 {
				t.Errorf("%d partitions stayed where they were, want 4", stayed)
			}
		})
	}
}

// TestRandomConsumerGroupsNeverShareAPartition lets members come, go, stall and answer late, and looks at every step that no
// partition has two readers and that all find their way to an even assignment in the end.
func TestRandomConsumerGroupsNeverShareAPartition(t *testing.T) {
	t.Parallel()
	r := openRig(t, Options{})
	r.topic("t", 7)
	id := r.topicID("t")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	peers := map[string]*peer{}
	report := func(p *peer) func(*kmsg.ConsumerGroupHeartbeatRequest) {
		return func(req *kmsg.ConsumerGroupHeartbeatRequest) {
			var list []int32
			for n := range int32(7) {
				if p.holds[fmt.Sprintf("%x-%d", id, n)] {
					list = append(list, n)
				}
			}
			has(id, list...)(req)
		}
	}
	single := func() {
		t.Helper()
		owner := map[string]string{}
		for name, p := range peers {
			for tp := range p.holds {
				if owner[tp] != "" {
					t.Fatalf("%s and %s both have %s", owner[tp], name, tp)
				}
				owner[tp] = name
			}
		}
	}
	w := r.wire()
	for step := range 400 {
		name := "m" + strconv.Itoa(random.IntN(5))
		p := peers[name]
		switch {
		case p == nil:
			p = &peer{wire: w, id: name + "-" + strconv.Itoa(step)}
			p.want(nil, joining("t"))
			p.holds = maps.Clone(p.owned)
			peers[name] = p
		case random.IntN(10) == 0:
			p.want(nil, func(req *kmsg.ConsumerGroupHeartbeatRequest) { req.MemberEpoch = -1 })
			delete(peers, name)
		default:
			before := p.holds
			p.want(nil, report(p))
			p.holds = maps.Clone(p.owned)
			if random.IntN(3) == 0 {
				maps.Copy(p.holds, before) // it has not given up yet what it is told to
			}
		}
		single()
	}
	for range 10 {
		for _, p := range peers {
			p.want(nil, report(p))
			p.holds = maps.Clone(p.owned)
			single()
		}
	}
	total := 0
	for name, p := range peers {
		total += len(p.owned)
		if n := len(p.owned); n < 7/len(peers) || n > (7+len(peers)-1)/len(peers) {
			t.Errorf("%s has %d of 7 partitions among %d", name, n, len(peers))
		}
	}
	if len(peers) > 0 && total != 7 {
		t.Errorf("all together have %d of 7 partitions", total)
	}
	if groups, err := r.journal.Groups(r.context()); err != nil || len(peers) > 0 && len(groups[0].Members) != len(peers) {
		t.Errorf("the log knows %+v, %v", groups, err)
	}
}
