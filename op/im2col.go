package op

import (
	"github.com/galley-ml/galley/internal/kernel"
)

// Convolutions are matrix products with patches (im2col): row (channel, kernel y, kernel x) and column
// (output y, output x) hold the input element that this kernel element multiplies for this output. Each group
// of each image is computed in bands of output rows, so that a band's patches stay in cache between being
// gathered and being multiplied.

// bandSize is the approximate number of patch elements of a band: 256k, one megabyte in float32.
const bandSize = 1 << 18

// band is a range of output rows of one image and group, whose patches are gathered together.
type band struct {
	*convShape
	item, first, last int // image and group, and output rows
}

// rowsPerBand returns the number of output rows of a band.
func (s *convShape) rowsPerBand() int {
	if s.pointwise() { // the patches are the image itself
		return max(1, s.outRows())
	}
	return max(1, min(s.outRows(), bandSize/max(1, s.patch()*s.out[2])))
}

// bands returns the number of bands of one image and group.
func (s *convShape) bands() int {
	return (s.outRows() + s.rowsPerBand() - 1) / s.rowsPerBand()
}

func (s *convShape) band(item, i int) band {
	rows := s.rowsPerBand()
	return band{s, item, i * rows, min((i+1)*rows, s.outRows())}
}

// patchSpace allocates memory for the patches of one band.
func patchSpace[T floats](s *convShape) []T {
	if s.pointwise() {
		return nil
	}
	return make([]T, s.patch()*s.rowsPerBand()*s.out[2])
}

// width returns the number of outputs of the band; from is the index of the first one in its channel.
func (b band) width() int { return (b.last - b.first) * b.out[2] }
func (b band) from() int  { return b.first * b.out[2] }

// eachTask runs f for count tasks: in parallel if there are many, else one after another, each on all
// threads. f gets memory for the patches of one band.
func eachTask[T floats](env *Env, s *convShape, count int, f func(env *Env, i int, space []T)) {
	if threads := env.Pool.Threads(); threads > 1 && count >= 2*threads {
		env.Pool.For(count, max(1, count/(4*threads)), func(lo, hi int) {
			space := patchSpace[T](s)
			for i := lo; i < hi; i++ {
				f(&Env{}, i, space)
			}
		})
		return
	}
	space := patchSpace[T](s)
	for i := range count {
		f(env, i, space)
	}
}

// convForward computes y = kernel × patches of x.
func convForward[T floats](env *Env, s *convShape, x, w, y []T) {
	m, k, n, bands := s.cout, s.patch(), s.places(), s.bands()
	eachTask(env, s, s.n*s.groups*bands, func(env *Env, t int, space []T) {
		b := s.band(t/bands, t%bands)
		kernel.Gemm[T]{
			M: m, N: b.width(), K: k, LDC: n,
			A: kernel.Dense(w[b.item%s.groups*m*k:][:m*k], k, kernel.NoTrans),
			B: kernel.Dense(patchesOf(env, b, space, x), b.width(), kernel.NoTrans),
			C: y[b.item*m*n+b.from():],
		}.Run(env.Pool)
	})
}

// convBack computes x by adding kernelᵀ × y to the input elements of each patch, band by band.
func convBack[T floats](env *Env, s *convShape, y, w, x []T) {
	m, k, n := s.cout, s.patch(), s.places()
	clear(x)
	if m == 0 {
		return
	}
	eachTask(env, s, s.n*s.groups, func(env *Env, item int, space []T) {
		for i := range s.bands() {
			b := s.band(item, i)
			patches := space
			if s.pointwise() {
				patches = image(s, x, item)
			}
			kernel.Gemm[T]{
				M: k, N: b.width(), K: m,
				A: kernel.Dense(w[item%s.groups*m*k:][:m*k], k, kernel.Transpose),
				B: kernel.Dense(y[item*m*n+b.from():], n, kernel.NoTrans),
				C: patches,
			}.Run(env.Pool)
			if !s.pointwise() {
				addPatches(env, b, image(s, x, item), patches)
			}
		}
	})
}

