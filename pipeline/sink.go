package pipeline

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/pipeline/config"
	"github.com/trunkline/trunkline/pipeline/deliver"
)

const (
	// stalledAfter is how long one write may take before the sink counts as stuck.
	stalledAfter = 30 * time.Second
	// joinTime is how long an attempt has to say what there is to do before silence means nothing.
	joinTime = 2 * time.Second
	// lonelyAfter is how long a sink runs without a partition before that looks like a mistake in its topics.
	lonelyAfter = 15 * time.Second
)

// sink is one supervised sink.
type sink struct {
	*member
	config  config.Sink
	p       *Pipeline
	deliver *deliver.Deliver
	options deliver.Options
	chain   *chain

	verifier verifier
	letters  sync.Mutex // held while dead letters are replayed or discarded

	// Guarded by member.mu.
	meter           meter
	lonely          bool                    // it was looked into why there is nothing to read
	unrepresentable int64                   // values that the target's columns could not hold, since the program started
	tables          map[string]*TableStatus // those that stopped, or that there is something to say of

	endMu sync.Mutex
	ends  log.Offsets // of a run with an end: where the topics ended when the sources did; nil: not known yet
}

func newSink(p *Pipeline, c config.Sink, all config.Config) (*sink, error) {
	s := &sink{config: c, p: p, tables: map[string]*TableStatus{}}
	c.Limits.RowBytes = int(all.Log.Topics.MaxRecordBytes)
	logger := p.o.Logger.With("sink", c.Name)
	var err error
	if s.chain, err = p.newChain(c.Transforms, false); err != nil {
		return nil, fmt.Errorf("prepare sink %s: %w", c.Name, err)
	}
	s.options = deliver.Options{
		Sink: c.Name, Type: c.Type, Tracer: p.o.Tracer, Group: c.Group, Topics: c.Topics, From: c.From, Open: c.Open, Journal: p.journal, Schemas: p.schemas,
		Batch:    deliver.Batch{Rows: c.Limits.BatchRows, Bytes: c.Limits.BatchBytes, Wait: c.Wait},
		RowBytes: c.Limits.RowBytes, Dir: filepath.Join(p.o.SpillDir, c.Name), Logger: logger,
		StopOnError: c.OnError == config.Stop, OnReport: s.report, Complete: completion(c.Complete), Paused: s.pausedTopic, Transform: s.chain.apply(c.Transforms),
	}
	if p.o.Once {
		s.options.Until = s.end
		s.options.Batch.Wait = 0 // nothing more will come that a batch could wait for
	}
	if s.deliver, err = deliver.New(s.options); err != nil {
		return nil, fmt.Errorf("prepare sink %s: %w", c.Name, err)
	}
	s.member = &member{
		name: c.Name, role: RoleSink, once: p.o.Once, backoff: p.o.Backoff, hide: all.Secrets.Hide, logger: logger,
		state: Stopped, wake: make(chan struct{}, 1), close: s.chain.close, attempt: s.deliver.Run, remedy: s.remedy,
		moved: func() int64 { return s.deliver.Status(context.Background()).Records },
	}
	if c.Verify.Every > 0 && c.Compare != nil && !p.o.Once {
		s.member.beside = func(ctx context.Context) { p.verifyAlways(ctx, s) }
	}
	return s, nil
}

// remedy says what a person can do when the sink stopped. For a gap its error says so already.
func (s *sink) remedy(err error) string {
	if isGap(err) {
		return ""
	}
	return fmt.Sprintf("put it right, then trunkline resume %s", s.name)
}

func completion(setting *bool) deliver.Completion {
	switch {
	case setting == nil:
		return deliver.CompleteAuto
	case *setting:
		return deliver.CompleteAlways
	}
	return deliver.CompleteNever
}

// report keeps what a sink, or its delivery, has to say of a table.
func (s *sink) report(r connectors.Report) {
	if r.Table == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unrepresentable += r.Unrepresentable
	if r.Phase == "" && r.Reason == "" && r.Unrepresentable > 0 {
		return
	}
	t := s.tables[r.Table]
	if t == nil {
		t = &TableStatus{Name: r.Table}
		s.tables[r.Table] = t
	}
	if r.Phase != "" || r.Reason != "" {
		t.Reason = r.Reason
	}
	switch r.Phase {
	case "":
	case connectors.PhaseFailed:
		t.State = Failed
	default:
		t.State = ""
	}
}

// end returns where the sink's topics ended once every source had ended, nil before.
func (s *sink) end() log.Offsets {
	select {
	case <-s.p.drained:
	default:
		return nil
	}
	s.endMu.Lock()
	defer s.endMu.Unlock()
	if s.ends != nil {
		return s.ends
	}
	topics, err := s.p.journal.Topics(context.Background())
	if err != nil {
		return nil // asked again soon
	}
	ends := log.Offsets{}
	for _, t := range topics {
		if !s.reads(t) {
			continue
		}
		for i, part := range t.Partitions {
			ends[log.TopicPartition{Topic: t.Name, Partition: int32(i)}] = part.LastStable
		}
	}
	s.ends = ends
	return ends
}

