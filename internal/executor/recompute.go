package executor

import (
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/stage"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// Recomputed returns a training step whose backward pass recomputes what the policy does not keep. The
// program's first parameters are the weights; its first results, as many as losses, are those of the forward
// pass. Weights that are gathered for use are gathered again in the backward pass instead of being kept.
func Recomputed(p *ir.Func, weights, losses int, policy stage.Recompute, gathered []bool) (*ir.Func, error) {
	if policy == stage.RecomputeNone && !slices.Contains(gathered, true) {
		return p, nil
	}
	keep := stage.NewKeep(p, weights, BetweenLayers, func(mark string) stage.Recompute {
		if _, ok := nn.LayerOf(mark); ok {
			return policy
		}
		return PolicyOutside(policy)
	})
	forward, backward, err := stage.Cut(p, [2]string{"forward", "backward"}, UpTo(0, losses), keep)
	if err != nil {
		return nil, err
	}
	b := ir.NewBuilder(p.Name())
	values := make([]*ir.Value, p.NumValues())
	for i, v := range b.ParamsOf(p) {
		values[i] = v
	}
	replay(b, forward, values, func(v *ir.Value) *ir.Value { return v })
	// Otherwise a compiler would eliminate the recomputation as a common subexpression. Values that depend on
	// weights alone may be kept: they do not grow with the batch.
	replay(b, backward, values, func(v *ir.Value) *ir.Value {
		if v.Node() == nil && !(v.ID() < len(gathered) && gathered[v.ID()]) {
			return v
		}
		return op.Barrier(v)
	})
	results := make([]*ir.Value, len(p.Results()))
	for i, v := range p.Results() {
		results[i] = values[v.ID()]
	}
	return b.Build(results...)
}

// replay adds a part of a program to b. values maps the whole program's values, by ID, to those of b; seen is
// applied to the part's inputs.
func replay(b *ir.Builder, part *stage.Part, values []*ir.Value, seen func(*ir.Value) *ir.Value) {
	args := make([]*ir.Value, len(part.Params))
	for i, id := range part.Params {
		args[i] = seen(values[id])
	}
	for i, v := range part.Func.Replay(b, args, nil) {
		values[part.Results[i]] = v
	}
}

// PolicyOutside returns the policy before the first layer and after the last: the logits are too expensive to
// recompute.
func PolicyOutside(p stage.Recompute) stage.Recompute {
	if p == stage.RecomputeFull {
		return stage.RecomputeSelective
	}
	return p
}

// BetweenLayers reports whether a mark is at the beginning of a layer or after the last one.
func BetweenLayers(mark string) bool {
	_, ok := nn.LayerOf(mark)
	return ok || mark == nn.HeadMark
}
