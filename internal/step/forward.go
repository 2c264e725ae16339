package step

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/pipeline"
	"github.com/galley-ml/galley/internal/spmd"
	"github.com/galley-ml/galley/internal/stage"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// Forward is a program that is run forward only, on the meshes of a step and with the weights as they rest
// there: its stages, one after the other. Nothing is kept for gradients.
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

// NewForward plans a program that takes the weights and then one micro-batch. Of the config it reads Weights,
// Batch, Marks, Meshes, Cuts and Prices, and of the schedule where each stage is placed.
func NewForward(c Config, f *ir.Func) (*Forward, error) {
	if len(f.Params()) != len(c.Weights)+len(c.Batch) {
		return nil, fmt.Errorf("forward: program has %d parameters: want %d weights and %d of a batch",
			len(f.Params()), len(c.Weights), len(c.Batch))
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
	for _, m := range c.Meshes {
		for _, id := range m.Devices() {
			if err := p.tape(id); err != nil {
				return nil, err
			}
		}
	}
	return p, p.step.match()
}

// tape writes what a device does: its stages in order, and the messages between them. It has no buffers: what
// a stage takes and makes lives from its instructions to the next ones.
func (p *Forward) tape(device int) error {
	t := &tape{device: device}
	message := func(kind instructionKind, k, other, i int) {
		a := pipeline.Action{Stage: k, Kind: pipeline.SendForward}
		from := k
		if kind == receive {
			a.Kind, from = pipeline.RecvForward, other
		}
		t.code = append(t.code, instruction{action: a, kind: kind, args: []int{i}, peer: p.peer(device, k, other),
			tag: i*len(p.sections) + from})
	}
	for k, x := range p.sections {
		if _, here := x.mesh.Index(device); !here {
			continue
		}
		e, err := p.step.compiled(x.program, device, nil)
		if err != nil {
			return err
		}
		for i := range x.In {
			if !p.shares(k, k-1) {
				message(receive, k, k-1, i)
			}
		}
		t.code = append(t.code, instruction{action: pipeline.Action{Stage: k, Kind: pipeline.Forward}, kind: call,
			exe: e})
		for i := range x.Out {
			if k+1 < len(p.sections) && !p.shares(k, k+1) {
				message(send, k, k+1, i)
			}
		}
	}
	for len(p.step.tapes) <= device {
		p.step.tapes = append(p.step.tapes, nil)
	}
	p.step.tapes[device] = t
	return nil
}

// shares reports whether two stages are on the same devices.
func (p *Forward) shares(a, b int) bool { return p.sections[a].rank == p.sections[b].rank }

// peer is the device at a device's place of another stage's mesh.
func (p *Forward) peer(device, stage, other int) int {
	place, _ := p.sections[stage].mesh.Index(device)
	return p.sections[other].mesh.Devices()[place]
}

// section infers the layout of a stage's values and partitions it. in is how what comes from the stage before
// lies.
func (p *Forward) section(s *stage.Stage, number int, in []mesh.Spec) (*forwardSection, error) {
	c := &p.step.c
	x := &forwardSection{Stage: s, rank: c.Schedule.Place[number]}
	x.mesh = c.Meshes[x.rank]
	layouts, err := infer(s.Joint, x.mesh, x.asked(c, in))
	if err != nil {
		return nil, err
	}
	x.specs = layouts.Specs
	x.program, err = spmd.Partition(s.Joint, layouts.Specs, x.mesh,
		spmd.Config{Prices: c.Prices, Meshes: layouts.Meshes, Results: x.outSpecs()})
	return x, err
}

func (x *forwardSection) asked(c *Config, in []mesh.Spec) map[int]mesh.Sharding {
	asked := map[int]mesh.Sharding{}
	c.SequenceParallel.Ask(x.Joint, Uses(c.Weights, x.Weights), asked)
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

// Memory is what a device needs: the weights that it reads and, in Step, what one stage takes, makes and
// needs in between at most.
func (p *Forward) Memory(device int) Memory {
	var m Memory
	read := map[int]bool{}
	for _, in := range p.step.tapes[device].code {
		if in.kind != call {
			continue
		}
		x, n := p.sections[in.action.Stage], in.exe.Memory().Arena
		for j, v := range in.exe.Func().Params() {
			size := aligned(v.Type().Bytes())
			switch {
			case j >= len(x.Weights):
				n += size
			case !read[x.Weights[j]]:
				read[x.Weights[j]] = true
				m.Weights += size
			}
		}
		for _, v := range in.exe.Func().Results() {
			n += aligned(v.Type().Bytes())
		}
		m.Step = max(m.Step, n)
	}
	return m
}

// Load is what a device does for one micro-batch.
func (p *Forward) Load(device int) Load {
	var l Load
	for _, in := range p.step.tapes[device].code {
		if in.kind != call {
			continue
		}
		l.add(in.exe.Func())
		if k := in.action.Stage; k+1 < len(p.sections) && !p.shares(k, k+1) {
			for _, v := range in.exe.Func().Results() {
				l.Sent += float64(v.Type().Bytes())
				l.Messages++
			}
		}
	}
	return l
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
