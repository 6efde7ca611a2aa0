package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Error is one finding in a configuration file.
type Error struct {
	File    string `json:"file"`
	Line    int    `json:"line"`           // from 1; 0: the file as a whole
	Path    string `json:"path"`           // sources.shop.tables[1].cursor; empty: the file as a whole
	Problem string `json:"problem"`        // never holds an inserted value
	Hint    string `json:"hint,omitempty"` // the nearest valid name
}

func (e Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d", e.Line)
	}
	b.WriteString(": ")
	if e.Path != "" {
		b.WriteString(e.Path + ": ")
	}
	b.WriteString(e.Problem)
	if e.Hint != "" {
		fmt.Fprintf(&b, "; did you mean %q?", e.Hint)
	}
	return b.String()
}

// Errors is everything that is wrong with a file, in the order of its lines.
type Errors []Error

// Error gives each finding a line of its own.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i := range e {
		lines[i] = e[i].Error()
	}
	return strings.Join(lines, "\n")
}

// sorted returns the findings by line, each once.
func (e Errors) sorted() Errors {
	slices.SortStableFunc(e, func(a, b Error) int { return cmp.Compare(a.Line, b.Line) })
	seen := make(map[Error]bool, len(e))
	return slices.DeleteFunc(e, func(x Error) bool {
		known := seen[x]
		seen[x] = true
		return known
	})
}
