package layout

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/pipeline"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// Program is a traced program in stages, requested by the strategy or by the meshes of the program itself.
type Program struct {
	Func     *ir.Func
	Schedule *pipeline.Schedule
	// Cuts holds the marks with which stages begin; nil means those of layers.
	Cuts []string
	// stages lists those that compute with each weight, if the program was split automatically.
	stages [][]int
}

// Place determines the stages of a program. If its parameters, its batch or its values are on meshes, and the
// strategy names no degrees, these meshes define the devices: ranks in the order in which data reaches them.
// The first placed program, which is that of the loss, decides for all.
func (l *Layout) Place(f *ir.Func) (*Program, error) {
	p, err := l.place(f, trainingStep)
	if err == nil && p.stages != nil {
		l.cut = p.stages
	}
	return p, err
}

// PlaceForward is Place for a forward pass: the step that was placed before it decides where weights are.
func (l *Layout) PlaceForward(f *ir.Func) (*Program, error) { return l.place(f, forwardPass) }

// Decided reports whether a step has decided where weights are.
func (l *Layout) Decided() bool { return l.cut != nil }

// passKind is the kind of a program.
type passKind uint8

const (
	trainingStep passKind = iota
	forwardPass
)

func (l *Layout) place(f *ir.Func, kind passKind) (*Program, error) {
	list, err := l.asks(f)
	if err != nil {
		return nil, err
	}
	s := l.Strategy
	switch {
	case len(list) == 0 && l.ranks == nil:
		return l.unplaced(f, kind)
	case s.DP*s.TP*s.CP > 1:
		return l.placeIn(f, list, kind)
	}
	first := l.ranks == nil
	if first {
		l.ranks = ranksOf(list)
	}
	for _, a := range list {
		if a.strong && rankOf(l.ranks, a.mesh) < 0 {
			return nil, fmt.Errorf("%s: mesh %v: training runs on %v: want meshes within one of them", a.what, a.mesh,
				l.Meshes)
		}
	}
	p, err := newPlacer(f, l, l.ranks)
	if err != nil {
		return nil, err
	}
	if first {
		if err := l.decide(p, list); err != nil {
			l.ranks = nil
			return nil, err
		}
	}
	return l.placed(p, first)
}

// decide adopts the ranks of the first program for all.
func (l *Layout) decide(p *placer, list []meshRequest) (err error) {
	if err := l.contradicted(list[0]); err != nil {
		return err
	}
	order := p.order()
	for r := range l.ranks {
		if slices.Contains(order, r) {
			continue
		}
		for _, a := range list {
			if l.ranks[r].covers(a.mesh) && a.strong {
				return fmt.Errorf("%s: mesh %v: nothing is computed there: want it where the parameter is used", a.what,
					a.mesh)
			}
		}
	}
	if pp := l.given.PP; pp > 1 && pp != len(order) {
		return fmt.Errorf("%s: meshes make %d groups of devices, and %s has pp=%d: want pp=%[2]d, or no pp",
			list[0].what, len(order), l.strategyText(), pp)
	}
	ranks := make([]*rank, len(order))
	for i, r := range order {
		ranks[i] = l.ranks[r]
	}
	p.renumber(order, ranks)
	l.ranks, l.first = ranks, list[0].what
	if l.Meshes, err = meshesOf(ranks); err != nil {
		return err
	}
	l.Strategy.PP = len(ranks)
	if s := l.given; s.Micro == 0 && !s.OwnSchedule() && (s.Schedule != "" || s.VPP > 1) {
		l.Strategy.Micro = len(ranks) // there is a pipeline to fill
	}
	l.batchAxes = l.rowAxes(p.f)
	l.on, l.homes = l.placedOn(p.f, l.Meshes), map[string][]int{}
	for name, at := range l.held {
		l.homes[name] = []int{rankOf(ranks, at.Mesh)}
	}
	return nil
}

// contradicted returns an error if a strategy also defines what the meshes of a program, of which a is one,
// define.
func (l *Layout) contradicted(a meshRequest) error {
	switch s := l.given; {
	case s.Layers != nil:
		return l.alone(a, "the layers of stages")
	case s.Sequence:
		return l.alone(a, "how sequences lie between layers")
	case s.Context != "" && s.Context != "ring":
		return l.alone(a, "how sequences meet in attention")
	}
	return nil
}

// alone returns the error for a strategy that defines what only the meshes of a program, of which a is one,
// may define.
func (l *Layout) alone(a meshRequest, what string) error {
	return fmt.Errorf("%s: mesh %v: meshes define %s, and so does %s: leave one out", a.what, a.mesh, what,
		l.strategyText())
}

// placed returns the program in its stages, with a schedule for them.
func (l *Layout) placed(p *placer, first bool) (out *Program, err error) {
	out = &Program{}
	if class, known := pipeline.Lookup(l.given.Schedule); known == nil && class.Vee {
		p.bend(len(l.ranks))
	}
	if out.Func, out.Cuts, err = p.marked(); err != nil {
		return nil, err
	}
	if !first {
		out.Schedule, err = pipeline.Placed("", p.place, len(l.Meshes), l.Strategy.Micro)
		return out, err
	}
	if out.Schedule, err = l.scheduled(p.place); err != nil {
		return nil, err
	}
	l.Schedule = out.Schedule
	return out, nil
}

