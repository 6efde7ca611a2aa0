package config

import (
	"fmt"
	"strings"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/pipeline/transform"
)

// scoped makes sure that every step of a source says which tables it is for: without that, a misspelt column would let
// into the log what was never to be there.
func (d *decoder) scoped(path string, steps []transform.Step) {
	for i := range steps {
		if !steps[i].Scoped() {
			at := fmt.Sprintf("%s.transforms[%d].%s", path, i, steps[i].Name())
			d.fail(d.lines[at], at, "tables is missing: on a source a step says which tables it is for, so that no misspelt column passes into the log")
		}
	}
}

// CheckTransforms holds the transforms of every source and sink against the tables that are known, each in its newest
// version: of a source those that it reads, of a sink those in its topics. The error is Errors.
func (c Config) CheckTransforms(sources, sinks func(name string) []*connectors.Table) error {
	var errs Errors
	check := func(path string, steps []transform.Step, tables []*connectors.Table) {
		for _, p := range transform.Check(steps, tables) {
			at := path + "." + p.Path
			errs = append(errs, Error{File: c.Path, Line: c.line(at), Path: at, Problem: p.Problem, Hint: p.Hint})
		}
	}
	for _, s := range c.Sources {
		check(join("sources", s.Name), s.Transforms, sources(s.Name))
	}
	for _, s := range c.Sinks {
		check(join("sinks", s.Name), s.Transforms, sinks(s.Name))
	}
	if len(errs) == 0 {
		return nil
	}
	return errs.sorted()
}

// Line returns the line of a key of a source or sink, as a connectors.Finding names it; 0 for no key.
func (c Config) Line(role, name, key string) int {
	if key == "" {
		return 0
	}
	return c.line(join(join(role+"s", name), key))
}

// line returns the line of a path, or of the nearest thing around it that has one.
func (c Config) line(path string) int {
	for path != "" {
		if line, ok := c.lines[path]; ok {
			return line
		}
		path = path[:max(strings.LastIndexByte(path, '.'), strings.LastIndexByte(path, '['), 0)]
	}
	return 0
}
