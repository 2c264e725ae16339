package galley

import (
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/backend"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// withCopies is a step whose products take the weights in 16 bits from the state, where the update writes them beside the new weights:
// a step need not read the weights first to round them. which is the weights, by their numbers, that have such copies; these come
// behind the rest of the state, whose length is given, and behind all other results.
func withCopies(p *Program, which []int, state int, d array.DType) (*Program, error) {
	b := ir.NewBuilder(p.Name())
	args, copies := make([]*Tensor, 0, len(p.Params())), map[int]*Tensor{}
	for k, v := range p.Params()[:len(p.Params())-len(p.Captures())] {
		if k == state {
			for _, i := range which {
				w := p.Params()[i]
				copies[i] = b.Param(w.Name()+".rounded", Type{DType: d, Shape: w.Shape()})
			}
		}
		args = append(args, b.Param(v.Name(), v.Type()))
	}
	args = append(args, p.Captures()...)
	results := p.Replay(b, args, func(n *ir.Node, in []*Tensor) []*Tensor {
		if i, ok := roundedBy(n, d); ok && copies[i] != nil {
			return []*Tensor{copies[i]}
		}
		return b.Apply(n.Op(), in)
	})
	for _, i := range which {
		results = append(results, op.Cast(results[2+i], d))
	}
	return b.Build(results...)
}

// roundedBy is the parameter that a node rounds to d, if it does.
func roundedBy(n *ir.Node, d array.DType) (param int, ok bool) {
	if n.Op().Name() != "cast" || n.Out()[0].DType() != d {
		return 0, false
	}
	v := n.In()[0]
	return v.ID(), v.Node() == nil
}

// roundedWeights is which of the weights a step rounds to d.
func roundedWeights(p *Program, weights int, d array.DType) []int {
	var list []int
	for _, n := range p.Nodes() {
		if i, ok := roundedBy(n, d); ok && i < weights && !slices.Contains(list, i) {
			list = append(list, i)
		}
	}
	slices.Sort(list)
	return list
}

// refresh makes the copies of weights anew where there are none, or a checkpoint brought other weights.
func (r *remote) refresh() error {
	if !r.stale {
		return nil
	}
	drop := func() {
		for _, b := range r.state[0][r.owned:] {
			b.Free()
		}
		r.state[0] = r.state[0][:r.owned]
	}
	drop()
	for _, i := range r.copied {
		b, err := r.rounded(r.state[0][i])
		if err != nil {
			drop()
			return err
		}
		r.state[0] = append(r.state[0], b)
	}
	r.stale = false
	return nil
}

// rounded is a copy of a tensor in the type of computation.
func (r *remote) rounded(x backend.Buffer) (backend.Buffer, error) {
	run, err := r.once("round", []backend.Buffer{x}, func(in []*Tensor) *Tensor { return op.Cast(in[0], r.c.Compute) })
	if err != nil {
		return nil, err
	}
	return run()
}

// settled is gradients none of which is there before all are, so that the update of a weight's copy, in its place, comes behind whatever reads it. What
// rounds a gradient up is left to the update, which reads less then.
func settled(grads []*Tensor) []*Tensor {
	short := make([]*Tensor, len(grads))
	for i, g := range grads {
		short[i] = g
		if n := g.Node(); n != nil && n.Op().Name() == "cast" && n.In()[0].DType().IsHalf() {
			short[i] = n.In()[0]
		}
	}
	all := make([]*Tensor, len(grads))
	for i, g := range op.Await(short...) {
		all[i] = op.Cast(g, grads[i].DType())
	}
	return all
}
