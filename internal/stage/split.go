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
// for each float of Out (in the last stage a scalar, the weight of the loss) and a gradient accumulator for
// each of Weights; its results are Out, a gradient for each float of In, and the updated accumulators.
type Stage struct {
	Joint *ir.Func
	// Weights and Batch are the numbers of the whole program's parameters that the stage uses.
	Weights, Batch []int
	// In and Out are values of the whole program by ID: those received from the previous stage and passed to the
	// next. The last stage's Out is the program's results.
	In, Out []int
	// Forward is whether the stage has no backward pass: the joint program then has neither gradients nor
	// accumulators.
	Forward bool
}

// NumGrads returns the number of the joint program's parameters that are gradients of its outputs.
func (s *Stage) NumGrads() int {
	if s.Forward {
		return 0
	}
	return len(s.Joint.Params()) - 2*len(s.Weights) - len(s.Batch) - len(s.In)
}

// NumInGrads returns the number of its results that are gradients of its inputs.
func (s *Stage) NumInGrads() int {
	if s.Forward {
		return 0
	}
	return len(s.Joint.Results()) - len(s.Out) - len(s.Weights)
}

// Config configures how a program is split.
type Config struct {
	// Weights is the number of the program's first parameters, which are trained; the others are the batch. The
	// program's first result is the scalar that is differentiated.
	Weights int
	// Cuts holds, for every stage but the first, the node with which it begins.
	Cuts []int
	// Use, if set, replaces a weight in a stage's computation: by a gathered layout, or by another dtype.
	Use func(stage, weight int, x *ir.Value) *ir.Value
	// Skip, if set, reports whether a stage omits a node that depends on no weight and uses its operand instead.
	Skip func(stage int, n *ir.Node) bool
	// Sum is the type of a weight's gradient accumulator; nil means the weight's own.
	Sum func(weight int) ir.Type
	// Optimize, if set, is run on a stage's program instead of all passes; dead code is removed in any case.
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
	// at is each value's stage; -1 if every stage can compute it itself. last is the last stage that uses it.
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

// crossing returns the values that pass from stage k to the next, including those for later ones.
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

// half builds the forward pass of stage k: in holds the inputs from the previous stage.
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
	// env maps the whole program's IDs to the stage's own values, used holds the replacements of the weights.
	env  []*ir.Value
	used []*ir.Value
	sums []*ir.Value
}

// uses determines the parameters that the stage needs.
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

// params adds the parameters of the forward pass.
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

// backward adds the backward pass: gradients of the inputs, and accumulated gradients of the weights.
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

// distinct returns gradients as separate values: one that is a parameter, or the gradient of two values, may
// need a different layout for each. Equal ones, such as zeros, would be merged, so each gets a name.
func (b *stageBuilder) distinct(grads []*ir.Value) []*ir.Value {
	list := slices.Clone(grads)
	for i, g := range grads {
		if g.Node() == nil || len(grads) > 1 {
			list[i] = op.Mark(g, fmt.Sprintf("in%d.grad", i))
		}
	}
	return list
}
