package schedule

import (
	"strings"
	"testing"
	"time"
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	out, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAJobAtFixedHoursRunsOnceADay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		schedule, from string
		days           int
		special        string // one of its due times
	}{
		"spring in New York, in the hour that is left out": {"CRON_TZ=America/New_York 30 2 * * *", "2026-03-06T12:00:00-05:00", 5, "2026-03-08T03:00:00-04:00"},
		"spring in New York, after it":                     {"CRON_TZ=America/New_York 0 3 * * *", "2026-03-06T12:00:00-05:00", 5, "2026-03-08T03:00:00-04:00"},
		"autumn in New York, in the hour that comes twice": {"CRON_TZ=America/New_York 30 1 * * *", "2026-10-30T12:00:00-04:00", 5, "2026-11-01T01:30:00-04:00"},
		"autumn in New York, at its edge":                  {"CRON_TZ=America/New_York 0 1 * * *", "2026-10-30T12:00:00-04:00", 5, "2026-11-01T01:00:00-04:00"},
		"spring in Berlin":                                 {"CRON_TZ=Europe/Berlin 15 2 * * *", "2026-03-27T12:00:00+01:00", 5, "2026-03-29T03:00:00+02:00"},
		"autumn in Berlin":                                 {"CRON_TZ=Europe/Berlin 30 2 * * *", "2026-10-23T12:00:00+02:00", 5, "2026-10-25T02:30:00+02:00"},
		"a midnight that is left out":                      {"CRON_TZ=Africa/Cairo @daily", "2026-04-22T12:00:00+02:00", 4, "2026-04-24T01:00:00+03:00"},
		"two in the hour that is left out":                 {"CRON_TZ=Europe/Berlin 0,30 2 * * *", "2026-03-29T00:00:00+01:00", 1, "2026-03-29T03:00:00+02:00"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := Parse(c.schedule)
			if err != nil {
				t.Fatal(err)
			}
			now, end, days, found := at(t, c.from), at(t, c.from).AddDate(0, 0, c.days), map[string]int{}, false
			for now = s.Next(now); !now.After(end); now = s.Next(now) {
				days[now.In(s.fixed.Location).Format(time.DateOnly)]++
				found = found || now.Equal(at(t, c.special))
			}
			if !found {
				t.Errorf("it is not due at %s", c.special)
			}
			if len(days) != c.days {
				t.Errorf("%d days have a run, want %d: %v", len(days), c.days, days)
			}
			for day, n := range days {
				if n != 1 {
					t.Errorf("%s has %d runs", day, n)
				}
			}
		})
	}
}

func TestAJobOfEveryHourGoesByTimeThatPasses(t *testing.T) {
	t.Parallel()
	for _, from := range []string{"2026-03-08T00:00:00-05:00", "2026-11-01T00:00:00-04:00"} {
		s, err := Parse("CRON_TZ=America/New_York */15 * * * *")
		if err != nil {
			t.Fatal(err)
		}
		now := at(t, from)
		for range 24 {
			next := s.Next(now)
			if next.Sub(now) != 15*time.Minute {
				t.Fatalf("after %s it is due at %s", now, next)
			}
			now = next
		}
	}
}

func TestWhatIsNoSchedule(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"* * * *": "five fields", "0 0 30 2 *": "never comes", "CRON_TZ=UTC": "alone", "CRON_TZ=Mars/Base @daily": "no schedule",
		"61 * * * *": "no schedule", "0 0 * * * *": "five fields", "": "five fields",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if s, err := Parse(Off); err != nil || s.IsZero() || !s.Next(time.Now()).IsZero() {
		t.Errorf("off: %v", err)
	}
}

// clock is a wall clock that can be set, beside time that passes.
type clock struct{ wall, passing time.Time }

func (c *clock) pass(d time.Duration) { c.wall, c.passing = c.wall.Add(d), c.passing.Add(d) }

func newClock(t *testing.T) *clock {
	return &clock{at(t, "2026-06-01T12:00:00Z"), at(t, "2026-06-01T12:00:00Z")}
}

