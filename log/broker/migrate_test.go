package broker

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// elder is a member of the classic protocol that speaks for itself, about topic t.
type elder struct {
	*wire
	id         string
	instance   *string // of a static one
	generation int32
	owned      []int32 // as it was told
}

func (r *rig) elder() *elder { return &elder{wire: r.wire(), generation: -1} }

// join joins with what the member says it has, and returns the answer; the first time it fetches its id before.
func (e *elder) join(has ...int32) *kmsg.JoinGroupResponse {
	e.t.Helper()
	meta := kmsg.ConsumerMemberMetadata{Version: 1, Topics: []string{"t"}}
	if len(has) > 0 {
		meta.OwnedPartitions = []kmsg.ConsumerMemberMetadataOwnedPartition{{Topic: "t", Partitions: has}}
	}
	req := version(kmsg.NewPtrJoinGroupRequest(), 5)
	req.InstanceID = e.instance
	req.Group, req.ProtocolType, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = "g", "consumer", 60_000, 60_000
	req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "sticky", Metadata: meta.AppendTo(nil)}}
	for {
		req.MemberID = e.id
		resp := e.ask(req).(*kmsg.JoinGroupResponse)
		e.id = resp.MemberID
		if resp.ErrorCode != kerr.MemberIDRequired.Code {
			e.generation = resp.Generation
			return resp
		}
	}
}

// sync gets what the member has; as a leader it assigns partitions to itself.
func (e *elder) sync(assign ...int32) *kerr.Error {
	e.t.Helper()
	req := version(kmsg.NewPtrSyncGroupRequest(), 5)
	req.InstanceID = e.instance
	req.Group, req.MemberID, req.Generation = "g", e.id, e.generation
	if len(assign) > 0 {
		a := kmsg.ConsumerMemberAssignment{Topics: []kmsg.ConsumerMemberAssignmentTopic{{Topic: "t", Partitions: assign}}}
		req.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: e.id, MemberAssignment: a.AppendTo(nil)}}
	}
	resp := e.ask(req).(*kmsg.SyncGroupResponse)
	if resp.ErrorCode != 0 {
		return kerr.TypedErrorForCode(resp.ErrorCode)
	}
	e.owned = nil
	for _, tp := range assignedPartitions(resp.MemberAssignment) {
		e.owned = append(e.owned, tp.Partition)
	}
	return nil
}

func (e *elder) beat() *kerr.Error {
	e.t.Helper()
	req := version(kmsg.NewPtrHeartbeatRequest(), 4)
	req.InstanceID = e.instance
	req.Group, req.MemberID, req.Generation = "g", e.id, e.generation
	return kerr.TypedErrorForCode(e.ask(req).(*kmsg.HeartbeatResponse).ErrorCode)
}

func (e *elder) commit(partition int32, offset int64) *kerr.Error {
	e.t.Helper()
	req := version(kmsg.NewPtrOffsetCommitRequest(), 8)
	req.InstanceID = e.instance
	req.Group, req.MemberID, req.Generation = "g", e.id, e.generation
	req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Partition: partition, Offset: offset}}}}
	return kerr.TypedErrorForCode(e.ask(req).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode)
}

func (e *elder) leave() {
	e.t.Helper()
	req := version(kmsg.NewPtrLeaveGroupRequest(), 5)
	req.Group, req.Members = "g", []kmsg.LeaveGroupRequestMember{{MemberID: e.id}}
	if m := e.ask(req).(*kmsg.LeaveGroupResponse).Members[0]; m.ErrorCode != 0 {
		e.t.Fatalf("%s leaves: error %d", e.id, m.ErrorCode)
	}
}

// wantError fails the test unless a request was answered so; nil is success.
func wantError(t *testing.T, what string, got, want *kerr.Error) {
	t.Helper()
	if got != want {
		t.Fatalf("%s is answered %v, want %v", what, got, want)
	}
}

