package step

import (
	"github.com/galley-ml/galley/internal/fault"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// smallBytes is up to where a collective costs its latency and not its bytes: such ones travel together.
const smallBytes = 1 << 16

// bucket joins the small sums over devices of a program's parameters into one for each group of devices: the
// gradients of norms and biases, of which there are many. What a sum does, it does to every element alone, so
// the numbers are the same.
func bucket(f *ir.Func) (*ir.Func, error) {
	defer fault.Pass("bucket", f)
	groups := map[string][]*ir.Node{}
	for _, n := range f.Nodes() {
		if key, ok := bucketKey(n); ok {
			groups[key] = append(groups[key], n)
		}
	}
	b := ir.NewBuilder(f.Name())
	env := make([]*ir.Value, f.NumValues())
	for i, v := range b.ParamsOf(f) {
		env[i] = v
	}
	for _, n := range f.Nodes() {
		if env[n.Out()[0].ID()] != nil { // it went with an earlier one
			continue
		}
		restore := b.At(n.Pos())
		if key, ok := bucketKey(n); ok && len(groups[key]) > 1 {
			bucketed(groups[key], env)
		} else {
			in := make([]*ir.Value, len(n.In()))
			for i, v := range n.In() {
				in[i] = env[v.ID()]
			}
			for i, v := range b.Apply(n.Op(), in) {
				env[n.Out()[i].ID()] = v
			}
		}
		restore()
	}
	results := make([]*ir.Value, len(f.Results()))
	for i, v := range f.Results() {
		results[i] = env[v.ID()]
	}
	return b.Build(results...)
}

// bucketKey tells apart the collectives that can travel together, and says whether a node is one.
func bucketKey(n *ir.Node) (string, bool) {
	if _, ok := n.Op().(op.Elementwise); !ok {
		return "", false
	}
	x := n.In()[0]
	if x.Node() != nil || x.Type().Bytes() > smallBytes || x.Shape().Len() == 0 {
		return "", false
	}
	return x.DType().String() + ir.FormatOp(n.Op()), true
}

// bucketed applies a collective to all its operands as one.
func bucketed(nodes []*ir.Node, env []*ir.Value) {
	var flat []*ir.Value
	for _, n := range nodes {
		flat = append(flat, op.Reshape(env[n.In()[0].ID()], n.In()[0].Shape().Len()))
	}
	all := ir.Apply(nodes[0].Op(), op.Concat(flat, 0))[0]
	at := 0
	for _, n := range nodes {
		size := n.In()[0].Shape().Len()
		env[n.Out()[0].ID()] = op.Reshape(op.Narrow(all, 0, at, at+size), n.In()[0].Shape()...)
		at += size
	}
}
