package op

func layerOps() []Op {
	return []Op{
		adamw{},
		crossEntropy{},
		crossEntropyGrad{},
		groupedMatMul{},
		groupedMatMulGradW{},
		layerNorm{},
		layerNormGrad{},
		linear{},
		logSoftmax{},
		logSoftmaxGrad{},
		moeSort{},
		mseLoss{},
		rmsNorm{},
		rmsNormGrad{},
		sgd{},
		softmax{},
		softmaxGrad{},
		sumSquares{},
	}
}
