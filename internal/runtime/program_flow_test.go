package runtime_test

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// flow is a loop or a choice, with a body that uses a tensor from outside.
func (g *gen) flow() {
	it := g.pick(2)
	rest := it.x.Shape()[1:].Clone()
	k := rest[len(rest)-1]
	carry := g.like(it, rest)
	w := g.like(carry, array.Shape{k, k})
	carry = g.meet(w, carry)
	it = g.meet(item{at: at(w, carry)}, it)
	on := at(it, carry, w)
	trip := g.trip(w.x)
	switch g.rng.IntN(4) {
	case 0, 1:
		g.rows(on, it.x, carry.x, trip)
	case 2:
		pred := op.Greater(op.Sum(carry.x), op.Const(carry.x, 0.1))
		row := op.Tanh(carry.x)
		for _, y := range op.Cond(pred, func(x []*op.Tensor) []*op.Tensor {
			return []*op.Tensor{trip(x[0], row), op.Sum(x[0], 0)}
		}, func(x []*op.Tensor) []*op.Tensor {
			return []*op.Tensor{op.Square(x[0]), op.Sum(op.Mul(x[0], row), 0)}
		}, carry.x) {
			g.keep(on, y)
		}
	default:
		row := op.Sin(carry.x)
		most := 1 + g.rng.IntN(3)
		out := op.WhileWith(op.WhileConfig{MaxTrips: most}, func(x []*op.Tensor) *op.Tensor {
			return op.Less(op.Sum(op.Square(x[1])), op.Const(x[1], 30))
		}, func(x []*op.Tensor) []*op.Tensor {
			return []*op.Tensor{trip(x[0], row), op.MulScalar(x[1], 2)}
		}, carry.x, op.AddScalar(row, 0.2))
		g.keep(on, out[g.rng.IntN(2)])
	}
}

// rows is a scan that carries a state and a sum, and gives rows.
func (g *gen) rows(m *mesh.Mesh, xs, carry *op.Tensor, trip func(h, x *op.Tensor) *op.Tensor) {
	c := op.ScanConfig{Reverse: g.rng.IntN(2) == 0, Recompute: g.rng.IntN(2) == 0}
	d := g.rng.IntN(len(carry.Shape()))
	last, ys := op.ScanWith(c, func(c, x []*op.Tensor) (next, y []*op.Tensor) {
		h := trip(c[0], x[0])
		return []*op.Tensor{h, op.Add(c[1], op.Sum(op.Mul(h, x[0]), d))}, []*op.Tensor{op.Mul(h, c[0])}
	}, []*op.Tensor{carry, op.Sum(carry, d)}, []*op.Tensor{xs})
	for _, y := range append(last, ys...) {
		if g.rng.IntN(2) == 0 {
			g.keep(m, y)
		}
	}
}

// trip returns what a body makes of a state and a row, with weights where they fit.
func (g *gen) trip(w *op.Tensor) func(h, x *op.Tensor) *op.Tensor {
	switch g.rng.IntN(4) {
	case 0:
		return func(h, x *op.Tensor) *op.Tensor { return op.Tanh(op.Add(h, x)) }
	case 1:
		return func(h, x *op.Tensor) *op.Tensor {
			return op.Add(op.MulScalar(h, 0.5), op.Mul(op.Sum(w, 0), op.Sin(x)))
		}
	case 2:
		return func(h, x *op.Tensor) *op.Tensor {
			if len(h.Shape()) < 2 {
				return op.Mul(h, op.Tanh(x))
			}
			return op.Tanh(op.Add(op.MatMul(h, w), x))
		}
	}
	return func(h, x *op.Tensor) *op.Tensor {
		if len(x.Shape()) < 2 {
			return op.Sub(x, h)
		}
		return op.Tanh(op.Add(h, op.MatMul(x, w)))
	}
}
