package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/pipeline/ingest"
	"github.com/trunkline/trunkline/pipeline/reconcile"
	"github.com/trunkline/trunkline/pipeline/trace"
)

// settleLimit is how long a comparison waits for a sink to write what is in the log.
const settleLimit = 10 * time.Minute

// repairLimit is how long rows that were sent again may need to arrive.
const repairLimit = time.Minute

// settlePoll is how often it looks.
const settlePoll = 100 * time.Millisecond

// Verification is one request to compare a sink with its sources.
type Verification struct {
	Sink     string
	Table    string        // schema.table, as the source names it; empty: every table that the sink reads
	Repair   bool          // send the keys that differ through the log again
	Window   time.Duration // for sources that cannot tell: how long a change needs at most to come into the log; 0: as configured
	Progress func(reconcile.Progress)
}

// Verified is what a verification of one table found, and what was repaired.
type Verified struct {
	Source string `json:"source"`
	reconcile.Result
	Repaired int `json:"repaired,omitempty"` // keys that differed, were sent again, and are equal now
}

// VerifyStatus is the last verification of a sink.
type VerifyStatus struct {
	Running   bool      `json:"running,omitempty"`
	Ended     time.Time `json:"ended,omitzero"`
	Through   time.Time `json:"verified_through,omitzero"` // what the sources had committed by then is in the sink
	Tables    int       `json:"tables"`
	Rows      int64     `json:"rows"`
	Different int       `json:"different"` // keys
	Problem   string    `json:"problem,omitempty"`
}

// verifier keeps the verifications of one sink apart.
type verifier struct {
	mu   sync.Mutex
	last VerifyStatus
}

// begin takes the turn, unless one goes on.
func (v *verifier) begin() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.last.Running {
		return false
	}
	v.last.Running = true
	return true
}

func (v *verifier) end(list []Verified, err error, hide func(string) string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := VerifyStatus{Ended: time.Now().UTC(), Tables: len(list)}
	for _, r := range list {
		s.Rows += r.Rows
		s.Different += len(r.Different) + r.Unsettled
		if r.Problem != "" && s.Problem == "" {
			s.Problem = fmt.Sprintf("table %s: %s", r.Table, r.Problem)
		}
		if s.Through.IsZero() || r.VerifiedThrough.Before(s.Through) {
			s.Through = r.VerifiedThrough
		}
	}
	if err != nil {
		s.Problem, s.Through = hide(err.Error()), v.last.Through
	}
	v.last = s
}

func (v *verifier) status() *VerifyStatus {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.last == (VerifyStatus{}) {
		return nil
	}
	return new(v.last)
}

// Verify compares tables of a sink with those of the sources that feed it, while all of them run, and calls each with
// what it found, table by table. One verification of a sink runs at a time; another one is ErrBusy.
func (p *Pipeline) Verify(ctx context.Context, v Verification, each func(Verified) error) error {
	if _, err := p.find(Target{Role: RoleSink, Name: v.Sink}); err != nil {
		return err
	}
	i := slices.IndexFunc(p.roster().sinks, func(s *sink) bool { return s.name == v.Sink })
	s := p.roster().sinks[i]
	if s.config.Compare == nil {
		return fmt.Errorf("verify sink %s: %w: a sink of type %s has no rows that could be compared", s.name, ErrUnsupported, s.config.Type)
	}
	if len(s.config.Transforms) > 0 {
		return fmt.Errorf("verify sink %s: %w: its transforms change rows, so they cannot be compared with those of the sources", s.name, ErrUnsupported)
	}
	pairs := p.verifiable(s, v.Table)
	if len(pairs) == 0 {
		return fmt.Errorf("verify sink %s: %w: no table %s of a source that this process runs lands in it", s.name, ErrUnknown, v.Table)
	}
	if !s.verifier.begin() {
		return fmt.Errorf("verify sink %s: %w", s.name, ErrBusy)
	}
	var done []Verified
	err := func() error {
		for _, pair := range pairs {
			r, err := p.verifyTable(ctx, s, pair, v)
			if err != nil {
				return err
			}
			done = append(done, r)
			if err := each(r); err != nil {
				return err
			}
		}
		return nil
	}()
	s.verifier.end(done, err, p.roster().config.Secrets.Hide)
	if err != nil {
		return fmt.Errorf("verify sink %s: %w", s.name, err)
	}
	return nil
}

