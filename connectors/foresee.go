package connectors

import (
	"context"
	"strings"
)

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

// ForeseeTable says what a sink would do about a table of its target. wanted is the table of the source, nil for one of
// the sink's own; there says that the target has it, has that it has a column. A wider type is not foreseen.
func ForeseeTable(name string, wanted *Table, there bool, add Follow, has func(column string) bool) Effect {
	e := Effect{Kind: "table", Name: name, Action: Keep}
	switch {
	case !there && wanted != nil && add != Evolve && add != Lenient:
		e.Detail = "it is not there, and with schema: " + string(add) + " it is not made"
	case !there:
		e.Action = Create
	case wanted != nil && add == Evolve:
		var missing []string
		for _, c := range wanted.Columns {
			if !has(c.Name) {
				missing = append(missing, c.Name)
			}
		}
		if len(missing) > 0 {
			e.Action, e.Detail = Alter, "adds "+strings.Join(missing, ", ")
		}
	}
	return e
}
