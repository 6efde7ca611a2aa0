package transform

import (
	"errors"
	"fmt"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/pipeline/spelling"
)

// Problem is what a step would not do. Path begins with transforms[N].
type Problem struct {
	Path, Problem string
	Hint          string // the nearest name
}

// Scoped reports whether a step names its tables.
func (s *Step) Scoped() bool {
	k, _ := s.of()
	return k == nil || len(k.scope()) > 0
}

// Name returns the name of the step's kind.
func (s *Step) Name() string {
	_, name := s.of()
	return name
}

// Check holds steps against the tables that are known, each in its newest version. A step that names its tables has to
// fit each one that is among them; every column that another step names has to be in one table at least.
func Check(steps []Step, tables []*connectors.Table) []Problem {
	var found []Problem
	all := true // no table is missing whose shape depends on rows
	for i := range steps {
		k, name := steps[i].of()
		if k == nil {
			continue
		}
		s := &scrutiny{kind: k, path: fmt.Sprintf("transforms[%d].%s", i, name)}
		if len(k.scope()) == 0 && all && len(tables) > 0 {
			s.anywhere(tables)
		}
		var next []*connectors.Table
		for _, t := range tables {
			if len(s.found) > 0 || !concerns(k, t) {
				next = append(next, t)
				continue
			}
			if out := s.one(t); out != nil {
				next = append(next, out)
			} else {
				all = false
			}
		}
		tables = next
		found = append(found, s.found...)
	}
	return found
}

// scrutiny is the check of one step.
type scrutiny struct {
	kind
	path  string
	found []Problem
}

// anywhere looks for columns that no table has.
func (s *scrutiny) anywhere(tables []*connectors.Table) {
	for _, c := range s.columns() {
		var names []string
		has := false
		for _, t := range tables {
			has = has || t.Column(c.name) >= 0
			for _, column := range t.Columns {
				names = append(names, column.Name)
			}
		}
		if !has {
			problem := fmt.Sprintf("no table has a column %q", c.name)
			if len(tables) == 1 {
				problem = fmt.Sprintf("table %s has no column %q", tables[0].FullName(), c.name)
			}
			s.found = append(s.found, Problem{s.path + "." + c.key, problem, spelling.Nearest(c.name, names)})
		}
	}
}

// one binds the step to a table and returns what comes out, nil if that cannot be known.
func (s *scrutiny) one(t *connectors.Table) *connectors.Table {
	if len(s.scope()) > 0 {
		before := len(s.found)
		for _, c := range s.columns() {
			if t.Column(c.name) < 0 {
				missing := &columnError{t, c.name}
				s.found = append(s.found, Problem{s.path + "." + c.key, fmt.Sprintf("table %s has no column %q", t.FullName(), c.name), missing.hint()})
			}
		}
		if len(s.found) > before {
			return t
		}
	}
	_, out, err := s.bind(t)
	if err == nil {
		return out
	}
	problem := Problem{Path: s.path, Problem: err.Error()}
	var missing *columnError
	if errors.As(err, &missing) {
		problem.Problem, problem.Hint = fmt.Sprintf("table %s has no column %q", missing.Table.FullName(), missing.Column), missing.hint()
	}
	s.found = append(s.found, problem)
	return t
}
