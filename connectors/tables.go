package connectors

import (
	"errors"
	"fmt"
	"path"
	"strings"
)

// TableSpec is an entry of tables: in the configuration, a name or glob alone or an object.
type TableSpec struct {
	Name    string   `yaml:"name"`    // schema.table; * and ? are wildcards
	Cursor  string   `yaml:"cursor"`  // mode timestamp: the column that grows
	Key     []string `yaml:"key"`     // default: the primary key
	Columns []string `yaml:"columns"` // default: all
	Where   string   `yaml:"where"`   // an SQL condition
	Topic   string   `yaml:"topic"`   // default: by the source's template
	Query   string   `yaml:"query"`   // mode timestamp: an SQL query that stands for the table; cursor and key name columns of its result
}

// UnmarshalText lets a table be written as its name alone.
func (s *TableSpec) UnmarshalText(text []byte) error {
	s.Name = string(text)
	return nil
}

// Validate checks the pattern.
func (s *TableSpec) Validate() error {
	if s.Name == "" {
		return errors.New("name is missing")
	}
	if _, err := path.Match(s.Name, ""); err != nil {
		return fmt.Errorf("name %q: not a valid pattern", s.Name)
	}
	return nil
}

// Subquery is Query as it stands after FROM, with the alias q. A comment at its end does not reach beyond it, and a semicolon
// is left out.
func (s *TableSpec) Subquery() string {
	return "(" + strings.TrimRight(s.Query, "; \t\r\n") + "\n) AS q"
}

// RefusedWhere is the finding that the database does not take the condition of spec, which is one of tables, for a table.
func RefusedWhere(tables []TableSpec, spec *TableSpec, subject, problem string) Finding {
	f := Finding{Severity: Fatal, Subject: subject, Problem: "has a condition that cannot be read: " + problem, Remedy: "correct where, or leave it out"}
	for i := range tables {
		if &tables[i] == spec {
			f.Key = fmt.Sprintf("tables[%d].where", i)
		}
	}
	return f
}

// Matches reports whether the full name (schema.table, or table alone) fits the pattern. * and ? also match a dot.
func (s *TableSpec) Matches(full string) bool { return MatchName(s.Name, full) }

// MatchName matches a name against a pattern in which * stands for any run of characters and ? for one. Every other
// character stands for itself.
func MatchName(pattern, name string) bool {
	p, n, star, mark := 0, 0, -1, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == name[n]) && pattern[p] != '*':
			p++
			n++
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, n
			p++
		case star >= 0:
			p = star + 1
			mark++
			n = mark
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}
