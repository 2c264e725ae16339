package optim

import (
	"math"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

// Adafactor keeps only row and column means of a matrix's squared gradients, scales steps by the parameter's
// own magnitude, and clips the update [Shazeer and Stern 2018]. It matches PyTorch's.
type Adafactor struct {
	// Decay is the exponent of the step number in the decay of old gradients; zero means -0.8.
	Decay float64
	// Limit clips the root mean square of an update; zero means 1.
	Limit float64
	// Least is a lower bound on the magnitude of a parameter; zero means 1e-3.
	Least float64
	// WeightDecay shrinks every parameter by LR·WeightDecay per step.
	WeightDecay float64
}

// Slots returns 2: row and column means, or element means and an unused one.
func (Adafactor) Slots() int { return 2 }

// SlotTypes returns the types of both slots.
func (Adafactor) SlotTypes(p op.Type) []op.Type {
	n := len(p.Shape)
	if n < 2 {
		return filled([]op.Type{p}, p, 2)
	}
	rows := append(append(array.Shape{}, p.Shape[:n-1]...), 1)
	columns := append(append(array.Shape{}, p.Shape[:n-2]...), 1, p.Shape[n-1])
	return []op.Type{{DType: p.DType, Shape: rows}, {DType: p.DType, Shape: columns}}
}

// Update returns one parameter's next value and mean squares.
func (a Adafactor) Update(p, grad *op.Tensor, slots []*op.Tensor, s Step) (*op.Tensor, []*op.Tensor) {
	dtype := p.DType().Compute()
	scalar := func(x *op.Tensor) *op.Tensor { return op.Cast(x, dtype) }
	g := op.Mul(op.Cast(grad, dtype), op.ExpandAs(scalar(s.Scale), grad))
	fresh := op.Pow(scalar(s.Count), orElse(a.Decay, -0.8))
	squares, kept := a.squares(g, slots, fresh)
	tiny := machineEpsilon(dtype)
	update := op.Mul(op.Rsqrt(atLeast(squares, tiny*tiny)), g)
	n := math.Sqrt(float64(max(p.Shape().Len(), 1)))
	size := atLeast(op.MulScalar(norm(op.Cast(p, dtype)), 1/n), orElse(a.Least, 1e-3))
	rate := op.Minimum(scalar(s.LR), op.Rsqrt(scalar(s.Count)))
	over := atLeast(op.MulScalar(norm(update), 1/(n*orElse(a.Limit, 1))), 1)
	step := op.Mul(update, op.ExpandAs(op.Div(op.Mul(size, rate), over), update))
	next := op.Sub(decayed(op.Cast(p, dtype), scalar(s.LR), a.WeightDecay), step)
	return op.Cast(next, p.DType()), kept
}

// squares returns an estimate of the mean square of every gradient, and the next slots.
func (a Adafactor) squares(g *op.Tensor, slots []*op.Tensor, fresh *op.Tensor) (*op.Tensor, []*op.Tensor) {
	mixed := func(slot, now *op.Tensor) *op.Tensor {
		return op.Add(slot, op.Mul(op.Sub(now, slot), op.ExpandAs(fresh, slot)))
	}
	square := op.Square(g)
	if len(g.Shape()) < 2 {
		v := mixed(op.Cast(slots[0], g.DType()), square)
		return v, []*op.Tensor{op.Cast(v, slots[0].DType()), slots[1]}
	}
	last := len(g.Shape()) - 1
	rows := mixed(op.Cast(slots[0], g.DType()), op.Unsqueeze(op.Mean(square, last), last))
	columns := mixed(op.Cast(slots[1], g.DType()), op.Unsqueeze(op.Mean(square, last-1), last-1))
	mean := op.Unsqueeze(op.Mean(rows, last-1), last-1)
	v := op.Div(op.Mul(rows, columns), atLeast(mean, machineEpsilon(g.DType())))
	return v, []*op.Tensor{op.Cast(rows, slots[0].DType()), op.Cast(columns, slots[1].DType())}
}

func atLeast(x *op.Tensor, least float64) *op.Tensor { return op.Maximum(x, op.Const(x, least)) }

func norm(x *op.Tensor) *op.Tensor { return op.Sqrt(op.Sum(op.Square(x))) }

// decayed returns p after weight decay.
func decayed(p, lr *op.Tensor, decay float64) *op.Tensor {
	if decay == 0 {
		return p
	}
	return op.Sub(p, op.Mul(p, op.ExpandAs(op.MulScalar(lr, decay), p)))
}

// machineEpsilon returns the distance from 1 to the next larger number of a dtype.
func machineEpsilon(d array.DType) float64 {
	if d == array.F64 {
		return 0x1p-52
	}
	return 0x1p-23
}
