package jinja

import (
	"errors"
	"strings"
	"unicode"
)

// tests is all that stand behind is.
var tests map[string]func(v any, args []any) (bool, error)

func init() {
	is := func(f func(v any) bool) func(any, []any) (bool, error) {
		return func(v any, _ []any) (bool, error) { return f(v), nil }
	}
	by := func(sign string) func(any, []any) (bool, error) {
		return func(v any, args []any) (bool, error) {
			if len(args) != 1 {
				return false, errors.New("a test: want what to compare with")
			}
			return compare(sign, v, args[0])
		}
	}
	tests = map[string]func(any, []any) (bool, error){
		"defined":   is(func(v any) bool { _, no := v.(undefined); return !no }),
		"undefined": is(func(v any) bool { _, yes := v.(undefined); return yes }),
		"none":      is(func(v any) bool { return v == nil }),
		"boolean":   is(func(v any) bool { _, ok := v.(bool); return ok }),
		"true":      is(func(v any) bool { return v == true }),
		"false":     is(func(v any) bool { return v == false }),
		"integer":   is(func(v any) bool { _, ok := v.(int64); return ok }),
		"float":     is(func(v any) bool { _, ok := v.(float64); return ok }),
		"number":    is(func(v any) bool { _, ok := numeric(v); return ok }),
		"string":    is(func(v any) bool { _, ok := v.(string); return ok }),
		"mapping":   is(func(v any) bool { _, ok := v.(*Dict); return ok }),
		"sequence":  is(isSequence),
		"iterable":  is(isIterable),
		"callable":  is(func(v any) bool { _, ok := v.(callable); return ok }),
		"lower":     is(func(v any) bool { return cased(show(v), unicode.IsUpper) }),
		"upper":     is(func(v any) bool { return cased(show(v), unicode.IsLower) }),
		"odd":       func(v any, _ []any) (bool, error) { return remainder(v, int64(2), 1) },
		"even":      func(v any, _ []any) (bool, error) { return remainder(v, int64(2), 0) },
		"divisibleby": func(v any, args []any) (bool, error) {
			if len(args) != 1 {
				return false, errors.New("divisibleby: want a number")
			}
			return remainder(v, args[0], 0)
		},
		"in": by("in"), "==": by("=="), "eq": by("=="), "equalto": by("=="), "ne": by("!="), "!=": by("!="),
		"lt": by("<"), "lessthan": by("<"), "le": by("<="), "gt": by(">"), "greaterthan": by(">"), "ge": by(">="),
		"sameas": by("=="),
	}
}

func isSequence(v any) bool {
	_, dict := v.(*Dict)
	return dict || isIterable(v)
}

func isIterable(v any) bool {
	_, ok := iterate(v)
	_, no := v.(undefined)
	return ok || no
}

// cased reports whether a text has letters, and none of the other case.
func cased(s string, other func(rune) bool) bool {
	return strings.ContainsFunc(s, unicode.IsLetter) && !strings.ContainsFunc(s, other)
}

func remainder(v, by any, want float64) (bool, error) {
	m, err := operate("%", v, by)
	if err != nil {
		return false, err
	}
	x, _ := numeric(m)
	return x == want, nil
}
