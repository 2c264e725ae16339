package plan

import (
	"fmt"
	"math"
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// Host is what a core of this machine does. In-process devices compute on one thread each and share the
// cores, so their step is priced by the seconds of one core, whoever has it.
type Host struct {
	Cores int `yaml:"cores" json:"cores"`
	// Crowd is how much longer work takes where all cores have some: they share memory, and often the clock.
	Crowd float64 `yaml:"crowd" json:"crowd"`
	// Start is the seconds of an op that does nothing.
	Start float64 `yaml:"start" json:"start"`
	// Rate is operations a second of dense ops that were not measured, Stream bytes a second of all others.
	Rate   float64 `yaml:"rate" json:"rate"`
	Stream float64 `yaml:"stream" json:"stream"`
	// Meet is the seconds that each member spends on coming to a collective, Message those of both ends of a
	// message, Touch the bytes a second that either reads and writes where the collective was not measured by
	// name.
	Meet    float64 `yaml:"meet" json:"meet"`
	Message float64 `yaml:"message" json:"message"`
	// Wake is what either costs a device besides that waits for others and continues.
	Wake float64 `yaml:"wake" json:"wake"`
	// Idle is after how many seconds a core that had nothing to do begins with what comes: nobody works
	// meanwhile.
	Idle float64 `yaml:"idle,omitempty" json:"idle,omitempty"`
	// Spread is how much the time of an op differs from one time to the next, as a part of it.
	Spread float64 `yaml:"spread,omitempty" json:"spread,omitempty"`
	Touch  float64 `yaml:"touch" json:"touch"`
	// Products is a grid of products, operations a second; Ops are other ops by name.
	Products []HostProduct `yaml:"products,omitempty" json:"products,omitempty"`
	Ops      []HostOp      `yaml:"ops,omitempty" json:"ops,omitempty"`
}

// HostProduct is the measured rate of M×K by K×N on one core.
type HostProduct struct {
	M    int     `yaml:"m" json:"m"`
	N    int     `yaml:"n" json:"n"`
	K    int     `yaml:"k" json:"k"`
	Rate float64 `yaml:"rate" json:"rate"`
}

// HostOp is what an op was measured to take in training steps: on one thread, and on all of them where
// kernels share the work.
type HostOp struct {
	Op  string    `yaml:"op" json:"op"`
	One HostTimes `yaml:"one,omitempty" json:"one,omitzero"`
	All HostTimes `yaml:"all,omitempty" json:"all,omitzero"`
}

// HostTimes is measurements of an op: factors where its time goes with products, points where it does not.
type HostTimes struct {
	Factors []HostFactor `yaml:"factors,omitempty" json:"factors,omitempty"`
	Points  []HostPoint  `yaml:"points,omitempty" json:"points,omitempty"`
}

// MaxFactor is the largest HostFactor.Factor. A product that took longer than that was waiting for a core,
// not computing.
const MaxFactor = 1000

// HostFactor is the time of a product, or of attention, over that of the grid's products of the same sides.
type HostFactor struct {
	M int `yaml:"m" json:"m"`
	N int `yaml:"n" json:"n"`
	K int `yaml:"k" json:"k"`
	// Count is how many products there were: the more, the better threads share them.
	Count  float64 `yaml:"count,omitempty" json:"count,omitempty"`
	Factor float64 `yaml:"factor" json:"factor"`
}

// HostPoint is the seconds of an op of so many operations and bytes.
type HostPoint struct {
	Flops   float64 `yaml:"flops" json:"flops"`
	Bytes   float64 `yaml:"bytes" json:"bytes"`
	Seconds float64 `yaml:"seconds" json:"seconds"`
}

// Sides are those of a product, M×K by K×N.
type Sides struct{ M, N, K int }

// ProductsOf returns the products that a node's time goes with, if there are any, and how many of them its
// operations are: attention is products of queries with keys, fewer where a mask leaves some out.
func ProductsOf(n *ir.Node) (s Sides, count float64, ok bool) {
	o, isOp := n.Op().(op.Op)
	if !isOp {
		return s, 0, false
	}
	in, out := ir.TypesOf(n.In()), ir.TypesOf(n.Out())
	w := o.Work(in, out)
	if a, isAttention := o.(op.Attender); isAttention {
		s.M, s.N, s.K = a.Attends(in)
		each := 2 * float64(s.M) * float64(s.N) * float64(s.K)
		return s, w.Flops / each, each > 0
	}
	d, ok := contraction(o, in, out)
	if !ok || d.flops() < 0.9*w.Flops || d.flops() > 1.1*w.Flops {
		return s, 0, false
	}
	return Sides{d.m, d.n, d.k}, float64(d.batch * d.groups), true
}

// WorkOf returns a node's work; it is nothing where nothing is computed or moved.
func WorkOf(n *ir.Node) op.Work {
	o, ok := n.Op().(op.Op)
	if !ok {
		return op.Work{}
	}
	if _, free := o.(op.Aliaser); free {
		return op.Work{}
	}
	return o.Work(ir.TypesOf(n.In()), ir.TypesOf(n.Out()))
}

// Node returns the seconds that a device of so many threads takes for a node; of a collective, for one
// member's part in it.
func (h *Host) Node(n *ir.Node, threads int) float64 {
	w := WorkOf(n)
	if w.Flops+w.Bytes == 0 {
		return 0
	}
	o := h.times(n.Op().Name())
	one, ok := h.measured(n, w, o.One)
	if !ok {
		one = h.usual(w)
	}
	if threads = min(threads, h.Cores); threads < 2 {
		return one
	}
	all, ok := h.measured(n, w, o.All)
	if !ok {
		all = one * h.sharing(n)
	}
	return one * math.Pow(all/one, math.Log(float64(threads))/math.Log(float64(h.Cores)))
}

// times returns what was measured of an op, under the name that the file has it by; nothing where it was not
// measured.
func (h *Host) times(name string) HostOp {
	for _, o := range h.Ops {
		if o.Op == name {
			return o
		}
	}
	return HostOp{}
}

// measured returns a node's seconds by measurements of its op, if there are any.
func (h *Host) measured(n *ir.Node, w op.Work, t HostTimes) (seconds float64, ok bool) {
	if s, count, ok := ProductsOf(n); ok && len(h.Products) > 0 {
		return h.Start + count*h.Product(s)*factorAt(t.Factors, s, count), len(t.Factors) > 0
	}
	if len(t.Points) == 0 {
		return 0, false
	}
	seconds = h.beyond(t.Points, w, amid(t.Points, w))
	if w.Wire > 0 {
		return h.Wake + math.Max(h.Meet, seconds), true
	}
	return math.Max(h.Start, seconds), true
}

// beyond returns the time of work by the measured points, at most what the largest of them took and the usual
// for the rest: where only little work was measured, most of its time is that of starting.
func (h *Host) beyond(points []HostPoint, w op.Work, seconds float64) float64 {
	most := HostPoint{}
	for _, p := range points {
		if p.work() > most.work() {
			most = p
		}
	}
	if w.Flops+w.Bytes <= most.work() {
		return seconds
	}
	return math.Min(seconds, most.Seconds+h.usual(op.Work{Flops: w.Flops, Bytes: w.Bytes}))
}

// usual returns the seconds of work of which nothing more is known.
func (h *Host) usual(w op.Work) float64 {
	switch {
	case w.Wire > 0:
		return h.Wake + h.Meet + w.Bytes/h.Touch
	case w.Flops > fusedIntensity*w.Bytes:
		return h.Start + w.Flops/h.Rate
	}
	return h.Start + w.Bytes/h.Stream
}

// Slowed returns how much longer work takes on each of so many busy cores than on one alone.
func (h *Host) Slowed(busy int) float64 {
	if h.Cores < 2 {
		return 1
	}
	return 1 + (h.Crowd-1)*float64(busy-1)/float64(h.Cores-1)
}

// sharedElements is from where kernels share work: two of the pieces that they cut it into.
const sharedElements = 1 << 14

// sharing returns what is left of a node's time where all threads take part, if it has enough elements for
// them.
func (h *Host) sharing(n *ir.Node) float64 {
	for _, t := range append(ir.TypesOf(n.In()), ir.TypesOf(n.Out())...) {
		if t.Shape.Len() > sharedElements {
			return h.Crowd / float64(h.Cores)
		}
	}
	return 1
}

// Copy returns the seconds that copying bytes takes.
func (h *Host) Copy(bytes float64) float64 { return 2 * bytes / h.Touch }

// Deliver returns the seconds that a message of so many bytes takes both ends together.
func (h *Host) Deliver(bytes float64) float64 { return h.Message + h.Wake + 2*bytes/h.Touch }

func (h *Host) check() error {
	if h.Cores < 1 || h.Cores > 1<<16 || !(h.Crowd >= 1 && h.Crowd < 100) {
		return fmt.Errorf("calibration: host: %d cores that slow each other down %g times: want 1 or more of both",
			h.Cores, h.Crowd)
	}
	for _, x := range []float64{h.Rate, h.Stream, h.Touch} {
		if !(x > 0 && x < 1e18) {
			return fmt.Errorf("calibration: host: rate %g: want more than 0", x)
		}
	}
	for _, x := range []float64{h.Start, h.Meet, h.Message, h.Wake, h.Idle} {
		if !(x >= 0 && x < 1) {
			return fmt.Errorf("calibration: host: %g seconds to start: want 0 to 1", x)
		}
	}
	if !(h.Spread >= 0 && h.Spread <= 1) {
		return fmt.Errorf("calibration: host: spread %g: want 0 to 1", h.Spread)
	}
	for _, p := range h.Products {
		if p.M < 1 || p.N < 1 || p.K < 1 || !(p.Rate > 0 && p.Rate < 1e18) {
			return fmt.Errorf("calibration: host: product %+v: want sides of at least 1 and a rate above 0", p)
		}
	}
	for _, o := range h.Ops {
		for _, f := range append(slices.Clone(o.One.Factors), o.All.Factors...) {
			if f.M < 1 || f.N < 1 || f.K < 1 || !(f.Factor > 0 && f.Factor <= MaxFactor) {
				return fmt.Errorf("calibration: host: %s: factor %+v: want sides of at least 1 and a factor between 0 "+
					"and %d",
					o.Op, f, MaxFactor)
			}
		}
		for _, p := range append(slices.Clone(o.One.Points), o.All.Points...) {
			if !(p.Flops >= 0 && p.Bytes >= 0 && p.Flops+p.Bytes > 0 && p.Flops+p.Bytes < 1e18 && p.Seconds > 0 &&
				p.Seconds < 1e6) {
				return fmt.Errorf("calibration: host: %s: point %+v: want some work in some seconds", o.Op, p)
			}
		}
	}
	return nil
}
