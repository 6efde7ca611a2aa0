package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/log"
)

// onceAttempts is how many attempts without progress a run with an end makes before it gives a member up. A daemon
// never gives up.
const onceAttempts = 6

// fullWait bounds how long a member waits before it looks whether the log has room again.
const fullWait = 5 * time.Second

// errInterrupted is the cause with which a command ends an attempt.
var errInterrupted = errors.New("interrupted by a command")

// member supervises one source or one sink. It is the only place that tries again: an attempt runs until it ends, and
// what its error says decides whether the next comes at once, after a pause, or when a person asks for it.
type member struct {
	name    string
	role    Role
	attempt func(ctx context.Context) error // one attempt; nil at its end or when ctx ended
	moved   func() int64                    // grows whenever something became durable; called with no lock held
	once    bool
	backoff connectors.Backoff
	hide    func(string) string
	logger  *slog.Logger
	remedy  func(error) string        // what a person can do about a gap or a failure
	runs    *runs                     // nil: one attempt follows the other
	beside  func(ctx context.Context) // what else goes on as long as the member is there; may be nil

	close func(ctx context.Context) error // of what is read beside the rows, once it has ended
	end   context.CancelFunc              // ends the member for good
	gone  chan struct{}                   // closed when it has ended

	wake chan struct{} // one slot: something below changed

	mu       sync.Mutex
	alive    bool // supervise runs
	state    State
	reason   string
	near     bool // running, and at its end
	since    time.Time
	failures int       // attempts in a row that ended without progress
	full     int       // attempts in a row that ended for want of room in the log, whatever they wrote before
	begun    int64     // what moved said when the attempt began
	retryAt  time.Time // zero: no wait
	paused   bool      // by a person
	away     bool      // another process runs it, or nobody does yet
	halted   bool      // gap, failed or done
	lastErr  string
	lastAt   time.Time
	tasks    []task
	cancel   context.CancelCauseFunc // ends the attempt that runs; nil between attempts
}

// task is work that needs the member to stand still.
type task struct {
	run    func(ctx context.Context) error
	result chan error // one slot
}

// supervise makes attempts until ctx ends or, in a run with an end, until the member is done.
func (m *member) supervise(ctx context.Context) {
	m.mu.Lock()
	m.alive = true
	if m.runs != nil && !m.paused {
		m.set(Running, "") // it waits for its first run
	}
	m.mu.Unlock()
	defer m.retire()
	for m.ready(ctx) {
		begun := m.moved()
		attemptCtx, cancel := context.WithCancelCause(ctx)
		m.mu.Lock()
		m.cancel, m.begun, m.retryAt = cancel, begun, time.Time{}
		m.set(Running, "")
		m.mu.Unlock()
		err := m.attempt(attemptCtx)
		moved := m.moved() > begun
		interrupted := context.Cause(attemptCtx) != nil
		cancel(nil)
		m.mu.Lock()
		m.cancel = nil
		m.settle(err, interrupted, moved)
		m.mu.Unlock()
	}
}

// retire answers whoever still waits.
func (m *member) retire() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.alive = false
	for _, t := range m.tasks {
		t.result <- ErrNotRunning
	}
	m.tasks = nil
	m.runs.end(fmt.Errorf("extract %s: %w", m.name, ErrNotRunning))
	if m.state == Running || m.state == Retrying {
		m.set(Stopped, "")
	}
}

// ready blocks until an attempt may be made. It runs tasks, because between attempts the member stands still.
func (m *member) ready(ctx context.Context) bool {
	for {
		m.mu.Lock()
		tasks, held, wait := m.tasks, m.paused || m.halted || m.away, time.Until(m.retryAt)
		m.tasks = nil
		m.runs.follow(m.away)
		if m.runs != nil && !held && wait <= 0 && len(tasks) == 0 {
			wait = m.runs.wait()
		}
		m.mu.Unlock()
		if ctx.Err() != nil || m.once && (m.halted || m.paused) {
			for _, t := range tasks {
				t.result <- ErrNotRunning
			}
			return false
		}
		if len(tasks) > 0 {
			for _, t := range tasks {
				t.result <- t.run(ctx)
			}
			continue
		}
		if !held && wait <= 0 {
			return true
		}
		m.sleep(ctx, held, wait)
	}
}

// sleep returns when the wait is over, something changed or ctx ended.
func (m *member) sleep(ctx context.Context, held bool, wait time.Duration) {
	var expired <-chan time.Time
	if !held {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		expired = timer.C
	}
	select {
	case <-ctx.Done():
	case <-m.wake:
	case <-expired:
	}
}

// settle decides what follows an attempt. The lock is held.
func (m *member) settle(err error, interrupted, moved bool) {
	m.retryAt = time.Time{}
	if moved {
		m.failures = 0
	}
	if !errors.Is(err, log.ErrFull) {
		m.full = 0
	}
	if err != nil && !interrupted {
		m.lastErr, m.lastAt = m.words(err), time.Now()
	}
	switch {
	case m.away:
		m.failures = 0
		m.set(Standby, standbyReason)
	case isGap(err):
		m.halt(Gap, err)
	case isFinal(err):
		m.halt(Failed, err)
	case interrupted:
		if m.paused {
			m.set(Paused, byPerson(m.name, ""))
		}
	case err == nil && m.runs != nil:
		m.runs.end(nil)
	case err == nil:
		m.halted = true
		m.set(Done, "")
	case errors.Is(err, log.ErrFull):
		m.awaitRoom()
	default:
		m.retry(err)
	}
}

