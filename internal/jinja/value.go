package jinja

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// Values are nil, bool, int64, float64, string, []any, *Dict and what templates make: tuple, undefined,
// *namespace, callable.

// Dict is a mapping from texts that keeps its order.
type Dict struct {
	keys   []string
	values map[string]any
}

// NewDict returns an empty mapping.
func NewDict() *Dict { return &Dict{values: map[string]any{}} }

// Get returns the value of a key.
func (d *Dict) Get(key string) (any, bool) {
	v, ok := d.values[key]
	return v, ok
}

// Set sets a key, which comes last where it is new.
func (d *Dict) Set(key string, v any) {
	if _, ok := d.values[key]; !ok {
		d.keys = append(d.keys, key)
	}
	d.values[key] = v
}

type (
	tuple     []any
	undefined string // what is not there, by its name
	namespace map[string]any
	// callable is a function, a macro or a method.
	callable func(r *renderer, args []any, named map[string]any) (any, error)
)

// FromJSON returns a JSON value with the order of its keys.
func FromJSON(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	v, err := decode(d, 0)
	if err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("not JSON: something follows the value")
	}
	return v, nil
}

func decode(d *json.Decoder, depth int) (any, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	if depth > 200 {
		return nil, errors.New("too deep")
	}
	switch t := t.(type) {
	case json.Delim:
		if t == '{' {
			return decodeDict(d, depth)
		}
		list := []any{}
		for d.More() {
			v, err := decode(d, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := d.Token()
		return list, err
	case json.Number:
		if i, err := t.Int64(); err == nil {
			return i, nil
		}
		return t.Float64()
	}
	return t, nil
}

func decodeDict(d *json.Decoder, depth int) (any, error) {
	out := NewDict()
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		v, err := decode(d, depth+1)
		if err != nil {
			return nil, err
		}
		out.Set(key.(string), v)
	}
	_, err := d.Token()
	return out, err
}

// fromGo makes values of what callers have.
func fromGo(v any) any {
	switch v := v.(type) {
	case int:
		return int64(v)
	case map[string]any:
		d := NewDict()
		for _, k := range sortedKeys(v) {
			d.Set(k, fromGo(v[k]))
		}
		return d
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = fromGo(x)
		}
		return out
	}
	return v
}

// truth reports whether Python takes a value for true.
func truth(v any) bool {
	switch v := v.(type) {
	case nil, undefined:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case []any:
		return len(v) > 0
	case tuple:
		return len(v) > 0
	case *Dict:
		return len(v.keys) > 0
	}
	return true
}

// show returns what printing a value gives.
func show(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case undefined:
		return ""
	}
	var b strings.Builder
	represent(&b, v)
	return b.String()
}

// represent writes Python's repr.
func represent(b *strings.Builder, v any) {
	switch v := v.(type) {
	case nil:
		b.WriteString("None")
	case bool:
		b.WriteString(map[bool]string{true: "True", false: "False"}[v])
	case int64:
		b.WriteString(strconv.FormatInt(v, 10))
	case float64:
		b.WriteString(floatText(v))
	case string:
		b.WriteString(quoted(v))
	case undefined:
		b.WriteString("Undefined")
	case []any:
		representAll(b, "[", v, "]")
	case tuple:
		end := ")"
		if len(v) == 1 {
			end = ",)"
		}
		representAll(b, "(", v, end)
	case *Dict:
		b.WriteByte('{')
		for i, k := range v.keys {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(quoted(k) + ": ")
			represent(b, v.values[k])
		}
		b.WriteByte('}')
	default:
		fmt.Fprintf(b, "<%s>", typeName(v))
	}
}

func representAll(b *strings.Builder, begin string, list []any, end string) {
	b.WriteString(begin)
	for i, x := range list {
		if i > 0 {
			b.WriteString(", ")
		}
		represent(b, x)
	}
	b.WriteString(end)
}

// quoted returns a text as Python shows it.
func quoted(s string) string {
	q := "'"
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		q = `"`
	}
	var b strings.Builder
	b.WriteString(q)
	for _, r := range s {
		switch {
		case string(r) == q || r == '\\':
			b.WriteString("\\" + string(r))
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r > 0x7f && !strconv.IsPrint(r):
			switch {
			case r < 0x100:
				fmt.Fprintf(&b, `\x%02x`, r)
			case r < 0x10000:
				fmt.Fprintf(&b, `\u%04x`, r)
			default:
				fmt.Fprintf(&b, `\U%08x`, r)
			}
		default:
			b.WriteRune(r)
		}
	}
	return b.String() + q
}

// floatText returns a number as Python shows it.
func floatText(x float64) string {
	switch {
	case math.IsInf(x, 1):
		return "inf"
	case math.IsInf(x, -1):
		return "-inf"
	case math.IsNaN(x):
		return "nan"
	}
	if a := math.Abs(x); a != 0 && (a < 1e-4 || a >= 1e16) {
		s := strconv.FormatFloat(x, 'e', -1, 64)
		return s
	}
	s := strconv.FormatFloat(x, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// typeName is Python's name of a value's type.
func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "NoneType"
	case bool:
		return "bool"
	case int64:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case []any:
		return "list"
	case tuple:
		return "tuple"
	case *Dict:
		return "dict"
	case undefined:
		return "Undefined"
	case namespace:
		return "Namespace"
	}
	return "function"
}

// Keys returns the keys of a mapping, in order.
func Keys(v any) ([]string, bool) {
	d, ok := v.(*Dict)
	if !ok {
		return nil, false
	}
	return append([]string(nil), d.keys...), true
}
