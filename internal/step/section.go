package step

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/pipeline"
	"github.com/galley-ml/galley/internal/shard"
	"github.com/galley-ml/galley/internal/spmd"
	"github.com/galley-ml/galley/internal/stage"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// section is a stage on its mesh: its joint program with a Spec for every value, and the parts that a
// schedule calls.
type section struct {
	*stage.Stage
	number, rank int
	mesh         *mesh.Mesh
	// types, specs and meshes are by value of the joint program.
	types  []ir.Type
	specs  []mesh.Spec
	meshes []*mesh.Mesh
	// parts holds what the schedule calls: forward and backward, or forward and the two halves of backward.
	parts map[partKey]*part
	// sums is the layout of the gradient accumulators. sumOf and gradOf map values of the joint program to the
	// weight whose next accumulator or gradient they are.
	sums          []mesh.Spec
	sumOf, gradOf map[int]int
	// offloaded marks the values that are offloaded between forward and backward passes.
	offloaded map[int]bool
}

// partKey identifies a part. The first backward pass of a step stores its gradients, to which later ones add
// theirs.
type partKey struct {
	kind pipeline.Kind
	turn turn
}

type turn uint8

const (
	later turn = iota
	first
)

// part is a piece of a stage's joint program, partitioned.
type part struct {
	program *spmd.Program
	// params and results are values of the joint program by ID.
	params, results []int
}

// newSection infers the layouts of a stage's values and partitions its parts. in holds the layouts of the
// inputs from the previous stage, sums those of the accumulators if they are decided already.
func newSection(c *Config, s *stage.Stage, number int, in []op.Layout, sums []mesh.Spec) (*section, error) {
	rank := c.Schedule.Place[number]
	x := &section{Stage: s, number: number, rank: rank, mesh: c.Meshes[rank], parts: map[partKey]*part{},
		types: typesOf(s.Joint)}
	x.sumOf, x.gradOf = map[int]int{}, map[int]int{}
	asked := x.annotations(c, in)
	if x.Forward {
		return x, x.forward(c, asked)
	}
	for j := range x.Weights {
		next := s.Joint.Results()[x.sumResult(j)]
		x.sumOf[next.ID()], x.gradOf[next.Node().In()[1].ID()] = j, j
	}
	if err := x.infer(asked); err != nil {
		return nil, err
	}
	if err := x.checkOutputs(); err != nil {
		return nil, err
	}
	x.relocate(c)
	if err := x.placeSums(c, sums); err != nil {
		return nil, err
	}
	return x, x.cut(c)
}

// checkOutputs returns an error if an output of the stage is requested to stay unreduced, because messages
// carry values.
func (x *section) checkOutputs() error {
	for _, v := range x.Joint.Results()[:len(x.Out)] {
		s, m := x.specs[v.ID()], x.meshes[v.ID()]
		if v.Node() == nil || !slices.ContainsFunc(s.Partial,
			func(q mesh.Pending) bool { return m.Extent(q.Sub) > 1 }) {
			continue
		}
		return &ir.Error{Pos: v.Node().Pos(), Op: v.Node().Op().Name(), Err: fmt.Errorf("%v on %v: it is "+
			"unreduced, and another stage reads it: want it replicated or sharded", s, m)}
	}
	return nil
}

// pinAfter is the number of inferences of a stage after which results keep their last layout, inferMost the
// maximal number.
const pinAfter, inferMost = 2, 8

// infer infers the layouts of the joint program's values such that the gradient of a result has the layout of
// the result, in which the next stage sends it. Annotations of gradients can change the layouts of results,
// so it repeats until both agree.
func (x *section) infer(asked *annotations) error {
	have := map[int]op.Layout{}
	for round := range inferMost {
		inferred, err := infer(x.Joint, x.mesh, asked)
		if err != nil {
			return err
		}
		x.specs, x.meshes = inferred.Specs, inferred.Meshes
		same := true
		for i, g := range x.outGrads() {
			y := x.Joint.Results()[i].ID()
			want := op.Layout{Mesh: x.meshes[y], Spec: x.specs[y].With()}
			if at, ok := have[g]; ok && at.Mesh.Equal(want.Mesh) && at.Spec.Equal(want.Spec) {
				continue
			}
			same, have[g] = false, want
			asked.at(g, want.Mesh, want.Spec)
			if round >= pinAfter {
				asked.at(y, want.Mesh, want.Spec)
			}
		}
		if same {
			return nil
		}
	}
	return fmt.Errorf(
		"stage %d: its results and their gradients find no common layout: annotate what it returns",
		x.number,
	)
}

