package deliver

import (
	"sync/atomic"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

// FreshnessBounds are the upper bounds of the buckets of Freshness, in seconds.
var FreshnessBounds = [...]float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600, 86400}

// Freshness says how long rows took from their commit in the source to their commit in the sink, since the delivery was
// made. Rows of a snapshot have no commit that means anything here and are not counted.
type Freshness struct {
	Counts  [len(FreshnessBounds)]int64 // rows at or below each bound
	Count   int64                       // all rows
	Seconds float64                     // their sum
}

// freshness counts; it is written by one goroutine and read by any.
type freshness struct {
	counts [len(FreshnessBounds) + 1]atomic.Int64 // each bucket alone; the last has no bound
	millis atomic.Int64
}

// observe counts the changes of a batch that is durable now. The source's clock and ours are compared as they are; a row
// from the future counts as fresh.
func (f *freshness) observe(changes []connectors.Change, now time.Time) {
	var counts [len(FreshnessBounds) + 1]int64
	var millis int64
	bucket, age, last := 0, int64(0), time.Time{}
	for i := range changes {
		c := &changes[i]
		if c.Op == connectors.Snapshot || c.Time.IsZero() {
			continue
		}
		if !c.Time.Equal(last) { // the changes of one transaction share their time
			last, age = c.Time, max(0, now.Sub(c.Time).Milliseconds())
			for bucket = 0; bucket < len(FreshnessBounds) && float64(age)/1000 > FreshnessBounds[bucket]; bucket++ {
			}
		}
		counts[bucket]++
		millis += age
	}
	for i, n := range counts {
		if n > 0 {
			f.counts[i].Add(n)
		}
	}
	f.millis.Add(millis)
}

func (f *freshness) status() (out Freshness) {
	for i := range f.counts {
		out.Count += f.counts[i].Load()
		if i < len(out.Counts) {
			out.Counts[i] = out.Count
		}
	}
	out.Seconds = float64(f.millis.Load()) / 1000
	return out
}
