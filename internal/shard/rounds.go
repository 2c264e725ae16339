package shard

import (
	"fmt"
	"slices"
)

// Strategy limits inference.
type Strategy uint8

// Strategies, each includes all of those after it.
const (
	// ByUser: by the priorities of annotations, and for each of them ByOp.
	ByUser Strategy = iota
	// ByOp: element-wise ops and the like before products, and those before what needs communication.
	ByOp
	// Aggressive: where factors of an op want the same axis, one wins.
	Aggressive
	// Basic: only what no tensor objects to.
	Basic
)

// round is one pass to a fixpoint.
type round struct {
	priority int
	level    level
	strategy strategy
}

func (r round) String() string {
	text := r.level.String() + ", " + r.strategy.String()
	if r.priority > 0 {
		text = fmt.Sprintf("priority %d, ", r.priority) + text
	}
	return text
}

// level selects the ops, and their factors, that take part.
type level uint8

// Levels of ByOp, in order; what takes part in one takes part in all later ones.
const (
	// passing: ops that only pass dims on, whose operands have no other users.
	passing level = iota
	// The same, with any users of their operands: no code names this level.
	_
	// passFactors: factors that cost nothing to split; through broadcasts only backwards.
	passFactors
	// notBroadcast: all factors; through broadcasts only backwards.
	notBroadcast
	everything
)

func (l level) String() string {
	return [...]string{"passing ops of one user", "passing ops", "free factors", "all but broadcasts", "all"}[l]
}

// along returns the direction in which a factor of an edge may propagate at a level.
func (l level) along(e *edge, f int) Direction {
	kind := e.rule.Factors[f].Kind
	d := BothWays
	if e.rule.broadcast && l < everything {
		d = ToOperands
	}
	switch {
	case l >= notBroadcast:
		return d & e.limit
	case kind != Pass:
		return Nowhere
	case l == passFactors:
		return d & e.limit
	case l == passing && e.busy:
		return Nowhere
	}
	return e.rule.pass & e.limit
}

// Run propagates annotations until nothing changes.
func (g *Graph) Run(s Strategy) {
	g.link()
	if s != ByUser {
		g.runLevels(s, 0)
		return
	}
	g.closeConstrained()
	for _, p := range g.priorities() {
		g.hold(p)
		g.runLevels(s, p)
	}
}

// priorities returns all priorities of annotations, and 0.
func (g *Graph) priorities() []int {
	list := []int{0}
	for v := range g.values {
		for _, d := range g.values[v].asked {
			list = append(list, d.priority)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// hold keeps dims of later priorities closed and empty, and their axes from splitting the value's other dims;
// dims of this priority get their annotation.
func (g *Graph) hold(p int) {
	for v := range g.values {
		x := &g.values[v]
		if x.asked == nil {
			continue
		}
		x.held = nil
		for d, a := range x.asked {
			switch {
			case a.priority > p:
				x.dims[d] = dim{}
				x.held = append(x.held, a.axes...)
			case a.priority == p:
				x.dims[d] = a
			}
		}
		x.version++
	}
}

func (g *Graph) runLevels(s Strategy, priority int) {
	first := passing
	if s == Basic || s == Aggressive {
		first = everything
	}
	for l := first; l <= everything; l++ {
		if s != Aggressive {
			g.fixpoint(round{priority, l, basic})
		}
		if s != Basic {
			g.fixpoint(round{priority, l, aggressive})
		}
	}
}

// link determines each value's edges, and the edges whose operands have other users.
func (g *Graph) link() {
	g.users = make([][]int32, len(g.values))
	uses := make([]int, len(g.values))
	for i := range g.edges {
		e := &g.edges[i]
		for t, v := range e.tensors {
			if n := len(g.users[v]); n == 0 || g.users[v][n-1] != int32(i) {
				g.users[v] = append(g.users[v], int32(i))
				if t < e.rule.Operands {
					uses[v]++
				}
			}
		}
	}
	for _, r := range g.returns {
		uses[r.tensors[0]]++
	}
	for i := range g.edges {
		e := &g.edges[i]
		e.busy = slices.ContainsFunc(e.tensors[:e.rule.Operands], func(v int) bool { return uses[v] > 1 })
	}
}

// fixpoint visits edges until none changes anything: in program order, and those that a change may affect
// before the rest.
func (g *Graph) fixpoint(r round) {
	g.round = r
	g.visitReturns(r)
	stack := make([]int32, 0, len(g.edges))
	waiting := make([]bool, len(g.edges))
	for i := len(g.edges) - 1; i >= 0; i-- {
		stack, waiting[i] = append(stack, int32(i)), true
	}
	for len(stack) > 0 {
		i := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		waiting[i] = false
		e := &g.edges[i]
		if !g.visit(e, r) {
			continue
		}
		for _, v := range e.tensors {
			for _, u := range g.users[v] {
				if !waiting[u] {
					stack, waiting[u] = append(stack, u), true
				}
			}
		}
	}
	g.visitReturns(r)
}

func (g *Graph) visitReturns(r round) {
	for i := range g.returns {
		r.level = everything
		g.visit(&g.returns[i], r)
	}
}

// visit propagates through one edge unless its state is the same as the last time.
func (g *Graph) visit(e *edge, r round) bool {
	now := visit{round: r}
	for _, v := range e.tensors {
		now.sum += g.values[v].version
	}
	last := &e.seen[r.strategy]
	if now.sum == 0 || last.sum == now.sum && g.sameDirections(e, last.round, r) {
		return false // nothing is known, or nothing is new
	}
	changed := g.spread(e, r.strategy, func(f int) Direction { return r.level.along(e, f) })
	*last = now
	return changed
}

// sameDirections reports whether an edge propagates the same in both rounds.
func (g *Graph) sameDirections(e *edge, a, b round) bool {
	for f := range e.rule.Factors {
		if a.level.along(e, f) != b.level.along(e, f) {
			return false
		}
	}
	return true
}

// closeConstrained gives a value with a single constraint that leaves nothing open that layout itself,
// because any other layout would be resharded anyway.
func (g *Graph) closeConstrained() {
	by := make([]int, len(g.values)) // the one constraint, plus one; -1 for several
	for i, e := range g.edges {
		if !e.constraint {
			continue
		}
		if x := e.tensors[0]; by[x] == 0 {
			by[x] = i + 1
		} else {
			by[x] = -1
		}
	}
	for v := range by {
		if by[v] > 0 {
			g.copyClosed(v, &g.edges[by[v]-1])
		}
	}
}

// copyClosed gives v the annotation of the constraint's result if that is closed and v has none.
func (g *Graph) copyClosed(v int, e *edge) {
	x, y := &g.values[v], &g.values[e.tensors[1]]
	if x.annotated || y.asked != nil {
		return
	}
	for _, d := range y.dims {
		if d.open {
			return
		}
	}
	*x = *y
	x.dims = slices.Clone(y.dims)
	x.partial, x.copies = nil, nil
	for d := range x.dims {
		g.trace = append(g.trace, Choice{
			Value: v, Dim: d, Axes: g.gridOf(x.grid).names(x.dims[d].axes), From: e.tensors[1], By: e.name, Pos: e.pos,
			Round: "asked",
		})
	}
}
