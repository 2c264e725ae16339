package grammar

import (
	"fmt"
	"regexp/syntax"
	"unicode"
	"unicode/utf8"
)

// Regex returns all of a text by a regular expression of Go's syntax.
func Regex(pattern string) (*Grammar, error) {
	b := newBuilder()
	e, err := regex(pattern)
	if err != nil {
		return nil, err
	}
	return b.build(e)
}

func regex(pattern string) (expr, error) {
	r, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("pattern %q: %w", pattern, err)
	}
	e, err := fromRegex(r.Simplify(), 0)
	if err != nil {
		return nil, fmt.Errorf("pattern %q: %w", pattern, err)
	}
	return e, nil
}

func fromRegex(r *syntax.Regexp, depth int) (expr, error) {
	if depth > 200 {
		return nil, errLarge
	}
	switch r.Op {
	case syntax.OpEmptyMatch, syntax.OpBeginText, syntax.OpEndText, syntax.OpBeginLine, syntax.OpEndLine:
		return emptyExpr{}, nil
	case syntax.OpLiteral:
		return literalRunes(r), nil
	case syntax.OpCharClass:
		return runes(r.Rune), nil
	case syntax.OpAnyChar:
		return runes([]rune{0, utf8.MaxRune}), nil
	case syntax.OpAnyCharNotNL:
		return runes([]rune{0, '\n' - 1, '\n' + 1, utf8.MaxRune}), nil
	}
	var subs []expr
	for _, s := range r.Sub {
		e, err := fromRegex(s, depth+1)
		if err != nil {
			return nil, err
		}
		subs = append(subs, e)
	}
	switch r.Op {
	case syntax.OpCapture:
		return subs[0], nil
	case syntax.OpConcat:
		return seqExpr(subs), nil
	case syntax.OpAlternate:
		return altExpr(subs), nil
	case syntax.OpStar:
		return repeatExpr{subs[0], 0, -1}, nil
	case syntax.OpPlus:
		return repeatExpr{subs[0], 1, -1}, nil
	case syntax.OpQuest:
		return optional(subs[0]), nil
	case syntax.OpRepeat:
		return repeatExpr{subs[0], r.Min, r.Max}, nil
	}
	return nil, fmt.Errorf("%v is not supported", r.Op)
}

func literalRunes(r *syntax.Regexp) expr {
	if r.Flags&syntax.FoldCase == 0 {
		return literal(string(r.Rune))
	}
	var s seqExpr
	for _, c := range r.Rune {
		var both []rune
		for f := c; ; {
			both = append(both, f, f)
			if f = unicode.SimpleFold(f); f == c {
				break
			}
		}
		s = append(s, runes(both))
	}
	return s
}

// runes returns one character of ranges, as the bytes of UTF-8.
func runes(ranges []rune) expr {
	var a altExpr
	for i := 0; i+1 < len(ranges); i += 2 {
		lo, hi := ranges[i], min(ranges[i+1], utf8.MaxRune)
		for _, cut := range []rune{0x7f, 0x7ff, 0xd7ff, 0xffff, utf8.MaxRune} { // one length of bytes at a time
			if lo > hi {
				break
			}
			if lo >= 0xd800 && lo <= 0xdfff { // surrogates are no characters
				lo = 0xe000
			}
			if end := min(hi, cut); lo <= end {
				a = byteRanges(a, []byte(string(lo)), []byte(string(end)))
				lo = end + 1
			}
		}
	}
	if len(a) == 1 {
		return a[0]
	}
	return a
}

// byteRanges adds sequences of byte classes for all texts from lo to hi, of equal lengths.
func byteRanges(a altExpr, lo, hi []byte) altExpr {
	if len(lo) == 1 {
		return append(a, class(lo[0], hi[0]))
	}
	first := func(c byte, rest altExpr) altExpr {
		for _, r := range rest {
			a = append(a, seqExpr{class(c, c), r})
		}
		return a
	}
	low, high := lowest(len(lo)-1), highest(len(lo)-1)
	if lo[0] == hi[0] {
		return first(lo[0], byteRanges(nil, lo[1:], hi[1:]))
	}
	begin, end := lo[0], hi[0]
	if string(lo[1:]) != low {
		a = first(begin, byteRanges(nil, lo[1:], []byte(high)))
		begin++
	}
	tail := end
	if string(hi[1:]) != high {
		tail--
	}
	if begin <= tail {
		s := seqExpr{class(begin, tail)}
		for range len(lo) - 1 {
			s = append(s, class(0x80, 0xbf))
		}
		a = append(a, s)
	}
	if tail < end {
		a = first(end, byteRanges(nil, []byte(low), hi[1:]))
	}
	return a
}

func lowest(n int) string  { return "\x80\x80\x80"[:n] }
func highest(n int) string { return "\xbf\xbf\xbf"[:n] }
