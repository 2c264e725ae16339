package accelerator

import (
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// used returns the weights in the layouts for computation, and which of them are gathered for it; on one
// device they are unchanged.
func (s *group) used(params []*op.Tensor) (used []*op.Tensor, gathered []bool) {
	if s == nil {
		return params, nil
	}
	used, gathered = slices.Clone(params), make([]bool, len(params))
	for i, w := range s.weights {
		if gathered[i] = !w.Use.Equal(w.Rest); gathered[i] {
			used[i] = s.at(params[i], w.Use)
		}
	}
	return used, gathered
}

// updated returns the weights and gradients in the layouts of their slots.
func (s *group) updated(params, grads []*op.Tensor) (own, there []*op.Tensor) {
	if s == nil {
		return params, grads
	}
	own, there = slices.Clone(params), slices.Clone(grads)
	for i, w := range s.weights {
		if !w.Slot.Equal(w.Rest) {
			own[i] = s.at(params[i], w.Slot)
		}
		there[i] = s.at(grads[i], w.Slot)
	}
	return own, there
}

// partLayouts returns the layouts of the inputs and outputs of a micro-batch's program. Gradients between
// micro-batches have the layouts that in-process devices use: with ZeRO 2 and 3 they are reduce-scattered for
// each micro-batch, which saves memory; otherwise every device sums its own, and they are reduced once a
// step. The first program decides for all.
func (s *group) partLayouts(p *ir.Func, in []mesh.Sharding) (layouts, error) {
	var grads []*ir.Value
	var sums []mesh.Spec
	for i, w := range s.weights {
		sums = append(sums, w.Sum)
		if n := p.Results()[losses+i].Node(); n != nil {
			grads = append(grads, n.In()[1])
		} else { // the sum for a weight that is never used does not change
			grads = append(grads, p.Results()[losses+i])
		}
	}
	fused, err := s.partition(p, s.partLayoutsAs(sums, in))
	if err != nil {
		return layouts{}, err
	}
	layout, inner := fused.Unreduced(grads, sums)
	if s.sums == nil {
		s.sums = layout
	}
	l := s.partLayoutsAs(s.sums, in)
	l.inner = inner
	return l, nil
}

func (s *group) partLayoutsAs(sums []mesh.Spec, in []mesh.Sharding) layouts {
	var l layouts
	for _, w := range s.weights {
		l.params = append(l.params, mesh.Closed(w.Rest))
	}
	l = l.withSums(sums)
	l.results = append(slices.Repeat([]mesh.Spec{mesh.Whole(0)}, losses), sums...)
	l.params = append(l.params, in...)
	return l
}

// withSums adds the sums to the parameters.
func (l layouts) withSums(sums []mesh.Spec) layouts {
	for range losses {
		l.params = append(l.params, mesh.Closed(mesh.Whole(0)))
	}
	for _, spec := range sums {
		l.params = append(l.params, mesh.Closed(spec))
	}
	return l
}

// zeroSpecs returns the layouts of the initial sums. Unreduced zeros are zeros.
func (s *group) zeroSpecs() []mesh.Spec {
	if s == nil {
		return nil
	}
	specs := slices.Repeat([]mesh.Spec{mesh.Whole(0)}, losses)
	for _, sum := range s.sums {
		specs = append(specs, sum.With())
	}
	return specs
}

// updateLayouts returns the layouts of the inputs and outputs of the update program.
func (s *group) updateLayouts() layouts {
	if s == nil {
		return layouts{}
	}
	l := s.stateLayouts()
	scalar := mesh.Closed(mesh.Whole(0))
	l = l.withSums(s.sums)
	l.params = append(l.params, scalar, scalar)
	return l
}
