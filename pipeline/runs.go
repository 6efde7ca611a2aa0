package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/trunkline/trunkline/pipeline/schedule"
)

// ErrBusy says that a run goes on already.
var ErrBusy = errors.New("a run goes on already")

// runs are those of a member that has a schedule: each is attempts until one succeeds, and none overlaps another,
// because one goroutine makes them. All is guarded by member.mu.
type runs struct {
	timetable *schedule.Timetable
	going     bool
	away      bool // another process makes them
	asked     bool
	waiting   []chan error // each with one slot: those who asked for the run, or for the one to come
	began     time.Time    // the last run; zero: none yet
	took      time.Duration
}

func newRuns(s schedule.Schedule) *runs {
	now := time.Now()
	return &runs{timetable: schedule.NewTimetable(s, now, now)}
}

// wait returns how long it is until a run has to begin. Zero begins it, unless it goes on already.
func (r *runs) wait() time.Duration {
	if r.going {
		return 0
	}
	now := time.Now()
	if d := r.timetable.Wait(now, now); d > 0 && !r.asked {
		return d
	}
	r.timetable.Begin(now, now)
	r.going, r.asked, r.began = true, false, now
	return 0
}

// takeover is how old a due time may be for which a process that takes over still makes a run: the one that had the
// source may have died before it. An older one had its run there.
const takeover = 5 * time.Minute

// follow notes whether another process has the source.
func (r *runs) follow(away bool) {
	if r == nil {
		return
	}
	if r.away && !away {
		now := time.Now()
		r.timetable.Resume(now, now, takeover)
	}
	r.away = away
	if !away {
		return
	}
	r.going, r.asked = false, false
	for _, w := range r.waiting {
		w <- fmt.Errorf("extract: %w: another process runs the source now", ErrNotRunning)
	}
	r.waiting = nil
}

// end closes the run and tells those who wait for it.
func (r *runs) end(err error) {
	if r == nil {
		return
	}
	if r.going {
		now := time.Now()
		r.timetable.End(now, now)
		r.going, r.took = false, now.Sub(r.began)
	}
	r.asked = false
	for _, w := range r.waiting {
		w <- err
	}
	r.waiting = nil
}

// between reports whether a member waits for its next run.
func (r *runs) between() bool { return r != nil && !r.going }

// describe fills in the status.
func (r *runs) describe(out *MemberStatus) {
	if r == nil {
		return
	}
	out.NextRun, out.LastRun, out.LastRunTakes, out.MissedRuns = r.timetable.Due(), r.began, r.took.Seconds(), r.timetable.Missed()
	if r.going {
		out.NextRun, out.LastRunTakes = time.Time{}, time.Since(r.began).Seconds()
	}
}

// Extract begins a run of a source that has a schedule, whatever that says. It returns when the run has ended, or, unless
// wait, at once. While a run goes on it is ErrBusy.
func (p *Pipeline) Extract(ctx context.Context, t Target, wait bool) error {
	m, err := p.find(t)
	if err != nil {
		return err
	}
	if t.Role != RoleSource || t.Table != "" || m.runs == nil {
		return fmt.Errorf("extract %s: %w: only a source with a schedule has runs (schedule: off runs it only when asked)", t, ErrUnsupported)
	}
	done, err := m.ask()
	if err != nil || !wait {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err() // the run goes on
	}
}

// ask makes the next run due.
func (m *member) ask() (<-chan error, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case !m.alive:
		return nil, fmt.Errorf("extract %s: %w", m.name, ErrNotRunning)
	case m.away:
		return nil, fmt.Errorf("extract %s: %w: another process runs it", m.name, ErrNotRunning)
	case m.runs.going || m.runs.asked:
		return nil, fmt.Errorf("extract %s: %w", m.name, ErrBusy)
	case m.paused || m.halted:
		return nil, fmt.Errorf("extract %s: %w: it is %s; resume it first", m.name, ErrNotRunning, m.state)
	}
	done := make(chan error, 1)
	m.runs.asked = true
	m.runs.waiting = append(m.runs.waiting, done)
	m.signal()
	return done, nil
}
