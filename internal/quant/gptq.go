package quant

import (
	"fmt"
	"math"
)

// Hessian gathers what inputs a matrix has: the sum of xᵀx over rows x.
type Hessian struct {
	in   int
	rows int
	sum  []float64 // [in, in], the upper triangle
}

// NewHessian returns the hessian of a matrix with so many columns.
func NewHessian(in int) *Hessian { return &Hessian{in: in, sum: make([]float64, in*in)} }

// Add adds rows of inputs.
func (h *Hessian) Add(x []float32, rows int) {
	for r := range rows {
		row := x[r*h.in : (r+1)*h.in]
		for i, a := range row {
			if a == 0 {
				continue
			}
			to := h.sum[i*h.in:]
			for j := i; j < h.in; j++ {
				to[j] += float64(a) * float64(row[j])
			}
		}
	}
	h.rows += rows
}

// damping is the share of the mean of the diagonal that is added to it.
const damping = 0.01

// factor returns the upper triangle U with UᵀU the inverse of the damped sum.
func (h *Hessian) factor() ([]float64, error) {
	n := h.in
	a, mean := make([]float64, n*n), 0.0
	for i := range n {
		mean += h.sum[i*n+i] / float64(n)
		for j := i; j < n; j++ {
			a[i*n+j], a[j*n+i] = h.sum[i*n+j], h.sum[i*n+j]
		}
	}
	for i := range n {
		a[i*n+i] += damping*mean + 1e-12
	}
	if !cholesky(a, n) {
		return nil, fmt.Errorf("the inputs of %d rows are not finite numbers", h.rows)
	}
	inverse := inverseOf(a, n)
	if !cholesky(inverse, n) {
		return nil, fmt.Errorf("the inputs of %d rows depend too much on one another", h.rows)
	}
	for i := range n { // the lower triangle, turned over
		for j := range i {
			inverse[j*n+i], inverse[i*n+j] = inverse[i*n+j], 0
		}
	}
	return inverse, nil
}

// cholesky puts the lower triangle L with LLᵀ = a into a; it reports whether there is one.
func cholesky(a []float64, n int) bool {
	for i := range n {
		for j := range i + 1 {
			s := a[i*n+j]
			for k, x := range a[i*n : i*n+j] {
				s -= x * a[j*n+k]
			}
			if i != j {
				a[i*n+j] = s / a[j*n+j]
				continue
			}
			if !(s > 0) || math.IsInf(s, 0) {
				return false
			}
			a[i*n+i] = math.Sqrt(s)
		}
	}
	return true
}

// inverseOf returns the inverse of LLᵀ.
func inverseOf(l []float64, n int) []float64 {
	m := make([]float64, n*n) // the inverse of L, by columns: m[c*n+r]
	for c := range n {
		col := m[c*n : (c+1)*n]
		for r := c; r < n; r++ {
			s := 0.0
			if r == c {
				s = 1
			}
			for k := c; k < r; k++ {
				s -= l[r*n+k] * col[k]
			}
			col[r] = s / l[r*n+r]
		}
	}
	inv := make([]float64, n*n)
	for i := range n {
		for j := range i + 1 {
			s := 0.0
			for k := i; k < n; k++ {
				s += m[i*n+k] * m[j*n+k]
			}
			inv[i*n+j], inv[j*n+i] = s, s
		}
	}
	return inv
}

// Compensate rounds a matrix [out, in] column by column, and lets the columns after each make up for its
// error on the inputs that were seen. [Frantar et al. 2022]
func Compensate(c Config, w []float32, out, in int, h *Hessian) (Matrix, error) {
	u, err := h.factor()
	if err != nil {
		return Matrix{}, err
	}
	m, groups := Empty(c, out, in), (in+c.Group-1)/c.Group
	row, one := make([]float32, in), make([]byte, 1)
	for j := range out {
		copy(row, w[j*in:(j+1)*in])
		for i := range in {
			if i%c.Group == 0 {
				m.Scales[j*groups+i/c.Group] = c.bestScale(row[i:min(i+c.Group, in)], nil)
			}
			s := m.Scales[j*groups+i/c.Group]
			c.roundGroup(one, row[i:i+1], s)
			m.Values[j*in+i] = one[0]
			got := float32(int(one[0])-1<<(c.Bits-1)) * s
			e := float64(row[i]-got) / u[i*in+i]
			for k := i + 1; k < in; k++ {
				row[k] -= float32(e * u[i*in+k])
			}
		}
	}
	return m, nil
}

// bestScale returns the scale with the least sum of squared errors among some that cut the largest elements;
// weights say how much an element's counts, nil that all count alike.
func (c Config) bestScale(w []float32, weights []float64) float32 {
	full := c.scaleOf(w)
	best, least := full, math.Inf(1)
	values := make([]byte, len(w))
	for cut := 0; cut < 8; cut++ {
		s := full * (1 - float32(cut)*0.04)
		if c.Scale != nil {
			s = c.Scale(s)
		}
		c.roundGroup(values, w, s)
		sum := 0.0
		for i, v := range values {
			d := float64(w[i] - float32(int(v)-1<<(c.Bits-1))*s)
			if d *= d; weights != nil {
				d *= weights[i]
			}
			sum += d
		}
		if sum < least {
			best, least = s, sum
		}
	}
	return best
}
