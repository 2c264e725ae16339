package plan

import "github.com/galley-ml/galley/strategy"

// layerActivations returns the bytes that one layer keeps of one micro-batch until its backward pass, by the
// published accounting: what tensor parallelism does not split (norms and their results, dropout masks) and
// what it splits.
func (e *Estimator) layerActivations(s *strategy.Strategy, moe bool) float64 {
	m, soft := &e.w.Model, &e.w.Software
	tokens := float64(s.MicroBatch*e.w.Seq) / float64(s.CP)
	t := float64(s.TP)
	h, half := float64(m.Hidden), e.bytes
	whole := 2 * half * h * m.norms() // inputs and results of norms
	if soft.Dropout {
		whole += 2 * h
	}
	split := half * float64(2*m.queryWidth()+2*m.kvWidth())
	if m.QKNorm > 0 {
		split += half * float64(m.queryWidth()+m.kvWidth())
	}
	if m.MLA() {
		l := &m.Latent
		whole += half * float64(l.QRank+l.KVRank+l.Rope)
		split = half * float64(m.Heads) * float64(3*(l.Nope+l.Rope)+l.V)
	}
	split += e.coreActivations(s)
	width, routed := float64(m.FFN), 0.0
	if moe {
		x := &m.Experts
		width = float64(x.Shared)
		routed = float64(x.TopK)*(e.mlpBytes()*float64(x.FFN)/float64(s.ETP)*float64(s.ETP)+2*half*h) +
			4*float64(x.Count)
	}
	split += e.mlpBytes() * width
	if s.Sequence {
		whole /= t
		routed /= t
		if soft.KeepGathered && t > 1 {
			whole += 2 * half * h
		}
	}
	return tokens * (whole + split/t + routed) * orOne(soft.Eager)
}

// mlpBytes returns the bytes that a feed-forward layer keeps for each of its columns and tokens.
func (e *Estimator) mlpBytes() float64 {
	if e.w.Model.Gated {
		return 3 * e.bytes // gate, up and their product
	}
	return 2 * e.bytes
}

// coreActivations returns the bytes that attention itself keeps per token.
func (e *Estimator) coreActivations(s *strategy.Strategy) float64 {
	m, soft := &e.w.Model, &e.w.Software
	a := float64(m.Heads)
	switch {
	case !soft.Unfused:
		return 4 * a // log-sum-exps
	case s.Recompute.Mode() == strategy.Selective:
		return 0
	case soft.Dropout:
		return 5 * a * float64(e.w.Seq) // softmax, mask, dropped-out result
	}
	return 2 * a * float64(e.w.Seq)
}

// inputActivations returns the bytes that a fully recomputed layer keeps.
func (e *Estimator) inputActivations(s *strategy.Strategy) float64 {
	b := e.bytes * float64(s.MicroBatch*e.w.Seq) / float64(s.CP) * float64(e.w.Model.Hidden)
	if s.Sequence {
		b /= float64(s.TP)
	}
	return b
}

// productActivations returns the bytes that a layer keeps if every other product is recomputed: its input,
// the results of attention and of the products of queries, values and the gate (or the first of two). An
// eager framework also keeps the last product's result, which nothing needs; a compiler drops it.
func (e *Estimator) productActivations(s *strategy.Strategy, moe bool) float64 {
	m := &e.w.Model
	input := e.inputActivations(s)
	if moe || m.MLA() { // the order of products is not known
		return input + (e.layerActivations(s, moe)-input)/2
	}
	tokens := float64(s.MicroBatch*e.w.Seq) / float64(s.CP)
	columns := e.bytes*float64(2*m.queryWidth()+m.kvWidth()+m.FFN) + 4*float64(m.Heads)
	if m.Gated && e.w.Software.Eager > 1 {
		input *= 2
	}
	return input + tokens*columns/float64(s.TP)
}

// again returns the bytes of the layer that is being recomputed.
func (e *Estimator) again(s *strategy.Strategy, moe bool) float64 {
	switch s.Recompute.Mode() {
	case strategy.Full:
		return e.layerActivations(s, moe)
	case strategy.Products:
		return max(0, e.layerActivations(s, moe)-e.productActivations(s, moe))
	}
	return 0
}

// passBytes returns the working memory of a layer's forward pass that keeps nothing: the larger one of
// attention and feed-forward layer.
func (e *Estimator) passBytes(s *strategy.Strategy, moe bool) float64 {
	m := &e.w.Model
	tokens, t := float64(s.MicroBatch*e.w.Seq)/float64(s.CP), float64(s.TP)
	attention := (e.bytes*float64(2*m.queryWidth()+2*m.kvWidth()) + e.coreActivations(s)) / t
	width := e.mlpBytes() * float64(m.FFN) / t
	if moe {
		x := &m.Experts
		width = e.mlpBytes() * (float64(x.Shared)/t + float64(x.FFN*x.TopK))
	}
	ends := 2 * e.bytes * float64(m.Hidden) // input and output, gathered for the products
	return min(tokens*(ends+max(attention, width)), e.layerActivations(s, moe))
}

// chunkActivations returns the bytes that a chunk keeps of one micro-batch.
func (e *Estimator) chunkActivations(s *strategy.Strategy, w *work) float64 {
	total := 0.0
	part := share(s.Recompute, w.layers/max(1, w.chunks))
	for _, moe := range [...]bool{false, true} {
		n := float64(w.layers - w.moe)
		if moe {
			n = float64(w.moe)
		}
		switch {
		case n == 0:
		case s.Recompute.Mode() == strategy.Products:
			total += n * e.productActivations(s, moe)
		default:
			total += n * ((1-part)*e.layerActivations(s, moe) + part*e.inputActivations(s))
		}
	}
	return total
}

// logits returns the bytes that the loss keeps: a 16-bit copy and its gradient; if it is not fused, float32
// copies as well.
func (e *Estimator) logits(s *strategy.Strategy, w *work) float64 {
	if !w.head {
		return 0
	}
	elements := float64(ceil(s.MicroBatch*e.w.Seq, s.CP)) * float64(e.w.Model.Vocab) / float64(s.TP)
	if e.w.Software.FullHead {
		elements *= float64(s.TP)
	}
	bytes := 2 * e.bytes
	if b := e.w.Software.LogitBytes; b > 0 {
		bytes = float64(b)
	}
	if s.Micros(e.w.Batch) > 1 {
		bytes += float64(e.w.Software.HeldLogits)
	}
	return elements * bytes
}
