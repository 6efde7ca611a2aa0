package disk

import (
	"testing"
	"time"
)

// long is a time after which a test has failed anyway.
const long = time.Hour

func TestSyncWaitsForAsManyBatchesAsCameLast(t *testing.T) {
	t.Parallel()
	t.Run("and begins when they have come", func(t *testing.T) {
		t.Parallel()
		g := gathering{arrived: make(chan struct{}, 1)}
		for _, n := range []int64{1, 4} { // the turns that it is to end
			for range n {
				g.arrive()
			}
			g.synced(g.appended.Load(), time.Millisecond)
		}
		g.arrive()
		done := make(chan struct{})
		go func() {
			defer close(done)
			g.wait(long, nil)
		}()
		for range 3 {
			select {
			case <-done:
				t.Fatal("it began without them")
			default:
			}
			g.arrive()
		}
		<-done
		if n := g.appended.Load() - g.covered; n != 4 {
			t.Errorf("it covers %d batches, want 4", n)
		}
	})
	t.Run("but not when they are there", func(t *testing.T) {
		t.Parallel()
		g := gathering{arrived: make(chan struct{}, 1)}
		for range 10 { // one request at a time
			g.arrive()
			g.wait(long, nil)
			g.synced(g.appended.Load(), time.Millisecond)
		}
	})
	t.Run("nor for ever", func(t *testing.T) {
		t.Parallel()
		g := gathering{arrived: make(chan struct{}, 1), groups: [2]int64{7, 7}}
		g.arrive()
		g.wait(time.Millisecond, nil)
		stop := make(chan struct{})
		close(stop)
		g.wait(long, stop)
		for range 2 {
			g.synced(g.appended.Load(), time.Millisecond)
			g.arrive()
		}
		g.synced(g.appended.Load(), time.Millisecond)
		g.arrive()
		g.wait(long, nil) // what came twice alone is not waited with again
	})
	t.Run("nor on a disk that is quick", func(t *testing.T) {
		t.Parallel()
		var g gathering
		g.synced(0, minGather/2)
		if d := g.limit(); d != 0 {
			t.Errorf("it may wait for %v", d)
		}
		g.took = long
		if d := g.limit(); d != maxGather {
			t.Errorf("on a slow disk it may wait for %v", d)
		}
	})
}
