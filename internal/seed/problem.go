package seed

import (
	"fmt"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/spmd"
	"github.com/galley-ml/galley/mesh"
)

// problem is a program in variables: one for each class of nodes, and one for each class of values that are
// given, returned, or used more than once. A value that is used once has the layout that its user needs.
type problem struct {
	f       *ir.Func
	c       Config
	classes *classes
	users   [][]user
	lab     *labeler
	routes  *routes

	nodeVar, valueVar []int // by class; -1 for none
	labels            [][]label
	specs             [][]mesh.Spec // by variable of values
	field             *field
	// held is, by variable of parameters, the bytes that all members of a class take on a device under each
	// label.
	held map[int][]float64
}

func newProblem(f *ir.Func, c Config) (*problem, error) {
	lab, err := newLabeler(f, c)
	if err != nil {
		return nil, err
	}
	p := &problem{
		f: f, c: c, classes: classify(f, c.Given), users: usersOf(f), lab: lab,
		routes: &routes{
			router: spmd.NewRouter(c.Mesh, c.Prices), alike: newSymmetry(c.Mesh, c.Prices),
			specs: newNumbers(), types: newNumbers(), memo: map[[3]int]float64{}, alikes: map[[3]int]float64{},
		},
		held: map[int][]float64{},
	}
	if err := p.variables(); err != nil {
		return nil, err
	}
	p.pairs()
	return p, nil
}

// variables makes the variables, in program order, with what each costs by itself.
func (p *problem) variables() error {
	p.nodeVar, p.valueVar = none(p.classes.count), none(p.classes.count)
	var unary [][]float64
	next := func() int {
		p.labels, p.specs = append(p.labels, nil),
			append(p.specs, nil)
		return len(p.labels) - 1
	}
	kept := p.kept()
	for _, v := range p.f.Params() {
		class := p.classes.value[v.ID()]
		if p.valueVar[class] < 0 {
			x := next()
			given, ok := p.c.Given[v.ID()]
			if !ok {
				given = mesh.Open(mesh.Whole(len(v.Shape())))
			}
			if err := given.Check(p.c.Mesh, len(v.Shape())); err != nil {
				return fmt.Errorf("seeds of %s: parameter %q: %w", p.f.Name(), v.Name(), err)
			}
			p.valueVar[class], p.specs[x] = x, p.lab.param(v.Type(), given)
			unary = append(unary, make([]float64, len(p.specs[x])))
			p.held[x] = make([]float64, len(p.specs[x]))
		}
		p.hold(p.valueVar[class], v)
	}
	for i, n := range p.f.Nodes() {
		class := p.classes.node[i]
		if p.nodeVar[class] < 0 {
			x := next()
			labels, err := p.lab.op(n)
			if err != nil {
				return err
			}
			if s, ok, err := constraintOn(p.c.Mesh, n); ok && err == nil {
				labels = p.lab.asked(n, s)
			}
			p.nodeVar[class], p.labels[x] = x, labels
			unary = append(unary, make([]float64, len(labels)))
		}
		x := p.nodeVar[class]
		for l := range p.labels[x] {
			unary[x][l] += p.labels[x][l].time
		}
		for _, v := range n.Out() {
			if class := p.classes.value[v.ID()]; kept[class] && p.valueVar[class] < 0 {
				y := next()
				p.valueVar[class] = y
				unary = append(unary, nil)
			}
		}
	}
	p.candidates()
	for x := range unary {
		if unary[x] == nil {
			unary[x] = make([]float64, len(p.specs[x]))
		}
	}
	p.field = newField(unary)
	return nil
}

func none(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = -1
	}
	return list
}

// kept returns the classes of values that have a place of their own.
func (p *problem) kept() []bool {
	returned := make([]int, p.f.NumValues())
	for _, v := range p.f.Results() {
		returned[v.ID()]++
	}
	kept := make([]bool, p.classes.count)
	for _, n := range p.f.Nodes() {
		for _, v := range n.Out() {
			if constrained(v) || returned[v.ID()] > 0 || len(p.users[v.ID()]) != 1 {
				kept[p.classes.value[v.ID()]] = true
			}
		}
	}
	return kept
}

// hold adds a parameter to what a class takes on a device.
func (p *problem) hold(x int, v *ir.Value) {
	for l, s := range p.specs[x] {
		n := float64(v.Type().Bytes())
		for _, axes := range s.Dims {
			n /= float64(p.c.Mesh.Count(axes))
		}
		p.held[x][l] += n
	}
}

// candidates fills in the layout computed values may have: as an op gives them or as one needs them.
func (p *problem) candidates() {
	known := map[int]map[string]bool{}
	offer := func(v *ir.Value, s mesh.Spec) {
		x := p.valueVar[p.classes.value[v.ID()]]
		if x < 0 || v.Node() == nil {
			return
		}
		if known[x] == nil {
			known[x] = map[string]bool{}
		}
		if text := s.String(); !known[x][text] {
			known[x][text] = true
			p.specs[x] = append(p.specs[x], s)
		}
	}
	seen := make([]bool, p.classes.count)
	for i, n := range p.f.Nodes() {
		class := p.classes.node[i]
		if seen[class] {
			continue
		}
		seen[class] = true
		for _, l := range p.labels[p.nodeVar[class]] {
			for j, v := range n.Out() {
				offer(v, l.give[j])
			}
			for j, v := range n.In() {
				if !constrained(v) {
					offer(v, l.need[j])
				}
			}
		}
	}
}

