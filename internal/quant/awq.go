package quant

import "math"

// Squares returns the mean of the squares of every input.
func (h *Hessian) Squares() []float64 {
	out := make([]float64, h.in)
	for i := range out {
		out[i] = h.sum[i*h.in+i] / float64(max(1, h.rows))
	}
	return out
}

// Saliences returns what the columns of matrices [out, in] with the same inputs are multiplied by before they
// are rounded, and their inputs divided by: the larger an input is, the more of its column is kept. How much
// more is what leaves the least error, of a few powers of the inputs' size. [Lin et al. 2023]
func Saliences(c Config, ws [][]float32, in int, squares []float64) []float32 {
	best, least := ones(in), math.Inf(1)
	for power := range 10 {
		s := powered(squares, float64(power)/10)
		sum := 0.0
		for _, w := range ws {
			sum += c.scaledError(w, in, s, squares)
		}
		if sum < least {
			best, least = s, sum
		}
	}
	return best
}

func ones(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = 1
	}
	return x
}

// powered returns the root of the squares to a power, around 1; inputs that are never seen stay as they are.
func powered(squares []float64, power float64) []float32 {
	low, high := math.Inf(1), 0.0
	for _, x := range squares {
		if x > 0 {
			low, high = min(low, x), max(high, x)
		}
	}
	s := ones(len(squares))
	if high == 0 {
		return s
	}
	middle := math.Sqrt(low * high)
	for i, x := range squares {
		if x > 0 {
			s[i] = float32(min(max(math.Pow(x/middle, power/2), 1e-3), 1e3))
		}
	}
	return s
}

// scaledError returns the squared error of what a matrix gives after its columns were scaled and rounded.
func (c Config) scaledError(w []float32, in int, s []float32, squares []float64) float64 {
	row, one, sum := make([]float32, in), Empty(c, 1, in), 0.0
	got := make([]float32, in)
	for j := 0; j+in <= len(w); j += in {
		for i := range row {
			row[i] = w[j+i] * s[i]
		}
		one.RoundRow(c, 0, row)
		one.Row(got, 0)
		for i, x := range got {
			d := float64((x - row[i]) / s[i])
			sum += d * d * squares[i]
		}
	}
	return sum
}

// RoundWeighted rounds a matrix [out, in] to the nearest, by the scale of each group that leaves the least
// sum of squared errors by the weights of columns, among some that cut the largest elements.
func RoundWeighted(c Config, w []float32, out, in int, weights []float64) Matrix {
	m := Empty(c, out, in)
	n := m.Groups()
	for j := range out {
		row := w[j*in : (j+1)*in]
		for g := range n {
			lo, hi := g*m.Group, min((g+1)*m.Group, in)
			s := c.bestScale(row[lo:hi], weights[lo:hi])
			m.Scales[j*n+g] = s
			c.roundGroup(m.Values[j*in+lo:j*in+hi], row[lo:hi], s)
		}
	}
	return m
}
