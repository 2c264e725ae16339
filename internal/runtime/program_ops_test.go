package runtime_test

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

// step adds one op, or a few that belong together.
func (g *gen) step() {
	steps := []func(){
		g.unary, g.binary, g.binary, g.product, g.product, g.reduce, g.reduce,
		g.move, g.move, g.move, g.order, g.order, g.parts,
		g.norm, g.index, g.choose, g.scan, g.compare, g.layers, g.layers, g.scatter, g.shapes, g.shapes,
	}
	if *flows {
		steps = append(steps, g.flow, g.flow)
	}
	steps[g.rng.IntN(len(steps))]()
}

func (g *gen) dim(x *op.Tensor) int { return g.rng.IntN(len(x.Shape())) }

func (g *gen) unary() {
	it := g.pick(0)
	f := []func(*op.Tensor) *op.Tensor{
		op.Tanh, op.Sigmoid, op.Neg, op.Sin, op.Square, op.SiLU, op.Identity, op.StopGradient,
		func(x *op.Tensor) *op.Tensor { return op.MulScalar(x, 0.5) },
		func(x *op.Tensor) *op.Tensor { return op.AddScalar(x, 0.25) },
	}
	g.keep(it.at, f[g.rng.IntN(len(f))](it.x))
}

func (g *gen) binary() {
	it := g.pick(0)
	shape := it.x.Shape().Clone()
	if len(shape) > 0 && g.rng.IntN(4) == 0 { // broadcast
		shape = shape[1:]
	}
	y := g.like(it, shape)
	f := []func(x, y *op.Tensor) *op.Tensor{op.Add, op.Sub, op.Mul, op.Add, op.Mul,
		func(x, y *op.Tensor) *op.Tensor { return op.Div(x, op.AddScalar(op.Square(y), 1)) }}
	g.keep(at(it, y), f[g.rng.IntN(len(f))](it.x, y.x))
}

func (g *gen) product() {
	it := g.pick(2)
	s := it.x.Shape()
	k, n := s[len(s)-1], 1+g.rng.IntN(5)
	switch g.rng.IntN(3) {
	case 0:
		y := g.like(it, array.Shape{k, n})
		g.keep(at(it, y), op.MatMul(it.x, y.x))
	case 1:
		y := g.like(it, array.Shape{n, k})
		g.keep(at(it, y), op.MatMulT(it.x, y.x, false, true))
	default:
		y := g.like(it, s.Clone())
		g.keep(at(it, y), op.MatMulT(it.x, y.x, true, false))
	}
}

func (g *gen) reduce() {
	it := g.pick(1)
	d := g.dim(it.x)
	switch k := g.rng.IntN(7); {
	case k < 2 || it.x.Dim(d) == 0:
		g.keep(it.at, op.Sum(it.x, d))
	case k == 2:
		g.keep(it.at, op.Mean(it.x, d))
	case k == 3:
		y := g.apart(it)
		g.keep(y.at, op.AMax(y.x, d))
	case k == 4:
		y := g.apart(it)
		g.keep(y.at, op.AMin(y.x, d))
	case k == 5:
		g.keep(it.at, op.LogSumExp(it.x, d))
	default:
		g.keep(it.at, op.Prod(op.Tanh(it.x), d))
	}
}

// move changes where elements are.
func (g *gen) move() {
	it := g.pick(1)
	x, d := it.x, g.dim(it.x)
	n := x.Dim(d)
	switch g.rng.IntN(9) {
	case 0:
		g.keep(it.at, op.Transpose(x, g.rng.Perm(len(x.Shape()))...))
	case 1:
		g.keep(it.at, op.Reshape(x, x.Shape().Len()))
	case 2:
		g.keep(it.at, op.Flip(x, d))
	case 3:
		g.keep(it.at, op.Roll(x, []int{1 + g.rng.IntN(3)}, []int{d}))
	case 4:
		low, high := make([]int, len(x.Shape())), make([]int, len(x.Shape()))
		low[d], high[d] = g.rng.IntN(3), g.rng.IntN(3)
		g.keep(it.at, op.Pad(x, low, high, 0.5))
	case 5:
		if n > 1 {
			start := g.rng.IntN(n - 1)
			g.keep(it.at, op.Narrow(x, d, start, start+1+g.rng.IntN(n-start-1)))
		}
	case 6:
		y := g.like(it, x.Shape())
		g.keep(at(it, y), op.Concat([]*op.Tensor{x, y.x}, d))
	case 7:
		g.keep(it.at, op.Unsqueeze(x, d))
	default:
		if n%2 == 0 {
			s := x.Shape().Clone()
			shape := append(append(s[:d:d], 2, n/2), s[d+1:]...)
			g.keep(it.at, op.Reshape(x, shape...))
		}
	}
}