// tablePair is a table of a source that a sink reads.
type tablePair struct {
	source *source
	table  string
}

// verifiable lists the tables that a sink reads and their sources can compare. Those of a source with transforms are not
// in the log as they are in the source.
func (p *Pipeline) verifiable(s *sink, table string) []tablePair {
	var out []tablePair
	for _, source := range p.roster().sources {
		if source.config.Compare == nil || len(source.config.Transforms) > 0 {
			continue
		}
		for _, t := range source.ingest.Status().Tables {
			if t.Topic == "" || !s.reads(log.Topic{Name: t.Topic}) || table != "" && t.Table != table && source.name+"."+t.Table != table {
				continue
			}
			out = append(out, tablePair{source, t.Table})
		}
	}
	return out
}

func (p *Pipeline) verifyTable(ctx context.Context, s *sink, pair tablePair, v Verification) (out Verified, err error) {
	out.Source = pair.source.name
	if len(s.config.Transforms) > 0 || len(pair.source.config.Transforms) > 0 {
		out.Table, out.Problem = pair.table, "transforms change its rows on the way, so they are not meant to be equal"
		return out, nil
	}
	source, err := pair.source.config.Compare(ctx, connectors.NewEnv(pair.source.name))
	if err != nil {
		return out, fmt.Errorf("open source %s: %w", pair.source.name, err)
	}
	defer func() { err = errors.Join(err, source.Close(context.WithoutCancel(ctx))) }()
	target, err := s.config.Compare(ctx, connectors.NewEnv(s.name))
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, target.Close(context.WithoutCancel(ctx))) }()
	window := v.Window
	if window <= 0 {
		window = s.config.Verify.Window
	}
	o := reconcile.Options{Source: source, Sink: target, Progress: v.Progress,
		Settle: func(ctx context.Context) error { return p.settle(ctx, pair.source, s, window) }}
	if out.Result, err = reconcile.Compare(ctx, o, pair.table); err != nil || !v.Repair || len(out.Different) == 0 {
		return out, err
	}
	return out, p.repair(ctx, o, pair, &out)
}

// repair sends the keys that differ through the log again, and looks at them once more.
func (p *Pipeline) repair(ctx context.Context, o reconcile.Options, pair tablePair, out *Verified) (err error) {
	span := p.o.Tracer.Begin("repair", pair.source.name, time.Now(), trace.Source.String(pair.source.name), trace.Table.String(pair.table), trace.Keys.Int(len(out.Different)))
	defer func() {
		span.Set(trace.Arrived.Int(out.Repaired))
		span.End(err, time.Time{})
	}()
	var keys [][]connectors.Value
	for _, d := range out.Different {
		keys = append(keys, d.Values)
	}
	if err := pair.source.ingest.Repair(ctx, pair.table, keys); err != nil {
		return err
	}
	// The source takes the request up when it comes to it, which no position tells.
	before, deadline := len(out.Different), time.Now().Add(repairLimit)
	for {
		left, err := reconcile.Recheck(ctx, o, pair.table, out.Different)
		if err != nil {
			return err
		}
		out.Different, out.Repaired = left, before-len(left)
		if len(left) == 0 || time.Now().After(deadline) {
			return nil
		}
		if err := rest(ctx, settlePoll); err != nil {
			return err
		}
	}
}

