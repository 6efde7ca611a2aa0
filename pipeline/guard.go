package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/pipeline/config"
)

const (
	// guardEvery is how often the guard looks at what the server keeps.
	guardEvery = 5 * time.Second
	// guardTime bounds one look.
	guardTime = 30 * time.Second
	// renewTime bounds how long it may take to find out which tables a gap concerns; after that, all of them are read anew.
	renewTime = 5 * time.Minute
)

// guard looks, as long as the source is there and whatever its state, at what its server keeps for it: says so from half
// of max_retained on, and lets the server forget the source before its disk is full.
func (s *source) guard(ctx context.Context) {
	ticker := time.NewTicker(guardEvery)
	defer ticker.Stop()
	for {
		s.mu.Lock()
		away := s.away
		s.mu.Unlock()
		if !away {
			s.inspect(ctx)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// inspect is one look.
func (s *source) inspect(ctx context.Context) {
	env := connectors.NewEnv(s.name)
	env.Logger = s.logger
	if g, purges := s.config.Guard.(connectors.Purging); purges {
		s.inspectPurging(ctx, g, env)
		return
	}
	look, cancel := context.WithTimeout(ctx, guardTime)
	kept, err := s.config.Guard.Retained(look, env)
	cancel()
	limit := int64(s.config.Retain.Max)
	if err != nil {
		s.keep(s.retained(), "")
		return // the source itself says what is wrong with its server
	}
	switch {
	case kept < limit/2:
		s.keep(kept, "")
	case kept < limit:
		s.keep(kept, fmt.Sprintf("the server keeps %s for this source; at max_retained, %s, it is told to forget it", about(kept), s.config.Retain.Max))
	default:
		s.keep(kept, "")
		if err := s.release(ctx, env, kept); err != nil && ctx.Err() == nil {
			s.keep(kept, s.words(err))
		}
	}
}

func (s *source) retained() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept
}

// keep notes what the guard saw, and logs what it has to say once.
func (s *source) keep(bytes int64, words string) {
	s.mu.Lock()
	news := words != "" && s.keeps == ""
	s.kept, s.keeps = bytes, words
	s.mu.Unlock()
	if news {
		s.logger.Warn(words)
	}
}

// release lets the server forget the source. Then the source stands before the gap, or begins anew by itself.
func (s *source) release(ctx context.Context, env connectors.Env, kept int64) error {
	gap := fmt.Errorf("the server kept %s for this source, more than max_retained, %s, and was told to forget it: what changed since the last position is lost to the stream: %w",
		about(kept), s.config.Retain.Max, connectors.ErrPositionLost)
	again := s.config.Retain.On == config.RetainResync
	err := s.between(ctx, func(ctx context.Context) error {
		if again && s.renew(ctx, env, gap) {
			return nil
		}
		if err := s.config.Guard.Release(ctx, env); err != nil {
			return fmt.Errorf("max_retained is reached: %w", err)
		}
		if !again {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.lastErr, s.lastAt = s.words(gap), time.Now()
			s.halt(Gap, gap)
			return nil
		}
		s.mu.Lock()
		s.lastErr, s.lastAt = s.words(gap), time.Now()
		s.mu.Unlock()
		s.logger.Error("gap: all tables are read anew", "error", s.words(gap))
		return s.dropMark(ctx)
	})
	if err != nil {
		return err
	}
	s.keep(0, "")
	if again {
		s.mu.Lock()
		s.halted, s.failures, s.retryAt = false, 0, time.Time{}
		s.mu.Unlock()
		s.signal()
	}
	return nil
}

// about writes a number of bytes for people.
func about(n int64) string {
	if n < 1<<30 {
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}

// renew lets the server forget what it keeps, and the source read anew only the tables that this concerns. It reports
// whether it could; what it could not, the caller does for all tables. The source stands still.
func (s *source) renew(ctx context.Context, env connectors.Env, gap error) bool {
	renewer, ok := s.config.Guard.(connectors.Renewer)
	if !ok {
		return false
	}
	producer, mark, err := s.p.journal.Producer(ctx, s.name)
	if err != nil {
		s.logger.Warn("find the tables that the gap concerns", "error", s.words(err))
		return false
	}
	var tables []string
	if mark != nil {
		look, cancel := context.WithTimeout(ctx, renewTime)
		mark, tables, err = renewer.Renew(look, env, mark, int64(s.config.Retain.Max)/2)
		cancel()
		if err == nil {
			err = producer.Commit(ctx, mark)
		}
	}
	known := mark != nil && err == nil
	if err = errors.Join(err, producer.Close(context.WithoutCancel(ctx))); err != nil {
		s.logger.Warn("find the tables that the gap concerns", "error", s.words(err))
	}
	if !known {
		return false
	}
	s.mu.Lock()
	s.lastErr, s.lastAt = s.words(fmt.Errorf("%w: it reads these tables anew: %s", gap, cmp.Or(strings.Join(tables, ", "), "none, as nothing changed in its tables"))), time.Now()
	text := s.lastErr
	s.mu.Unlock()
	s.logger.Error("gap: the tables that it concerns are read anew", "error", text)
	return true
}
