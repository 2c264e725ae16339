package search

import (
	"slices"
	"sync"

	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/pipeline"
	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/strategy"
)

// space is the set of strategies that are searched: every division of the devices, and the choices that
// remain in each.
type space struct {
	w     plan.Workload
	world int
	// host is the number of devices of a host, if it is the same for all.
	host int
	pin  Pin
	// offloads lists what may be offloaded to the hosts' memory.
	offloads []strategy.Offload
	// lines caches the reliefs by the number of layers of the longest chunk.
	lines sync.Map
}

func newSpace(w plan.Workload, c *cluster.Cluster, pin Pin) *space {
	s := &space{w: w, world: c.Size(), host: c.Groups[0].Devices, pin: pin, offloads: offloads}
	for _, g := range c.Groups {
		if g.Bus.Bandwidth == 0 {
			s.offloads = offloads[:1] // the bandwidth to the host's memory is not known
		}
	}
	return s
}

// cells returns the divisions of the devices with their micro-batches, which determine the time of
// computation.
func (s *space) cells() []strategy.Strategy {
	var list []strategy.Strategy
	for _, tp := range divisors(s.world) {
		if !s.tensor(tp) {
			continue
		}
		for _, cp := range divisors(s.world / tp) {
			if cp > 1 && (s.w.Seq%(2*cp) != 0 || s.w.Seq/cp < leastContext) {
				continue
			}
			for _, pp := range divisors(s.world / tp / cp) {
				if pp > s.w.Model.Layers {
					break
				}
				list = append(list, s.batches(strategy.Strategy{TP: tp, CP: cp, PP: pp, DP: s.world / tp / cp / pp})...)
			}
		}
	}
	return slices.DeleteFunc(list, func(c strategy.Strategy) bool { return !s.allowsCell(c) })
}

// Limits of the space: shorter parts of a sequence than leastContext leave devices underused, and a
// micro-batch of more than mostTokens on a device is not faster than two.
const (
	leastContext = 1024
	mostTokens   = 1 << 15
)

// tensor reports whether heads and widths divide evenly.
func (s *space) tensor(tp int) bool {
	m := &s.w.Model
	kv := max(1, m.KVHeads)
	if m.KVHeads == 0 {
		kv = m.Heads
	}
	even := m.Heads%tp == 0 && m.Hidden%tp == 0 && (kv%tp == 0 || tp%kv == 0)
	return even && m.FFN%tp == 0 && m.Experts.Shared%tp == 0
}

// batches returns a division with every micro-batch, algorithm of context parallelism and distribution of
// experts.
func (s *space) batches(c strategy.Strategy) []strategy.Strategy {
	if s.w.Batch%c.DP != 0 {
		return nil
	}
	kinds := []string{""}
	if c.CP > 1 {
		kinds = []string{"ring", "gather"}
		if (s.w.Model.Heads/c.TP)%c.CP == 0 {
			kinds = append(kinds, "ulysses")
		}
	}
	sequence := []bool{false}
	if c.TP > 1 && s.w.Seq/c.CP%c.TP == 0 {
		sequence = []bool{true, false}
	}
	var list []strategy.Strategy
	for _, micro := range divisors(s.w.Batch / c.DP) {
		if micro > 1 && micro*s.w.Seq/c.CP > mostTokens {
			break
		}
		for _, kind := range kinds {
			for _, sp := range sequence {
				for _, e := range s.experts(c) {
					x := c
					x.MicroBatch, x.Context, x.Sequence, x.EP, x.ETP = micro, kind, sp, e.ep, e.etp
					list = append(list, x)
				}
			}
		}
	}
	return list
}

type spread struct{ ep, etp int }

// experts returns the numbers of devices over which experts, and each single expert, may be split.
func (s *space) experts(c strategy.Strategy) []spread {
	if !s.w.Model.MoE() {
		return []spread{{}}
	}
	var list []spread
	for _, etp := range slices.Compact([]int{1, c.TP}) {
		if s.w.Model.Experts.FFN%etp != 0 {
			continue
		}
		for _, ep := range divisors(s.w.Model.Experts.Count) {
			if c.DP*c.CP*c.TP%(ep*etp) == 0 {
				list = append(list, spread{ep, etp})
			}
		}
	}
	return list
}

// allowsCell checks what the pin fixes about cells.
func (s *space) allowsCell(c strategy.Strategy) bool {
	for _, key := range []string{"dp", "tp", "pp", "cp", "ep", "etp", "micro_batch", "sp", "cp_kind"} {
		if s.pin.has(key) && !s.pin.same(key, c) {
			return false
		}
	}
	return true
}

// order is a pipeline schedule with its number of chunks.
type order struct {
	vpp      int
	schedule string
}

