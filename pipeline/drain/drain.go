// Package drain gives what is in hand a bounded time to finish when a run is told to stop. pipeline/ingest and
// pipeline/deliver call it.
package drain

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Context returns a context that outlives ctx by the limit: for a commit or a write that has begun. cancel must be
// called.
func Context(ctx context.Context, limit time.Duration) (hard context.Context, cancel context.CancelFunc) {
	hard, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(limit, end) })
	return hard, func() {
		stop()
		end()
	}
}

// Close calls close with a limit of its own, because the context of the run may have ended.
func Close(what string, close func(context.Context) error, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := close(ctx); err != nil {
		return fmt.Errorf("close %s: %w", what, err)
	}
	return nil
}

// Stopped reports that err says no more than that ctx has ended.
func Stopped(ctx context.Context, err error) bool {
	return err != nil && ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded))
}