// order is ops of several results, of which some are often not used.
func (g *gen) order() {
	it := g.apart(g.pick(1))
	d := g.dim(it.x)
	n := it.x.Dim(d)
	var values, indices *op.Tensor
	switch k := g.rng.IntN(5); {
	case k == 0:
		values, indices = op.Sort(it.x, d)
	case k == 1 && n > 0:
		values, indices = op.TopK(it.x, 1+g.rng.IntN(n), d)
	case k == 2:
		values, indices = op.CumMax(it.x, d)
	case k == 3:
		values, indices = op.CumMin(it.x, d)
	default:
		values, indices = op.SortDescending(it.x, d)
	}
	if g.rng.IntN(3) > 0 {
		g.keep(it.at, values)
	}
	if g.rng.IntN(3) == 0 {
		g.keep(it.at, op.Cast(indices, g.dtype))
	}
	if g.rng.IntN(4) == 0 && values.Dim(d) == n {
		g.keep(it.at, op.TakeAlongDim(it.x, indices, d))
	}
}

func (g *gen) parts() {
	it := g.pick(1)
	d := g.dim(it.x)
	n := it.x.Dim(d)
	k := g.rng.IntN(n + 1)
	list := op.Split(it.x, d, k, n-k)
	g.keep(it.at, list[g.rng.IntN(2)])
	if g.rng.IntN(2) == 0 {
		g.keep(it.at, list[g.rng.IntN(2)])
	}
}

func (g *gen) norm() {
	it := g.pick(1)
	d := len(it.x.Shape()) - 1
	if it.x.Dim(d) < 2 {
		return
	}
	switch g.rng.IntN(4) {
	case 0:
		g.keep(it.at, op.Softmax(it.x, g.dim(it.x)))
	case 1:
		g.keep(it.at, op.LogSoftmax(it.x, d))
	case 2:
		gamma := g.like(it, array.Shape{it.x.Dim(d)})
		g.keep(at(it, gamma), op.RMSNorm(it.x, gamma.x, 0.1))
	default:
		gamma, beta := g.like(it, array.Shape{it.x.Dim(d)}), g.like(it, array.Shape{it.x.Dim(d)})
		g.keep(at(it, gamma, beta), op.LayerNorm(it.x, gamma.x, g.meet(gamma, beta).x, 0.1))
	}
}

// index takes rows by an argmax of another tensor.
func (g *gen) index() {
	it := g.pick(2)
	if it.x.Dim(0) == 0 {
		return
	}
	y := g.fresh(array.Shape{3, it.x.Dim(0)})
	y = g.meet(it, y)
	g.keep(at(it, y), op.IndexSelect(it.x, 0, op.ArgMax(y.x, 1)))
}

func (g *gen) choose() {
	it := g.pick(0)
	y := g.like(it, it.x.Shape())
	z := g.meet(y, g.meet(it, g.fresh(it.x.Shape())))
	y = g.meet(z, y)
	it = g.meet(y, it)
	g.keep(at(it, y, z), op.Where(op.Greater(z.x, op.Const(z.x, 0)), it.x, y.x))
}

func (g *gen) scan() {
	it := g.pick(1)
	if g.rng.IntN(2) == 0 {
		g.keep(it.at, op.CumSum(it.x, g.dim(it.x)))
		return
	}
	g.keep(it.at, op.CumSumReverse(it.x, g.dim(it.x)))
}

// compare makes bools, combines them, and numbers of them.
func (g *gen) compare() {
	it := g.apart(g.pick(1))
	y := op.Greater(it.x, op.Const(it.x, 0))
	d := g.dim(it.x)
	if g.rng.IntN(2) == 0 {
		y = op.AnyOf(y, d)
	} else {
		y = op.AllOf(y, d)
	}
	g.keep(it.at, op.Cast(y, g.dtype))
}
