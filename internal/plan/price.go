package plan

import (
	"math"
	"slices"

	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// pricer prices ops on one type of device.
type pricer struct {
	device *cluster.Device
	curve  Curve
	// peak rates of the layers' products, and of everything else.
	peak, plain float64
	ceiling     float64
	elementwise float64
	scaleOnce   bool
	// measured is the fraction of the peak of measured products, by each group's own shape.
	measured map[dims]float64
	// grouped is the efficiency of grouped products relative to a single one; 0 means 1.
	grouped float64
	// dense means that the measured products are a grid over all shapes, so that every shape can be
	// interpolated.
	dense bool
	// cores prices all ops in place of the curve if the device is cores of a machine; nil otherwise.
	cores *cores
}

func newPricer(d *cluster.Device, cal *Calibration, w *Workload) (*pricer, bool) {
	r, ok := d.Rate(precisions[w.Precision].rate)
	if !ok {
		return nil, false
	}
	p := &pricer{device: d, curve: cal.curve(d.Name), peak: r.Peak, plain: r.Peak,
		elementwise: orOne(w.Software.Elementwise), scaleOnce: w.Software.ScaleOnce,
		cores: coresOf(d, cal, r.Peak)}
	p.ceiling = p.curve.Ceiling
	if p.ceiling == 0 {
		p.ceiling = 0.75
		if r.Measured > 0 {
			p.ceiling = r.Measured / r.Peak
		}
	}
	p.measured = make(map[dims]float64, len(p.curve.Products))
	for _, m := range p.curve.Products {
		g := max(1, m.Groups)
		p.measured[dims{1, g, m.M, m.N, m.K}] = m.Efficiency
	}
	p.dense = p.curve.Ceiling > 0 && len(p.measured) >= levelProducts
	p.level()
	p.sustain()
	if b, ok := d.Rate("bf16"); ok && precisions[w.Precision].bytes == 2 && b.Peak < p.peak {
		p.plain = b.Peak
	}
	return p, true
}

// node returns the time of one node of a program, from its op's Work on its types. short holds the values
// that have 8-bit copies already.
func (p *pricer) node(n *ir.Node, short map[*ir.Value]bool) float64 {
	o, ok := n.Op().(op.Op)
	if !ok {
		return 0
	}
	if _, free := o.(op.Aliaser); free {
		return 0
	}
	in, out := ir.TypesOf(n.In()), ir.TypesOf(n.Out())
	w := o.Work(in, out)
	if w.Flops == 0 && moves(in) == moves(out) {
		return 0 // a view, or parts that are written in place
	}
	if p.cores != nil {
		return p.cores.node(n)
	}
	stream := w.Bytes / (p.device.Bandwidth * p.curve.Stream)
	if d, ok := contraction(o, in, out); ok && d.flops() > 0.9*w.Flops && d.flops() < 1.1*w.Flops {
		return math.Max(w.Flops/(p.peak*p.efficiency(d)*alignment(in, out)), stream) + p.curve.Launch +
			p.scaling(n.In(), short)
	}
	if w.Flops > fusedIntensity*w.Bytes {
		return math.Max(w.Flops/(p.plain*p.fused(in)), stream) + p.curve.Launch
	}
	return stream*p.elementwise + p.curve.Launch
}

// scaling returns the time of quantizing the operands of products in 8 bits or less: each is read for its
// largest element, read again and written in the short format.
func (p *pricer) scaling(in []*ir.Value, short map[*ir.Value]bool) float64 {
	if p.peak <= p.plain {
		return 0
	}
	total := 0.0
	for _, v := range in {
		if p.scaleOnce && short[v] {
			continue
		}
		short[v] = true
		total += 2.5*float64(v.Type().Bytes())/(p.device.Bandwidth*p.curve.Stream) + p.curve.Launch
	}
	return total
}

// fusedIntensity is the number of operations per byte from which an op must be several fused products, like
// fused attention: element-wise ops and norms have less than ten.
const fusedIntensity = 16

// fused returns the fraction of the peak that a fused op reaches: that of a measured shape, or of the curve.
// Its operands are those of attention: [batch, query, heads, dim] and keys; a gradient also has the forward
// op's result and its gradient.
func (p *pricer) fused(in []ir.Type) float64 {
	backward := len(in) > 4
	q, k := in[0].Shape, in[1].Shape
	e := p.curve.Fused
	if backward {
		e = p.curve.FusedGrad
	}
	if len(q) != 4 || len(k) != 4 {
		return e
	}
	if m, ok := p.attention(q[0], q[1], k[1], q[2], k[2], q[3]); ok {
		if backward && m.Backward > 0 {
			return m.Backward
		}
		if !backward && m.Forward > 0 {
			return m.Forward
		}
	}
	tiles := float64(q[0]*q[2]) * math.Ceil(float64(q[1])/128)
	return e * aligned(q[3]) * tiles / (tiles + p.units())
}

// attention returns the measured shape with the same heads and the nearest length, if one is close.
func (p *pricer) attention(batch, query, keys, heads, kv, dim int) (Attention, bool) {
	best, far := Attention{}, math.Log(2.1)
	work := float64(batch) * float64(query) * float64(heads)
	for _, m := range p.curve.Attention {
		if m.Dim != dim || m.Heads/m.KVHeads > 1 != (heads/kv > 1) {
			continue
		}
		d := math.Abs(math.Log(work/(float64(m.Batch)*float64(m.Seq)*float64(m.Heads)))) +
			0.3*math.Abs(math.Log(float64(keys)/float64(m.Seq)))
		if d < far {
			best, far = m, d
		}
	}
	return best, best.Seq > 0
}

func (p *pricer) units() float64 {
	if p.device.Units == 0 {
		return 100
	}
	return float64(p.device.Units)
}

// levelProducts is the number of measured products that determine the level of a curve.
const levelProducts = 40

// level sets the ceiling, unless it is given, to match the measured products on average, and the relative
// efficiency of grouped products.
func (p *pricer) level() {
	if p.curve.Ceiling > 0 || len(p.measured) < levelProducts {
		return
	}
	var plain, grouped []float64
	for d, e := range p.measured {
		if d.groups == 1 {
			plain = append(plain, e/p.shaped(d))
		} else {
			grouped = append(grouped, e/p.shaped(d))
		}
	}
	slices.Sort(plain)
	slices.Sort(grouped)
	if len(plain) == 0 {
		return
	}
	middle := plain[len(plain)/2]
	p.ceiling *= middle
	if len(grouped) > 0 {
		p.grouped = grouped[len(grouped)/2] / middle
	}
}

// sustain scales products that were measured at a device's boost clock down to its sustained rate: the best
// of them is the ceiling.
func (p *pricer) sustain() {
	best := 0.0
	for _, e := range p.measured {
		best = math.Max(best, e)
	}
	if p.curve.Ceiling > 0 || len(p.measured) >= levelProducts || best <= p.ceiling {
		return
	}
	for d := range p.measured {
		p.measured[d] *= p.ceiling / best
	}
}

// moves returns the bytes of tensors.
func moves(ts []ir.Type) int {
	n := 0
	for _, t := range ts {
		n += t.Bytes()
	}
	return n
}

// dims is a product: batch independent ones of m×k by k×n, or as many groups that each have their own rows,
// or terms of the sum.
type dims struct {
	batch, groups, m, n, k int
}

// flops returns the flops of the products: an op of another kind may have such a rule, but not such work.
func (d dims) flops() float64 {
	return 2 * float64(d.batch) * float64(d.groups) * float64(d.m) * float64(d.n) * float64(d.k)
}

// contraction derives a product from an op's sharding rule: a factor that two operands have and no result
// does is contracted; other factors that an operand shares with the result belong to that side. A factor that
// only one tensor has numbers groups: of rows if it is an operand's, of terms if it is the result's.
func contraction(o op.Op, in, out []ir.Type) (dims, bool) {
	if len(in) < 2 || len(out) != 1 {
		return dims{}, false
	}
	p, err := o.Rule(in).Bind(shapes(in), shapes(out))
	if err != nil || len(p.In) < 2 || len(p.Out) != 1 {
		return dims{}, false
	}
	d := dims{1, 1, 1, 1, 1}
	found, terms := false, false
	for _, f := range p.Factors {
		x, y, r := has(p.In[0], f.Name), has(p.In[1], f.Name), has(p.Out[0], f.Name)
		switch {
		case x && y && !r:
			d.k *= f.Size
			found = true
		case x && y && r:
			d.batch *= f.Size
		case x && r:
			d.m *= f.Size
		case y && r:
			d.n *= f.Size
		case x || y || r:
			d.groups *= f.Size
			terms = terms || r
		}
	}
	if d.groups > 1 && terms {
		d.k = max(1, d.k/d.groups)
	} else {
		d.m = max(1, d.m/d.groups)
	}
	return d, found
}

func has(ds mesh.Dims, name byte) bool {
	for _, d := range ds {
		for _, c := range d {
			if c == name {
				return true
			}
		}
	}
	return false
}

func shapes(ts []ir.Type) [][]int {
	out := make([][]int, len(ts))
	for i, t := range ts {
		out[i] = t.Shape
	}
	return out
}

// efficiency returns the fraction of the peak that a product of this shape reaches: measured, or by the
// curve.
func (p *pricer) efficiency(d dims) float64 {
	if e, ok := p.measured[d]; ok {
		return e
	}
	if e, ok := p.measured[dims{d.batch, d.groups, d.n, d.m, d.k}]; ok {
		return e
	}
	if e, ok := p.between(d); ok {
		return e
	}
	return p.shaped(d)
}

// between returns the weighted mean of the measured shapes around one, if any is close enough.
func (p *pricer) between(d dims) (float64, bool) {
	if !p.dense {
		return 0, false
	}
	sum, weights := 0.0, 0.0
	for _, m := range p.curve.Products {
		if max(1, m.Groups) != 1 {
			continue
		}
		far := math.Abs(math.Log2(float64(m.M)/float64(d.m))) + math.Abs(math.Log2(float64(m.N)/float64(d.n))) +
			math.Abs(math.Log2(float64(m.K)/float64(d.k)))
		w := math.Exp(-2 * far)
		sum, weights = sum+w*m.Efficiency, weights+w
	}
	return sum / weights, weights > 0
}

// shaped returns the efficiency by the curve: the contraction must be long and the units busy.
func (p *pricer) shaped(d dims) float64 {
	k := float64(d.k)
	e := p.ceiling
	if d.groups > 1 {
		e *= orOne(p.grouped)
	}
	return e * k / (k + p.curve.Ramp) * p.waves(float64(d.batch*d.groups), float64(d.m), float64(d.n))
}

// aligned returns the relative speed if rows are not aligned to 128 bytes, the unit of memory access. Below
// 16 bytes matrix units cannot load them at all: with heads of 108 instead of 216 columns a step of BLOOM
// took 42% longer.
func aligned(n int) float64 {
	switch {
	case n%64 == 0:
		return 1
	case n%32 == 0:
		return 0.97
	case n%16 == 0:
		return 0.92
	case n%8 == 0:
		return 0.8
	}
	return 0.1
}

// alignment returns the alignment of the tensor with the worst aligned rows.
func alignment(ts ...[]ir.Type) float64 {
	worst := 1.0
	for _, list := range ts {
		for _, t := range list {
			if n := len(t.Shape); n > 1 && t.DType.IsFloat() {
				worst = math.Min(worst, aligned(t.Shape[n-1]))
			}
		}
	}
	return worst
}

// waves returns the utilization of the units: the last wave of tiles is seldom full, and tiles at the border
// are seldom whole. It takes the best of three tile shapes; smaller tiles read more per operation.
func (p *pricer) waves(batch, m, n float64) float64 {
	units := p.units()
	side := float64(p.curve.Tile)
	best := 0.0
	for _, t := range [...]struct{ m, n, speed float64 }{{2 * side, side, 1}, {side, 2 * side, 1},
		{side, side, 0.95}, {side / 2, side, 0.8}, {side / 2, side / 2, 0.65}} {
		tiles := batch * math.Ceil(m/t.m) * math.Ceil(n/t.n)
		used := batch * m * n / (math.Ceil(tiles/units) * units * t.m * t.n)
		best = math.Max(best, used*t.speed)
	}
	return best
}
