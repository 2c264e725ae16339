package accelerator

import (
	"errors"
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/backend"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/executor"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/layout"
	"github.com/galley-ml/galley/internal/lower"
	"github.com/galley-ml/galley/internal/shard"
	"github.com/galley-ml/galley/internal/spmd"
	"github.com/galley-ml/galley/internal/step"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/strategy"
)

// group is the layout of training on a device group of a backend, in SPMD execution: one program for all
// devices, each on its own shards.
type group struct {
	*layout.Layout
	c       executor.Config
	devices backend.Group
	weights []step.Weight
	// sums holds the layouts of gradients between micro-batches; nil until the first program decides them.
	sums []mesh.Spec
}

// layouts holds the layouts of a program's parameters and results on the devices.
type layouts struct {
	params  []mesh.Sharding
	results []mesh.Spec
	// inner holds the required layouts of values within the program, by ID.
	inner map[int]mesh.Spec
}

// newGroup returns the group for c's strategy, or an error if the backend's devices cannot run it.
func newGroup(c executor.Config) (*group, error) {
	s := c.Strategy
	if what, fix := unsupported(c); what != "" {
		return nil, fmt.Errorf("trainer: strategy %q: a backend's devices run one program: %s: %s", s, what, fix)
	}
	devices, ok := c.Backend.(backend.Group)
	n := 1
	if ok {
		n = len(devices.Devices())
	}
	if s.Devices() > n {
		return nil, fmt.Errorf("trainer: strategy %q takes %d devices: %s has %d: want a smaller degree", s,
			s.Devices(), c.Backend.Name(), n)
	}
	l, err := c.Layout()
	if err == nil {
		err = l.Strategy.Idle()
	}
	if err != nil {
		return nil, err
	}
	weights, err := l.Weights(nil)
	return &group{Layout: l, c: c, devices: devices, weights: weights}, err
}

// unsupported returns the setting of a strategy that SPMD execution does not support, such as different
// programs on devices, and an alternative.
func unsupported(c executor.Config) (what, fix string) {
	switch s := c.Strategy; {
	case s.PP > 1:
		return "they have no stages of their own", "want pp=1"
	case s.EP > 1:
		return "how many tokens travel to experts only a run knows", "want ep=1, and tp to split experts"
	case s.Overlap == strategy.On || s.Bucket > 0 || s.Host > 0:
		return "its compiler decides what overlaps", "leave overlap out"
	case s.Offload != strategy.Offload{}:
		return "its state stays on them", "want offload none, and zero for less memory"
	case c.Layers != nil:
		return "a plan of layers is for in-process devices", "want a strategy and annotations"
	}
	return "", ""
}

// mesh returns the mesh of the devices, numbered as in the group.
func (s *group) mesh() *mesh.Mesh { return s.Meshes[0] }

// state returns the layout of tensor i of the state: parameters first, then their slots.
func (s *group) state(i int) mesh.Spec {
	if i < len(s.weights) {
		return s.weights[i].Rest
	}
	n := s.c.Optimizer.Slots()
	w, k := (i-len(s.weights))/n, (i-len(s.weights))%n
	if t := s.c.SlotTypes(w)[k]; !t.Shape.Equal(s.c.Params[w].Type.Shape) {
		return mesh.Whole(len(t.Shape))
	}
	return s.weights[w].Slot
}

// step returns the program of a training step and the layouts of its inputs and outputs. Sharded weights are
// gathered for use, and gradients are resharded to the layouts of their slots.
func (s *group) step(batch []ir.Type) (*ir.Func, layouts, error) {
	c, b := s.c, ir.NewBuilder("train_step")
	params, rest, in := c.StepParts(c.StepParams(b, batch))
	used, gathered := s.used(params)
	loss := executor.CheckedLoss(c.LossOf(used, in, executor.StepOf(rest)), used)
	own, grads := s.updated(params, op.GradOnce([]*op.Tensor{loss}, nil, used))
	p, err := b.Build(c.Update(loss, own, grads, rest, nil)...)
	if err == nil {
		p, err = c.OptimizeProgram(p)
	}
	if err == nil {
		p, err = executor.Recomputed(p, len(params), 1, policy(c), gathered)
	}
	return p, s.stepLayouts(batch), err
}

// at constrains x to a layout.
func (s *group) at(x *op.Tensor, spec mesh.Spec) *op.Tensor {
	return op.Constrain(x, s.mesh(), mesh.Closed(spec))
}

func (s *group) stepLayouts(batch []ir.Type) layouts {
	l, scalar := s.stateLayouts(), mesh.Closed(mesh.Whole(0))
	l.params = append(l.params, scalar, scalar)
	for _, t := range batch {
		l.params = append(l.params, s.Batch(t))
	}
	return l
}

