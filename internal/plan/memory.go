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
	case s.Zero >= 3:
		m.Weights, m.Gradients, m.Optimizer = n*weight/d, n*grad/d, n*states/d
		if grad == 4 { // the float32 copy is the parameter, and what is gathered is a short copy of it
			m.Weights, m.Optimizer = n*4/d, n*8/d
		}
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

// inFlight is how many micro-batches' activations of all of its chunks a rank holds at most.
func (e *Estimator) inFlight(s *Strategy, rank, micros int) (float64, error) {
	p, v, m := float64(s.PP), float64(s.VPP), float64(micros)
	i := float64(rank)
	switch {
	case s.PP == 1:
		return 1, nil
	case s.schedule() == "fthenb":
		return m, nil
	case s.schedule() == "1f1b":
		return min(m, p-i), nil
	case s.schedule() == "interleaved": // warm-up chunks and the one at work
		return min(m, (2*(p-i-1)+(v-1)*p+1)/v), nil
	}
	g, err := e.order(scheduleKey{s.schedule(), s.PP, s.VPP, min(micros, 3*s.PP)})
	if err != nil {
		return 0, err
	}
	return float64(g.live[rank]) / v, nil
}

// memory fills in what every rank needs.
func (e *Estimator) memory(s *Strategy, t *stages, micros int, out *Estimate) error {
	out.Stages = make([]Stage, len(t.ranks))
	for i := range t.ranks {
		r := &t.ranks[i]
		flight, err := e.inFlight(s, i, micros)
		if err != nil {
			return err
		}
		var m Memory
		if i > 0 && t.ranks[i] == t.ranks[i-1] && out.Stages[i-1].InFlight == flight {
			m = out.Stages[i-1].Memory
		} else {
			m = e.rankMemory(s, r, flight)
		}
		dev := &e.cluster.Groups[r.device].Device
		out.Stages[i] = Stage{Layers: r.layers, Forward: r.forwardTime(), Backward: r.backwardTime(), Weight: r.weight,
			Memory: m, Limit: dev.Memory, InFlight: flight}
		if m.Total() > dev.Memory {
			out.Fits = false
		}
		if m.Total() > out.Memory.Total() {
			out.Memory = m
		}
	}
	return nil
}

// rankMemory is what a device of a rank needs that holds flight micro-batches at once.
func (e *Estimator) rankMemory(s *Strategy, r *rank, flight float64) Memory {
	m := e.stateBytes(r.params, e.shards(s, s.DP*s.CP), s)
	if r.experts > 0 {
		x := e.stateBytes(r.experts, e.shards(s, e.expertAxis(s).Size), s)
		m.Weights, m.Gradients, m.Optimizer = m.Weights+x.Weights, m.Gradients+x.Gradients, m.Optimizer+x.Optimizer
	}
	m.Activations = flight * e.chunkActivations(s, &r.work) * (1 - s.Offload.Activations)
	m.Logits = e.logits(s, &r.work)
	if s.Recompute.Mode == Full { // the layer at work; the loss is done by then
		again := e.layerActivations(s, r.moe > 0)
		m.Activations += again
		m.Logits = max(0, m.Logits-again)
	}
	m.Buffers = e.buffers(s, &r.work) + min(e.w.Software.CommBuffer, r.params)*e.bytes
	m.Context = contextBytes
	m.Slack = slackShare * m.Allocated()
	return m
}

// contextBytes is what the driver and the communication library take, slackShare what an allocator loses: the median of 43 measured
// runs is 4%.
const (
	contextBytes = 1.5e9
	slackShare   = 0.04
)

// chunkActivations is what a chunk keeps of one micro-batch.
func (e *Estimator) chunkActivations(s *Strategy, w *work) float64 {
	total := 0.0
	share := s.Recompute.share(w.layers / max(1, w.chunks))
	for _, moe := range [...]bool{false, true} {
		n := float64(w.layers - w.moe)
		if moe {
			n = float64(w.moe)
		}
		if n > 0 {
			total += n * ((1-share)*e.layerActivations(s, moe) + share*e.inputActivations(s))
		}
	}
	return total
}

// logits is what the loss keeps: a 16-bit copy and its gradient; where it is not fused, float32 copies besides.
func (e *Estimator) logits(s *Strategy, w *work) float64 {
	if !w.head {
		return 0
	}
	elements := float64(ceil(s.Micro*e.w.Seq, s.CP)) * float64(e.w.Model.Vocab) / float64(s.TP)
	if e.w.Software.FullHead {
		elements *= float64(s.TP)
	}
	if b := e.w.Software.LogitBytes; b > 0 {
		return elements * float64(b)
	}
	return elements * 2 * e.bytes
}

// buffers are gathered parameters of ZeRO-3 with their gradients, or gradients of one layer before they are added to those of
// earlier micro-batches in float32.
func (e *Estimator) buffers(s *Strategy, w *work) float64 {
	p := e.w.Model.layer(w.moe > 0)
	unit := p.split/float64(s.TP) + p.whole
	if s.Zero < 3 {
		if e.w.Software.gradBytes() > e.bytes {
			return unit * e.bytes
		}
		return 0
	}
	unit += p.expert / float64(s.EP*s.ETP)
	return unit * (2*e.bytes + e.w.Software.reduceBytes())
}
