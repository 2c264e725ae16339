package plan

import (
	"github.com/galley-ml/galley/internal/cluster"
)

// rank is what one pipeline rank does with one micro-batch, all its chunks together.
type rank struct {
	device                    int
	layers, moe               int
	forward, input, weight    float64 // computation
	again                     float64 // recomputation
	tp, cp, ep                float64 // forward and backward
	tpAgain                   float64
	gather                    float64 // what ZeRO-3 shows of its gathers and scatters
	params, experts           float64 // on one device
	embedding, head           bool
	sendForward, sendBackward float64
}

func (r *rank) busy() float64 { return r.forwardTime() + r.backwardTime() }

// Estimate prices a strategy.
func (e *Estimator) Estimate(s Strategy) (Estimate, error) {
	s = s.normal()
	if err := e.Check(s); err != nil {
		return Estimate{}, err
	}
	ranks, err := e.ranks(&s)
	if err != nil {
		return Estimate{}, err
	}
	micros := s.Micros(e.w.Batch)
	out := Estimate{Level: e.cal.Level, Fits: true}
	e.flow(&s, ranks, micros, &out)
	e.tail(&s, ranks, &out)
	out.Step = out.Parts.Sum()
	spread := e.cal.spread()
	out.Low, out.High = out.Step*(1-spread), out.Step*(1+spread)
	out.MFU = e.w.Model.FlopsPerToken(e.w.Seq) * e.w.Tokens() / (out.Step * e.peak())
	e.memory(&s, ranks, micros, &out)
	return out, nil
}

// peak is the rate of all devices by specification.
func (e *Estimator) peak() float64 {
	total := 0.0
	for i, g := range e.cluster.Groups {
		total += e.pricers[i].peak * float64(g.Hosts*g.Devices)
	}
	return total
}

// ranks is the work of every pipeline rank.
func (e *Estimator) ranks(s *Strategy) ([]rank, error) {
	chunks := e.chunks(s)
	ranks := make([]rank, s.PP)
	layer, dense := 0, e.w.Model.denseLayers()
	for c, n := range chunks {
		r := &ranks[rankOf(s, c)]
		plain := max(0, min(n, dense-layer))
		r.layers += n
		r.moe += n - plain
		layer += n
	}
	ranks[0].embedding = true
	ranks[rankOf(s, len(chunks)-1)].head = true
	for i := range ranks {
		ranks[i].device = e.slowest(s, i)
		if err := e.load(s, &ranks[i], chunks); err != nil {
			return nil, err
		}
	}
	e.sends(s, ranks)
	return ranks, nil
}

// rankOf is the pipeline rank that holds a chunk: V-shaped schedules turn back at the end.
func rankOf(s *Strategy, chunk int) int {
	turn, at := chunk/s.PP, chunk%s.PP
	if turn%2 == 1 && (s.Schedule == "zbv" || s.Schedule == "dualpipev") {
		return s.PP - 1 - at
	}
	return at
}

