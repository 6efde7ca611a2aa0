package broker

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// one makes a heartbeat that of the static member "one".
func one(change func(*kmsg.ConsumerGroupHeartbeatRequest)) func(*kmsg.ConsumerGroupHeartbeatRequest) {
	return func(req *kmsg.ConsumerGroupHeartbeatRequest) {
		req.InstanceID = kmsg.StringPtr("one")
		if change != nil {
			change(req)
		}
	}
}

func (r *rig) staticElder() *elder {
	e := r.elder()
	e.instance = kmsg.StringPtr("one")
	return e
}

// wantFenced fails the test unless a process of the classic protocol hears that another one has its place.
func (e *elder) wantFenced() {
	e.t.Helper()
	wantError(e.t, "a heartbeat of the process before", e.beat(), kerr.FencedInstanceID)
	wantError(e.t, "its sync", e.sync(), kerr.FencedInstanceID)
	if code := e.join().ErrorCode; code != kerr.FencedInstanceID.Code {
		e.t.Fatalf("its join is answered %d", code)
	}
}

// wantAlone brings a member of a group that has just become a classic one through its rebalance: it leads it, and has all.
func (e *elder) wantAlone() {
	e.t.Helper()
	wantError(e.t, "a heartbeat in the group that is a classic one again", e.beat(), kerr.RebalanceInProgress)
	if resp := e.join(e.owned...); resp.ErrorCode != 0 || resp.LeaderID != e.id || len(resp.Members) != 1 || resp.Members[0].InstanceID == nil {
		e.t.Fatalf("alone again: %+v", resp)
	}
	wantError(e.t, "the leader's sync", e.sync(0, 1, 2, 3), nil)
	wantError(e.t, "the last heartbeat", e.beat(), nil)
}

// wantTypes fails the test unless the group is a consumer group whose members with an instance id are of these types.
func (r *rig) wantTypes(want map[string]int8) {
	r.t.Helper()
	req := version(kmsg.NewPtrConsumerGroupDescribeRequest(), 1)
	req.Groups = []string{"g"}
	got := map[string]int8{}
	for _, m := range r.wire().ask(req).(*kmsg.ConsumerGroupDescribeResponse).Groups[0].Members {
		if m.InstanceID == nil || *m.InstanceID != "one" {
			r.t.Errorf("member %s has instance id %v", m.MemberID, m.InstanceID)
		}
		got[m.MemberID] = m.MemberType
	}
	for id, kind := range want {
		if len(got) != len(want) || got[id] != kind {
			r.t.Fatalf("described as %v, want %v", got, want)
		}
	}
}

// A static member's next process may speak the other protocol. It gets what the one before had, without a rebalance.
func TestStaticMemberMovesToTheConsumerProtocol(t *testing.T) {
	t.Parallel()
	r := openRig(t, Options{})
	r.topic("t", 4)
	old, young := r.staticElder(), r.peer("young")
	old.begin()
	young.want(nil, one(joining("t")))
	if len(young.owned) != 4 || young.epoch != old.generation {
		t.Fatalf("it takes the place with %v in epoch %d, want all of it in %d", young.owned, young.epoch, old.generation)
	}
	r.wantTypes(map[string]int8{"young": consumerMemberType})
	old.wantFenced()
	wantError(t, "a commit of the process before", old.commit(0, 1), kerr.UnknownMemberID)
	young.want(nil, one(nil))

	other := r.peer("other")
	other.want(nil, joining("t"))
	young.want(nil, one(nil))
	if len(young.owned) != 2 {
		t.Fatalf("beside another it is to keep %v", young.owned)
	}
	young.want(nil, one(has(r.topicID("t"), young.numbers(r.topicID("t"))...)))
	other.want(nil, nil)
	if len(other.owned) != 2 {
		t.Fatalf("the other got %v", other.owned)
	}
}

// The way back, with and without a word of the process before. Nobody else is left, so the group is a classic one at once.
func TestStaticMemberMovesBackToTheClassicProtocol(t *testing.T) {
	t.Parallel()
	for name, says := range map[string]bool{"a process that left to come back": true, "a process that is still there": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := openRig(t, Options{})
			r.topic("t", 4)
			young, back := r.peer("young"), r.staticElder()
			young.want(nil, one(joining("t")))
			if says {
				young.want(nil, one(func(req *kmsg.ConsumerGroupHeartbeatRequest) { req.MemberEpoch = awayEpoch }))
			}
			if resp := back.join(); resp.ErrorCode != 0 || back.id == "young" || back.id == "" {
				t.Fatalf("the new process joins: %+v", resp)
			}
			if kind := r.groupType(); kind != "classic" {
				t.Fatalf("the group is %s", kind)
			}
			back.wantAlone()
			young.epoch = 1
			young.want(kerr.FencedInstanceID, one(nil))
		})
	}
}

// Between others, a static member moves to either protocol and keeps its partitions, and the others notice nothing.
func TestStaticMemberMovesInAMixedGroup(t *testing.T) {
	t.Parallel()
	r := openRig(t, Options{})
	r.topic("t", 4)
	other, young := r.peer("other"), r.peer("young")
	other.want(nil, joining("t"))
	young.want(nil, one(joining("t")))
	other.want(nil, nil)
	other.want(nil, has(r.topicID("t"), other.numbers(r.topicID("t"))...))
	young.want(nil, one(nil))
	mine, epoch := young.numbers(r.topicID("t")), other.epoch
	if len(mine) != 2 {
		t.Fatalf("the member has %v", mine)
	}
	same := func(what string, got []int32) {
		t.Helper()
		other.want(nil, nil)
		if len(got) != 2 || got[0] != mine[0] || got[1] != mine[1] || other.epoch != epoch || len(other.owned) != 2 {
			t.Fatalf("%s it has %v, want %v; the other is in epoch %d, want %d", what, got, mine, other.epoch, epoch)
		}
	}
	classic := r.staticElder()
	if resp := classic.join(); resp.ErrorCode != 0 {
		t.Fatalf("the process of the classic protocol joins: %+v", resp)
	}
	wantError(t, "its sync", classic.sync(), nil)
	same("in the classic protocol", classic.owned)
	wantError(t, "its heartbeat", classic.beat(), nil)
	young.want(kerr.FencedInstanceID, one(nil))
	young.want(kerr.FencedInstanceID, one(func(req *kmsg.ConsumerGroupHeartbeatRequest) { req.MemberEpoch = awayEpoch }))

	next := r.staticElder()
	if resp := next.join(); resp.ErrorCode != 0 {
		t.Fatalf("another process of the classic protocol joins: %+v", resp)
	}
	wantError(t, "its sync", next.sync(), nil)
	same("in its next process", next.owned)
	classic.wantFenced()

	again := r.peer("again")
	again.want(nil, one(joining("t")))
	same("back in the consumer protocol", again.numbers(r.topicID("t")))
	next.wantFenced()
	if resp := classic.join(); resp.ErrorCode != kerr.FencedInstanceID.Code {
		t.Errorf("the first process is answered %d", resp.ErrorCode)
	}
}
