package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/trunkline/trunkline/log"
)

// Groups returns every group that has members or committed offsets, other programs' groups too.
func (l *Log) Groups(ctx context.Context) ([]log.Group, error) {
	if err := l.usable(); err != nil {
		return nil, err
	}
	listed, err := l.admin.ListGroups(ctx)
	if err != nil {
		return nil, fmt.Errorf("list groups: %w", translate(err))
	}
	var names []string
	for _, g := range listed.Sorted() {
		if g.ProtocolType == "" || g.ProtocolType == "consumer" || g.ProtocolType == leaseProtocol {
			names = append(names, g.Group)
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	var described kadm.DescribedGroups
	var offsets kadm.FetchOffsetsResponses
	err = patiently(ctx, func() (err error) {
		if described, err = l.admin.DescribeGroups(ctx, names...); err == nil {
			err = described.Error()
		}
		if err == nil {
			offsets = l.admin.FetchManyOffsets(ctx, names...)
			offsets.EachError(func(r kadm.FetchOffsetsResponse) {
				if !errors.Is(r.Err, kerr.GroupIDNotFound) {
					err = r.Err
				}
			})
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("describe groups: %w", translate(err))
	}
	var out []log.Group
	for _, name := range names {
		g := log.Group{Name: name, Offsets: log.Offsets{}, Members: members(described[name])}
		offsets[name].Fetched.Each(func(o kadm.OffsetResponse) {
			if o.Err == nil && o.At >= 0 {
				g.Offsets[log.TopicPartition{Topic: o.Topic, Partition: o.Partition}] = o.At
			}
		})
		if len(g.Members) > 0 || len(g.Offsets) > 0 {
			out = append(out, g)
		}
	}
	return out, nil
}

func members(d kadm.DescribedGroup) []log.Member {
	var out []log.Member
	for _, m := range d.Members {
		member := log.Member{ID: m.MemberID}
		if assigned, ok := m.Assigned.AsConsumer(); ok {
			for _, t := range assigned.Topics {
				for _, p := range t.Partitions {
					member.Partitions = append(member.Partitions, log.TopicPartition{Topic: t.Topic, Partition: p})
				}
			}
		}
		slices.SortFunc(member.Partitions, comparePartitions)
		out = append(out, member)
	}
	slices.SortFunc(out, func(a, b log.Member) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

func comparePartitions(a, b log.TopicPartition) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}

// waits are the errors of a cluster that is about to work: a partition has no leader yet, a coordinator is being found or
// made. The first group of a cluster waits for the topic of offsets.
var waits = []error{
	kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress, kerr.NotCoordinator, kerr.LeaderNotAvailable,
	kerr.NotLeaderForPartition, kerr.ReplicaNotAvailable, kerr.UnknownLeaderEpoch, kerr.FencedLeaderEpoch, kerr.OffsetNotAvailable,
}

// patiently repeats what fails for a reason that goes away by itself.
func patiently(ctx context.Context, call func() error) error {
	limit := time.NewTimer(propagation)
	defer limit.Stop()
	for {
		err := call()
		if !slices.ContainsFunc(waits, func(w error) bool { return errors.Is(err, w) }) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-limit.C:
			return err
		case <-time.After(commitPause):
		}
	}
}

// idle fails with ErrGroupActive if a group has members. Brokers would refuse too, each in its own words.
func (l *Log) idle(ctx context.Context, group string) error {
	var described kadm.DescribedGroups
	err := patiently(ctx, func() (err error) {
		if described, err = l.admin.DescribeGroups(ctx, group); err == nil {
			err = described.Error()
		}
		if errors.Is(err, kerr.GroupIDNotFound) {
			return nil
		}
		return err
	})
	if err != nil {
		return translate(err)
	}
	if len(described[group].Members) > 0 {
		return log.ErrGroupActive
	}
	return nil
}

// SetOffsets stores offsets for a group without members.
func (l *Log) SetOffsets(ctx context.Context, group string, offsets log.Offsets) error {
	if err := l.usable(); err != nil {
		return err
	}
	for tp := range offsets {
		if _, err := l.checkPartition(ctx, tp); err != nil {
			return fmt.Errorf("set offsets of group %q: %w", group, err)
		}
	}
	if err := l.idle(ctx, group); err != nil {
		return fmt.Errorf("set offsets of group %q: %w", group, err)
	}
	return l.commit(ctx, group, offsets)
}

// commit stores offsets for a group from outside of it.
func (l *Log) commit(ctx context.Context, group string, offsets log.Offsets) error {
	list := kadm.Offsets{}
	for tp, next := range offsets {
		list.Add(kadm.Offset{Topic: tp.Topic, Partition: tp.Partition, At: next, LeaderEpoch: -1})
	}
	err := patiently(ctx, func() error { return l.admin.CommitAllOffsets(ctx, group, list) })
	if errors.Is(err, kerr.UnknownMemberID) || errors.Is(err, kerr.IllegalGeneration) {
		return fmt.Errorf("set offsets of group %q: %w: %w", group, log.ErrGroupActive, err)
	}
	if err != nil {
		return fmt.Errorf("set offsets of group %q: %w", group, translate(err))
	}
	return nil
}

// committed returns what a group has committed for some partitions.
func (l *Log) committed(ctx context.Context, group string, tps []log.TopicPartition) (log.Offsets, error) {
	var fetched kadm.OffsetResponses
	err := patiently(ctx, func() (err error) {
		if fetched, err = l.admin.FetchOffsets(ctx, group); err == nil {
			err = fetched.Error()
		}
		return err
	})
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return nil, fmt.Errorf("fetch offsets of group %q: %w", group, translate(err))
	}
	out := log.Offsets{}
	for _, tp := range tps {
		if o, ok := fetched.Lookup(tp.Topic, tp.Partition); ok && o.At >= 0 {
			out[tp] = o.At
		}
	}
	return out, nil
}

// DeleteGroup forgets the offsets of a group without members.
func (l *Log) DeleteGroup(ctx context.Context, group string) error {
	if err := l.usable(); err != nil {
		return err
	}
	if err := l.idle(ctx, group); err != nil {
		return fmt.Errorf("delete group %q: %w", group, err)
	}
	if _, err := l.admin.DeleteGroup(ctx, group); err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return fmt.Errorf("delete group %q: %w", group, translate(err))
	}
	return nil
}
