package layout

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/step"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/strategy"
)

// Weights returns the layouts of the parameters: the tensor and expert axes by annotations and plans, the
// data axes by the ZeRO stage. A nil program means that the parameters are as before.
func (l *Layout) Weights(f *ir.Func) ([]step.Weight, error) {
	if l.on == nil && f != nil {
		l.on, l.homes = l.placedOn(f, l.Meshes), map[string][]int{}
	}
	var list []step.Weight
	for _, p := range l.Params {
		use, err := l.use(p.Name, p.Type)
		if err != nil {
			return nil, err
		}
		w := step.Weight{Name: p.Name, Type: l.Entering(p),
			Layouts: step.Layouts{Use: use, Rest: use, Sum: use, Slot: use},
			Buffer:  p.Buffer, Fixed: p.Fixed, Held: l.homes[p.Name]}
		w.Layouts = l.zeroed(w.Layouts, l.Meshes[0], p.Type)
		if w.On, err = l.lays(p); err != nil {
			return nil, err
		}
		l.simplify(&w)
		list = append(list, w)
	}
	if err := l.checkZero(); err != nil {
		return nil, err
	}
	asked := len(l.Annotations) > 0 || l.Layers != nil // requested whole weights stay whole
	if l.Strategy.TP > 1 && !asked && !l.splits(list, strategy.TensorAxis) {
		return nil, l.unsplit()
	}
	if l.Strategy.CP > 1 && !asked && f != nil && !l.hasSequences(f) {
		return nil, fmt.Errorf("strategy: cp=%d: nothing is split over it, so that all of its devices would "+
			"compute "+
			"the same: the model marks no sequences: want cp=1 and dp=%d, or op.Mark(x, nn.LayerMark(i)) of "+
			"[batch, sequence, …] where layers begin", l.Strategy.CP, l.Strategy.DP*l.Strategy.CP)
	}
	if _, context := l.Strategy.Experts(); l.Strategy.EP > 1 && !l.splits(list, strategy.ExpertAxis) &&
		!(context && l.splits(list, strategy.ContextAxis)) {
		return nil, fmt.Errorf("strategy: ep=%d: the model has no experts to split: want ep=1 and dp=%d for as "+
			"many devices", l.Strategy.EP, l.Strategy.DP)
	}
	return list, nil
}

// hasSequences reports whether the context axis may split something of a program: hidden states between
// layers, or values that are placed on meshes.
func (l *Layout) hasSequences(f *ir.Func) bool {
	return len(l.Loaded) > 0 || slices.ContainsFunc(f.Nodes(), func(n *ir.Node) bool {
		_, asks := n.Op().(op.Constrainer)
		label, marked := op.Marked(n)
		return asks || marked && nn.IsStream(label) && len(n.Out()[0].Shape()) > 1
	})
}

// splits reports whether some weight is split over an axis.
func (l *Layout) splits(list []step.Weight, axis string) bool {
	return slices.ContainsFunc(list, func(w step.Weight) bool {
		for rank := range l.Meshes {
			at := w.LayoutsOn(l.Meshes, rank)
			if !at.Use.IsWhole() && !at.Mesh.Equal(l.Meshes[rank]) || // some axes of its own
				l.Meshes[0].Overlap(mesh.On(axis)[0], at.Use.Used()) {
				return true
			}
		}
		return false
	})
}

// unsplit returns the error for a tensor axis that splits no parameter: all its devices would compute the
// same.
func (l *Layout) unsplit() error {
	name := l.Params[0].Name
	for _, p := range l.Params {
		if len(p.Type.Shape) > 1 {
			name = p.Name
			break
		}
	}
	return fmt.Errorf("strategy: tp=%d: no parameter is split over it, so that all of its devices would "+
		"compute the same: the built-in plan "+
		"knows none of the %d names: want tp=1, a plan of layers with Parallelize, or annotations such as "+
		"\"%s=@[tp,_]\"", l.Strategy.TP, len(l.Params), name)
}

