package cases

import (
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/trunkline/trunkline/connectors"
)

// expectation writes the expected changes as lines, with the types of what came.
func (c *Case) expectation(out []connectors.Change) []string {
	var lines []string
	for i := range c.Out {
		var t *connectors.Table
		if i < len(out) {
			t = out[i].Table
		}
		lines = append(lines, c.Out[i].lines(t)...)
	}
	for _, part := range c.Refused {
		lines = append(lines, "refused: "+part)
	}
	return lines
}

// actual writes what came as lines; where something is expected, only what it says something about.
func (c *Case) actual(out []connectors.Change, refused []string) []string {
	var lines []string
	for i := range out {
		var e *Event
		if i < len(c.Out) {
			e = &c.Out[i]
		}
		lines = append(lines, linesOf(&out[i], e)...)
	}
	for _, reason := range refused {
		lines = append(lines, "refused: "+reason)
	}
	return lines
}

func (e *Event) lines(t *connectors.Table) []string {
	head := string(e.op().Code())
	if e.Table != "" {
		head += " " + e.Table
	}
	if e.Topic != "" {
		head += " to topic " + e.Topic
	}
	if e.Time != "" {
		head += " at " + e.Time
	}
	lines := []string{head}
	for _, image := range []struct {
		name string
		row  yaml.Node
	}{{"before", e.Before}, {"after", e.After}} {
		if image.row.Kind == yaml.MappingNode {
			lines = append(lines, "  "+image.name+":")
			for i := 0; i+1 < len(image.row.Content); i += 2 {
				lines = append(lines, "    "+image.row.Content[i].Value+": "+expected(t, image.row.Content[i].Value, image.row.Content[i+1]))
			}
		}
	}
	return lines
}

// expected writes one value as the column's kind has it. Without a column it can only be what was written.
func expected(t *connectors.Table, name string, n *yaml.Node) string {
	if t != nil {
		if i := t.Column(name); i >= 0 {
			if v, err := value(t.Columns[i], n); err == nil {
				return show(v)
			}
		}
	}
	if n.Kind == yaml.ScalarNode {
		return n.Value
	}
	text, err := appendJSON(nil, n)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func show(v connectors.Value) string {
	if v.IsAbsent() {
		return "(not carried)"
	}
	return string(connectors.AppendJSON(nil, v))
}

// linesOf writes a change. e is what is expected in its place, nil for nothing.
func linesOf(c *connectors.Change, e *Event) []string {
	head := string(c.Op.Code())
	if e == nil || e.Table != "" {
		head += " " + c.Table.FullName()
	}
	if e != nil && e.Topic != "" {
		head += " to topic " + c.Table.Topic
	}
	if e != nil && e.Time != "" {
		head += " at " + c.Time.UTC().Format("2006-01-02T15:04:05.999999999Z")
	}
	lines := []string{head}
	var before, after yaml.Node
	if e != nil {
		before, after = e.Before, e.After
	}
	if e == nil || before.Kind == yaml.MappingNode {
		lines = append(lines, imageLines("before", c.Table, c.Before, before)...)
	}
	if e == nil || after.Kind == yaml.MappingNode || c.After != nil {
		lines = append(lines, imageLines("after", c.Table, c.After, after)...)
	}
	return lines
}

// imageLines writes the columns in the order in which they are expected, then those that hold something beyond that.
func imageLines(name string, t *connectors.Table, row []connectors.Value, like yaml.Node) []string {
	if row == nil {
		return nil
	}
	lines := []string{"  " + name + ":"}
	named := map[string]bool{}
	for i := 0; i+1 < len(like.Content); i += 2 {
		column := like.Content[i].Value
		named[column] = true
		if at := t.Column(column); at >= 0 {
			lines = append(lines, fmt.Sprintf("    %s: %s", column, show(row[at])))
		}
	}
	for i, c := range t.Columns {
		if !named[c.Name] && !row[i].IsAbsent() && !row[i].IsNull() {
			lines = append(lines, fmt.Sprintf("    %s: %s", c.Name, show(row[i])))
		}
	}
	return lines
}

// diff returns the lines of both with a sign in front, empty if they are the same.
func diff(want, got []string) string {
	// longest[i][j] is the length of the longest common part of want[i:] and got[j:].
	longest := make([][]int, len(want)+1)
	for i := range longest {
		longest[i] = make([]int, len(got)+1)
	}
	for i := len(want) - 1; i >= 0; i-- {
		for j := len(got) - 1; j >= 0; j-- {
			if want[i] == got[j] {
				longest[i][j] = longest[i+1][j+1] + 1
			} else {
				longest[i][j] = max(longest[i+1][j], longest[i][j+1])
			}
		}
	}
	var out strings.Builder
	same, i, j := true, 0, 0
	for i < len(want) || j < len(got) {
		switch {
		case i < len(want) && j < len(got) && want[i] == got[j]:
			fmt.Fprintf(&out, "  %s\n", want[i])
			i, j = i+1, j+1
		case j >= len(got) || i < len(want) && longest[i+1][j] >= longest[i][j+1]:
			fmt.Fprintf(&out, "- %s\n", want[i])
			same, i = false, i+1
		default:
			fmt.Fprintf(&out, "+ %s\n", got[j])
			same, j = false, j+1
		}
	}
	if same {
		return ""
	}
	return out.String()
}
