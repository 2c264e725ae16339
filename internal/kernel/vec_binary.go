package kernel

// Add sets dst[i] = x[i]+y[i].
func Add[T Float](dst, x, y []T) {
	x, y = x[:len(dst)], y[:len(dst)]
	if binary32(simd.add, dst, x, y) {
		return
	}
	for i := range dst {
		dst[i] = x[i] + y[i]
	}
}

// Sub sets dst[i] = x[i]-y[i].
func Sub[T Float](dst, x, y []T) {
	x, y = x[:len(dst)], y[:len(dst)]
	if binary32(simd.sub, dst, x, y) {
		return
	}
	for i := range dst {
		dst[i] = x[i] - y[i]
	}
}

// Mul sets dst[i] = x[i]*y[i].
func Mul[T Float](dst, x, y []T) {
	x, y = x[:len(dst)], y[:len(dst)]
	if binary32(simd.mul, dst, x, y) {
		return
	}
	for i := range dst {
		dst[i] = x[i] * y[i]
	}
}

// Div sets dst[i] = x[i]/y[i].
func Div[T Float](dst, x, y []T) {
	x, y = x[:len(dst)], y[:len(dst)]
	if binary32(simd.div, dst, x, y) {
		return
	}
	for i := range dst {
		dst[i] = x[i] / y[i]
	}
}

// Max sets dst[i] to the larger of x[i] and y[i], NaN if either is.
func Max[T Float](dst, x, y []T) {
	x, y = x[:len(dst)], y[:len(dst)]
	if binary32(simd.max, dst, x, y) {
		return
	}
	for i := range dst {
		dst[i] = max(x[i], y[i])
	}
}

// Min sets dst[i] to the smaller of x[i] and y[i], NaN if either is.
func Min[T Float](dst, x, y []T) {
	x, y = x[:len(dst)], y[:len(dst)]
	if binary32(simd.min, dst, x, y) {
		return
	}
	for i := range dst {
		dst[i] = min(x[i], y[i])
	}
}

// MulAdd sets dst[i] = x[i]*y[i]+z[i]; the product may or may not be rounded.
func MulAdd[T Float](dst, x, y, z []T) {
	x, y, z = x[:len(dst)], y[:len(dst)], z[:len(dst)]
	if f := simd.mulAdd; f != nil {
		if d := as32(dst); d != nil {
			f(d, as32(x), as32(y), as32(z))
			return
		}
	}
	for i := range dst {
		dst[i] = x[i]*y[i] + z[i]
	}
}

// AddScalar sets dst[i] = x[i]+c.
func AddScalar[T Float](dst, x []T, c T) {
	x = x[:len(dst)]
	if scalar32(simd.addScalar, dst, x, c) {
		return
	}
	for i := range dst {
		dst[i] = x[i] + c
	}
}

// MulScalar sets dst[i] = x[i]*c.
func MulScalar[T Float](dst, x []T, c T) {
	x = x[:len(dst)]
	if scalar32(simd.mulScalar, dst, x, c) {
		return
	}
	for i := range dst {
		dst[i] = x[i] * c
	}
}

// Axpy sets dst[i] += a*x[i]; the product may or may not be rounded.
func Axpy[T Float](dst []T, a T, x []T) {
	x = x[:len(dst)]
	if scalar32(simd.axpy, dst, x, a) {
		return
	}
	for i := range dst {
		dst[i] += a * x[i]
	}
}
