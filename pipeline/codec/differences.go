package codec

import (
	"fmt"
	"slices"
	"strings"

	"github.com/trunkline/trunkline/connectors"
)

// Differences says in words what a version of a table's schema changed against the one before. A rename shows as such
// where the source tells columns apart.
func Differences(from, to *connectors.Table) []string {
	out := []string{}
	if from.FullName() != to.FullName() {
		out = append(out, fmt.Sprintf("table %s is now %s", from.FullName(), to.FullName()))
	}
	before := func(c connectors.Column) *connectors.Column {
		i := -1
		if c.ID != 0 && from.ID == to.ID {
			i = slices.IndexFunc(from.Columns, func(o connectors.Column) bool { return o.ID == c.ID })
		} else {
			i = from.Column(c.Name)
		}
		if i < 0 {
			return nil
		}
		return &from.Columns[i]
	}
	kept := map[string]bool{}
	for _, c := range to.Columns {
		old := before(c)
		if old == nil {
			out = append(out, fmt.Sprintf("column %s %s added", c.Name, c.Type))
			continue
		}
		kept[old.Name] = true
		out = append(out, changed(*old, c)...)
	}
	for _, c := range from.Columns {
		if !kept[c.Name] {
			out = append(out, fmt.Sprintf("column %s %s dropped", c.Name, c.Type))
		}
	}
	if a, b := keyNames(from), keyNames(to); a != b {
		out = append(out, fmt.Sprintf("key (%s) is now (%s)", a, b))
	}
	if len(out) == 0 {
		out = append(out, "only details that the database keeps for itself, or the order of the columns")
	}
	return out
}

// changed compares two versions of one column.
func changed(from, to connectors.Column) (out []string) {
	if from.Name != to.Name {
		out = append(out, fmt.Sprintf("column %s is now %s", from.Name, to.Name))
	}
	if from.Type != to.Type {
		out = append(out, fmt.Sprintf("column %s: %s is now %s", to.Name, from.Type, to.Type))
	}
	switch {
	case to.NotNull && !from.NotNull:
		out = append(out, fmt.Sprintf("column %s: takes no null any more", to.Name))
	case from.NotNull && !to.NotNull:
		out = append(out, fmt.Sprintf("column %s: may be null", to.Name))
	}
	if !slices.Equal(from.Labels, to.Labels) {
		out = append(out, fmt.Sprintf("column %s: labels (%s) are now (%s)", to.Name, strings.Join(from.Labels, ", "), strings.Join(to.Labels, ", ")))
	}
	return out
}

func keyNames(t *connectors.Table) string {
	var names []string
	for _, i := range t.Key {
		names = append(names, t.Columns[i].Name)
	}
	return strings.Join(names, ", ")
}
