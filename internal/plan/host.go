package plan

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// Host is what a core of this machine does. In-process devices compute on one thread each and share the cores, so their step
// is priced by the seconds of one core, whoever has it.
type Host struct {
	Cores int `yaml:"cores" json:"cores"`
	// Crowd is how much longer work takes where all cores have some: they share memory, and often the clock.
	Crowd float64 `yaml:"crowd" json:"crowd"`
	// Start is the seconds of an op that does nothing.
	Start float64 `yaml:"start" json:"start"`
	// Rate is operations a second of dense ops that were not measured, Stream bytes a second of all others.
	Rate   float64 `yaml:"rate" json:"rate"`
	Stream float64 `yaml:"stream" json:"stream"`
	// Meet is the seconds that each member spends on coming to a collective, Message those of both ends of a message, Touch the
	// bytes a second that either reads and writes where the collective was not measured by name.
	Meet    float64 `yaml:"meet" json:"meet"`
	Message float64 `yaml:"message" json:"message"`
	// Wake is what either costs a device besides that waits for others and goes on.
	Wake  float64 `yaml:"wake" json:"wake"`
	Touch float64 `yaml:"touch" json:"touch"`
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

// HostOp is what an op was measured to take. A product has a factor: its time over that of the grid's.
type HostOp struct {
	Op     string      `yaml:"op" json:"op"`
	Factor float64     `yaml:"factor,omitempty" json:"factor,omitempty"`
	Points []HostPoint `yaml:"points,omitempty" json:"points,omitempty"`
}

// HostPoint is the seconds of an op of so many operations and bytes.
type HostPoint struct {
	Flops   float64 `yaml:"flops" json:"flops"`
	Bytes   float64 `yaml:"bytes" json:"bytes"`
	Seconds float64 `yaml:"seconds" json:"seconds"`
}

// ProductOf is the sides of the product that a node is, if it is one: each of batch products is m×k by k×n.
func ProductOf(n *ir.Node) (batch, rows, columns, terms int, ok bool) {
	o, isOp := n.Op().(op.Op)
	if !isOp {
		return 0, 0, 0, 0, false
	}
	in, out := types(n.In()), types(n.Out())
	d, ok := contraction(o, in, out)
	w := o.Work(in, out)
	if !ok || d.flops() < 0.9*w.Flops || d.flops() > 1.1*w.Flops {
		return 0, 0, 0, 0, false
	}
	return d.batch * d.groups, d.m, d.n, d.k, true
}

// WorkOf is a node's work; it is nothing where nothing is computed or moved.
func WorkOf(n *ir.Node) op.Work {
	o, ok := n.Op().(op.Op)
	if !ok {
		return op.Work{}
	}
	if _, free := o.(op.Aliaser); free {
		return op.Work{}
	}
	return o.Work(types(n.In()), types(n.Out()))
}

// Node is the seconds that one core takes for a node; of a collective, for one member's part in it.
func (h *Host) Node(n *ir.Node) float64 {
	w := WorkOf(n)
	if w.Flops+w.Bytes == 0 {
		return 0
	}
	least, wake := h.Start, 0.0
	if w.Wire > 0 {
		least, wake = h.Meet, h.Wake
	}
	at := slices.IndexFunc(h.Ops, func(o HostOp) bool { return o.Op == n.Op().Name() })
	if batch, m, cols, k, ok := ProductOf(n); ok && len(h.Products) > 0 {
		t := h.Product(batch, m, cols, k)
		if at >= 0 && h.Ops[at].Factor > 0 {
			t *= h.Ops[at].Factor
		}
		return t + h.Start
	}
	if at >= 0 && len(h.Ops[at].Points) > 0 {
		return wake + math.Max(least, amid(h.Ops[at].Points, w))
	}
	if w.Wire > 0 {
		return wake + least + w.Bytes/h.Touch
	}
	if w.Flops > fusedIntensity*w.Bytes {
		return h.Start + w.Flops/h.Rate
	}
	return h.Start + w.Bytes/h.Stream
}

// amid is the time of an op by the measured points around it. Points of about as many operations for each byte, by which an op's inner
// loops are long or short, are interpolated by work, and of several such lines those count most that are near.
func amid(points []HostPoint, w op.Work) float64 {
	lines := map[float64][]HostPoint{}
	var keys []float64
	for _, p := range points {
		k := math.Round(intensity(p.Flops, p.Bytes))
		if lines[k] == nil {
			keys = append(keys, k)
		}
		lines[k] = append(lines[k], p)
	}
	slices.Sort(keys)
	logs, weights := 0.0, 0.0
	for _, k := range keys {
		weight := math.Exp(-3 * math.Abs(intensity(w.Flops, w.Bytes)-k))
		logs += weight * math.Log(between(lines[k], w.Flops+w.Bytes))
		weights += weight
	}
	return math.Exp(logs / weights)
}

// intensity is the operations for each byte, by doublings.
func intensity(flops, bytes float64) float64 { return math.Log2(flops/(bytes+1) + 1) }

// between is the time of so much work on the line through points. Beyond both ends time goes with work.
func between(points []HostPoint, work float64) float64 {
	points = slices.SortedStableFunc(slices.Values(points), func(a, b HostPoint) int { return cmp.Compare(a.work(), b.work()) })
	i := sort.Search(len(points), func(i int) bool { return points[i].work() >= work })
	switch {
	case i == 0:
		return points[0].Seconds * work / points[0].work()
	case i == len(points):
		return points[i-1].Seconds * work / points[i-1].work()
	}
	a, b := points[i-1], points[i]
	return a.Seconds + (work-a.work())/(b.work()-a.work())*(b.Seconds-a.Seconds)
}

func (p HostPoint) work() float64 { return p.Flops + p.Bytes }

// Product is the seconds of products of one shape: the rate is that between the grid's shapes around it, by logarithms of the
// sides.
func (h *Host) Product(batch, m, n, k int) float64 {
	var axes [3][]int
	rates := map[[3]int]float64{}
	for _, p := range h.Products {
		key := [3]int{p.M, p.N, p.K}
		rates[key] = p.Rate
		for i, side := range key {
			if !slices.Contains(axes[i], side) {
				axes[i] = append(axes[i], side)
			}
		}
	}
	var low, high [3]int
	var part [3]float64
	for i, side := range [3]int{m, n, k} {
		slices.Sort(axes[i])
		low[i], high[i], part[i] = around(axes[i], side)
	}
	logs, weights := 0.0, 0.0
	for corner := range 8 {
		key, w := low, 1.0
		for i := range 3 {
			if corner>>i&1 == 1 {
				key[i] = high[i]
				w *= part[i]
			} else {
				w *= 1 - part[i]
			}
		}
		if r := rates[key]; r > 0 && w > 0 {
			logs, weights = logs+w*math.Log(r), weights+w
		}
	}
	rate := h.Rate
	if weights > 0 {
		rate = math.Exp(logs / weights)
	}
	return 2 * float64(batch) * float64(m) * float64(n) * float64(k) / rate
}

// around is the neighbours of a side on an axis and how far it lies between them.
func around(axis []int, side int) (low, high int, part float64) {
	i := sort.SearchInts(axis, side)
	switch {
	case i == 0:
		return axis[0], axis[0], 0
	case i == len(axis):
		return axis[i-1], axis[i-1], 0
	}
	low, high = axis[i-1], axis[i]
	return low, high, math.Log(float64(side)/float64(low)) / math.Log(float64(high)/float64(low))
}

// Copy is the seconds that copying bytes takes.
func (h *Host) Copy(bytes float64) float64 { return 2 * bytes / h.Touch }

// Deliver is the seconds that a message of so many bytes takes both ends together.
func (h *Host) Deliver(bytes float64) float64 { return h.Message + h.Wake + 2*bytes/h.Touch }

func (h *Host) check() error {
	if h.Cores < 1 || h.Cores > 1<<16 || !(h.Crowd >= 1 && h.Crowd < 100) {
		return fmt.Errorf("calibration: host: %d cores that slow each other down %g times: want 1 or more of both", h.Cores, h.Crowd)
	}
	for _, x := range []float64{h.Rate, h.Stream, h.Touch} {
		if !(x > 0 && x < 1e18) {
			return fmt.Errorf("calibration: host: rate %g: want more than 0", x)
		}
	}
	for _, x := range []float64{h.Start, h.Meet, h.Message, h.Wake} {
		if !(x >= 0 && x < 1) {
			return fmt.Errorf("calibration: host: %g seconds to start: want 0 to 1", x)
		}
	}
	for _, p := range h.Products {
		if p.M < 1 || p.N < 1 || p.K < 1 || !(p.Rate > 0 && p.Rate < 1e18) {
			return fmt.Errorf("calibration: host: product %+v: want sides of at least 1 and a rate above 0", p)
		}
	}
	for _, o := range h.Ops {
		for _, p := range o.Points {
			if !(p.Flops >= 0 && p.Bytes >= 0 && p.Flops+p.Bytes > 0 && p.Flops+p.Bytes < 1e18 && p.Seconds > 0 && p.Seconds < 1e6) {
				return fmt.Errorf("calibration: host: %s: point %+v: want some work in some seconds", o.Op, p)
			}
		}
		if !(o.Factor >= 0 && o.Factor < 1000) {
			return fmt.Errorf("calibration: host: %s: factor %g: want 0 to 1000", o.Op, o.Factor)
		}
	}
	return nil
}