// begin makes a classic group of one member that has the four partitions of t.
func (e *elder) begin() {
	e.t.Helper()
	if resp := e.join(); resp.ErrorCode != 0 || resp.LeaderID != e.id {
		e.t.Fatalf("the first member: %+v", resp)
	}
	wantError(e.t, "the leader's sync", e.sync(0, 1, 2, 3), nil)
}

func (r *rig) groupType() string {
	r.t.Helper()
	req := version(kmsg.NewPtrListGroupsRequest(), 5)
	for _, g := range r.wire().ask(req).(*kmsg.ListGroupsResponse).Groups {
		if g.Group == "g" {
			return g.GroupType
		}
	}
	return ""
}

func TestGroupMovesToTheConsumerProtocolAndBack(t *testing.T) {
	t.Parallel()
	for name, cooperative := range map[string]bool{"a member that keeps its partitions through a rebalance": true, "a member that gives all up": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := openRig(t, Options{})
			r.topic("t", 4)
			old, young := r.elder(), r.peer("young")
			old.begin()
			if kind := r.groupType(); kind != "classic" {
				t.Fatalf("the group is %s", kind)
			}
			young.want(nil, joining("t"))
			if len(young.owned) != 0 || r.groupType() != "consumer" {
				t.Fatalf("while the old member reads all, the new one has %v in a group that is %s", young.owned, r.groupType())
			}
			wantError(t, "a heartbeat when there is something to give up", old.beat(), kerr.RebalanceInProgress)
			wantError(t, "a commit before it is given up", old.commit(3, 7), nil)
			young.want(nil, nil)
			if len(young.owned) != 0 {
				t.Fatalf("before the old member joined again the new one has %v", young.owned)
			}
			before := old.generation
			if cooperative {
				old.join(0, 1, 2, 3)
				wantError(t, "the sync", old.sync(), nil)
				if old.generation != before || len(old.owned) != 2 {
					t.Fatalf("it is to keep %v in generation %d", old.owned, old.generation)
				}
				young.want(nil, nil)
				if len(young.owned) != 0 {
					t.Fatalf("before they are given up the new member has %v", young.owned)
				}
				wantError(t, "a heartbeat before they are given up", old.beat(), kerr.RebalanceInProgress)
				wantError(t, "a commit of what it gives up", old.commit(3, 8), nil)
			}
			kept := old.owned
			if !cooperative {
				kept = nil
			}
			if resp := old.join(kept...); resp.ErrorCode != 0 || resp.LeaderID == old.id || len(resp.Members) > 0 {
				t.Fatalf("the second join: %+v", resp)
			}
			wantError(t, "the sync", old.sync(), nil)
			young.want(nil, nil)
			if old.generation != before+1 || len(old.owned) != 2 || len(young.owned) != 2 {
				t.Fatalf("in generation %d the old member has %v, the new one %v", old.generation, old.owned, young.owned)
			}
			wantError(t, "a heartbeat when all is settled", old.beat(), nil)
			old.generation--
			wantError(t, "a commit of an older generation", old.commit(0, 9), kerr.IllegalGeneration)
			old.generation++
			describe := version(kmsg.NewPtrConsumerGroupDescribeRequest(), 1)
			describe.Groups = []string{"g"}
			kinds := map[string]int8{}
			for _, m := range old.ask(describe).(*kmsg.ConsumerGroupDescribeResponse).Groups[0].Members {
				kinds[m.MemberID] = m.MemberType
			}
			if kinds[old.id] != classicMemberType || kinds["young"] != consumerMemberType {
				t.Errorf("described as %v", kinds)
			}

			young.want(nil, func(req *kmsg.ConsumerGroupHeartbeatRequest) { req.MemberEpoch = -1 })
			if kind := r.groupType(); kind != "classic" {
				t.Fatalf("when the new member left, the group is %s", kind)
			}
			wantError(t, "a heartbeat after the new member left", old.beat(), kerr.RebalanceInProgress)
			wantError(t, "a commit before the rebalance", old.commit(old.owned[0], 10), nil)
			if resp := old.join(old.owned...); resp.ErrorCode != 0 || resp.LeaderID != old.id || resp.Generation <= before+1 {
				t.Fatalf("alone again: %+v", resp)
			}
			wantError(t, "the leader's sync", old.sync(0, 1, 2, 3), nil)
			wantError(t, "the last heartbeat", old.beat(), nil)
			old.leave()
			if kind := r.groupType(); kind != "classic" { // its offsets stay
				t.Errorf("when all left, the group is %s", kind)
			}
		})
	}
}