// end is one end of a way that a value takes: a variable, and which of its Specs; slot -1 is a variable of
// values.
type end struct{ variable, slot int }

const ownSlot = -1

// spec returns the layout of the value at an end of which the variable has a label.
func (p *problem) spec(e end, needs bool, l int) mesh.Spec {
	switch {
	case e.slot == ownSlot:
		return p.specs[e.variable][l]
	case needs:
		return p.labels[e.variable][l].need[e.slot]
	}
	return p.labels[e.variable][l].give[e.slot]
}

// way is a value's way from where it is made to where it is used, and how often it is taken.
type way struct {
	from, to end
	t        ir.Type
}

// pairs adds what it costs to bring values from where they are made to where they are used.
func (p *problem) pairs() {
	count := map[[4]int]int{}
	var ways []way
	add := func(from, to end, t ir.Type) {
		key := [4]int{from.variable, from.slot, to.variable, to.slot}
		if count[key]++; count[key] == 1 {
			ways = append(ways, way{from, to, t})
		}
	}
	made := p.sources(add)
	for i, n := range p.f.Nodes() {
		for j, v := range n.In() {
			add(made[v.ID()], end{p.nodeVar[p.classes.node[i]], j}, v.Type())
		}
	}
	for i, v := range p.f.Results() {
		if k, ok := p.c.Next[i]; ok {
			add(made[v.ID()], end{p.valueVar[p.classes.value[p.f.Params()[k].ID()]], ownSlot}, v.Type())
			continue
		}
		p.reduce(made[v.ID()], v.Type())
	}
	for _, w := range ways {
		p.addWay(w, float64(count[[4]int{w.from.variable, w.from.slot, w.to.variable, w.to.slot}]))
	}
}

// sources is, by value, where its users take it from.
func (p *problem) sources(add func(from, to end, t ir.Type)) []end {
	made := make([]end, p.f.NumValues())
	for _, v := range p.f.Params() {
		made[v.ID()] = end{p.valueVar[p.classes.value[v.ID()]], ownSlot}
	}
	for i, n := range p.f.Nodes() {
		for j, v := range n.Out() {
			made[v.ID()] = end{p.nodeVar[p.classes.node[i]], j}
			if x := p.valueVar[p.classes.value[v.ID()]]; x >= 0 {
				add(made[v.ID()], end{x, ownSlot}, v.Type())
				made[v.ID()] = end{x, ownSlot}
			}
		}
	}
	return made
}

// reduce makes a result pay for its sums: none are returned.
func (p *problem) reduce(e end, t ir.Type) {
	for l := range p.field.unary[e.variable] {
		s := p.spec(e, false, l)
		if len(s.Partial) > 0 {
			p.field.unary[e.variable][l] += p.routes.cost(t, s, s.With())
		}
	}
}

func (p *problem) addWay(w way, times float64) {
	a, b := w.from.variable, w.to.variable
	from, to := make([]int, len(p.field.unary[a])), make([]int, len(p.field.unary[b]))
	for l := range from {
		from[l] = p.routes.number(p.spec(w.from, false, l))
	}
	for l := range to {
		to[l] = p.routes.number(p.spec(w.to, true, l))
	}
	t := p.routes.types.of(w.t.String())
	p.field.add(a, b, func(x, y int) float64 { return times * p.routes.between(t, w.t, from[x], to[y]) })
}

// routes is the price of bringing values from Spec to Spec, remembered.
type routes struct {
	router       *spmd.Router
	specs, types *numbers
	list         []mesh.Spec
	memo         map[[3]int]float64
	alike        symmetry
	alikes       map[[3]int]float64 // memo for Specs whose axes were renamed
}

// unreachable is the price of what cannot be: more than anything that can.
const unreachable = 1e6

func (r *routes) number(s mesh.Spec) int {
	i := r.specs.of(s.String())
	if i == len(r.list) {
		r.list = append(r.list, s)
	}
	return i
}

func (r *routes) cost(t ir.Type, from, to mesh.Spec) float64 {
	return r.between(r.types.of(t.String()), t, r.number(from), r.number(to))
}

func (r *routes) between(id int, t ir.Type, from, to int) float64 {
	if from == to {
		return 0
	}
	key := [3]int{id, from, to}
	if c, ok := r.memo[key]; ok {
		return c
	}
	a, b := r.alike.canonical(t.Shape, r.list[from], r.list[to])
	same := [3]int{id, r.number(a), r.number(b)}
	c, ok := r.alikes[same]
	if !ok {
		c = unreachable
		if _, cost, err := r.router.Reshard(t, a, b); err == nil {
			c = cost.Time
		}
		r.alikes[same] = c
	}
	r.memo[key] = c
	return c
}
