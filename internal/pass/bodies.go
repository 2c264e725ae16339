package pass

import (
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// Everywhere runs a pass on a program and on the bodies of the ops in it, the inner ones first.
func Everywhere(f *ir.Func, run func(*ir.Func) (*ir.Func, error)) (*ir.Func, error) {
	bodied := false
	for _, n := range f.Nodes() {
		_, ok := n.Op().(op.Bodied)
		bodied = bodied || ok
	}
	if !bodied {
		return run(f)
	}
	var failed error
	g, err := f.Rewrite(func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
		o, err := inBodies(n, run)
		if err != nil && failed == nil {
			failed = err
		}
		return b.Apply(o, in)
	})
	if failed != nil {
		return nil, failed
	}
	if err != nil {
		return nil, err
	}
	return run(g)
}

// inBodies returns a node's op after a pass has run on its bodies.
func inBodies(n *ir.Node, run func(*ir.Func) (*ir.Func, error)) (ir.Op, error) {
	o, ok := n.Op().(op.Bodied)
	if !ok {
		return n.Op(), nil
	}
	bodies, err := o.Bodies(ir.TypesOf(n.In()))
	if err != nil {
		return o, err
	}
	changed := make([]*ir.Func, len(bodies))
	for i, f := range bodies {
		if changed[i], err = Everywhere(f, run); err != nil {
			return o, err
		}
	}
	return o.WithBodies(changed), nil
}
