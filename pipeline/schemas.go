package pipeline

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/pipeline/codec"
	"github.com/trunkline/trunkline/pipeline/registry"
)

// Registry returns the handler of the schema registry in the log, which is there whether this pipeline uses it or not.
func (p *Pipeline) Registry() http.Handler { return p.registry.Handler() }

// registrar returns what gives ids to the schemas of topics: the registry that the configuration names, or the one in the
// log. What a registry refuses, no second try helps.
func (p *Pipeline) registrar() func(ctx context.Context, subject string, s codec.RegistrySchema) (int32, error) {
	return func(ctx context.Context, subject string, s codec.RegistrySchema) (int32, error) {
		schema := registry.Schema{Type: s.Type, Text: s.Text}
		if c := p.Config().Registry; c.URL != "" {
			client := &registry.Client{URL: c.URL, User: c.User, Password: c.Password, Token: c.Token}
			return client.Register(ctx, subject, schema)
		}
		id, err := p.registry.Register(ctx, subject, schema)
		var refused *registry.Error
		if errors.As(err, &refused) {
			return 0, fmt.Errorf("register schema of %s: %w: %w", subject, err, connectors.ErrFatal)
		}
		return id, err
	}
}
