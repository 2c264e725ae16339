package plan

import (
	"math"

	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/strategy"
)

// work is the work of a chunk of layers, or of all chunks of a pipeline rank, for one micro-batch.
type work struct {
	chunks                 int
	layers, moe            int
	forward, input, weight float64 // computation
	again                  float64 // recomputation
	tp, cp, ep             float64 // communication, forward and backward together
	tpAgain                float64
	fixed                  float64 // between kernels
	gather                 float64 // exposed gathers and scatters of ZeRO-3
	sends                  float64 // exposed messages between stages, both ways
	params, experts        float64 // on one device
	embedding, head        bool
}

func (w *work) add(v *work) {
	w.chunks, w.layers, w.moe = w.chunks+v.chunks, w.layers+v.layers, w.moe+v.moe
	w.forward, w.input, w.weight, w.again = w.forward+v.forward, w.input+v.input, w.weight+v.weight,
		w.again+v.again
	w.tp, w.cp, w.ep, w.tpAgain = w.tp+v.tp, w.cp+v.cp, w.ep+v.ep, w.tpAgain+v.tpAgain
	w.gather, w.sends, w.fixed = w.gather+v.gather, w.sends+v.sends, w.fixed+v.fixed
	w.params, w.experts = w.params+v.params, w.experts+v.experts
	w.embedding, w.head = w.embedding || v.embedding, w.head || v.head
}

// forwardTime and backwardTime return how long a rank is busy with one micro-batch.
func (w *work) forwardTime() float64 {
	return w.forward + (w.tp+w.cp+w.ep)/2 + w.gather/3 + w.sends/2 + w.fixed/3
}

func (w *work) backwardTime() float64 {
	return w.input + w.weight + w.again + w.tpAgain + (w.tp+w.cp+w.ep)/2 + w.gather*2/3 + w.sends/2 + w.fixed*2/3
}

func (w *work) busy() float64 { return w.forwardTime() + w.backwardTime() }

// rank is a pipeline rank: its chunks together, and the host group that its devices belong to.
type rank struct {
	work
	device int
	on     span
}

// stages holds the work of every chunk, in the order in which a micro-batch passes them, and of every rank.
type stages struct {
	chunks []work
	ranks  []rank
	// sends is the time of a message from each rank to the next; that of the last one goes to the first.
	sends []float64
}

// split divides the model into chunks and prices them.
func (e *Estimator) split(s *strategy.Strategy) (*stages, error) {
	layers := e.chunks(s)
	t := &stages{chunks: make([]work, len(layers)), ranks: make([]rank, s.PP)}
	for i := range t.ranks {
		t.ranks[i].device, t.ranks[i].on = e.slowest(s, i), e.spanOf(s, i)
	}
	e.sends(s, t)
	first, dense := 0, e.w.Model.denseLayers()
	for c, n := range layers {
		w := &t.chunks[c]
		r := &t.ranks[rankOf(s, c)]
		w.chunks, w.layers = 1, n
		w.moe = n - max(0, min(n, dense-first))
		w.embedding, w.head = c == 0, c == len(layers)-1
		first += n
		if like := t.alike(s, c); like != nil {
			*w = *like
			w.sends = 0
		} else if err := e.load(s, w, r); err != nil {
			return nil, err
		}
		if e.w.Software.SyncSend && s.PP > 1 {
			at := rankOf(s, c)
			w.sends = t.sends[at]*float64(index(!w.head)) + t.sends[(at+s.PP-1)%s.PP]*float64(index(!w.embedding))
		}
		r.add(w)
	}
	return t, nil
}

// alike returns the previous chunk if it has the same layers on devices of the same kind, as most have.
func (t *stages) alike(s *strategy.Strategy, c int) *work {
	if c < 2 {
		return nil
	}
	a, b := &t.chunks[c-1], &t.chunks[c]
	x, y := &t.ranks[rankOf(s, c-1)], &t.ranks[rankOf(s, c)]
	if a.layers != b.layers || a.moe != b.moe || b.head || x.device != y.device || x.on != y.on {
		return nil
	}
	return a
}

func index(b bool) int {
	if b {
		return 1
	}
	return 0
}

// rankOf returns the pipeline rank that holds a chunk.
func rankOf(s *strategy.Strategy, chunk int) int { return s.Class().Rank(chunk, s.PP) }

