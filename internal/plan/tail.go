package plan

import (
	"math"

	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/strategy"
)

// tail adds the time after the last backward pass on the rank where it takes longest: reducing gradients,
// updating and gathering parameters.
func (e *Estimator) tail(s *strategy.Strategy, t *stages, out *Estimate) {
	worst := Parts{}
	for i := range t.ranks {
		if i > 0 && t.ranks[i] == t.ranks[i-1] { // most are equal
			continue
		}
		p := e.rankTail(s, &t.ranks[i])
		if p.Sum() > worst.Sum() {
			worst = p
		}
	}
	out.Parts.DP += worst.DP
	out.Parts.Optimizer += worst.Optimizer
	out.Parts.Offload += worst.Offload
}

func (e *Estimator) rankTail(s *strategy.Strategy, r *rank) Parts {
	var p Parts
	dense := cluster.Axis{Size: s.DP * s.CP, Stride: s.TP}
	p.DP = e.reduction(s, r, r.params, dense)
	if r.experts > 0 {
		p.DP += e.reduction(s, r, r.experts, e.expertAxis(s))
	}
	if e.w.Model.Tied && s.PP > 1 && r.embedding != r.head {
		// in the dtype of accumulation
		bytes := float64(e.w.Model.Vocab) * float64(e.w.Model.Hidden) / float64(s.TP) * e.w.Software.gradBytes()
		ends := cluster.Axis{Size: 2, Stride: (s.PP - 1) * s.TP * s.CP * s.DP}
		p.DP += e.collective(cluster.AllReduce, bytes, ends, e.ends(s))
	}
	own := r.params/e.shards(s, dense.Size) + r.experts/e.shards(s, e.expertAxis(s).Size)
	d := e.pricers[r.device]
	moved := updateBytes + updatePasses*e.w.Software.gradBytes()
	p.Optimizer = e.cal.Constants.compute() * own * (1 - s.Offload.Optimizer) * moved /
		(d.device.Bandwidth * d.curve.Stream)
	p.Offload = e.offload(s, r, own)
	return p
}

// ends returns the devices that hold the embedding and its copy.
func (e *Estimator) ends(s *strategy.Strategy) span {
	if e.cluster.Uniform() {
		return span{}
	}
	return span{0, s.Devices()}
}

// Memory traffic of an update per parameter: the float32 copy and both moments read and written, the 16-bit
// copy written; and the number of passes over the gradient: zeroed, two norms, scaled, read.
const (
	updateBytes  = 6*4 + 2
	updatePasses = 6
)

// offload returns the time that offloading adds: gradients are sent to the host and parameters back, or
// activations of a micro-batch are sent and returned, overlapped with its computation.
func (e *Estimator) offload(s *strategy.Strategy, r *rank, own float64) float64 {
	bus := e.cluster.Groups[r.device].Bus.Usual()
	if bus.Bandwidth == 0 {
		return 0
	}
	rate := bus.Bandwidth * bus.Efficiency
	t := own * s.Offload.Optimizer * (e.w.Software.gradBytes() + e.bytes) / rate
	if a := s.Offload.Activations; a > 0 {
		bytes := a * e.chunkActivations(s, &r.work)
		t += float64(s.Micros(e.w.Batch)) * exposed(2*bytes/rate, r.busy())
	}
	return t
}

// shards returns the number of ranks, of d, over which the optimizer's state is sharded.
func (e *Estimator) shards(s *strategy.Strategy, d int) float64 {
	if s.Zero == 0 {
		return 1
	}
	if s.Shard > 0 {
		return float64(min(d, s.Shard))
	}
	return float64(d)
}

// reduction returns the time that reducing the gradients of n parameters adds to a step. With ZeRO they are
// reduce-scattered and the parameters gathered; if it shards over fewer ranks than there are replicas, the
// shards are all-reduced between those groups.
func (e *Estimator) reduction(s *strategy.Strategy, r *rank, n float64, a cluster.Axis) float64 {
	if a.Size <= 1 || n == 0 {
		return 0
	}
	backward := r.input + r.weight + r.again
	wire := n * e.w.Software.reduceBytes()
	if s.Zero == 0 {
		return e.under(e.bucketed(cluster.AllReduce, wire, n, a, r.on), backward, r)
	}
	shard := a
	t := 0.0
	if s.Shard > 0 && s.Shard < a.Size {
		shard.Size = s.Shard
		across := cluster.Axis{Size: a.Size / s.Shard, Stride: a.Stride * s.Shard}
		k := float64(s.Shard)
		t = e.under(e.bucketed(cluster.AllReduce, wire/k, n/k, across, r.on), backward, r)
	}
	if s.Zero >= 3 {
		return t // the rest is done layer by layer
	}
	t += e.under(e.bucketed(cluster.ReduceScatter, wire, n, shard, r.on), backward, r)
	return t + e.under(e.bucketed(cluster.AllGather, n*e.bytes, n, shard, r.on), r.forward, r)
}

// bucketed returns the time of a collective over n elements that is split into buckets.
func (e *Estimator) bucketed(kind cluster.Kind, bytes, n float64, a cluster.Axis, on span) float64 {
	size := e.w.Software.bucket(a.Size)
	if kind == cluster.AllGather {
		size = e.w.Software.gatherBucket(a.Size)
	}
	pieces := math.Ceil(n / size)
	return pieces * e.collective(kind, bytes/pieces, a, on)
}

// under returns the exposed part of communication that overlaps with the computation of one micro-batch; that
// of the last layer cannot be hidden.
func (e *Estimator) under(comm, compute float64, r *rank) float64 {
	if e.w.Software.Sync {
		return comm
	}
	return max(comm/float64(max(1, r.layers)), exposed(comm, compute))
}