// A classic member may come to a consumer group, and the time of a silent or stubborn one ends.
func TestClassicMembersOfAConsumerGroupHaveTheirTime(t *testing.T) {
	t.Parallel()
	r := openRig(t, Options{})
	r.topic("t", 4)
	young, old := r.peer("young"), r.elder()
	young.want(nil, joining("t"))
	if resp := old.join(); resp.ErrorCode != 0 {
		t.Fatalf("a classic member joins: %+v", resp)
	}
	wantError(t, "its sync", old.sync(), nil)
	if len(old.owned) != 0 {
		t.Fatalf("while the other reads all, it has %v", old.owned)
	}
	wantError(t, "a heartbeat while it waits", old.beat(), nil)
	young.want(nil, nil)
	if len(young.owned) != 2 {
		t.Fatalf("the member that was there is to keep %v", young.owned)
	}
	young.want(nil, has(r.topicID("t"), young.numbers(r.topicID("t"))...))
	wantError(t, "a heartbeat when the others gave up", old.beat(), kerr.RebalanceInProgress)
	old.join()
	wantError(t, "its sync", old.sync(), nil)
	if len(old.owned) != 2 {
		t.Fatalf("it got %v", old.owned)
	}
	// A third member comes, and the classic one does not join again in its time.
	r.server.groups.consumerNames["g"].mu.Lock()
	r.server.groups.consumerNames["g"].members[old.id].rebalance = 50 * time.Millisecond
	r.server.groups.consumerNames["g"].mu.Unlock()
	third := r.peer("third")
	third.want(nil, joining("t"))
	wantError(t, "a heartbeat when there is something to give up", old.beat(), kerr.RebalanceInProgress)
	for deadline := time.Now().Add(time.Minute); old.beat() != kerr.UnknownMemberID; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a member that does not join again stays")
		}
	}
}

// Who cannot be served by the other protocol is refused, and nothing else changes.
func TestGroupsThatCannotMoveStayWhatTheyAre(t *testing.T) {
	t.Parallel()
	r := openRig(t, Options{})
	r.topic("t", 2)
	a := r.peer("a")
	join := version(kmsg.NewPtrJoinGroupRequest(), 3)
	join.Group, join.ProtocolType, join.SessionTimeoutMillis = "g", "connect", 10_000
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "default", Metadata: []byte("opaque")}}
	w := r.wire()
	if resp := w.ask(join).(*kmsg.JoinGroupResponse); resp.ErrorCode != 0 {
		t.Fatalf("a worker of Kafka Connect: %+v", resp)
	}
	a.want(kerr.GroupIDNotFound, joining("t"))
	if kind := r.groupType(); kind != "classic" {
		t.Errorf("the group of workers is %s", kind)
	}
	join.Group, join.ProtocolType = "other", "consumer"
	if resp := w.ask(join).(*kmsg.JoinGroupResponse); resp.ErrorCode != 0 {
		t.Fatalf("consumers whose subscription nobody can read: %+v", resp)
	}
	a.want(kerr.GroupIDNotFound, func(req *kmsg.ConsumerGroupHeartbeatRequest) {
		joining("t")(req)
		req.Group = "other"
	})
	b := r.peer("b")
	inThird := func(req *kmsg.ConsumerGroupHeartbeatRequest) { req.Group = "third" }
	b.want(nil, func(req *kmsg.ConsumerGroupHeartbeatRequest) {
		joining("t")(req)
		inThird(req)
	})
	join.Group = "third"
	if resp := w.ask(join).(*kmsg.JoinGroupResponse); resp.ErrorCode != kerr.InconsistentGroupProtocol.Code {
		t.Errorf("into a consumer group they are answered %d", resp.ErrorCode)
	}
	b.want(nil, inThird)
}

