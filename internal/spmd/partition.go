package spmd

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/internal/fault"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// Config configures partitioning. The zero value uses the default prices and allows any communication.
type Config struct {
	Prices Prices
	// Strict makes communication that was not requested an error.
	Strict Strictness
	// Asked marks, by value ID, the values whose Spec the user wrote: resharding a value to it is requested, as
	// it is for an op.Constrainer. Nil means none.
	Asked []bool
	// Meshes holds the meshes of values, by ID; nil, and a nil entry, means the default mesh.
	Meshes []*mesh.Mesh
	// Results holds the required layouts of results, by their number; nil means those of the values.
	Results []mesh.Spec
}

// Strictness says how communication that was not requested is treated.
type Strictness int

// Levels of strictness.
const (
	Allow  Strictness = iota // it is recorded
	Forbid                   // it is an error
)

// Inserted is one communication that Partition inserted into the program.
type Inserted struct {
	// Pos is its source line, Op the op there, and Value the value that moves.
	Pos   ir.Pos
	Op    string
	Value int
	Move  Move
	// Reason explains who needs it; Asked is whether a user requested it.
	Reason string
	Asked  bool
}

// String returns the record in one line.
func (x Inserted) String() string {
	return fmt.Sprintf("%s: %s: %s %s: %.0f bytes, %.1f µs: %s", x.Pos, x.Op, x.Move.Kind, x.Move.Axes,
		x.Move.Cost.Bytes, x.Move.Cost.Time*1e6, x.Reason)
}

// Partition makes the local programs of a program whose values have the layouts in specs, one for each value
// by its ID. An op runs on the mesh of its results, under the assignment of axes to its factors that costs
// least, including resharding.
func Partition(f *ir.Func, specs []mesh.Spec, m *mesh.Mesh, c Config) (*Program, error) {
	defer fault.Pass("partition", f)
	if len(specs) != f.NumValues() {
		return nil, fmt.Errorf("partition %s: got %d specs, want one for each of %d values", f.Name(), len(specs),
			f.NumValues())
	}
	p := newPlanner(f, specs, m, c)
	for _, v := range f.Params() {
		at := p.layouts[v.ID()]
		if err := at.Spec.Check(at.Mesh, len(v.Shape())); err != nil {
			return nil, fmt.Errorf("partition %s: param %q: %w", f.Name(), v.Name(), err)
		}
		p.versions[v.ID()] = []op.Layout{at}
	}
	for _, n := range f.Nodes() {
		if err := p.node(n); err != nil {
			return nil, err
		}
	}
	if err := p.results(); err != nil {
		return nil, err
	}
	p.program.features = p.findFeatures()
	return p.program, nil
}

// planner decides node by node.
type planner struct {
	config    Config
	layouts   []op.Layout // of values
	meshes    []*mesh.Mesh
	routers   []*Router
	decisions map[string]*decision
	order     []*decision
	// now is the layout of each value for its users: its final one, or still partial.
	now []mesh.Spec
	// versions holds all layouts in which each value exists so far.
	versions [][]op.Layout
	uses     [][]use
	returned []bool
	program  *Program
}

func newPlanner(f *ir.Func, specs []mesh.Spec, m *mesh.Mesh, c Config) *planner {
	p := &planner{config: c, decisions: map[string]*decision{}, layouts: make([]op.Layout, len(specs)),
		versions: make([][]op.Layout, len(specs)), now: slices.Clone(specs)}
	p.uses, p.returned = usesOf(f)
	for id, s := range specs {
		at := m
		if id < len(c.Meshes) && c.Meshes[id] != nil {
			at = c.Meshes[id]
		}
		p.layouts[id] = op.Layout{Mesh: p.canonicalMesh(at), Spec: s}
	}
	p.program = &Program{f: f, layouts: p.layouts, main: p.canonicalMesh(m), locals: map[string]*ir.Func{}}
	p.program.meshes = p.meshes
	return p
}

// canonicalMesh returns one representative of equal meshes, so that they compare as pointers.
func (p *planner) canonicalMesh(m *mesh.Mesh) *mesh.Mesh {
	if i := slices.IndexFunc(p.meshes, m.Equal); i >= 0 {
		return p.meshes[i]
	}
	p.meshes = append(p.meshes, m)
	p.routers = append(p.routers, NewRouter(m, p.config.Prices))
	return m
}

func (p *planner) router(m *mesh.Mesh) *Router { return p.routers[slices.Index(p.meshes, m)] }

