package jinja

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

func (e compareExpr) eval(r *renderer) (any, error) {
	left, err := e.terms[0].eval(r)
	if err != nil {
		return nil, err
	}
	for i, sign := range e.signs {
		right, err := e.terms[i+1].eval(r)
		if err != nil {
			return nil, err
		}
		if _, err := r.checked(right); err != nil { // a comparison may read all that a list holds
			return nil, err
		}
		ok, err := compare(sign, left, right)
		if err != nil || !ok {
			return false, err
		}
		left = right
	}
	return true, nil
}

func compare(sign string, a, b any) (bool, error) {
	switch sign {
	case "==":
		return equal(a, b), nil
	case "!=":
		return !equal(a, b), nil
	case "in":
		return within(a, b)
	case "not in":
		ok, err := within(a, b)
		return !ok, err
	}
	c, err := order(a, b)
	if err != nil {
		return false, err
	}
	return map[string]bool{"<": c < 0, "<=": c <= 0, ">": c > 0, ">=": c >= 0}[sign], nil
}

// numeric returns a number as a float, which a bool is as well.
func numeric(v any) (float64, bool) {
	switch v := v.(type) {
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

func equal(a, b any) bool {
	if x, ok := numeric(a); ok {
		y, ok := numeric(b)
		return ok && x == y
	}
	switch x := a.(type) {
	case nil:
		return b == nil
	case string:
		y, ok := b.(string)
		return ok && x == y
	case undefined:
		_, ok := b.(undefined)
		return ok
	case *Dict:
		y, ok := b.(*Dict)
		if !ok || len(x.keys) != len(y.keys) {
			return false
		}
		for _, k := range x.keys {
			if v, ok := y.Get(k); !ok || !equal(x.values[k], v) {
				return false
			}
		}
		return true
	}
	x, ok := sequenceOf(a)
	y, also := sequenceOf(b)
	if !ok || !also || typeName(a) != typeName(b) || len(x) != len(y) {
		return false
	}
	for i := range x {
		if !equal(x[i], y[i]) {
			return false
		}
	}
	return true
}

// order compares as Python's < does; only numbers, texts and lists have an order.
func order(a, b any) (int, error) {
	x, ok := numeric(a)
	y, also := numeric(b)
	if ok && also {
		switch {
		case x < y:
			return -1, nil
		case x > y:
			return 1, nil
		}
		return 0, nil
	}
	if s, ok := a.(string); ok {
		if t, ok := b.(string); ok {
			return strings.Compare(s, t), nil
		}
	}
	l, ok := sequenceOf(a)
	m, also := sequenceOf(b)
	if ok && also {
		for i := range min(len(l), len(m)) {
			if !equal(l[i], m[i]) {
				return order(l[i], m[i])
			}
		}
		return len(l) - len(m), nil
	}
	return 0, fmt.Errorf("a %s and a %s have no order", typeName(a), typeName(b))
}

// within is Python's in.
func within(a, b any) (bool, error) {
	switch b := b.(type) {
	case string:
		s, ok := a.(string)
		if !ok {
			return false, fmt.Errorf("a %s in a text: want a text", typeName(a))
		}
		return strings.Contains(b, s), nil
	case *Dict:
		s, ok := a.(string)
		if !ok {
			return false, nil
		}
		_, has := b.Get(s)
		return has, nil
	case undefined:
		return false, nil
	}
	list, ok := sequenceOf(b)
	if !ok {
		return false, fmt.Errorf("a %s holds nothing", typeName(b))
	}
	for _, x := range list {
		if equal(a, x) {
			return true, nil
		}
	}
	return false, nil
}

func (e signedExpr) eval(r *renderer) (any, error) {
	v, err := e.of.eval(r)
	if err != nil {
		return nil, err
	}
	if b, ok := v.(bool); ok {
		n, _ := numeric(b)
		v = int64(n)
	}
	switch v := v.(type) {
	case int64:
		if e.sign == "-" {
			return -v, nil
		}
		return v, nil
	case float64:
		if e.sign == "-" {
			return -v, nil
		}
		return v, nil
	}
	return nil, at(e.line, fmt.Errorf("a %s has no sign", typeName(v)))
}

func (e binaryExpr) eval(r *renderer) (any, error) {
	a, err := e.left.eval(r)
	if err != nil {
		return nil, err
	}
	b, err := e.right.eval(r)
	if err != nil {
		return nil, err
	}
	v, err := operate(e.sign, a, b)
	if err == nil {
		v, err = r.checked(v)
	}
	return v, at(e.line, err)
}

func operate(sign string, a, b any) (any, error) {
	if sign == "~" {
		return show(a) + show(b), nil
	}
	for _, v := range []any{a, b} {
		if u, ok := v.(undefined); ok {
			return nil, fmt.Errorf("%q is undefined", string(u))
		}
	}
	if v, ok, err := onSequences(sign, a, b); ok || err != nil {
		return v, err
	}
	x, ok := numeric(a)
	y, also := numeric(b)
	if !ok || !also {
		return nil, fmt.Errorf("a %s %s a %s: no such operation", typeName(a), sign, typeName(b))
	}
	_, f := a.(float64)
	_, g := b.(float64)
	if f || g || sign == "/" {
		return onFloats(sign, x, y)
	}
	return onInts(sign, int64(x), int64(y), a, b)
}

// onSequences joins and repeats texts and lists.
func onSequences(sign string, a, b any) (v any, ok bool, err error) {
	s, isText := a.(string)
	switch sign {
	case "+":
		if t, also := b.(string); isText && also {
			return s + t, true, nil
		}
		x, isList := sequenceOf(a)
		y, also := sequenceOf(b)
		if isList && also && typeName(a) == typeName(b) {
			all := append(append([]any{}, x...), y...)
			if _, t := a.(tuple); t {
				return tuple(all), true, nil
			}
			return all, true, nil
		}
	case "*":
		n, isInt := b.(int64)
		if isText && isInt {
			if err := repeated(len(s), int(n)); err != nil {
				return nil, false, err
			}
			return strings.Repeat(s, int(max(0, n))), true, nil
		}
	case "%":
		if isText {
			return nil, false, errors.New("texts with % are not supported: want ~ or format")
		}
	}
	return nil, false, nil
}

var errZero = errors.New("division by zero")

func onFloats(sign string, x, y float64) (any, error) {
	if y == 0 && (sign == "/" || sign == "//" || sign == "%") {
		return nil, errZero
	}
	switch sign {
	case "+":
		return x + y, nil
	case "-":
		return x - y, nil
	case "*":
		return x * y, nil
	case "/":
		return x / y, nil
	case "//":
		return math.Floor(x / y), nil
	case "%":
		m := math.Mod(x, y)
		if m != 0 && (m < 0) != (y < 0) {
			m += y
		}
		return m, nil
	}
	return math.Pow(x, y), nil
}

func onInts(sign string, x, y int64, a, b any) (any, error) {
	if i, ok := a.(int64); ok {
		x = i
	}
	if i, ok := b.(int64); ok {
		y = i
	}
	if y == 0 && (sign == "//" || sign == "%") {
		return nil, errZero
	}
	switch sign {
	case "+":
		return x + y, nil
	case "-":
		return x - y, nil
	case "*":
		return x * y, nil
	case "//", "%":
		q, m := x/y, x%y
		if m != 0 && (m < 0) != (y < 0) {
			q, m = q-1, m+y
		}
		if sign == "//" {
			return q, nil
		}
		return m, nil
	}
	if y < 0 {
		return math.Pow(float64(x), float64(y)), nil
	}
	return power(x, y)
}
