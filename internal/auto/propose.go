package auto

import (
	"slices"

	"github.com/galley-ml/galley/internal/executor"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/pass"
	"github.com/galley-ml/galley/internal/seed"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/strategy"
)

// proposer lets package seed find how every op of a step should be split along the tensor axis.
type proposer struct{ space *space }

// proposal is the result of a search over the shardings of every op.
type proposal struct {
	candidate Candidate
	result    *seed.Result
}

// propose returns the best layouts for the ops of a step on a mesh, with the rows of one device of the data
// axes; nil if there is nothing to split.
func (p *proposer) propose(m strategy.Strategy, memory float64) (*proposal, error) {
	f, err := p.program(m, 1)
	if err != nil {
		return nil, err
	}
	axis, err := mesh.New([]mesh.Axis{{Name: strategy.TensorAxis, Size: m.TP}})
	if err != nil {
		return nil, err
	}
	c := p.space.c
	r, err := seed.Find(f, seed.Config{Mesh: axis, Prices: c.Machine.prices(axis, m), Next: next(f),
		Given: p.given(f, axis), Memory: memory, Rounds: 40})
	if err != nil {
		return nil, err
	}
	out := &proposal{candidate: p.space.whole(m), result: r}
	for k, class := range p.space.classes {
		for _, i := range class {
			out.candidate.Weights[i] = within(r.Specs[f.Params()[class[0]].ID()], p.space.weights(k, m))
		}
	}
	first := len(f.Params()) - len(f.Captures()) - len(c.Batch)
	for i := range c.Batch {
		spec := r.Specs[f.Params()[first+i].ID()]
		out.candidate.Inputs[i] = within(spec, p.space.inputs(i, out.candidate.Strategy))
	}
	return out, nil
}

// program returns the step on the rows of one device of the data axes, in one of micro micro-batches.
func (p *proposer) program(m strategy.Strategy, micro int) (*ir.Func, error) {
	c := p.space.c
	batch := slices.Clone(c.Batch)
	for i, t := range batch {
		if len(t.Shape) > 0 && t.Shape[0] == p.space.rows {
			batch[i].Shape = t.Shape.Clone()
			batch[i].Shape[0] /= m.DP * micro
		}
	}
	f, err := c.Run.TraceStep(batch)
	if err != nil {
		return nil, err
	}
	return pass.Optimize(f)
}

// next returns the parameter that each result of a step becomes.
func next(f *ir.Func) map[int]int {
	list := map[int]int{}
	for i := executor.Metrics; i < len(f.Results()); i++ {
		list[i] = i - executor.Metrics
	}
	return list
}

// given returns the requested layouts of parameters, restricted to the tensor axis.
func (p *proposer) given(f *ir.Func, axis *mesh.Mesh) map[int]mesh.Sharding {
	list := map[int]mesh.Sharding{}
	for i, s := range p.space.given {
		list[f.Params()[i].ID()] = mesh.Closed(onAxis(s))
	}
	return list
}

// onAxis returns a Spec with only the tensor axis.
func onAxis(s mesh.Spec) mesh.Spec {
	out := mesh.Whole(len(s.Dims))
	for d, axes := range s.Dims {
		for _, x := range axes {
			if x.Axis == strategy.TensorAxis {
				out.Dims[d] = append(out.Dims[d], x)
			}
		}
	}
	return out
}

// within returns a layout if it is among the options, otherwise the first option.
func within(s mesh.Spec, options []mesh.Spec) mesh.Spec {
	if i := slices.IndexFunc(options, s.Equal); i >= 0 {
		return options[i]
	}
	return options[0]
}
