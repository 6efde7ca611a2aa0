package connectors

import "time"

// Timing says when something that is done again and again is due. Settings have a field of this type where both an interval
// and a schedule of cron are taken: Decode fills it from the text.
type Timing interface {
	// Next returns the first due time after a moment, zero when there is none.
	Next(after time.Time) time.Time
}

// Every is the Timing of an interval.
type Every time.Duration

// Next is the moment and the interval.
func (e Every) Next(after time.Time) time.Time { return after.Add(time.Duration(e)) }

// Due reports whether it is time again for what was done last at a moment. After a clock that was set back it is, because
// nobody can tell how long ago that moment was.
func Due(t Timing, last, now time.Time) bool {
	if last.After(now) {
		return true
	}
	next := t.Next(last)
	return !next.IsZero() && !next.After(now)
}
