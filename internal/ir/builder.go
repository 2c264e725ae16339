package ir

import (
	"errors"
	"fmt"
	"sync/atomic"
)

// Builder builds a Func. It is the Scope of the values in it. The first error is kept: later ops do nothing,
// and Build returns it.
type Builder struct {
	name     string
	params   []*Value
	nodes    []*Node
	captured map[*Value]*Value
	sources  []*Value
	// as, if set, returns the replacement of a captured value where it is used; shown caches these.
	as    func(x *Value) *Value
	shown map[*Value]*Value
	pos   Pos
	err   error
	built bool
	// level is above that of every enclosing program; 0 means a program that is not a body.
	level int64
}

// NewBuilder starts a program.
func NewBuilder(name string) *Builder {
	return &Builder{name: name, captured: map[*Value]*Value{}}
}

// levels counts the bodies that were started: an inner one is started later.
var levels atomic.Int64

// NewBody starts a program inside another, the body of an op. A value from outside, traced or eager, becomes
// a captured parameter; an op on values of several programs belongs to the innermost.
func NewBody(name string) *Builder {
	b := NewBuilder(name)
	b.level = levels.Add(1)
	return b
}

// Param adds a parameter.
func (b *Builder) Param(name string, t Type) *Value {
	if err := t.check(); err != nil && b.err == nil {
		b.err = &Error{Pos: b.here(), Op: fmt.Sprintf("parameter %q", name), Err: err}
	}
	v := &Value{typ: t, scope: b, name: name, tracked: true}
	b.params = append(b.params, v)
	return v
}

// At makes the following nodes carry pos, instead of the caller's position, until restore is called. Passes
// use it so that nodes they add name the source line that they are for.
func (b *Builder) At(pos Pos) (restore func()) {
	old := b.pos
	b.pos = pos
	return func() { b.pos = old }
}

// Err returns the first error so far.
func (b *Builder) Err() error { return b.err }

// Apply adds a node.
func (b *Builder) Apply(op Op, in []*Value) []*Value {
	if b.err == nil && b.built {
		b.fail(op, errors.New("the program is already built: the tensors of a trace live only inside its function"))
	}
	operands := make([]*Value, len(in))
	for i, v := range in {
		operands[i] = b.own(op, v)
	}
	types := make([]Type, len(in))
	for i, v := range operands {
		types[i] = v.typ
	}
	if b.err != nil {
		return b.inert(op, types)
	}
	out, err := Infer(op, types)
	if err != nil {
		b.fail(op, err)
		return b.inert(op, types)
	}
	return b.add(op, operands, out)
}

func (b *Builder) add(op Op, in []*Value, out []Type) []*Value {
	n := &Node{op: op, in: in, pos: b.here(), seq: len(b.nodes)}
	for i, t := range out {
		n.out = append(n.out, &Value{typ: t, scope: b, node: n, index: i, tracked: true})
	}
	b.nodes = append(b.nodes, n)
	return n.out
}

func (b *Builder) here() Pos {
	if b.pos != "" {
		return b.pos
	}
	return Caller()
}

func (b *Builder) fail(op Op, err error) {
	if b.err == nil {
		b.err = &Error{Pos: b.here(), Op: op.Name(), Err: err}
	}
}

// own returns v as a value of this program: an eager value becomes a captured parameter.
func (b *Builder) own(op Op, v *Value) *Value {
	switch {
	case v == nil:
		b.fail(op, errors.New("operand is nil"))
		return Invalid(b, b.err)
	case v.err != nil:
		if b.err == nil {
			b.err = v.err
		}
		return v
	case v.scope == Scope(b):
		return v
	case v.store == nil && v.later == nil && !b.within(v.scope):
		b.fail(op, errors.New("operand belongs to another trace"))
		return v
	}
	p, ok := b.captured[v]
	if !ok {
		p = b.Param(v.name, v.typ)
		b.captured[v] = p
		b.sources = append(b.sources, v)
		if b.as != nil {
			b.shown[p] = b.as(p)
		}
	}
	if q := b.shown[p]; q != nil {
		return q
	}
	return p
}

// within reports whether b is a body inside the program of a scope that is still being built.
func (b *Builder) within(s Scope) bool {
	outer, ok := s.(*Builder)
	return ok && outer.level < b.level && !outer.built
}

// CaptureAs replaces uses of eager values that are captured from now on by f of them, such as a cast.
func (b *Builder) CaptureAs(f func(x *Value) *Value) { b.as, b.shown = f, map[*Value]*Value{} }

// inert returns enough invalid values for any caller to index.
func (b *Builder) inert(op Op, in []Type) []*Value {
	return InvalidResults(b, op, len(in), b.err)
}

// Build ends the program with its results. Results of another scope are captured.
func (b *Builder) Build(results ...*Value) (*Func, error) {
	owned := make([]*Value, len(results))
	for i, v := range results {
		owned[i] = b.own(returnOp{}, v)
	}
	if b.err != nil {
		return nil, b.err
	}
	b.built = true
	f := &Func{name: b.name, nodes: b.nodes, results: owned, captures: b.sources}
	captured := map[*Value]bool{}
	for _, src := range b.sources {
		captured[b.captured[src]] = true
	}
	for _, p := range b.params {
		if !captured[p] {
			f.params = append(f.params, p)
		}
	}
	for _, src := range b.sources {
		f.params = append(f.params, b.captured[src])
	}
	f.number()
	return f, nil
}

// returnOp is the op that errors about a program's results name.
type returnOp struct{}

func (returnOp) Name() string                 { return "return" }
func (returnOp) Infer([]Type) ([]Type, error) { return nil, fmt.Errorf("not an op") }