// slowest returns the host group with the slowest device of a pipeline rank.
func (e *Estimator) slowest(s *strategy.Strategy, stage int) int {
	if len(e.pricers) == 1 {
		return 0
	}
	per := s.TP * s.CP * s.DP
	first, last := e.cluster.At(stage*per).Group, e.cluster.At((stage+1)*per-1).Group
	worst := first
	for g := first; g <= last; g++ {
		if e.pricers[g].peak*e.pricers[g].ceiling < e.pricers[worst].peak*e.pricers[worst].ceiling {
			worst = g
		}
	}
	return worst
}

// load adds up a chunk's layers, embedding and head.
func (e *Estimator) load(s *strategy.Strategy, w *work, r *rank) error {
	key := layerKey{tp: s.TP, cp: s.CP, ep: s.EP, etp: s.ETP, micro: s.MicroBatch, sp: s.Sequence,
		cpKind: s.Context,
		device: r.device, on: r.on, pairs: s.PP > 1 && s.Class().Pairs}
	for _, moe := range [...]bool{false, true} {
		n := w.layers - w.moe
		if moe {
			n = w.moe
		}
		if n == 0 {
			continue
		}
		key.moe = moe
		c, err := e.layer(key)
		if err != nil {
			return err
		}
		e.addLayers(s, w, c, float64(n))
		p := e.w.Model.layer(moe)
		dense := p.split/float64(s.TP) + p.whole
		expert := p.expert / float64(s.EP*s.ETP)
		w.params += float64(n) * dense
		w.experts += float64(n) * expert
		if s.Zero >= 3 {
			e.addGathers(s, w, c, float64(n), dense, expert, r.on)
		}
	}
	if err := e.addEnds(s, w, r.device); err != nil {
		return err
	}
	w.weight += e.sums(s, w, r.device)
	w.fixed = max(w.fixed, e.issue(s, w)-w.busy()+w.fixed)
	return nil
}

// sums returns the time of adding a micro-batch's gradients to those before it, on average: there are none
// before the first. Both are read and the sum is written.
func (e *Estimator) sums(s *strategy.Strategy, w *work, device int) float64 {
	if !e.w.Software.SumGrads {
		return 0
	}
	d, micros := e.pricers[device], float64(s.Micros(e.w.Batch))
	bytes := 3 * e.w.Software.gradBytes() * (w.params + w.experts)
	return e.cal.Constants.compute() * (micros - 1) / micros * bytes / (d.device.Bandwidth * d.curve.Stream)
}

// issue returns the time that the host takes to launch a chunk's ops for one micro-batch: three passes of a
// layer, or four if it is recomputed. The embedding with what precedes it, and the head with the loss, each
// have about half as many ops as a layer.
func (e *Estimator) issue(s *strategy.Strategy, w *work) float64 {
	layers := float64(w.layers) * (3 + share(s.Recompute, w.layers))
	return (layers + 1.5*float64(index(w.embedding)+index(w.head))) * e.w.Software.Issue
}

func (e *Estimator) addLayers(s *strategy.Strategy, w *work, c *layerCost, n float64) {
	k := e.cal.Constants.compute()
	w.forward += n * c.compute.forward * k
	w.input += n * c.compute.input * k
	w.weight += n * c.compute.weight * k
	w.fixed += n * e.cal.Constants.Layer
	w.tp += n * (c.tpForward + c.tpBackward)
	w.cp += n * (c.cpForward + c.cpBackward)
	w.ep += n * (c.epForward + c.epBackward)
	switch s.Recompute.Mode() {
	case strategy.Full, strategy.Products:
		part := share(s.Recompute, w.layers)
		w.again += n * part * c.compute.forward * k
		w.tpAgain += n * part * c.tpAgain
		w.ep += n * part * c.epForward
		w.cp += n * part * c.cpForward
	case strategy.Selective:
		if e.w.Software.Unfused { // fused attention always does so
			w.again += n * c.core * k
		}
	}
}

// share returns the fraction of the forward pass of a chunk's layers that is recomputed.
func share(r strategy.Recompute, layers int) float64 {
	switch r.Mode() {
	case strategy.Full:
	case strategy.Products:
		return 0.5
	default:
		return 0
	}
	n := r.Layers()
	if n < 0 || layers == 0 {
		return 1
	}
	return min(1, float64(n)/float64(layers))
}

