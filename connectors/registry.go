package connectors

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Registry is the set of connectors that a program knows, by type name.
type Registry map[string]Connector

// NewRegistry is called once, in main. Two connectors of one name, or one without a name or a role, are an error.
func NewRegistry(list ...Connector) (Registry, error) {
	r := make(Registry, len(list))
	for _, c := range list {
		if c.Name == "" {
			return nil, errors.New("register connector: no name")
		}
		if c.Source == nil && c.Sink == nil {
			return nil, fmt.Errorf("register connector %q: neither source nor sink", c.Name)
		}
		if _, ok := r[c.Name]; ok {
			return nil, fmt.Errorf("register connector %q: registered twice", c.Name)
		}
		r[c.Name] = c
	}
	return r, nil
}

// Names returns the type names in order.
func (r Registry) Names() []string { return slices.Sorted(maps.Keys(r)) }

// NewSink returns a connector that is a sink, alone unless AddSource makes it more. decode fills in the defaults and what the configuration says; open and
// check get what it returned.
func NewSink[C any](name string, decode func(Decode) (*C, error), open func(context.Context, *C, Env) (Sink, error),
	check func(context.Context, *C, Env) ([]Finding, error)) Connector {
	return Connector{
		Name: name,
		Sink: func(d Decode) (OpenSink, error) {
			c, err := decode(d)
			if err != nil {
				return nil, err
			}
			return func(ctx context.Context, env Env) (Sink, error) { return open(ctx, c, env) }, nil
		},
		CheckSink: func(d Decode) (Check, error) {
			c, err := decode(d)
			if err != nil {
				return nil, err
			}
			return func(ctx context.Context, env Env) ([]Finding, error) { return check(ctx, c, env) }, nil
		},
	}
}

// AddSource returns the connector with the role of a source too.
func AddSource[C any](c Connector, decode func(Decode) (*C, error), open func(context.Context, *C, Env, Position) (Source, error),
	check func(context.Context, *C, Env) ([]Finding, error)) Connector {
	c.Source = func(d Decode) (OpenSource, error) {
		settings, err := decode(d)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, env Env, from Position) (Source, error) {
			return open(ctx, settings, env, from)
		}, nil
	}
	c.CheckSource = func(d Decode) (Check, error) {
		settings, err := decode(d)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, env Env) ([]Finding, error) { return check(ctx, settings, env) }, nil
	}
	return c
}
