package op

import (
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
)

// sizes returns the sizes of the devices' parts, or nil if they are equal.
func (r *attentionRing) sizes() []int {
	if r.seq%len(r.parts) == 0 {
		return nil
	}
	var list []int
	for _, p := range r.parts {
		list = append(list, p.Size)
	}
	return list
}

// cut slices a device's part from the gathered keys and values.
func (r *attentionRing) cut(part mesh.Range) []*Tensor {
	var list []*Tensor
	for _, x := range r.whole {
		list = append(list, Narrow(x, 1, part.Start, part.Start+part.Size))
	}
	return list
}

// scattered returns the gradients of the device's queries, and those of its keys and values, reduce-scattered
// over the devices.
func (r *attentionRing) scattered(step attentionGradStep, q, dq *Tensor,
	fixed []*Tensor) (*Tensor, []*Tensor) {
	parts := [2][]*Tensor{make([]*Tensor, len(r.parts)), make([]*Tensor, len(r.parts))}
	for i := range r.parts {
		of := r.from(r.me, i)
		keys := r.cut(r.parts[of])
		grads := []*Tensor{zerosWide(keys[0]), zerosWide(keys[1])}
		if step.Keys = r.keys(i); r.seen(i) {
			y := ir.Apply(step, slices.Concat([]*Tensor{q, keys[0], keys[1]}, fixed, r.segments(keys), []*Tensor{dq},
				grads)...)
			dq, grads = y[0], y[1:]
		}
		parts[0][of], parts[1][of] = grads[0], grads[1]
	}
	var out []*Tensor
	for _, list := range parts {
		out = append(out, ReduceScatter(Concat(list, 1), r.mesh, r.axes, mesh.Sum, 1, r.sizes(),
			own(r.sizes(), r.parts[r.me].Size)))
	}
	return dq, out
}
