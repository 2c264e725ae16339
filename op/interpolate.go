package op

import (
	"math"

	"github.com/galley-ml/galley/array"
)

// InterpolateConfig configures Interpolate.
type InterpolateConfig struct {
	// Size holds the new sizes of the dims after the channels; one number applies to all of them.
	Size []int
	// Scale, if given, is the scale factor of each dim, if it is not the quotient of the sizes.
	Scale []float64
	// Mode is "nearest", "nearest-exact", "linear" (over any number of dims), "cubic" or "area"; empty means
	// nearest.
	Mode string
	// AlignCorners aligns the centers of the outermost elements instead of their outer edges.
	AlignCorners bool
}

// Interpolate resizes the dims of x [batch, channels, …] after the channels.
func Interpolate(x *Tensor, c InterpolateConfig) *Tensor {
	if x.Err() != nil {
		return x
	}
	n := len(x.Shape()) - 2
	size := perDim(c.Size, n, 0)
	if n < 1 || len(size) != n || len(c.Scale) > 0 && len(c.Scale) != n {
		return refuse(x, "interpolate", "%v to sizes %v by %v: want one number for each dim behind the channels",
			x.Type(), c.Size, c.Scale)
	}
	if c.Mode == "area" {
		return AdaptiveAvgPool(x, size...)
	}
	for i, to := range size {
		d := i + 2
		if to < 1 || x.Dim(d) < 1 {
			return refuse(x, "interpolate", "%v to sizes %v: want sizes of 1 or more", x.Type(), size)
		}
		l := resampled{from: x.Dim(d), to: to, corners: c.AlignCorners}
		if len(c.Scale) > 0 {
			l.scale = c.Scale[i]
		}
		switch c.Mode {
		case "", "nearest":
			x = l.nearest(x, d, 0)
		case "nearest-exact":
			x = l.nearest(x, d, 0.5)
		case "linear":
			x = l.linear(x, d)
		case "cubic":
			x = l.cubic(x, d)
		default:
			return refuse(x, "interpolate", "mode is %q: want nearest, nearest-exact, linear, cubic or area", c.Mode)
		}
	}
	return x
}

// resampled is one dim that is resized.
type resampled struct {
	from, to int
	scale    float64 // the given factor; 0 means the quotient of the sizes
	corners  bool
}

// step returns the distance between results, in input elements.
func (l resampled) step() float64 {
	switch {
	case l.corners && l.to > 1:
		return float64(l.from-1) / float64(l.to-1)
	case l.corners:
		return 0
	case l.scale > 0:
		return 1 / l.scale
	}
	return float64(l.from) / float64(l.to)
}

// nearest computes positions in float32, as PyTorch does: at ties, the rounding of the step decides.
func (l resampled) nearest(x *Tensor, d int, shift float64) *Tensor {
	l.corners = false
	at := Iota(x.Scope(), array.F32, array.Shape{l.to}, 0)
	at = Floor(MulScalar(AddScalar(at, shift), float64(float32(l.step()))))
	return IndexSelect(x, d, l.index(at))
}

// index returns positions as indices, clamped to the edges.
func (l resampled) index(at *Tensor) *Tensor {
	return Cast(Clamp(at, 0, float64(l.from-1)), array.I32)
}

// places returns the positions of results among the input elements.
func (l resampled) places(x *Tensor) *Tensor {
	at := Iota(x.Scope(), array.F64, array.Shape{l.to}, 0)
	if l.corners {
		return MulScalar(at, l.step())
	}
	return AddScalar(MulScalar(AddScalar(at, 0.5), l.step()), -0.5)
}

func (l resampled) linear(x *Tensor, d int) *Tensor {
	at := Clamp(l.places(x), 0, math.Inf(1))
	low := Floor(Clamp(at, 0, float64(l.from-1)))
	part := Sub(at, low)
	part = Where(Less(at, Const(at, float64(l.from-1))), part, Const(part, 0))
	return Add(l.weighted(x, d, low, Sub(Const(part, 1), part)), l.weighted(x, d, AddScalar(low, 1), part))
}

// weighted returns the elements at positions, each multiplied by its weight.
func (l resampled) weighted(x *Tensor, d int, at, weight *Tensor) *Tensor {
	shape := ones(len(x.Shape()))
	shape[d] = l.to
	return Mul(IndexSelect(x, d, l.index(at)), Reshape(Cast(weight, x.DType()), shape...))
}

// cubic returns cubic convolution interpolation with a = -0.75. [Keys 1981]
func (l resampled) cubic(x *Tensor, d int) *Tensor {
	const a = -0.75
	at := l.places(x)
	low := Floor(at)
	part := Sub(at, low)
	polynomial := func(t *Tensor, c3, c2, c1, c0 float64) *Tensor {
		return AddScalar(Mul(t, AddScalar(Mul(t, AddScalar(MulScalar(t, c3), c2)), c1)), c0)
	}
	near := func(t *Tensor) *Tensor { return polynomial(t, a+2, -(a + 3), 0, 1) }
	far := func(t *Tensor) *Tensor { return polynomial(t, a, -5*a, 8*a, -4*a) }
	rest := Sub(Const(part, 1), part)
	return AddN(l.weighted(x, d, AddScalar(low, -1), far(AddScalar(part, 1))),
		l.weighted(x, d, low, near(part)),
		l.weighted(x, d, AddScalar(low, 1), near(rest)),
		l.weighted(x, d, AddScalar(low, 2), far(AddScalar(rest, 1))))
}
