package pass

import (
	"cmp"
	"slices"
	"time"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// Groups fuses ops that iterate over the same elements into loops, each one fused op. It is for a program
// that runs unchanged on a device: values keep their bits, and those that no op outside a loop reads are not
// stored. Ops are fused along values, the largest first, then loops that read the same values.
func Groups(f *ir.Func, c GroupConfig) (*ir.Func, *Grouping, error) {
	start := time.Now()
	f, err := prepare(f)
	if err != nil {
		return nil, nil, err
	}
	g := newGrouping(f)
	g.joinEdges()
	g.joinReaders()
	g.compute()
	if !c.Always {
		g.drop()
	}
	out, err := g.build()
	g.out, g.took = out, time.Since(start)
	return out, g, err
}

// GroupConfig selects which loops are made.
type GroupConfig struct {
	// Always also makes loops that gain nothing, for tests.
	Always bool
}

// maxNodes is the most nodes of a loop: longer ones gain little and take long to compile.
const maxNodes = 96

// unit is a set of nodes that run as one: a loop, or a single node.
type unit struct {
	nodes []int // in program order
	// again lists nodes of other units that are recomputed here, also in program order.
	again []int
	plan  *op.LoopPlan
	// kept is why the unit is not made a loop, although it could be.
	kept string
}

// Grouping is a partition of a program into loops.
type Grouping struct {
	f     *ir.Func
	nodes []*ir.Node
	loops []*op.LoopNode // of each node, nil if loops do not support it
	at    map[*ir.Node]int
	unit  []*unit // of each node
	users [][]int // nodes that read results of a node
	// refused records why two nodes are not in one loop, by the value between them.
	refused []refusal
	// after lists pairs of nodes that stay in order although neither reads the other.
	after [][2]int
	mark  []int
	round int
	costs Costs
	// out is the program with loops, and took the time to make it, including its code.
	out  *ir.Func
	took time.Duration
}

type refusal struct {
	value  *ir.Value
	user   *ir.Node
	reason string
}

func newGrouping(f *ir.Func) *Grouping {
	nodes := f.Nodes()
	g := &Grouping{f: f, nodes: nodes, at: make(map[*ir.Node]int, len(nodes)),
		loops: make([]*op.LoopNode, len(nodes)), unit: make([]*unit, len(nodes)),
		users: make([][]int, len(nodes)), mark: make([]int, len(nodes)), costs: costs()}
	for i, n := range nodes {
		g.at[n], g.unit[i], g.loops[i] = i, &unit{nodes: []int{i}}, op.NewLoopNode(n)
		for _, v := range n.In() {
			if v.Node() == nil {
				continue
			}
			if p := g.at[v.Node()]; !slices.Contains(g.users[p], i) {
				g.users[p] = append(g.users[p], i)
			}
		}
	}
	g.keepOrder()
	return g
}

// keepOrder keeps the order of nodes outside of loops around collectives: all devices must run these in the
// same order, and the computation between them is placed to overlap with them.
func (g *Grouping) keepOrder() {
	meets := slices.ContainsFunc(g.nodes, func(n *ir.Node) bool {
		_, ok := n.Op().(op.Collective)
		return ok
	})
	last := -1
	for i := range g.nodes {
		if !meets || g.loops[i] != nil {
			continue
		}
		if last >= 0 {
			g.users[last] = append(g.users[last], i)
			g.after = append(g.after, [2]int{last, i})
		}
		last = i
	}
}

// free reports whether a node costs nothing wherever it is: a constant.
func (g *Grouping) free(i int) bool {
	return g.loops[i] != nil && g.loops[i].Kind() == op.LoopConstant
}

type edge struct {
	from, to int
	bytes    int
}

// joinEdges fuses producers of values with their consumers; of values of equal size the later first, so that
// what is needed late is not computed early and kept.
func (g *Grouping) joinEdges() {
	var edges []edge
	for i, n := range slices.Backward(g.nodes) {
		if g.loops[i] == nil || g.free(i) {
			continue
		}
		for _, u := range slices.Backward(g.users[i]) {
			if g.loops[u] != nil {
				edges = append(edges, edge{i, u, n.Out()[0].Type().Bytes()})
			}
		}
	}
	slices.SortStableFunc(edges, func(a, b edge) int { return cmp.Compare(b.bytes, a.bytes) })
	for _, e := range edges {
		if reason := g.join(g.unit[e.from], g.unit[e.to]); reason != "" {
			g.refused = append(g.refused, refusal{g.nodes[e.from].Out()[0], g.nodes[e.to], reason})
		}
	}
}

// joinReaders fuses loops that read the same large value.
func (g *Grouping) joinReaders() {
	readers := map[*ir.Value][]int{}
	var values []*ir.Value
	for i, n := range g.nodes {
		if g.loops[i] == nil {
			continue
		}
		for _, v := range n.In() {
			if v.Node() != nil && g.free(g.at[v.Node()]) {
				continue
			}
			if readers[v] == nil {
				values = append(values, v)
			}
			readers[v] = append(readers[v], i)
		}
	}
	slices.SortStableFunc(
		values,
		func(a, b *ir.Value) int { return cmp.Compare(b.Type().Bytes(), a.Type().Bytes()) },
	)
	for _, v := range values {
		list := readers[v]
		if len(list) > 16 { // a value with many readers, such as a mask: there are too many pairs
			list = list[:16]
		}
		for k, i := range list {
			for _, j := range list[k+1:] {
				if u, w := g.unit[i], g.unit[j]; v.Shape().Len() == elements(u) && v.Shape().Len() == elements(w) {
					g.join(u, w)
				}
			}
		}
	}
}

// elements returns the number of elements of a loop.
func elements(u *unit) int {
	if u.plan == nil {
		return 0
	}
	return u.plan.Rows * u.plan.Cols
}

// join merges two units, or returns why it cannot.
func (g *Grouping) join(a, b *unit) string {
	if a == b {
		return ""
	}
	if len(a.nodes)+len(b.nodes) > maxNodes {
		return "the loop would be too long"
	}
	if g.around(a, b) {
		return "what lies between them is not in the loop"
	}
	nodes := append(slices.Clone(a.nodes), b.nodes...)
	slices.Sort(nodes)
	plan, err := op.PlanLoop(g.with(nodes))
	if err != nil {
		return err.Error()
	}
	a.nodes, a.plan = nodes, plan
	for _, i := range b.nodes {
		g.unit[i] = a
	}
	return ""
}

// with returns nodes and the constants that they read, in the form of a loop.
func (g *Grouping) with(nodes []int) []*op.LoopNode {
	list := make([]*op.LoopNode, 0, len(nodes)+4)
	var constants []int
	for _, i := range nodes {
		for _, v := range g.nodes[i].In() {
			if v.Node() == nil {
				continue
			}
			if k := g.at[v.Node()]; g.free(k) && !slices.Contains(constants, k) {
				constants = append(constants, k)
				list = append(list, g.loops[k])
			}
		}
		if !g.free(i) {
			list = append(list, g.loops[i])
		}
	}
	return list
}

// around reports whether a path between two units, in either direction, passes through a third.
func (g *Grouping) around(a, b *unit) bool {
	g.round++
	var stack []*unit
	visit := func(u *unit, direct bool) bool {
		for _, i := range u.nodes {
			for _, next := range g.users[i] {
				v := g.unit[next]
				if v == a || v == b {
					if direct {
						continue
					}
					return true
				}
				if g.mark[v.nodes[0]] != g.round {
					g.mark[v.nodes[0]] = g.round
					stack = append(stack, v)
				}
			}
		}
		return false
	}
	visit(a, true)
	visit(b, true)
	for len(stack) > 0 {
		u := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if visit(u, false) {
			return true
		}
	}
	return false
}