// reads reports whether the topic is one of the sink's. Internal topics are read only by their full name.
func (s *sink) reads(t log.Topic) bool {
	return slices.ContainsFunc(s.config.Topics, func(pattern string) bool {
		return pattern == t.Name || !t.Internal() && connectors.MatchName(pattern, t.Name)
	})
}

// sample takes the readings of one second.
func (s *sink) sample(now time.Time) {
	st := s.deliver.Status(context.Background())
	if s.idle(st, now) {
		s.warnLonely()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.meter.observe(now, st.Records)
	settled := len(st.Partitions) > 0 || now.Sub(s.since) > joinTime
	s.follow(st.Connected && settled, max(st.LagTime, st.WriteTakes), st.Records)
}

// idle reports, once, that the sink has run for a while and has no partition.
func (s *sink) idle(st deliver.Status, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lonely || len(st.Partitions) > 0 || s.state != Running || now.Sub(s.since) < lonelyAfter {
		return false
	}
	s.lonely = true
	return true
}

// warnLonely says that the sink's topics name nothing, unless other processes only have all of their partitions.
func (s *sink) warnLonely() {
	topics, err := s.p.journal.Topics(context.Background())
	if err == nil && !slices.ContainsFunc(topics, s.reads) {
		s.logger.Warn("no topic in the log matches", "topics", strings.Join(s.config.Topics, ", "))
	}
}

// status describes the sink. topics and groups are those of the log at about the same moment.
func (s *sink) status(ctx context.Context, topics []log.Topic, groups []log.Group) MemberStatus {
	st := s.deliver.Status(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.describe(s.config.Type)
	out.Group, out.Rows, out.RowsPerSec, out.DeadLetters = s.config.Group, st.Records, s.meter.rate(), st.DeadLetters
	out.Unrepresentable = s.unrepresentable
	out.Incomplete = st.Incomplete
	for _, t := range topics {
		if s.reads(t) {
			out.Reads = append(out.Reads, t.Name)
		}
	}
	out.LagRows, out.LagSeconds, out.Lost = st.LagRecords, st.LagTime.Seconds(), st.Lost
	if len(st.Partitions) == 0 {
		out.LagRows = s.lag(topics, groups)
	}
	out.settle()
	if s.state == Running && !st.Opening.IsZero() {
		out.State, out.Since = Opening, st.Opening
		out.Reason = fmt.Sprintf("waits for %s to answer since %s", s.config.Type, st.Opening.Format(time.RFC3339))
	}
	out.Verify = s.verifier.status()
	out.WriteTakes, out.Freshness = st.WriteTakes.Seconds(), &st.Freshness
	if len(out.Reads) == 0 {
		out.Warning = "no topic in the log matches " + strings.Join(s.config.Topics, ", ")
	}
	out.Tables = s.pausedTables()
	for _, name := range slices.Sorted(maps.Keys(s.tables)) {
		t := *s.tables[name]
		if t.State == "" && t.Reason == "" {
			continue
		}
		if t.State == "" {
			t.State = out.State
		}
		t.Reason = s.hide(t.Reason)
		out.Tables = append(out.Tables, t)
	}
	if st.WriteTakes > farBehind {
		out.Warning = fmt.Sprintf("a write has taken %s so far", st.WriteTakes.Round(time.Second))
		out.Stalled = st.WriteTakes > stalledAfter
	}
	return out
}

// lag counts what the group has not read, for a sink that is not connected.
func (s *sink) lag(topics []log.Topic, groups []log.Group) int64 {
	var committed log.Offsets
	if i := slices.IndexFunc(groups, func(g log.Group) bool { return g.Name == s.config.Group }); i >= 0 {
		committed = groups[i].Offsets
	}
	var n int64
	for _, t := range topics {
		if !s.reads(t) {
			continue
		}
		for i, p := range t.Partitions {
			n += p.LastStable - max(committed[log.TopicPartition{Topic: t.Name, Partition: int32(i)}], p.LogStart)
		}
	}
	return max(0, n)
}

// reset moves the sink's group, and what the sink itself remembers, to these offsets. A sink that runs stands still for
// it and then goes on.
func (s *sink) reset(ctx context.Context, offsets log.Offsets) error {
	move := func(ctx context.Context) error { return deliver.Reset(ctx, s.options, offsets) }
	if !s.p.Running() {
		return move(ctx)
	}
	err := s.standstill(ctx, move)
	if errors.Is(err, ErrNotRunning) {
		return move(ctx)
	}
	return err
}

// resync lets the sink read its topics, or those of one table, from their oldest records. A table's topic is the one of
// its name, with or without the name of its source in front.
func (s *sink) resync(ctx context.Context, t Target) error {
	topics, err := s.p.journal.Topics(ctx)
	if err != nil {
		return fmt.Errorf("resync %s: %w", t, err)
	}
	offsets := log.Offsets{}
	for _, topic := range topics {
		if !s.reads(topic) || t.Table != "" && topic.Name != t.Table && !strings.HasSuffix(topic.Name, "."+t.Table) {
			continue
		}
		for i, part := range topic.Partitions {
			offsets[log.TopicPartition{Topic: topic.Name, Partition: int32(i)}] = part.LogStart
		}
	}
	if len(offsets) == 0 {
		return fmt.Errorf("resync %s: %w among the topics that the sink reads", t, ErrUnknown)
	}
	return s.reset(ctx, offsets)
}
