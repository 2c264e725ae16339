package jinja

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// path returns an attribute of an attribute, as a.b is.
func path(v any, attr any) (any, error) {
	name, ok := attr.(string)
	if !ok {
		return item(v, attr)
	}
	for _, part := range strings.Split(name, ".") {
		var err error
		if v, err = item(v, part); err != nil {
			return nil, err
		}
	}
	return v, nil
}

func mapped(r *renderer, v any, args []any, named map[string]any) (any, error) {
	list, err := listOf(v)
	if err != nil {
		return nil, err
	}
	out := make([]any, len(list))
	attr, byAttr := named["attribute"]
	for i, x := range list {
		switch {
		case byAttr:
			out[i], err = path(x, attr)
			if d, ok := named["default"]; ok {
				if _, is := out[i].(undefined); is {
					out[i] = d
				}
			}
		case len(args) > 0:
			f, ok := filters[show(args[0])]
			if !ok {
				return nil, fmt.Errorf("map: no filter %q", show(args[0]))
			}
			out[i], err = r.filtered(f, x, args[1:], nil)
		default:
			return nil, errors.New("map: want a filter or attribute=")
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// chosen keeps the elements, or their attributes, for which a test holds, or does not.
func chosen(want, byAttr bool) filterFunc {
	return func(_ *renderer, v any, args []any, _ map[string]any) (any, error) {
		list, err := listOf(v)
		if err != nil {
			return nil, err
		}
		var attr any
		if byAttr {
			if len(args) == 0 {
				return nil, errors.New("selectattr: want an attribute")
			}
			attr, args = args[0], args[1:]
		}
		holds := func(v any, _ []any) (bool, error) { return truth(v), nil }
		if len(args) > 0 {
			name := show(args[0])
			f, ok := tests[name]
			if !ok {
				return nil, fmt.Errorf("select: no test %q", name)
			}
			holds, args = f, args[1:]
		}
		out := []any{}
		for _, x := range list {
			y := x
			if byAttr {
				if y, err = path(x, attr); err != nil {
					return nil, err
				}
			}
			ok, err := holds(y, args)
			if err != nil {
				return nil, err
			}
			if ok == want {
				out = append(out, x)
			}
		}
		return out, nil
	}
}

// folded returns a text without case, which sorting ignores unless it is told not to.
func folded(v any, sensitive any) any {
	if s, ok := v.(string); ok && !truth(sensitive) {
		return strings.ToLower(s)
	}
	return v
}

func sorted(_ *renderer, v any, args []any, named map[string]any) (any, error) {
	list, err := listOf(v)
	if err != nil {
		return nil, err
	}
	back, _ := argument(args, named, 0, "reverse")
	sensitive, _ := argument(args, named, 1, "case_sensitive")
	attr, byAttr := argument(args, named, 2, "attribute")
	return sortBy(list, truth(back), func(x any) (any, error) {
		if byAttr {
			var err error
			if x, err = path(x, attr); err != nil {
				return nil, err
			}
		}
		return folded(x, sensitive), nil
	})
}

// sortBy sorts by keys, stably.
func sortBy(list []any, back bool, key func(any) (any, error)) ([]any, error) {
	type entry struct{ key, value any }
	entries := make([]entry, len(list))
	for i, x := range list {
		k, err := key(x)
		if err != nil {
			return nil, err
		}
		entries[i] = entry{k, x}
	}
	var failure error
	slices.SortStableFunc(entries, func(a, b entry) int {
		c, err := order(a.key, b.key)
		if err != nil {
			failure = err
		}
		if back {
			return -c
		}
		return c
	})
	out := make([]any, len(list))
	for i, e := range entries {
		out[i] = e.value
	}
	return out, failure
}

func dictSort(_ *renderer, v any, args []any, named map[string]any) (any, error) {
	d, ok := v.(*Dict)
	if !ok {
		return nil, fmt.Errorf("dictsort of a %s: want a mapping", typeName(v))
	}
	sensitive, _ := argument(args, named, 0, "case_sensitive")
	by, _ := argument(args, named, 1, "by")
	back, _ := argument(args, named, 2, "reverse")
	i := 0
	if by == "value" {
		i = 1
	}
	return sortBy(d.items(), truth(back),
		func(x any) (any, error) { return folded(x.(tuple)[i], sensitive), nil })
}

func unique(r *renderer, v any, args []any, named map[string]any) (any, error) {
	list, err := listOf(v)
	if err != nil {
		return nil, err
	}
	sensitive, _ := argument(args, named, 0, "case_sensitive")
	var seen, out []any
	for _, x := range list {
		if err := r.spend(len(seen)/stepValues, 0); err != nil {
			return nil, err
		}
		k := folded(x, sensitive)
		if !slices.ContainsFunc(seen, func(y any) bool { return equal(k, y) }) {
			seen, out = append(seen, k), append(out, x)
		}
	}
	return out, nil
}

func sum(r *renderer, v any, args []any, named map[string]any) (any, error) {
	list, err := listOf(v)
	if err != nil {
		return nil, err
	}
	attr, byAttr := argument(args, named, 0, "attribute")
	total, ok := argument(args, named, 1, "start")
	if !ok {
		total = int64(0)
	}
	for _, x := range list {
		if byAttr && attr != nil {
			if x, err = path(x, attr); err != nil {
				return nil, err
			}
		}
		if total, err = operate("+", total, x); err == nil {
			total, err = r.checked(total)
		}
		if err != nil {
			return nil, err
		}
	}
	return total, nil
}

// extreme returns the largest or the smallest element.
func extreme(sign int) filterFunc {
	return func(_ *renderer, v any, _ []any, _ map[string]any) (any, error) {
		list, err := listOf(v)
		if err != nil || len(list) == 0 {
			return undefined("an element of an empty list"), err
		}
		best := list[0]
		for _, x := range list[1:] {
			c, err := order(folded(x, nil), folded(best, nil))
			if err != nil {
				return nil, err
			}
			if c*sign > 0 {
				best = x
			}
		}
		return best, nil
	}
}
