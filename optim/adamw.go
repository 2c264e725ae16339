package optim

import "github.com/galley-ml/galley/op"

// AdamW is Adam with decoupled weight decay. [Loshchilov and Hutter 2019]
type AdamW struct {
	// Beta1 and Beta2 are the decay rates of the moments. If both are zero they are 0.9 and 0.999; if Beta2
	// is set, a Beta1 of 0 means no momentum.
	Beta1, Beta2 float64
	// Eps avoids division by zero; zero means 1e-8.
	Eps float64
	// WeightDecay shrinks every parameter by LR·WeightDecay per step.
	WeightDecay float64
}

// Slots returns 2: the first and second moment.
func (AdamW) Slots() int { return 2 }

// Update returns one parameter's next value and moments, by the fused op.
func (a AdamW) Update(p, grad *op.Tensor, slots []*op.Tensor, s Step) (*op.Tensor, []*op.Tensor) {
	next, m, v := op.AdamW(adamState(p, grad, slots, s), a.config())
	return next, []*op.Tensor{m, v}
}

func (a AdamW) config() op.AdamConfig {
	b1, b2 := betas(a.Beta1, a.Beta2, 0.999)
	return op.AdamConfig{Beta1: b1, Beta2: b2, Eps: orElse(a.Eps, 1e-8), WeightDecay: a.WeightDecay}
}

// betas returns the two decay rates with their defaults: if second is set, a first of 0 means 0.
func betas(first, second, usual float64) (b1, b2 float64) {
	if second == 0 {
		return orElse(first, 0.9), usual
	}
	return first, second
}

func adamState(p, grad *op.Tensor, slots []*op.Tensor, s Step) op.AdamState {
	return op.AdamState{Param: p, Grad: grad, M: slots[0], V: slots[1], LR: s.LR, Step: s.Count,
		GradScale: s.Scale}
}

func orElse(x, fallback float64) float64 {
	if x == 0 {
		return fallback
	}
	return x
}
