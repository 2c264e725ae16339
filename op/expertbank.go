package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/kernel"
)

// routing is which pairs of a row and one of its choices go to each of a device's experts, in the order of
// rows.
type routing struct {
	perRow int
	lists  [][]int
}

// newRouting reads choices among experts of which a device has n from offset on; a total of 0 is that it has
// all.
func newRouting(o Op, choice array.Array, n, offset, total int) routing {
	shape := choice.Shape()
	r := routing{perRow: max(1, shape[len(shape)-1]), lists: make([][]int, n)}
	limit := total
	if limit == 0 {
		limit = n
	}
	for pair, e := range readChoices(o, choice, limit) {
		if e -= offset; e >= 0 && e < n {
			r.lists[e] = append(r.lists[e], pair)
		}
	}
	return r
}

// readChoices returns the experts that rows chose; -1 is none. It panics with an *IndexError on one that is
// nowhere.
func readChoices(o Op, choice array.Array, limit int) []int {
	idx := make([]int, choice.Len())
	if choice.DType() == array.I64 {
		convertLabels(idx, array.Data[int64](choice))
	} else {
		convertLabels(idx, array.Data[int32](choice))
	}
	for _, e := range idx {
		if e < -1 || e >= limit {
			panic(&IndexError{Op: o.Name(), Index: e, Limit: limit})
		}
	}
	return idx
}

func rowOf[T floats](xs []T, i, width int) []T { return xs[i*width : (i+1)*width] }

func addScaled[T floats](dst []T, by T, src []T) { kernel.Axpy(dst, by, src) }

// expertBank is the matrices of some experts.
type expertBank[T floats] struct {
	inner, width, out int
	gateUp, down      []T
	pieces            *expertPieces[T]
}

// newExpertBank returns the matrices among the operands of experts.
func newExpertBank[T floats](env *Env, in []array.Array) *expertBank[T] {
	g, d := in[3].Shape(), in[4].Shape()
	b := &expertBank[T]{inner: g[2], width: g[3], out: d[1], gateUp: array.Data[T](in[3]),
		down: array.Data[T](in[4])}
	b.pieces = newExpertPieces(env, b)
	return b
}

// expertBlock is how many rows an expert computes at once: fixed, so that memory is bounded and sums keep
// their order.
const expertBlock = 256

// expertRows is where the rows of pairs come from and go to.
type expertRows[T floats] struct {
	read  func(pair int, dst []T)
	write func(pair int, src []T)
}

// forward computes every expert on the pairs that chose it, experts in order.
func (b *expertBank[T]) forward(env *Env, lists [][]int, rows expertRows[T]) {
	m := b.newScratch(lists)
	for e, pairs := range lists {
		if len(pairs) > 0 {
			b.pieces.bring(lists, e)
		}
		for lo := 0; lo < len(pairs); lo += expertBlock {
			block := pairs[lo:min(lo+expertBlock, len(pairs))]
			b.hidden(env, m, e, block, rows.read)
			b.product(env, len(block), b.out, b.inner, m.a, kernel.Dense(b.downOf(e), b.inner, kernel.Transpose), m.y)
			for i, pair := range block {
				rows.write(pair, rowOf(m.y, i, b.out))
			}
		}
	}
}

// expertScratch is memory for one block.
type expertScratch[T floats] struct {
	x, h, a, y     []T
	dy, da, dh, dx []T
}

func (b *expertBank[T]) newScratch(lists [][]int) *expertScratch[T] {
	n := 0
	for _, l := range lists {
		n = max(n, min(len(l), expertBlock))
	}
	return &expertScratch[T]{x: make([]T, n*b.width), h: make([]T, 2*n*b.inner), a: make([]T, n*b.inner),
		y: make([]T, n*b.out)}
}

// product is dst [m, n] = rows [m, k] · w.
func (b *expertBank[T]) product(env *Env, m, n, k int, rows []T, w kernel.Operand[T], dst []T) {
	if k == 0 {
		clear(dst[:m*n])
		return
	}
	kernel.Gemm[T]{M: m, N: n, K: k, A: kernel.Dense(rows, k, kernel.NoTrans), B: w, C: dst}.Run(env.Pool)
}

