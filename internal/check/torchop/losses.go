package torchop

import (
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

func losses() map[string]builder {
	return map[string]builder{
		"mse_loss": pairLoss(op.MSELoss), "l1_loss": pairLoss(op.L1Loss),
		"soft_margin_loss":                 pairLoss(op.SoftMarginLoss),
		"huber_loss":                       numberLoss(op.HuberLoss, "delta", 1),
		"smooth_l1_loss":                   numberLoss(op.SmoothL1Loss, "beta", 1),
		"hinge_embedding_loss":             numberLoss(op.HingeEmbeddingLoss, "margin", 1),
		"margin_ranking_loss":              tripleLoss(op.MarginRankingLoss),
		"cosine_embedding_loss":            tripleLoss(op.CosineEmbeddingLoss),
		"binary_cross_entropy":             binaryCrossEntropy,
		"binary_cross_entropy_with_logits": binaryCrossEntropyWithLogits,
		"kl_div":                           klDiv,
		"nll_loss":                         nllLoss,
		"cross_entropy":                    crossEntropy,
		"poisson_nll_loss":                 poisson,
		"gaussian_nll_loss":                gaussian,
		"triplet_margin_loss":              triplet,
		"multi_margin_loss":                multiMargin,
		"cosine_similarity": func(a *attrs) Func {
			dim, eps := a.dim(1), a.float("eps", 1e-8)
			return lift2(func(x, y *op.Tensor) *op.Tensor { return op.CosineSimilarity(x, y, dim, eps) })
		},
		"pairwise_distance": pairwiseDistance,
		"cdist": func(a *attrs) Func {
			p := a.float("p", 2)
			return lift2(func(x, y *op.Tensor) *op.Tensor {
				return op.Norm(op.Sub(op.Unsqueeze(x, -2), op.Unsqueeze(y, -3)), p, -1)
			})
		},
	}
}

func pairLoss(f func(x, y *op.Tensor, reduction string) *op.Tensor) builder {
	return func(a *attrs) Func {
		r := a.reduction()
		return lift2(func(x, y *op.Tensor) *op.Tensor { return f(x, y, r) })
	}
}

func numberLoss(f func(x, y *op.Tensor, c float64, reduction string) *op.Tensor, key string,
	otherwise float64) builder {
	return func(a *attrs) Func {
		c, r := a.float(key, otherwise), a.reduction()
		return lift2(func(x, y *op.Tensor) *op.Tensor { return f(x, y, c, r) })
	}
}

func tripleLoss(f func(x1, x2, y *op.Tensor, margin float64, reduction string) *op.Tensor) builder {
	return func(a *attrs) Func {
		margin, r := a.float("margin", 0), a.reduction()
		return lift3(func(x1, x2, y *op.Tensor) *op.Tensor { return f(x1, x2, y, margin, r) })
	}
}

// reduced reduces the losses of elements.
func reduced(losses *op.Tensor, reduction string) *op.Tensor {
	switch reduction {
	case "mean":
		return op.Mean(losses)
	case "sum":
		return op.Sum(losses)
	}
	return losses
}

// binaryCrossEntropy has optional weights of elements as its third operand.
func binaryCrossEntropy(a *attrs) Func {
	r := a.reduction()
	return liftSome(2, 3, func(in []*op.Tensor) *op.Tensor {
		if in[2] == nil {
			return op.BCELoss(in[0], in[1], r)
		}
		return reduced(op.Mul(op.BCELoss(in[0], in[1], "none"), in[2]), r)
	})
}

// binaryCrossEntropyWithLogits has optional weights of elements and of positive targets after its targets;
// with the attribute pos_weight a third operand is the latter.
func binaryCrossEntropyWithLogits(a *attrs) Func {
	r := a.reduction()
	only := a.bool("pos_weight", false)
	return liftSome(2, 4, func(in []*op.Tensor) *op.Tensor {
		weight, positive := in[2], in[3]
		if only && in[3] == nil {
			weight, positive = nil, in[2]
		}
		if weight == nil && positive == nil {
			return op.BCEWithLogitsLoss(in[0], in[1], r)
		}
		x, y := in[0], in[1]
		losses := op.BCEWithLogitsLoss(x, y, "none")
		if positive != nil {
			hit := op.Mul(y, op.Softplus(op.Neg(x)))
			losses = op.Add(losses, op.Mul(hit, op.AddScalar(positive, -1)))
		}
		if weight != nil {
			losses = op.Mul(losses, weight)
		}
		return reduced(losses, r)
	})
}

func klDiv(a *attrs) Func {
	r, logs := a.reduction("batchmean"), a.bool("log_target", false)
	return lift2(func(x, y *op.Tensor) *op.Tensor {
		if logs {
			return op.KLDivLogLoss(x, y, r)
		}
		return op.KLDivLoss(x, y, r)
	})
}

func (a *attrs) labels() op.CrossEntropyConfig {
	ignore := a.int("ignore_index", -100)
	return op.CrossEntropyConfig{Reduction: a.reduction(), IgnoreIndex: &ignore}
}

func nllLoss(a *attrs) Func {
	c := a.labels()
	return liftSome(2, 3, func(in []*op.Tensor) *op.Tensor {
		x, labels := classesLast(in[0], in[1]), in[1]
		if in[2] != nil {
			return op.WeightedNLLLoss(x, labels, in[2], c)
		}
		return op.NLLLoss(x, labels, c)
	})
}

// crossEntropy returns of labels, or of probabilities where targets are floats, and may have weights of
// classes as its third operand.
func crossEntropy(a *attrs) Func {
	c := a.labels()
	c.LabelSmoothing = a.float("label_smoothing", 0)
	return liftSome(2, 3, func(in []*op.Tensor) *op.Tensor {
		x, y, weights := in[0], in[1], in[2]
		if x.Err() != nil || y.Err() != nil {
			return op.CrossEntropy(x, y, c)
		}
		if y.DType().IsFloat() {
			return op.SoftCrossEntropy(secondLast(x), secondLast(y), weights, c)
		}
		x, y = classesLast(x, y), op.Cast(y, array.I32)
		if weights != nil {
			return op.WeightedCrossEntropy(x, y, weights, c)
		}
		return op.CrossEntropy(x, y, c)
	})
}

// classesLast returns x with its classes in the last dim: in PyTorch they are in the second. If labels match
// x unchanged, it is used so.
func classesLast(x, labels *op.Tensor) *op.Tensor {
	if x.Err() != nil || labels.Err() != nil {
		return x
	}
	rank := len(x.Shape())
	if rank < 3 || x.Shape()[:rank-1].Equal(labels.Shape()) {
		return x
	}
	return secondLast(x)
}

// secondLast returns x with its second dim moved to the end; for a vector or a matrix it is there already.
func secondLast(x *op.Tensor) *op.Tensor {
	if x.Err() != nil || len(x.Shape()) < 3 {
		return x
	}
	perm := []int{0}
	for d := 2; d < len(x.Shape()); d++ {
		perm = append(perm, d)
	}
	return op.Transpose(x, append(perm, 1)...)
}

func poisson(a *attrs) Func {
	logs, full, eps, r := a.bool("log_input", true), a.bool("full", false), a.float("eps", 1e-8), a.reduction()
	return lift2(func(x, y *op.Tensor) *op.Tensor { return op.PoissonNLLLoss(x, y, logs, full, eps, r) })
}

func gaussian(a *attrs) Func {
	full, eps, r := a.bool("full", false), a.float("eps", 1e-6), a.reduction()
	return lift3(func(x, y, v *op.Tensor) *op.Tensor { return op.GaussianNLLLoss(x, y, v, full, eps, r) })
}

func triplet(a *attrs) Func {
	c := op.TripletConfig{Margin: a.float("margin", 1), P: a.float("p", 2), Eps: a.float("eps", 1e-6),
		Swap: a.bool("swap", false)}
	r := a.reduction()
	return lift3(func(x, y, z *op.Tensor) *op.Tensor { return op.TripletMarginLoss(x, y, z, c, r) })
}

func multiMargin(a *attrs) Func {
	p, margin, r := a.int("p", 1), a.float("margin", 1), a.reduction()
	return liftSome(2, 3, func(in []*op.Tensor) *op.Tensor {
		return op.MultiMarginLoss(in[0], in[1], in[2], p, margin, r)
	})
}

func pairwiseDistance(a *attrs) Func {
	p, eps, keep := a.float("p", 2), a.float("eps", 1e-6), a.bool("keepdim", false)
	return lift2(func(x, y *op.Tensor) *op.Tensor {
		d := op.PairwiseDistance(x, y, p, eps)
		if keep {
			return op.Unsqueeze(d, -1)
		}
		return d
	})
}