// forward infers and partitions a stage without a backward pass. Its outputs are reduced.
func (x *section) forward(c *Config, asked *annotations) error {
	inferred, err := infer(x.Joint, x.mesh, asked)
	if err != nil {
		return err
	}
	x.specs, x.meshes = inferred.Specs, inferred.Meshes
	x.relocate(c)
	p := &part{}
	for id := range x.Joint.Params() {
		p.params = append(p.params, id)
	}
	for _, v := range x.Joint.Results() {
		p.results = append(p.results, v.ID())
	}
	p.program, err = spmd.Partition(x.Joint, x.specs, x.mesh,
		spmd.Config{Prices: c.Prices, Meshes: x.meshes, Results: x.outSpecs()})
	x.parts[partKey{kind: pipeline.Forward}] = p
	return err
}

// returned returns what the last stage of a forward pass returns.
func (x *section) returned() []Result {
	var list []Result
	for i, s := range x.outSpecs() {
		list = append(list, Result{x.Joint.Results()[i].Type(), s})
	}
	return list
}

// annotations returns the annotations of the joint program's values.
func (x *section) annotations(c *Config, in []op.Layout) *annotations {
	a := shard.Annotations{
		SequenceParallel: c.SequenceParallel,
		Uses:             Uses(c.Weights, x.Weights),
		Marks:            c.Marks,
	}
	asked := &annotations{values: a.Values(x.Joint), meshes: map[int]*mesh.Mesh{}}
	for j, w := range x.Weights {
		l := c.layouts(w, x.rank)
		asked.at(j, l.Mesh, l.Rest)
		if !x.Forward {
			asked.at(x.sumParam(j), l.Mesh, l.Sum)
		}
	}
	for j, b := range x.Batch {
		x.annotateBatch(c, asked, len(x.Weights)+j, b-len(c.Weights))
	}
	for j, from := range in {
		to := x.inputLayout(c, j, from)
		asked.at(x.inParam(j), to.Mesh, to.Spec)
	}
	return asked
}

// annotateBatch adds the annotation of a tensor of the batch, if the stage has its devices.
func (x *section) annotateBatch(c *Config, asked *annotations, param, batch int) {
	s := c.Batch[batch]
	if s.Spec.Dims == nil {
		return
	}
	m := x.mesh
	if batch < len(c.BatchMeshes) && c.BatchMeshes[batch] != nil {
		m = c.BatchMeshes[batch]
	}
	if x.mesh.Covers(m) {
		asked.values[param], asked.meshes[param] = s, m
	}
}

// inParam returns the joint program's parameter for an input, sumParam that for an accumulator.
func (x *section) inParam(j int) int { return len(x.Weights) + len(x.Batch) + j }
func (x *section) sumParam(j int) int {
	return len(x.Weights) + len(x.Batch) + len(x.In) + x.NumGrads() + j
}

// sumResult returns the joint program's result that is the next value of an accumulator.
func (x *section) sumResult(j int) int { return len(x.Out) + x.NumInGrads() + j }

// outGrads returns the parameters that are gradients of results, by the results' numbers; the weight of a
// loss is not one.
func (x *section) outGrads() map[int]int {
	grads := map[int]int{}
	if x.Forward {
		return grads
	}
	next := x.inParam(len(x.In))
	for i := range x.Out {
		v := x.Joint.Results()[i]
		if x.isLoss() || !v.DType().IsFloat() {
			continue
		}
		grads[i] = next
		next++
	}
	return grads
}

// isLoss reports whether the stage's parameter for gradients is the weight of the loss.
func (x *section) isLoss() bool {
	return x.NumGrads() == 1 && x.Joint.Params()[x.inParam(len(x.In))].Name() == "weight"
}

// inGrads returns, for each float among In, the number of its gradient among the results.
func (x *section) inGrads() map[int]int {
	grads, next := map[int]int{}, len(x.Out)
	if x.Forward {
		return grads
	}
	for j := range x.In {
		if x.Joint.Params()[x.inParam(j)].DType().IsFloat() {
			grads[j] = next
			next++
		}
	}
	return grads
}

// placeSums decides the layouts of the gradient accumulators. Over axes on which gradients are unreduced the
// accumulators are too, so that they are reduced once a step and not once a micro-batch. Other splits of a
// gradient are resolved in each micro-batch. With reduceInBackward an accumulator has the layout of the
// optimizer's slots instead: each gradient is reduced while those of the layers before it are computed.
func (x *section) placeSums(c *Config, sums []mesh.Spec) error {
	p, err := spmd.Partition(x.Joint, x.specs, x.mesh, spmd.Config{Prices: c.Prices, Meshes: x.meshes})
	if err != nil {
		return err
	}
	var grads []*ir.Value
	var specs []mesh.Spec
	for j, w := range x.Weights {
		grads = append(grads, x.Joint.Results()[x.sumResult(j)].Node().In()[1])
		specs = append(specs, c.layouts(w, x.rank).Sum)
	}
	layout, inner := p.Unreduced(grads, specs)
	if x.sums = sums; sums == nil {
		x.sums = layout
	}
	if c.reduceInBackward() {
		for j, w := range x.Weights {
			x.sums[j] = c.layouts(w, x.rank).Slot.With()
		}
	}
	for j, spec := range x.sums {
		x.specs[x.sumParam(j)], x.specs[x.Joint.Results()[x.sumResult(j)].ID()] = spec, spec
	}
	for id, spec := range inner {
		x.specs[id] = spec
	}
	return nil
}

