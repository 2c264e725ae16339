package runtime_test

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

// layers is ops that models are made of; their operands are new, since few others have such shapes.
func (g *gen) layers() {
	n := func(k int) int { return 1 + g.rng.IntN(k) }
	switch g.rng.IntN(6) {
	case 0:
		batch, seq, heads, groups, dim := n(3), 1+n(4), n(2), n(2), 2*n(2)
		q := g.fresh(array.Shape{batch, seq, heads * groups, dim})
		k := g.meet(q, g.fresh(array.Shape{batch, seq, heads, dim}))
		v := g.meet(q, g.meet(k, g.fresh(array.Shape{batch, seq, heads, dim})))
		k = g.meet(v, k)
		q = g.meet(k, q)
		g.keep(at(q, k, v), op.Attention(q.x, k.x, v.x, op.AttentionConfig{Causal: g.rng.IntN(2) == 0}))
	case 1:
		in, out := n(4), n(4)
		x := g.fresh(array.Shape{n(3), in, 3 + n(3), 3 + n(3)})
		w := g.meet(x, g.fresh(array.Shape{out, in, 3, 2}))
		g.keep(at(x, w), op.Conv2D(x.x, w.x, nil, op.ConvConfig{Stride: []int{n(2)}, Padding: []int{g.rng.IntN(2)}}))
	case 2:
		rows, classes := n(6), 1+n(5)
		x := g.fresh(array.Shape{rows, classes})
		y := g.meet(x, g.fresh(array.Shape{rows, classes}))
		reduction := []string{"mean", "sum", "none"}[g.rng.IntN(3)]
		g.keep(at(x, y), op.CrossEntropy(x.x, op.ArgMax(y.x, 1), op.CrossEntropyConfig{Reduction: reduction}))
	case 3:
		vocab := 1 + n(6)
		x := g.fresh(array.Shape{n(5), vocab})
		table := g.meet(x, g.fresh(array.Shape{vocab, n(5)}))
		g.keep(at(x, table), op.Embedding(op.ArgMin(x.x, 1), table.x))
	case 4:
		it := g.pick(2)
		y := g.like(it, it.x.Shape())
		g.keep(at(it, y), op.SwiGLU(it.x, y.x))
	default:
		i, j, k := n(4), n(4), n(4)
		x := g.fresh(array.Shape{i, j, k})
		w := g.meet(x, g.fresh(array.Shape{n(4), i, k}))
		g.keep(at(x, w), op.Einsum("abc,dac->dba", x.x, w.x))
	}
}

// scatter puts elements of one tensor where another says.
func (g *gen) scatter() {
	it := g.pick(2)
	rows := it.x.Dim(0)
	if rows == 0 {
		return
	}
	shape := it.x.Shape().Clone()
	shape[0] = 2
	source := g.like(it, shape)
	where := g.meet(source, g.meet(it, g.fresh(array.Shape{2, rows})))
	source = g.meet(where, source)
	it = g.meet(source, it)
	g.keep(at(it, source, where), op.IndexAdd(it.x, 0, op.ArgMax(where.x, 1), source.x))
}

// shapes repeats elements, leaves some out, and adds dims.
func (g *gen) shapes() {
	it := g.pick(1)
	x, d := it.x, g.dim(it.x)
	rank := len(x.Shape())
	switch g.rng.IntN(7) {
	case 0:
		reps := make([]int, rank)
		for i := range reps {
			reps[i] = 1
		}
		reps[d] = 1 + g.rng.IntN(3)
		g.keep(it.at, op.Tile(x, reps...))
	case 1:
		if rank >= 2 {
			g.keep(it.at, op.Tril(x, g.rng.IntN(3)-1))
		}
	case 2:
		y := g.like(it, x.Shape())
		g.keep(at(it, y), op.Stack([]*op.Tensor{x, y.x}, d))
	case 3:
		if x.Dim(d) > 0 {
			list := op.Unbind(x, d)
			g.keep(it.at, list[g.rng.IntN(len(list))])
		}
	case 4:
		g.keep(it.at, op.Expand(op.Unsqueeze(x, 0), append([]int{1 + g.rng.IntN(3)}, x.Shape()...)...))
	case 5:
		if x.Dim(d) > 1 {
			g.keep(it.at, op.Var(x, d))
		}
	default:
		other := array.F32
		if g.dtype == array.F32 {
			other = array.F64
		}
		g.keep(it.at, op.Cast(op.Cast(op.Tanh(x), array.F64), g.dtype), op.Cast(op.Cast(op.Greater(x, op.Const(x, 0)), other), g.dtype))
	}
}
