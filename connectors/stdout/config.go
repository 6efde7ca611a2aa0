package stdout

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/trunkline/trunkline/connectors"
)

// Format is how a change is shown.
type Format string

// The formats.
const (
	Line  Format = "line"
	JSONL Format = "jsonl"
)

// Config is the settings of a sink of type stdout.
type Config struct {
	Format Format `yaml:"format"` // line | jsonl; line
}

// Validate checks the settings.
func (c *Config) Validate() error {
	if c.Format != Line && c.Format != JSONL {
		return fmt.Errorf("format %q is not one of line, jsonl", c.Format)
	}
	return nil
}

// Connector returns the type stdout.
func Connector() connectors.Connector { return To(os.Stdout) }

// To returns the type stdout with another place to write to.
func To(w io.Writer) connectors.Connector {
	return connectors.Connector{
		Name: "stdout",
		Sink: func(decode connectors.Decode) (connectors.OpenSink, error) {
			c := &Config{Format: Line}
			if err := decode(c); err != nil {
				return nil, err
			}
			return func(ctx context.Context, _ connectors.Env) (connectors.Sink, error) {
				return &sink{out: w, format: c.Format}, ctx.Err()
			}, nil
		},
	}
}
