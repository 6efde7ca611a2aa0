package exec

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/document"
)

// Program says what to run.
type Program struct {
	Command     []string          `yaml:"command"`     // the program and its arguments
	Dir         string            `yaml:"dir"`         // where it runs; where Trunkline runs
	Environment map[string]string `yaml:"environment"` // on top of Trunkline's own
}

func (p *Program) validate() error {
	if len(p.Command) == 0 || p.Command[0] == "" {
		return errors.New("command is missing: a list of the program and its arguments")
	}
	return nil
}

// check looks for the program, and does not run it.
func (p *Program) check() []connectors.Finding {
	if _, err := exec.LookPath(p.Command[0]); err != nil && p.Dir == "" {
		return []connectors.Finding{{Severity: connectors.Fatal, Subject: "command", Problem: fmt.Sprintf("no program: %v", err), Remedy: "install it, or set command to its path"}}
	}
	return nil
}

// SinkConfig is the settings of a sink of type exec.
type SinkConfig struct {
	Program `yaml:",inline"`
	Timeout time.Duration `yaml:"timeout"` // how long a batch may take; 5m
}

// SourceConfig is the settings of a source of type exec.
type SourceConfig struct {
	Program           `yaml:",inline"`
	document.Settings `yaml:",inline"`
	Table             string        `yaml:"table"`   // of lines that do not name theirs, table or schema.table; the name of the source
	Restart           time.Duration `yaml:"restart"` // how long after it ended well the program is started again; 10s
}

// Connector returns the type exec.
func Connector() connectors.Connector {
	return connectors.AddSource(connectors.NewSink("exec", decodeSink, open, checkSink), decodeSource, openSource, checkSource)
}

func checkSink(_ context.Context, c *SinkConfig, _ connectors.Env) ([]connectors.Finding, error) {
	return c.check(), nil
}

func checkSource(_ context.Context, c *SourceConfig, _ connectors.Env) ([]connectors.Finding, error) {
	return c.check(), nil
}

func decodeSink(decode connectors.Decode) (*SinkConfig, error) {
	c := &SinkConfig{Timeout: 5 * time.Minute}
	return c, decode(c)
}

func decodeSource(decode connectors.Decode) (*SourceConfig, error) {
	c := &SourceConfig{Restart: 10 * time.Second}
	return c, decode(c)
}

// Validate checks the settings.
func (c *SourceConfig) Validate() error {
	errs := []error{c.Program.validate(), c.Settings.Validate()}
	if c.Restart <= 0 {
		errs = append(errs, errors.New("restart must be above 0"))
	}
	return errors.Join(errs...)
}

// Validate checks the settings.
func (c *SinkConfig) Validate() error {
	errs := []error{c.Program.validate()}
	if c.Timeout <= 0 {
		errs = append(errs, errors.New("timeout must be above 0"))
	}
	return errors.Join(errs...)
}
