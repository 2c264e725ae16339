package quant

import (
	"fmt"
	"slices"
)

// Matrix is a matrix [Out, In] of integers without sign: Group neighbouring columns of a row have one scale
// and one zero point, and an element means (value-zero)·scale.
type Matrix struct {
	Out, In, Group, Bits int
	// Values is a byte for each element.
	Values []byte
	// Scales is [Out, Groups].
	Scales []float32
	// Zeros is [Out, Groups]; nil is the middle of the range everywhere.
	Zeros []byte
	// Order is which input each column takes; nil is its own.
	Order []int32
}

// Groups returns how many groups a row has; the last may be short.
func (m Matrix) Groups() int { return (m.In + m.Group - 1) / m.Group }

// Check reports what is wrong with a matrix.
func (m Matrix) Check() error {
	switch {
	case m.Bits != 4 && m.Bits != 8:
		return fmt.Errorf("weights of %d bits: want 4 or 8", m.Bits)
	case m.Group != 32 && m.Group != 64 && m.Group != 128:
		return fmt.Errorf("groups of %d: want 32, 64 or 128", m.Group)
	case m.Out < 1 || m.In < 1 || len(m.Values) != m.Out*m.In || len(m.Scales) != m.Out*m.Groups():
		return fmt.Errorf("a matrix of %d by %d has %d values and %d scales", m.Out, m.In, len(m.Values),
			len(m.Scales))
	case m.Zeros != nil && len(m.Zeros) != len(m.Scales):
		return fmt.Errorf("%d zero points of %d groups", len(m.Zeros), len(m.Scales))
	case m.Order != nil && !isOrder(m.Order, m.In):
		return fmt.Errorf("columns in an order that is none of %d columns", m.In)
	}
	return nil
}

func isOrder(order []int32, n int) bool {
	seen := make([]bool, n)
	for _, i := range order {
		if int(i) >= n || i < 0 || seen[i] {
			return false
		}
		seen[i] = true
	}
	return len(order) == n
}

// Alike reports whether rows of both can be rows of one matrix.
func (m Matrix) Alike(o Matrix) bool {
	return m.In == o.In && m.Group == o.Group && m.Bits == o.Bits && (m.Zeros == nil) == (o.Zeros == nil) &&
		slices.Equal(m.Order, o.Order)
}

// Rows returns rows lo up to hi, in the same memory.
func (m Matrix) Rows(lo, hi int) Matrix {
	n := m.Groups()
	m.Out, m.Values, m.Scales = hi-lo, m.Values[lo*m.In:hi*m.In], m.Scales[lo*n:hi*n]
	if m.Zeros != nil {
		m.Zeros = m.Zeros[lo*n : hi*n]
	}
	return m
}

// Stacked returns matrices that are alike one below the other.
func Stacked(ms []Matrix) (Matrix, error) {
	all := ms[0]
	all.Values, all.Scales = slices.Clone(all.Values), slices.Clone(all.Scales)
	all.Zeros = slices.Clone(all.Zeros)
	for _, m := range ms[1:] {
		if !m.Alike(all) {
			return Matrix{}, fmt.Errorf("matrices that are one parameter have unlike groups")
		}
		all.Out += m.Out
		all.Values, all.Scales = append(all.Values, m.Values...), append(all.Scales, m.Scales...)
		all.Zeros = append(all.Zeros, m.Zeros...)
	}
	return all, nil
}

// zero returns the zero point of a group, counted over all rows.
func (m Matrix) zero(group int) int {
	if m.Zeros == nil {
		return 1 << (m.Bits - 1)
	}
	return int(m.Zeros[group])
}

// Row writes what row j means to dst.
func (m Matrix) Row(dst []float32, j int) {
	n := m.Groups()
	for p, v := range m.Values[j*m.In : (j+1)*m.In] {
		g := j*n + p/m.Group
		to := p
		if m.Order != nil {
			to = int(m.Order[p])
		}
		dst[to] = float32(int(v)-m.zero(g)) * m.Scales[g]
	}
}

// Floats returns what all elements mean.
func (m Matrix) Floats() []float32 {
	x := make([]float32, m.Out*m.In)
	for j := range m.Out {
		m.Row(x[j*m.In:(j+1)*m.In], j)
	}
	return x
}
