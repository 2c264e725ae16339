package jinja

import (
	"errors"
	"fmt"
	"strings"
)

// loopSteps is what a turn of a loop costs beside what is in it.
const loopSteps = 8

func (n forNode) render(r *renderer, to *strings.Builder) error {
	list, err := n.items(r)
	if err != nil {
		return at(n.line, err)
	}
	if len(list) == 0 {
		return r.all(n.other, to)
	}
	changed := any(nil)
	for i, x := range list {
		if err := r.spend(loopSteps, to.Len()); err != nil {
			return at(n.line, err)
		}
		err := r.within(func() error {
			r.set("loop", loopOf(list, i, &changed))
			if err := r.bind(n.names, x); err != nil {
				return at(n.line, err)
			}
			return r.all(n.body, to)
		})
		if errors.Is(err, errBreak) {
			return nil
		}
		if err != nil && !errors.Is(err, errContinue) {
			return err
		}
	}
	return nil
}

// items returns what a loop goes over, less what its condition leaves out.
func (n forNode) items(r *renderer) ([]any, error) {
	v, err := n.list.eval(r)
	if err != nil {
		return nil, err
	}
	list, ok := iterate(v)
	if !ok {
		if _, is := v.(undefined); is { // as Jinja has it
			return nil, nil
		}
		return nil, fmt.Errorf("a %s cannot be gone over", typeName(v))
	}
	if err := r.spend(len(list), 0); err != nil || n.test == nil {
		return list, err
	}
	var kept []any
	for _, x := range list {
		err := r.within(func() error {
			if err := r.bind(n.names, x); err != nil {
				return err
			}
			v, err := n.test.eval(r)
			if err == nil && truth(v) {
				kept = append(kept, x)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return kept, nil
}

// iterate returns what going over a value gives.
func iterate(v any) ([]any, bool) {
	switch v := v.(type) {
	case *Dict:
		out := make([]any, len(v.keys))
		for i, k := range v.keys {
			out[i] = k
		}
		return out, true
	case string:
		var out []any
		for _, c := range v {
			out = append(out, string(c))
		}
		return out, true
	}
	return sequenceOf(v)
}

// sequenceOf returns the elements of a list or a tuple.
func sequenceOf(v any) ([]any, bool) {
	switch v := v.(type) {
	case []any:
		return v, true
	case tuple:
		return v, true
	}
	return nil, false
}

// loopOf returns the variable loop.
func loopOf(list []any, i int, changed *any) *Dict {
	d := NewDict()
	n := len(list)
	d.Set("index", int64(i+1))
	d.Set("index0", int64(i))
	d.Set("revindex", int64(n-i))
	d.Set("revindex0", int64(n-i-1))
	d.Set("first", i == 0)
	d.Set("last", i == n-1)
	d.Set("length", int64(n))
	d.Set("depth", int64(1))
	d.Set("depth0", int64(0))
	if i > 0 {
		d.Set("previtem", list[i-1])
	}
	if i+1 < n {
		d.Set("nextitem", list[i+1])
	}
	d.Set("cycle", callable(func(_ *renderer, args []any, _ map[string]any) (any, error) {
		if len(args) == 0 {
			return nil, errors.New("loop.cycle: no items")
		}
		return args[i%len(args)], nil
	}))
	d.Set("changed", callable(func(_ *renderer, args []any, _ map[string]any) (any, error) {
		now := any(tuple(args))
		same := *changed != nil && equal(*changed, now)
		*changed = now
		return !same, nil
	}))
	return d
}
