package galley

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/backend"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// withCopies is a step whose products take the weights in 16 bits from the state, where the update writes them beside the new weights:
// a step need not read the weights first to round them. which is the weights, by their numbers, that have such copies; these come
// behind the rest of the state, whose length is given, and behind all other results.
func withCopies(p *Program, weights, state int, d array.DType) (q *Program, which []int, err error) {
	rounded := roundedWeights(p, weights, d)
	for i := range weights {
		if rounded[i] {
			which = append(which, i)
		}
	}
	if len(which) == 0 || len(p.Captures()) > 0 {
		return p, nil, nil
	}
	b := ir.NewBuilder(p.Name())
	args, copies := make([]*Tensor, 0, len(p.Params())), map[int]*Tensor{}
	for k, v := range p.Params() {
		if k == state {
			for _, i := range which {
				w := p.Params()[i]
				copies[i] = b.Param(w.Name()+".rounded", Type{DType: d, Shape: w.Shape()})
			}
		}
		args = append(args, b.Param(v.Name(), v.Type()))
	}
	results := p.Replay(b, args, func(n *ir.Node, in []*Tensor) []*Tensor {
		if i, ok := roundedBy(n, weights, d); ok {
			return []*Tensor{copies[i]}
		}
		return b.Apply(n.Op(), in)
	})
	for _, i := range which {
		results = append(results, op.Cast(results[2+i], d))
	}
	q, err = b.Build(results...)
	return q, which, err
}

// roundedBy is the weight that a node rounds to d, if it does.
func roundedBy(n *ir.Node, weights int, d array.DType) (weight int, ok bool) {
	if n.Op().Name() != "cast" || n.Out()[0].DType() != d {
		return 0, false
	}
	v := n.In()[0]
	return v.ID(), v.Node() == nil && v.ID() < weights
}

func roundedWeights(p *Program, weights int, d array.DType) []bool {
	list := make([]bool, weights)
	for _, n := range p.Nodes() {
		if i, ok := roundedBy(n, weights, d); ok {
			list[i] = true
		}
	}
	return list
}

// refresh makes the copies of weights anew where there are none, or a checkpoint brought other weights.
func (r *remote) refresh() error {
	if !r.stale {
		return nil
	}
	state := r.state[0]
	for _, b := range state[r.owned:] {
		b.Free()
	}
	state = state[:r.owned]
	for _, i := range r.copied {
		b, err := r.rounded(state[i])
		if err != nil {
			return err
		}
		state = append(state, b)
	}
	r.state[0], r.stale = state, false
	return nil
}

// rounded is a copy of a tensor in the type of computation.
func (r *remote) rounded(x backend.Buffer) (backend.Buffer, error) {
	b := ir.NewBuilder("round")
	p, err := b.Build(op.Cast(b.Param("x", x.Type()), r.c.Compute))
	if err != nil {
		return nil, err
	}
	exe, err := r.compiled(p.String(), func() (backend.Executable, error) { return r.compile(p, lies{}, nil) })
	if err != nil {
		return nil, err
	}
	out, err := exe.Run([]backend.Buffer{x})
	if err != nil {
		return nil, err
	}
	return out[0], nil
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
