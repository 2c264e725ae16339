package shard

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// Graph is what inference works on: values, and the rules that connect them. Infer makes one from a program;
// connections that are not ops, such as barriers and groups of values with one layout, are added explicitly.
type Graph struct {
	reach  Reach
	values []value
	edges  []edge
	// returns connects values to what a program returns; they hold before and after each round.
	returns []edge
	grids   []*grid // by number, from 1
	users   [][]int32
	rules   map[string]*Spread
	work    *work
	trace   []Choice
	round   round
}

// value holds what is known about one tensor so far.
type value struct {
	shape []int
	size  int
	dims  []dim
	// asked is the annotation, while dims of a later priority are held back; nil if there are none.
	asked []dim
	// barred holds axes that must not split any dim, because the value is replicated or partial along them.
	barred, held refs
	partial      []mesh.Pending
	copies       mesh.Axes
	grid         int // 0 until known
	version      int32
	annotated    bool
}

type dim struct {
	axes     refs
	open     bool
	priority int
}

// edge connects values: an op's operands and results.
type edge struct {
	rule    *Spread
	tensors []int
	name    string
	pos     ir.Pos
	limit   Direction
	// busy means that an operand has other users.
	busy bool
	// constraint means that the result is annotated on behalf of the operand.
	constraint bool
	seen       [2]visit
}

// visit is the state of an edge when last visited: nothing changes if it is the same.
type visit struct {
	sum   int32
	round round
}

// Choice is one decision: axes that were added to a dim, and their origin.
type Choice struct {
	Value, Dim int
	Axes       mesh.Axes
	// From is the value that had the axes, By the op through which they came, Pos its line.
	From int
	By   string
	Pos  ir.Pos
	// Round names the round of the decision.
	Round string
}

// String describes the decision.
func (c Choice) String() string {
	text := fmt.Sprintf("dim %d by %s from %%%d through %s", c.Dim, c.Axes, c.From, c.By)
	if known(c.Pos) {
		text += " at " + string(c.Pos)
	}
	return text + " (" + c.Round + ")"
}

// known reports whether a position is known: parsed programs may have none.
func known(p ir.Pos) bool { return p != "" && p != "-" }

// NewGraph returns an empty graph.
func NewGraph(r Reach) *Graph { return &Graph{reach: r, rules: map[string]*Spread{}, work: &work{}} }

// Value adds a tensor without any layout and returns its number.
func (g *Graph) Value(shape []int) int {
	v := value{shape: shape, size: 1, dims: make([]dim, len(shape))}
	for d, n := range shape {
		v.size *= n
		v.dims[d].open = true
	}
	g.values = append(g.values, v)
	return len(g.values) - 1
}

// Annotate requests a layout for a value. A nil mesh is for a Sharding without axes, which only closes dims.
func (g *Graph) Annotate(v int, m *mesh.Mesh, s mesh.Sharding) error {
	x := &g.values[v]
	switch {
	case m != nil:
		if err := s.Check(m, len(x.shape)); err != nil {
			return err
		}
		x.grid = g.grid(m)
	case len(s.Spec.Dims) != len(x.shape) || len(s.Freedom) != len(x.shape):
		return fmt.Errorf("sharding %s: %d dims: want %d", s, len(s.Spec.Dims), len(x.shape))
	case len(s.Spec.Used())+len(s.Replicated) > 0:
		return fmt.Errorf("sharding %s: it names axes: want a mesh that has them", s)
	}
	x.annotated, x.version = true, 1
	grid := g.gridOf(x.grid)
	x.barred = grid.refs(s.Replicated)
	x.partial, x.copies = s.Spec.Partial, s.Replicated
	for _, p := range s.Spec.Partial {
		x.barred = append(x.barred, grid.refs(mesh.Axes{p.Sub})...)
	}
	for d := range x.dims {
		x.dims[d] = dim{axes: grid.refs(s.Spec.Dims[d]), open: s.Freedom[d].Open, priority: s.Freedom[d].Priority}
		if x.dims[d].priority != 0 {
			x.asked = make([]dim, len(x.dims))
		}
	}
	copy(x.asked, x.dims)
	return nil
}

// grid returns the number of a mesh.
func (g *Graph) grid(m *mesh.Mesh) int {
	for i, x := range g.grids {
		if x.mesh == m || x.mesh.Equal(m) {
			return i + 1
		}
	}
	g.grids = append(g.grids, newGrid(m))
	return len(g.grids)
}

