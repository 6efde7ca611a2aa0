package broker

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/disk"
)

// maxOffsetMetadata is Kafka's limit for what a client stores with an offset, bytes.
const maxOffsetMetadata = 4096

// firstStaleEpoch is the version of OffsetCommit and OffsetFetch from which clients know epochs of members.
const firstStaleEpoch = 9

// offsetCommit stores offsets of a group.
func (s *Server) offsetCommit(r *request) answer {
	req := r.message.(*kmsg.OffsetCommitRequest)
	resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
	resp.Topics = []kmsg.OffsetCommitResponseTopic{}
	refused := s.mayCommit(req.Group, req.MemberID, req.InstanceID, req.Generation, committedBy(req))
	if refused == kerr.StaleMemberEpoch && r.version < firstStaleEpoch {
		refused = kerr.IllegalGeneration
	}
	commits := map[log.TopicPartition]disk.Commit{}
	for i := range req.Topics {
		t := &req.Topics[i]
		topic := kmsg.OffsetCommitResponseTopic{Topic: t.Topic}
		for j := range t.Partitions {
			p := &t.Partitions[j]
			err := refused
			if err == nil {
				err = s.collect(commits, log.TopicPartition{Topic: t.Topic, Partition: p.Partition}, p.Offset, p.Metadata)
			}
			topic.Partitions = append(topic.Partitions, kmsg.OffsetCommitResponseTopicPartition{Partition: p.Partition, ErrorCode: codeOf(err)})
		}
		resp.Topics = append(resp.Topics, topic)
	}
	if err := s.journal.CommitOffsets(req.Group, commits); err != nil {
		for i := range resp.Topics {
			for j := range resp.Topics[i].Partitions {
				if p := &resp.Topics[i].Partitions[j]; p.ErrorCode == 0 {
					p.ErrorCode = codeOf(err)
				}
			}
		}
	}
	return now(resp)
}

// committedBy lists the partitions of a request.
func committedBy(req *kmsg.OffsetCommitRequest) []log.TopicPartition {
	var out []log.TopicPartition
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			out = append(out, log.TopicPartition{Topic: req.Topics[i].Topic, Partition: req.Topics[i].Partitions[j].Partition})
		}
	}
	return out
}

// collect checks one offset and adds it to those that are to be stored.
func (s *Server) collect(commits map[log.TopicPartition]disk.Commit, tp log.TopicPartition, offset int64, metadata *string) error {
	c := disk.Commit{Offset: offset}
	if metadata != nil {
		c.Metadata = *metadata
	}
	if len(c.Metadata) > maxOffsetMetadata {
		return kerr.OffsetMetadataTooLarge
	}
	t, err := s.journal.Name(tp.Topic)
	if err != nil {
		return err
	}
	if tp.Partition < 0 || tp.Partition >= t.Partitions {
		return kerr.UnknownTopicOrPartition
	}
	if offset < 0 {
		return kerr.InvalidCommitOffsetSize
	}
	commits[tp] = c
	return nil
}

// mayCommit says why somebody may not store offsets of a group: members may, and others while there are none.
func (s *Server) mayCommit(name, member string, instance *string, generation int32, tps []log.TopicPartition) error {
	if name == "" {
		return kerr.InvalidGroupID
	}
	if s.journal.HasConsumers(name) {
		return fmt.Errorf("%w: %s is the group of a sink", kerr.GroupAuthorizationFailed, name)
	}
	g, consumers := s.groups.either(name)
	defer s.groups.releaseEither(g, consumers)
	if consumers != nil {
		if bad := consumers.check(member, generation, tps); bad != nil {
			return bad
		}
		return nil
	}
	if g == nil {
		if generation >= 0 {
			return kerr.UnknownMemberID
		}
		return nil
	}
	if generation < 0 && member == "" && len(g.members) == 0 {
		return nil
	}
	m, bad := g.check(member, instance, generation)
	if bad != nil {
		return bad
	}
	m.alive()
	if g.state == completing {
		return kerr.RebalanceInProgress
	}
	return nil
}

