package layout

import (
	"fmt"
	"maps"
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/step"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/strategy"
)

// placed is the layout of a parameter, and who defines it.
type placed struct {
	op.Layout
	what string
}

// placedOn returns the layouts of parameters on the ranks of meshes: the present ones, else as a program
// first requests them.
func (l *Layout) placedOn(f *ir.Func, meshes []*mesh.Mesh) map[string]map[int]placed {
	on := map[string]map[int]placed{}
	add := func(name string, at op.Layout, what string) {
		if on[name] == nil {
			on[name] = map[int]placed{}
		}
		rank := slices.IndexFunc(meshes, func(m *mesh.Mesh) bool { return m.Covers(at.Mesh) })
		if _, said := on[name][rank]; rank >= 0 && !said {
			on[name][rank] = placed{op.Layout{Mesh: at.Mesh, Spec: onlyAxes(at.Mesh, at.Spec)}, what}
		}
	}
	for _, p := range l.Params {
		if at, ok := l.held[p.Name]; ok {
			add(p.Name, at.Layout, fmt.Sprintf("%s, mesh %v of its value", at.what, at.Mesh))
		}
	}
	for _, n := range f.Nodes() {
		at, ok := closedConstraint(n)
		if !ok {
			continue
		}
		if w := sourceOf(n); w != nil && w.ID() < len(l.Params) {
			add(w.Name(), at, fmt.Sprintf("parameter %q: %s: %s", w.Name(), n.Pos(), n.Op().Name()))
		}
	}
	return on
}

// sourceOf returns the parameter that a constraint applies to, directly or through another constraint.
func sourceOf(n *ir.Node) *ir.Value {
	v := n.In()[0]
	if v.Node() != nil {
		v = ownSource(n, v)
	}
	if v.Node() != nil {
		return nil
	}
	return v
}

// closedConstraint returns what a node requests, if it leaves nothing open.
func closedConstraint(n *ir.Node) (op.Layout, bool) {
	c, ok := n.Op().(op.Constrainer)
	if !ok || len(n.In()) != 1 {
		return op.Layout{}, false
	}
	m, s, err := c.Constraint()
	open := slices.ContainsFunc(s.Freedom, func(f mesh.Freedom) bool { return f.Open })
	return op.Layout{Mesh: m, Spec: s.Spec}, err == nil && !open && len(s.Spec.Partial) == 0
}

// lays returns the layouts of a parameter on the ranks for which its mesh or the program defines them.
// Annotations by name must agree.
func (l *Layout) lays(p *nn.Param) (map[int]step.Layouts, error) {
	on := map[int]step.Layouts{}
	byName, said := l.byName(p.Name)
	for rank, m := range l.Meshes {
		at, ok := l.on[p.Name][rank]
		switch {
		case ok && said && !onlyAxes(at.Mesh, byName).Equal(at.Spec):
			return nil, fmt.Errorf("%s asks for %s, an annotation or a plan for %s: want one of them", at.what,
				at.Spec, byName)
		case !ok && said && l.ranks != nil:
			at.Layout = op.Layout{Mesh: m, Spec: onlyAxes(m, byName)}
		case !ok && l.ranks != nil && l.Strategy.Zero > 0: // which splits it over the axes of each rank
			at.Layout = op.Layout{Mesh: m, Spec: mesh.Whole(len(p.Type.Shape))}
		case !ok:
			continue
		}
		if err := at.Spec.Check(at.Mesh, len(p.Type.Shape)); err != nil {
			return nil, fmt.Errorf("parameter %q: %w", p.Name, err)
		}
		on[rank] = l.zeroed(step.Layouts{Mesh: at.Mesh, Use: at.Spec, Rest: at.Spec, Sum: at.Spec, Slot: at.Spec},
			at.Mesh, p.Type)
	}
	if len(on) == 0 {
		return nil, nil
	}
	return on, nil
}

