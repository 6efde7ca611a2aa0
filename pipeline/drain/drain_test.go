package drain_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/trunkline/trunkline/pipeline/drain"
)

func TestContextOutlivesItsParentByTheLimit(t *testing.T) {
	t.Parallel()
	parent, stop := context.WithCancel(t.Context())
	hard, cancel := drain.Context(parent, 20*time.Millisecond)
	defer cancel()
	stop()
	if hard.Err() != nil {
		t.Error("it ended together with its parent")
	}
	<-hard.Done()
	long, end := drain.Context(parent, time.Hour)
	end()
	<-long.Done()
}

func TestStoppedMeansTheContextAndNothingElse(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	if drain.Stopped(ctx, context.Canceled) {
		t.Error("a context that goes on has stopped")
	}
	stop()
	for err, want := range map[error]bool{
		fmt.Errorf("read: %w", context.Canceled): true,
		errors.New("disk on fire"):               false,
		nil:                                      false,
	} {
		if drain.Stopped(ctx, err) != want {
			t.Errorf("%v: want %v", err, want)
		}
	}
}

func TestCloseNamesWhatItCloses(t *testing.T) {
	t.Parallel()
	err := drain.Close("source", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, time.Millisecond)
	if !errors.Is(err, context.DeadlineExceeded) || err.Error() != "close source: context deadline exceeded" {
		t.Errorf("error %v", err)
	}
}
