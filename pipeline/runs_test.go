package pipeline

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/pipeline/schedule"
)

// scheduled supervises a member with a schedule until the bubble's test ends.
func scheduled(t *testing.T, text string, attempt func(ctx context.Context) error) *member {
	t.Helper()
	s, err := schedule.Parse("CRON_TZ=UTC " + text)
	if text == schedule.Off {
		s, err = schedule.Parse(text)
	}
	if err != nil {
		t.Fatal(err)
	}
	m := &member{
		name: "shop", role: RoleSource, state: Stopped, wake: make(chan struct{}, 1), attempt: attempt, runs: newRuns(s),
		moved: func() int64 { return 0 }, hide: strings.Clone, remedy: func(error) string { return "" },
		backoff: connectors.Backoff{}.WithDefaults(), logger: slog.New(slog.DiscardHandler),
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.supervise(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return m
}

// lasts is an attempt that takes a time, counts itself, and fails the test if another one is at work.
func lasts(t *testing.T, d time.Duration, n *atomic.Int64) func(context.Context) error {
	var working atomic.Bool
	return func(ctx context.Context) error {
		if working.Swap(true) {
			t.Error("two runs at once")
		}
		defer working.Store(false)
		n.Add(1)
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		return nil
	}
}

func (m *member) told() MemberStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.describe("memory")
}

func TestRunsComeOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		m := scheduled(t, "*/10 * * * *", lasts(t, time.Minute, &n))
		time.Sleep(time.Second)
		synctest.Wait()
		if s := m.told(); n.Load() != 0 || !s.State.Healthy() || s.NextRun.Minute()%10 != 0 {
			t.Fatalf("before the first run: %d runs, %+v", n.Load(), s)
		}
		time.Sleep(time.Hour + 2*time.Minute)
		synctest.Wait()
		if s := m.told(); n.Load() != 6 || s.MissedRuns != 0 || s.LastRunTakes != 60 {
			t.Fatalf("after an hour: %d runs, %+v", n.Load(), s)
		}
	})
}

func TestALongRunMakesTheNextOnesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		m := scheduled(t, "* * * * *", lasts(t, 150*time.Second, &n))
		time.Sleep(time.Hour + time.Second)
		synctest.Wait()
		s := m.told()
		if runs := n.Load(); runs != 20 || s.MissedRuns < 38 || s.MissedRuns > 40 {
			t.Fatalf("%d runs, %d missed; want 20 and two for each", runs, s.MissedRuns)
		}
	})
}

func TestARunIsTriedAgainUntilItSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		m := scheduled(t, "@hourly", func(context.Context) error {
			if n.Add(1) < 3 {
				return errors.New("connection reset")
			}
			return nil
		})
		time.Sleep(time.Hour + time.Minute)
		synctest.Wait()
		if s := m.told(); n.Load() != 3 || s.State != Running || s.NextRun.IsZero() {
			t.Fatalf("%d attempts, %+v", n.Load(), s)
		}
	})
}

func TestARunCanBeAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		m := scheduled(t, schedule.Off, lasts(t, time.Minute, &n))
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if n.Load() != 0 {
			t.Fatal("a run that nobody asked for")
		}
		done, err := m.ask()
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, err := m.ask(); !errors.Is(err, ErrBusy) {
			t.Fatalf("a second run at once: %v", err)
		}
		if err := <-done; err != nil || n.Load() != 1 {
			t.Fatalf("%d runs, %v", n.Load(), err)
		}
		m.mu.Lock()
		m.paused = true
		m.mu.Unlock()
		if _, err := m.ask(); !errors.Is(err, ErrNotRunning) {
			t.Fatalf("a run of a paused source: %v", err)
		}
	})
}

func TestWhoAskedForARunHearsThatItCannotBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := scheduled(t, schedule.Off, func(context.Context) error { return connectors.ErrFatal })
		synctest.Wait()
		done, err := m.ask()
		if err != nil {
			t.Fatal(err)
		}
		if err := <-done; err == nil || !strings.Contains(err.Error(), "failed") {
			t.Fatalf("the answer is %v", err)
		}
	})
}

func TestASourceWithAScheduleReadsToItsEndEachTime(t *testing.T) {
	t.Parallel()
	w := prepare(t, strings.Replace(oneLine, "{type: memory}", "{type: memory, schedule: 'off'}", 1), Options{})
	feed := w.space.Feed("shop")
	feed.Append(row(1), row(2))
	w.run(t)
	w.member(t, "shop", in(CaughtUp, Running))
	for i := range 2 {
		eventually(t, func() string { return "run" }, func() bool {
			return w.Extract(t.Context(), Target{Role: RoleSource, Name: "shop"}, true) == nil
		})
		m := w.member(t, "shop", in(CaughtUp))
		if want := int64(2 + i); m.Rows != want {
			t.Fatalf("run %d: %d rows, want %d", i+1, m.Rows, want)
		}
		feed.Append(row(3 + i))
	}
	if err := w.Extract(t.Context(), Target{Role: RoleSink, Name: "copy"}, true); !errors.Is(err, ErrUnsupported) {
		t.Errorf("extract of a sink: %v", err)
	}
}

func TestResyncOfASourceBetweenRunsBeginsOne(t *testing.T) {
	t.Parallel()
	w := prepare(t, strings.Replace(oneLine, "{type: memory}", "{type: memory, schedule: 'off'}", 1), Options{})
	w.space.Feed("shop").Append(row(1), row(2))
	w.run(t)
	source := Target{Role: RoleSource, Name: "shop"}
	eventually(t, func() string { return "run" }, func() bool { return w.Extract(t.Context(), source, true) == nil })
	if err := w.Resync(t.Context(), source); err != nil {
		t.Fatal(err)
	}
	w.member(t, "shop", func(m MemberStatus) bool { return m.Rows == 4 && m.State == CaughtUp })
}

func TestAPausedSourceMakesNoRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		m := scheduled(t, "* * * * *", lasts(t, time.Second, &n))
		time.Sleep(10*time.Minute + 30*time.Second)
		before := n.Load()
		m.pause(t.Context())
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if n.Load() != before || m.told().State != Paused {
			t.Fatalf("%d runs while paused, state %s", n.Load()-before, m.told().State)
		}
		m.resume()
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if got := n.Load() - before; got < 3 || got > 4 {
			t.Fatalf("%d runs in three minutes after the pause", got)
		}
	})
}

func TestASourceOfAnotherProcessMakesNoRunsHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		m := scheduled(t, "@daily", lasts(t, time.Second, &n))
		lease := func(away bool) {
			m.mu.Lock()
			m.away = away
			m.interrupt()
			m.mu.Unlock()
			synctest.Wait()
		}
		lease(true)
		time.Sleep(36 * time.Hour)
		lease(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		if n.Load() != 0 {
			t.Fatal("a run that the other process has made")
		}
		lease(true)
		time.Sleep(12*time.Hour + time.Minute) // over midnight, when the other process died
		lease(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		if n.Load() != 1 {
			t.Fatalf("%d runs after taking over, want the one that nobody made", n.Load())
		}
	})
}
