package grammar

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/galley-ml/galley/internal/jinja"
)

// mostInteger is the largest number that an integer may be: one of 16 digits.
const mostInteger = 1e16 - 1

// integerOf returns the integers of a schema, from its minimum to its maximum.
func (s *schema) integerOf(d *jinja.Dict, path string) (expr, error) {
	lo, hi, bounded := int64(-mostInteger), int64(mostInteger), false
	for _, b := range []struct {
		name     string
		least    bool
		excluded int64
	}{{"minimum", true, 0}, {"exclusiveMinimum", true, 1}, {"maximum", false, 0},
		{"exclusiveMaximum", false, 1}} {
		v, ok := d.Get(b.name)
		if !ok {
			continue
		}
		n, err := bound(v, b.least, b.excluded)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", path, b.name, err)
		}
		bounded = true
		if b.least {
			lo = max(lo, n)
		} else {
			hi = min(hi, n)
		}
	}
	switch {
	case !bounded:
		return refExpr(s.integer), nil
	case lo > hi:
		return nil, fmt.Errorf("%s: no integer is from its minimum to its maximum", path)
	}
	var a altExpr
	if lo < 0 {
		for _, e := range naturals(max(1, -hi), -lo) {
			a = append(a, seqExpr{literal("-"), e})
		}
	}
	if hi >= 0 {
		a = append(a, naturals(max(0, lo), hi)...)
	}
	return a, nil
}

// bound returns the last integer that a keyword lets be, of which a float may stand between two.
func bound(v any, least bool, excluded int64) (int64, error) {
	x, ok := v.(float64)
	if n, isInt := v.(int64); isInt {
		x, ok = float64(n), true
	}
	if !ok || math.Abs(x) > mostInteger {
		return 0, fmt.Errorf("want a number of at most 16 digits")
	}
	switch whole := math.Floor(x) == x; {
	case least && whole:
		return int64(x) + excluded, nil
	case least:
		return int64(math.Ceil(x)), nil
	case whole:
		return int64(x) - excluded, nil
	}
	return int64(math.Floor(x)), nil
}

// naturals returns the numbers lo to hi, neither of which is negative, by how many digits they have.
func naturals(lo, hi int64) (a altExpr) {
	for first, last := int64(0), int64(9); first <= hi; first, last = last+1, last*10+9 {
		if from, to := max(lo, first), min(hi, last); from <= to {
			a = append(a, digits(strconv.FormatInt(from, 10), strconv.FormatInt(to, 10)))
		}
	}
	return a
}

// digits returns the numbers from lo to hi, which have equally many digits.
func digits(lo, hi string) expr {
	n := len(lo)
	switch {
	case n == 0:
		return emptyExpr{}
	case lo == strings.Repeat("0", n) && hi == strings.Repeat("9", n):
		return repeatExpr{class('0', '9'), n, n}
	case lo[0] == hi[0]:
		return seqExpr{literal(lo[:1]), digits(lo[1:], hi[1:])}
	}
	low, high := strings.Repeat("0", n-1), strings.Repeat("9", n-1)
	a := altExpr{seqExpr{literal(lo[:1]), digits(lo[1:], high)}, seqExpr{literal(hi[:1]), digits(low, hi[1:])}}
	if lo[0]+1 < hi[0] {
		a = append(a, seqExpr{class(lo[0]+1, hi[0]-1), digits(low, high)})
	}
	return a
}