// TestRandomMixedGroupsNeverShareAPartition lets members of both protocols come, go and answer late in a group that always
// has one of the consumer protocol, and looks at every step that no partition has two readers.
func TestRandomMixedGroupsNeverShareAPartition(t *testing.T) {
	t.Parallel()
	const partitions = 7
	r := openRig(t, Options{})
	r.topic("t", partitions)
	id := r.topicID("t")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	readers := map[string]map[int32]bool{} // who may be reading what
	single := func() {
		t.Helper()
		owner := map[int32]string{}
		for name, set := range readers {
			for n := range set {
				if owner[n] != "" {
					t.Fatalf("%s and %s both read partition %d", owner[n], name, n)
				}
				owner[n] = name
			}
		}
	}
	set := func(list []int32) map[int32]bool {
		out := map[int32]bool{}
		for _, n := range list {
			out[n] = true
		}
		return out
	}
	w := r.wire()
	peers, elders := map[string]*peer{}, map[string]*elder{}
	stepPeer := func(name string, mayLeave, mayBeLate bool) {
		p := peers[name]
		switch {
		case p == nil:
			p = &peer{wire: w, id: name + "-" + strconv.Itoa(random.Int()), owned: map[string]bool{}}
			p.want(nil, joining("t"))
			peers[name] = p
		case mayLeave && random.IntN(10) == 0:
			p.want(nil, func(req *kmsg.ConsumerGroupHeartbeatRequest) { req.MemberEpoch = -1 })
			delete(peers, name)
			delete(readers, name)
			return
		default:
			p.want(nil, has(id, slices.Sorted(maps.Keys(readers[name]))...))
		}
		before := readers[name]
		readers[name] = set(p.numbers(id))
		if mayBeLate && random.IntN(3) == 0 {
			maps.Copy(readers[name], before)
		}
	}
	stepElder := func(name string, eager, mayLeave bool) {
		e := elders[name]
		switch {
		case e == nil:
			e = &elder{wire: w}
			elders[name] = e
		case mayLeave && random.IntN(10) == 0:
			e.leave()
			delete(elders, name)
			delete(readers, name)
			return
		default:
			if bad := e.beat(); bad == nil {
				return
			} else if bad != kerr.RebalanceInProgress {
				t.Fatalf("a heartbeat of %s: %v", name, bad)
			}
			if random.IntN(3) == 0 {
				return // it comes later
			}
		}
		var keeps []int32
		if !eager {
			keeps = slices.Sorted(maps.Keys(readers[name]))
		}
		if resp := e.join(keeps...); resp.ErrorCode != 0 {
			t.Fatalf("%s joins: %+v", name, resp)
		}
		readers[name] = set(keeps)
		if bad := e.sync(); bad != nil && bad != kerr.RebalanceInProgress {
			t.Fatalf("%s syncs: %v", name, bad)
		} else if bad == nil {
			readers[name] = set(e.owned)
		}
	}
	stepPeer("stays", false, false)
	for range 300 {
		switch n := random.IntN(6); {
		case n == 0:
			stepPeer("stays", false, true)
		case n < 3:
			stepPeer("p"+strconv.Itoa(n), true, true)
		default:
			stepElder("e"+strconv.Itoa(n), n == 3, true)
		}
		single()
	}
	for range 12 {
		for _, name := range slices.Sorted(maps.Keys(peers)) {
			stepPeer(name, false, false)
			single()
		}
		for _, name := range slices.Sorted(maps.Keys(elders)) {
			for range 4 { // as often as it takes it to come at once
				stepElder(name, name == "e3", false)
			}
			single()
		}
	}
	total, members := 0, len(peers)+len(elders)
	for name, have := range readers {
		total += len(have)
		if n := len(have); n < partitions/members || n > (partitions+members-1)/members {
			t.Errorf("%s reads %d of %d partitions among %d", name, n, partitions, members)
		}
	}
	if total != partitions {
		t.Errorf("all together read %d of %d partitions", total, partitions)
	}
}
