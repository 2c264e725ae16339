package kernel

import "math"

// Rotation holds the cosines and sines that rotate pairs of elements by their position: Cos[p*half+i] is of
// angle Freqs[i] times the p-th position. Sin is stored with both signs, so that a row is rotated by products
// alone.
type Rotation[T Float] struct {
	half          int
	Cos, Sin, Neg []T
	mem           scratch[T]
}

// RotationBlock is the number of consecutive positions whose angles are computed from each other. Threads
// compute whole blocks, so that results do not depend on their number.
const RotationBlock = 64

// NewRotation returns the rotation by the angles freqs[i]*positions[p], its
// cosines and sines multiplied by factor. The sign of the angle is that of
// sign.
func NewRotation[T Float](p *Pool, freqs []float64, positions []int, factor, sign float64) *Rotation[T] {
	n := len(freqs) * len(positions)
	r := &Rotation[T]{half: len(freqs), mem: newScratch[T](3 * n)}
	r.Cos, r.Sin, r.Neg = r.mem.cut(n), r.mem.cut(n), r.mem.cut(n)
	step := make([][2]float64, len(freqs))
	for i, f := range freqs {
		step[i][1], step[i][0] = math.Sincos(f)
	}
	p.For(len(positions), RotationBlock, func(lo, hi int) {
		angles := make([][2]float64, len(freqs))
		for at := lo; at < hi; at++ {
			past := (positions[at]%RotationBlock + RotationBlock) % RotationBlock
			turns := 1
			if at == lo || past == 0 || positions[at] != positions[at-1]+1 {
				begin(angles, freqs, positions[at]-past)
				turns = past
			}
			for range turns {
				advance(angles, step)
			}
			r.store(at, angles, factor, sign)
		}
	})
	return r
}

// begin sets the angles to those of a position. They are always advanced from the last multiple
// of RotationBlock, so that they depend on the position alone and not on where a sequence was
// split.
func begin(angles [][2]float64, freqs []float64, position int) {
	for i, f := range freqs {
		angles[i][1], angles[i][0] = math.Sincos(f * float64(position))
	}
}

// Free releases the memory; r must not be used any more.
func (r *Rotation[T]) Free() { r.mem.free() }

// advance rotates each angle by its step: a product for the next position costs a
// tenth of a sine. Within a block the error stays near that of the first
// position.
func advance(angles, step [][2]float64) {
	for i, s := range step {
		c, d := angles[i][0], angles[i][1]
		angles[i] = [2]float64{c*s[0] - d*s[1], d*s[0] + c*s[1]}
	}
}

func (r *Rotation[T]) store(at int, angles [][2]float64, factor, sign float64) {
	first := at * r.half
	for i, a := range angles {
		s := T(sign * factor * a[1])
		r.Cos[first+i], r.Sin[first+i], r.Neg[first+i] = T(factor*a[0]), s, -s
	}
}

// Halves rotates the heads in x, of width elements each, by the p-th position: elements i and i+half
// of a head are a pair, and elements beyond the pairs are copied. y may be x; tmp has the size of a
// head.
func (r *Rotation[T]) Halves(y, x []T, p, width int, tmp []T) {
	n := r.half
	cos, sin, neg := r.Cos[p*n:(p+1)*n], r.Sin[p*n:(p+1)*n], r.Neg[p*n:(p+1)*n]
	if y32 := as32(y); y32 != nil && simd.mul != nil && simd.mulAdd != nil {
		turnHalves32(y32, as32(x), width, as32(cos), as32(sin), as32(neg), as32(tmp))
		return
	}
	for ; len(x) >= width && width > 0; x, y = x[width:], y[width:] {
		a, b, ya, yb := x[:n], x[n:2*n], y[:n], y[n:2*n]
		for i, c := range cos {
			u, v := a[i], b[i]
			ya[i], yb[i] = u*c+v*neg[i], v*c+u*sin[i]
		}
		copy(y[2*n:width], x[2*n:width])
	}
}

// turnHalves32 is like Halves with vector kernels, called directly since heads are
// short.
func turnHalves32(y, x []float32, width int, cos, sin, neg, tmp []float32) {
	n := len(cos)
	mul, mulAdd := simd.mul, simd.mulAdd
	ta, tb := tmp[:n], tmp[n:2*n]
	for ; len(x) >= width && width > 0; x, y = x[width:], y[width:] {
		a, b := x[:n], x[n:2*n]
		mul(ta, b, neg)
		mul(tb, a, sin)
		mulAdd(y[:n], a, cos, ta)
		mulAdd(y[n:2*n], b, cos, tb)
		if 2*n < width {
			copy(y[2*n:width], x[2*n:width])
		}
	}
}

// Neighbours is like Halves with elements 2i and 2i+1 as a pair.
func (r *Rotation[T]) Neighbours(y, x []T, p, width int) {
	n := r.half
	cos, sin := r.Cos[p*n:(p+1)*n], r.Sin[p*n:(p+1)*n]
	for ; len(x) >= width && width > 0; x, y = x[width:], y[width:] {
		from, to := x[:2*n], y[:2*n]
		for i, c := range cos {
			a, b := from[2*i], from[2*i+1]
			to[2*i], to[2*i+1] = a*c-b*sin[i], b*c+a*sin[i]
		}
		copy(y[2*n:width], x[2*n:width])
	}
}
