package disk

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/log/batch"
)

// SetOutsideGroups says how to find the members of groups that are not consumers of this process: by name of the group.
// A group that has any counts as active. nil: there are none.
func (l *Log) SetOutsideGroups(members func() map[string][]log.Member) {
	l.outsideGroups.Store(&members)
}

// outsideMembers returns the members of groups that are not consumers of this process.
func (l *Log) outsideMembers() map[string][]log.Member {
	if f := l.outsideGroups.Load(); f != nil && *f != nil {
		return (*f)()
	}
	return nil
}

// HasConsumers reports whether consumers of this process are members of a group.
func (l *Log) HasConsumers(name string) bool {
	g := l.groupNamed(name)
	if g == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.members) > 0
}

// groupNamed is group without making one.
func (l *Log) groupNamed(name string) *group {
	l.groupMu.Lock()
	defer l.groupMu.Unlock()
	return l.groups[name]
}

// Commit is what a group has stored for a partition.
type Commit struct {
	Offset   int64
	Metadata string // the client's own
}

// metadataHeader holds a commit's metadata, in records of _trunkline.offsets.
const metadataHeader = "trunkline.metadata"

func commitRecord(group string, tp log.TopicPartition, c Commit) log.Record {
	r := log.Record{Key: offsetKey(group, tp), Value: strconv.AppendInt(nil, c.Offset, 10)}
	if c.Metadata != "" {
		r.Headers = []log.Header{{Key: metadataHeader, Value: []byte(c.Metadata)}}
	}
	return r
}

// commitMetadata reads what commitRecord stored.
func commitMetadata(r *log.Record) string {
	for _, h := range r.Headers {
		if h.Key == metadataHeader {
			return string(h.Value)
		}
	}
	return ""
}

func sortedCommits(commits map[log.TopicPartition]Commit) []log.TopicPartition {
	return slices.SortedFunc(maps.Keys(commits), comparePartitions)
}

// CommitOffsets stores what a group of clients outside commits; log.ErrGroupActive if the group's members are consumers
// of this process. It returns when it is durable.
func (l *Log) CommitOffsets(name string, commits map[log.TopicPartition]Commit) error {
	if err := l.usable(); err != nil {
		return err
	}
	if len(commits) == 0 {
		return nil
	}
	g := l.group(name)
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.members) > 0 {
		return fmt.Errorf("commit offsets of group %q: %w", name, log.ErrGroupActive)
	}
	records := make([]log.Record, 0, len(commits))
	for _, tp := range sortedCommits(commits) {
		records = append(records, commitRecord(name, tp, commits[tp]))
	}
	if err := l.appendOffsets(records); err != nil {
		return fmt.Errorf("commit offsets of group %q: %w", name, err)
	}
	g.note(commits)
	return nil
}

// note takes commits that are durable; mu is held.
func (g *group) note(commits map[log.TopicPartition]Commit) {
	for tp, c := range commits {
		g.offsets[tp] = c.Offset
		g.noteMetadata(tp, c.Metadata)
	}
}

func (g *group) noteMetadata(tp log.TopicPartition, metadata string) {
	if metadata == "" {
		delete(g.metadata, tp)
		return
	}
	if g.metadata == nil {
		g.metadata = map[log.TopicPartition]string{}
	}
	g.metadata[tp] = metadata
}

// Committed returns what a group has stored.
func (l *Log) Committed(name string) map[log.TopicPartition]Commit {
	g := l.groupNamed(name)
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	out := make(map[log.TopicPartition]Commit, len(g.offsets))
	for tp, offset := range g.offsets {
		out[tp] = Commit{Offset: offset, Metadata: g.metadata[tp]}
	}
	return out
}

// ForgetOffsets removes what a group has stored for some partitions.
func (l *Log) ForgetOffsets(name string, tps []log.TopicPartition) error {
	if err := l.usable(); err != nil {
		return err
	}
	g := l.groupNamed(name)
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.members) > 0 {
		return fmt.Errorf("forget offsets of group %q: %w", name, log.ErrGroupActive)
	}
	return l.forgetOffsets(g, tps)
}

