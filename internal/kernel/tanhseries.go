package kernel

// TanhSeries sets dst to the first one or two derivatives along a line of y = tanh x, of those of x.
func TanhSeries[T Float](dst [][]T, y []T, x [][]T) {
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

// TanhSeriesGrad is the gradient of TanhSeries: of g, those of its results, it makes dx, those of the
// derivatives of x, and adds to dy.
func TanhSeriesGrad[T Float](dy []T, dx [][]T, y []T, x, g [][]T) {
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