// scheduled returns the strategy's schedule for the stages that meshes define.
func (l *Layout) scheduled(place []int) (*pipeline.Schedule, error) {
	s := l.given
	if s.VPP > 1 && s.VPP*len(l.ranks) != len(place) {
		return nil, fmt.Errorf("%s: meshes make %d stages on %d ranks, in the order %v, and vpp=%d of %s wants "+
			"%d: "+
			"want data to pass every mesh %[5]d times, or no vpp", l.first, len(place), len(l.ranks), place, s.VPP,
			l.strategyText(), s.VPP*len(l.ranks))
	}
	if !s.OwnSchedule() {
		p, err := pipeline.Placed(s.Schedule, place, len(l.ranks), l.Strategy.Micro)
		if err != nil {
			return nil, fmt.Errorf("%s: meshes make %d stages for %s: %w", l.first, len(place), l.strategyText(), err)
		}
		return p, nil
	}
	p, err := pipeline.Parse(s.Schedule)
	if err == nil && (!slices.Equal(p.Place, place) || p.Micros != l.Strategy.Micro) {
		err = fmt.Errorf("%s: the schedule of %s has stages on ranks %v and %d micro-batches: got meshes with %v "+
			"and %d", l.first, l.strategyText(), p.Place, p.Micros, place, l.Strategy.Micro)
	}
	return p, err
}

// placeIn determines the stages of a program that is annotated on the devices of a strategy.
func (l *Layout) placeIn(f *ir.Func, list []meshRequest, kind passKind) (*Program, error) {
	if err := l.agree(list); err != nil {
		return nil, err
	}
	if len(l.Meshes) == 1 || l.Layers != nil || hasLayers(f) {
		return l.unplaced(f, kind)
	}
	var ranks []*rank
	for _, m := range l.Meshes {
		ranks = append(ranks, &rank{devices: slices.Sorted(slices.Values(m.Devices())), meshes: []*mesh.Mesh{m}})
	}
	p, err := newPlacer(f, l, ranks)
	if err != nil {
		return nil, err
	}
	if len(p.order()) == 1 {
		return l.unplaced(f, kind)
	}
	if l.given.Layers != nil {
		return nil, l.alone(list[0], "the layers of stages")
	}
	if kind == forwardPass {
		return l.placed(p, false)
	}
	if !slices.Equal(p.place, l.Schedule.Place) {
		return nil, fmt.Errorf("%s: meshes make stages on ranks %v, and %s has %v: want the same", list[0].what,
			p.place,
			l.strategyText(), l.Schedule.Place)
	}
	out := &Program{Schedule: l.Schedule}
	out.Func, out.Cuts, err = p.marked()
	return out, err
}

// unplaced returns a program whose stages only the strategy defines: it has layers, or is split where it is
// narrowest. That of a step decides where weights are, which others follow.
func (l *Layout) unplaced(f *ir.Func, kind passKind) (*Program, error) {
	switch {
	case l.unscheduled != nil:
		return nil, l.unscheduled
	case l.Schedule.Stages == 1 && l.Strategy.Layers != nil:
		if err := checkCounts(l.Strategy.Layers, 1, len(layerMarks(f))); err != nil {
			return nil, err
		}
		fallthrough
	case l.Schedule.Stages == 1 || l.Strategy.Layers != nil || l.Layers.cuts() || hasLayers(f):
		return &Program{Func: f, Schedule: l.Schedule}, nil
	case l.cut != nil && kind == forwardPass:
		return l.follow(f)
	}
	return l.narrow(f)
}

// Devices returns the number of devices, including unused ones in between.
func (l *Layout) Devices() int {
	most := 0
	for _, m := range l.Meshes {
		most = max(most, slices.Max(m.Devices())+1)
	}
	return most
}

// hasLayers reports whether a program marks where its layers begin.
func hasLayers(f *ir.Func) bool { return len(layerMarks(f)) > 0 }

// rowAxes returns the axes that split the rows of a batch: by the loader, or by the program's first
// constraint.
func (l *Layout) rowAxes(f *ir.Func) (names []string) {
	add := func(at op.Layout) {
		if at.Mesh == nil || len(at.Spec.Dims) == 0 {
			return
		}
		for _, s := range at.Spec.Dims[0] {
			if !slices.Contains(names, s.Axis) {
				names = append(names, s.Axis)
			}
		}
	}
	for _, at := range l.Loaded {
		add(at)
	}
	for _, n := range f.Nodes() {
		at, ok := closedConstraint(n)
		if v := n.In(); ok && v[0].Node() == nil && v[0].ID() >= len(l.Params) {
			add(at)
		}
	}
	return names
}

// renumber gives ranks new numbers: order holds the old ones.
func (p *placer) renumber(order []int, ranks []*rank) {
	for i, r := range p.place {
		p.place[i] = slices.Index(order, r)
	}
	p.ranks = ranks
}
