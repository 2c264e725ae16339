package step

import (
	"github.com/galley-ml/galley/internal/fault"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// byHosts lets collectives of a program go along the topology: within hosts of so many devices, then between
// them, so that what crosses is a host's share of it.
func byHosts(f *ir.Func, host int) (*ir.Func, error) {
	defer fault.Pass("collectives by hosts", f)
	b := ir.NewBuilder(f.Name())
	env := make([]*ir.Value, f.NumValues())
	for i, v := range b.ParamsOf(f) {
		env[i] = v
	}
	for _, n := range f.Nodes() {
		in := make([]*ir.Value, len(n.In()))
		for i, v := range n.In() {
			in[i] = env[v.ID()]
		}
		restore := b.At(n.Pos())
		y, ok := (*ir.Value)(nil), false
		if c, is := n.Op().(op.Hierarchic); is {
			y, ok = op.ByHosts(c, host, in[0])
		}
		if ok {
			env[n.Out()[0].ID()] = y
		} else {
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
