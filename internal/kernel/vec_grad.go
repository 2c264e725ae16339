package kernel

// GELUTanhGrad sets dx[i] = dy[i]*f'(x[i]) for f of GELUTanh.
func GELUTanhGrad[T Float](dx, x, dy []T) {
	grad(dx, x, dy, simd.geluTanhGrad, geluTanhGradOf)
}

// GELUGrad sets dx[i] = dy[i]*f'(x[i]) for f of GELU.
func GELUGrad[T Float](dx, x, dy []T) { grad(dx, x, dy, simd.geluGrad, geluGradOf) }

// SiLUGrad sets dx[i] = dy[i]*f'(x[i]) for f of SiLU.
func SiLUGrad[T Float](dx, x, dy []T) { grad(dx, x, dy, simd.siluGrad, siluGradOf) }

// grad is the one dispatch of the maps above: dx[i] = dy[i]*derivative(x[i]).
func grad[T Float](dx, x, dy []T, vector func(dx, x, dy []float32), derivative func(float64) float64) {
	x, dy = x[:len(dx)], dy[:len(dx)]
	if binary32(vector, dx, x, dy) {
		return
	}
	for i := range dx {
		dx[i] = T(float64(dy[i]) * derivative(float64(x[i])))
	}
}

// SwiGLU sets dst[i] = silu(gate[i])*up[i].
func SwiGLU[T Float](dst, gate, up []T) {
	gate, up = gate[:len(dst)], up[:len(dst)]
	if binary32(simd.swiGLU, dst, gate, up) {
		return
	}
	for i := range dst {
		dst[i] = siluOf(gate[i]) * up[i]
	}
}

// SwiGLUGrad sets dgate[i] = dy[i]*up[i]*silu'(gate[i]) and
// dup[i] = dy[i]*silu(gate[i]).
func SwiGLUGrad[T Float](dgate, dup, gate, up, dy []T) {
	n := len(dgate)
	dup, gate, up, dy = dup[:n], gate[:n], up[:n], dy[:n]
	if f := simd.swiGLUGrad; f != nil {
		if d := as32(dgate); d != nil {
			f(d, as32(dup), as32(gate), as32(up), as32(dy))
			return
		}
	}
	for i := range dgate {
		x, u, d := float64(gate[i]), float64(up[i]), float64(dy[i])
		dup[i] = T(d * siluOf(x))
		dgate[i] = T(d * u * siluGradOf(x))
	}
}
