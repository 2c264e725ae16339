package op

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/kernel"
)

// routing lists, for each of a device's experts, the pairs of a row and one of its choices that go to it, in
// the order of rows.
type routing struct {
	perRow int
	lists  [][]int
}

// newRouting reads the choices, for a device that has n experts from offset on, of total; a total of 0 means
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

// readChoices returns the experts that rows chose; -1 means none. It panics with an *IndexError for an expert
// that does not exist.
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

// expertBank holds the weight matrices of some experts.
type expertBank[T floats] struct {
	inner, width, out int
	gateUp, down      []T
	pieces            *expertPieces[T]
}

// newExpertBank returns the weight matrices among the operands of experts.
func newExpertBank[T floats](env *Env, in []array.Array) *expertBank[T] {
	g, d := in[3].Shape(), in[4].Shape()
	b := &expertBank[T]{inner: g[2], width: g[3], out: d[1], gateUp: array.Data[T](in[3]),
		down: array.Data[T](in[4])}
	b.pieces = newExpertPieces(env, b)
	return b
}

// expertBlock is the number of rows that an expert computes at once. It is fixed, so that memory is bounded
// and the order of sums does not change.
const expertBlock = 256

// expertRows reads the inputs and writes the outputs of pairs.
type expertRows[T floats] struct {
	read  func(pair int, dst []T)
	write func(pair int, src []T)
}

// forward computes every expert on its pairs, in the order of experts.
func (b *expertBank[T]) forward(env *Env, lists [][]int, rows expertRows[T]) {
	m := b.newScratch(lists)
	for e, pairs := range lists {
		if len(pairs) > 0 {
			b.pieces.prefetch(lists, e)
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

// expertScratch is the memory of one block.
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

// product computes dst [m, n] = rows [m, k] · w.
func (b *expertBank[T]) product(env *Env, m, n, k int, rows []T, w kernel.Operand[T], dst []T) {
	if k == 0 {
		clear(dst[:m*n])
		return
	}
	kernel.Gemm[T]{M: m, N: n, K: k, A: kernel.Dense(rows, k, kernel.NoTrans), B: w, C: dst}.Run(env.Pool)
}

// hidden reads a block's rows and computes the gate and up projections and their combination.
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

// expertGrads accumulates the gradients of the weight matrices.
type expertGrads[T floats] struct{ gateUp, down []T }

// expertBackRows reads and writes the rows of pairs in the backward pass: it reads dy and its weight, and
// writes the gradients of row and weight.
type expertBackRows[T floats] struct {
	read   func(pair int, dst []T)
	readDY func(pair int, dst []T) (weight T)
	write  func(pair int, dx []T, dweight T)
}

// backward accumulates the gradients of every expert over its pairs. The gradient of a weight is
// a·(downᵀ·dy), which equals the product of the result and dy.
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
			b.pieces.prefetch(lists, e)
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

// blockBack is like backward for one block of n rows that have been read.
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

// addProduct adds xᵀ·y over k rows to dst [m, n].
func addProduct[T floats](env *Env, dst []T, m, n, k int, x, y []T) {
	kernel.Gemm[T]{M: m, N: n, K: k, C: dst, Update: kernel.Accumulate,
		A: kernel.Dense(x, m, kernel.Transpose), B: kernel.Dense(y, n, kernel.NoTrans)}.Run(env.Pool)
}
