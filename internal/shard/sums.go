package shard

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// placePartials decides how each op runs and where partial sums are reduced: a value stays partial if its
// only user passes the sum on, and if reducing later costs less than reducing here. Two partial sums that are
// added are then reduced once. Annotated values and results are reduced.
func placePartials(f *ir.Func, r *Result, asked []string) error {
	s := &sums{
		f: f, r: r, memo: map[string]*Step{}, partial: make([][]mesh.Pending, f.NumValues()), cost: make([]float64,
			f.NumValues()),
		users: make([]int, f.NumValues()), fixed: make([]bool, f.NumValues()),
	}
	for v := range asked {
		s.fixed[v] = asked[v] != ""
	}
	for _, v := range f.Results() {
		s.fixed[v.ID()] = true
	}
	if err := s.forward(func(v int) bool { return !s.fixed[v] }); err != nil {
		return err
	}
	keep := s.backward()
	if err := s.forward(func(v int) bool { return keep[v] }); err != nil {
		return err
	}
	for v, p := range s.partial {
		if len(p) > 0 {
			r.Specs[v] = r.Specs[v].With(append(p, r.Specs[v].Partial...)...)
			r.Reasons[v] = append(r.Reasons[v],
				fmt.Sprintf("partial over %v: it is cheaper to reduce what comes of it", p))
		}
	}
	return nil
}

type sums struct {
	f    *ir.Func
	r    *Result
	memo map[string]*Step
	// partial holds the sums that a value is left with.
	partial [][]mesh.Pending
	// cost is the bytes that a device reduces because of a value.
	cost  []float64
	users []int
	fixed []bool
}

// forward runs every op on operands in their layouts; results keep their partial sums where keep allows it.
func (s *sums) forward(keep func(v int) bool) error {
	before, steps := s.partial, s.r.Steps
	s.partial, s.r.Steps = make([][]mesh.Pending, len(before)), make([]*Step, len(s.f.Nodes()))
	for i, n := range s.f.Nodes() {
		if steps != nil && s.unchanged(n, before) {
			s.r.Steps[i] = steps[i]
		} else {
			step, err := s.step(n)
			if err != nil {
				return &ir.Error{Pos: n.Pos(), Op: n.Op().Name(), Err: err}
			}
			s.r.Steps[i] = step
		}
		for j, v := range n.Out() {
			if step := s.r.Steps[i]; step != nil && keep(v.ID()) {
				s.partial[v.ID()] = s.free(v.ID(), step.Out[j].Partial)
			}
		}
	}
	return nil
}

// unchanged reports whether a node's operands are partial as they were.
func (s *sums) unchanged(n *ir.Node, before [][]mesh.Pending) bool {
	return !slices.ContainsFunc(n.In(), func(v *ir.Value) bool {
		return !slices.Equal(before[v.ID()],
			s.partial[v.ID()])
	})
}

// free returns the sums along axes that do not split the value: the others are reduced into its shards.
func (s *sums) free(v int, sums []mesh.Pending) []mesh.Pending {
	var list []mesh.Pending
	for _, p := range sums {
		if !s.r.Meshes[v].Overlap(p.Sub, s.r.Specs[v].Used()) {
			list = append(list, p)
		}
	}
	return list
}

// step returns how one op runs; nil if its tensors are on several meshes. Results are cached, because layers
// repeat.
func (s *sums) step(n *ir.Node) (*Step, error) {
	o := n.Op().(op.Op)
	m := s.r.Meshes[n.Out()[0].ID()]
	in, operands := describe(n.In())
	out, results := describe(n.Out())
	for _, v := range slices.Concat(operands, results) {
		if x := s.r.Meshes[v]; x != m && (x == nil || m == nil || !x.Equal(m)) {
			return nil, nil
		}
	}
	if m == nil {
		return nil, nil
	}
	have, want := make([]mesh.Spec, len(in)), make([]mesh.Spec, len(out))
	key := append(append(make([]byte, 0, 256), o.Name()...), o.Rule(in)...)
	key = fmt.Appendf(append(key, op.CooperativeRuleOf(o, in).Rule...), "%p", m)
	for i, v := range operands {
		have[i] = s.r.Specs[v]
		if p := s.partial[v]; len(p) > 0 {
			have[i] = have[i].With(append(p, have[i].Partial...)...)
		}
		key = appendSpec(key, in[i], have[i])
	}
	for i, v := range results {
		want[i] = s.r.Specs[v]
		key = appendSpec(key, out[i], want[i])
	}
	return s.choose(appendGroups(key, o, len(in)),
		func() (*Step, error) { return Choose(o, m, in, out, have, want) })
}

