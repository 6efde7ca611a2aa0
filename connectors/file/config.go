package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/rowfile"
)

// Layout is how the folders below the path are named.
type Layout string

// The layouts.
const (
	Plain Layout = "plain" // TOPIC/PARTITION
	Hive  Layout = "hive"  // topic=TOPIC/partition=N/date=DAY
)

// Config is the settings of a sink of type file.
type Config struct {
	rowfile.Settings `yaml:",inline"`
	Path             string          `yaml:"path"`   // the directory; made when missing
	Roll             connectors.Size `yaml:"roll"`   // files below this size are merged; 0: never; 64MiB
	Layout           Layout          `yaml:"layout"` // plain | hive; plain
}

// Connector returns the type file.
func Connector() connectors.Connector {
	c := connectors.AddSource(connectors.NewSink("file", decodeSink, open, check), decodeSource, openSource, checkSource)
	c.SinkBatch.BatchRows = 50_000 // each batch is a file, which is synced, and merged with others later
	return c
}

func decodeSink(decode connectors.Decode) (*Config, error) {
	c := &Config{Roll: 64 << 20}
	return c, decode(c)
}

// check looks whether the directory can be the sink's.
func check(_ context.Context, c *Config, env connectors.Env) ([]connectors.Finding, error) {
	refuse := func(problem, remedy string) ([]connectors.Finding, error) {
		return []connectors.Finding{{Severity: connectors.Fatal, Subject: c.Path, Problem: problem, Remedy: remedy}}, nil
	}
	info, err := os.Stat(c.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return []connectors.Finding{{Severity: connectors.Info, Subject: c.Path, Problem: "the directory does not exist and will be made"}}, nil
	case err != nil:
		return nil, fmt.Errorf("look at %s: %w", c.Path, err)
	case !info.IsDir():
		return refuse("it is not a directory", "set path to a directory of the sink's own")
	}
	o, err := readOwner(c.Path)
	if err != nil {
		return nil, err
	}
	if o.Group != "" && o.Group != env.Group {
		return refuse(fmt.Sprintf("it belongs to group %q", o.Group), "give each sink a path of its own")
	}
	return nil, nil
}

// Validate checks the settings.
func (c *Config) Validate() error {
	var errs []error
	if c.Path == "" {
		errs = append(errs, errors.New("path is missing"))
	}
	if err := c.Settings.Validate(); err != nil {
		errs = append(errs, err)
	}
	if c.Layout == "" {
		c.Layout = Plain
	}
	if c.Layout != Plain && c.Layout != Hive {
		errs = append(errs, fmt.Errorf("layout %q is not one of plain, hive", c.Layout))
	}
	if c.Roll < 0 {
		errs = append(errs, errors.New("roll must not be negative"))
	}
	return errors.Join(errs...)
}
