package tokenizer

import "testing"

// TestLongestFirst: what the library leaves of two texts of so many tokens.
func TestLongestFirst(t *testing.T) {
	for _, c := range [][5]int{{11, 10, 9, 4, 5}, {10, 11, 9, 4, 5}, {15, 5, 5, 2, 3}, {15, 5, 7, 4, 3},
		{5, 15, 7, 3, 4}, {31, 8, 7, 3, 4}, {31, 8, 9, 5, 4}, {6, 5, 9, 5, 4}, {12, 0, 5, 5, 0}} {
		if n, m := longestFirst(c[0], c[1], c[2]); n != c[3] || m != c[4] {
			t.Errorf("%d and %d in %d: got %d and %d, want %d and %d", c[0], c[1], c[2], n, m, c[3], c[4])
		}
	}
}
