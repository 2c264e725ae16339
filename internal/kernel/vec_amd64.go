//go:build !noasm

package kernel

// vectorTables returns the tables of the instruction sets this processor has.
func vectorTables() []namedTable {
	var t []namedTable
	if hasAVX2() {
		t = append(t, namedTable{"AVX2", tableAVX2(), doublesAVX2()})
	}
	if hasAVX512() {
		t = append(t, namedTable{"AVX512", tableAVX512(), doublesAVX512()})
	}
	return t
}

// tableAVX2 returns the AVX2 kernels.
func tableAVX2() table32 {
	return table32{
		exp:           expAVX2,
		log:           logAVX2,
		tanh:          tanhAVX2,
		erf:           erfAVX2,
		sigmoid:       sigmoidAVX2,
		silu:          siluAVX2,
		gelu:          geluAVX2,
		geluTanh:      geluTanhAVX2,
		expm1:         expm1AVX2,
		log1p:         log1pAVX2,
		softplus:      softplusAVX2,
		sqrt:          sqrtAVX2,
		rsqrt:         rsqrtAVX2,
		reciprocal:    reciprocalAVX2,
		neg:           negAVX2,
		abs:           absAVX2,
		square:        squareAVX2,
		relu:          reluAVX2,
		geluGrad:      geluGradAVX2,
		geluTanhGrad:  geluTanhGradAVX2,
		siluGrad:      siluGradAVX2,
		swiGLU:        swiGLUAVX2,
		swiGLUGrad:    swiGLUGradAVX2,
		add:           addAVX2,
		sub:           subAVX2,
		mul:           mulAVX2,
		div:           divAVX2,
		max:           maxAVX2,
		min:           minAVX2,
		mulAdd:        mulAddAVX2,
		addScalar:     addScalarAVX2,
		mulScalar:     mulScalarAVX2,
		axpy:          axpyAVX2,
		sum:           sumAVX2,
		sumSquares:    sumSquaresAVX2,
		maxOf:         maxOfAVX2,
		minOf:         minOfAVX2,
		sumSqDev:      sumSqDevAVX2,
		dot:           dotAVX2,
		addRows:       addRowsAVX2,
		softmaxRow:    softmaxRowAVX2,
		expSum:        expSumAVX2,
		expSumStore:   expSumStoreAVX2,
		expAffine:     expAffineAVX2,
		shift2:        shift2AVX2,
		softmaxGrad:   softmaxGradAVX2,
		norm:          normAVX2,
		normGamma:     normGammaAVX2,
		normAffine:    normAffineAVX2,
		normSums:      normSumsAVX2,
		normSumsAcc:   normSumsAccAVX2,
		normGrad:      normGradAVX2,
		normGradG:     normGradGAVX2,
		adamW:         adamWAVX2,
		philoxUniform: philoxUniformAVX2,
		philoxWords:   philoxWordsAVX2,
	}
}

// tableAVX512 returns the AVX-512 kernels.
func tableAVX512() table32 {
	return table32{
		exp:           expAVX512,
		log:           logAVX512,
		tanh:          tanhAVX512,
		erf:           erfAVX512,
		sigmoid:       sigmoidAVX512,
		silu:          siluAVX512,
		gelu:          geluAVX512,
		geluTanh:      geluTanhAVX512,
		expm1:         expm1AVX512,
		log1p:         log1pAVX512,
		softplus:      softplusAVX512,
		sqrt:          sqrtAVX512,
		rsqrt:         rsqrtAVX512,
		reciprocal:    reciprocalAVX512,
		neg:           negAVX512,
		abs:           absAVX512,
		square:        squareAVX512,
		relu:          reluAVX512,
		geluGrad:      geluGradAVX512,
		geluTanhGrad:  geluTanhGradAVX512,
		siluGrad:      siluGradAVX512,
		swiGLU:        swiGLUAVX512,
		swiGLUGrad:    swiGLUGradAVX512,
		add:           addAVX512,
		sub:           subAVX512,
		mul:           mulAVX512,
		div:           divAVX512,
		max:           maxAVX512,
		min:           minAVX512,
		mulAdd:        mulAddAVX512,
		addScalar:     addScalarAVX512,
		mulScalar:     mulScalarAVX512,
		axpy:          axpyAVX512,
		sum:           sumAVX512,
		sumSquares:    sumSquaresAVX512,
		maxOf:         maxOfAVX512,
		minOf:         minOfAVX512,
		sumSqDev:      sumSqDevAVX512,
		dot:           dotAVX512,
		addRows:       addRowsAVX512,
		softmaxRow:    softmaxRowAVX512,
		expSum:        expSumAVX512,
		expSumStore:   expSumStoreAVX512,
		expAffine:     expAffineAVX512,
		shift2:        shift2AVX512,
		softmaxGrad:   softmaxGradAVX512,
		norm:          normAVX512,
		normGamma:     normGammaAVX512,
		normAffine:    normAffineAVX512,
		normSums:      normSumsAVX512,
		normSumsAcc:   normSumsAccAVX512,
		normGrad:      normGradAVX512,
		normGradG:     normGradGAVX512,
		adamW:         adamWAVX512,
		philoxUniform: philoxUniformAVX512,
		philoxWords:   philoxWordsAVX512,
	}
}

// doublesAVX2 returns the AVX2 kernels of float64.
func doublesAVX2() table64 {
	return table64{exp: expF64AVX2, log: logF64AVX2, tanh: tanhF64AVX2, sigmoid: sigmoidF64AVX2,
		erf: erfF64AVX2, sin: sinF64AVX2, cos: cosF64AVX2, lanes: 4}
}

// doublesAVX512 returns the AVX-512 kernels of float64.
func doublesAVX512() table64 {
	return table64{exp: expF64AVX512, log: logF64AVX512, tanh: tanhF64AVX512, sigmoid: sigmoidF64AVX512,
		erf: erfF64AVX512, sin: sinF64AVX512, cos: cosF64AVX512, lanes: 8}
}
