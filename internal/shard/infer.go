package shard

import (
	"fmt"
	"maps"
	"slices"

	"github.com/galley-ml/galley/internal/fault"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// Config holds the annotations of a program.
type Config struct {
	// Mesh is that of values without any other annotation.
	Mesh *mesh.Mesh
	// Values holds annotations by value ID, mostly of parameters. Those inside a program may also be
	// op.Constrain.
	Values map[int]mesh.Sharding
	// Meshes holds the meshes of annotated values, by ID; others are on Mesh.
	Meshes map[int]*mesh.Mesh
	// Results holds the requested layouts of results, by their number; the zero Sharding requests nothing.
	Results []mesh.Sharding
	// Strategy and Reach limit inference; the zero values mean no limit.
	Strategy Strategy
	Reach    Reach
}

// Result is the layout of every value of a program.
type Result struct {
	// Specs and Meshes are by value ID.
	Specs  []mesh.Spec
	Meshes []*mesh.Mesh
	// Results holds the layouts in which the program's results are returned: those of their values, unless
	// requested otherwise.
	Results []mesh.Spec
	// Reasons explains, by value ID, each layout: annotations, then what was inferred, in order.
	Reasons [][]string
	// Shardings holds, by value ID, what was inferred and what is open, before partial sums are placed.
	Shardings []mesh.Sharding
	// Steps holds, by node, how each op runs. Operands and results in another layout are resharded. It is nil
	// where values of several meshes meet: there tensors only move.
	Steps []*Step
}

// Infer decides the layout of every value of a program. Annotations propagate through the ops' rules in both
// directions until nothing changes: in the order of their priorities, and for each by kinds of ops, those
// that only pass dims on first. A closed dim never changes, and decisions are never revoked.
func Infer(f *ir.Func, c Config) (*Result, error) {
	defer fault.Pass("infer", f)
	g := NewGraph(c.Reach)
	if c.Mesh != nil {
		g.grid(c.Mesh) // the first of equal meshes is the one that values name
	}
	p := &program{f: f, c: c, g: g, asked: make([]string, f.NumValues())}
	if err := p.build(); err != nil {
		return nil, err
	}
	g.Run(c.Strategy)
	r := p.result()
	return r, placePartials(f, r, p.asked)
}

// program connects a Func with its graph, whose values have the Func's IDs.
type program struct {
	f     *ir.Func
	c     Config
	g     *Graph
	asked []string
	// returned is the graph's value for each result.
	returned []int
}

// check returns an error for annotations of values that do not exist.
func (p *program) check() error {
	for _, v := range slices.Sorted(maps.Keys(p.c.Values)) {
		if v < 0 || v >= p.f.NumValues() {
			return fmt.Errorf("annotation of value %d: program %s has %d values", v, p.f.Name(), p.f.NumValues())
		}
	}
	if n := len(p.c.Results); n > len(p.f.Results()) {
		return fmt.Errorf("annotations of %d results: program %s has %d", n, p.f.Name(), len(p.f.Results()))
	}
	return nil
}

func (p *program) build() error {
	if err := p.check(); err != nil {
		return err
	}
	for _, v := range p.f.Params() {
		p.g.Value(v.Shape())
		if err := p.annotate(v); err != nil {
			return fmt.Errorf("parameter %%%d %q: %w", v.ID(), v.Name(), err)
		}
	}
	for _, n := range p.f.Nodes() {
		if err := p.node(n); err != nil {
			return &ir.Error{Pos: n.Pos(), Op: n.Op().Name(), Err: err}
		}
	}
	for i, v := range p.f.Results() {
		r := p.g.Return(v.ID())
		p.returned = append(p.returned, r)
		if i < len(p.c.Results) && p.c.Results[i].Spec.Dims != nil {
			if err := p.g.Annotate(r, p.c.Mesh, p.c.Results[i]); err != nil {
				return fmt.Errorf("result %d: %w", i, err)
			}
		}
	}
	return nil
}

func (p *program) annotate(v *ir.Value) error {
	s, ok := p.c.Values[v.ID()]
	if !ok {
		return nil
	}
	p.asked[v.ID()] = "asked: " + s.String()
	at := p.c.Mesh
	if m := p.c.Meshes[v.ID()]; m != nil {
		at = m
	}
	return p.g.Annotate(v.ID(), at, s)
}

func (p *program) node(n *ir.Node) error {
	in, operands := describe(n.In())
	out, results := describe(n.Out())
	for _, v := range n.Out() {
		p.g.Value(v.Shape())
		if err := p.annotate(v); err != nil {
			return err
		}
	}
	if c, ok := n.Op().(op.Constrainer); ok {
		m, s, err := c.Constraint()
		if err != nil {
			return err
		}
		v := n.Out()[0].ID()
		p.asked[v] = "asked: " + s.String()
		if known(n.Pos()) {
			p.asked[v] += " at " + string(n.Pos())
		}
		if err := p.g.Annotate(v, m, s); err != nil {
			return err
		}
	}
	return p.g.Op(n.Op().(op.Op), n.Pos(), in, out, operands, results)
}

func describe(vs []*ir.Value) (types []ir.Type, ids []int) {
	for _, v := range vs {
		types, ids = append(types, v.Type()), append(ids, v.ID())
	}
	return types, ids
}

func (p *program) result() *Result {
	n := p.f.NumValues()
	r := &Result{Reasons: make([][]string, n)}
	r.Meshes = p.meshes()
	for v := range n {
		s := p.g.Sharding(v)
		r.Specs, r.Shardings = append(r.Specs, s.Spec), append(r.Shardings, s)
		if p.asked[v] != "" {
			r.Reasons[v] = append(r.Reasons[v], p.asked[v])
		}
	}
	for _, v := range p.returned {
		r.Results = append(r.Results, p.g.Sharding(v).Spec)
	}
	for _, c := range p.g.Choices() {
		if c.Value < n {
			r.Reasons[c.Value] = append(r.Reasons[c.Value], p.text(c))
		}
	}
	return r
}

// text describes a choice with the program's own names: what a program returns is not one of its values.
func (p *program) text(c Choice) string {
	if i := c.From - p.f.NumValues(); i >= 0 {
		return fmt.Sprintf("dim %d by %s from result %d (%s)", c.Dim, c.Axes, i, c.Round)
	}
	return c.String()
}