// stateLayouts returns the layouts of the state and of a step's metrics.
func (s *group) stateLayouts() layouts {
	l := layouts{results: []mesh.Spec{mesh.Whole(0), mesh.Whole(0)}}
	for i := range len(s.weights) * (1 + s.c.Optimizer.Slots()) {
		l.params, l.results = append(l.params, mesh.Closed(s.state(i))), append(l.results, s.state(i))
	}
	return l
}

// forwardLayouts returns the layouts of a program of the parameters and a batch, with results
// replicated.
func (s *group) forwardLayouts(batch int, p *ir.Func) layouts {
	var l layouts
	for _, w := range s.weights {
		l.params = append(l.params, mesh.Closed(w.Rest))
	}
	inputs, _ := s.Inputs(p, batch)
	l.params = append(l.params, inputs...)
	for _, v := range p.Results() {
		l.results = append(l.results, mesh.Whole(len(v.Shape())))
	}
	return l
}

// compile compiles a program on whole tensors to one SPMD program for all devices.
func (s *group) compile(p *ir.Func, l layouts, donate []int) (backend.Executable, error) {
	fused, err := s.partition(p, l)
	if err != nil {
		return nil, err
	}
	locals := make([]*ir.Func, s.mesh().Size())
	for device := range locals {
		if locals[device], err = fused.Local(device); err == nil {
			locals[device], err = s.c.OptimizeLocal(locals[device])
		}
		if err != nil {
			return nil, err
		}
	}
	exe, err := s.devices.CompileSPMD(locals, cpu.Options{Donate: donate})
	return exe, s.explain(err)
}

// explain adds an alternative to errors about programs that differ between devices.
func (s *group) explain(err error) error {
	if _, ok := errors.AsType[*lower.DifferError](err); !ok {
		return err
	}
	if s.Strategy.CP > 1 && s.Strategy.Context == "ring" {
		return fmt.Errorf("%w: causal ring attention differs between devices: want context ulysses",
			err)
	}
	return fmt.Errorf("%w: want a batch and sizes that %s divides", err, s.Strategy)
}

// partition decides the layout of every value of a program.
func (s *group) partition(p *ir.Func, l layouts) (*spmd.Program, error) {
	a := shard.Annotations{Marks: s.Mark, SequenceParallel: s.SequenceParallel(),
		Uses: step.Uses(s.weights, executor.UpTo(0, len(s.weights)))}
	for _, x := range l.params {
		x.Spec = x.Spec.With() // inference handles only how dims are split
		a.Params = append(a.Params, x)
	}
	c := shard.Config{Mesh: s.mesh(), Values: a.Values(p)}
	if len(l.params) == 0 { // no parameter has a layout to infer from
		for _, x := range l.results {
			c.Results = append(c.Results, mesh.Closed(x))
		}
	}
	r, err := shard.Infer(p, c)
	if err != nil {
		return nil, err
	}
	l.addUnreduced(p, r.Specs)
	return spmd.Partition(p, r.Specs, s.mesh(), spmd.Config{Meshes: r.Meshes, Results: l.results})
}

// addUnreduced adds to the layouts of values what inference does not handle: unreduced axes.
func (l layouts) addUnreduced(p *ir.Func, specs []mesh.Spec) {
	for id, spec := range l.inner {
		specs[id] = spec
	}
	for i, x := range l.params {
		if len(x.Spec.Partial) > 0 {
			specs[p.Params()[i].ID()] = x.Spec
		}
	}
	for i, spec := range l.results {
		if len(spec.Partial) > 0 {
			specs[p.Results()[i].ID()] = spec
		}
	}
}

// put shards an array and copies each shard to its device.
func (s *group) put(a array.Array, spec mesh.Spec) ([]backend.Buffer, error) {
	l, err := spec.Layout(s.mesh(), a.Shape())
	if err != nil {
		return nil, err
	}
	list := make([]backend.Buffer, s.mesh().Size())
	for device, box := range l.Boxes() {
		part := array.New(a.DType(), box.Size...)
		array.CopyBox(part, make([]int, len(box.Size)), a, box.Start, box.Size)
		if list[device], err = s.devices.Devices()[device].Put(part); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// read assembles an array from its shards on the devices. Of equal replicas only one is read.
func (s *group) read(t ir.Type, spec mesh.Spec, list []backend.Buffer) (array.Array, error) {
	l, err := spec.Layout(s.mesh(), t.Shape)
	if err != nil {
		return array.Array{}, err
	}
	whole := array.New(t.DType, t.Shape...)
	for _, p := range l.Pieces() {
		part, err := list[p.Devices[0]].Read()
		if err != nil {
			return array.Array{}, err
		}
		array.CopyBox(whole, p.Box.Start, part, make([]int, len(p.Box.Size)), p.Box.Size)
	}
	return whole, nil
}