func timetable(t *testing.T, c *clock, text string) *Timetable {
	t.Helper()
	s, err := Parse("CRON_TZ=UTC " + text)
	if err != nil {
		t.Fatal(err)
	}
	return NewTimetable(s, c.wall, c.passing)
}

// next lets time pass until a run is due, and begins it.
func next(t *testing.T, tt *Timetable, c *clock) (waited time.Duration) {
	t.Helper()
	for {
		d := tt.Wait(c.wall, c.passing)
		if d == 0 {
			tt.Begin(c.wall, c.passing)
			return waited
		}
		if waited += d; waited > 48*time.Hour {
			t.Fatal("no run within two days")
		}
		c.pass(d)
	}
}

func TestARunThatIsLongerThanItsIntervalMissesTheNext(t *testing.T) {
	t.Parallel()
	c := newClock(t)
	tt := timetable(t, c, "* * * * *")
	next(t, tt, c)
	c.pass(150 * time.Second)
	tt.End(c.wall, c.passing)
	if tt.Missed() != 2 {
		t.Errorf("%d missed, want 2", tt.Missed())
	}
	if d := next(t, tt, c); d != 30*time.Second {
		t.Errorf("the next run came after %s", d)
	}
}

func TestAClockThatIsSetForwardMakesOneRun(t *testing.T) {
	t.Parallel()
	c := newClock(t)
	tt := timetable(t, c, "* * * * *")
	next(t, tt, c)
	tt.End(c.wall, c.passing)
	c.wall = c.wall.Add(2 * time.Hour)
	if d := next(t, tt, c); d > maxNap {
		t.Errorf("the next run came after %s", d)
	}
	if tt.Missed() != 119 {
		t.Errorf("%d missed, want 119", tt.Missed())
	}
	if d := next(t, tt, c); d != time.Minute {
		t.Errorf("the run after it came after %s: a burst", d)
	}
}

func TestAClockThatIsSetBackDelaysNoMoreThanAnInterval(t *testing.T) {
	t.Parallel()
	c := newClock(t)
	tt := timetable(t, c, "* * * * *")
	next(t, tt, c)
	tt.End(c.wall, c.passing)
	c.wall = c.wall.Add(-2 * time.Hour)
	if d := next(t, tt, c); d > time.Minute {
		t.Errorf("the next run came after %s", d)
	}
	if tt.Missed() != 0 {
		t.Errorf("%d missed", tt.Missed())
	}
}

func TestAClockThatIsSetBackGivesADayNoSecondRun(t *testing.T) {
	t.Parallel()
	c := newClock(t)
	tt := timetable(t, c, "30 12 * * *")
	next(t, tt, c)
	tt.End(c.wall, c.passing)
	c.wall = c.wall.Add(-2 * time.Hour)
	next(t, tt, c)
	if got := c.wall.Format(time.RFC3339); got != "2026-06-02T12:30:00Z" {
		t.Errorf("the next run came at %s", got)
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"*/5 * * * *", "@daily", "@every 1h", "CRON_TZ=Europe/Berlin 0 2 * * 1-5", "off"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		now := time.Date(2026, 10, 25, 0, 30, 0, 0, time.UTC)
		if next := s.Next(now); !next.IsZero() && !next.After(now) {
			t.Fatalf("%q is due at %s, which is not after %s", text, next, now)
		}
	})
}

func TestWhoTakesOverRunsOnlyWhatMayHaveBeenMissed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		away time.Duration
		now  bool
	}{{31 * time.Minute, true}, {12 * time.Hour, false}} {
		clock := newClock(t)
		tt := timetable(t, clock, "30 12 * * *")
		clock.pass(c.away)
		tt.Resume(clock.wall, clock.passing, 5*time.Minute)
		if got := tt.Wait(clock.wall, clock.passing) == 0; got != c.now || tt.Missed() != 0 {
			t.Errorf("after %s: due %v, %d missed", c.away, got, tt.Missed())
		}
	}
}
