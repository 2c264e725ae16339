package jinja

import (
	"errors"
	"fmt"
	"strings"
)

// expr is a part of a template that has a value.
type expr interface {
	eval(r *renderer) (any, error)
}

type arguments struct {
	plain, named []expr
	names        []string
}

type (
	constExpr struct{ v any }
	nameExpr  struct{ name string }
	listExpr  struct {
		list  []expr
		tuple bool
	}
	dictExpr struct{ keys, values []expr }
	attrExpr struct {
		of   expr
		name string
		line int
	}
	itemExpr struct {
		of, at expr
		line   int
	}
	sliceExpr struct {
		of    expr
		parts [3]expr
		line  int
	}
	callExpr struct {
		of   expr
		args arguments
		line int
	}
	filterExpr struct {
		of   expr
		name string
		args arguments
		line int
	}
	testExpr struct {
		of   expr
		not  bool
		name string
		args arguments
		line int
	}
	condExpr   struct{ yes, test, no expr }
	notExpr    struct{ of expr }
	signedExpr struct {
		sign string
		of   expr
		line int
	}
	logicExpr struct {
		left, right expr
		or          bool
	}
	compareExpr struct {
		terms []expr
		signs []string
	}
	binaryExpr struct {
		sign        string
		left, right expr
		line        int
	}
)

func (e constExpr) eval(*renderer) (any, error)  { return e.v, nil }
func (e nameExpr) eval(r *renderer) (any, error) { return r.lookup(e.name), nil }