// simplify merges equal layouts of a weight on the strategy's own meshes into one for all.
func (l *Layout) simplify(w *step.Weight) {
	if l.ranks != nil || len(w.On) == 0 {
		return
	}
	ranks := slices.Sorted(maps.Keys(w.On))
	first := w.On[ranks[0]]
	for _, r := range ranks {
		if at := w.On[r]; !at.Mesh.Equal(l.Meshes[r]) || !at.Use.Equal(first.Use) {
			return
		}
	}
	first.Mesh = nil
	w.Layouts, w.On = first, nil
}

// byName returns what annotations or a plan of layers request for a parameter.
func (l *Layout) byName(name string) (mesh.Spec, bool) {
	for _, a := range l.Annotations {
		if a.Matches(name) {
			return a.Sharding.Spec, true
		}
	}
	if l.applied != nil {
		s, ok := l.applied.specs[name]
		return s, ok
	}
	return mesh.Spec{}, false
}

// zeroed returns the layout of a weight with the strategy's ZeRO stage.
func (l *Layout) zeroed(at step.Layouts, m *mesh.Mesh, t ir.Type) step.Layouts {
	split := l.zero(m, at.Use, t)
	if l.Strategy.Zero >= 1 {
		at.Slot = split
	}
	if l.Strategy.Zero >= 2 {
		at.Sum = split
	}
	if l.Strategy.Zero >= 3 {
		at.Rest = split
	}
	return at
}

// zeroAxes returns the axes of a mesh over which ZeRO shards: the named one, else those for data, else those
// that split the rows of a batch.
func (l *Layout) zeroAxes(m *mesh.Mesh) (axes mesh.Axes) {
	names := []string{strategy.DataAxis, strategy.ExpertAxis, strategy.ContextAxis}
	if l.ZeroAxis != "" && l.ZeroAxis != strategy.DataAxis {
		names = []string{l.ZeroAxis}
	}
	for _, list := range [][]string{names, l.batchAxes} {
		for _, name := range list {
			if a, ok := m.Axis(name); ok && a.Size > 1 {
				axes = append(axes, mesh.On(name)...)
			}
		}
		if len(axes) > 0 || l.ZeroAxis != "" {
			break
		}
	}
	return axes
}

// groups reports whether groups of Shard devices can be made of axes, the innermost first.
func (l *Layout) groups(m *mesh.Mesh, axes mesh.Axes) bool {
	rest := max(l.Strategy.Shard, 1)
	for _, x := range slices.Backward(axes) {
		n := m.Extent(x)
		if rest < n {
			return n%rest == 0
		}
		if rest%n != 0 {
			return false
		}
		rest /= n
	}
	return rest == 1
}

// checkZero returns an error if ZeRO has nothing to shard over, or groups of the wrong size.
func (l *Layout) checkZero() error {
	if l.Strategy.Zero == 0 {
		return nil
	}
	meshes := slices.Clone(l.Meshes)
	for _, on := range l.on {
		for _, at := range on {
			meshes = append(meshes, at.Mesh)
		}
	}
	split := false
	for _, m := range meshes {
		axes := l.zeroAxes(m)
		if !l.groups(m, axes) {
			return fmt.Errorf("mesh %v: %w", m, l.given.Ungrouped(m.Count(axes)))
		}
		split = split || len(axes) > 0
	}
	switch {
	case split || l.ranks == nil && l.ZeroAxis == "":
		return nil
	case l.ranks == nil:
		return fmt.Errorf("strategy: the optimizer is sharded over axis %s, which has one device: set DP to 2 or "+
			"more, or leave out the sharding", l.ZeroAxis)
	}
	if l.ZeroAxis != "" {
		return fmt.Errorf("zero=%d over axis %q: none of the meshes that parameters are on has one of several "+
			"devices: want an axis of %v", l.Strategy.Zero, l.ZeroAxis, l.Meshes)
	}
	return fmt.Errorf("zero=%d: no axis of %v splits the batch: want one called %s, or to name one: "+
		"ShardingStage1{Axis: …}", l.Strategy.Zero, l.Meshes, strategy.DataAxis)
}
