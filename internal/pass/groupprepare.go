package pass

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// piecer is an op of several results that cuts its operand: ops with one result each do the same.
type piecer interface{ Pieces() []op.Op }

// caster is an op that can write its result in another dtype.
type caster interface {
	Into(dtype array.DType) (op.Op, bool)
}

func casts(o ir.Op) bool { _, ok := op.CastsTo(o); return ok }

// written returns the op that makes the result of a cast at once from the operands of what is cast; nil if
// there is none.
func written(n *ir.Node) op.Op {
	if !casts(n.Op()) || n.In()[0].Node() == nil {
		return nil
	}
	if c, ok := n.In()[0].Node().Op().(caster); ok {
		if o, ok := c.Into(n.Out()[0].DType()); ok {
			return o
		}
	}
	return nil
}

// prepare writes a program in ops that loops have: cuts as slices, sums of padded parts as joins, casts as
// ops that write what was cast. All values keep their bits: a part and zeros are added as before.
func prepare(f *ir.Func) (*ir.Func, error) {
	joins, change := map[*ir.Node]bool{}, false
	for _, n := range f.Nodes() {
		if len(n.Out()) == 1 && !n.Out()[0].DType().IsHalf() && n.Out()[0].DType().IsFloat() {
			if parts, _ := op.PaddedParts(n.Out()[0]); parts != nil {
				joins[n], change = true, true
			}
		}
		change = change || cutInLoops(n) || written(n) != nil
	}
	if !change {
		return f, nil
	}
	live := stillRead(f, joins)
	env := make([]*ir.Value, f.NumValues())
	return f.Rewrite(func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
		out := make([]*ir.Value, len(n.Out()))
		switch {
		case !live[n]:
		case joins[n]:
			parts, dim := op.PaddedParts(n.Out()[0])
			for i, x := range parts {
				parts[i] = op.AddScalar(env[x.ID()], 0)
			}
			out[0] = op.Concat(parts, dim)
		case written(n) != nil:
			var args []*ir.Value
			for _, x := range n.In()[0].Node().In() {
				args = append(args, env[x.ID()])
			}
			out[0] = b.Apply(written(n), args)[0]
		case cutInLoops(n):
			for i, o := range n.Op().(piecer).Pieces() {
				out[i] = b.Apply(o, in)[0]
			}
		default:
			out = b.Apply(n.Op(), in)
		}
		for i, v := range n.In() {
			env[v.ID()] = in[i]
		}
		for i, v := range n.Out() {
			env[v.ID()] = out[i]
		}
		return out
	})
}

// cutInLoops reports whether a node cuts its operand into what loops can read.
func cutInLoops(n *ir.Node) bool {
	p, ok := n.Op().(piecer)
	if !ok {
		return false
	}
	for i, o := range p.Pieces() {
		l, ok := op.LoopOf(o, ir.TypesOf(n.In()), ir.TypesOf(n.Out()[i:i+1]))
		if !ok || l.Kind != op.LoopWalk {
			return false
		}
	}
	return true
}

// stillRead returns the nodes that are read when joins take the place of sums, and those that nothing read
// before: other devices may wait for them.
func stillRead(f *ir.Func, joins map[*ir.Node]bool) map[*ir.Node]bool {
	uses, read := countUses(f), make([]bool, f.NumValues())
	for _, v := range f.Results() {
		read[v.ID()] = true
	}
	live := map[*ir.Node]bool{}
	nodes := f.Nodes()
	for i := len(nodes) - 1; i >= 0; i-- {
		n := nodes[i]
		idle := true
		for _, v := range n.Out() {
			idle = idle && uses[v.ID()] == 0
			live[n] = live[n] || read[v.ID()]
		}
		if live[n] = live[n] || idle; !live[n] {
			continue
		}
		in := n.In()
		if joins[n] {
			in, _ = op.PaddedParts(n.Out()[0])
		} else if written(n) != nil {
			in = n.In()[0].Node().In()
		}
		for _, v := range in {
			read[v.ID()] = true
		}
	}
	return live
}
