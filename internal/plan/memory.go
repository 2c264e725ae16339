package plan

import (
	"github.com/galley-ml/galley/internal/pipeline"
	"github.com/galley-ml/galley/strategy"
)

// stateBytes returns the bytes of a device for n parameters, sharded by ZeRO's stage over d data-parallel
// ranks.
func (e *Estimator) stateBytes(n, d float64, s *strategy.Strategy) Memory {
	grad := e.w.Software.gradBytes()
	weight, states := e.bytes, e.slotBytes()
	m := Memory{Weights: n * weight, Gradients: n * grad, Optimizer: n * states}
	switch {
	case s.Zero >= 3:
		m.Weights, m.Gradients, m.Optimizer = n*weight/d, n*grad/d, n*states/d
		if grad == 4 { // the float32 copy is the parameter, and a 16-bit copy of it is gathered
			m.Weights, m.Optimizer = n*4/d, n*8/d
		}
	case s.Zero == 2:
		m.Gradients, m.Optimizer = m.Gradients/d, m.Optimizer/d
		if s.PP > 1 { // micro-batches in flight keep gradients unsharded
			m.Gradients = n * grad
		}
	case s.Zero == 1:
		m.Optimizer /= d
	}
	m.Optimizer *= 1 - s.Offload.Optimizer
	return m
}

// inFlight returns the maximal number of micro-batches whose activations a rank holds, over all of its
// chunks.
func (e *Estimator) inFlight(s *strategy.Strategy, rank, micros int) (float64, error) {
	if s.PP == 1 {
		return 1, nil
	}
	class := s.Class()
	if n, ok := class.Held(pipeline.Config{Ranks: s.PP, Micros: micros, Chunks: s.VPP}, rank); ok {
		return n, nil
	}
	g, err := e.order(scheduleKey{class, s.PP, s.VPP, min(micros, 3*s.PP)})
	if err != nil {
		return 0, err
	}
	return float64(g.live[rank]) / float64(s.VPP), nil
}

// memory fills in the memory of every rank.
func (e *Estimator) memory(s *strategy.Strategy, t *stages, micros int, out *Estimate) error {
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
		out.Stages[i] = Stage{Layers: r.layers, Forward: r.forwardTime(), Backward: r.backwardTime(),
			Weight: r.weight,
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

// rankMemory returns the memory of a device of a rank that holds flight micro-batches at once.
func (e *Estimator) rankMemory(s *strategy.Strategy, r *rank, flight float64) Memory {
	shards := e.shards(s, s.DP*s.CP)
	m := e.stateBytes(r.params, shards, s)
	owned := r.params / shards
	if r.experts > 0 {
		shards := e.shards(s, e.expertAxis(s).Size)
		x := e.stateBytes(r.experts, shards, s)
		m.Weights, m.Gradients, m.Optimizer = m.Weights+x.Weights, m.Gradients+x.Gradients, m.Optimizer+x.Optimizer
		owned += r.experts / shards
	}
	m.Activations = flight * e.chunkActivations(s, &r.work) * (1 - s.Offload.Activations)
	m.Logits = e.logits(s, &r.work)
	again := e.again(s, r.moe > 0)
	idle, stuck := e.layerActivations(s, r.moe > 0), 0.0
	if again > 0 { // the working memory of the layers before the loss: logits do not fit any of its blocks
		idle, stuck = 0, min(e.passBytes(s, r.moe > 0), m.Logits)
	}
	m.Activations += again
	m.Logits = max(0, m.Logits-again) // the loss is done when layers are recomputed
	m.Buffers = e.buffers(s, &r.work, shards)
	m.Context = e.context()
	e.reserve(s, r, &m, idle, stuck, owned)
	return m
}
