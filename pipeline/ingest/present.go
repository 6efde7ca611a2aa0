package ingest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/trunkline/trunkline/connectors"
)

// reachPoll is how often a source is asked how far it is.
const reachPoll = 50 * time.Millisecond

// ErrCannotTell is a source that does not know what its system's present end is.
var ErrCannotTell = errors.New("the source cannot tell when it has read everything")

// AwaitPresent returns once everything that the system had when it was called is durable in the log.
func (g *Ingest) AwaitPresent(ctx context.Context) error {
	g.mu.Lock()
	source := g.source
	g.mu.Unlock()
	if source == nil {
		return fmt.Errorf("wait for source %q: it is not connected; see trunkline status", g.o.Source)
	}
	f, ok := source.(connectors.Follower)
	if !ok {
		return ErrCannotTell
	}
	reached, err := f.Reach(ctx)
	if err != nil {
		return fmt.Errorf("wait for source %q: %w", g.o.Source, err)
	}
	ticker := time.NewTicker(reachPoll)
	defer ticker.Stop()
	for {
		g.mu.Lock()
		durable, same := g.durable, g.source == source
		g.mu.Unlock()
		if durable != nil && reached(durable) {
			return nil
		}
		if !same {
			return fmt.Errorf("wait for source %q: its connection ended meanwhile; try again", g.o.Source)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// Durable returns the newest position that is known to be durable; nil: not known, or none.
func (g *Ingest) Durable() connectors.Position {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.durable)
}

// Repair asks the open source to send single rows of a table again. keys hold the values of the key's columns.
func (g *Ingest) Repair(ctx context.Context, table string, keys [][]connectors.Value) error {
	g.mu.Lock()
	source := g.source
	g.mu.Unlock()
	if source == nil {
		return fmt.Errorf("repair %s of source %q: the source is not connected; resume it, or see trunkline status, and try again", table, g.o.Source)
	}
	r, ok := source.(connectors.Repairer)
	if !ok {
		return fmt.Errorf("repair %s of source %q: a source of type %s cannot send single rows again in this mode; trunkline resync %s/%s sends all of them",
			table, g.o.Source, g.o.Connector, g.o.Source, table)
	}
	return r.Repair(ctx, table, keys)
}
