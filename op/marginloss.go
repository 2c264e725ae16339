package op

// MarginRankingLoss returns max(0, margin − y·(x1 − x2)), with y of 1 or -1. Reduction is "mean" (the default
// if empty), "sum" or "none".
func MarginRankingLoss(x1, x2, y *Tensor, margin float64, reduction string) *Tensor {
	gap := Mul(Neg(wide(y)), Sub(wide(x1), wide(x2)))
	return reduceLoss("margin_ranking_loss", hinge(gap, margin), reduction)
}

// hinge returns max(0, gap + margin).
func hinge(gap *Tensor, margin float64) *Tensor {
	if gap.Err() != nil {
		return gap
	}
	return ReLU(AddScalar(gap, margin))
}

// HingeEmbeddingLoss returns x where y is 1, and max(0, margin − x) where y is -1.
func HingeEmbeddingLoss(x, y *Tensor, margin float64, reduction string) *Tensor {
	x = wide(x)
	if x.Err() != nil {
		return x
	}
	zero := Const(x, 0)
	near := Where(NotEqual(y, Const(y, -1)), x, zero)
	far := Where(NotEqual(y, Const(y, 1)), hinge(Neg(x), margin), zero)
	return reduceLoss("hinge_embedding_loss", Add(near, far), reduction)
}

// SoftMarginLoss returns log(1 + e^(-y·x)).
func SoftMarginLoss(x, y *Tensor, reduction string) *Tensor {
	return reduceLoss("soft_margin_loss", Softplus(Neg(Mul(wide(y), wide(x)))), reduction)
}

// CosineEmbeddingLoss returns 1 − cos(x1, x2), over the last dim, where y is 1, and max(0, cos(x1, x2) −
// margin) where y is -1.
func CosineEmbeddingLoss(x1, x2, y *Tensor, margin float64, reduction string) *Tensor {
	x1, x2 = wide(x1), wide(x2)
	dot, tiny := Sum(Mul(x1, x2), -1), 1e-12
	if dot.Err() != nil {
		return dot
	}
	length := func(x *Tensor) *Tensor { return AddScalar(Sum(Square(x), -1), tiny) }
	cosine := Div(dot, Sqrt(Mul(length(x1), length(x2))))
	zero := Const(cosine, 0)
	near := Where(Equal(y, Const(y, 1)), Sub(Const(cosine, 1), cosine), zero)
	far := Where(Equal(y, Const(y, -1)), hinge(cosine, -margin), zero)
	return reduceLoss("cosine_embedding_loss", Add(near, far), reduction)
}

// TripletConfig holds the margin of TripletMarginLoss, the order of its norm, the number that is added to
// differences, and whether to use the smaller of the negative's two distances.
type TripletConfig struct {
	Margin, P, Eps float64
	Swap           bool
}

// TripletMarginLoss returns max(0, d(anchor, positive) − d(anchor, negative) + margin), where d is a norm
// over the last dim. With Swap, the negative's distance from the positive is used if it is smaller.
func TripletMarginLoss(anchor, positive, negative *Tensor, c TripletConfig, reduction string) *Tensor {
	near := PairwiseDistance(wide(anchor), wide(positive), c.P, c.Eps)
	far := PairwiseDistance(wide(anchor), wide(negative), c.P, c.Eps)
	if c.Swap {
		far = Minimum(far, PairwiseDistance(wide(positive), wide(negative), c.P, c.Eps))
	}
	return reduceLoss("triplet_margin_loss", hinge(Sub(near, far), c.Margin), reduction)
}

// MultiMarginLoss returns the sum over the other classes of max(0, margin − x[label] + x[class])^p, divided
// by the number of classes, with p of 1 or 2. weights, one for each class, may be nil.
func MultiMarginLoss(x, labels, weights *Tensor, p int, margin float64, reduction string) *Tensor {
	switch {
	case x.Err() != nil:
		return x
	case labels.Err() != nil:
		return labels
	case p != 1 && p != 2:
		return refuse(x, "multi_margin_loss", "p is %d: want 1 or 2", p)
	}
	if err := inferLabels([]Type{x.Type(), labels.Type()}, 2); err != nil {
		return refuse(x, "multi_margin_loss", "%w", err)
	}
	x = wide(x)
	hot := OneHot(labels, x.Dim(-1))
	own := Equal(hot, Const(hot, 1))
	right := Unsqueeze(Sum(Where(own, x, Const(x, 0)), -1), -1)
	terms := hinge(Sub(x, right), margin)
	if p == 2 {
		terms = Square(terms)
	}
	if weights != nil {
		w := wide(weights)
		terms = Mul(terms, Unsqueeze(Sum(Where(own, w, Const(w, 0)), -1), -1))
	}
	losses := MulScalar(Sum(Where(own, Const(x, 0), terms), -1), 1/float64(x.Dim(-1)))
	return reduceLoss("multi_margin_loss", losses, reduction)
}
