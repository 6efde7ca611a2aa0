// Package spelling finds the name that was meant.
//
// It promises a hint that is near enough to be a slip of the finger, or none. Packages config and transform call it for
// keys and for columns.
package spelling

import "strings"

// Nearest returns the valid name that is fewest edits away from name, empty if all are too far to be meant.
func Nearest(name string, valid []string) string {
	best, bestDistance := "", max(2, (len(name)+2)/3)+1
	for _, v := range valid {
		if d := editDistance(strings.ToLower(name), strings.ToLower(v)); d < bestDistance {
			best, bestDistance = v, d
		}
	}
	if best != "" && bestDistance < len(best) {
		return best
	}
	// batch_size is batch with a word too many; anything else that far away is a coincidence.
	for _, v := range valid {
		if strings.HasPrefix(name, v+"_") {
			return v
		}
	}
	return ""
}

// editDistance counts insertions, deletions, substitutions and swaps of neighbours (optimal string alignment).
func editDistance(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
