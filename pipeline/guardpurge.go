package pipeline

import (
	"context"
	"errors"
	"fmt"

	"github.com/trunkline/trunkline/connectors"
)

// inspectPurging is one look at a server that forgets by its own rules. Nothing can be released there: it is said how much
// is still to be read, and when what comes next is what the server purges next.
func (s *source) inspectPurging(ctx context.Context, g connectors.Purging, env connectors.Env) {
	at := s.ingest.Durable()
	if at == nil {
		at = s.restingMark(ctx)
	}
	if at == nil {
		s.keep(0, "")
		return
	}
	look, cancel := context.WithTimeout(ctx, guardTime)
	defer cancel()
	ahead, err := g.Ahead(look, env, at)
	if err != nil {
		s.keep(s.retained(), "")
		return // the source itself says what is wrong with its server
	}
	s.keep(ahead.Bytes, s.purgeWords(ahead))
}

// purgeWords says what a person should know, "" for nothing.
func (s *source) purgeWords(a connectors.Ahead) string {
	limit := int64(s.config.Retain.Max)
	unread := fmt.Sprintf("%s of change log on the server are still to be read", about(a.Bytes))
	switch {
	case a.Purged:
		return "the server has purged what comes next: the source stands before a gap, and trunkline resync " + s.name + " reads its tables anew"
	case a.Older == 0 && a.Newer > 0:
		return fmt.Sprintf("%s, and the oldest of its %d files is where the source stands: what the server purges next is what it needs; let it run, or let the server keep its log longer", unread, a.Newer+1)
	case a.Bytes >= limit:
		return fmt.Sprintf("%s, more than max_retained, %s: the server purges by its own rules, and then the source stands before a gap", unread, s.config.Retain.Max)
	case a.Bytes >= limit/2:
		return fmt.Sprintf("%s, more than half of max_retained, %s", unread, s.config.Retain.Max)
	}
	return ""
}

// restingMark reads the mark of a source that was paused before this process began, and has not been open here. To open its
// producer would fence one at work, so it is done while the source stands still.
func (s *source) restingMark(ctx context.Context) connectors.Position {
	s.mu.Lock()
	rests := s.paused && s.cancel == nil && s.alive
	s.mu.Unlock()
	if !rests {
		return nil
	}
	var at connectors.Position
	err := s.between(ctx, func(ctx context.Context) error {
		producer, mark, err := s.p.journal.Producer(ctx, s.name)
		if err != nil {
			return err
		}
		at = mark
		return producer.Close(context.WithoutCancel(ctx))
	})
	if err != nil {
		if !errors.Is(err, ErrNotRunning) && ctx.Err() == nil {
			s.logger.Warn("read the position of the paused source", "error", s.words(err))
		}
		return nil
	}
	return at
}
