package jinja

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"
)

// globals is the functions that transformers gives to templates.
var globals = map[string]any{
	"range":           callable(rangeOf),
	"dict":            callable(dictOf),
	"namespace":       callable(namespaceOf),
	"raise_exception": callable(raise),
	"strftime_now":    callable(strftimeNow),
}

// RaisedError is what a template raises itself.
type RaisedError struct{ Message string }

func (e *RaisedError) Error() string { return e.Message }

func raise(_ *renderer, args []any, named map[string]any) (any, error) {
	m, _ := argument(args, named, 0, "message")
	return nil, &RaisedError{show(m)}
}

// mostRange is Jinja's own limit in its sandbox.
const mostRange = 100000

func rangeOf(_ *renderer, args []any, _ map[string]any) (any, error) {
	n := [3]int64{0, 0, 1}
	for i, a := range args {
		x, ok := a.(int64)
		if !ok || i > 2 {
			return nil, errors.New("range: want one to three whole numbers")
		}
		n[i] = x
	}
	if len(args) == 1 {
		n[0], n[1] = 0, n[0]
	}
	if len(args) == 0 || n[2] == 0 {
		return nil, errors.New("range: want one to three whole numbers, the last not 0")
	}
	list := []any{}
	for x := n[0]; n[2] > 0 && x < n[1] || n[2] < 0 && x > n[1]; x += n[2] {
		if list = append(list, x); len(list) > mostRange {
			return nil, fmt.Errorf("range: it has more than %d elements", mostRange)
		}
	}
	return list, nil
}

func dictOf(_ *renderer, args []any, named map[string]any) (any, error) {
	d := NewDict()
	if len(args) > 0 {
		from, ok := args[0].(*Dict)
		if !ok {
			return nil, fmt.Errorf("dict of a %s: want a mapping", typeName(args[0]))
		}
		for _, k := range from.keys {
			d.Set(k, from.values[k])
		}
	}
	for _, k := range sortedKeys(named) {
		d.Set(k, named[k])
	}
	return d, nil
}

func namespaceOf(_ *renderer, args []any, named map[string]any) (any, error) {
	ns := namespace{}
	if len(args) > 0 {
		from, ok := args[0].(*Dict)
		if !ok {
			return nil, fmt.Errorf("namespace of a %s: want a mapping", typeName(args[0]))
		}
		maps.Copy(ns, from.values)
	}
	maps.Copy(ns, named)
	return ns, nil
}

// Now is the clock of strftime_now.
var Now = time.Now

func strftimeNow(_ *renderer, args []any, named map[string]any) (any, error) {
	f, _ := argument(args, named, 0, "format")
	return strftime(Now(), show(f))
}

func strftime(t time.Time, f string) (any, error) {
	layouts := map[byte]string{'Y': "2006", 'm': "01", 'd': "02", 'B': "January", 'b': "Jan", 'A': "Monday",
		'a': "Mon",
		'H': "15", 'M': "04", 'S': "05", 'y': "06", 'I': "03", 'p': "PM", 'j': "002", 'Z': "MST", 'z': "-0700"}
	var b strings.Builder
	for i := 0; i < len(f); i++ {
		if f[i] != '%' || i+1 == len(f) {
			b.WriteByte(f[i])
			continue
		}
		i++
		pad := true
		if f[i] == '-' && i+1 < len(f) {
			i++
			pad = false
		}
		layout, ok := layouts[f[i]]
		switch {
		case f[i] == '%':
			b.WriteByte('%')
		case !ok:
			return nil, fmt.Errorf("strftime_now: %%%c is not supported", f[i])
		case pad:
			b.WriteString(t.Format(layout))
		default:
			b.WriteString(strings.TrimLeft(t.Format(layout), "0"))
		}
	}
	return b.String(), nil
}
