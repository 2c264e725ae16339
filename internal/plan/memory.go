package plan

// stateBytes are the bytes of a device for n parameters over which data parallelism of degree d shards by ZeRO's stage.
func (e *Estimator) stateBytes(n, d float64, s *Strategy) Memory {
	grad := e.w.Software.gradBytes()
	weight, states := e.bytes, 12.0 // the optimizer's: a float32 copy and two moments
	if e.bytes == 4 {
		states = 8 // the parameters are the float32 copy
	}
	m := Memory{Weights: n * weight, Gradients: n * grad, Optimizer: n * states}
	switch {
	case s.Zero >= 3: // the float32 copy is the parameter
		m.Weights, m.Gradients, m.Optimizer = n*4/d, n*grad/d, n*8/d
	case s.Zero == 2:
		m.Gradients, m.Optimizer = m.Gradients/d, m.Optimizer/d
		if s.PP > 1 { // micro-batches in flight keep gradients whole
			m.Gradients = n * grad
		}
	case s.Zero == 1:
		m.Optimizer /= d
	}
	m.Optimizer *= 1 - s.Offload.Optimizer
	return m
}

// layerActivations is the bytes that one layer keeps of one micro-batch until its backward pass, by the published accounting: what
// tensor parallelism leaves whole (norms and their results, masks of dropout) and what it splits.
func (e *Estimator) layerActivations(s *Strategy, moe bool) float64 {
	m, soft := &e.w.Model, &e.w.Software
	tokens := float64(s.Micro*e.w.Seq) / float64(s.CP)
	t := float64(s.TP)
	h, half := float64(m.Hidden), e.bytes
	whole := 4 * half * h // two norms' inputs and results
	if soft.Dropout {
		whole += 2 * h
	}
	split := half * float64(2*m.queryWidth()+2*m.kvWidth())
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
		routed = float64(x.TopK)*(e.mlpBytes()*float64(x.FFN)/float64(s.ETP)*float64(s.ETP)+2*half*h) + 4*float64(x.Count)
	}
	split += e.mlpBytes() * width
	if s.SP {
		whole /= t
		routed /= t
	}
	return tokens * (whole + split/t + routed) * orOne(soft.Eager)
}

// mlpBytes is what a feed-forward layer keeps for each of its columns and tokens.
func (e *Estimator) mlpBytes() float64 {
	if e.w.Model.Gated {
		return 3 * e.bytes // gate, up and their product
	}
	return 2 * e.bytes
}

// coreActivations is the bytes that attention itself keeps for a token.
func (e *Estimator) coreActivations(s *Strategy) float64 {
	m, soft := &e.w.Model, &e.w.Software
	a := float64(m.Heads)
	switch {
	case !soft.Unfused:
		return 4 * a // the logarithms of the sums
	case s.Recompute.Mode == Selective:
		return 0
	case soft.Dropout:
		return 5 * a * float64(e.w.Seq) // softmax, mask, what is left
	}
	return 2 * a * float64(e.w.Seq)
}

// inputActivations is the bytes that a layer keeps which is recomputed as a whole.
func (e *Estimator) inputActivations(s *Strategy) float64 {
	b := e.bytes * float64(s.Micro*e.w.Seq) / float64(s.CP) * float64(e.w.Model.Hidden)
	if s.SP {
		b /= float64(s.TP)
	}
	return b
}

// inFlight is how many micro-batches' activations of all of its chunks stage i holds at most.
func inFlight(s *Strategy, stage, micros int) float64 {
	p, v, m := float64(s.PP), float64(s.VPP), float64(micros)
	i := float64(stage)
	switch {
	case s.PP == 1:
		return 1
	case s.Schedule == "gpipe":
		return m
	case s.VPP > 1: // warm-up chunks and the one at work
		return min(m, (2*(p-i-1)+(v-1)*p+1)/v)
	case s.Schedule == "zbh2":
		return min(m, 2*p-1-i)
	case s.Schedule == "zbh1", s.Schedule == "zbv", s.Schedule == "dualpipe", s.Schedule == "dualpipev":
		return min(m, p)
	}
	return min(m, p-i)
}
