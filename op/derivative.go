package op

import "github.com/galley-ml/galley/array"

// JVP returns the derivative of f at xs in the direction vs. It computes forward mode as the transpose of
// reverse mode, so that ops need no second set of rules. xs must be tracked or traced.
func JVP(f func(xs []*Tensor) []*Tensor, xs, vs []*Tensor) []*Tensor {
	ys := f(xs)
	// The gradient is linear in the cotangents us, whose own value does not matter; its transpose is the
	// derivative.
	us := make([]*Tensor, len(ys))
	for i, y := range ys {
		if us[i] = ZerosLike(y); !us[i].Tracked() {
			us[i] = us[i].Track()
		}
	}
	return Grad(Grad(ys, us, xs), vs, us)
}

// HVP returns the product of the Hessian of Σy with vs, where y was computed from xs.
func HVP(y *Tensor, xs, vs []*Tensor) []*Tensor {
	return Grad(Grad([]*Tensor{y}, nil, xs), vs, xs)
}

// HessianDiagonal returns the second derivative of y with respect to each element of x. It takes one pass per
// element, so it is meant for small problems.
func HessianDiagonal(y, x *Tensor) *Tensor {
	g := Grad([]*Tensor{y}, nil, []*Tensor{x})
	n := x.Shape().Len()
	at := Reshape(Iota(x.Scope(), array.I32, array.Shape{n}, 0), x.Shape()...)
	diagonal := ZerosLike(x)
	for i := range n {
		unit := Cast(Equal(at, Const(at, float64(i))), x.DType())
		column := Grad(g, []*Tensor{unit}, []*Tensor{x})[0]
		diagonal = Add(diagonal, Mul(unit, column))
	}
	return diagonal
}
