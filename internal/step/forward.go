package step

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/shard"
	"github.com/galley-ml/galley/internal/spmd"
	"github.com/galley-ml/galley/internal/stage"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// Forward is a program that is run forward only, on the meshes of a step and with the weights as they rest there: its stages,
// one after the other. Nothing is kept for gradients.
type Forward struct {
	step     *Step
	f        *ir.Func
	sections []*forwardSection
}

// forwardSection is a stage on its mesh.
type forwardSection struct {
	*stage.Stage
	rank    int
	mesh    *mesh.Mesh
	specs   []mesh.Spec
	program *spmd.Program
}

// NewForward plans a program that takes the weights and then one micro-batch. Of the config it reads Weights, Batch, Marks,
// Meshes, Cuts and Prices, and of the schedule where each stage is placed.
func NewForward(c Config, f *ir.Func) (*Forward, error) {
	if len(f.Params()) != len(c.Weights)+len(c.Batch) {
		return nil, fmt.Errorf("forward: program has %d parameters: want %d weights and %d of a batch", len(f.Params()), len(c.Weights), len(c.Batch))
	}
	p := &Forward{step: &Step{c: c, exes: map[exeKey]*cpu.Executable{}}, f: f}
	cuts, err := c.cuts(f)
	if err != nil {
		return nil, err
	}
	stages, err := stage.Forward(f, stage.Config{Weights: len(c.Weights), Cuts: cuts, Use: p.step.use})
	if err != nil {
		return nil, err
	}
	var in []mesh.Spec
	for i, s := range stages {
		x, err := p.section(s, i, in)
		if err != nil {
			return nil, fmt.Errorf("stage %d: %w", i, err)
		}
		p.sections, in = append(p.sections, x), x.outSpecs()
	}
	return p, nil
}

// section infers how a stage's values lie and partitions it. in is how what comes from the stage before lies.
func (p *Forward) section(s *stage.Stage, number int, in []mesh.Spec) (*forwardSection, error) {
	c := &p.step.c
	x := &forwardSection{Stage: s, rank: c.Schedule.Place[number]}
	x.mesh = c.Meshes[x.rank]
	lies, err := shard.Infer(s.Joint, shard.Config{Mesh: x.mesh, Values: x.asked(c, in)})
	if err != nil {
		return nil, err
	}
	x.specs = lies.Specs
	x.program, err = spmd.Partition(s.Joint, lies.Specs, x.mesh, spmd.Config{Prices: c.Prices, Meshes: lies.Meshes, Results: x.outSpecs()})
	return x, err
}

func (x *forwardSection) asked(c *Config, in []mesh.Spec) map[int]mesh.Sharding {
	asked := map[int]mesh.Sharding{}
	for j, w := range x.Weights {
		asked[j] = mesh.Closed(c.Weights[w].Rest)
	}
	for j, b := range x.Batch {
		asked[len(x.Weights)+j] = c.Batch[b-len(c.Weights)]
	}
	for j, s := range in {
		asked[len(x.Weights)+len(x.Batch)+j] = mesh.Closed(s)
	}
	for _, n := range x.Joint.Nodes() {
		if label, ok := op.Marked(n); ok && c.Marks != nil {
			if s, ok := c.Marks(label); ok && len(s.Spec.Dims) == len(n.Out()[0].Shape()) {
				asked[n.Out()[0].ID()] = s
			}
		}
	}
	return asked
}

// outSpecs is how what the stage hands on lies: with no sums pending.
func (x *forwardSection) outSpecs() []mesh.Spec {
	list := make([]mesh.Spec, len(x.Out))
	for i, v := range x.Joint.Results() {
		list[i] = x.specs[v.ID()].With()
	}
	return list
}

// Memory is what a device needs at most at once, besides the weights: what one stage takes, makes and needs in between.
func (p *Forward) Memory(device int) (int, error) {
	most := 0
	for _, x := range p.sections {
		if _, here := x.mesh.Index(device); !here {
			continue
		}
		e, err := p.step.compiled(x.program, device, nil)
		if err != nil {
			return 0, err
		}
		n := e.Memory().Arena
		for _, v := range e.Func().Params()[len(x.Weights):] {
			n += aligned(v.Type().Bytes())
		}
		for _, v := range e.Func().Results() {
			n += aligned(v.Type().Bytes())
		}
		most = max(most, n)
	}
	return most, nil
}

func aligned(n int) int { return (n + array.Alignment - 1) &^ (array.Alignment - 1) }

// Weights is a device's part of a weight, as it rests.
type Weights func(device, weight int) (array.Array, error)

// Weights is the weights where a step keeps them, shared with it: they must not be read while it runs.
func (r *Runner) Weights() Weights {
	return func(device, weight int) (array.Array, error) {
		key := bufferKey{kind: weightBuffer, stage: weight}
		for i := range r.tapes[device].buffers {
			if r.tapes[device].buffers[i].key == key {
				return r.memory[device].arrays[i], nil
			}
		}
		return array.Array{}, fmt.Errorf("%s: device %d has no part of it", r.c.Weights[weight].Name, device)
	}
}
