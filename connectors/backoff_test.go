package connectors

import (
	"testing"
	"time"
)

func TestBackoffDoublesUpToItsLimit(t *testing.T) {
	t.Parallel()
	b := Backoff{}.WithDefaults()
	for errors, full := range map[int]time.Duration{1: 500 * time.Millisecond, 2: time.Second, 3: 2 * time.Second, 7: 30 * time.Second, 1000: 30 * time.Second} {
		for range 100 {
			if d := b.Delay(errors); d < full/2 || d > full {
				t.Fatalf("delay(%d) = %v, want between %v and %v", errors, d, full/2, full)
			}
		}
	}
}
