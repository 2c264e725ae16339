package strict

import (
	"encoding"
	"fmt"
	"math"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
)

// whole refuses fractions where a value is a whole number: the library cuts them off. The first mistake
// stays.
type whole struct {
	anchors anchors
	err     error
}

// anchors is nodes by the name that an alias may call them.
type anchors map[string]ast.Node

// check compares a node with the type of what it is read into.
func (w *whole) check(n ast.Node, t reflect.Type) {
	for t != nil && t.Kind() == reflect.Pointer && !custom(t) {
		t = t.Elem()
	}
	if n == nil || w.err != nil || t == nil || custom(t) {
		return
	}
	switch n := n.(type) {
	case *ast.AnchorNode:
		w.anchors[n.Name.String()] = n.Value
		w.check(n.Value, t)
	case *ast.AliasNode:
		// An anchor that holds its own alias is refused by the library; each is looked at once here.
		if v, ok := w.anchors[n.Value.String()]; ok {
			if f, ok := v.(*ast.FloatNode); ok {
				w.number(f, t)
			}
		}
	case *ast.TagNode:
		w.check(n.Value, t)
	case *ast.MappingNode:
		for _, v := range n.Values {
			w.entry(v, t)
		}
	case *ast.MappingValueNode:
		w.entry(n, t)
	case *ast.SequenceNode:
		if t.Kind() == reflect.Slice || t.Kind() == reflect.Array {
			for _, v := range n.Values {
				w.check(v, t.Elem())
			}
		}
	case *ast.FloatNode:
		w.number(n, t)
	}
}

// entry looks at one key of a struct or a map.
func (w *whole) entry(v *ast.MappingValueNode, t reflect.Type) {
	switch t.Kind() {
	case reflect.Map:
		w.check(v.Value, t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if name, _, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ","); name == v.Key.String() {
				w.check(v.Value, t.Field(i).Type)
			}
		}
	}
}

// number refuses a fraction where the type has none.
func (w *whole) number(n *ast.FloatNode, t reflect.Type) {
	if k := t.Kind(); k < reflect.Int || k > reflect.Uintptr {
		return
	}
	if n.Value != math.Trunc(n.Value) || math.Abs(n.Value) >= 1<<53 {
		line, column := place(n.Token)
		w.err = &Error{Line: line, Column: column, Message: fmt.Sprintf("got %s, want a whole number",
			n.Token.Value)}
	}
}

// custom reports whether a type reads itself.
func custom(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	for _, i := range []reflect.Type{
		reflect.TypeFor[encoding.TextUnmarshaler](), reflect.TypeFor[yaml.BytesUnmarshaler](),
		reflect.TypeFor[yaml.InterfaceUnmarshaler](),
	} {
		if p.Implements(i) {
			return true
		}
	}
	return false
}
