package jinja

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// method returns what a value can do, as Python's texts, lists and mappings can.
func method(v any, name string) (callable, bool) {
	switch v := v.(type) {
	case string:
		f, ok := textMethods[name]
		if !ok {
			return nil, false
		}
		return func(r *renderer, args []any, named map[string]any) (any, error) {
			if err := r.charge(v); err != nil {
				return nil, err
			}
			return f(v, args, named)
		}, true
	case *Dict:
		f, ok := dictMethods[name]
		if !ok {
			return nil, false
		}
		return func(_ *renderer, args []any, _ map[string]any) (any, error) { return f(v, args) }, true
	case []any:
		f, ok := listMethods[name]
		if !ok {
			return nil, false
		}
		return func(_ *renderer, args []any, _ map[string]any) (any, error) { return f(v, args) }, true
	}
	return nil, false
}

var dictMethods = map[string]func(d *Dict, args []any) (any, error){
	"items": func(d *Dict, _ []any) (any, error) { return d.items(), nil },
	"keys": func(d *Dict, _ []any) (any, error) {
		list, _ := iterate(d)
		return list, nil
	},
	"values": func(d *Dict, _ []any) (any, error) {
		out := make([]any, len(d.keys))
		for i, k := range d.keys {
			out[i] = d.values[k]
		}
		return out, nil
	},
	"get": func(d *Dict, args []any) (any, error) {
		if len(args) == 0 {
			return nil, errors.New("get: want a key")
		}
		if k, ok := args[0].(string); ok {
			if v, ok := d.Get(k); ok {
				return v, nil
			}
		}
		if len(args) > 1 {
			return args[1], nil
		}
		return nil, nil
	},
	"copy": func(d *Dict, _ []any) (any, error) {
		out := NewDict()
		for _, k := range d.keys {
			out.Set(k, d.values[k])
		}
		return out, nil
	},
}

var listMethods = map[string]func(list []any, args []any) (any, error){
	"index": func(list []any, args []any) (any, error) {
		for i, x := range list {
			if len(args) > 0 && equal(x, args[0]) {
				return int64(i), nil
			}
		}
		return nil, errors.New("index: it is not in the list")
	},
	"count": func(list []any, args []any) (any, error) {
		n := int64(0)
		for _, x := range list {
			if len(args) > 0 && equal(x, args[0]) {
				n++
			}
		}
		return n, nil
	},
	"append": func([]any, []any) (any, error) {
		return nil, errors.New("append: lists cannot be changed: want list + [item]")
	},
}

type textMethod func(s string, args []any, named map[string]any) (any, error)

// plainMethod returns one without arguments.
func plainMethod(f func(s string) any) textMethod {
	return func(s string, _ []any, _ map[string]any) (any, error) { return f(s), nil }
}

var textMethods map[string]textMethod

func init() { // they call each other
	textMethods = map[string]textMethod{
		"strip": func(s string, args []any, _ map[string]any) (any, error) {
			return strip(s, args, "both"),
				nil
		},
		"lstrip": func(s string, args []any, _ map[string]any) (any, error) {
			return strip(s, args, "left"),
				nil
		},
		"rstrip": func(s string, args []any, _ map[string]any) (any, error) {
			return strip(s, args, "right"),
				nil
		},
		"upper":      plainMethod(func(s string) any { return strings.ToUpper(s) }),
		"lower":      plainMethod(func(s string) any { return strings.ToLower(s) }),
		"title":      plainMethod(func(s string) any { return titled(s) }),
		"capitalize": plainMethod(func(s string) any { return capitalize(s) }),
		"isdigit":    plainMethod(func(s string) any { return every(s, unicode.IsDigit) }),
		"isalpha":    plainMethod(func(s string) any { return every(s, unicode.IsLetter) }),
		"isspace":    plainMethod(func(s string) any { return every(s, unicode.IsSpace) }),
		"isalnum": plainMethod(func(s string) any {
			return every(s, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) })
		}),
		"isupper": plainMethod(func(s string) any { return cased(s, unicode.IsLower) }),
		"islower": plainMethod(func(s string) any { return cased(s, unicode.IsUpper) }),
		"startswith": func(s string, args []any, _ map[string]any) (any, error) {
			return anyOf(args, func(x string) bool { return strings.HasPrefix(s, x) })
		},
		"endswith": func(s string, args []any, _ map[string]any) (any, error) {
			return anyOf(args, func(x string) bool { return strings.HasSuffix(s, x) })
		},
		"removeprefix": onArgument(func(s, x string) any { return strings.TrimPrefix(s, x) }),
		"removesuffix": onArgument(func(s, x string) any { return strings.TrimSuffix(s, x) }),
		"find":         onArgument(func(s, x string) any { return place(s, strings.Index(s, x)) }),
		"rfind":        onArgument(func(s, x string) any { return place(s, strings.LastIndex(s, x)) }),
		"count":        onArgument(func(s, x string) any { return int64(strings.Count(s, x)) }),
		"replace": func(s string, args []any, named map[string]any) (any, error) {
			return replace(nil, s, args, named)
		},
		"join": func(s string, args []any, _ map[string]any) (any, error) {
			if len(args) != 1 {
				return nil, errors.New("join: want a list")
			}
			return join(nil, args[0], []any{s}, nil)
		},
		"split": func(s string, args []any, named map[string]any) (any,
			error) {
			return split(s, args, named, false)
		},
		"rsplit": func(s string, args []any, named map[string]any) (any,
			error) {
			return split(s, args, named, true)
		},
		"splitlines": plainMethod(splitLines),
		"format":     format,
	}
}

