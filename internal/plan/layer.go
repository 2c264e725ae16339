package plan

import (
	"math"

	"github.com/galley-ml/galley/internal/cluster"
)

// layerKey holds what the cost of a layer depends on besides workload and cluster.
type layerKey struct {
	tp, cp, ep, etp, micro int
	sp, moe                bool
	// pairs means that the schedule overlaps each exchange between experts with another micro-batch's
	// computation.
	pairs  bool
	cpKind string
	device int
	on     span
}

// layerCost is the cost of one layer and one micro-batch on one device.
type layerCost struct {
	compute piece
	core    float64 // the forward pass of attention alone
	// Communication, forward and backward. tpAgain is the part that recomputing the forward pass repeats.
	tpForward, tpBackward, tpAgain float64
	cpForward, cpBackward          float64
	epForward, epBackward          float64
}

// layer returns the cost of a layer, cached.
func (e *Estimator) layer(k layerKey) (*layerCost, error) {
	e.mu.RLock()
	c, ok := e.layers[k]
	e.mu.RUnlock()
	if ok {
		return c, nil
	}
	c, err := e.priceLayer(k)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	e.layers[k] = c
	e.mu.Unlock()
	return c, nil
}

// piece returns the price of a piece on a device, cached.
func (e *Estimator) piece(device int, k pieceKey) (piece, error) {
	key := storedPiece{device, k}
	e.mu.RLock()
	p, ok := e.pieces[key]
	e.mu.RUnlock()
	if ok {
		return p, nil
	}
	p, err := e.pricers[device].program(&e.w, k)
	if err != nil {
		return piece{}, err
	}
	e.mu.Lock()
	e.pieces[key] = p
	e.mu.Unlock()
	return p, nil
}

type storedPiece struct {
	device int
	pieceKey
}

func (e *Estimator) priceLayer(k layerKey) (*layerCost, error) {
	rows := ceil(k.micro*e.w.Seq, k.cp)
	outside := rows // of norms and additions
	if k.sp {
		outside = ceil(rows, k.tp)
	}
	c := &layerCost{}
	for _, s := range e.w.pieces(k, rows, outside) {
		p, err := e.piece(k.device, s.key)
		if err != nil {
			return nil, err
		}
		c.compute = c.compute.plus(p.times(s.times))
	}
	for _, core := range e.w.attention(k, rows) {
		core.key.kind = corePiece
		p, err := e.piece(k.device, core.key)
		if err != nil {
			return nil, err
		}
		c.core += core.times * p.forward
	}
	e.exchange(k, rows, outside, c)
	return c, nil
}

// repeated is a piece that occurs several times in a layer.
type repeated struct {
	times float64
	key   pieceKey
}

// attention returns the attention of a layer. If some layers have a sliding window and others do not, it is a
// mixture in the model's proportions, because they alternate and every stage has both.
func (w *Workload) attention(k layerKey, rows int) (list []repeated) {
	key := pieceKey{kind: attentionPiece, tokens: rows, batch: k.micro, query: ceil(w.Seq, k.cp), keys: w.Seq,
		tp: k.tp}
	part := w.Model.windowed()
	if part > 0 {
		windowed := key
		windowed.window = w.Model.Window
		list = append(list, repeated{part, windowed})
	}
	if part < 1 {
		list = append(list, repeated{1 - part, key})
	}
	return list
}

// pieces returns what a layer computes on a device with the given rows in products, and outside of them.
func (w *Workload) pieces(k layerKey, rows, outside int) []repeated {
	list := []repeated{
		{w.Model.norms(), pieceKey{kind: normPiece, tokens: outside}},
		{w.Model.blocks(), pieceKey{kind: residualPiece, tokens: outside}},
	}
	list = append(list, w.attention(k, rows)...)
	if !k.moe && w.Model.FFN == 0 {
		return list
	}
	if !k.moe {
		return append(list, repeated{1, pieceKey{kind: mlpPiece, tokens: rows, tp: k.tp, width: w.Model.FFN}})
	}
	m := &w.Model.Experts
	list = append(list, repeated{1, pieceKey{kind: routerPiece, tokens: outside}},
		repeated{1, pieceKey{kind: expertPiece, tokens: outside * k.etp * m.TopK, tp: k.etp, local: max(1,
			m.Count/k.ep)}})
	if m.Shared > 0 {
		list = append(list, repeated{1, pieceKey{kind: mlpPiece, tokens: rows, tp: k.tp, width: m.Shared}})
	}
	return list
}

