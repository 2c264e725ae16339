package op

import (
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
)

// CooperativeRule lets axes that split the experts split the rows as well: rows are then sent to their
// experts.
func (o experts) CooperativeRule(in []Type) CooperativeRule {
	if o.Total != 0 {
		return CooperativeRule{}
	}
	return CooperativeRule{Rule: o.ruleOf(in, "E&"), Prefer: Always}
}

func (o experts) Cooperate(at *Place, in []*Tensor) []*Tensor {
	s := newExpertSharing(at)
	if len(s.exchange) == 0 {
		part := experts{Offset: s.own.Start, Total: s.total}
		return []*Tensor{s.complete(apply1(part, in...))}
	}
	return []*Tensor{s.complete(apply1(s.op(), in...))}
}

// CooperativeRule is as for the forward op.
func (o expertsGrad) CooperativeRule(in []Type) CooperativeRule {
	if o.Total != 0 {
		return CooperativeRule{}
	}
	return CooperativeRule{Rule: o.ruleOf(in, "E&"), Prefer: Always}
}

func (o expertsGrad) Cooperate(at *Place, in []*Tensor) []*Tensor {
	s := newExpertSharing(at)
	var g []*Tensor
	if len(s.exchange) == 0 {
		g = ir.Apply(expertsGrad{Offset: s.own.Start, Total: s.total}, in...)
	} else {
		g = ir.Apply(expertsExchangeGrad(s.op()), in...)
	}
	return []*Tensor{s.complete(g[0]), s.complete(g[1]), g[2], g[3]}
}

// expertSharing describes how the devices of a mesh share experts. Along axes that also split rows or
// choices, rows are exchanged; along the other axes all devices have the same rows, and sum the results of
// their experts.
type expertSharing struct {
	joint
	exchange, sum mesh.Axes
	owners        []int
}

func newExpertSharing(at *Place) expertSharing {
	s := expertSharing{joint: at.joint(3, 0)}
	var rows mesh.Axes
	for f, axes := range at.Assign {
		if !at.Rule.Factors[f].Shared && at.Rule.Has(1, f) {
			rows = append(rows, axes...)
		}
	}
	for _, x := range s.axes {
		if slices.Contains(rows, x) {
			s.exchange = append(s.exchange, x)
		} else {
			s.sum = append(s.sum, x)
		}
	}
	s.owners = s.places()
	return s
}

// places returns, for each expert, the position of its owners along the exchange's axes.
func (s expertSharing) places() []int {
	owners := make([]int, s.total)
	for p, r := range partsOf(s.mesh, s.total, s.axes) {
		place, rest := 0, p
		digits := make([]int, len(s.axes))
		for i := len(s.axes) - 1; i >= 0; i-- {
			digits[i] = rest % s.mesh.Extent(s.axes[i])
			rest /= s.mesh.Extent(s.axes[i])
		}
		for i, x := range s.axes {
			if slices.Contains(s.exchange, x) {
				place = place*s.mesh.Extent(x) + digits[i]
			}
		}
		for e := r.Start; e < r.Start+r.Size; e++ {
			owners[e] = place
		}
	}
	return owners
}

func (s expertSharing) op() expertsExchange {
	return expertsExchange{Mesh: s.mesh.String(), Axes: s.exchange.String(), Owners: s.owners,
		Offset: s.own.Start}
}

// complete sums x over the devices with the same rows.
func (s expertSharing) complete(x *Tensor) *Tensor {
	if s.mesh.Count(s.sum) == 1 {
		return x
	}
	return AllReduce(x, s.mesh, s.sum, mesh.Sum)
}