// cut divides the joint program into the parts that the schedule calls.
func (x *section) cut(c *Config) error {
	if err := x.cutTurn(c, x.Joint, later, x.specs); err != nil {
		return err
	}
	// The first backward pass has nothing to add to: its gradients become the accumulators.
	specs := slices.Clone(x.specs)
	results := slices.Clone(x.Joint.Results())
	for j := range x.Weights {
		g := results[x.sumResult(j)].Node().In()[1]
		results[x.sumResult(j)], specs[g.ID()] = g, x.sums[j]
	}
	joint, err := x.Joint.WithResults(results)
	if err != nil {
		return err
	}
	return x.cutTurn(c, joint, first, specs)
}

// cutTurn divides the joint program into parts for the first or for later backward passes.
func (x *section) cutTurn(c *Config, joint *ir.Func, t turn, specs []mesh.Spec) error {
	var outs, grads []int
	for i := range x.Out {
		outs = append(outs, i)
	}
	keep := stage.NewKeep(joint, len(x.Weights), c.Between, c.Recompute)
	name := func(what string) string { return fmt.Sprintf("stage%d.%s", x.number, what) }
	f, b, err := stage.Cut(joint, [2]string{name("forward"), name("backward")}, outs, keep)
	if err != nil {
		return err
	}
	add := func(kind pipeline.Kind, p *stage.Part, via []int) error {
		out, err := x.partition(c, kind, p, via, specs)
		x.parts[partKey{kind, t}] = out
		return err
	}
	if t == later {
		if err := add(pipeline.Forward, f, nil); err != nil {
			return err
		}
	}
	if err := add(pipeline.Backward, b, nil); err != nil || !c.Schedule.Splits() {
		return err
	}
	for i := range x.NumInGrads() {
		grads = append(grads, i)
	}
	all := func(n *ir.Node) bool { _, view := n.Op().(op.Aliaser); return !view }
	in, w, err := stage.Cut(b.Func, [2]string{name("input"), name("weight")}, grads, all)
	if err != nil {
		return err
	}
	if err := add(pipeline.Weight, w, b.Values); err != nil {
		return err
	}
	return add(pipeline.Input, in, b.Values)
}

// partition partitions a part over the devices. via, if set, maps its value IDs to those of the joint
// program.
func (x *section) partition(c *Config, kind pipeline.Kind, p *stage.Part, via []int, all []mesh.Spec) (*part,
	error) {
	joint := func(id int) int {
		if via != nil {
			return via[id]
		}
		return id
	}
	specs, meshes := make([]mesh.Spec, p.Func.NumValues()), make([]*mesh.Mesh, p.Func.NumValues())
	for own, id := range p.Values {
		specs[own], meshes[own] = all[joint(id)], x.meshes[joint(id)]
	}
	back := map[int]mesh.Spec{} // an input's gradient is sent back in the input's layout
	for j, r := range x.inGrads() {
		back[x.Joint.Results()[r].ID()] = x.specs[x.inParam(j)].With()
	}
	out := &part{}
	results := make([]mesh.Spec, len(p.Results))
	for i, id := range p.Results {
		id = joint(id)
		results[i] = all[id]
		if s, ok := back[id]; ok && kind != pipeline.Forward {
			results[i] = s
		}
		out.results = append(out.results, id)
	}
	for _, id := range p.Params {
		out.params = append(out.params, joint(id))
	}
	var err error
	out.program, err = spmd.Partition(p.Func, specs, x.mesh,
		spmd.Config{Prices: c.Prices, Meshes: meshes, Results: results})
	return out, err
}

// outSpecs returns the Specs of the stage's outputs.
func (x *section) outSpecs() []mesh.Spec {
	list := make([]mesh.Spec, len(x.Out))
	for i, l := range x.outLayouts() {
		list[i] = l.Spec
	}
	return slices.Clip(list)
}

// outLayouts returns the meshes and Specs of the stage's outputs.
func (x *section) outLayouts() []op.Layout {
	list := make([]op.Layout, len(x.Out))
	for i := range x.Out {
		id := x.Joint.Results()[i].ID()
		list[i] = op.Layout{Mesh: x.meshes[id], Spec: x.specs[id].With()}
	}
	return list
}

// typesOf returns the types of a program's values.
func typesOf(f *ir.Func) []ir.Type {
	types := make([]ir.Type, 0, f.NumValues())
	for _, v := range f.Params() {
		types = append(types, v.Type())
	}
	for _, n := range f.Nodes() {
		for _, v := range n.Out() {
			types = append(types, v.Type())
		}
	}
	return types
}
