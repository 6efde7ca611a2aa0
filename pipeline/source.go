package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/pipeline/config"
	"github.com/trunkline/trunkline/pipeline/ingest"
)

// A member is called caught up when its lag falls below nearNow, until it is above farBehind.
const (
	nearNow   = time.Second
	farBehind = 5 * time.Second
)

// source is one supervised source.
type source struct {
	*member
	config config.Source
	p      *Pipeline
	ingest *ingest.Ingest
	chain  *chain

	// Guarded by member.mu.
	meter     meter
	snapshots map[string]*meter // by table, while its snapshot runs
	quiet     time.Time         // since when nothing became durable
	rows      int64
	kept      int64  // by the server, as the guard last saw
	keeps     string // what the guard has to say
}

func newSource(p *Pipeline, c config.Source, all config.Config) (*source, error) {
	s := &source{config: c, p: p, snapshots: map[string]*meter{}}
	logger := p.o.Logger.With("source", c.Name)
	c.Limits.RowBytes = int(all.Log.Topics.MaxRecordBytes)
	var err error
	if s.chain, err = p.newChain(c.Transforms, true); err != nil {
		return nil, fmt.Errorf("prepare source %s: %w", c.Name, err)
	}
	s.ingest, err = ingest.New(ingest.Options{
		Source: c.Name, Connector: c.Type, Version: p.o.Version, Open: c.Open, Journal: p.journal, Schemas: p.schemas,
		Transform: s.chain.apply(c.Transforms), Encoding: c.Encoding, Register: p.registrar(), Topic: c.Topic, Format: c.Format, Limits: c.Limits, Pauses: p.pauses, Tracer: p.o.Tracer, Dir: filepath.Join(p.o.SpillDir, c.Name), Logger: logger,
		Once: p.o.Once || !c.Schedule.IsZero(), // a run reads to the end that the source has when it begins
	})
	if err != nil {
		return nil, fmt.Errorf("prepare source %s: %w", c.Name, err)
	}
	s.member = &member{
		name: c.Name, role: RoleSource, once: p.o.Once, backoff: p.o.Backoff, hide: all.Secrets.Hide, logger: logger,
		state: Stopped, wake: make(chan struct{}, 1), close: s.chain.close, attempt: s.ingest.Run, remedy: s.remedy,
		moved: func() int64 { return s.ingest.Status().Commits },
	}
	if c.Guard != nil && !p.o.Once {
		s.member.beside = s.guard
	}
	if !c.Schedule.IsZero() && !p.o.Once {
		s.runs = newRuns(c.Schedule)
	}
	return s, nil
}

// remedy says what a person can do when the source stopped.
func (s *source) remedy(err error) string {
	switch {
	case errors.Is(err, connectors.ErrPositionLost) && strings.Contains(err.Error(), "trunkline resync"):
		return "" // the source has said it
	case errors.Is(err, connectors.ErrPositionLost):
		return fmt.Sprintf("trunkline resync %s reads its tables anew", s.name)
	}
	return fmt.Sprintf("put it right, then trunkline resume %s", s.name)
}

// sample takes the readings of one second.
func (s *source) sample(now time.Time) {
	st := s.ingest.Status()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.meter.observe(now, st.Changes)
	if st.Changes != s.rows || s.quiet.IsZero() {
		s.rows, s.quiet = st.Changes, now
	}
	if s.runs.between() {
		s.near = s.state == Running
		return
	}
	snapshotting := false
	for _, t := range st.Tables {
		if t.Phase != connectors.PhaseSnapshot {
			delete(s.snapshots, t.Table)
			continue
		}
		snapshotting = true
		m := s.snapshots[t.Table]
		if m == nil {
			m = &meter{}
			s.snapshots[t.Table] = m
		}
		m.observe(now, t.SnapshotRows)
	}
	settled := now.Sub(s.since) > joinTime // before, it may not have said that it has a snapshot to make
	could := st.Connected && settled && !snapshotting && st.Phase != connectors.PhaseSnapshot
	s.follow(could, s.lag(st, now), st.Commits)
}

