package pipeline

import (
	"context"
	"sync"
	"time"
)

// historyEvery and historyPoints make an hour.
const (
	historyEvery  = 5 * time.Second
	historyPoints = 720
)

// Point is what one source or sink did at one moment.
type Point struct {
	Time       int64   `json:"t"` // seconds since 1970
	RowsPerSec float64 `json:"r"`
	LagRows    int64   `json:"n"`
	LagSeconds float64 `json:"s"`
}

// history keeps the last hour of every member in memory, oldest first. It never holds more than historyPoints for each of
// the members that there are.
type history struct {
	mu     sync.Mutex
	series map[string][]Point // by role/name
}

// add takes one status in, and forgets who is no longer there.
func (h *history) add(s Status) {
	h.mu.Lock()
	defer h.mu.Unlock()
	next := make(map[string][]Point, len(s.Sources)+len(s.Sinks))
	for _, list := range [][]MemberStatus{s.Sources, s.Sinks} {
		for _, m := range list {
			key := string(m.Role) + "/" + m.Name
			points := h.series[key]
			if len(points) >= historyPoints {
				points = append(points[:0], points[len(points)-historyPoints+1:]...)
			}
			next[key] = append(points, Point{s.Time.Unix(), m.RowsPerSec, m.LagRows, m.LagSeconds})
		}
	}
	h.series = next
}

// History returns the last hour of each source and sink, by role/name, oldest first, one point each few seconds. It is lost
// with the process.
func (p *Pipeline) History() map[string][]Point {
	p.past.mu.Lock()
	defer p.past.mu.Unlock()
	out := make(map[string][]Point, len(p.past.series))
	for name, points := range p.past.series {
		out[name] = append([]Point(nil), points...)
	}
	return out
}

// remember takes one point of every member at most each historyEvery, and returns when the last one was taken.
func (p *Pipeline) remember(ctx context.Context, now, last time.Time) time.Time {
	if now.Sub(last) < historyEvery {
		return last
	}
	if status, err := p.Status(ctx); err == nil { // the next one may tell more
		p.past.add(status)
	}
	return now
}