// gridOf returns a mesh by number; an empty one if it is not known.
func (g *Graph) gridOf(i int) *grid {
	if i == 0 {
		return &grid{}
	}
	return g.grids[i-1]
}

// Op connects the operands and results of an op.
func (g *Graph) Op(o op.Op, pos ir.Pos, in, out []ir.Type, operands, results []int) error {
	rule, err := g.rule(o, in, out)
	if err != nil {
		return err
	}
	_, constraint := o.(op.Constrainer)
	g.edges = append(g.edges, edge{
		rule: rule, tensors: slices.Concat(operands,
			results), name: o.Name(), pos: pos, limit: BothWays, constraint: constraint,
	})
	return nil
}

// rule returns SpreadOf, cached, because layers repeat.
func (g *Graph) rule(o op.Op, in, out []ir.Type) (*Spread, error) {
	key := append([]byte(o.Name()), o.Rule(in)...)
	for _, t := range slices.Concat(in, out) {
		for _, n := range t.Shape {
			key = append(key, byte(n), byte(n>>8), byte(n>>16), byte(n>>24), byte(n>>32))
		}
		key = append(key, '|')
	}
	key = append(key, op.CooperativeRuleOf(o, in).Rule...)
	if _, ok := o.(op.Follower); ok {
		key = append(key, ir.FormatOp(o)...)
	}
	if s, ok := g.rules[string(key)]; ok {
		return s, nil
	}
	s, err := SpreadOf(o, in, out, g.reach)
	if err == nil {
		g.rules[string(key)] = s
	}
	return s, err
}

// Tie adds an op of which only the rule is known.
func (g *Graph) Tie(name string, rule *Spread, operands, results []int) {
	g.edges = append(g.edges, edge{rule: rule, tensors: slices.Concat(operands, results), name: name,
		limit: BothWays})
}

// Barrier connects two values of one shape in some directions only.
func (g *Graph) Barrier(x, y int, d Direction) {
	g.edges = append(g.edges, edge{rule: g.same(x), tensors: []int{x, y}, name: "barrier", limit: d})
}

// Return adds what a program returns for a value, and returns its number: it may have an annotation of its
// own.
func (g *Graph) Return(v int) int {
	r := g.Value(g.values[v].shape)
	g.returns = append(g.returns, edge{rule: g.same(v), tensors: []int{v, r}, name: "return", limit: BothWays})
	return r
}

// Alike makes values of one shape have one layout. Those without annotation take that of the others.
func (g *Graph) Alike(values ...int) {
	first := slices.IndexFunc(values, func(v int) bool { return g.values[v].annotated && !g.values[v].free() })
	for i, v := range values {
		if x := &g.values[v]; first >= 0 && i != first && x.free() {
			*x = g.values[values[first]]
			x.dims = slices.Clone(x.dims)
		}
		if i > 0 {
			g.edges = append(g.edges, edge{rule: g.same(v), tensors: []int{values[i-1], v}, name: "alike",
				limit: BothWays})
		}
	}
}

// free reports whether a value has no annotation.
func (x *value) free() bool {
	for _, d := range x.dims {
		if !d.open || len(d.axes) > 0 {
			return false
		}
	}
	return len(x.barred) == 0
}

// same returns the rule of an identity.
func (g *Graph) same(v int) *Spread {
	s := &Spread{Operands: 1, Dims: make([][][]int, 2), elementwise: true, pass: BothWays}
	for d, n := range g.values[v].shape {
		s.Factors = append(s.Factors, Factor{Name: byte('a' + d%26), Size: n})
		s.Dims[0] = append(s.Dims[0], []int{d})
	}
	s.Dims[1] = s.Dims[0]
	return s
}

// Sharding returns the layout of a value, including open dims.
func (g *Graph) Sharding(v int) mesh.Sharding {
	x := &g.values[v]
	s := mesh.Closed(mesh.Whole(len(x.shape)))
	grid := g.gridOf(x.grid)
	for d := range x.dims {
		s.Spec.Dims[d] = grid.names(x.dims[d].axes)
		s.Freedom[d].Open = x.dims[d].open
	}
	s.Spec.Partial, s.Replicated = x.partial, x.copies
	return s
}

// Mesh returns the mesh of a value; nil if it is not known.
func (g *Graph) Mesh(v int) *mesh.Mesh { return g.gridOf(g.values[v].grid).mesh }

// Choices returns all decisions in order.
func (g *Graph) Choices() []Choice { return g.trace }
