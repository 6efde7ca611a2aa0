// Package schedule says when the next run of a job is due.
//
// It promises cron's five fields, @every, @daily and the like, and CRON_TZ= before them, as robfig/cron reads them, and
// makes two things right that its own Next does not: a job at fixed hours runs once in a day on which the clocks change,
// and a Timetable lives through a wall clock that somebody sets. It starts nothing: package pipeline asks it how long to
// wait.
package schedule

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// Off is the schedule of a job that runs only when it is asked for.
const Off = "off"

// Schedule is when a job is due. The zero value has no due times.
type Schedule struct {
	text  string
	fixed *cron.SpecSchedule // at some hours of the day: by the wall clock, once
	other cron.Schedule      // by time that passes: each hour of the day, or @every
}

var parser = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

// everyHour is the hours of a SpecSchedule when all are set.
const everyHour = 1<<24 - 1

var errNever = errors.New("never comes: no date is like that")

// Parse reads a schedule. Without CRON_TZ it means the local time of the process.
func Parse(text string) (Schedule, error) {
	if text == Off {
		return Schedule{text: text}, nil
	}
	if zone, rest, found := strings.Cut(text, " "); strings.Contains(zone, "TZ=") && (!found || strings.TrimSpace(rest) == "") {
		return Schedule{}, errors.New("no schedule: a time zone alone") // the parser does not expect it
	}
	parsed, err := parser.Parse(text)
	if err != nil {
		return Schedule{}, fmt.Errorf("no schedule: %w; it is five fields (minute hour day month weekday), @daily, @every 10m, or off", err)
	}
	s := Schedule{text: text}
	switch p := parsed.(type) {
	case *cron.SpecSchedule:
		if p.Next(time.Now()).IsZero() {
			return Schedule{}, errNever
		}
		if p.Hour&everyHour == everyHour {
			s.other = p
		} else {
			s.fixed = p
		}
	default:
		s.other = p
	}
	return s, nil
}

// UnmarshalText is Parse.
func (s *Schedule) UnmarshalText(text []byte) error {
	parsed, err := Parse(string(text))
	*s = parsed
	return err
}

func (s Schedule) String() string { return s.text }

// IsZero reports that no schedule was given. One that is off is a schedule.
func (s Schedule) IsZero() bool { return s.text == "" }

// Next returns the first due time after a moment; zero when there is none.
//
// A schedule that has every hour goes by time that passes: in an hour that the clock shows twice it is due twice. One at
// fixed hours goes by the clock: a time that the clock leaves out is due at the moment when it jumps, and one that it
// shows twice is due the first time.
func (s Schedule) Next(after time.Time) time.Time {
	switch {
	case s.other != nil:
		return s.other.Next(after)
	case s.fixed == nil:
		return time.Time{}
	}
	zone := s.fixed.Location
	plain := *s.fixed
	plain.Location = time.UTC
	wall := onClock(after.In(zone))
	for {
		wall = plain.Next(wall)
		if wall.IsZero() {
			return time.Time{}
		}
		if due := moment(wall, zone); due.After(after) {
			return due.In(after.Location())
		}
	}
}

// onClock returns what the clock shows, as if it were UTC.
func onClock(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
}

// moment returns when the clock of a zone shows a time first, or when it jumps over it.
func moment(wall time.Time, zone *time.Location) time.Time {
	t := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), wall.Second(), 0, zone)
	start, end := t.ZoneBounds()
	switch shown := onClock(t); {
	case shown.After(wall):
		return start // Date took the offset from before the jump
	case shown.Before(wall):
		return end
	}
	if start.IsZero() {
		return t
	}
	_, offset := start.Add(-time.Second).Zone()
	if earlier := wall.Add(-time.Duration(offset) * time.Second); earlier.Before(start) {
		return earlier.In(zone)
	}
	return t
}