// awaitRoom tries again soon, because nobody tells when there is room. A full disk has room for a little now and then, so
// progress does not count, and what was said once is not said at each attempt.
func (m *member) awaitRoom() {
	m.failures++
	m.full++
	m.retryAt = time.Now().Add(min(m.backoff.Delay(m.full), fullWait))
	m.set(Paused, "waits for room: "+m.lastErr)
	if m.full == 1 {
		m.logger.Warn("paused until the log has room", "error", m.lastErr)
	}
}

func (m *member) retry(err error) {
	m.failures++
	if m.once && m.failures >= onceAttempts {
		m.halt(Failed, fmt.Errorf("%d attempts without progress: %w", m.failures, err))
		return
	}
	wait := m.backoff.Delay(m.failures)
	m.retryAt = time.Now().Add(wait)
	m.set(Retrying, m.words(err))
	m.logger.Warn("retrying", "error", m.lastErr, "attempt", m.failures, "wait", wait.Round(time.Millisecond).String())
}

func (m *member) halt(s State, err error) {
	m.halted = true
	text := m.words(err)
	for _, kind := range []error{connectors.ErrPositionLost, connectors.ErrFatal} { // the state says so, and a remedy stands last
		text = strings.TrimSuffix(text, ": "+kind.Error())
	}
	if advice := m.remedy(err); advice != "" {
		text += ": " + advice
	}
	m.set(s, text)
	m.runs.end(fmt.Errorf("%s is %s: %s", m.name, s, text))
	m.logger.Error("stopped: "+string(s), "error", text)
}

// words is the text of an error that people see: one line, without secrets.
func (m *member) words(err error) string {
	return m.hide(strings.Join(strings.Fields(err.Error()), " "))
}

// set changes the state. The lock is held.
func (m *member) set(s State, reason string) {
	if m.state != s || m.reason != reason {
		m.since = time.Now()
	}
	m.state, m.reason = s, reason
}

func isGap(err error) bool {
	var gone *log.OutOfRangeError
	return errors.Is(err, connectors.ErrPositionLost) || errors.As(err, &gone)
}

func isFinal(err error) bool {
	return errors.Is(err, connectors.ErrFatal) || errors.Is(err, connectors.ErrFenced) || errors.Is(err, log.ErrFenced)
}

// pauseTime is how long pause waits for the attempt to end. What takes longer ends later all the same.
const pauseTime = 5 * time.Second

// pause ends the attempt that runs and keeps the member still.
func (m *member) pause(ctx context.Context) {
	m.mu.Lock()
	m.paused = true
	if m.cancel == nil && !m.halted && !m.away {
		m.set(Paused, byPerson(m.name, ""))
	}
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, pauseTime)
	defer cancel()
	_ = m.between(ctx, func(context.Context) error { return nil }) // it says no more than that time is up
}

// resume lets a paused member go on, and makes one that stopped or waits try again at once.
func (m *member) resume() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.paused, m.failures, m.retryAt = false, 0, time.Time{}
	if m.halted && m.state != Done {
		m.halted = false
	}
	switch {
	case m.cancel != nil || m.halted:
	case m.away:
		m.set(Standby, standbyReason)
	default:
		m.set(Running, "")
	}
	m.signal()
}

// inherit takes over what people and other processes have decided about the member of the same name before it.
func (m *member) inherit(old *member) {
	old.mu.Lock()
	paused, away := old.paused, old.away
	old.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.paused, m.away = paused, away
	switch {
	case away:
		m.set(Standby, standbyReason)
	case paused:
		m.set(Paused, byPerson(m.name, ""))
	}
}

const standbyReason = "another process runs it"

// grant lets this process run the member. Whatever stopped it is tried again: another process may have put it right.
func (m *member) grant() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.away {
		return
	}
	m.away, m.failures, m.retryAt = false, 0, time.Time{}
	if m.state != Done {
		m.halted = false
	}
	if m.paused {
		m.set(Paused, byPerson(m.name, ""))
	}
	m.logger.Info("this process runs it now")
	m.signal()
}

// yield ends the attempt that runs, cleanly, and returns when it has ended: then another process may begin.
func (m *member) yield(ctx context.Context) {
	m.mu.Lock()
	m.away = true
	if m.cancel == nil && m.state != Done {
		m.halted = false
		m.set(Standby, standbyReason)
	}
	m.mu.Unlock()
	m.logger.Info("another process runs it now")
	_ = m.between(ctx, func(context.Context) error { return nil }) // it says no more than that the program ends
}

// standstill runs f while no attempt does, and then lets the member go on, out of gap and failed too.
func (m *member) standstill(ctx context.Context, f func(ctx context.Context) error) error {
	return m.between(ctx, func(taskCtx context.Context) error {
		err := f(taskCtx)
		if err == nil {
			m.mu.Lock()
			m.halted, m.failures, m.retryAt = false, 0, time.Time{}
			if m.paused {
				m.set(Paused, byPerson(m.name, "")) // what it stood before is dealt with
			}
			m.mu.Unlock()
		}
		return err
	})
}

// between ends the attempt that runs and then runs f on the goroutine that makes attempts.
func (m *member) between(ctx context.Context, f func(ctx context.Context) error) error {
	t := task{result: make(chan error, 1), run: f}
	m.mu.Lock()
	if !m.alive {
		m.mu.Unlock()
		return fmt.Errorf("%s %s is %w", m.role, m.name, ErrNotRunning)
	}
	m.tasks = append(m.tasks, t)
	m.interrupt()
	m.mu.Unlock()
	select {
	case err := <-t.result:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// interrupt ends the attempt that runs. The lock is held.
func (m *member) interrupt() {
	if m.cancel != nil {
		m.cancel(errInterrupted)
	}
	m.signal()
}

func (m *member) signal() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}
