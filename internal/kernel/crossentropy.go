package kernel

// CrossEntropyRow returns the loss of one row of logits against a class label,
// with p = softmax(logits) and n classes:
//
//	loss = -(1-smoothing)*log p[label] - smoothing/n * sum of log p[i]
//
// and lse, the log-sum-exp of the row, which CrossEntropyGradRow needs. A
// negative label marks a row to be ignored: its loss is zero.
func CrossEntropyRow[T Float](logits []T, label int, smoothing T) (loss, lse T) {
	m, logSum := logSumExp(logits)
	lse = T(float64(m) + logSum)
	if label < 0 {
		return 0, lse
	}
	// max-x[label] is exact or nearly so, while lse-x[label] has lost bits.
	l := float64(m-logits[label]) + logSum
	if smoothing != 0 {
		mean := float64(Sum(logits)) / float64(len(logits))
		l += float64(smoothing) * (float64(logits[label]) - mean)
	}
	return T(l), lse
}

// CrossEntropyGradRow sets the gradient of scale*loss for the row:
//
//	dlogits[i] = scale*(exp(logits[i]-lse) - smoothing/n - (1-smoothing)*[i==label])
//
// dlogits may be logits. A negative label gives a zero row.
func CrossEntropyGradRow[T Float](dlogits, logits []T, label int, lse, scale, smoothing T) {
	CrossEntropyGradPart(dlogits, logits, label, len(dlogits), lse, scale, smoothing)
}

// CrossEntropyGradPart is like CrossEntropyGradRow for a part of the row's n classes.
// A label of len(dlogits) or more is in another part.
func CrossEntropyGradPart[T Float](dlogits, logits []T, label, n int, lse, scale, smoothing T) {
	logits = logits[:len(dlogits)]
	if label < 0 {
		clear(dlogits)
		return
	}
	// The element of the label is computed first, since dlogits may be logits,
	// and in one expression, since its two large terms nearly cancel.
	uniform, atLabel, here := smoothing/T(n), T(0), label < len(dlogits)
	if here {
		atLabel = scale * ((expm1Of(logits[label]-lse) + smoothing) - uniform)
	}
	expAffine(dlogits, logits, lse, scale, -scale*uniform)
	if here {
		dlogits[label] = atLabel
	}
}

// expAffine sets dst[i] = scale*exp(x[i]-shift)+bias.
func expAffine[T Float](dst, x []T, shift, scale, bias T) {
	if f := simd.expAffine; f != nil {
		if d := as32(dst); d != nil {
			f(d, as32(x), float32(shift), float32(scale), float32(bias))
			return
		}
	}
	for i := range dst {
		dst[i] = scale*expOf(x[i]-shift) + bias
	}
}
