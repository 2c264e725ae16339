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
	next, m, v := op.AdamW(p, grad, slots[0], slots[1], s.LR, s.Count, s.Scale, a.coefficients(true))
	return next, []*op.Tensor{m, v}
}

func (a AdamW) coefficients(decoupled bool) op.AdamWConfig {
	return op.AdamWConfig{
		Beta1: orElse(a.Beta1, 0.9), Beta2: orElse(a.Beta2, 0.999), Eps: orElse(a.Eps, 1e-8),
		WeightDecay: a.WeightDecay, Decoupled: decoupled,
	}
}

func orElse(x, fallback float64) float64 {
	if x == 0 {
		return fallback
	}
	return x
}

// Adam is Adam with weight decay added to the gradient. [Kingma and Ba 2015]
type Adam AdamW

// Slots is two: the first and second moment.
func (Adam) Slots() int { return 2 }

// Update is one parameter's next value and moments, by the fused op.
func (a Adam) Update(p, grad *op.Tensor, slots []*op.Tensor, s Step) (*op.Tensor, []*op.Tensor) {
	next, m, v := op.AdamW(p, grad, slots[0], slots[1], s.LR, s.Count, s.Scale, AdamW(a).coefficients(false))
	return next, []*op.Tensor{m, v}
}
