package quant

import (
	"math"

	"github.com/galley-ml/galley/internal/kernel"
)

// Config says how floats are rounded.
type Config struct {
	Bits, Group int
	// Signed lets the element of the largest absolute value have the end of the range that has no counterpart,
	// by a scale of its sign.
	Signed bool
	// Scale rounds a scale to what is stored; nil is to 16 bits.
	Scale func(float32) float32
}

// HalfScale returns a scale as a 16-bit float holds it.
func HalfScale(s float32) float32 { return kernel.F16ToF32(kernel.F32ToF16(s)) }

// BF16Scale returns a scale as bfloat16 holds it.
func BF16Scale(s float32) float32 { return kernel.BF16ToF32(kernel.F32ToBF16(s)) }

// Round rounds a matrix [out, in] to the nearest integers, without zero points.
func Round(c Config, w []float32, out, in int) Matrix {
	m := Empty(c, out, in)
	for j := range out {
		m.RoundRow(c, j, w[j*in:(j+1)*in])
	}
	return m
}

// Empty returns a matrix of which no row is rounded yet.
func Empty(c Config, out, in int) Matrix {
	m := Matrix{Out: out, In: in, Group: c.Group, Bits: c.Bits, Values: make([]byte, out*in)}
	m.Scales = make([]float32, out*m.Groups())
	return m
}

// RoundRow rounds one row.
func (m Matrix) RoundRow(c Config, j int, row []float32) {
	n := m.Groups()
	for g := range n {
		lo, hi := g*m.Group, min((g+1)*m.Group, m.In)
		s := c.scaleOf(row[lo:hi])
		m.Scales[j*n+g] = s
		c.roundGroup(m.Values[j*m.In+lo:j*m.In+hi], row[lo:hi], s)
	}
}

// scaleOf returns the scale with which a group's largest element has the end of the range.
func (c Config) scaleOf(w []float32) float32 {
	top := float32(0)
	for _, x := range w {
		if max(x, -x) > max(top, -top) {
			top = x
		}
	}
	s := max(top, -top) / float32(int(1)<<(c.Bits-1)-1)
	if c.Signed {
		s = -top / float32(int(1)<<(c.Bits-1))
	}
	if c.Scale != nil {
		return c.Scale(s)
	}
	return HalfScale(s)
}

// roundGroup rounds w by a scale.
func (c Config) roundGroup(dst []byte, w []float32, scale float32) {
	half := float32(int(1) << (c.Bits - 1))
	inverse := float32(0)
	if scale != 0 {
		inverse = 1 / scale
	}
	if math.IsInf(float64(inverse), 0) {
		inverse = 0
	}
	for i, x := range w {
		v := nearest(x*inverse) + half
		dst[i] = byte(min(max(v, 0), 2*half-1))
	}
}

// nearest rounds what is less than 2^22 in size, ties to even.
func nearest(x float32) float32 {
	const shift = 3 << 22
	return x + shift - shift
}