// exchange prices a layer's communication.
func (e *Estimator) exchange(k layerKey, rows, outside int, c *layerCost) {
	h := float64(e.w.Model.Hidden)
	whole := float64(rows) * h * e.bytes
	time := func(kind cluster.Kind, bytes float64, a cluster.Axis) float64 {
		return e.collective(kind, bytes, a, k.on)
	}
	blocks := e.w.Model.blocks() // attention and feed-forward layer
	if k.moe && k.etp == 1 && e.w.Model.Experts.Shared == 0 {
		blocks = 1
	}
	if tp := (cluster.Axis{Size: k.tp, Stride: 1}); k.tp > 1 {
		if k.sp {
			gather, scatter := time(cluster.AllGather, whole, tp), time(cluster.ReduceScatter, whole, tp)
			c.tpForward = blocks * (gather + scatter)
			c.tpBackward = blocks * (gather + scatter) // weight gradients hide gathering inputs again
			c.tpAgain = blocks * gather
			if e.w.Software.Serial {
				c.tpBackward += blocks * gather
			}
		} else {
			one := time(cluster.AllReduce, whole, tp)
			c.tpForward, c.tpBackward, c.tpAgain = blocks*one, blocks*one, blocks*one
		}
		forward, backward := c.compute.forward, c.compute.input+c.compute.weight
		hide := e.w.Software.HideTP
		c.tpForward, c.tpAgain = e.shown(c.tpForward, forward, hide), e.shown(c.tpAgain, forward, hide)
		c.tpBackward = e.shown(c.tpBackward, backward, hide)
	}
	if k.cp > 1 {
		e.exchangeContext(k, rows, c, time)
	}
	if k.moe && k.ep > 1 {
		bytes := float64(outside*e.w.Model.Experts.TopK) * h * e.bytes
		one := e.dispatch(cluster.Axis{Size: k.ep, Stride: k.etp}, bytes, time)
		hide := e.w.Software.HideEP
		if k.pairs {
			hide = 1
		}
		// overlapped with both passes of other micro-batches
		all := e.shown(4*one, c.compute.forward+c.compute.input+c.compute.weight, hide)
		c.epForward, c.epBackward = all/2, all/2
	}
}

// dispatch returns the time of sending tokens to their experts or back. If a token is sent to a host once,
// however many of its experts are there, fewer copies leave the host: with top k of experts over h hosts,
// h(1−(1−1/h)ᵏ) instead of k; they are distributed within the host.
func (e *Estimator) dispatch(a cluster.Axis, bytes float64,
	time func(cluster.Kind, float64, cluster.Axis) float64) float64 {
	if !e.w.Software.OncePerHost || !e.cluster.Uniform() {
		return time(cluster.AllToAll, bytes, a)
	}
	local := min(a.Size, max(1, e.cluster.Groups[0].Devices/a.Stride))
	hosts, top := float64(a.Size)/float64(local), float64(e.w.Model.Experts.TopK)
	copies := hosts * (1 - math.Pow(1-1/hosts, top))
	inside := time(cluster.AllToAll, bytes, cluster.Axis{Size: local, Stride: a.Stride})
	return max(inside, time(cluster.AllToAll, bytes*min(1, copies/top), a))
}

// exchangeContext prices the ring of keys and values, or the all-to-alls of heads.
func (e *Estimator) exchangeContext(k layerKey, rows int, c *layerCost,
	time func(cluster.Kind, float64, cluster.Axis) float64) {
	m := &e.w.Model
	a := cluster.Axis{Size: k.cp, Stride: k.tp}
	kv := float64(rows) * float64(m.kvWidth()*2) / float64(k.tp) * e.bytes
	switch k.cpKind {
	case "ulysses":
		one := time(cluster.AllToAll, float64(rows*m.queryWidth())/float64(k.tp)*e.bytes, a)
		c.cpForward, c.cpBackward = 4*one, 4*one
	case "gather":
		one := time(cluster.AllGather, kv*float64(k.cp), a)
		c.cpForward, c.cpBackward = one, one+time(cluster.ReduceScatter, kv*float64(k.cp), a)
	default: // a ring is overlapped with the attention of the previous part
		ring := float64(k.cp-1) * time(cluster.SendRecv, kv, a)
		c.cpForward, c.cpBackward = exposed(ring, c.core), exposed(2*ring, 2*c.core)
		if e.w.Software.Serial {
			c.cpForward, c.cpBackward = ring, 2*ring
		}
	}
}

// shown returns the exposed time of communication of which the fraction hidden can overlap with computation.
func (e *Estimator) shown(comm, compute, hidden float64) float64 {
	return comm*(1-hidden) + exposed(comm*hidden, e.cal.Constants.compute()*compute)
}

// slowdown is the factor by which overlapping communication and computation slow each other down: the
// coefficient that Galvatron measured on A100.
const slowdown = 1.126

// exposed returns the time that communication adds to computation that it overlaps with.
func exposed(comm, compute float64) float64 {
	both := min(comm, compute)
	return max(0, comm-compute) + (slowdown-1)*both
}
