package schedule

import "time"

// maxNap is how long a wait lasts at most before the wall clock is looked at again.
const maxNap = 10 * time.Second

// clockStep is how far the wall clock may be from what has passed before it counts as set by somebody.
const clockStep = 2 * time.Second

// Timetable follows a schedule on the wall clock. It is used by one goroutine.
type Timetable struct {
	schedule Schedule
	due      time.Time // by the wall clock; zero: never
	last     time.Time // the due time that was taken last
	seen     time.Time // the wall clock when it was looked at last
	passed   time.Time // the time that passes, likewise
	missed   int64
}

// NewTimetable starts at a moment: nothing from before it is due.
func NewTimetable(s Schedule, wall, passing time.Time) *Timetable {
	t := &Timetable{schedule: s}
	t.set(wall.Round(0), passing)
	return t
}

func (t *Timetable) set(wall, passing time.Time) {
	t.seen, t.passed = wall, passing
	t.due = t.schedule.Next(wall)
	if t.schedule.fixed == nil || t.due.IsZero() || !t.last.After(wall) || t.last.Sub(wall) > 24*time.Hour {
		return
	}
	for !t.due.IsZero() && !t.due.After(t.last) { // that day has had its run
		t.due = t.schedule.Next(t.due)
	}
}

// Wait returns how long to wait before asking again; zero: a run is due. wall is the wall clock, and passing a clock that
// nobody sets. A wall clock that was set back makes the next due time the one that follows it; one that was set forward
// makes one run due, however many due times it left out.
func (t *Timetable) Wait(wall, passing time.Time) time.Duration {
	wall = wall.Round(0) // comparisons are of the wall clock
	back := t.seen.Add(passing.Sub(t.passed)).Sub(wall) > clockStep
	if back {
		t.set(wall, passing)
	}
	t.seen, t.passed = wall, passing
	if t.due.IsZero() {
		return maxNap
	}
	if d := t.due.Sub(wall); d > 0 {
		return min(d, maxNap)
	}
	return 0
}

// Due returns when the next run is due; zero: never.
func (t *Timetable) Due() time.Time { return t.due }

// Missed returns how many due times went by without a run of their own.
func (t *Timetable) Missed() int64 { return t.missed }

// Resume is called when nobody asked for a while, because somebody else followed the schedule. What is older than a limit
// is not due any more, and not missed.
func (t *Timetable) Resume(wall, passing time.Time, limit time.Duration) {
	wall = wall.Round(0)
	if !t.due.IsZero() && wall.Sub(t.due) > limit {
		t.last = t.due
		t.set(wall, passing)
	}
}

// maxCount bounds how many missed due times are counted one by one.
const maxCount = 100_000

// Begin takes the due time for a run that begins now. Those that have gone by since are missed.
func (t *Timetable) Begin(wall, passing time.Time) {
	wall = wall.Round(0)
	if !t.due.IsZero() && !t.due.After(wall) {
		t.last = t.due
		t.skip(wall)
	}
	t.set(wall, passing)
}

// End is called when a run has ended: what became due meanwhile is missed.
func (t *Timetable) End(wall, passing time.Time) {
	wall = wall.Round(0)
	if !t.due.IsZero() && !t.due.After(wall) {
		t.missed++
		t.last = t.due
		t.skip(wall)
	}
	t.set(wall, passing)
}

// skip counts the due times after the last one up to now.
func (t *Timetable) skip(wall time.Time) {
	for i := 0; i < maxCount; i++ {
		next := t.schedule.Next(t.last)
		if next.IsZero() || next.After(wall) {
			return
		}
		t.missed++
		t.last = next
	}
}