// use returns the layout of a parameter in computation.
func (l *Layout) use(name string, t ir.Type) (mesh.Spec, error) {
	spec := mesh.Whole(len(t.Shape))
	for _, a := range l.Annotations {
		if !a.Matches(name) {
			continue
		}
		asked := onlyAxes(l.Meshes[0], a.Sharding.Spec)
		if err := asked.Check(l.Meshes[0], len(t.Shape)); err != nil {
			return spec, fmt.Errorf("annotation %s: parameter %q is %v: %w", a, name, t, err)
		}
		return asked, nil
	}
	if l.applied != nil {
		if s, ok := l.applied.specs[name]; ok {
			return onlyAxes(l.Meshes[0], s), nil
		}
	}
	if l.ranks != nil { // what meshes do not split is replicated
		return spec, nil
	}
	for _, r := range l.builtIn() {
		a, err := mesh.ParseAnnotation(r.pattern + "=" + r.sharding)
		if err != nil {
			return spec, err
		}
		if !a.Matches(name) || len(a.Sharding.Spec.Dims) != len(t.Shape) {
			continue
		}
		for d, axes := range a.Sharding.Spec.Dims {
			for _, x := range axes {
				if got, ok := l.Meshes[0].Axis(x.Axis); ok && got.Size > 1 {
					spec.Dims[d] = append(spec.Dims[d], x)
				}
			}
		}
		return spec, nil
	}
	return spec, nil
}

// builtIn returns the megatron plan with experts by their own axes first: each on one device, or split over
// the tensor axis.
func (l *Layout) builtIn() []planRow {
	axes := strategy.ExpertAxis
	if _, context := l.Strategy.Experts(); context {
		axes += "." + strategy.ContextAxis
	}
	up, down := "@["+axes+".tp,_,_]", "@["+axes+".tp,_,_]"
	if l.Strategy.ETP > 1 {
		up, down = "@["+axes+",tp,_]", "@["+axes+",_,tp]"
	}
	return append([]planRow{{"*.experts.gate_up_proj", up}, {"*.experts.down_proj", down}}, megatron...)
}

var megatron = plans[slices.IndexFunc(plans, func(p namedPlan) bool { return p.name == "megatron" })].rows

// zero splits a tensor with layout use further, by the data axes that do not split it yet.
func (l *Layout) zero(m *mesh.Mesh, use mesh.Spec, t ir.Type) mesh.Spec {
	return SplitBesides(m, use, t.Shape, l.shardAxes(m))
}

// SplitBesides splits a tensor with layout use further, by those of axes that do not split it yet, as ZeRO
// does: along the dim that is longest on a device.
func SplitBesides(m *mesh.Mesh, use mesh.Spec, shape []int, among mesh.Axes) mesh.Spec {
	var axes mesh.Axes
	for _, x := range among {
		if !m.Overlap(x, use.Used()) {
			axes = append(axes, x)
		}
	}
	best, most := -1, 0
	for d, n := range shape {
		if local := n / max(1, m.Count(use.Dims[d])); local > most {
			best, most = d, local
		}
	}
	if best < 0 || len(axes) == 0 || most < 2 {
		return use
	}
	split := use.Clone()
	split.Dims[best] = append(slices.Clone(split.Dims[best]), axes...)
	return split
}

// shardAxes returns the axes that ZeRO shards over: all data axes or, if the strategy has groups, the
// innermost parts of them that distinguish a group's devices. Neighbours share a group, those of a host
// first.
func (l *Layout) shardAxes(m *mesh.Mesh) mesh.Axes {
	all := l.zeroAxes(m)
	rest := l.Strategy.Shard
	if rest == 0 || rest == m.Count(all) {
		return all
	}
	var axes mesh.Axes
	for _, x := range slices.Backward(all) {
		n := m.Extent(x)
		if rest < n { // Shard was checked to divide what is left
			if _, minor, ok := m.Cut(x, n/rest); ok {
				axes = append(axes, minor)
			}
			break
		}
		axes, rest = append(axes, x), rest/n
	}
	slices.Reverse(axes)
	return axes
}
