package kernel

// LayerNormGradRow computes the gradient of one LayerNormRow. With
// h[i] = (x[i]-mean)*rstd and g[i] = dy[i]*gamma[i]:
//
//	dgammaAcc[i] += dy[i]*h[i]
//	dbetaAcc[i]  += dy[i]
//	dx[i] = rstd*(g[i] - sum of g[j] / n - h[i] * sum of g[j]*h[j] / n)
//
// A nil gamma counts as ones; a nil accumulator is not computed. dx may be dy.
func LayerNormGradRow[T Float](dx, dgammaAcc, dbetaAcc, x, gamma, dy []T, mean, rstd T) {
	n := len(dx)
	x, dy = x[:n], dy[:n]
	if dbetaAcc != nil {
		Add(dbetaAcc[:n], dbetaAcc, dy)
	}
	sumG, sumGH := normSums(dgammaAcc, x, gamma, dy, mean, rstd)
	normGrad(dx, x, gamma, dy, mean, rstd, sumG/T(n), sumGH/T(n))
}

// RMSNormGradRow computes the gradient of one RMSNormRow: that of
// LayerNormGradRow with mean zero and without the term sum of g[j] / n.
func RMSNormGradRow[T Float](dx, dgammaAcc, x, gamma, dy []T, rstd T) {
	n := len(dx)
	x, dy = x[:n], dy[:n]
	_, sumGH := normSums(dgammaAcc, x, gamma, dy, 0, rstd)
	normGrad(dx, x, gamma, dy, 0, rstd, 0, sumGH/T(n))
}

// normSums adds dy[i]*h[i] to dgamma and returns the sums of g and of g*h, with
// h and g as in LayerNormGradRow, in the order of Sum.
func normSums[T Float](dgamma, x, gamma, dy []T, mean, rstd T) (sumG, sumGH T) {
	if len(x) <= SumBlock {
		return normSumsLeaf(dgamma, x, gamma, dy, mean, rstd)
	}
	// One pass computes two sums, so the tree is walked for the first, and the leaves' second results are stored
	// aside.
	var aside [64]T
	parts := aside[:0]
	sumG = tree(len(x), func(lo, hi int) T {
		a, b := normSumsLeaf(cut(dgamma, lo, hi), x[lo:hi], cut(gamma, lo, hi), dy[lo:hi], mean, rstd)
		parts = append(parts, b)
		return a
	})
	return sumG, Tree(parts)
}

// cut returns s[lo:hi], or nil for a nil s.
func cut[T Float](s []T, lo, hi int) []T {
	if s == nil {
		return nil
	}
	return s[lo:hi]
}

func normSumsLeaf[T Float](dgamma, x, gamma, dy []T, mean, rstd T) (sumG, sumGH T) {
	if v := as32(x); v != nil {
		switch {
		case gamma == nil && dgamma == nil && simd.normSums != nil:
			a, b := simd.normSums(v, as32(dy), float32(mean), float32(rstd))
			return T(a), T(b)
		case gamma != nil && dgamma != nil && simd.normSumsAcc != nil:
			a, b := simd.normSumsAcc(as32(dgamma), v, as32(gamma), as32(dy), float32(mean), float32(rstd))
			return T(a), T(b)
		}
	}
	var a, b float64
	for i := range x {
		h, g := (x[i]-mean)*rstd, dy[i]
		if dgamma != nil {
			dgamma[i] += g * h
		}
		if gamma != nil {
			g *= gamma[i]
		}
		a += float64(g)
		b += float64(g) * float64(h)
	}
	return T(a), T(b)
}

// normGrad sets dx[i] = rstd*(dy[i]*gamma[i] - a - (x[i]-mean)*rstd*b).
func normGrad[T Float](dx, x, gamma, dy []T, mean, rstd, a, b T) {
	if d := as32(dx); d != nil && simd.normGrad != nil {
		m, r, a, b := float32(mean), float32(rstd), float32(a), float32(b)
		if gamma != nil {
			simd.normGradG(d, as32(x), as32(gamma[:len(d)]), as32(dy), m, r, a, b)
		} else {
			simd.normGrad(d, as32(x), as32(dy), m, r, a, b)
		}
		return
	}
	for i := range dx {
		h, g := (x[i]-mean)*rstd, dy[i]
		if gamma != nil {
			g *= gamma[i]
		}
		dx[i] = rstd * (g - a - h*b)
	}
}
