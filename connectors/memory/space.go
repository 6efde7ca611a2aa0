// Package memory is a source and a sink that live in this process: the stand-in for a database wherever a test is about
// something else, and the smallest complete example of the contract.
//
// It promises to keep every rule of the contract, and to break them on demand: a Feed can fail, lose its position or
// pause, a Store can fail before or after its commit, hang, and refuse rows. What a Feed hands out is overwritten by the
// next Read, so that a caller who keeps a batch too long is found out. It promises no durability: what it holds ends with
// the process. Tests call it, and configurations of type memory, which name a feed or a store of a Space.
package memory

import (
	"context"
	"sync"

	"github.com/trunkline/trunkline/connectors"
)

// Space is a set of named feeds and stores. Its methods may be called from any goroutine.
type Space struct {
	mu     sync.Mutex
	feeds  map[string]*Feed
	stores map[string]*Store
}

// NewSpace returns an empty space.
func NewSpace() *Space {
	return &Space{feeds: make(map[string]*Feed), stores: make(map[string]*Store)}
}

// Feed returns the feed of that name and makes it on first use.
func (s *Space) Feed(name string) *Feed {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, ok := s.feeds[name]
	if !ok {
		f = NewFeed()
		s.feeds[name] = f
	}
	return f
}

// Store returns the store of that name and makes it on first use.
func (s *Space) Store(name string) *Store {
	s.mu.Lock()
	defer s.mu.Unlock()
	st, ok := s.stores[name]
	if !ok {
		st = NewStore()
		s.stores[name] = st
	}
	return st
}

// Connector returns the type memory over a space of its own.
func Connector() connectors.Connector { return NewSpace().Connector() }

// Connector returns the type memory whose sources and sinks are the feeds and stores of the space.
func (s *Space) Connector() connectors.Connector {
	return connectors.Connector{
		Name: "memory",
		Source: func(decode connectors.Decode) (connectors.OpenSource, error) {
			var c SourceConfig
			if err := decode(&c); err != nil {
				return nil, err
			}
			return func(ctx context.Context, env connectors.Env, from connectors.Position) (connectors.Source, error) {
				return s.Feed(either(c.Feed, env.Name)).Open(ctx, env, from)
			}, nil
		},
		Sink: func(decode connectors.Decode) (connectors.OpenSink, error) {
			var c SinkConfig
			if err := decode(&c); err != nil {
				return nil, err
			}
			return func(ctx context.Context, env connectors.Env) (connectors.Sink, error) {
				st := s.Store(either(c.Store, env.Name))
				if c.Plain {
					return st.OpenPlain(ctx, env)
				}
				return st.Open(ctx, env)
			}, nil
		},
	}
}

func either(name, fallback string) string {
	if name == "" {
		return fallback
	}
	return name
}
