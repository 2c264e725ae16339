package op

import (
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/kernel"
)

// inPlace returns the contraction as a batch of strided GEMMs on the arrays as they are stored. It is false
// where an operand or the result would have to be permuted first, and where the order of summation would
// change.
func (c contraction) inPlace(e *einsumIndex, x, y, z array.Array) (product, bool) {
	if c.m*c.n*c.k == 0 {
		return product{}, false
	}
	even, swapped := c.evenSums(z.DType())
	if !even {
		return product{}, false
	}
	p, ok := c.views(e, x, y, z)
	if ok || !swapped {
		return p, ok
	}
	c.left, c.right, c.m, c.n = c.right, c.left, c.n, c.m
	return c.views(&einsumIndex{in: []string{e.in[1], e.in[0]}, out: e.out}, y, x, z)
}

// evenSums reports whether the order of summation is independent of layout, and also of exchanging the
// operands.
func (c contraction) evenSums(t array.DType) (even, swapped bool) {
	switch t {
	case array.F32:
		return kernel.EvenSums[float32](c.m, c.n, c.k)
	case array.F64:
		return kernel.EvenSums[float64](c.m, c.n, c.k)
	}
	even, _ = kernel.EvenSums[float32](c.m, c.n, c.k)
	return even, false
}

// views returns the contraction as GEMMs on strided views of the arrays, if there are such views.
func (c contraction) views(e *einsumIndex, x, y, z array.Array) (product, bool) {
	left, right := keptOrder(e.out, c.left), keptOrder(e.out, c.right)
	px, py, pz := placesOf(e.in[0], x.Shape()), placesOf(e.in[1], y.Shape()), placesOf(e.out, z.Shape())
	p := product{m: c.m, n: c.n, k: c.k, x: x, y: y, out: z, count: c.count}
	var ok [3]bool
	var transZ bool
	p.ldx, p.transX, ok[0] = px.matrix(left, c.sum)
	p.ldy, p.transY, ok[1] = py.matrix(c.sum, right)
	p.ldz, transZ, ok[2] = pz.matrix(left, right)
	p.xs, p.ys, p.zs = px.batch(c.batch), py.batch(c.batch), pz.batch(c.batch)
	return p, ok == [3]bool{true, true, true} && !transZ
}

// keptOrder returns the letters of part in the order of word.
func keptOrder(word, part string) string {
	return strings.Map(func(c rune) rune {
		if strings.ContainsRune(part, c) {
			return c
		}
		return -1
	}, word)
}

// place is the size and stride of an index.
type place struct{ size, stride int }

// letterPlaces has the size and stride of each index of an array.
type letterPlaces map[rune]place

func placesOf(word string, shape array.Shape) letterPlaces {
	p, stride := letterPlaces{}, 1
	for d := len(word) - 1; d >= 0; d-- {
		p[rune(word[d])] = place{shape[d], stride}
		stride *= shape[d]
	}
	return p
}

// joined collapses several indices to one, if their strides allow it. Those of size 1 have any stride.
func (p letterPlaces) joined(word string) (place, bool) {
	all := place{1, 1}
	for i := len(word) - 1; i >= 0; i-- {
		switch at := p[rune(word[i])]; {
		case at.size == 1:
		case all.size == 1:
			all = at
		case at.stride != all.stride*all.size:
			return all, false
		default:
			all.size *= at.size
		}
	}
	return all, true
}

// matrix returns indices of rows and columns as a matrix with leading dimension ld; trans is column-major.
func (p letterPlaces) matrix(rows, cols string) (ld int, trans, ok bool) {
	r, okRows := p.joined(rows)
	c, okCols := p.joined(cols)
	switch { // a single row or column has any stride
	case c.size == 1:
		c.stride = 1
	case r.size == 1 && c.stride == 1:
		r.stride = c.size
	case r.size == 1:
		r.stride = 1
	}
	switch {
	case !okRows || !okCols:
		return 0, false, false
	case c.stride == 1 && r.stride >= c.size:
		return r.stride, false, true
	case r.stride == 1 && c.stride >= r.size:
		return c.stride, true, true
	}
	return 0, false, false
}

// batch locates the matrices of a batch.
func (p letterPlaces) batch(word string) batch {
	var b batch
	for _, c := range word {
		b.shape, b.strides = append(b.shape, p[c].size), append(b.strides, p[c].stride)
	}
	return b
}