// orders returns the schedules of a cell: classic ones, those with split backward passes, and interleaved
// ones.
func (s *space) orders(c strategy.Strategy) []order {
	if c.PP == 1 {
		return s.allowedOrders(c, []order{{1, ""}})
	}
	var list, open []order
	for _, class := range pipeline.Classes() {
		switch {
		case class.Worse != "":
		case class.Chunks == 0:
			for _, v := range s.chunks(c) {
				open = append(open, order{v, class.Name})
			}
		case class.Chunks*c.PP <= s.w.Model.Layers:
			list = append(list, order{class.Chunks, class.Name})
		}
	}
	return s.allowedOrders(c, append(list, open...))
}

// chunks returns the possible numbers of chunks per rank if the schedule does not fix it. If chunks differ in
// layers, the longest counts, so only numbers that make it shorter are considered.
func (s *space) chunks(c strategy.Strategy) (list []int) {
	for v := 2; v*c.PP <= s.w.Model.Layers; v++ {
		if v == 2 || ceil(s.w.Model.Layers, v*c.PP) < ceil(s.w.Model.Layers, (v-1)*c.PP) {
			list = append(list, v)
		}
	}
	return list
}

func (s *space) allowedOrders(c strategy.Strategy, list []order) []order {
	return slices.DeleteFunc(list, func(o order) bool {
		c.VPP, c.Schedule = o.vpp, o.schedule
		return s.pin.has("vpp") && !s.pin.same("vpp", c) || s.pin.has("schedule") && !s.pin.same("schedule", c)
	})
}

// share is how state is sharded over data parallelism.
type share struct{ zero, shard int }

// shares returns the ZeRO stages, over all replicas or over those of a host.
func (s *space) shares(c strategy.Strategy) []share {
	list := []share{{0, 0}}
	if c.DP*c.CP > 1 {
		list = append(list, share{1, 0}, share{2, 0}, share{3, 0})
		if d := s.host / (c.TP * c.CP); d > 1 && d < c.DP && c.DP%d == 0 {
			list = append(list, share{1, d}, share{2, d}, share{3, d})
		}
	}
	return slices.DeleteFunc(list, func(x share) bool {
		if x.zero == 2 && c.PP > 1 && !s.pin.has("zero") {
			return true // micro-batches in flight keep gradients unsharded, as in stage 1
		}
		c.Zero, c.Shard = x.zero, x.shard
		return s.pin.has("zero") && !s.pin.same("zero", c) || s.pin.has("shard") && !s.pin.same("shard", c)
	})
}

// reliefs returns the ways to save memory, by increasing cost along each line: recomputed layers or offloaded
// activations, and offloaded optimizer state. Along a line time grows, and memory decreases from its second
// entry on.
func (s *space) reliefs(c strategy.Strategy) [][]relief {
	deepest := ceil(s.w.Model.Layers, c.PP*max(1, c.VPP))
	if len(c.Layers) > 0 {
		deepest = slices.Max(c.Layers)
	}
	if lines, ok := s.lines.Load(deepest); ok {
		return lines.([][]relief)
	}
	lines := s.newReliefs(deepest)
	s.lines.Store(deepest, lines)
	return lines
}

func (s *space) newReliefs(deepest int) [][]relief {
	modes := []strategy.Recompute{""}
	if s.w.Software.Unfused {
		modes = append(modes, strategy.Selective)
	}
	for n := 1; n < deepest; n++ {
		modes = append(modes, strategy.FullLayers(n))
	}
	modes = append(modes, strategy.Full)
	var lines [][]relief
	for _, o := range s.offloads {
		line := make([]relief, 0, len(modes))
		for i, m := range modes {
			if i > 0 && o.Activations > 0 {
				break // activations that are not kept need not be recomputed
			}
			if r := (relief{m, o}); s.allowsRelief(r) {
				line = append(line, r)
			}
		}
		if len(line) > 0 {
			lines = append(lines, line)
		}
	}
	return lines
}

type relief struct {
	recompute strategy.Recompute
	offload   strategy.Offload
}

// offloads lists the parts of state that may be offloaded, the cheapest first.
var offloads = []strategy.Offload{
	{}, {Optimizer: 0.5}, {Optimizer: 1}, {Activations: 0.5}, {Optimizer: 0.5, Activations: 0.5}, {Optimizer: 1,
		Activations: 0.5},
	{Activations: 1}, {Optimizer: 0.5, Activations: 1}, {Optimizer: 1, Activations: 1},
}

func (s *space) allowsRelief(r relief) bool {
	c := strategy.Strategy{Recompute: r.recompute, Offload: r.offload}
	for _, key := range []string{"recompute", "offload.optimizer", "offload.activations"} {
		if s.pin.has(key) && !s.pin.same(key, c) {
			return false
		}
	}
	return true
}

func divisors(n int) []int {
	var low, high []int
	for d := 1; d*d <= n; d++ {
		if n%d == 0 {
			low = append(low, d)
			if d*d < n {
				high = append(high, n/d)
			}
		}
	}
	slices.Reverse(high)
	return append(low, high...)
}

func ceil(a, b int) int { return (a + b - 1) / b }
