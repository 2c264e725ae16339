package jinja

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }

// jsonWriter writes values as Python's json.dumps does with ensure_ascii off.
type jsonWriter struct {
	strings.Builder
	indent      string // of one level; empty is all in one line
	item, colon string
	sorted      bool
}

func (w *jsonWriter) value(v any, depth int) error {
	switch v := v.(type) {
	case nil:
		w.WriteString("null")
	case bool:
		w.WriteString(strconv.FormatBool(v))
	case int64:
		w.WriteString(strconv.FormatInt(v, 10))
	case float64:
		w.WriteString(strings.NewReplacer("inf", "Infinity", "nan", "NaN").Replace(floatText(v)))
	case string:
		w.text(v)
	case []any:
		return w.list(v, depth)
	case tuple:
		return w.list(v, depth)
	case *Dict:
		return w.dict(v, depth)
	default:
		return fmt.Errorf("tojson: a value of type %s is not JSON", typeName(v))
	}
	return nil
}

func (w *jsonWriter) line(depth int) {
	if w.indent != "" {
		w.WriteString("\n" + strings.Repeat(w.indent, depth))
	}
}

func (w *jsonWriter) list(list []any, depth int) error {
	if len(list) == 0 {
		w.WriteString("[]")
		return nil
	}
	w.WriteByte('[')
	for i, x := range list {
		if i > 0 {
			w.WriteString(w.item)
		}
		w.line(depth + 1)
		if err := w.value(x, depth+1); err != nil {
			return err
		}
	}
	w.line(depth)
	w.WriteByte(']')
	return nil
}

func (w *jsonWriter) dict(d *Dict, depth int) error {
	if len(d.keys) == 0 {
		w.WriteString("{}")
		return nil
	}
	keys := d.keys
	if w.sorted {
		keys = slices.Sorted(slices.Values(keys))
	}
	w.WriteByte('{')
	for i, k := range keys {
		if i > 0 {
			w.WriteString(w.item)
		}
		w.line(depth + 1)
		w.text(k)
		w.WriteString(w.colon)
		if err := w.value(d.values[k], depth+1); err != nil {
			return err
		}
	}
	w.line(depth)
	w.WriteByte('}')
	return nil
}

func (w *jsonWriter) text(s string) {
	w.WriteByte('"')
	for _, r := range s {
		switch r {
		case '"':
			w.WriteString(`\"`)
		case '\\':
			w.WriteString(`\\`)
		case '\n':
			w.WriteString(`\n`)
		case '\r':
			w.WriteString(`\r`)
		case '\t':
			w.WriteString(`\t`)
		case '\b':
			w.WriteString(`\b`)
		case '\f':
			w.WriteString(`\f`)
		default:
			if r < 0x20 {
				fmt.Fprintf(w, `\u%04x`, r)
				continue
			}
			w.WriteRune(r)
		}
	}
	w.WriteByte('"')
}

// toJSON returns the filter tojson as transformers has it.
func toJSON(v any, args []any, named map[string]any) (any, error) {
	w := &jsonWriter{item: ", ", colon: ": "}
	get := func(i int, name string) (any, bool) {
		if i < len(args) {
			return args[i], true
		}
		x, ok := named[name]
		return x, ok
	}
	if x, ok := get(1, "indent"); ok && x != nil {
		n, isInt := x.(int64)
		if !isInt || n < 0 || n > 100 {
			return nil, fmt.Errorf("tojson: indent: want a number from 0 to 100")
		}
		w.indent, w.item = strings.Repeat(" ", int(n)), ","
		if n == 0 {
			return nil, fmt.Errorf("tojson: indent 0 is not supported: want 1 or more")
		}
	}
	if x, ok := get(2, "separators"); ok && x != nil {
		pair, isPair := sequenceOf(x)
		if !isPair || len(pair) != 2 {
			return nil, fmt.Errorf("tojson: separators: want two texts")
		}
		w.item, w.colon = show(pair[0]), show(pair[1])
	}
	if x, ok := get(3, "sort_keys"); ok {
		w.sorted = truth(x)
	}
	if err := w.value(v, 0); err != nil {
		return nil, err
	}
	return w.String(), nil
}
