package strict

import "strings"

// Nearest returns the choice with the fewest edits from s: what a mistyped word was likely meant to be.
func Nearest(s string, choices []string) string {
	best, fewest := "", 1<<30
	for _, c := range choices {
		if d := edits(strings.ToLower(s), strings.ToLower(c)); d < fewest {
			best, fewest = c, d
		}
	}
	return best
}

// edits returns the Levenshtein distance.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			next := min(row[j+1], row[j]) + 1
			if a[i] == b[j] {
				next = min(next, diagonal)
			} else {
				next = min(next, diagonal+1)
			}
			diagonal, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}
