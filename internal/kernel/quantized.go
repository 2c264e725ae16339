package kernel

// Quantized is a [Rows, Cols] matrix quantized in groups of columns: an element's value is (q-zero)·scale.
type Quantized[T Float] struct {
	Rows, Cols int
	// Bits is 8, or 4 for two to a byte, the lower half first.
	Bits, Group int
	Q           []byte
	// Scale has one number for each row and group, and so has Zero; a nil Zero means the middle of the range.
	Scale []T
	Zero  []byte
}

// quantizedRows is the number of rows that are converted to floats at a time.
const quantizedRows = 128

// Row writes the values of row i to dst.
func (m *Quantized[T]) Row(dst []T, i int) {
	groups, size := m.Cols/m.Group, m.Group*m.Bits/8
	for g := range groups {
		at := i*groups + g
		zero := 1 << (m.Bits - 1)
		if m.Zero != nil {
			zero = int(m.Zero[at])
		}
		expand(dst[g*m.Group:(g+1)*m.Group], m.Q[at*size:(at+1)*size], m.Bits, zero, m.Scale[at])
	}
}

func expand[T Float](dst []T, q []byte, bits, zero int, scale T) {
	if bits == 8 {
		for i, v := range q {
			dst[i] = T(int(v)-zero) * scale
		}
		return
	}
	for i, v := range q {
		dst[2*i] = T(int(v&15)-zero) * scale
		dst[2*i+1] = T(int(v>>4)-zero) * scale
	}
}

// MulT computes y = x·mᵀ for n rows of x.
func (m *Quantized[T]) MulT(p *Pool, y, x []T, n int) {
	m.blocks(p, func(w []T, lo, rows int) {
		Gemm[T]{M: n, N: rows, K: m.Cols, A: Dense(x, m.Cols, NoTrans), B: Dense(w, m.Cols, Transpose),
			C: y[lo:], LDC: m.Rows}.Run(p)
	})
}

// Mul computes y = x·m for n rows of x. Blocks of rows are added in order.
func (m *Quantized[T]) Mul(p *Pool, y, x []T, n int) {
	clear(y)
	m.blocks(p, func(w []T, lo, rows int) {
		Gemm[T]{M: n, N: m.Cols, K: rows, A: Dense(x[lo:], m.Rows, NoTrans), B: Dense(w, m.Cols, NoTrans),
			C: y, Update: Accumulate}.Run(p)
	})
}

// blocks calls f with blocks of rows as floats, one after the other.
func (m *Quantized[T]) blocks(p *Pool, f func(w []T, lo, rows int)) {
	if m.Rows*m.Cols == 0 {
		return
	}
	mem := newScratch[T](min(quantizedRows, m.Rows) * m.Cols)
	defer mem.free()
	all := mem.cut(min(quantizedRows, m.Rows) * m.Cols)
	for lo := 0; lo < m.Rows; lo += quantizedRows {
		rows := min(quantizedRows, m.Rows-lo)
		p.For(rows, 8, func(from, to int) {
			for i := from; i < to; i++ {
				m.Row(all[i*m.Cols:(i+1)*m.Cols], lo+i)
			}
		})
		f(all[:rows*m.Cols], lo, rows)
	}
}
