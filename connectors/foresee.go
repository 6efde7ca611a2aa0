package connectors

import "context"

// Action is what would happen to a thing.
type Action string

// The actions, from the loudest to the quietest.
const (
	Create Action = "create"
	Alter  Action = "change"
	Leave  Action = "leave" // it stays, and nothing uses it any more
	Keep   Action = "keep"
)

// Effect is one thing in a system that a source or a sink needs there, and what opening it would do about it.
type Effect struct {
	Kind   string // slot, publication, table …
	Name   string
	Action Action
	Detail string // in words; may be empty
}

// Foresee connects, looks, changes nothing, and says what opening would change. tables are those that a sink would write;
// a source finds its own.
type Foresee func(ctx context.Context, env Env, tables []*Table) ([]Effect, error)
