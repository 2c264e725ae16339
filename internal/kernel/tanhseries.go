package kernel

//go:generate go -C gen run ./series -out ../tanhseries_amd64.s -stubs ../tanhseries_stubs_amd64.go -pkg kernel

// seriesTable holds kernels on whole vectors of the given number of lanes; with 0 lanes there are none.
type seriesTable[T Float] struct {
	lanes      int
	first      func(n int, y1, y, x1 *T)
	second     func(n int, y1, y2, y, x1, x2 *T)
	firstGrad  func(n int, dy, d1, y, x1, g1 *T)
	secondGrad func(n int, dy, d1, d2, y, x1, x2, g1, g2 *T)
	// dots adds sums of products of dotRows rows of x and dotCols rows of y to vectors of sums.
	dots    func(series, n int, acc *T, accRow int, x *T, nextX int, y *T, nextY, stride int)
	dotCols int
}

var series32, series64 = seriesKernels()

// seriesOf returns the kernels for elements of one type.
func seriesOf[T Float]() *seriesTable[T] {
	if t, ok := any(&series32).(*seriesTable[T]); ok {
		return t
	}
	return any(&series64).(*seriesTable[T])
}

// whole calls f for the part of the slices that is whole vectors, and for the rest copied to a padded vector:
// an element's result does not depend on its position. All slices are as long as the first; the first outs of
// them are written, and may be operands.
func (t *seriesTable[T]) whole(slices [][]T, outs int, f func(n int, p []*T)) {
	n := len(slices[0])
	full := n / t.lanes * t.lanes
	p := make([]*T, len(slices))
	if full > 0 {
		for i, s := range slices {
			p[i] = &s[:n][0]
		}
		f(full, p)
	}
	if full == n {
		return
	}
	rest := make([]T, len(slices)*t.lanes)
	for i, s := range slices {
		p[i] = &rest[i*t.lanes]
		copy(rest[i*t.lanes:(i+1)*t.lanes], s[full:n])
	}
	f(t.lanes, p)
	for i, s := range slices[:outs] {
		copy(s[full:n], rest[i*t.lanes:])
	}
}

// inVectors returns all slices in one list, and whether there are vector kernels for them.
func (t *seriesTable[T]) inVectors(first []T, more ...[][]T) ([][]T, bool) {
	if t.lanes == 0 || len(first) == 0 {
		return nil, false
	}
	out := [][]T{first}
	for _, list := range more {
		out = append(out, list...)
	}
	return out, true
}

// TanhSeries sets dst to the first one or two derivatives along a line of y = tanh x, given those of x.
func TanhSeries[T Float](dst [][]T, y []T, x [][]T) {
	t := seriesOf[T]()
	s, ok := t.inVectors(dst[0], dst[1:], [][]T{y}, x)
	switch {
	case !ok:
		tanhSeries(dst, y, x)
	case len(x) == 1:
		t.whole(s, 1, func(n int, p []*T) { t.first(n, p[0], p[1], p[2]) })
	default:
		t.whole(s, 2, func(n int, p []*T) { t.second(n, p[0], p[1], p[2], p[3], p[4]) })
	}
}

// TanhSeriesGrad computes the gradient of TanhSeries: from g, the gradients of its results, it sets dx, those
// of the derivatives of x, and adds to dy.
func TanhSeriesGrad[T Float](dy []T, dx [][]T, y []T, x, g [][]T) {
	t := seriesOf[T]()
	s, ok := t.inVectors(dy, dx, [][]T{y}, x, g)
	switch {
	case !ok:
		tanhSeriesGrad(dy, dx, y, x, g)
	case len(x) == 1:
		t.whole(s, 2, func(n int, p []*T) { t.firstGrad(n, p[0], p[1], p[2], p[3], p[4]) })
	default:
		t.whole(s, 3, func(n int, p []*T) {
			t.secondGrad(n, p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7])
		})
	}
}

// tanhSeries is like TanhSeries in plain Go.
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

// tanhSeriesGrad is like TanhSeriesGrad in plain Go.
func tanhSeriesGrad[T Float](dy []T, dx [][]T, y []T, x, g [][]T) {
	dy = dy[:len(y)]
	x1, g1, d1 := x[0][:len(y)], g[0][:len(y)], dx[0][:len(y)]
	if len(x) == 1 {
		for i, t := range y {
			g := g1[i] // d1 may be the same memory as g1
			d1[i] = (1 - t*t) * g
			dy[i] -= 2 * t * g * x1[i]
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