// lag is how old the newest durable change was when it became durable, as long as changes come.
func (s *source) lag(st ingest.Status, now time.Time) time.Duration {
	if now.Sub(s.quiet) > farBehind {
		return 0
	}
	return st.Lag()
}

// status describes the source. topics are those of the log at about the same moment.
func (s *source) status(topics []log.Topic) MemberStatus {
	st := s.ingest.Status()
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.describe(s.config.Type)
	out.Schedule = s.config.Schedule.String()
	out.Rows, out.RowsPerSec, out.Retained, out.Warning = st.Changes, s.meter.rate(), st.Retained, s.hide(st.Reason)
	if s.config.Guard != nil {
		out.Retained, out.Warning = s.kept, cmp.Or(s.keeps, out.Warning)
	}
	if s.state == Running {
		out.LagSeconds = s.lag(st, time.Now()).Seconds()
		out.settle()
	}
	paused := s.pausedTables(topics)
	for _, t := range st.Tables {
		out.Waiting += t.Waiting
		out.Unseen += t.Unseen
		row := TableStatus{Name: t.Table, Topic: t.Topic, State: out.State, Reason: s.hide(t.Reason), Rows: t.Rows}
		switch t.Phase {
		case connectors.PhaseFailed:
			row.State = Failed
		case connectors.PhaseSnapshot:
			if out.State == Running {
				row.State = Snapshot
			}
			row.SnapshotRows, row.SnapshotTotal = t.SnapshotRows, t.SnapshotTotal
			if m := s.snapshots[t.Table]; m != nil {
				row.RowsPerSec = m.rate()
			}
			if left := t.SnapshotTotal - t.SnapshotRows; left > 0 && row.RowsPerSec > 0 {
				row.SecondsLeft = float64(left) / row.RowsPerSec
			}
		case connectors.PhaseDone:
			row.State = Done
		}
		if words, is := paused[t.Table]; is {
			row.State, row.Reason = Paused, words
			delete(paused, t.Table)
		}
		out.Tables = append(out.Tables, row)
	}
	for _, name := range slices.Sorted(maps.Keys(paused)) { // nothing was read of them since the start
		out.Tables = append(out.Tables, TableStatus{Name: name, State: Paused, Reason: paused[name]})
	}
	return out
}

// resync reads one table, or all of them, anew. A source that runs is asked for it and its stream goes on; a whole
// source that does not run, or cannot do that, forgets its mark and begins again as at its first start.
func (s *source) resync(ctx context.Context, t Target) error {
	if t.Table != "" {
		if err := s.ingest.Resync(ctx, t.Table); err != nil || s.runs == nil {
			return err
		}
		return s.runNow()
	}
	tables := s.ingest.Status().Tables
	if s.ingest.Status().Connected && len(tables) > 0 {
		i := slices.IndexFunc(tables, func(t ingest.TableStatus) bool { return s.ingest.Resync(ctx, t.Table) != nil })
		if i < 0 {
			return nil
		}
	}
	if err := s.standstill(ctx, s.dropMark); err != nil || s.runs == nil {
		return err
	}
	return s.runNow()
}

// dropMark lets a source that stands still begin as at its first start.
func (s *source) dropMark(ctx context.Context) error {
	producer, _, err := s.p.journal.Producer(ctx, s.name)
	if err != nil {
		return fmt.Errorf("drop the mark of source %s: %w", s.name, err)
	}
	err = producer.Commit(ctx, nil)
	if err = errors.Join(err, producer.Close(ctx)); err != nil {
		return fmt.Errorf("drop the mark of source %s: %w", s.name, err)
	}
	s.logger.Info("dropped the mark: the source begins anew")
	return nil
}

// runNow begins a run of a source with a schedule, unless one goes on.
func (s *source) runNow() error {
	if _, err := s.ask(); !errors.Is(err, ErrBusy) {
		return err
	}
	return nil
}
