package stage

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/internal/fault"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/pass"
	"github.com/galley-ml/galley/op"
)

// Stage is one stage of a pipeline as a joint program. Its parameters are Weights, Batch, In, then a gradient
// for each float of Out (in the last stage one number, the weight of the loss) and a running sum for each of
// Weights; its results are Out, a gradient for each float of In, and the next sums.
type Stage struct {
	Joint *ir.Func
	// Weights and Batch are parameters of the whole program by number, those that the stage uses.
	Weights, Batch []int
	// In and Out are values of the whole program by ID: what comes from the stage before and what goes to the
	// next. The last stage's Out is the program's results.
	In, Out []int
	// Forward is whether the stage has no backward half: the joint program then has neither gradients nor sums.
	Forward bool
}

// NumGrads returns how many of the joint program's parameters are gradients of what it hands on.
func (s *Stage) NumGrads() int {
	if s.Forward {
		return 0
	}
	return len(s.Joint.Params()) - 2*len(s.Weights) - len(s.Batch) - len(s.In)
}

// NumInGrads returns how many of its results are gradients of what it was handed.
func (s *Stage) NumInGrads() int {
	if s.Forward {
		return 0
	}
	return len(s.Joint.Results()) - len(s.Out) - len(s.Weights)
}

// Config says how a program is split.
type Config struct {
	// Weights is how many of the program's first parameters are trained; the others are the batch. The program's
	// first result is the number whose gradient is taken.
	Weights int
	// Cuts is, for every stage but the first, the node with which it begins.
	Cuts []int
	// Use, if set, is what stands for a weight in a stage's computation: a layout to gather it in, another
	// dtype.
	Use func(stage, weight int, x *ir.Value) *ir.Value
	// Skip, if set, is whether a stage leaves out a node that no weight decides: its operand stands for it.
	Skip func(stage int, n *ir.Node) bool
	// Sum is the type of a weight's running sum of gradients; nil is the weight's own.
	Sum func(weight int) ir.Type
	// Optimize, if set, is run on a stage's program in place of all passes; what nobody needs goes in any
	// case.
	Optimize func(*ir.Func) (*ir.Func, error)
}

// optimized returns a stage's program after the passes.
func (c Config) optimized(f *ir.Func) (*ir.Func, error) {
	if c.Optimize == nil {
		return pass.Optimize(f)
	}
	f, err := c.Optimize(f)
	if err != nil {
		return nil, err
	}
	return pass.Prune(f)
}

// Split makes the joint programs of all stages. What depends on no weight is computed in every stage that
// needs it.
func Split(f *ir.Func, c Config) ([]*Stage, error) {
	defer fault.Pass("stages", f)
	s, err := newSplitter(f, c)
	if err != nil {
		return nil, err
	}
	stages := make([]*Stage, len(c.Cuts)+1)
	for i := range stages {
		if stages[i], err = s.stage(i); err != nil {
			return nil, err
		}
	}
	return stages, nil
}

func newSplitter(f *ir.Func, c Config) (*splitter, error) {
	if c.Sum == nil {
		c.Sum = func(weight int) ir.Type { return f.Params()[weight].Type() }
	}
	if c.Skip == nil {
		c.Skip = func(int, *ir.Node) bool { return false }
	}
	if c.Use == nil {
		c.Use = func(_, _ int, x *ir.Value) *ir.Value { return x }
	}
	if !slices.IsSorted(c.Cuts) || len(c.Cuts) > 0 &&
		(c.Cuts[0] <= 0 || c.Cuts[len(c.Cuts)-1] >= len(f.Nodes())) {
		return nil, fmt.Errorf("stages of %s: cuts %v: want growing numbers of its %d nodes", f.Name(), c.Cuts,
			len(f.Nodes()))
	}
	s := &splitter{f: f, c: c}
	s.place()
	return s, nil
}

type splitter struct {
	f *ir.Func
	c Config
	// at is each value's stage; -1 where every stage can compute it for itself. last is the last stage that uses
	// it.
	at, last []int
}

// place assigns values to stages.
func (s *splitter) place() {
	s.at, s.last = slices.Repeat([]int{-1}, s.f.NumValues()), slices.Repeat([]int{-1}, s.f.NumValues())
	learned := make([]bool, s.f.NumValues())
	for i := range s.c.Weights {
		learned[s.f.Params()[i].ID()] = true
	}
	now := 0
	for i, n := range s.f.Nodes() {
		for now < len(s.c.Cuts) && i >= s.c.Cuts[now] {
			now++
		}
		depends := slices.ContainsFunc(n.In(), func(v *ir.Value) bool { return learned[v.ID()] })
		if !depends {
			continue
		}
		for _, v := range n.Out() {
			learned[v.ID()], s.at[v.ID()] = true, now
		}
		for _, v := range n.In() {
			s.last[v.ID()] = max(s.last[v.ID()], now)
		}
	}
	for _, v := range s.f.Results() {
		s.last[v.ID()] = len(s.c.Cuts)
	}
}

// crossing returns the values that pass from stage k to the next, those for later ones included.
func (s *splitter) crossing(k int) []*ir.Value {
	var list []*ir.Value
	if k < 0 {
		return nil
	}
	for _, n := range s.f.Nodes() {
		for _, v := range n.Out() {
			if s.at[v.ID()] >= 0 && s.at[v.ID()] <= k && s.last[v.ID()] > k {
				list = append(list, v)
			}
		}
	}
	return list
}

// stage builds the joint program of stage k.
func (s *splitter) stage(k int) (*Stage, error) {
	b, in, results := s.half(k, fmt.Sprintf("stage%d", k))
	results = append(results, b.backward(in, results)...)
	joint, err := b.b.Build(results...)
	if err != nil {
		return nil, err
	}
	if joint, err = s.c.optimized(joint); err == nil {
		b.out.Joint, err = b.ownGradients(joint)
	}
	return b.out, err
}

