package pipeline

import "time"

// meterWindow is the number of samples, one a second, that a rate is taken over.
const meterWindow = 10

// meter turns a counter into a rate. It is not safe for concurrent use; the member's lock guards it.
type meter struct {
	samples []sample // oldest first, at most meterWindow
}

type sample struct {
	at    time.Time
	count int64
}

// observe adds a sample. A counter that went back (a new attempt counts from zero) starts the window anew.
func (m *meter) observe(at time.Time, count int64) {
	if n := len(m.samples); n > 0 && count < m.samples[n-1].count {
		m.samples = m.samples[:0]
	}
	if len(m.samples) > meterWindow {
		m.samples = append(m.samples[:0], m.samples[1:]...)
	}
	m.samples = append(m.samples, sample{at, count})
}

// rate returns counts per second over the window.
func (m *meter) rate() float64 {
	if len(m.samples) < 2 {
		return 0
	}
	first, last := m.samples[0], m.samples[len(m.samples)-1]
	elapsed := last.at.Sub(first.at).Seconds()
	if elapsed <= 0 {
		return 0
	}
	return float64(last.count-first.count) / elapsed
}
