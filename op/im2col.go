package op

import (
	"github.com/galley-ml/galley/internal/kernel"
)

// Convolutions are matrix products with patches: row (channel, kernel y, kernel x) and column (output y, output x)
// hold the input element that the two meet at. Each image and group is one product.

// eachProduct runs f for the images and groups: many of them side by side, few one after another, each on all
// threads. f gets memory for one matrix of patches.
func eachProduct[T floats](env *Env, s *convShape, f func(env *Env, i int, patches []T)) {
	count, size := s.n*s.groups, s.patch()*s.places()
	if s.pointwise() {
		size = 0
	}
	if threads := env.Pool.Threads(); count >= 2*threads && threads > 1 {
		env.Pool.For(count, max(1, count/(4*threads)), func(lo, hi int) {
			patches := make([]T, size)
			for i := lo; i < hi; i++ {
				f(&Env{}, i, patches)
			}
		})
		return
	}
	patches := make([]T, size)
	for i := range count {
		f(env, i, patches)
	}
}

// convForward computes y = kernel × patches of x.
func convForward[T floats](env *Env, s *convShape, x, w, y []T) {
	m, k, n := s.cout, s.patch(), s.places()
	image := s.cin * s.in[0] * s.in[1]
	eachProduct(env, s, func(env *Env, i int, patches []T) {
		patches = patchesOf(env, s, patches, x[i*image:(i+1)*image])
		kernel.Gemm[T]{
			M: m, N: n, K: k,
			A: kernel.Dense(w[i%s.groups*m*k:][:m*k], k, kernel.NoTrans),
			B: kernel.Dense(patches, n, kernel.NoTrans),
			C: y[i*m*n:][:m*n],
		}.Run(env.Pool)
	})
}

// convBack computes x as the sum of what kernelᵀ × y gives at each place of a patch.
func convBack[T floats](env *Env, s *convShape, y, w, x []T) {
	m, k, n := s.cout, s.patch(), s.places()
	image := s.cin * s.in[0] * s.in[1]
	if m == 0 {
		clear(x)
		return
	}
	eachProduct(env, s, func(env *Env, i int, patches []T) {
		to := x[i*image : (i+1)*image]
		if s.pointwise() {
			patches = to
		}
		kernel.Gemm[T]{
			M: k, N: n, K: m,
			A: kernel.Dense(w[i%s.groups*m*k:][:m*k], k, kernel.Transpose),
			B: kernel.Dense(y[i*m*n:][:m*n], n, kernel.NoTrans),
			C: patches,
		}.Run(env.Pool)
		if !s.pointwise() {
			addPatches(env, s, to, patches)
		}
	})
}

// convKernel computes w = Σ over images of y × patchesᵀ, image by image.
func convKernel[T floats](env *Env, s *convShape, x, y, w []T) {
	m, k, n := s.cout, s.patch(), s.places()
	image := s.cin * s.in[0] * s.in[1]
	clear(w)
	var patches []T
	if !s.pointwise() {
		patches = make([]T, k*n)
	}
	for i := range s.n * s.groups {
		from := patchesOf(env, s, patches, x[i*image:(i+1)*image])
		kernel.Gemm[T]{
			M: m, N: k, K: n,
			A:      kernel.Dense(y[i*m*n:][:m*n], n, kernel.NoTrans),
			B:      kernel.Dense(from, n, kernel.Transpose),
			C:      w[i%s.groups*m*k:][:m*k],
			Update: kernel.Accumulate,
		}.Run(env.Pool)
	}
}

// patchesOf is the patches of one image, in the memory given unless the image is already that.
func patchesOf[T floats](env *Env, s *convShape, patches, x []T) []T {
	if s.pointwise() {
		return x
	}
	taps, n := s.kernel[0]*s.kernel[1], s.places()
	env.rows(s.patch(), n, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			c, tap := r/taps, r%taps
			tapRow(s, patches[r*n:(r+1)*n], x[c*s.in[0]*s.in[1]:][:s.in[0]*s.in[1]], tap)
		}
	})
	return patches
}

// tapRow is what one kernel element sees of one channel.
func tapRow[T floats](s *convShape, row, x []T, tap int) {
	offY, offX := s.offsets(tap)
	lo, hi := s.inside(1, offX)
	width := s.out[1]
	for oy := range s.out[0] {
		part := row[oy*width : (oy+1)*width]
		iy := oy*s.stride[0] + offY
		if iy < 0 || iy >= s.in[0] {
			clear(part)
			continue
		}
		clear(part[:lo])
		clear(part[hi:])
		line := x[iy*s.in[1]:][:s.in[1]]
		if s.stride[1] == 1 && lo < hi {
			copy(part[lo:hi], line[lo+offX:])
			continue
		}
		for ox := lo; ox < hi; ox++ {
			part[ox] = line[ox*s.stride[1]+offX]
		}
	}
}

// addPatches adds each patch element to the input element that it was: a channel is one task, kernel elements in
// order.
func addPatches[T floats](env *Env, s *convShape, x, patches []T) {
	taps, n, plane := s.kernel[0]*s.kernel[1], s.places(), s.in[0]*s.in[1]
	env.rows(s.cin, taps*n, func(lo, hi int) {
		for c := lo; c < hi; c++ {
			to := x[c*plane : (c+1)*plane]
			clear(to)
			for tap := range taps {
				addRow(s, to, patches[(c*taps+tap)*n:][:n], tap)
			}
		}
	})
}

func addRow[T floats](s *convShape, x, row []T, tap int) {
	offY, offX := s.offsets(tap)
	lo, hi := s.inside(1, offX)
	first, last := s.inside(0, offY)
	for oy := first; oy < last; oy++ {
		line := x[(oy*s.stride[0]+offY)*s.in[1]:][:s.in[1]]
		part := row[oy*s.out[1]:][:s.out[1]]
		if s.stride[1] == 1 && lo < hi {
			to := line[lo+offX:][:hi-lo]
			kernel.Add(to, to, part[lo:hi])
			continue
		}
		for ox := lo; ox < hi; ox++ {
			line[ox*s.stride[1]+offX] += part[ox]
		}
	}
}

// offsets is where kernel element tap lies relative to the place of its output.
func (s *convShape) offsets(tap int) (y, x int) {
	return tap/s.kernel[1]*s.dilate[0] - s.pad[0], tap%s.kernel[1]*s.dilate[1] - s.pad[1]
}

// inside is the outputs along dim d whose input element, at that offset, is not padding.
func (s *convShape) inside(d, offset int) (lo, hi int) {
	lo = (max(0, -offset) + s.stride[d] - 1) / s.stride[d]
	if last := s.in[d] - 1 - offset; last >= 0 {
		hi = min(s.out[d], last/s.stride[d]+1)
	}
	return min(lo, s.out[d]), max(hi, min(lo, s.out[d]))
}
