package plan

import "github.com/galley-ml/galley/strategy"

// Memory of a device besides what is allocated: contextBytes for the driver and communicators within a host,
// networkBytes for the buffers of those between hosts, fragmentShare of the allocated memory for
// fragmentation. With the blocks of one layer at work, the share is the difference between reserved and
// allocated memory in SimuMax's 43 runs; networkBytes is what nvidia-smi shows for runs over several hosts
// only: 1.4 GB in BigScience's runs, 1.6 in InternEvo's.
const (
	contextBytes  = 1.5e9
	networkBytes  = 1.5e9
	fragmentShare = 0.025
)

// context returns the memory of the driver and the communication library.
func (e *Estimator) context() float64 {
	if g := &e.cluster.Groups[0]; e.cluster.Size() == g.Devices {
		return contextBytes
	}
	return contextBytes + networkBytes
}

// buffers returns the memory of parameters that ZeRO-3 gathers with their gradients, or of the gradients of
// one layer before they are added to those of earlier micro-batches in float32.
func (e *Estimator) buffers(s *strategy.Strategy, w *work, shards float64) float64 {
	soft := &e.w.Software
	p := e.w.Model.layer(w.moe > 0)
	unit := p.split/float64(s.TP) + p.whole
	switch {
	case s.Zero < 3 && soft.KeepGrads && soft.gradBytes() > e.bytes:
		return w.params * e.bytes
	case s.Zero < 3 && soft.gradBytes() > e.bytes:
		return unit * e.bytes
	case s.Zero < 3, shards <= 1: // nothing to gather
		return 0
	case s.PP > 1 && soft.StageGathered:
		return w.params * (e.bytes + soft.reduceBytes())
	}
	unit += p.expert / float64(s.EP*s.ETP)
	if !soft.RootUnit {
		return unit * (2*e.bytes + soft.reduceBytes())
	}
	return unit*(e.bytes+soft.reduceBytes()) + e.root(s, w)
}

// root returns the memory of the embedding and the head if they are one unit of ZeRO-3 that stays gathered
// during the step: the parameters, and the buffer that they were gathered in, which layers' parameters reuse.
// Their gradients exist when the logits are gone.
func (e *Estimator) root(s *strategy.Strategy, w *work) float64 {
	embedding, head, norm := e.w.Model.ends()
	unit := 0.0
	if w.embedding {
		unit += embedding
	}
	if w.head {
		unit += head + norm
	}
	return 2 * unit * e.bytes / float64(s.TP)
}

// reserve adds the memory of reducing gradients and updating owned parameters as far as it exceeds that of
// the passes before, and what the allocator keeps besides: fragments, and blocks that are not needed at the
// moment. Blocks of a layer that are not in use at the peak are idle, or stuck if its result, which is kept,
// is among them.
func (e *Estimator) reserve(s *strategy.Strategy, r *rank, m *Memory, idle, stuck, owned float64) {
	soft := &e.w.Software
	pieces, block := owned*float64(soft.UpdatePieces), owned*float64(soft.UpdateBlock)+min(soft.CommBuffer,
		r.params)*e.bytes
	working := m.Activations + m.Logits
	passes := working + m.Buffers
	used := max(passes, pieces, block, e.visiting(s, r))
	apart := block + float64(soft.NormBytes)*e.largest(s, &r.work)
	if e.logits(s, &r.work) > 2*apart { // each of its parts fits in a tensor of logits
		apart = 0
	}
	reserved := max(working, pieces) + m.Buffers + apart + idle
	m.Buffers += used - passes
	m.Slack = fragmentShare*m.Allocated() + stuck
	m.Cache = max(0, reserved-used)
}

// visiting returns the memory for optimizer state that is offloaded to the host and on the device at once:
// that of the tensor being updated, and of the next one. A layer's experts are two tensors of different size.
func (e *Estimator) visiting(s *strategy.Strategy, r *rank) float64 {
	if s.Offload.Optimizer == 0 {
		return 0
	}
	n := (e.largest(s, &r.work) + e.second(s, &r.work)) / e.shards(s, s.DP*s.CP)
	if r.experts > 0 {
		x, tensors := &e.w.Model.Experts, 2.0
		if e.w.Model.Gated {
			tensors = 3 // gate and up are one of them
		}
		banks := tensors * float64(x.Count) * float64(x.FFN) * float64(e.w.Model.Hidden) / float64(s.EP*s.ETP)
		n = max(n, banks/e.shards(s, e.expertAxis(s).Size))
	}
	return n * e.slotBytes() * s.Offload.Optimizer
}

// slotBytes returns the bytes that the optimizer keeps of a parameter: two moments, and a float32 copy unless
// that is the parameter itself.
func (e *Estimator) slotBytes() float64 {
	if e.bytes == 4 {
		return 8
	}
	return 12
}

// largest returns the number of elements of the largest parameter on a device.
func (e *Estimator) largest(s *strategy.Strategy, w *work) float64 {
	n := e.w.Model.widest()
	if w.embedding || w.head {
		n = max(n, e.w.Model.Vocab)
	}
	return float64(n) * float64(e.w.Model.Hidden) / float64(s.TP)
}

// second returns the number of elements of the second largest parameter: every layer has several of its
// widest, and a device may have an embedding and a head of its own.
func (e *Estimator) second(s *strategy.Strategy, w *work) float64 {
	n := e.w.Model.widest()
	if w.embedding && w.head && !e.w.Model.Tied {
		n = max(n, e.w.Model.Vocab)
	}
	return float64(n) * float64(e.w.Model.Hidden) / float64(s.TP)
}
