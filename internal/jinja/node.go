package jinja

import (
	"errors"
	"fmt"
	"strings"
)

// node is a part of a template that writes.
type node interface {
	render(r *renderer, to *strings.Builder) error
}

type (
	textNode    string
	groupNode   []node
	controlNode string
	outputNode  struct {
		expr
		line int
	}
	doNode struct {
		expr
		line int
	}
	ifNode struct {
		test        expr
		body, other []node
		line        int
	}
	forNode struct {
		names       []string
		list, test  expr
		body, other []node
		line        int
	}
	setNode struct {
		names     []string
		attribute string
		value     expr
		body      []node
		filters   []filterExpr
		block     bool
		line      int
	}
	macroNode struct {
		name     string
		args     []string
		defaults []expr
		body     []node
		line     int
	}
	filterNode struct {
		filter filterExpr
		body   []node
		line   int
	}
)

// renderer is one rendering.
type renderer struct {
	scopes []map[string]any
	steps  int
	depth  int
}

// maxSteps and maxOutput bound what a template may do: a mistake in one must not hold a server up.
const (
	maxSteps  = 1 << 20
	maxOutput = 64 << 20
)

var (
	errBreak    = errors.New("break outside of a loop")
	errContinue = errors.New("continue outside of a loop")
)

// Render writes the template with values: texts, numbers, lists, maps, and what FromJSON gives.
func (t *Template) Render(values map[string]any) (string, error) {
	top := map[string]any{}
	for k, v := range globals {
		top[k] = v
	}
	for k, v := range values {
		top[k] = fromGo(v)
	}
	r := &renderer{scopes: []map[string]any{top, {}}}
	var b strings.Builder
	if err := r.all(t.body, &b); err != nil {
		return "", err
	}
	return b.String(), nil
}

func (r *renderer) all(list []node, to *strings.Builder) error {
	for _, n := range list {
		if err := r.spend(1, to.Len()); err != nil {
			return err
		}
		if err := n.render(r, to); err != nil {
			return err
		}
	}
	return nil
}

// spend counts steps, and fails where there are too many, or too much was written.
func (r *renderer) spend(steps, written int) error {
	if r.steps += steps; r.steps > maxSteps || written > maxOutput {
		return errors.New("the template does not end")
	}
	return nil
}

func (r *renderer) lookup(name string) any {
	for i := len(r.scopes) - 1; i >= 0; i-- {
		if v, ok := r.scopes[i][name]; ok {
			return v
		}
	}
	return undefined(name)
}

func (r *renderer) set(name string, v any) { r.scopes[len(r.scopes)-1][name] = v }

// within runs f in a scope of its own.
func (r *renderer) within(f func() error) error {
	r.scopes = append(r.scopes, map[string]any{})
	defer func() { r.scopes = r.scopes[:len(r.scopes)-1] }()
	return f()
}

// at names the line of an error once.
func at(line int, err error) error {
	var placed *placedError
	if err == nil || errors.As(err, &placed) || errors.Is(err, errBreak) || errors.Is(err, errContinue) {
		return err
	}
	return &placedError{line, err}
}

type placedError struct {
	line int
	err  error
}

func (e *placedError) Error() string { return fmt.Sprintf("line %d: %v", e.line, e.err) }
func (e *placedError) Unwrap() error { return e.err }

func (n textNode) render(_ *renderer, to *strings.Builder) error {
	to.WriteString(string(n))
	return nil
}

func (n groupNode) render(r *renderer, to *strings.Builder) error { return r.all(n, to) }

func (n controlNode) render(*renderer, *strings.Builder) error {
	if n == "break" {
		return errBreak
	}
	return errContinue
}

func (n outputNode) render(r *renderer, to *strings.Builder) error {
	v, err := n.eval(r)
	if err == nil {
		to.WriteString(show(v))
	}
	return at(n.line, err)
}

func (n doNode) render(r *renderer, _ *strings.Builder) error {
	_, err := n.eval(r)
	return at(n.line, err)
}

func (n ifNode) render(r *renderer, to *strings.Builder) error {
	v, err := n.test.eval(r)
	if err != nil {
		return at(n.line, err)
	}
	if truth(v) {
		return r.all(n.body, to)
	}
	return r.all(n.other, to)
}

func (n setNode) render(r *renderer, _ *strings.Builder) error { return at(n.line, n.assign(r)) }

func (n setNode) assign(r *renderer) error {
	v, err := n.evaluate(r)
	if err != nil {
		return err
	}
	if n.attribute != "" {
		ns, ok := r.lookup(n.names[0]).(namespace)
		if !ok {
			return fmt.Errorf("cannot set %s.%s: want a namespace", n.names[0], n.attribute)
		}
		ns[n.attribute] = v
		return nil
	}
	return r.bind(n.names, v)
}

func (n setNode) evaluate(r *renderer) (any, error) {
	if !n.block {
		return n.value.eval(r)
	}
	var b strings.Builder
	if err := r.within(func() error { return r.all(n.body, &b) }); err != nil {
		return nil, err
	}
	var v any = b.String()
	for _, f := range n.filters {
		f.of = constExpr{v}
		var err error
		if v, err = f.eval(r); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// bind gives names to a value, or to its elements.
func (r *renderer) bind(names []string, v any) error {
	if len(names) == 1 {
		r.set(names[0], v)
		return nil
	}
	list, ok := sequenceOf(v)
	if !ok || len(list) != len(names) {
		return fmt.Errorf("cannot unpack a %s into %d names", typeName(v), len(names))
	}
	for i, name := range names {
		r.set(name, list[i])
	}
	return nil
}

func (n filterNode) render(r *renderer, to *strings.Builder) error {
	var b strings.Builder
	if err := r.within(func() error { return r.all(n.body, &b) }); err != nil {
		return err
	}
	f := n.filter
	f.of = constExpr{b.String()}
	v, err := f.eval(r)
	if err == nil {
		to.WriteString(show(v))
	}
	return at(n.line, err)
}

func (n macroNode) render(r *renderer, _ *strings.Builder) error {
	base := r.scopes[:len(r.scopes):len(r.scopes)]
	r.set(n.name, callable(func(r *renderer, args []any, named map[string]any) (any, error) {
		return n.call(r, base, args, named)
	}))
	return nil
}

func (n macroNode) call(r *renderer, base []map[string]any, args []any, named map[string]any) (any, error) {
	if r.depth++; r.depth > maxDepth {
		return nil, errors.New("macros call each other too deep")
	}
	defer func() { r.depth-- }()
	if len(args) > len(n.args) {
		return nil, fmt.Errorf("macro %s: got %d arguments, want at most %d", n.name, len(args), len(n.args))
	}
	outer := r.scopes
	r.scopes = append(base[:len(base):len(base)], map[string]any{})
	defer func() { r.scopes = outer }()
	for i, name := range n.args {
		v, given := named[name]
		switch {
		case i < len(args):
			v = args[i]
		case given:
		case n.defaults[i] != nil:
			var err error
			if v, err = n.defaults[i].eval(r); err != nil {
				return nil, err
			}
		default:
			v = undefined(name)
		}
		r.set(name, v)
	}
	for name := range named {
		if !contains(n.args, name) {
			return nil, fmt.Errorf("macro %s: no argument %q", n.name, name)
		}
	}
	var b strings.Builder
	if err := r.all(n.body, &b); err != nil {
		return nil, err
	}
	return b.String(), nil
}
