package pipeline

import (
	"context"
	"fmt"
	"slices"

	"github.com/trunkline/trunkline/log"
)

// SourcesGroup is the group in which the processes that share a log share out its sources.
const SourcesGroup = log.InternalPrefix + "sources"

// shareSources lets the log decide which sources this process runs, if it is one that several processes share. The
// function that it returns ends that; by then every source must stand still.
func (p *Pipeline) shareSources(ctx context.Context) (leave func(), err error) {
	leaser, ok := p.journal.(log.Leaser)
	if !ok || len(p.roster().sources) == 0 {
		return func() {}, nil
	}
	o := log.LeaseOptions{Group: SourcesGroup}
	for _, s := range p.roster().sources {
		s.mu.Lock()
		s.away = true
		s.set(Standby, "waits for its turn")
		s.mu.Unlock()
		o.Names = append(o.Names, s.name)
	}
	o.Granted = func(name string) {
		p.followPauses(ctx) // another process may have been told
		p.source(name).grant()
	}
	o.Revoked = func(ctx context.Context, name string) { p.source(name).yield(ctx) }
	leases, err := leaser.Leases(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("share sources with other processes: %w", err)
	}
	return func() {
		if err := leases.Close(context.WithoutCancel(ctx)); err != nil {
			p.o.Logger.Warn("left the sources to others late", "error", err)
		}
	}, nil
}

// source returns the source of that name. Reload keeps the names on a cluster, so there is one.
func (p *Pipeline) source(name string) *source {
	sources := p.roster().sources
	return sources[slices.IndexFunc(sources, func(s *source) bool { return s.name == name })]
}