// choose returns the cached result of key, or a new one.
func (s *sums) choose(key []byte, ask func() (*Step, error)) (*Step, error) {
	if step, ok := s.memo[string(key)]; ok {
		return step, nil
	}
	step, err := ask()
	if err == nil {
		s.memo[string(key)] = step
	}
	return step, err
}

func appendGroups(key []byte, o op.Op, operands int) []byte {
	for _, g := range groupsOf(o, operands) {
		for _, i := range g {
			key = append(key, byte(i))
		}
		key = append(key, ';')
	}
	return key
}

func appendSpec(key []byte, t ir.Type, s mesh.Spec) []byte {
	key = append(key, byte(t.DType), '[')
	for d, n := range t.Shape {
		key = append(key, byte(n), byte(n>>8), byte(n>>16), byte(n>>24), byte(n>>32))
		key = appendAxes(key, s.Dims[d])
	}
	for _, p := range s.Partial {
		key = appendAxes(append(key, '+', byte(p.Reduce)), mesh.Axes{p.Sub})
	}
	return key
}

func appendAxes(key []byte, a mesh.Axes) []byte {
	for _, s := range a {
		key = append(append(key, s.Axis...), ':', byte(s.Pre), byte(s.Pre>>8), byte(s.Size), byte(s.Size>>8))
	}
	return append(key, ',')
}

// backward finds, last op first, the values whose partial sums are cheaper to reduce later.
func (s *sums) backward() []bool {
	keep := make([]bool, s.f.NumValues())
	user := make([]int, s.f.NumValues()) // the only node that uses a value
	for i, n := range s.f.Nodes() {
		for j, v := range n.In() {
			if j == 0 || n.In()[j-1] != v {
				s.users[v.ID()]++
			}
			user[v.ID()] = i
		}
	}
	for i := len(s.f.Nodes()) - 1; i >= 0; i-- {
		for _, v := range s.f.Nodes()[i].Out() {
			id := v.ID()
			if len(s.partial[id]) == 0 {
				continue
			}
			own := s.bytes(v)
			s.cost[id] = own
			if s.users[id] != 1 {
				continue
			}
			if later, all, ok := s.passedOn(user[id], id); ok && later < all {
				keep[id], s.cost[id] = true, later*own/all
			}
		}
	}
	return keep
}

// passedOn returns the cost of reducing the results of the node that uses a value, and that of reducing the
// operands that it takes partial; ok is whether it takes all of the value's sums.
func (s *sums) passedOn(node, v int) (later, all float64, ok bool) {
	n, step := s.f.Nodes()[node], s.r.Steps[node]
	if step == nil {
		return 0, 0, false
	}
	for i, x := range n.In() {
		if len(step.In[i].Partial) > 0 {
			all += s.bytes(x)
		}
		if x.ID() == v && len(step.In[i].Partial) < len(s.partial[v]) {
			return 0, 0, false
		}
	}
	for _, y := range n.Out() {
		if s.cost[y.ID()] > 0 {
			later += s.cost[y.ID()]
		} else {
			later += s.bytes(y)
		}
	}
	return later, all, true
}

// bytes returns the size of a device's part of a value.
func (s *sums) bytes(v *ir.Value) float64 {
	n := float64(v.Type().Bytes())
	if m := s.r.Meshes[v.ID()]; m != nil {
		for _, a := range s.r.Specs[v.ID()].Dims {
			n /= float64(m.Count(a))
		}
	}
	return n
}