// Outside is a transactional producer that is a client of the wire protocol: its producer id and epoch.
type Outside struct {
	ID    int64
	Epoch int16
}

// outsidePrefix keeps the transactional ids of clients apart from the producers of this process.
const outsidePrefix = "transactional.id/"

// outsideSlot returns the slot of a transactional id, making it if there is none.
func (l *Log) outsideSlot(id string) *slot {
	l.producerMu.Lock()
	s := l.slots[outsidePrefix+id]
	l.producerMu.Unlock()
	if s != nil {
		return s
	}
	s = &slot{id: outsidePrefix + id, pid: l.NewProducerID(), epoch: -1}
	l.producerMu.Lock()
	defer l.producerMu.Unlock()
	if other := l.slots[s.id]; other != nil {
		return other
	}
	l.slots[s.id] = s
	return s
}

// BeginEpoch begins the next epoch of a transactional id; the producer of the one before is fenced. The caller has ended
// what that had open. With was set, was must be the newest: ErrProducerEpoch otherwise.
func (l *Log) BeginEpoch(id string, was *Outside) (Outside, error) {
	if err := l.usable(); err != nil {
		return Outside{}, err
	}
	s := l.outsideSlot(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if was != nil && (was.ID != s.pid || was.Epoch != s.epoch) {
		return Outside{}, fmt.Errorf("begin epoch of %q: %w", id, ErrProducerEpoch)
	}
	pid, epoch := s.pid, s.epoch+1
	if epoch >= math.MaxInt16-1 {
		pid, epoch = l.NewProducerID(), 0
	}
	if err := l.decide(decision{id: s.id, pid: pid, epoch: epoch}); err != nil {
		return Outside{}, fmt.Errorf("begin epoch of %q: %w", id, err)
	}
	s.pid, s.epoch = pid, epoch
	return Outside{ID: pid, Epoch: epoch}, nil
}

// Ending is a transaction of a client at its end.
type Ending struct {
	Transaction string // its transactional id
	Producer    Outside
	Commit      bool
	Partitions  []log.TopicPartition                     // that it may have written to
	Offsets     map[string]map[log.TopicPartition]Commit // what it commits for groups
}

// EndTransaction commits or aborts a transaction of a client. Once it returns nil the outcome is durable and visible, in
// all partitions and for the offsets at once. After an error of a commit the outcome is not known, and the caller tries
// the same again: it must not abort.
func (l *Log) EndTransaction(e Ending) error {
	if err := l.usable(); err != nil {
		return err
	}
	if !e.Commit {
		l.finishOutside(e.partitions(l), e.Producer, batch.Abort)
		return nil
	}
	groups := make([]*group, 0, len(e.Offsets))
	for _, name := range slices.Sorted(maps.Keys(e.Offsets)) {
		g := l.group(name)
		g.mu.Lock()
		defer g.mu.Unlock()
		groups = append(groups, g)
	}
	s := l.outsideSlot(e.Transaction)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pid != e.Producer.ID || s.epoch != e.Producer.Epoch {
		return fmt.Errorf("commit of %q: %w", e.Transaction, ErrProducerEpoch)
	}
	if err := l.commitOutside(s, e); err != nil {
		return fmt.Errorf("commit of %q: %w", e.Transaction, err)
	}
	for _, g := range groups {
		g.note(e.Offsets[g.name])
	}
	return nil
}

// partitions returns those that still exist.
func (e *Ending) partitions(l *Log) []*partition {
	var out []*partition
	for _, tp := range e.Partitions {
		if p, err := l.partition(tp); err == nil {
			out = append(out, p)
		}
	}
	return out
}

func (l *Log) commitOutside(s *slot, e Ending) error {
	touched := e.partitions(l)
	if len(e.Offsets) > 0 {
		p, err := l.appendOutsideOffsets(e)
		if err != nil {
			return err
		}
		touched = append(touched, p)
	}
	d := decision{id: s.id, pid: e.Producer.ID, epoch: e.Producer.Epoch}
	for _, p := range touched {
		if err := p.flushTail(); err != nil {
			return err
		}
		if first, ok := p.openedBy(e.Producer); ok {
			d.touched = append(d.touched, touch{topic: p.topic.id, partition: p.tp.Partition, first: first})
		}
	}
	if len(d.touched) == 0 {
		return nil
	}
	sortTouches(d.touched)
	if err := l.decide(d); err != nil {
		return err
	}
	l.finishOutside(touched, e.Producer, batch.Commit)
	return nil
}

// appendOutsideOffsets writes the offsets of a transaction as a part of it. When a commit is tried again they may be
// there already, a second time does no harm.
func (l *Log) appendOutsideOffsets(e Ending) (*partition, error) {
	p, err := l.partition(log.TopicPartition{Topic: offsetsTopic})
	if err != nil {
		return nil, err
	}
	var b batch.Builder
	now := time.Now().UnixMilli()
	for _, name := range slices.Sorted(maps.Keys(e.Offsets)) {
		for _, tp := range sortedCommits(e.Offsets[name]) {
			r := commitRecord(name, tp, e.Offsets[name][tp])
			b.Append(&r, now)
		}
	}
	owner := batch.Producer{ID: e.Producer.ID, Epoch: e.Producer.Epoch, Sequence: -1}
	run, err := b.Build(nil, log.CompressionNone, owner, true)
	if err != nil {
		return nil, err
	}
	_, _, err = p.append(run, func(first int64) {
		if _, ok := p.open[owner.ID]; !ok {
			p.open[owner.ID] = openTransaction{epoch: owner.Epoch, first: first}
		}
	})
	return p, err
}

// openedBy returns where a producer's open transaction begins.
func (p *partition) openedBy(o Outside) (first int64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t, ok := p.open[o.ID]
	return t.first, ok && t.epoch == o.Epoch
}

func (l *Log) finishOutside(touched []*partition, o Outside, m batch.Marker) {
	for _, p := range touched {
		p.finish(o.ID, o.Epoch, m)
	}
}

// settleOffsets ends the transactions that are open in the offsets' topic before it is read: the offsets of a committed
// one count.
func (l *Log) settleOffsets(decided map[fate]bool) error {
	p, err := l.partition(log.TopicPartition{Topic: offsetsTopic})
	if err != nil {
		return err
	}
	return p.settle(decided)
}

// GroupNames returns the groups that have consumers of this process or committed offsets, by name.
func (l *Log) GroupNames() []string {
	var out []string
	for _, g := range l.groupList() {
		g.mu.Lock()
		if len(g.members) > 0 || len(g.offsets) > 0 {
			out = append(out, g.name)
		}
		g.mu.Unlock()
	}
	return out
}

var errOutsideActive = errors.New("clients of the wire protocol are its members")

// idleOutside fails if a group has members outside; they are asked for before the group's lock is taken.
func (l *Log) idleOutside(name string) error {
	if len(l.outsideMembers()[name]) > 0 {
		return fmt.Errorf("group %q: %w: %w", name, log.ErrGroupActive, errOutsideActive)
	}
	return nil
}

// addOutside adds members outside to what is described of groups.
func (l *Log) addOutside(groups []log.Group) []log.Group {
	outside := l.outsideMembers()
	for i := range groups {
		groups[i].Members = append(groups[i].Members, outside[groups[i].Name]...)
		delete(outside, groups[i].Name)
	}
	for name, members := range outside {
		groups = append(groups, log.Group{Name: name, Members: members, Offsets: log.Offsets{}})
	}
	slices.SortFunc(groups, func(a, b log.Group) int { return cmp.Compare(a.Name, b.Name) })
	return groups
}
