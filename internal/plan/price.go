package plan

import (
	"math"

	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// pricer says how long ops take on one type of device.
type pricer struct {
	device *cluster.Device
	curve  Curve
	// peak of the layers' products, and of everything else.
	peak, plain float64
	ceiling     float64
	elementwise float64
}

func newPricer(d *cluster.Device, cal *Calibration, w *Workload) (*pricer, bool) {
	r, ok := d.Rate(precisions[w.Precision].rate)
	if !ok {
		return nil, false
	}
	p := &pricer{device: d, curve: cal.curve(d.Name), peak: r.Peak, plain: r.Peak, elementwise: orOne(w.Software.Elementwise)}
	p.ceiling = p.curve.Ceiling
	if p.ceiling == 0 {
		p.ceiling = 0.75
		if r.Measured > 0 {
			p.ceiling = r.Measured / r.Peak
		}
	}
	if b, ok := d.Rate("bf16"); ok && precisions[w.Precision].bytes == 2 && b.Peak < p.peak {
		p.plain = b.Peak
	}
	return p, true
}

// node is the time of one node of a program, from its op's Work on its types.
func (p *pricer) node(n *ir.Node) float64 {
	o, ok := n.Op().(op.Op)
	if !ok {
		return 0
	}
	if _, free := o.(op.Aliaser); free {
		return 0
	}
	in, out := types(n.In()), types(n.Out())
	w := o.Work(in, out)
	stream := w.Bytes / (p.device.Bandwidth * p.curve.Stream)
	if d, ok := contraction(o, in, out); ok {
		return math.Max(w.Flops/(p.peak*p.efficiency(d)), stream) + p.curve.Launch
	}
	if w.Flops > fusedIntensity*w.Bytes {
		return math.Max(w.Flops/(p.plain*p.fused(in)), stream) + p.curve.Launch
	}
	return stream*p.elementwise + p.curve.Launch
}

// fusedIntensity is from how many operations a byte on an op must be many products in one, as fused attention is: element-wise ops
// and norms do less than ten.
const fusedIntensity = 16

// fused is the part of the peak that a fused op reaches. The innermost dim of its first operand is the one that it sums over.
func (p *pricer) fused(in []ir.Type) float64 {
	e := p.curve.Fused
	if len(in) > 4 { // a gradient has what the forward op has, its result and the gradient of that
		e = p.curve.FusedGrad
	}
	s := in[0].Shape
	inner := s[len(s)-1]
	return e * aligned(inner) * math.Min(1, float64(inner)/(float64(inner)+32)*1.25)
}

func types(vs []*ir.Value) []ir.Type {
	ts := make([]ir.Type, len(vs))
	for i, v := range vs {
		ts[i] = v.Type()
	}
	return ts
}

// dims is a product: batch independent ones of m×k by k×n, or groups of rows that share m between them.
type dims struct {
	batch, groups, m, n, k int
}

// contraction reads a product off an op's rule: a factor that two operands have and no result does is summed over; what else an
// operand shares with the result is that side's own.
func contraction(o op.Op, in, out []ir.Type) (dims, bool) {
	if len(in) < 2 || len(out) != 1 {
		return dims{}, false
	}
	p, err := o.Rule(in).Bind(shapes(in), shapes(out))
	if err != nil || len(p.In) < 2 || len(p.Out) != 1 {
		return dims{}, false
	}
	d := dims{1, 1, 1, 1, 1}
	found := false
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
		case x != y || r:
			d.groups *= f.Size
		}
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

// efficiency is the part of the peak that a product of this shape reaches.
func (p *pricer) efficiency(d dims) float64 {
	for _, m := range p.curve.Products {
		if m.K == d.k && (m.M == d.m && m.N == d.n || m.M == d.n && m.N == d.m) && max(1, m.Groups) == d.groups {
			return m.Efficiency
		}
	}
	m, k := float64(d.m), float64(d.k)
	if d.groups > 1 {
		m = math.Max(1, m/float64(d.groups)) // rows are divided among the groups
	}
	ramp := k / (k + p.curve.Ramp)
	align := aligned(d.k) * aligned(d.n)
	return p.ceiling * ramp * align * p.waves(float64(d.batch*d.groups), m, float64(d.n))
}

// aligned is what is left of the speed where rows do not start on the boundaries that memory is read by: 128 bytes.
func aligned(n int) float64 {
	switch {
	case n%64 == 0:
		return 1
	case n%32 == 0:
		return 0.97
	case n%16 == 0:
		return 0.9
	case n%8 == 0:
		return 0.8
	case n%2 == 0:
		return 0.55
	}
	return 0.3
}

// waves is the part of the units' time that is used: the last round of tiles is seldom full, and tiles at the border are seldom
// whole. The best of three tile shapes is taken; smaller tiles read more for each operation.
func (p *pricer) waves(batch, m, n float64) float64 {
	units := float64(p.device.Units)
	if units == 0 {
		units = 100
	}
	side := float64(p.curve.Tile)
	best := 0.0
	for _, t := range [...]struct{ m, n, speed float64 }{{2 * side, side, 1}, {side, 2 * side, 1}, {side, side, 0.95}, {side / 2, side, 0.8}, {side / 2, side / 2, 0.65}} {
		tiles := batch * math.Ceil(m/t.m) * math.Ceil(n/t.n)
		used := batch * m * n / (math.Ceil(tiles/units) * units * t.m * t.n)
		best = math.Max(best, used*t.speed)
	}
	return best
}
