package connectors

import "strings"

// Plan is what makes a target fit a version of its table, as far as the settings let a sink change it. The zero value has
// nothing to do.
type Plan struct {
	Steps    []Step   // in order
	Warnings []string // what is left as it is, for people

	problem string   // why a person has to act, the first reason
	frozen  []string // with these statements
}

// Step is one statement, and what it is for.
type Step struct{ What, Statement string }

// Follow takes a difference into the plan as the policy says, and reports whether the target will have it,
// by itself or because a person sees to it.
func (p *Plan) Follow(f Follow, what string, statements ...string) bool {
	switch f {
	case Evolve:
		for _, s := range statements {
			p.Steps = append(p.Steps, Step{what, s})
		}
		return true
	case Freeze:
		p.freeze(what+", and schema is freeze", statements)
		return true
	case Lenient:
		p.Warnings = append(p.Warnings, what+"; the target is left as it is (schema is lenient)")
	}
	return false
}

// Create plans a target that does not exist. Without one nothing can be written, so no policy leaves it out silently.
func (p *Plan) Create(f Follow, statements ...string) {
	switch f {
	case Lenient:
		f = Evolve
	case Ignore:
		p.freeze("it does not exist, and schema is ignore", statements)
		return
	}
	p.Follow(f, "it does not exist", statements...)
}

func (p *Plan) freeze(problem string, statements []string) {
	if p.problem == "" {
		p.problem = problem
	}
	p.frozen = append(p.frozen, statements...)
}

// Err returns what is left to a person as a SchemaError, nil if that is nothing.
func (p *Plan) Err(target string) error {
	if len(p.frozen) == 0 {
		return nil
	}
	return &SchemaError{Target: target, Problem: p.problem, Statement: strings.Join(p.frozen, "; ")}
}