// convKernel computes w as the sum of y × patchesᵀ over images and bands, one after another.
func convKernel[T floats](env *Env, s *convShape, x, y, w []T) {
	m, k, n, bands := s.cout, s.patch(), s.places(), s.bands()
	clear(w)
	space := patchSpace[T](s)
	for t := range s.n * s.groups * bands {
		b := s.band(t/bands, t%bands)
		kernel.Gemm[T]{
			M: m, N: k, K: b.width(),
			A:      kernel.Dense(y[b.item*m*n+b.from():], n, kernel.NoTrans),
			B:      kernel.Dense(patchesOf(env, b, space, x), b.width(), kernel.Transpose),
			C:      w[b.item%s.groups*m*k:][:m*k],
			Update: kernel.Accumulate,
		}.Run(env.Pool)
	}
}

// image returns the channels of one image and group.
func image[T floats](s *convShape, x []T, item int) []T {
	size := s.cin * s.plane()
	return x[item*size : (item+1)*size]
}

// patchesOf returns the patches of a band, in the memory given, unless they are the image itself.
func patchesOf[T floats](env *Env, b band, space, x []T) []T {
	x = image(b.convShape, x, b.item)
	if b.pointwise() {
		return x
	}
	taps, width, plane := b.taps(), b.width(), b.plane()
	env.rows(b.patch(), width, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			tapRow(b, space[r*width:(r+1)*width], x[r/taps*plane:][:plane], r%taps)
		}
	})
	return space
}

// tapRow gathers the inputs of one kernel element in one channel.
func tapRow[T floats](b band, row, x []T, tap int) {
	off := b.offsets(tap)
	lo, hi := b.inside(2, off[2])
	width := b.out[2]
	for r := b.first; r < b.last; r++ {
		part := row[(r-b.first)*width:][:width]
		line, ok := inputRow(b, x, r, off)
		if !ok {
			clear(part)
			continue
		}
		clear(part[:lo])
		clear(part[hi:])
		if b.stride[2] == 1 && lo < hi {
			copy(part[lo:hi], line[lo+off[2]:])
			continue
		}
		for ox := lo; ox < hi; ox++ {
			part[ox] = line[ox*b.stride[2]+off[2]]
		}
	}
}

// inputRow returns the row of a channel that output row r reads at an offset, and whether it is not padding.
func inputRow[T floats](b band, x []T, r int, off [3]int) ([]T, bool) {
	iz, iy := r/b.out[1]*b.stride[0]+off[0], r%b.out[1]*b.stride[1]+off[1]
	if iz < 0 || iz >= b.in[0] || iy < 0 || iy >= b.in[1] {
		return nil, false
	}
	return x[(iz*b.in[1]+iy)*b.in[2]:][:b.in[2]], true
}

// addPatches adds each patch element to the input element that it was taken from: one task per channel,
// kernel elements in order.
func addPatches[T floats](env *Env, b band, x, patches []T) {
	taps, width, plane := b.taps(), b.width(), b.plane()
	env.rows(b.cin, taps*width, func(lo, hi int) {
		for c := lo; c < hi; c++ {
			for tap := range taps {
				addTap(b, x[c*plane:(c+1)*plane], patches[(c*taps+tap)*width:][:width], tap)
			}
		}
	})
}

func addTap[T floats](b band, x, row []T, tap int) {
	off := b.offsets(tap)
	lo, hi := b.inside(2, off[2])
	for r := b.first; r < b.last; r++ {
		line, ok := inputRow(b, x, r, off)
		if !ok {
			continue
		}
		part := row[(r-b.first)*b.out[2]:][:b.out[2]]
		if b.stride[2] == 1 && lo < hi {
			to := line[lo+off[2]:][:hi-lo]
			kernel.Add(to, to, part[lo:hi])
			continue
		}
		for ox := lo; ox < hi; ox++ {
			line[ox*b.stride[2]+off[2]] += part[ox]
		}
	}
}

// offsets returns the offset of kernel element tap from the position of its output, along each dim.
func (s *convShape) offsets(tap int) (off [3]int) {
	for d := 2; d >= 0; d-- {
		off[d] = tap%s.kernel[d]*s.dilate[d] - s.pad[d]
		tap /= s.kernel[d]
	}
	return off
}

// inside returns the range of outputs along dim d whose input element at that offset is not padding.
func (s *convShape) inside(d, offset int) (lo, hi int) {
	lo = min(s.out[d], (max(0, -offset)+s.stride[d]-1)/s.stride[d])
	if last := s.in[d] - 1 - offset; last >= 0 {
		hi = min(s.out[d], last/s.stride[d]+1)
	}
	return lo, max(lo, hi)
}
