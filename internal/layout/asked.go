package layout

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// asked is a mesh that somebody lays a tensor on, and where that is said.
type asked struct {
	mesh *mesh.Mesh
	// what is a line and an op, or a parameter.
	what string
	// strong is of parameters and of what they decide: it says where something is computed. What the batch alone
	// decides is made wherever it is needed.
	strong bool
}

// held is where the model's parameters are: those that are on a mesh already.
func heldOf(c Config) map[string]op.Layout {
	held := map[string]op.Layout{}
	for _, p := range c.Params {
		if p.Value == nil {
			continue
		}
		if at, ok := op.LayoutOf(p.Value); ok {
			held[p.Name] = op.Layout{Mesh: at.Mesh, Spec: at.Spec.With()}
		}
	}
	return held
}

// Held returns where a parameter lay when the run began, and whether it was on a mesh.
func (l *Layout) Held(name string) (op.Layout, bool) {
	at, ok := l.held[name]
	return at, ok
}

// asks returns every mesh that a program's tensors are laid on.
func (l *Layout) asks(f *ir.Func) ([]asked, error) {
	var list []asked
	for _, p := range l.Params {
		if at, ok := l.held[p.Name]; ok {
			list = append(list, asked{at.Mesh, fmt.Sprintf("parameter %q", p.Name), true})
		}
	}
	for i, at := range l.Loaded {
		if at.Mesh != nil {
			list = append(list, asked{at.Mesh, fmt.Sprintf("tensor %d of the batch", i), false})
		}
	}
	learned := learnedIn(f, len(l.Params))
	for _, n := range f.Nodes() {
		c, ok := n.Op().(op.Constrainer)
		if !ok {
			continue
		}
		m, _, err := c.Constraint()
		if err != nil {
			return nil, &ir.Error{Pos: n.Pos(), Op: n.Op().Name(), Err: err}
		}
		list = append(list, asked{m, fmt.Sprintf("%s: %s", n.Pos(), n.Op().Name()), learned[n.Out()[0].ID()]})
	}
	return list, nil
}

// learnedIn is, by value, whether one of the first parameters decides it.
func learnedIn(f *ir.Func, weights int) []bool {
	learned := make([]bool, f.NumValues())
	for _, v := range f.Params()[:weights] {
		learned[v.ID()] = true
	}
	for _, n := range f.Nodes() {
		depends := slices.ContainsFunc(n.In(), func(v *ir.Value) bool { return learned[v.ID()] })
		for _, v := range n.Out() {
			learned[v.ID()] = depends
		}
	}
	return learned
}

// strategyText returns the strategy and its line, for messages.
func (l *Layout) strategyText() string {
	if l.Where == "" {
		return fmt.Sprintf("strategy %s", l.given)
	}
	return fmt.Sprintf("strategy %s at %s", l.given, l.Where)
}

// agree returns an error where somebody asks for other devices than a strategy that says how many there are:
// both lines are named.
func (l *Layout) agree(list []asked) error {
	for _, a := range list {
		if !slices.ContainsFunc(l.Meshes, func(m *mesh.Mesh) bool { return m.Covers(a.mesh) && a.mesh.Covers(m) }) {
			var have []string
			for _, m := range l.Meshes {
				have = append(have, fmt.Sprint(m.Devices()))
			}
			return fmt.Errorf("%s: mesh %v: got devices %v, and %s has %v: want a mesh of all devices of a stage, or "+
				"no degrees in the strategy, so that the meshes alone say them", a.what, a.mesh, a.mesh.Devices(),
				l.strategyText(), have)
		}
	}
	return nil
}
