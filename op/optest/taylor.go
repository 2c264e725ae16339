package optest

import (
	"math"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

// taylorOrder is to which order series are held to Grad of Grad; 2 of it where tests are to be short.
const taylorOrder = 4

// Taylor compares the derivatives of an op along a random direction, forward, with those that gradients of
// gradients have, at two points, in f64.
func Taylor(t *testing.T, o op.Op, args []op.Arg) {
	which := differentiable(o, args)
	if len(which) == 0 {
		return
	}
	order := taylorOrder
	if testing.Short() {
		order = 2
	}
	d := Device(t, 1)
	for seed := range uint64(2) {
		in := Fill(args, array.F64, 41+seed)
		v := directions(in, which)
		xs := Tensors(d.NewSession(), in)
		y := weighted(o, xs)
		if y == nil {
			return
		}
		ds := make([]*op.Tensor, len(xs))
		for k, i := range which {
			ds[i] = constant(y, v[k])
		}
		got := op.Taylor([]*op.Tensor{y}, xs, op.Direction{Along: ds, Order: order})[0]
		for k := range order + 1 {
			want := Read(t, y).At(0)
			if g := Read(t, got[k][0]).At(0); !(math.Abs(g-want) <= 1e-8*(1+math.Abs(want))) {
				t.Errorf("seed %d order %d: got %.12g, Grad of Grad %.12g", seed, k, g, want)
			}
			y = along(y, pick(xs, which), pick(ds, which))
		}
	}
}

// along returns the derivative of a scalar y in the direction vs, by its gradient.
func along(y *op.Tensor, xs, vs []*op.Tensor) *op.Tensor {
	sum := op.Const(y, 0)
	for i, g := range op.Grad([]*op.Tensor{y}, nil, xs) {
		sum = op.Add(sum, op.Sum(op.Mul(g, vs[i])))
	}
	return sum
}