// half builds the forward half of stage k: in is what comes from the stage before.
func (s *splitter) half(k int, name string) (b *stageBuilder, in, results []*ir.Value) {
	b = &stageBuilder{s: s, k: k, b: ir.NewBuilder(name), env: make([]*ir.Value, s.f.NumValues()), out: &Stage{}}
	in, out := s.crossing(k-1), s.crossing(k)
	if k == len(s.c.Cuts) {
		out = s.f.Results()
	}
	b.uses(out)
	b.params(in)
	for _, n := range s.f.Nodes() {
		if s.at[n.Out()[0].ID()] == k {
			b.emit(n)
		}
	}
	results = b.values(out)
	for _, v := range out {
		b.out.Out = append(b.out.Out, v.ID())
	}
	return b, in, results
}

// stageBuilder builds one joint program.
type stageBuilder struct {
	s   *splitter
	k   int
	b   *ir.Builder
	out *Stage
	// env is the stage's own values by the whole program's IDs, used what stands for the weights.
	env  []*ir.Value
	used []*ir.Value
	sums []*ir.Value
}

// uses finds the parameters that the stage needs.
func (b *stageBuilder) uses(out []*ir.Value) {
	needed := make([]bool, b.s.f.NumValues())
	var need func(v *ir.Value)
	need = func(v *ir.Value) {
		if needed[v.ID()] || b.s.at[v.ID()] >= 0 && b.s.at[v.ID()] != b.k {
			return
		}
		needed[v.ID()] = true
		if n := v.Node(); n != nil {
			for _, x := range n.In() {
				need(x)
			}
		}
	}
	for _, n := range b.s.f.Nodes() {
		if b.s.at[n.Out()[0].ID()] == b.k {
			need(n.Out()[0])
		}
	}
	for _, v := range out {
		need(v)
	}
	for i, p := range b.s.f.Params() {
		switch {
		case !needed[p.ID()]:
		case i < b.s.c.Weights:
			b.out.Weights = append(b.out.Weights, i)
		default:
			b.out.Batch = append(b.out.Batch, i)
		}
	}
}

// params adds the parameters of the forward half.
func (b *stageBuilder) params(in []*ir.Value) {
	var weights []*ir.Value
	for _, i := range b.out.Weights {
		p := b.s.f.Params()[i]
		weights = append(weights, b.b.Param(p.Name(), p.Type()))
	}
	for _, i := range b.out.Batch {
		p := b.s.f.Params()[i]
		b.env[p.ID()] = b.b.Param(p.Name(), p.Type())
	}
	for j, v := range in {
		b.env[v.ID()] = b.b.Param(fmt.Sprintf("in%d", j), v.Type())
		b.out.In = append(b.out.In, v.ID())
	}
	for j, i := range b.out.Weights {
		use := b.s.c.Use(b.k, i, weights[j])
		b.used = append(b.used, use)
		b.env[b.s.f.Params()[i].ID()] = use
	}
}

func (b *stageBuilder) value(v *ir.Value) *ir.Value {
	if b.env[v.ID()] == nil && v.Node() != nil {
		b.emit(v.Node())
	}
	return b.env[v.ID()]
}

func (b *stageBuilder) values(vs []*ir.Value) []*ir.Value {
	list := make([]*ir.Value, len(vs))
	for i, v := range vs {
		list[i] = b.value(v)
	}
	return list
}

func (b *stageBuilder) emit(n *ir.Node) {
	if b.env[n.Out()[0].ID()] != nil {
		return
	}
	in := b.values(n.In())
	if b.s.at[n.Out()[0].ID()] < 0 && b.s.c.Skip(b.k, n) {
		b.env[n.Out()[0].ID()] = in[0]
		return
	}
	defer b.b.At(n.Pos())()
	for i, own := range b.b.Apply(n.Op(), in) {
		b.env[n.Out()[i].ID()] = own
	}
}

// backward adds the other half: gradients of what came in, and sums of those of the weights.
func (b *stageBuilder) backward(in, out []*ir.Value) []*ir.Value {
	var ys, dys []*ir.Value
	if b.k == len(b.s.c.Cuts) {
		ys, dys = out[:1], []*ir.Value{b.b.Param("weight", out[0].Type())}
	} else {
		for i, y := range out {
			if y.DType().IsFloat() {
				ys, dys = append(ys, y), append(dys, b.b.Param(fmt.Sprintf("dout%d", i), y.Type()))
			}
		}
	}
	var xs []*ir.Value
	for _, v := range in {
		if v.DType().IsFloat() {
			xs = append(xs, b.env[v.ID()])
		}
	}
	for _, i := range b.out.Weights {
		p := b.s.f.Params()[i]
		b.sums = append(b.sums, b.b.Param(p.Name()+".sum", b.s.c.Sum(i)))
	}
	grads := op.Grad(ys, dys, append(xs, b.used...))
	results := b.distinct(grads[:len(xs):len(xs)])
	for j, sum := range b.sums {
		results = append(results, op.Add(sum, op.Cast(grads[len(xs)+j], sum.DType())))
	}
	return results
}

// distinct returns gradients as values of their own: one that is a parameter, or that of two values, may have
// to be laid out otherwise as each. Two that are computed alike, as zeros are, would be merged, so every one
// has its name.
func (b *stageBuilder) distinct(grads []*ir.Value) []*ir.Value {
	list := slices.Clone(grads)
	for i, g := range grads {
		if g.Node() == nil || len(grads) > 1 {
			list[i] = op.Mark(g, fmt.Sprintf("in%d.grad", i))
		}
	}
	return list
}
