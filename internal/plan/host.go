package plan

import (
	"fmt"
	"math"
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// Host is the performance of a core of this machine. In-process devices compute on one thread each and share
// the cores, so their step is priced in seconds of one core, whichever device uses it.
type Host struct {
	Cores int `yaml:"cores" json:"cores"`
	// Crowd is the slowdown of work when all cores are busy: they share memory bandwidth, and often the clock.
	Crowd float64 `yaml:"crowd" json:"crowd"`
	// Start is the seconds of an op that does nothing.
	Start float64 `yaml:"start" json:"start"`
	// Rate is operations per second of dense ops that were not measured, Stream bytes per second of all others.
	Rate   float64 `yaml:"rate" json:"rate"`
	Stream float64 `yaml:"stream" json:"stream"`
	// Meet is the seconds that each member spends on joining a collective, Message those of both ends of a
	// message, Touch the bytes per second that either reads and writes if the collective was not measured by
	// name.
	Meet    float64 `yaml:"meet" json:"meet"`
	Message float64 `yaml:"message" json:"message"`
	// Wake is the additional cost for a device that waits for others and continues.
	Wake float64 `yaml:"wake" json:"wake"`
	// Idle is the latency in seconds until an idle core starts new work, during which nothing is computed.
	Idle float64 `yaml:"idle,omitempty" json:"idle,omitempty"`
	// Spread is the variation of an op's time, as a fraction of it.
	Spread float64 `yaml:"spread,omitempty" json:"spread,omitempty"`
	Touch  float64 `yaml:"touch" json:"touch"`
	// Products is a grid of products, in operations per second; Ops holds other ops by name.
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

// HostOp is the measured time of an op in training steps: on one thread, and on all threads if kernels share
// the work.
type HostOp struct {
	Op  string    `yaml:"op" json:"op"`
	One HostTimes `yaml:"one,omitempty" json:"one,omitzero"`
	All HostTimes `yaml:"all,omitempty" json:"all,omitzero"`
}

// HostTimes holds measurements of an op: factors if its time is proportional to products, points otherwise.
type HostTimes struct {
	Factors []HostFactor `yaml:"factors,omitempty" json:"factors,omitempty"`
	Points  []HostPoint  `yaml:"points,omitempty" json:"points,omitempty"`
}

// MaxFactor is the largest HostFactor.Factor. A product that took longer was waiting for a core, not
// computing.
const MaxFactor = 1000

// HostFactor is the time of a product, or of attention, relative to that of the grid's products with the same
// sides.
type HostFactor struct {
	M int `yaml:"m" json:"m"`
	N int `yaml:"n" json:"n"`
	K int `yaml:"k" json:"k"`
	// Count is the number of products: the more, the better threads share them.
	Count  float64 `yaml:"count,omitempty" json:"count,omitempty"`
	Factor float64 `yaml:"factor" json:"factor"`
}

// HostPoint is the seconds of an op with the given operations and bytes.
type HostPoint struct {
	Flops   float64 `yaml:"flops" json:"flops"`
	Bytes   float64 `yaml:"bytes" json:"bytes"`
	Seconds float64 `yaml:"seconds" json:"seconds"`
}

// Sides are those of a product, M×K by K×N.
type Sides struct{ M, N, K int }

// ProductsOf returns the product that a node's time is proportional to, if there is one, and how many of them
// its operations amount to: attention is products of queries with keys, fewer if a mask excludes some.
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

// WorkOf returns a node's work; it is zero if nothing is computed or moved.
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

// Node returns the seconds of a node on a device with the given number of threads; of a collective, those of
// one member's part.
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

// times returns the measurements of an op, under the name that the file has; empty if it was not measured.
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

// beyond limits the time that was extrapolated from the measured points: for more work than the largest of
// them, to its time plus the usual time of the work. If only little work was measured, most of its time is
// start-up.
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

// usual returns the seconds of work of an op that was not measured.
func (h *Host) usual(w op.Work) float64 {
	switch {
	case w.Wire > 0:
		return h.Wake + h.Meet + w.Bytes/h.Touch
	case w.Flops > fusedIntensity*w.Bytes:
		return h.Start + w.Flops/h.Rate
	}
	return h.Start + w.Bytes/h.Stream
}

// Slowed returns the slowdown of work on each of the given number of busy cores, relative to a single one.
func (h *Host) Slowed(busy int) float64 {
	if h.Cores < 2 {
		return 1
	}
	return 1 + (h.Crowd-1)*float64(busy-1)/float64(h.Cores-1)
}

// sharedElements is the number of elements from which kernels share work: two of the pieces that they split
// it into.
const sharedElements = 1 << 14

// sharing returns the fraction of a node's time that remains if all threads take part, if it has enough
// elements.
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

// Deliver returns the seconds that a message costs both ends together.
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
