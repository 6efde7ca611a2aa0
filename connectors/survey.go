package connectors

import (
	"cmp"
	"context"
	"slices"
	"strings"
)

// Survey lists what a source could read and what it needs for that. It connects, looks and changes nothing.
type Survey func(ctx context.Context, env Env) (Offer, error)

// Offer is what a database has.
type Offer struct {
	Tables []OfferedTable
	Grants []string // statements that make the user trunkline, with the rights that a source needs and no others
}

// OfferedTable is a table that a source could read.
type OfferedTable struct {
	Name    string // schema.table
	Rows    int64  // an estimate
	Key     []string
	Table   *Table   // with its columns, as a source would read it
	Cursors []string // columns that mode timestamp could follow, the likeliest first
}

// cursorNames are what columns are called that applications set at each change, the likeliest first.
var cursorNames = []string{"updated_at", "modified_at", "last_modified", "last_update", "updated", "modified", "changed_at", "mtime", "updatedat", "modifiedat"}

// LikelyCursors orders the columns that could be a cursor: those that applications set at each change by their usual names,
// then the other timestamps.
func LikelyCursors(t *Table) []string {
	rank := func(name string) int {
		if i := slices.Index(cursorNames, strings.ToLower(name)); i >= 0 {
			return i
		}
		return len(cursorNames)
	}
	var out []string
	for _, c := range t.Columns {
		if c.Kind == Timestamp || c.Kind == TimestampTZ || rank(c.Name) < len(cursorNames) {
			out = append(out, c.Name)
		}
	}
	slices.SortStableFunc(out, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	return out
}
