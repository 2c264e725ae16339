package layout

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/strategy"
)

// planMark is the prefix of the marks that a plan puts into a program: a hook's number follows, or a cut's.
const (
	planMark = "plan."
	cutMark  = "plan.cut."
)

// applied is a plan applied to a traced program.
type applied struct {
	program *ir.Func
	// cuts holds the marks with which stages begin.
	cuts []string
	// specs holds the layouts of weights, by name, and shardings those of marked values, by the hooks' numbers.
	specs     map[string]mesh.Spec
	shardings []mesh.Sharding
}

// apply marks the places of a program that a plan refers to, and determines the sides of weights there.
func (p *Layers) apply(f *ir.Func) (*applied, error) {
	a := &planner{f: f, plan: p}
	a.read()
	out := &applied{specs: map[string]mesh.Spec{}}
	for _, s := range p.splits {
		if err := a.split(s, out.specs); err != nil {
			return nil, err
		}
	}
	marks := make([]spot, 0, len(p.hooks))
	for i, h := range p.hooks {
		s, err := a.spot(h.layer, h.at)
		if err != nil {
			return nil, err
		}
		sharding, err := h.of(s.value)
		if err != nil {
			return nil, err
		}
		s.label = planMark + strconv.Itoa(i)
		marks, out.shardings = append(marks, s), append(out.shardings, sharding)
	}
	cuts, err := a.cuts()
	if err != nil {
		return nil, err
	}
	for _, c := range cuts {
		out.cuts = append(out.cuts, c.label)
		if c.value != nil {
			marks = append(marks, c)
		}
	}
	out.program, err = rewriteMarks(f, marks)
	return out, err
}

// planner finds layers in a program: the nodes from the first to the last that compute with a parameter below
// a layer's name.
type planner struct {
	f    *ir.Func
	plan *Layers
	// fixed marks, by value, what depends on parameters and constants alone, and from which parameters.
	fixed []bool
	from  [][]string
	// readers holds, by node, the names of the parameters that it computes with; a node that only prepares them
	// has none.
	readers [][]string
}

func (a *planner) read() {
	a.fixed, a.from = make([]bool, a.f.NumValues()), make([][]string, a.f.NumValues())
	for _, v := range a.f.Params()[:a.plan.params] {
		a.fixed[v.ID()], a.from[v.ID()] = true, []string{v.Name()}
	}
	for _, n := range a.f.Nodes() {
		fixed, names := true, []string(nil)
		for _, v := range n.In() {
			fixed = fixed && a.fixed[v.ID()]
			names = append(names, a.from[v.ID()]...)
		}
		if !fixed {
			a.readers = append(a.readers, names)
			continue
		}
		a.readers = append(a.readers, nil)
		for _, v := range n.Out() {
			a.fixed[v.ID()], a.from[v.ID()] = true, names
		}
	}
}

// span returns the first and the last node of a layer.
func (a *planner) span(layer string) (first, last int, err error) {
	first = -1
	for i, names := range a.readers {
		if slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, layer+".") }) {
			if first < 0 {
				first = i
			}
			last = i
		}
	}
	if first < 0 {
		return 0, 0, fmt.Errorf("parallelize: layer %q: the model does not use it: leave it out of the plan", layer)
	}
	return first, last, nil
}

// spot is a value that gets a mark, and the nodes that use the marked value instead.
type spot struct {
	value       *ir.Value
	label       string
	first, last int
	made        map[*ir.Value]*ir.Value
}

// marked returns v with the mark, which is created once.
func (s *spot) marked(v *ir.Value) *ir.Value {
	if s.made == nil {
		s.made = map[*ir.Value]*ir.Value{}
	}
	if s.made[v] == nil {
		s.made[v] = op.Mark(v, s.label)
	}
	return s.made[v]
}

// of returns the sharding that a hook requests for a value: its own, or rows by the data axes and sequences
// by the context axis.
func (h hook) of(v *ir.Value) (mesh.Sharding, error) {
	rank := len(v.Shape())
	if h.sharding.Spec.Dims == nil {
		s := mesh.Whole(rank)
		s.Dims[0] = append(mesh.On(strategy.DataAxis), mesh.On(strategy.ExpertAxis)...)
		if rank > 2 {
			s.Dims[1] = mesh.On(strategy.ContextAxis)
		}
		return mesh.Closed(s), nil
	}
	if got := len(h.sharding.Spec.Dims); got != rank {
		return mesh.Sharding{}, fmt.Errorf("parallelize: layer %q: %s has %d dims: the value there is %v: "+
			"want %d", h.layer, h.sharding, got, v.Type(), rank)
	}
	return h.sharding, nil
}

func (a *planner) spot(layer string, at HookSide) (spot, error) {
	first, last, err := a.span(layer)
	if err != nil {
		return spot{}, err
	}
	if at == Output {
		return spot{value: a.f.Nodes()[last].Out()[0], first: last + 1, last: len(a.f.Nodes())}, nil
	}
	for _, v := range a.f.Nodes()[first].In() {
		if !a.fixed[v.ID()] {
			return spot{value: v, first: first, last: last}, nil
		}
	}
	return spot{}, fmt.Errorf("parallelize: layer %q has no input", layer)
}