// slowest is the group of hosts with the slowest device among those of a pipeline rank.
func (e *Estimator) slowest(s *Strategy, stage int) int {
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

// load adds up a rank's layers, embedding and head.
func (e *Estimator) load(s *Strategy, r *rank, chunks []int) error {
	key := layerKey{tp: s.TP, cp: s.CP, ep: s.EP, etp: s.ETP, micro: s.Micro, sp: s.SP, cpKind: s.CPKind, device: r.device}
	for _, moe := range []bool{false, true} {
		n := r.layers - r.moe
		if moe {
			n = r.moe
		}
		if n == 0 {
			continue
		}
		key.moe = moe
		c, err := e.layer(key)
		if err != nil {
			return err
		}
		e.addLayers(s, r, c, float64(n), chunks)
		p := e.w.Model.layer(moe)
		dense := p.split/float64(s.TP) + p.whole
		expert := p.expert / float64(s.EP*s.ETP)
		r.params += float64(n) * dense
		r.experts += float64(n) * expert
		if s.Zero >= 3 {
			e.addGathers(s, r, c, float64(n), dense, expert)
		}
	}
	return e.addEnds(s, r)
}

func (e *Estimator) addLayers(s *Strategy, r *rank, c *layerCost, n float64, chunks []int) {
	k := e.cal.Constants.compute()
	r.forward += n * c.compute.forward * k
	r.input += n * c.compute.input * k
	r.weight += n * c.compute.weight * k
	r.tp += n * (c.tpForward + c.tpBackward)
	r.cp += n * (c.cpForward + c.cpBackward)
	r.ep += n * (c.epForward + c.epBackward)
	switch s.Recompute.Mode {
	case Full:
		share := 1.0
		if s.Recompute.Layers > 0 {
			share = min(1, float64(s.Recompute.Layers*s.VPP)/float64(max(1, r.layers)))
		}
		r.again += n * share * c.compute.forward * k
		r.tpAgain += n * share * c.tpAgain
		r.ep += n * share * c.epForward
		r.cp += n * share * c.cpForward
	case Selective:
		if e.w.Software.Unfused { // fused attention does so by itself
			r.again += n * c.core * k
		}
	}
}

// addGathers adds what ZeRO-3 shows: parameters gathered twice and gradients scattered once for every layer and micro-batch, each
// under the computation of the layer before.
func (e *Estimator) addGathers(s *Strategy, r *rank, c *layerCost, n, dense, expert float64) {
	k := e.cal.Constants.communication()
	shard, stride := e.shard(s)
	gather := k * e.cluster.Collective(cluster.AllGather, dense*e.bytes, cluster.Axis{Size: shard, Stride: stride}).Seconds
	scatter := k * e.cluster.Collective(cluster.ReduceScatter, dense*e.w.Software.reduceBytes(), cluster.Axis{Size: shard, Stride: stride}).Seconds
	if expert > 0 {
		a := e.expertAxis(s)
		gather += k * e.cluster.Collective(cluster.AllGather, expert*e.bytes, a).Seconds
		scatter += k * e.cluster.Collective(cluster.ReduceScatter, expert*e.w.Software.reduceBytes(), a).Seconds
	}
	again := 0.0
	if s.Recompute.Mode == Full {
		again = c.compute.forward
	}
	if e.w.Software.Sync {
		r.gather += n * (2*gather + scatter)
		return
	}
	r.gather += n * (exposed(gather, c.compute.forward) + exposed(gather+scatter, c.compute.input+c.compute.weight+again))
}

// shard is over how many ranks ZeRO shards, and how far they are apart.
func (e *Estimator) shard(s *Strategy) (size, stride int) {
	size = s.DP * s.CP
	if s.Shard > 0 {
		size = s.Shard
	}
	return size, s.TP
}

// expertAxis is the data parallelism of experts.
func (e *Estimator) expertAxis(s *Strategy) cluster.Axis {
	inner := s.EP * s.ETP
	return cluster.Axis{Size: max(1, s.DP*s.CP*s.TP/inner), Stride: inner}
}

// addEnds adds the embedding to the first rank and the head to the last.
func (e *Estimator) addEnds(s *Strategy, r *rank) error {
	rows := ceil(s.Micro*e.w.Seq, s.CP)
	embedding, head, norm := e.w.Model.ends()
	k := e.cal.Constants.compute()
	tp := s.TP
	if e.w.Software.FullHead {
		tp = 1
	}
	if r.embedding {
		p, err := e.piece(r.device, pieceKey{kind: embeddingPiece, tokens: rows, tp: s.TP})
		if err != nil {
			return err
		}
		r.forward, r.weight = r.forward+p.forward*k, r.weight+p.weight*k
		r.params += embedding / float64(s.TP)
	}
	if !r.head {
		return nil
	}
	p, err := e.piece(r.device, pieceKey{kind: headPiece, tokens: rows, tp: tp})
	if err != nil {
		return err
	}
	r.forward, r.input, r.weight = r.forward+p.forward*k, r.input+p.input*k, r.weight+p.weight*k
	r.params += norm
	if head > 0 || !r.embedding { // a tied head on another rank is a copy
		r.params += max(head, float64(e.w.Model.Vocab)*float64(e.w.Model.Hidden)) / float64(s.TP)
	}
	return nil
}

// sends prices what ranks pass on.
func (e *Estimator) sends(s *Strategy, ranks []rank) {
	if s.PP == 1 {
		return
	}
	bytes := e.bytes * float64(ceil(s.Micro*e.w.Seq, s.CP)) * float64(e.w.Model.Hidden)
	bytes /= float64(s.TP) // every member of a tensor-parallel group sends its part
	one := e.cal.Constants.communication() * e.cluster.Collective(cluster.SendRecv, bytes, cluster.Axis{Size: 2, Stride: s.TP * s.CP * s.DP}).Seconds
	for i := range ranks {
		n := float64(s.VPP)
		if s.VPP == 1 && i == s.PP-1 {
			n = 0
		}
		ranks[i].sendForward, ranks[i].sendBackward = n*one, n*one
		if s.VPP == 1 && i == 0 {
			ranks[i].sendBackward = 0
		}
	}
}

func (r *rank) forwardTime() float64 {
	return r.forward + (r.tp+r.cp+r.ep)/2 + r.gather/3 + r.sendForward
}

func (r *rank) backwardTime() float64 {
	return r.input + r.weight + r.again + r.tpAgain + (r.tp+r.cp+r.ep)/2 + r.gather*2/3 + r.sendBackward
}

// flow is the passes of all micro-batches through the pipeline.
func (e *Estimator) flow(s *Strategy, ranks []rank, micros int, out *Estimate) {
	m := float64(micros)
	slow, sum := 0, 0.0
	for i := range ranks {
		r := &ranks[i]
		if !e.w.Software.SyncSend { // sends run under the next micro-batch
			r.sendForward, r.sendBackward = r.sendForward*hiddenSend, r.sendBackward*hiddenSend
		}
		sum += r.busy()
		if r.busy() > ranks[slow].busy() {
			slow = i
		}
	}
	r := &ranks[slow]
	fill := (sum - r.busy()) / float64(s.VPP)
	if s.Schedule == "zbh1" || s.Schedule == "zbh2" || s.Schedule == "zbv" {
		fill = max(0, fill-2*float64(s.PP-1)*r.weight)
	}
	p := &out.Parts
	p.Compute = m * (r.forward + r.input + r.weight)
	p.Recompute = m * r.again
	p.TP, p.CP, p.EP = m*(r.tp+r.tpAgain), m*r.cp, m*r.ep
	p.PP = m * (r.sendForward + r.sendBackward)
	p.DP = m * r.gather
	p.Bubble = fill
	p.Fixed = m * e.cal.Constants.Stage
}

// hiddenSend is what remains of a send that nobody waits for at once.
const hiddenSend = 0.1

// tail is what follows the last backward pass: gradients reduced, parameters updated and gathered.
func (e *Estimator) tail(s *Strategy, ranks []rank, out *Estimate) {
	worst := Parts{}
	for i := range ranks {
		p := e.rankTail(s, &ranks[i])
		if p.Sum() > worst.Sum() {
			worst = p
		}
	}
	out.Parts.DP += worst.DP
	out.Parts.Optimizer += worst.Optimizer
	out.Parts.Offload += worst.Offload
}

func (e *Estimator) rankTail(s *Strategy, r *rank) Parts {
	var p Parts
	dense := cluster.Axis{Size: s.DP * s.CP, Stride: s.TP}
	p.DP = e.reduction(s, r, r.params, dense)
	if r.experts > 0 {
		p.DP += e.reduction(s, r, r.experts, e.expertAxis(s))
	}
	if e.w.Model.Tied && s.PP > 1 && (r.embedding || r.head) {
		bytes := float64(e.w.Model.Vocab) * float64(e.w.Model.Hidden) / float64(s.TP) * e.w.Software.reduceBytes()
		p.DP += e.cal.Constants.communication() * e.cluster.Collective(cluster.AllReduce, bytes, cluster.Axis{Size: 2, Stride: (s.PP - 1) * s.TP * s.CP * s.DP}).Seconds
	}
	own := r.params / e.shards(s, float64(dense.Size))
	own += r.experts / e.shards(s, float64(e.expertAxis(s).Size))
	dev := e.pricers[r.device]
	perParam := updateBytes + e.w.Software.gradBytes()*updateGradPasses
	onDevice := own * (1 - s.Offload.Optimizer)
	p.Optimizer = e.cal.Constants.compute() * onDevice * perParam / (dev.device.Bandwidth * dev.curve.Stream)
	if s.Offload.Optimizer > 0 {
		g := &e.cluster.Groups[r.device]
		bus := g.Bus.Usual()
		if bus.Bandwidth > 0 {
			p.Offload = own * s.Offload.Optimizer * (e.w.Software.gradBytes() + e.bytes) / (bus.Bandwidth * bus.Efficiency)
		}
	}
	return p
}

// What an update moves for each parameter: the float32 copy and both moments read and written, the 16-bit copy written; and how
// often it passes over the gradient: zeroed, two norms, scaled, read.
const (
	updateBytes      = 6*4 + 2
	updateGradPasses = 6
)

// shards is over how many ranks the optimizer's state is spread.
func (e *Estimator) shards(s *Strategy, d float64) float64 {
	if s.Zero == 0 {
		return 1
	}
	if s.Shard > 0 {
		return min(d, float64(s.Shard))
	}
	return d
}

// reduction is what reducing the gradients of n parameters adds to a step.
func (e *Estimator) reduction(s *Strategy, r *rank, n float64, a cluster.Axis) float64 {
	if a.Size <= 1 || n == 0 {
		return 0
	}
	k := e.cal.Constants.communication()
	wire := n * e.w.Software.reduceBytes()
	if s.Zero >= 3 {
		if s.Shard == 0 || s.Shard >= a.Size {
			return 0 // done layer by layer
		}
		a = cluster.Axis{Size: a.Size / s.Shard, Stride: a.Stride * s.Shard}
		wire /= float64(s.Shard)
	}
	if s.Zero == 0 || s.Zero >= 3 {
		t := k * e.cluster.Collective(cluster.AllReduce, wire, a).Seconds
		return e.under(t, r.input+r.weight+r.again, r)
	}
	scatter := k * e.cluster.Collective(cluster.ReduceScatter, wire, a).Seconds
	gather := k * e.cluster.Collective(cluster.AllGather, n*e.bytes, a).Seconds
	return e.under(scatter, r.input+r.weight+r.again, r) + e.under(gather, r.forward, r)
}

// under is what is left of communication beside the computation of one micro-batch, of which the last layer's cannot be hidden.
func (e *Estimator) under(comm, compute float64, r *rank) float64 {
	if e.w.Software.Sync {
		return comm
	}
	last := comm / float64(max(1, r.layers))
	return max(last, exposed(comm, compute))
}

// memory fills in what every rank needs.
func (e *Estimator) memory(s *Strategy, ranks []rank, micros int, out *Estimate) {
	out.Stages = make([]Stage, len(ranks))
	for i := range ranks {
		r := &ranks[i]
		d := e.shards(s, float64(s.DP*s.CP))
		m := e.stateBytes(r.params, d, s)
		if r.experts > 0 {
			x := e.stateBytes(r.experts, e.shards(s, float64(e.expertAxis(s).Size)), s)
			m.Weights, m.Gradients, m.Optimizer = m.Weights+x.Weights, m.Gradients+x.Gradients, m.Optimizer+x.Optimizer
		}
		flight := inFlight(s, i, micros)
		m.Activations = e.activations(s, r, flight)
		m.Logits = e.logits(s, r)
		m.Buffers = e.buffers(s, r)
		m.Context = contextBytes
		m.Slack = slackShare * m.Allocated()
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
}

// contextBytes is what the driver and the communication library take, slackShare what an allocator loses: the median of 43 measured
// runs is 4%.
const (
	contextBytes = 1.5e9
	slackShare   = 0.04
)

// activations is what a rank keeps of the micro-batches in flight.
func (e *Estimator) activations(s *Strategy, r *rank, flight float64) float64 {
	total := 0.0
	for _, moe := range []bool{false, true} {
		n := float64(r.layers - r.moe)
		if moe {
			n = float64(r.moe)
		}
		if n == 0 {
			continue
		}
		whole := e.layerActivations(s, moe)
		if s.Recompute.Mode != Full {
			total += n * flight * whole
			continue
		}
		again := n
		if s.Recompute.Layers > 0 {
			again = min(n, float64(s.Recompute.Layers*s.VPP)*n/float64(r.layers))
		}
		total += flight * ((n-again)*whole + again*e.inputActivations(s))
		total += whole // the one at work
	}
	return total * (1 - s.Offload.Activations)
}

// logits is what the loss keeps: a 16-bit copy and, where it is not fused, a float32 one and its gradient.
func (e *Estimator) logits(s *Strategy, r *rank) float64 {
	if !r.head {
		return 0
	}
	elements := float64(ceil(s.Micro*e.w.Seq, s.CP)) * float64(e.w.Model.Vocab) / float64(s.TP)
	if e.w.Software.FullHead {
		elements *= float64(s.TP)
	}
	if e.w.Software.Logits {
		return elements * (e.bytes + 8)
	}
	return elements * 2 * e.bytes
}

// buffers are gathered parameters of ZeRO-3 with their gradients, or gradients of one layer before they are added to those of
// earlier micro-batches in float32.
func (e *Estimator) buffers(s *Strategy, r *rank) float64 {
	p := e.w.Model.layer(r.moe > 0)
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
