package kernel

import "math"

// AdamWCoef holds the coefficients of one AdamW step t.
type AdamWCoef struct {
	LR, Beta1, Beta2, Eps, WeightDecay float64
	Bias1, Bias2                       float64 // 1-Beta1^t and 1-Beta2^t
	GradScale                          float64 // multiplies the gradient first
}

// AdamWStep updates parameters and moments in place: AdamWStepTo with the
// results written over the operands.
func AdamWStep[T Float](p, g, m, v []T, c AdamWCoef) {
	AdamWStepTo(p, m, v, p, g, m, v, c)
}

// AdamWStepTo computes one AdamW step; each output may be the matching input.
//
//	g' = GradScale*g[i]
//	mOut[i] = Beta1*m[i] + (1-Beta1)*g'
//	vOut[i] = Beta2*v[i] + (1-Beta2)*g'*g'
//	pOut[i] = p[i]*(1-LR*WeightDecay) - LR/Bias1 * mOut[i]/(sqrt(vOut[i])/sqrt(Bias2)+Eps)
func AdamWStepTo[T Float](pOut, mOut, vOut, p, g, m, v []T, c AdamWCoef) {
	n := len(pOut)
	mOut, vOut, p, g, m, v = mOut[:n], vOut[:n], p[:n], g[:n], m[:n], v[:n]
	k := [8]float64{
		c.GradScale, c.Beta1, 1 - c.Beta1, c.Beta2, 1 - c.Beta2,
		1 / math.Sqrt(c.Bias2), c.Eps, 1 - c.LR*c.WeightDecay,
	}
	step := c.LR / c.Bias1
	if d := as32(pOut); d != nil && simd.adamW != nil {
		adamW32(d, as32(mOut), as32(vOut), as32(p), as32(g), as32(m), as32(v), k, step)
		return
	}
	for i := range pOut {
		gi := T(k[0]) * g[i]
		mi := T(k[1])*m[i] + T(k[2])*gi
		vi := T(k[3])*v[i] + T(k[4])*gi*gi
		mOut[i], vOut[i] = mi, vi
		pOut[i] = p[i]*T(k[7]) - T(step)*mi/(T(math.Sqrt(float64(vi)))*T(k[5])+T(k[6]))
	}
}

// adamW32 rounds the coefficients once and folds GradScale into those of the
// moments, which saves the kernel a multiplication.
func adamW32(pOut, mOut, vOut, p, g, m, v []float32, k [8]float64, step float64) {
	c := [8]float32{
		float32(k[1]), float32(k[2] * k[0]), float32(k[3]), float32(k[4] * k[0] * k[0]),
		float32(k[5]), float32(k[6]), float32(k[7]), float32(-step),
	}
	simd.adamW(pOut, mOut, vOut, p, g, m, v, c)
}