func evalAll(r *renderer, list []expr) ([]any, error) {
	out := make([]any, len(list))
	for i, e := range list {
		v, err := e.eval(r)
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, nil
}

func (e listExpr) eval(r *renderer) (any, error) {
	list, err := evalAll(r, e.list)
	if err != nil {
		return nil, err
	}
	if e.tuple {
		return r.checked(tuple(list))
	}
	return r.checked(list)
}

func (e dictExpr) eval(r *renderer) (any, error) {
	d := NewDict()
	for i, k := range e.keys {
		key, err := k.eval(r)
		if err != nil {
			return nil, err
		}
		v, err := e.values[i].eval(r)
		if err != nil {
			return nil, err
		}
		text, ok := key.(string)
		if !ok {
			return nil, fmt.Errorf("a %s as a key is not supported: want a text", typeName(key))
		}
		d.Set(text, v)
	}
	return r.checked(d)
}

func (e attrExpr) eval(r *renderer) (any, error) {
	v, err := e.of.eval(r)
	if err != nil {
		return nil, err
	}
	out, err := attribute(v, e.name)
	return out, at(e.line, err)
}

// attribute returns an attribute or, where there is none, an element.
func attribute(v any, name string) (any, error) {
	switch x := v.(type) {
	case undefined:
		return nil, fmt.Errorf("%q is undefined", string(x))
	case namespace:
		if y, ok := x[name]; ok {
			return y, nil
		}
		return undefined(name), nil
	case *Dict:
		if m, ok := method(v, name); ok {
			return m, nil
		}
		if y, ok := x.Get(name); ok {
			return y, nil
		}
		return undefined(name), nil
	}
	if m, ok := method(v, name); ok {
		return m, nil
	}
	return undefined(name), nil
}

func (e itemExpr) eval(r *renderer) (any, error) {
	v, err := e.of.eval(r)
	if err != nil {
		return nil, err
	}
	i, err := e.at.eval(r)
	if err != nil {
		return nil, err
	}
	out, err := item(v, i)
	return out, at(e.line, err)
}

// item returns an element or, where there is none, an attribute.
func item(v, i any) (any, error) {
	switch x := v.(type) {
	case undefined:
		return nil, fmt.Errorf("%q is undefined", string(x))
	case *Dict:
		name, ok := i.(string)
		if !ok {
			return undefined(show(i)), nil
		}
		if y, ok := x.Get(name); ok {
			return y, nil
		}
		return attribute(v, name)
	case namespace:
		if name, ok := i.(string); ok {
			return attribute(v, name)
		}
	}
	list, ok := sequenceOf(v)
	if s, isText := v.(string); isText {
		list, ok = iterate(s)
	}
	if n, isInt := i.(int64); ok && isInt {
		if n < 0 {
			n += int64(len(list))
		}
		if n < 0 || n >= int64(len(list)) {
			return undefined(show(i)), nil
		}
		return list[n], nil
	}
	if name, ok := i.(string); ok {
		return attribute(v, name)
	}
	return undefined(show(i)), nil
}

func (e sliceExpr) eval(r *renderer) (any, error) {
	v, err := e.of.eval(r)
	if err != nil {
		return nil, err
	}
	var parts [3]*int64
	for i, p := range e.parts {
		if p == nil {
			continue
		}
		x, err := p.eval(r)
		if err != nil {
			return nil, err
		}
		if n, ok := x.(int64); ok {
			parts[i] = &n
		} else if x != nil {
			return nil, at(e.line, fmt.Errorf("a slice by a %s: want numbers", typeName(x)))
		}
	}
	out, err := slice(v, parts)
	return out, at(e.line, err)
}

// slice returns v[begin:end:step] as Python has it.
func slice(v any, parts [3]*int64) (any, error) {
	list, ok := sequenceOf(v)
	s, isText := v.(string)
	if isText {
		list, ok = iterate(s)
	}
	if !ok {
		return nil, fmt.Errorf("a %s has no slices", typeName(v))
	}
	out := sliced(list, parts)
	if out == nil {
		return nil, errors.New("the step of a slice is 0")
	}
	if isText {
		var b strings.Builder
		for _, c := range out {
			b.WriteString(c.(string))
		}
		return b.String(), nil
	}
	if _, isTuple := v.(tuple); isTuple {
		return tuple(out), nil
	}
	return out, nil
}

func sliced(list []any, parts [3]*int64) []any {
	n, step := int64(len(list)), int64(1)
	if parts[2] != nil {
		step = *parts[2]
	}
	if step == 0 {
		return nil
	}
	lo, hi := int64(0), n
	if step < 0 {
		lo, hi = n-1, -1
	}
	bound := func(p *int64, byDefault int64) int64 {
		if p == nil {
			return byDefault
		}
		x := *p
		if x < 0 {
			x += n
		}
		if step < 0 {
			return min(max(x, -1), n-1)
		}
		return min(max(x, 0), n)
	}
	lo, hi = bound(parts[0], lo), bound(parts[1], hi)
	out := []any{}
	for i := lo; step > 0 && i < hi || step < 0 && i > hi; {
		out = append(out, list[i])
		if step > n || step < -n {
			break
		}
		i += step
	}
	return out
}

func (a arguments) eval(r *renderer) (plain []any, named map[string]any, err error) {
	if plain, err = evalAll(r, a.plain); err != nil {
		return nil, nil, err
	}
	values, err := evalAll(r, a.named)
	if err != nil {
		return nil, nil, err
	}
	named = map[string]any{}
	for i, name := range a.names {
		named[name] = values[i]
	}
	return plain, named, nil
}

func (e callExpr) eval(r *renderer) (any, error) {
	v, err := e.of.eval(r)
	if err != nil {
		return nil, err
	}
	f, ok := v.(callable)
	if !ok {
		if u, is := v.(undefined); is {
			return nil, at(e.line, fmt.Errorf("%q is undefined", string(u)))
		}
		return nil, at(e.line, fmt.Errorf("a %s cannot be called", typeName(v)))
	}
	plain, named, err := e.args.eval(r)
	if err != nil {
		return nil, err
	}
	if err := r.charge(plain...); err != nil {
		return nil, at(e.line, err)
	}
	out, err := f(r, plain, named)
	return out, at(e.line, err)
}

func (e filterExpr) eval(r *renderer) (any, error) {
	v, err := e.of.eval(r)
	if err != nil {
		return nil, err
	}
	plain, named, err := e.args.eval(r)
	if err != nil {
		return nil, err
	}
	out, err := r.filtered(filters[e.name], v, plain, named)
	return out, at(e.line, err)
}

// filtered returns what a filter makes of a value.
func (r *renderer) filtered(f filterFunc, v any, args []any, named map[string]any) (any, error) {
	if err := r.charge(v); err != nil {
		return nil, err
	}
	out, err := f(r, v, args, named)
	if err != nil {
		return nil, err
	}
	return out, r.charge(out)
}

func (e testExpr) eval(r *renderer) (any, error) {
	v, err := e.of.eval(r)
	if err != nil {
		return nil, err
	}
	plain, _, err := e.args.eval(r)
	if err != nil {
		return nil, err
	}
	ok, err := tests[e.name](v, plain)
	return ok != e.not, at(e.line, err)
}

func (e condExpr) eval(r *renderer) (any, error) {
	v, err := e.test.eval(r)
	switch {
	case err != nil:
		return nil, err
	case truth(v):
		return e.yes.eval(r)
	case e.no != nil:
		return e.no.eval(r)
	}
	return undefined("the inline if"), nil
}

func (e notExpr) eval(r *renderer) (any, error) {
	v, err := e.of.eval(r)
	return !truth(v), err
}

func (e logicExpr) eval(r *renderer) (any, error) {
	v, err := e.left.eval(r)
	if err != nil || truth(v) == e.or {
		return v, err
	}
	return e.right.eval(r)
}
