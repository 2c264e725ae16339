package layout

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// meshRequest is a mesh that a tensor is placed on, and where that is requested.
type meshRequest struct {
	mesh *mesh.Mesh
	// what is a line and an op, or a parameter.
	what string
	// strong is set for parameters and what depends on them: it determines where something is computed. What
	// depends on the batch alone is computed wherever it is needed.
	strong bool
}

// heldOf returns the layouts of the model's parameters that are on a mesh already, and who placed them there.
func heldOf(params []*nn.Param) (map[string]placed, error) {
	held := map[string]placed{}
	for _, p := range params {
		at, ok, err := HeldAt(p)
		if err != nil {
			return nil, err
		}
		if ok {
			held[p.Name] = placed{at, ParameterText(p)}
		}
	}
	return held, nil
}

// HeldAt returns the layout of a parameter, and whether it is on a mesh. An unreduced one is refused, because
// it has no value that an optimizer could update.
func HeldAt(p *nn.Param) (at op.Layout, ok bool, err error) {
	if p.Value == nil {
		return at, false, nil
	}
	if at, ok = op.LayoutOf(p.Value); ok && len(at.Spec.Partial) > 0 {
		return at, true, fmt.Errorf("%s: it is %v on mesh %v: a parameter is sharded or replicated: want no "+
			"partial sums", ParameterText(p), at.Spec, at.Mesh)
	}
	return at, ok, nil
}

// ParameterText names a parameter and the line that put it on its mesh, for messages.
func ParameterText(p *nn.Param) string {
	if line := op.LaidAt(p.Value); line != "" {
		return fmt.Sprintf("parameter %q, laid at %s", p.Name, line)
	}
	return fmt.Sprintf("parameter %q", p.Name)
}

// Held returns the layout of a parameter when the run began, and whether it was on a mesh.
func (l *Layout) Held(name string) (op.Layout, bool) {
	at, ok := l.held[name]
	return at.Layout, ok
}

// asks returns every mesh that a program's tensors are placed on.
func (l *Layout) asks(f *ir.Func) ([]meshRequest, error) {
	var list []meshRequest
	for _, p := range l.Params {
		if at, ok := l.held[p.Name]; ok {
			list = append(list, meshRequest{at.Mesh, at.what, true})
		}
	}
	for i, at := range l.Loaded {
		if at.Mesh != nil {
			list = append(list, meshRequest{at.Mesh, fmt.Sprintf("tensor %d of the batch", i), false})
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
		list = append(list, meshRequest{m, fmt.Sprintf("%s: %s", n.Pos(), n.Op().Name()), learned[n.Out()[0].ID()]})
	}
	return list, nil
}

// learnedIn returns, by value, whether it depends on one of the first parameters.
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

// agree returns an error if a request for devices contradicts the strategy's number of devices; it names both
// lines.
func (l *Layout) agree(list []meshRequest) error {
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
