package pass

import (
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// piecer is an op with several results that splits its operand; Pieces returns equivalent ops of one result.
type piecer interface{ Pieces() []op.Op }

// caster is an op that can write its result in another dtype.
type caster interface {
	Into(dtype array.DType) (op.Op, bool)
}

// zeroSkipper is a product that can skip zeros at the ends of its operands' rows.
type zeroSkipper interface{ SkipZeros() op.Op }

// skipping returns the op of a product that skips the zeros that a mask leaves; nil if it does not apply.
func skipping(n *ir.Node) op.Op {
	z, ok := n.Op().(zeroSkipper)
	if !ok || !slices.ContainsFunc(n.In(), op.MaskedZeros) {
		return nil
	}
	return z.SkipZeros()
}

func casts(o ir.Op) bool { _, ok := op.CastsTo(o); return ok }

// written returns the op that writes the result of a cast directly, from the operands of the node that is
// cast; nil if there is none.
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

// prepare rewrites a program with ops that loops support: splits as slices, sums of padded parts as
// concatenations, casts as ops that write another dtype. Products after a mask skip its zeros. All values
// keep their bits.
func prepare(f *ir.Func) (*ir.Func, error) {
	joins, change := map[*ir.Node]bool{}, false
	for _, n := range f.Nodes() {
		if len(n.Out()) == 1 && !n.Out()[0].DType().IsHalf() && n.Out()[0].DType().IsFloat() {
			if parts, _ := op.PaddedParts(n.Out()[0]); parts != nil {
				joins[n], change = true, true
			}
		}
		change = change || cutInLoops(n) || written(n) != nil || skipping(n) != nil
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
		case skipping(n) != nil:
			out = b.Apply(skipping(n), in)
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

// cutInLoops reports whether a node splits its operand into slices that loops can read.
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

// stillRead returns the nodes that are still read when concatenations replace sums, and those that were
// unused before: other devices may wait for them.
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