func sameLayout(a, b op.Layout) bool { return a.Mesh == b.Mesh && a.Spec.Equal(b.Spec) }

func (p *planner) node(n *ir.Node) error {
	d, err := p.decide(n)
	if err != nil {
		return err
	}
	s := step{node: n, how: d, before: make([]convert, len(n.In())), after: make([]convert, len(n.Out()))}
	for i, v := range n.In() {
		w := why{n.Pos(), n.Op(), fmt.Sprintf("%s needs operand %d as %s", n.Op().Name(), i, d.need[i]), p.asked(n)}
		if s.before[i], err = p.convert(w, v, op.Layout{Mesh: d.mesh, Spec: d.need[i]}); err != nil {
			return err
		}
	}
	if err := p.recordCooperation(n, d); err != nil {
		return err
	}
	for i, v := range n.Out() {
		given := op.Layout{Mesh: d.mesh, Spec: d.give[i]}
		p.versions[v.ID()] = []op.Layout{given}
		if p.unused(v) { // its layout does not matter
			s.after[i] = convert{from: given, to: given}
			continue
		}
		if p.later(n, v, given.Spec) {
			p.now[v.ID()], s.after[i] = given.Spec, convert{from: given, to: given}
			continue
		}
		w := why{n.Pos(), n.Op(), fmt.Sprintf("result %d of %s is to have layout %s", i, n.Op().Name(),
			p.layouts[v.ID()].Spec), p.asked(n)}
		if s.after[i], err = p.convert(w, v, p.layouts[v.ID()]); err != nil {
			return err
		}
	}
	p.program.steps = append(p.program.steps, s)
	return nil
}

// results reshards what is returned to its layout.
func (p *planner) results() error {
	for i, v := range p.program.f.Results() {
		at := p.layouts[v.ID()]
		if i < len(p.config.Results) && p.config.Results[i].Dims != nil {
			at.Spec = p.config.Results[i]
		}
		w := why{"", nil, fmt.Sprintf("result %d is to be returned as %s", i, at.Spec), i < len(p.config.Results)}
		if v.Node() != nil {
			w.pos = v.Node().Pos()
		}
		c, err := p.convert(w, v, at)
		if err != nil {
			return err
		}
		p.program.results = append(p.program.results, c)
	}
	return nil
}

// asked reports whether a user annotated the results of a node.
func (p *planner) asked(n *ir.Node) bool {
	if _, ok := n.Op().(op.Constrainer); ok {
		return true
	}
	return p.config.Asked != nil && slices.ContainsFunc(n.Out(),
		func(v *ir.Value) bool { return p.config.Asked[v.ID()] })
}

// why is the reason of a conversion.
type why struct {
	pos    ir.Pos
	op     ir.Op
	reason string
	asked  bool
}

func (w why) name() string {
	if w.op == nil {
		return "return"
	}
	return w.op.Name()
}

// convert reshards a value, from its version for which that is cheapest.
func (p *planner) convert(w why, v *ir.Value, to op.Layout) (convert, error) {
	id := v.ID()
	var best convert
	var least Cost
	for i, from := range p.versions[id] {
		if sameLayout(from, to) {
			return convert{from: from, to: to}, nil
		}
		legs, cost, err := p.route(v.Type(), from, to)
		if err != nil {
			return convert{}, &ir.Error{Pos: w.pos, Op: w.name(), Err: err}
		}
		if i == 0 || cost.Time < least.Time {
			best, least = convert{from, to, legs}, cost
		}
	}
	p.versions[id] = append(p.versions[id], to)
	for _, l := range best.legs {
		for _, m := range l.moves {
			if err := p.record(w, v, m, best.from.Spec); err != nil {
				return convert{}, err
			}
		}
	}
	return best, nil
}

// record records a communication, unless it is forbidden.
func (p *planner) record(w why, v *ir.Value, m Move, from mesh.Spec) error {
	if m.Kind.Local() || m.Cost.Collectives == 0 {
		return nil
	}
	x := Inserted{Pos: w.pos, Op: w.name(), Value: v.ID(), Move: m, Reason: w.reason + ", it has layout " +
		from.String(), Asked: w.asked}
	if p.config.Strict == Forbid && !w.asked {
		return &ir.Error{Pos: w.pos, Op: w.name(), Err: fmt.Errorf(
			"unasked communication: %s of %v over %s: %s: write the spec that you want, or allow it", m.Kind, v.Type(),
			m.Axes, x.Reason)}
	}
	p.program.inserted = append(p.program.inserted, x)
	return nil
}