// hidden reads a block's rows and computes the gates, ups and what is made of them.
func (b *expertBank[T]) hidden(env *Env, m *expertScratch[T], e int, block []int, read func(int, []T)) {
	for i, pair := range block {
		read(pair, rowOf(m.x, i, b.width))
	}
	b.product(env, len(block), 2*b.inner, b.width, m.x, kernel.Dense(b.gateUpOf(e), b.width, kernel.Transpose),
		m.h)
	for i := range block {
		h := rowOf(m.h, i, 2*b.inner)
		kernel.SwiGLU(rowOf(m.a, i, b.inner), h[:b.inner], h[b.inner:])
	}
}

// expertGrads is where the gradients of matrices are added up.
type expertGrads[T floats] struct{ gateUp, down []T }

// expertBackRows is where the rows of pairs come from and go to on the way back: dy is read with its weight,
// and the gradients of row and weight are written.
type expertBackRows[T floats] struct {
	read   func(pair int, dst []T)
	readDY func(pair int, dst []T) (weight T)
	write  func(pair int, dx []T, dweight T)
}

// backward adds up the gradients of every expert over the pairs that chose it. The weight's is a·(downᵀ·dy),
// which is what the result times dy would be.
func (b *expertBank[T]) backward(env *Env, lists [][]int, g expertGrads[T], rows expertBackRows[T]) {
	m := b.newScratch(lists)
	n := len(m.a) / max(1, b.inner)
	if b.inner == 0 {
		n = len(m.x) / max(1, b.width)
	}
	m.dy, m.da, m.dh, m.dx = make([]T, n*b.out), make([]T, n*b.inner), make([]T, 2*n*b.inner), make([]T,
		n*b.width)
	weights, dweights := make([]T, n), make([]T, n)
	for e, pairs := range lists {
		if len(pairs) > 0 {
			b.pieces.bring(lists, e)
		}
		for lo := 0; lo < len(pairs); lo += expertBlock {
			block := pairs[lo:min(lo+expertBlock, len(pairs))]
			b.hidden(env, m, e, block, rows.read)
			for i, pair := range block {
				weights[i] = rows.readDY(pair, rowOf(m.dy, i, b.out))
			}
			b.blockBack(env, m, e, len(block), g, weights, dweights)
			for i, pair := range block {
				rows.write(pair, rowOf(m.dx, i, b.width), dweights[i])
			}
		}
	}
}

// blockBack is like backward for a block of n rows that are read.
func (b *expertBank[T]) blockBack(env *Env, m *expertScratch[T], e, n int, g expertGrads[T], weights,
	dweights []T) {
	b.product(env, n, b.inner, b.out, m.dy, kernel.Dense(b.downOf(e), b.inner, kernel.NoTrans), m.da)
	for i := range n {
		a, da, dy := rowOf(m.a, i, b.inner), rowOf(m.da, i, b.inner), rowOf(m.dy, i, b.out)
		dweights[i] = kernel.Dot(a, da)
		kernel.MulScalar(da, da, weights[i])
		kernel.MulScalar(dy, dy, weights[i])
		h, dh := rowOf(m.h, i, 2*b.inner), rowOf(m.dh, i, 2*b.inner)
		kernel.SwiGLUGrad(dh[:b.inner], dh[b.inner:], h[:b.inner], h[b.inner:], da)
	}
	b.product(env, n, b.width, 2*b.inner, m.dh, kernel.Dense(b.gateUpOf(e), b.width, kernel.NoTrans), m.dx)
	addProduct(env, rowOf(g.gateUp, e, 2*b.inner*b.width), 2*b.inner, b.width, n, m.dh, m.x)
	addProduct(env, rowOf(g.down, e, b.out*b.inner), b.out, b.inner, n, m.dy, m.a)
}

// addProduct adds xᵀ·y of k rows to dst [m, n].
func addProduct[T floats](env *Env, dst []T, m, n, k int, x, y []T) {
	kernel.Gemm[T]{M: m, N: n, K: k, C: dst, Update: kernel.Accumulate,
		A: kernel.Dense(x, m, kernel.Transpose), B: kernel.Dense(y, n, kernel.NoTrans)}.Run(env.Pool)
}