// offsetFetch tells what groups have stored.
func (s *Server) offsetFetch(r *request) answer {
	const firstBatched = 8
	req := r.message.(*kmsg.OffsetFetchRequest)
	resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
	resp.Topics, resp.Groups = []kmsg.OffsetFetchResponseTopic{}, []kmsg.OffsetFetchResponseGroup{}
	if r.version >= firstBatched {
		for i := range req.Groups {
			resp.Groups = append(resp.Groups, s.fetchOffsets(&req.Groups[i], req.RequireStable))
		}
		return now(resp)
	}
	one := kmsg.OffsetFetchRequestGroup{Group: req.Group}
	if req.Topics != nil {
		one.Topics = []kmsg.OffsetFetchRequestGroupTopic{}
	}
	for _, t := range req.Topics {
		one.Topics = append(one.Topics, kmsg.OffsetFetchRequestGroupTopic{Topic: t.Topic, Partitions: t.Partitions})
	}
	got := s.fetchOffsets(&one, req.RequireStable)
	resp.ErrorCode = got.ErrorCode
	for _, t := range got.Topics {
		topic := kmsg.OffsetFetchResponseTopic{Topic: t.Topic}
		for _, p := range t.Partitions {
			topic.Partitions = append(topic.Partitions, kmsg.OffsetFetchResponseTopicPartition{
				Partition: p.Partition, Offset: p.Offset, LeaderEpoch: p.LeaderEpoch, Metadata: p.Metadata, ErrorCode: p.ErrorCode})
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return now(resp)
}

// fetchOffsets answers for one group. A group that nobody knows has stored nothing, which is no error.
func (s *Server) fetchOffsets(req *kmsg.OffsetFetchRequestGroup, stable bool) kmsg.OffsetFetchResponseGroup {
	out := kmsg.NewOffsetFetchResponseGroup()
	out.Group, out.Topics = req.Group, []kmsg.OffsetFetchResponseGroupTopic{}
	if req.MemberID != nil && *req.MemberID != "" && req.MemberEpoch >= 0 {
		if bad := s.mayFetch(req.Group, *req.MemberID, req.MemberEpoch); bad != nil {
			out.ErrorCode = bad.Code
			return out
		}
	}
	committed := s.journal.Committed(req.Group)
	var undecided map[log.TopicPartition]bool
	if stable {
		undecided = s.transactions.undecided(req.Group)
	}
	topics := req.Topics
	if topics == nil {
		topics = topicsOf(committed)
	}
	for _, t := range topics {
		topic := kmsg.OffsetFetchResponseGroupTopic{Topic: t.Topic}
		for _, p := range t.Partitions {
			tp := log.TopicPartition{Topic: t.Topic, Partition: p}
			nothing := ""
			part := kmsg.OffsetFetchResponseGroupTopicPartition{Partition: p, Offset: unknownOffset, LeaderEpoch: -1, Metadata: &nothing}
			if c, ok := committed[tp]; ok {
				part.Offset, part.LeaderEpoch, part.Metadata = c.Offset, leaderEpoch, &c.Metadata
			}
			if undecided[tp] {
				part.Offset, part.LeaderEpoch, part.ErrorCode = unknownOffset, -1, kerr.UnstableOffsetCommit.Code
			}
			topic.Partitions = append(topic.Partitions, part)
		}
		out.Topics = append(out.Topics, topic)
	}
	return out
}

// mayFetch says why somebody who claims to be a member of a consumer group is none, or not any more.
func (s *Server) mayFetch(name, member string, epoch int32) *kerr.Error {
	classic, g := s.groups.either(name)
	defer s.groups.releaseEither(classic, g)
	switch {
	case classic != nil:
		return nil // its members are checked when they commit
	case g == nil:
		return kerr.UnknownMemberID
	}
	return g.check(member, epoch, nil)
}

// topicsOf lists partitions by topic, in order.
func topicsOf(committed map[log.TopicPartition]disk.Commit) []kmsg.OffsetFetchRequestGroupTopic {
	byTopic := map[string][]int32{}
	for tp := range committed {
		byTopic[tp.Topic] = append(byTopic[tp.Topic], tp.Partition)
	}
	out := []kmsg.OffsetFetchRequestGroupTopic{}
	for _, name := range sortedKeys(byTopic) {
		slices.Sort(byTopic[name])
		out = append(out, kmsg.OffsetFetchRequestGroupTopic{Topic: name, Partitions: byTopic[name]})
	}
	return out
}

// offsetDelete forgets offsets of a group, but for topics that members of it read.
func (s *Server) offsetDelete(r *request) answer {
	req := r.message.(*kmsg.OffsetDeleteRequest)
	resp := req.ResponseKind().(*kmsg.OffsetDeleteResponse)
	resp.Topics = []kmsg.OffsetDeleteResponseTopic{}
	if !s.groupKnown(req.Group) {
		resp.ErrorCode = kerr.GroupIDNotFound.Code
		return now(resp)
	}
	if s.journal.HasConsumers(req.Group) {
		resp.ErrorCode = kerr.NonEmptyGroup.Code
		return now(resp)
	}
	subscribed := s.groups.subscribed(req.Group)
	for i := range req.Topics {
		t := &req.Topics[i]
		topic := kmsg.OffsetDeleteResponseTopic{Topic: t.Topic}
		var gone []log.TopicPartition
		for _, p := range t.Partitions {
			part := kmsg.OffsetDeleteResponseTopicPartition{Partition: p.Partition}
			if subscribed(t.Topic) {
				part.ErrorCode = kerr.GroupSubscribedToTopic.Code
			} else {
				gone = append(gone, log.TopicPartition{Topic: t.Topic, Partition: p.Partition})
			}
			topic.Partitions = append(topic.Partitions, part)
		}
		if err := s.journal.ForgetOffsets(req.Group, gone); err != nil {
			resp.ErrorCode = codeOf(err)
			return now(resp)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return now(resp)
}

// offsetForLeaderEpoch tells where an epoch ended. There has been one epoch, and it goes on.
func (s *Server) offsetForLeaderEpoch(r *request) answer {
	req := r.message.(*kmsg.OffsetForLeaderEpochRequest)
	resp := req.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
	resp.Topics = []kmsg.OffsetForLeaderEpochResponseTopic{}
	for i := range req.Topics {
		t := &req.Topics[i]
		topic := kmsg.OffsetForLeaderEpochResponseTopic{Topic: t.Topic}
		for j := range t.Partitions {
			p := &t.Partitions[j]
			part := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			part.Partition, part.LeaderEpoch, part.EndOffset = p.Partition, -1, -1
			b, err := s.journal.Bounds(log.TopicPartition{Topic: t.Topic, Partition: p.Partition})
			switch {
			case err != nil:
				part.ErrorCode = codeOf(err)
			case p.CurrentLeaderEpoch > leaderEpoch:
				part.ErrorCode = kerr.UnknownLeaderEpoch.Code
			case p.LeaderEpoch == leaderEpoch:
				part.LeaderEpoch, part.EndOffset = leaderEpoch, b.HighWatermark
			}
			topic.Partitions = append(topic.Partitions, part)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return now(resp)
}
