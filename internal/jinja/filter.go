package jinja

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// filterFunc makes something of a value.
type filterFunc func(r *renderer, v any, args []any, named map[string]any) (any, error)

// filters is all that there are. It is filled below, since some of them call others.
var filters map[string]filterFunc

func init() {
	filters = map[string]filterFunc{
		"tojson": func(_ *renderer, v any, args []any, named map[string]any) (any, error) {
			return toJSON(v, append([]any{nil}, args...), named)
		},
		"trim": func(_ *renderer, v any, args []any, _ map[string]any) (any, error) {
			return strip(show(v), args, "both"), nil
		},
		"length": length, "count": length,
		"upper":      onText(strings.ToUpper),
		"lower":      onText(strings.ToLower),
		"capitalize": onText(capitalize),
		"title":      onText(title),
		"string":     onText(func(s string) string { return s }),
		"safe":       func(_ *renderer, v any, _ []any, _ map[string]any) (any, error) { return v, nil },
		"escape":     onText(escapeHTML), "e": onText(escapeHTML),
		"join": join, "first": end(true), "last": end(false), "list": toList, "items": items,
		"default": byDefault, "d": byDefault, "replace": replace, "int": toInt, "float": toFloat,
		"abs": absolute, "round": round, "reverse": reverse, "sort": sorted, "unique": unique, "indent": indented,
		"map": mapped, "select": chosen(true, false), "reject": chosen(false, false),
		"selectattr": chosen(true, true), "rejectattr": chosen(false, true),
		"dictsort": dictSort, "sum": sum, "max": extreme(1), "min": extreme(-1), "attr": attrFilter,
		"wordcount": func(_ *renderer, v any, _ []any, _ map[string]any) (any, error) {
			return int64(len(strings.Fields(show(v)))), nil
		},
	}
}

func onText(f func(string) string) filterFunc {
	return func(_ *renderer, v any, _ []any, _ map[string]any) (any, error) { return f(show(v)), nil }
}

// argument returns an argument by place or name.
func argument(args []any, named map[string]any, i int, name string) (any, bool) {
	if i < len(args) {
		return args[i], true
	}
	v, ok := named[name]
	return v, ok
}

func capitalize(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	if n == 0 {
		return s
	}
	return string(unicode.ToUpper(r)) + strings.ToLower(s[n:])
}

func title(s string) string {
	start := true
	return strings.Map(func(r rune) rune {
		was := start
		start = !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '\''
		if was {
			return unicode.ToUpper(r)
		}
		return unicode.ToLower(r)
	}, s)
}

func escapeHTML(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;").Replace(s)
}

func length(_ *renderer, v any, _ []any, _ map[string]any) (any, error) {
	if s, ok := v.(string); ok {
		return int64(utf8.RuneCountInString(s)), nil
	}
	list, ok := iterate(v)
	if _, is := v.(undefined); !ok && !is {
		return nil, fmt.Errorf("a %s has no length", typeName(v))
	}
	return int64(len(list)), nil
}

// listOf returns what a value holds.
func listOf(v any) ([]any, error) {
	list, ok := iterate(v)
	if _, is := v.(undefined); !ok && !is {
		return nil, fmt.Errorf("a %s cannot be gone over", typeName(v))
	}
	return list, nil
}

func join(_ *renderer, v any, args []any, named map[string]any) (any, error) {
	list, err := listOf(v)
	if err != nil {
		return nil, err
	}
	between := ""
	if x, ok := argument(args, named, 0, "d"); ok {
		between = show(x)
	}
	attr, byAttr := argument(args, named, 1, "attribute")
	texts, bytes := make([]string, len(list)), 0
	for i, x := range list {
		if byAttr {
			if x, err = item(x, attr); err != nil {
				return nil, err
			}
		}
		texts[i] = show(x)
		if bytes += len(texts[i]) + len(between); bytes > maxValue {
			return nil, errLarge
		}
	}
	return strings.Join(texts, between), nil
}

func end(first bool) filterFunc {
	return func(_ *renderer, v any, _ []any, _ map[string]any) (any, error) {
		list, err := listOf(v)
		if err != nil || len(list) == 0 {
			return undefined("the end of an empty list"), err
		}
		if first {
			return list[0], nil
		}
		return list[len(list)-1], nil
	}
}

func toList(_ *renderer, v any, _ []any, _ map[string]any) (any, error) {
	list, err := listOf(v)
	return append([]any{}, list...), err
}

func items(_ *renderer, v any, _ []any, _ map[string]any) (any, error) {
	if _, ok := v.(undefined); ok {
		return []any{}, nil
	}
	d, ok := v.(*Dict)
	if !ok {
		return nil, fmt.Errorf("items of a %s: want a mapping", typeName(v))
	}
	return d.items(), nil
}