func onArgument(f func(s, x string) any) textMethod {
	return func(s string, args []any, _ map[string]any) (any, error) {
		if len(args) < 1 {
			return nil, errors.New("a method of a text: want a text")
		}
		x, ok := args[0].(string)
		if !ok {
			return nil, fmt.Errorf("a method of a text: got a %s, want a text", typeName(args[0]))
		}
		return f(s, x), nil
	}
}

// place returns a byte's place in characters; -1 stays.
func place(s string, i int) int64 {
	if i < 0 {
		return -1
	}
	return int64(utf8.RuneCountInString(s[:i]))
}

func every(s string, f func(rune) bool) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !f(r) })
}

// titled is Python's str.title, which begins a word after anything that is no letter.
func titled(s string) string {
	start := true
	return strings.Map(func(r rune) rune {
		was := start
		start = !unicode.IsLetter(r)
		if was {
			return unicode.ToUpper(r)
		}
		return unicode.ToLower(r)
	}, s)
}

// anyOf reports whether one of the texts that an argument names fits.
func anyOf(args []any, f func(string) bool) (any, error) {
	if len(args) < 1 {
		return nil, errors.New("want a text")
	}
	list, ok := args[0].(tuple)
	if !ok {
		list = tuple{args[0]}
	}
	for _, x := range list {
		s, ok := x.(string)
		if !ok {
			return nil, fmt.Errorf("got a %s, want a text", typeName(x))
		}
		if f(s) {
			return true, nil
		}
	}
	return false, nil
}

func strip(s string, args []any, side string) string {
	f := unicode.IsSpace
	if len(args) > 0 && args[0] != nil {
		set := show(args[0])
		f = func(r rune) bool { return strings.ContainsRune(set, r) }
	}
	if side != "right" {
		s = strings.TrimLeftFunc(s, f)
	}
	if side != "left" {
		s = strings.TrimRightFunc(s, f)
	}
	return s
}

func split(s string, args []any, named map[string]any, fromEnd bool) (any, error) {
	sep, _ := argument(args, named, 0, "sep")
	most := -1
	if m, ok := argument(args, named, 1, "maxsplit"); ok {
		if n, isInt := m.(int64); isInt && n >= 0 && n < 1<<20 {
			most = int(n)
		}
	}
	if sep == nil {
		return splitBlank(s, most, fromEnd)
	}
	between, ok := sep.(string)
	if !ok || between == "" {
		return nil, errors.New("split: want a text that is not empty")
	}
	if fromEnd && most >= 0 {
		var parts []string
		for range most {
			i := strings.LastIndex(s, between)
			if i < 0 {
				break
			}
			parts, s = append([]string{s[i+len(between):]}, parts...), s[:i]
		}
		return texts(append([]string{s}, parts...)), nil
	}
	n := -1
	if most >= 0 {
		n = most + 1
	}
	return texts(strings.SplitN(s, between, n)), nil
}

// splitBlank splits at runs of blanks.
func splitBlank(s string, most int, fromEnd bool) (any, error) {
	if most < 0 {
		return texts(strings.Fields(s)), nil
	}
	if fromEnd {
		return nil, errors.New("rsplit: at blanks it has no maxsplit here")
	}
	var parts []string
	s = strings.TrimLeftFunc(s, unicode.IsSpace)
	for range most {
		i := strings.IndexFunc(s, unicode.IsSpace)
		if i < 0 {
			break
		}
		parts, s = append(parts, s[:i]), strings.TrimLeftFunc(s[i:], unicode.IsSpace)
	}
	if s != "" {
		parts = append(parts, s)
	}
	return texts(parts), nil
}

func splitLines(s string) any {
	lines := strings.Split(strings.ReplaceAll(s, "\r\n", "\n"), "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return texts(lines)
}

func texts(list []string) []any {
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = s
	}
	return out
}

// format returns str.format with {}, {0} and {name}, without formats of their own.
func format(s string, args []any, named map[string]any) (any, error) {
	var b strings.Builder
	next := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case (c == '{' || c == '}') && i+1 < len(s) && s[i+1] == c:
			b.WriteByte(c)
			i++
		case c == '{':
			n := strings.IndexByte(s[i:], '}')
			if n < 0 {
				return nil, errors.New("format: a { without }")
			}
			v, err := field(s[i+1:i+n], args, named, &next)
			if err != nil {
				return nil, err
			}
			if b.WriteString(show(v)); b.Len() > maxValue {
				return nil, errLarge
			}
			i += n
		case c == '}':
			return nil, errors.New("format: a } without {")
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), nil
}

func field(name string, args []any, named map[string]any, next *int) (any, error) {
	if strings.ContainsAny(name, ":!.[") {
		return nil, fmt.Errorf("format: {%s} is not supported: want {}, {0} or {name}", name)
	}
	if v, ok := named[name]; ok {
		return v, nil
	}
	i := *next
	if name == "" {
		*next++
	} else if _, err := fmt.Sscanf(name, "%d", &i); err != nil {
		return nil, fmt.Errorf("format: no argument %q", name)
	}
	if i < 0 || i >= len(args) {
		return nil, fmt.Errorf("format: no argument %d", i)
	}
	return args[i], nil
}
