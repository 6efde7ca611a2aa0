package disk

import (
	"sync/atomic"
	"time"
)

// Limits of the wait for more batches before a sync.
const (
	minGather = 200 * time.Microsecond // a disk whose sync takes less is not worth waiting for
	maxGather = 5 * time.Millisecond
)

// gathering decides whether a sync that clients wait for begins at once, or waits a moment for the batches that are about
// to come. A client with several requests on their way sends the next ones when it hears of the last: if the sync began at
// once it would cover the first of them alone, and the next sync all others, and so on, in turns. So a sync waits until as
// many batches have come as the larger of the last two covered, but never for more than half of what a sync takes. Who
// sends one request at a time never waits.
type gathering struct {
	appended atomic.Int64 // batches of clients
	waiting  atomic.Bool
	arrived  chan struct{} // capacity 1

	// The rest is under the partition's flush.
	covered int64    // batches that syncs were begun for
	groups  [2]int64 // of how many batches the last two were
	took    time.Duration
}

// arrive notes a batch that was appended.
func (g *gathering) arrive() {
	g.appended.Add(1)
	if g.waiting.Load() {
		select {
		case g.arrived <- struct{}{}:
		default:
		}
	}
}

// limit is how long the next sync may wait.
func (g *gathering) limit() time.Duration {
	if g.took < minGather {
		return 0
	}
	return min(g.took/2, maxGather)
}

// wait returns when enough batches have come, or time is up, or stop is closed.
func (g *gathering) wait(limit time.Duration, stop <-chan struct{}) {
	enough := g.covered + max(g.groups[0], g.groups[1])
	if limit <= 0 || g.appended.Load() >= enough {
		return
	}
	g.waiting.Store(true)
	defer g.waiting.Store(false)
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for g.appended.Load() < enough {
		select {
		case <-g.arrived:
		case <-timer.C:
			return
		case <-stop:
			return
		}
	}
}

// synced notes a sync that covered the batches up to a count, if any.
func (g *gathering) synced(appended int64, took time.Duration) {
	const weight = 4 // of what was known before
	if g.took == 0 {
		g.took = took
	}
	g.took += (took - g.took) / weight
	if appended == g.covered {
		return
	}
	g.groups[1], g.groups[0] = g.groups[0], appended-g.covered
	g.covered = appended
}
