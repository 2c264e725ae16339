package auto

import (
	"slices"
	"strings"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/strategy"
)

// space is the set of candidates for a run: strategies, and for each the layouts of weights and of the batch.
type space struct {
	c    *Config
	rows int
	// classes groups equivalent parameters: of one type, with names that differ in numbers only.
	classes [][]int
	// given holds the parameters with a requested layout.
	given map[int]mesh.Spec
	// devices is the number that the meshes of the model's tensors need; held is whether its parameters or
	// batches are on meshes, which then determine the degrees.
	devices int
	held    bool
	// statistics means that the program computes statistics of its rows, as batch normalisation does. Those of
	// micro-batches would differ, so there is only one micro-batch.
	statistics bool
}

func newSpace(c *Config, rows int) *space {
	s := &space{c: c, rows: rows, given: map[int]mesh.Spec{}}
	at := map[string]int{}
	for i, p := range c.Run.Params {
		key := withoutNumbers(p.Name) + p.Type.String()
		for _, a := range c.Run.Annotations {
			if _, said := s.given[i]; !said && a.Matches(p.Name) {
				s.given[i] = a.Sharding.Spec
				key = p.Name
			}
		}
		k, known := at[key]
		if !known {
			k = len(s.classes)
			at[key], s.classes = k, append(s.classes, nil)
		}
		s.classes[k] = append(s.classes[k], i)
	}
	return s
}

// takesStatistics reports whether a program computes statistics of its rows.
func takesStatistics(f *ir.Func) bool {
	return slices.ContainsFunc(f.Nodes(), func(n *ir.Node) bool {
		_, ok := n.Op().(op.RowStatistic)
		return ok
	})
}

// withoutNumbers returns a name without its numbers.
func withoutNumbers(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, name)
}

// meshes returns strategies with all degrees that divide the devices, those that use all of them first.
func (s *space) meshes() []strategy.Strategy {
	var list []strategy.Strategy
	if m := s.c.Pinned; s.devices > 0 && max(m.DP, m.TP, m.PP, m.CP, m.EP, m.Branches) == 0 {
		if list = append(list, m); s.held {
			return list
		}
	}
	cp := max(1, s.c.Pinned.CP)
	for _, n := range slices.Backward(divisors(s.c.Machine.Devices / cp)) {
		for _, pp := range divisors(n) {
			for _, tp := range divisors(n / pp) {
				m := s.c.Pinned
				m.DP, m.TP, m.PP = n/pp/tp, tp, pp
				if s.allows(m) && s.rows%(m.DP*max(1, m.Micro)) == 0 {
					list = append(list, m)
				}
			}
		}
	}
	if m, ok := s.branches(); ok {
		list = append(list, m)
	}
	return list
}

// branches returns the strategy of two devices for independent branches of the program, if allowed.
func (s *space) branches() (strategy.Strategy, bool) {
	m := s.c.Pinned
	m.Branches = 2
	free := m.DP <= 1 && m.TP <= 1 && m.PP <= 1 && s.c.Pinned.Branches != 1 && len(s.given) == 0 && !pipelined(m)
	m.DP, m.TP, m.PP, m.Micro = 1, 1, 1, max(1, m.Micro)
	return m, free && s.c.Machine.Devices%2 == 0 && m.Check() == nil
}

// allows reports whether a strategy has the pinned degrees.
func (s *space) allows(m strategy.Strategy) bool {
	p := s.c.Pinned
	if p.Branches > 1 {
		return false
	}
	for _, x := range [][2]int{{p.DP, m.DP}, {p.TP, m.TP}, {p.PP, m.PP}} {
		if x[0] > 0 && x[0] != x[1] {
			return false
		}
	}
	return m.PP > 1 || !pipelined(p)
}

// pipelined reports whether a strategy has settings of a pipeline, so that there must be one.
func pipelined(s strategy.Strategy) bool { return s.Schedule != "" || s.VPP > 1 || len(s.Layers) > 0 }

func divisors(n int) []int {
	var list []int
	for d := 1; d <= n; d++ {
		if n%d == 0 {
			list = append(list, d)
		}
	}
	return list
}