// addGathers adds the exposed communication of ZeRO-3: parameters gathered twice and gradients scattered once
// for every layer and micro-batch, each overlapped with the computation of the layer before.
func (e *Estimator) addGathers(s *strategy.Strategy, w *work, c *layerCost, n, dense, expert float64,
	on span) {
	a := e.shardAxis(s)
	pieces := 1.0 // a layer at once, unless tensors go one by one
	if b := e.w.Software.Bucket; b > 0 {
		pieces = math.Ceil(dense / b)
	}
	gather := pieces * e.collective(cluster.AllGather, dense*e.bytes/pieces, a, on)
	scatter := pieces * e.collective(cluster.ReduceScatter, dense*e.w.Software.reduceBytes()/pieces, a, on)
	if expert > 0 {
		a := e.expertAxis(s)
		gather += e.collective(cluster.AllGather, expert*e.bytes, a, on)
		scatter += e.collective(cluster.ReduceScatter, expert*e.w.Software.reduceBytes(), a, on)
	}
	if e.w.Software.Sync {
		w.gather += n * (2*gather + scatter)
		return
	}
	c1 := e.cal.Constants.compute()
	again := share(s.Recompute, w.layers) * c.compute.forward
	w.gather += n * (exposed(gather, c1*c.compute.forward) +
		exposed(gather+scatter, c1*(c.compute.input+c.compute.weight+again)))
}

// shardAxis returns the ranks that ZeRO shards over.
func (e *Estimator) shardAxis(s *strategy.Strategy) cluster.Axis {
	size := s.DP * s.CP
	if s.Shard > 0 {
		size = s.Shard
	}
	return cluster.Axis{Size: size, Stride: s.TP}
}

// expertAxis returns the data-parallel ranks of experts.
func (e *Estimator) expertAxis(s *strategy.Strategy) cluster.Axis {
	inner := s.EP * s.ETP
	return cluster.Axis{Size: max(1, s.DP*s.CP*s.TP/inner), Stride: inner}
}

// addEnds adds the embedding to the first chunk and the head to the last.
func (e *Estimator) addEnds(s *strategy.Strategy, w *work, device int) error {
	rows := ceil(s.MicroBatch*e.w.Seq, s.CP)
	embedding, head, norm := e.w.Model.ends()
	k := e.cal.Constants.compute()
	if w.embedding {
		p, err := e.piece(device, pieceKey{kind: embeddingPiece, tokens: rows, tp: s.TP})
		if err != nil {
			return err
		}
		w.forward, w.weight = w.forward+p.forward*k, w.weight+p.weight*k
		w.params += embedding / float64(s.TP)
	}
	if !w.head {
		return nil
	}
	tp := s.TP
	if e.w.Software.FullHead {
		tp = 1
	}
	p, err := e.piece(device, pieceKey{kind: headPiece, tokens: rows, tp: tp})
	if err != nil {
		return err
	}
	w.forward, w.input, w.weight = w.forward+p.forward*k, w.input+p.input*k, w.weight+p.weight*k
	w.params += norm
	if !e.w.Model.Tied || s.PP > 1 { // a tied head on another rank is a copy
		w.params += max(head, float64(e.w.Model.Vocab)*float64(e.w.Model.Hidden)) / float64(s.TP)
	}
	return nil
}

// sends prices a message from each rank to the next: every member of a tensor-parallel group sends its part.
func (e *Estimator) sends(s *strategy.Strategy, t *stages) {
	if s.PP == 1 {
		return
	}
	bytes := e.bytes * float64(ceil(s.MicroBatch*e.w.Seq, s.CP)) * float64(e.w.Model.Hidden) / float64(s.TP)
	per := s.TP * s.CP * s.DP
	t.sends = make([]float64, s.PP)
	for i := range t.sends {
		if i > 0 && e.cluster.Uniform() {
			t.sends[i] = t.sends[0]
			continue
		}
		from, to := i*per, (i+1)%s.PP*per
		a := cluster.Axis{Size: 2, Stride: per}
		if to < from { // from the last to the first
			from, to = to, from
			a.Stride = to - from
		}
		on := span{}
		if !e.cluster.Uniform() {
			on = span{from, to + per}
		}
		t.sends[i] = e.collective(cluster.SendRecv, bytes, a, on)
	}
}
