package grammar

import (
	"slices"
	"unicode/utf8"
)

// others returns the ranges of characters that are in none of the given.
func others(ranges []rune) (out []rune) {
	type pair struct{ lo, hi rune }
	var all []pair
	for i := 0; i+1 < len(ranges); i += 2 {
		all = append(all, pair{ranges[i], ranges[i+1]})
	}
	slices.SortFunc(all, func(a, b pair) int { return int(a.lo - b.lo) })
	next := rune(0)
	for _, r := range all {
		if r.lo > next {
			out = append(out, next, r.lo-1)
		}
		next = max(next, r.hi+1)
	}
	if next <= utf8.MaxRune {
		out = append(out, next, utf8.MaxRune)
	}
	return out
}

// recursesLeft reports whether a rule can come to itself without taking a byte: a matcher would never end.
func (g *Grammar) recursesLeft() bool {
	empty := g.emptyRules()
	const open, done = 1, 2
	seen := make([]int, len(g.rules))
	var visit func(r int) bool
	visit = func(r int) bool {
		if seen[r] != 0 {
			return seen[r] == open
		}
		seen[r] = open
		for _, at := range g.rules[r] {
			for ; g.elems[at].kind == ruleElem; at++ {
				if visit(g.elems[at].rule) {
					return true
				}
				if !empty[g.elems[at].rule] {
					break
				}
			}
		}
		seen[r] = done
		return false
	}
	for r := range g.rules {
		if visit(r) {
			return true
		}
	}
	return false
}

// emptyRules returns the rules that an empty text follows.
func (g *Grammar) emptyRules() []bool {
	empty := make([]bool, len(g.rules))
	for changed := true; changed; {
		changed = false
		for r, alternatives := range g.rules {
			for _, at := range alternatives {
				for g.elems[at].kind == ruleElem && empty[g.elems[at].rule] {
					at++
				}
				if g.elems[at].kind == endElem && !empty[r] {
					empty[r], changed = true, true
				}
			}
		}
	}
	return empty
}