// split determines a side of a weight where it is first used.
func (a *planner) split(s weightSplit, specs map[string]mesh.Spec) error {
	if _, said := specs[s.weight]; said {
		return nil
	}
	at := slices.IndexFunc(a.readers, func(names []string) bool { return slices.Contains(names, s.weight) })
	if at < 0 {
		return nil // its layout is free
	}
	n := a.f.Nodes()[at]
	k := slices.IndexFunc(n.In(), func(v *ir.Value) bool { return slices.Contains(a.from[v.ID()], s.weight) })
	dims, err := a.dims(n.In()[k])
	if err != nil {
		return err
	}
	rule, err := ruleOf(n)
	if err != nil {
		return err
	}
	spec := mesh.Whole(2)
	for d, own := range dims {
		if own < 0 || len(rule.In[k][own]) == 0 {
			continue
		}
		inResult := slices.ContainsFunc(rule.Out[0],
			func(out []byte) bool { return slices.Equal(out, rule.In[k][own]) })
		if inResult == (s.side == SequenceParallel) && spec.IsWhole() {
			spec.Dims[d] = mesh.On(s.axis)
		}
	}
	if spec.IsWhole() {
		return fmt.Errorf("parallelize: %s: %s does not split %q so: annotate it by ParallelPlan.Annotations",
			n.Pos(), n.Op().Name(), s.weight)
	}
	specs[s.weight] = spec
	if s.bias != "" {
		specs[s.bias] = mesh.Split(mesh.On(s.axis))
	}
	return nil
}

// ruleOf returns a node's sharding rule.
func ruleOf(n *ir.Node) (*mesh.Parsed, error) {
	var types []ir.Type
	for _, v := range n.In() {
		types = append(types, v.Type())
	}
	rule, err := n.Op().(op.Op).Rule(types).Parse()
	if err == nil && len(rule.In) != len(n.In()) {
		err = fmt.Errorf("parallelize: %s: %s does not say how it can be split: annotate its weight by "+
			"ParallelPlan.Annotations", n.Pos(), n.Op().Name())
	}
	return rule, err
}

// dims returns where the dims of a parameter are in a value that is made of it alone, by transposing or
// casting; -1 if they are gone.
func (a *planner) dims(v *ir.Value) ([]int, error) {
	n := v.Node()
	if n == nil {
		return []int{0, 1}, nil
	}
	if len(n.In()) != 1 {
		return nil, fmt.Errorf("parallelize: %s: a weight is made of several parameters: annotate them by "+
			"ParallelPlan.Annotations", n.Pos())
	}
	dims, err := a.dims(n.In()[0])
	if err != nil {
		return nil, err
	}
	rule, err := ruleOf(n)
	if err != nil {
		return nil, err
	}
	for d, own := range dims {
		if own >= 0 {
			dims[d] = slices.IndexFunc(rule.Out[v.Index()],
				func(out []byte) bool { return len(out) > 0 && slices.Equal(out, rule.In[0][own]) })
		}
	}
	return dims, nil
}

// cuts returns where stages begin, in order. It uses a layer mark that the model has there; otherwise the
// value gets one.
func (a *planner) cuts() ([]spot, error) {
	var list []spot
	for i, p := range a.plan.points {
		first, last, err := a.span(p.layer)
		if err != nil {
			return nil, err
		}
		c, ok := a.markNear(first, last, p.before)
		if !ok {
			side := Output
			if p.before {
				side = Input
			}
			if c, err = a.spot(p.layer, side); err != nil {
				return nil, err
			}
			c.label, c.last = cutMark+strconv.Itoa(i), len(a.f.Nodes())
		}
		list = append(list, c)
	}
	slices.SortStableFunc(list, func(x, y spot) int { return cmp.Compare(x.first, y.first) })
	for i := range list[:max(0, len(list)-1)] {
		if list[i].first == list[i+1].first {
			return nil, fmt.Errorf("parallelize: two split points are at one place, %s: want one",
				a.f.Nodes()[list[i].first].Pos())
		}
	}
	return list, nil
}

// markNear returns the mark of a layer's begin next to a layer, with no other parameter read in between.
func (a *planner) markNear(first, last int, before bool) (spot, bool) {
	i, step := last+1, 1
	if before {
		i, step = first-1, -1
	}
	for ; i >= 0 && i < len(a.readers) && len(a.readers[i]) == 0; i += step {
		if label, ok := op.Marked(a.f.Nodes()[i]); ok {
			if _, layer := nn.LayerOf(label); layer {
				return spot{label: label, first: i}, true
			}
		}
	}
	return spot{}, false
}

// rewriteMarks returns a program with marks inserted.
func rewriteMarks(f *ir.Func, marks []spot) (*ir.Func, error) {
	at := -1
	return f.Rewrite(func(b *ir.Builder, n *ir.Node, in []*ir.Value) []*ir.Value {
		at++
		in = slices.Clone(in)
		for i, v := range n.In() {
			for k := range marks {
				m := &marks[k]
				if m.value == v && m.first <= at && at <= m.last {
					in[i] = m.marked(in[i])
				}
			}
		}
		return b.Apply(n.Op(), in)
	})
}

// marksOf returns the sharding that a mark of a plan requests, or that of its gradient; axes that the devices
// lack are omitted.
func (p *applied) marksOf(m *mesh.Mesh, label string) (mesh.Sharding, bool) {
	if p == nil {
		return mesh.Sharding{}, false
	}
	number, ok := strings.CutPrefix(strings.TrimSuffix(label, ".grad"), planMark)
	i, err := strconv.Atoi(number)
	if !ok || err != nil || i >= len(p.shardings) {
		return mesh.Sharding{}, false
	}
	s := p.shardings[i]
	return mesh.Sharding{Spec: onlyAxes(m, s.Spec), Freedom: s.Freedom}, true
}

// onlyAxes returns a Spec without the axes that a mesh lacks.
func onlyAxes(m *mesh.Mesh, s mesh.Spec) mesh.Spec {
	out := mesh.Whole(len(s.Dims))
	for d, axes := range s.Dims {
		for _, x := range axes {
			if a, ok := m.Axis(x.Axis); ok && a.Size > 1 {
				out.Dims[d] = append(out.Dims[d], x)
			}
		}
	}
	return out
}