func (d *Dict) items() []any {
	out := make([]any, len(d.keys))
	for i, k := range d.keys {
		out[i] = tuple{k, d.values[k]}
	}
	return out
}

func byDefault(_ *renderer, v any, args []any, named map[string]any) (any, error) {
	other, ok := argument(args, named, 0, "default_value")
	if !ok {
		other = ""
	}
	falsy, _ := argument(args, named, 1, "boolean")
	if _, is := v.(undefined); is || truth(falsy) && !truth(v) {
		return other, nil
	}
	return v, nil
}

func replace(_ *renderer, v any, args []any, named map[string]any) (any, error) {
	old, ok := argument(args, named, 0, "old")
	with, also := argument(args, named, 1, "new")
	if !ok || !also {
		return nil, errors.New("replace: want what to replace, and by what")
	}
	n := -1
	if c, ok := argument(args, named, 2, "count"); ok && c != nil {
		if i, isInt := c.(int64); isInt {
			n = int(max(-1, min(i, math.MaxInt32)))
		}
	}
	text, from, to := show(v), show(old), show(with)
	if err := repeated(len(to), strings.Count(text, from)); err != nil {
		return nil, err
	}
	return strings.Replace(text, from, to, n), nil
}

func toInt(_ *renderer, v any, args []any, named map[string]any) (any, error) {
	if x, ok := numeric(v); ok && !math.IsNaN(x) && math.Abs(x) < 1<<62 {
		if i, ok := v.(int64); ok {
			return i, nil
		}
		return int64(x), nil
	}
	s := strings.TrimSpace(show(v))
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return i, nil
	}
	if f, err := strconv.ParseFloat(s, 64); err == nil && math.Abs(f) < 1<<62 {
		return int64(f), nil
	}
	if d, ok := argument(args, named, 0, "default"); ok {
		return d, nil
	}
	return int64(0), nil
}

func toFloat(_ *renderer, v any, args []any, named map[string]any) (any, error) {
	if x, ok := numeric(v); ok {
		return x, nil
	}
	if f, err := strconv.ParseFloat(strings.TrimSpace(show(v)), 64); err == nil {
		return f, nil
	}
	if d, ok := argument(args, named, 0, "default"); ok {
		return d, nil
	}
	return 0.0, nil
}

func absolute(_ *renderer, v any, _ []any, _ map[string]any) (any, error) {
	switch v := v.(type) {
	case int64:
		return max(v, -v), nil
	case float64:
		return math.Abs(v), nil
	}
	return nil, fmt.Errorf("abs of a %s: want a number", typeName(v))
}

func round(_ *renderer, v any, args []any, named map[string]any) (any, error) {
	x, ok := numeric(v)
	if !ok {
		return nil, fmt.Errorf("round of a %s: want a number", typeName(v))
	}
	digits, _ := argument(args, named, 0, "precision")
	n, _ := digits.(int64)
	how, _ := argument(args, named, 1, "method")
	scale := math.Pow(10, float64(n))
	switch how {
	case "ceil":
		return math.Ceil(x*scale) / scale, nil
	case "floor":
		return math.Floor(x*scale) / scale, nil
	}
	return math.RoundToEven(x*scale) / scale, nil
}

func reverse(_ *renderer, v any, _ []any, _ map[string]any) (any, error) {
	list, err := listOf(v)
	out := append([]any{}, list...)
	slices.Reverse(out)
	if _, ok := v.(string); ok {
		var b strings.Builder
		for _, c := range out {
			b.WriteString(c.(string))
		}
		return b.String(), err
	}
	return out, err
}

func indented(_ *renderer, v any, args []any, named map[string]any) (any, error) {
	width := "    "
	if w, ok := argument(args, named, 0, "width"); ok {
		switch w := w.(type) {
		case int64:
			width = strings.Repeat(" ", int(max(0, min(w, 1000))))
		case string:
			width = w
		}
	}
	first, _ := argument(args, named, 1, "first")
	blank, _ := argument(args, named, 2, "blank")
	lines := strings.Split(show(v), "\n")
	if err := repeated(len(width), len(lines)); err != nil {
		return nil, err
	}
	for i, l := range lines {
		if i == 0 && !truth(first) || l == "" && i > 0 && !truth(blank) {
			continue
		}
		lines[i] = width + l
	}
	return strings.Join(lines, "\n"), nil
}

func attrFilter(_ *renderer, v any, args []any, _ map[string]any) (any, error) {
	if len(args) != 1 {
		return nil, errors.New("attr: want a name")
	}
	return attribute(v, show(args[0]))
}