// micros returns the possible numbers of micro-batches on a mesh.
func (s *space) micros(m strategy.Strategy) []int {
	if m.Branches > 1 {
		return []int{1}
	}
	if s.c.Pinned.Micro > 0 {
		return []int{s.c.Pinned.Micro}
	}
	if s.statistics {
		return []int{1}
	}
	var list []int
	first, most, dp := max(1, m.PP), max(4, 4*m.PP), max(1, m.DP)
	if placed(m) {
		most = 4 * s.devices // there are no more stages than devices
	}
	for n := first; n <= most && n*dp <= s.rows; n *= 2 {
		if s.rows%(n*dp) == 0 {
			list = append(list, n)
		}
	}
	return list
}

// zeros returns the ZeRO stages that are possible on a mesh.
func (s *space) zeros(m strategy.Strategy) []int {
	if s.c.Pinned.Zero > 0 || m.DP == 1 {
		return []int{s.c.Pinned.Zero}
	}
	return []int{0, 1, 2, 3}
}

func (s *space) recomputes(m strategy.Strategy) []strategy.Recompute {
	if m.Branches > 1 {
		return []strategy.Recompute{strategy.None}
	}
	if s.c.Pinned.Recompute != "" {
		return []strategy.Recompute{s.c.Pinned.Recompute}
	}
	return []strategy.Recompute{strategy.None, "selective", "full"}
}

// weights returns the layouts of a class of parameters on a mesh: replicated, or one dim split by the tensor
// axis.
func (s *space) weights(class int, m strategy.Strategy) []mesh.Spec {
	first := s.classes[class][0]
	if g, ok := s.given[first]; ok {
		return []mesh.Spec{g}
	}
	return splits(s.c.Run.Params[first].Type, 1, m.TP)
}

// inputs returns the layouts of a tensor of the batch on a mesh.
func (s *space) inputs(i int, m strategy.Strategy) []mesh.Spec {
	return splits(s.c.Batch[i], max(1, m.DP)*max(1, m.Micro), m.TP)
}

// splits returns the replicated layout, and one for each dim that is long enough to be split by the tensor
// axis; rows is the number of rows of the first dim that are processed together.
func splits(t ir.Type, rows, n int) []mesh.Spec {
	list := []mesh.Spec{mesh.Whole(len(t.Shape))}
	for d, size := range t.Shape {
		if d == 0 {
			size /= rows
		}
		if n > 1 && (size%n == 0 && size > 0 || size >= evenEnough*n) {
			spec := mesh.Whole(len(t.Shape))
			spec.Dims[d] = mesh.On(strategy.TensorAxis)
			list = append(list, spec)
		}
	}
	return list
}

// evenEnough is the number of elements per device from which a dim is split although it does not divide
// evenly.
const evenEnough = 16

// whole returns a candidate of a mesh in which the tensor axis splits nothing.
func (s *space) whole(m strategy.Strategy) Candidate {
	c := Candidate{Strategy: m}
	if c.Strategy.Micro == 0 {
		c.Strategy.Micro = max(1, m.PP)
	}
	if s.statistics && s.c.Pinned.Micro == 0 {
		c.Strategy.Micro = 1
	}
	for i, p := range s.c.Run.Params {
		spec, ok := s.given[i]
		if !ok {
			spec = mesh.Whole(len(p.Type.Shape))
		}
		c.Weights = append(c.Weights, spec)
	}
	for _, t := range s.c.Batch {
		c.Inputs = append(c.Inputs, mesh.Whole(len(t.Shape)))
	}
	return c
}

// byRows returns the candidate in which the tensor axis splits rows, as the data axes do; false if there are
// too few.
func (s *space) byRows(m strategy.Strategy) (Candidate, bool) {
	c := s.whole(m)
	for i, t := range s.c.Batch {
		if len(t.Shape) == 0 {
			continue
		}
		c.Inputs[i].Dims[0] = mesh.On(strategy.TensorAxis)
		if t.Shape[0]%(m.DP*m.TP*c.Strategy.Micro) != 0 {
			return c, false
		}
	}
	return c, true
}
