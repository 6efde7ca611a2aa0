package conformance

import (
	"os"
	"strings"
	"testing"
)

// DocumentedStatements returns the statements of the first block of SQL in a page, so that a test can show that the
// rights that the page lists are enough. Pairs of words are replaced on the way: the page's names by the test's.
func DocumentedStatements(t *testing.T, page string, replace ...string) []string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, begun := strings.Cut(string(text), "```sql\n")
	block, _, ended := strings.Cut(rest, "```")
	if !begun || !ended {
		t.Fatalf("%s has no block of SQL", page)
	}
	var out []string
	for statement := range strings.SplitSeq(strings.NewReplacer(replace...).Replace(block), ";") {
		if statement = strings.TrimSpace(statement); statement != "" {
			out = append(out, statement)
		}
	}
	return out
}
