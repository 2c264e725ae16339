package kernel

//go:generate go -C gen run ./series -out ../tanhseries_amd64.s -stubs ../tanhseries_stubs_amd64.go -pkg kernel

// tanhTable is float64 kernels on whole vectors of so many lanes; without lanes there are none.
type tanhTable struct {
	lanes      int
	tanh       func(n int, dst, x *float64)
	first      func(n int, y1, y, x1 *float64)
	second     func(n int, y1, y2, y, x1, x2 *float64)
	firstGrad  func(n int, dy, d1, y, x1, g1 *float64)
	secondGrad func(n int, dy, d1, d2, y, x1, x2, g1, g2 *float64)
}

var tanh64 = tanhKernels()

// whole calls f for the elements of slices that are whole vectors, and for the rest of them in vectors of
// their own: an element does not depend on its place. All slices are as long as the first; as many of them as
// outs are written, over operands, too.
func (t *tanhTable) whole(slices [][]float64, outs int, f func(n int, p []*float64)) {
	n := len(slices[0])
	full := n / t.lanes * t.lanes
	p := make([]*float64, len(slices))
	if full > 0 {
		for i, s := range slices {
			p[i] = &s[:n][0]
		}
		f(full, p)
	}
	if full == n {
		return
	}
	rest := make([]float64, len(slices)*t.lanes)
	for i, s := range slices {
		p[i] = &rest[i*t.lanes]
		copy(rest[i*t.lanes:(i+1)*t.lanes], s[full:n])
	}
	f(t.lanes, p)
	for i, s := range slices[:outs] {
		copy(s[full:n], rest[i*t.lanes:])
	}
}

// doubles is slices of float64 in a row, if that is what they are and there are vectors for them.
func doubles[T Float](first []T, more ...[][]T) ([][]float64, bool) {
	if _, ok := any(first).([]float64); !ok || tanh64.lanes == 0 || len(first) == 0 {
		return nil, false
	}
	out := [][]float64{any(first).([]float64)}
	for _, list := range more {
		for _, x := range list {
			out = append(out, any(x).([]float64))
		}
	}
	return out, true
}

// Tanh sets dst[i] = tanh(x[i]).
func Tanh[T Float](dst, x []T) {
	s, ok := doubles(dst, [][]T{x})
	if !ok {
		unary(dst, x, simd.tanh, tanhOf[T])
		return
	}
	tanh64.whole(s, 1, func(n int, p []*float64) { tanh64.tanh(n, p[0], p[1]) })
}

// TanhSeries sets dst to the first one or two derivatives along a line of y = tanh x, of those of x.
func TanhSeries[T Float](dst [][]T, y []T, x [][]T) {
	s, ok := doubles(dst[0], dst[1:], [][]T{y}, x)
	switch {
	case !ok:
		tanhSeries(dst, y, x)
	case len(x) == 1:
		tanh64.whole(s, 1, func(n int, p []*float64) { tanh64.first(n, p[0], p[1], p[2]) })
	default:
		tanh64.whole(s, 2, func(n int, p []*float64) { tanh64.second(n, p[0], p[1], p[2], p[3], p[4]) })
	}
}

// TanhSeriesGrad is the gradient of TanhSeries: of g, those of its results, it makes dx, those of the
// derivatives of x, and adds to dy.
func TanhSeriesGrad[T Float](dy []T, dx [][]T, y []T, x, g [][]T) {
	s, ok := doubles(dy, dx, [][]T{y}, x, g)
	switch {
	case !ok:
		tanhSeriesGrad(dy, dx, y, x, g)
	case len(x) == 1:
		tanh64.whole(s, 2, func(n int, p []*float64) { tanh64.firstGrad(n, p[0], p[1], p[2], p[3], p[4]) })
	default:
		tanh64.whole(s, 3, func(n int, p []*float64) {
			tanh64.secondGrad(n, p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7])
		})
	}
}

// tanhSeries is TanhSeries in plain Go.
func tanhSeries[T Float](dst [][]T, y []T, x [][]T) {
	x1, y1 := x[0][:len(y)], dst[0][:len(y)]
	if len(x) == 1 {
		for i, t := range y {
			y1[i] = (1 - t*t) * x1[i]
		}
		return
	}
	x2, y2 := x[1][:len(y)], dst[1][:len(y)]
	for i, t := range y {
		z, v := 1-t*t, x1[i]
		first := z * v
		y1[i] = first
		y2[i] = z*x2[i] - 2*t*first*v
	}
}

// tanhSeriesGrad is TanhSeriesGrad in plain Go.
func tanhSeriesGrad[T Float](dy []T, dx [][]T, y []T, x, g [][]T) {
	dy = dy[:len(y)]
	x1, g1, d1 := x[0][:len(y)], g[0][:len(y)], dx[0][:len(y)]
	if len(x) == 1 {
		for i, t := range y {
			d1[i] = (1 - t*t) * g1[i]
			dy[i] -= 2 * t * g1[i] * x1[i]
		}
		return
	}
	x2, g2, d2 := x[1][:len(y)], g[1][:len(y)], dx[1][:len(y)]
	for i, t := range y {
		square := t * t
		z, v, a, b := 1-square, x1[i], g1[i], g2[i]
		d2[i] = z * b
		d1[i] = z * (a - 4*t*v*b)
		dy[i] -= 2 * (t*(a*v+b*x2[i]) + b*v*v*(1-3*square))
	}
}
