package optim

import "github.com/galley-ml/galley/op"

// AdamW is Adam with decoupled weight decay. [Loshchilov and Hutter 2019]
type AdamW struct {
	// Beta1 and Beta2 are the decay of the moments; zero means 0.9 and 0.999.
	Beta1, Beta2 float64
	// Eps keeps the division finite; zero means 1e-8.
	Eps float64
	// WeightDecay shrinks every parameter by LR·WeightDecay a step.
	WeightDecay float64
}

// Slots is two: the first and second moment.
func (AdamW) Slots() int { return 2 }

// Update is one parameter's next value and moments, by the fused op.
func (a AdamW) Update(p, grad *op.Tensor, slots []*op.Tensor, s Step) (*op.Tensor, []*op.Tensor) {
	next, m, v := op.AdamW(adamState(p, grad, slots, s), a.config())
	return next, []*op.Tensor{m, v}
}

func (a AdamW) config() op.AdamConfig {
	return op.AdamConfig{
		Beta1: orElse(a.Beta1, 0.9), Beta2: orElse(a.Beta2, 0.999), Eps: orElse(a.Eps, 1e-8), WeightDecay: a.WeightDecay,
	}
}

func adamState(p, grad *op.Tensor, slots []*op.Tensor, s Step) op.AdamState {
	return op.AdamState{Param: p, Grad: grad, M: slots[0], V: slots[1], LR: s.LR, Step: s.Count, GradScale: s.Scale}
}

func orElse(x, fallback float64) float64 {
	if x == 0 {
		return fallback
	}
	return x
}
