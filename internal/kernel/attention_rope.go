package kernel

import "math"

// Rotation is the cosines and sines that turn pairs of elements by their
// position: Cos[p*half+i] for angle Freqs[i] times the p-th position. Sin is
// kept with either sign, so that a row is turned by products alone.
type Rotation[T Float] struct {
	half          int
	Cos, Sin, Neg []T
}

// RotationBlock is how many positions in a row are computed from each other;
// threads take whole blocks, so that results do not depend on their number.
const RotationBlock = 64

// NewRotation returns the rotation by the angles freqs[i]*positions[p], its
// cosines and sines multiplied by factor. The sign of the angle is that of
// sign.
func NewRotation[T Float](p *Pool, freqs []float64, positions []int, factor, sign float64) *Rotation[T] {
	n := len(freqs) * len(positions)
	mem := make([]T, 3*n)
	r := &Rotation[T]{half: len(freqs), Cos: mem[:n], Sin: mem[n : 2*n], Neg: mem[2*n:]}
	step := make([][2]float64, len(freqs))
	for i, f := range freqs {
		step[i][1], step[i][0] = math.Sincos(f)
	}
	p.For(len(positions), RotationBlock, func(lo, hi int) {
		angles := make([][2]float64, len(freqs))
		for at := lo; at < hi; at++ {
			if at > lo && positions[at] == positions[at-1]+1 {
				advance(angles, step)
			} else {
				for i, f := range freqs {
					angles[i][1], angles[i][0] = math.Sincos(f * float64(positions[at]))
				}
			}
			r.store(at, angles, factor, sign)
		}
	})
	return r
}

// advance turns each angle by its step: the next position costs a product
// where a sine would cost ten. Within a block the error stays near that of the
// first.
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

// Halves turns x by the p-th position: element i and element i+half, for half
// of the elements, are a pair. y may be x.
func (r *Rotation[T]) Halves(y, x []T, p int, tmp []T) {
	n := r.half
	cos, sin, neg := r.Cos[p*n:(p+1)*n], r.Sin[p*n:(p+1)*n], r.Neg[p*n:(p+1)*n]
	a, b := x[:n], x[n:2*n]
	ta, tb := tmp[:n], tmp[n:2*n]
	Mul(ta, b, neg)
	Mul(tb, a, sin)
	MulAdd(y[:n], a, cos, ta)
	MulAdd(y[n:2*n], b, cos, tb)
}

// Neighbours turns x by the p-th position: elements 2i and 2i+1 are a pair. y
// may be x.
func (r *Rotation[T]) Neighbours(y, x []T, p int) {
	n := r.half
	cos, sin := r.Cos[p*n:(p+1)*n], r.Sin[p*n:(p+1)*n]
	x, y = x[:2*n], y[:2*n]
	for i, c := range cos {
		a, b := x[2*i], x[2*i+1]
		y[2*i], y[2*i+1] = a*c-b*sin[i], b*c+a*sin[i]
	}
}