// settle returns once the sink has written what the source had when it was called. A source that can tell when all of that
// is in the log is asked; any other one is given the time of window.
func (p *Pipeline) settle(ctx context.Context, from *source, s *sink, window time.Duration) error {
	if err := from.follows(); err != nil {
		return err
	}
	if err := p.bring(ctx, from, window); err != nil {
		return err
	}
	topics, err := p.journal.Topics(ctx)
	if err != nil {
		return fmt.Errorf("list topics: %w", err)
	}
	ends := log.Offsets{}
	for _, t := range topics {
		if s.reads(t) {
			for i, part := range t.Partitions {
				ends[log.TopicPartition{Topic: t.Name, Partition: int32(i)}] = part.LastStable
			}
		}
	}
	return p.written(ctx, s, ends)
}

// bring returns once what the source had is in the log.
func (p *Pipeline) bring(ctx context.Context, from *source, window time.Duration) error {
	if from.runs != nil {
		return p.extractFresh(ctx, from)
	}
	limited, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	err := from.ingest.AwaitPresent(limited)
	switch {
	case errors.Is(err, ingest.ErrCannotTell):
		if err := rest(ctx, window); err != nil {
			return err
		}
		return from.follows()
	case err != nil && limited.Err() != nil && ctx.Err() == nil:
		return fmt.Errorf("source %s has not read in %v what its database had: nothing can be said; see its lag in trunkline status", from.name, settleLimit)
	}
	return err
}

// follows is an error while the source does not bring what changes.
func (s *source) follows() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != Running {
		return fmt.Errorf("source %s is %s: what changed since is not in the log, so nothing can be said; see trunkline status", s.name, s.state)
	}
	return nil
}

// extractFresh makes a run that begins after the call.
func (p *Pipeline) extractFresh(ctx context.Context, from *source) error {
	for {
		err := p.Extract(ctx, Target{Role: RoleSource, Name: from.name}, true)
		if !errors.Is(err, ErrBusy) {
			return err
		}
		if err := rest(ctx, settlePoll); err != nil {
			return err
		}
	}
}

// written waits until the sink has dealt with everything below ends.
func (p *Pipeline) written(ctx context.Context, s *sink, ends log.Offsets) error {
	deadline := time.Now().Add(settleLimit)
	for {
		behind := int64(0)
		groups, err := p.journal.Groups(ctx)
		if err != nil {
			return fmt.Errorf("list groups: %w", err)
		}
		i := slices.IndexFunc(groups, func(g log.Group) bool { return g.Name == s.config.Group })
		next := log.Offsets{}
		if i >= 0 {
			next = groups[i].Offsets
		}
		for _, part := range s.deliver.Status(ctx).Partitions {
			next[part.TopicPartition] = max(next[part.TopicPartition], part.Next)
		}
		for tp, end := range ends {
			behind += max(0, end-next[tp])
		}
		if behind == 0 {
			return nil
		}
		s.mu.Lock()
		state := s.state
		s.mu.Unlock()
		if !state.Healthy() && state != Retrying || time.Now().After(deadline) {
			return fmt.Errorf("the sink is %s and %d records behind: nothing can be said before it has them", state, behind)
		}
		if err := rest(ctx, settlePoll); err != nil {
			return err
		}
	}
}

func rest(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// verifyAlways verifies each sink that is configured for it, again and again, until ctx ends.
func (p *Pipeline) verifyAlways(ctx context.Context, s *sink) {
	every := s.config.Verify.Every
	for rest(ctx, every) == nil {
		err := p.Verify(ctx, Verification{Sink: s.name, Repair: s.config.Verify.Repair}, func(r Verified) error {
			switch {
			case r.Problem != "":
				s.logger.Warn("cannot verify a table", "table", r.Table, "reason", r.Problem)
			case len(r.Different) > 0 || r.Repaired > 0:
				s.logger.Warn("rows differ from their source", "table", r.Table, "different", len(r.Different), "repaired", r.Repaired,
					"see", strings.Join([]string{"trunkline verify", s.name, r.Table}, " "))
			}
			return nil
		})
		if err != nil && ctx.Err() == nil && !errors.Is(err, ErrBusy) {
			s.logger.Warn("verification ended early", "error", p.roster().config.Secrets.Hide(err.Error()))
		}
	}
}
