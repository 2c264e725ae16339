package step

import (
	"context"
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/runtime"
)

// ForwardRunner is devices that forward programs run on.
type ForwardRunner struct {
	world   comm.World
	devices []*cpu.Device // by device; nil for those of other processes
}

// StartForward starts a thread for every device of a world that lives in this process. The world is the
// runner's from then on: Close closes it.
func StartForward(w comm.World) *ForwardRunner {
	r := &ForwardRunner{world: w, devices: make([]*cpu.Device, w.Size())}
	for _, id := range comm.Local(w) {
		r.devices[id] = cpu.NewDevice(cpu.Config{Threads: 1})
	}
	return r
}

// Close ends the devices and the world.
func (r *ForwardRunner) Close() {
	for _, d := range r.devices {
		if d != nil {
			d.Close()
		}
	}
	r.world.Close()
}

// Run is the program's results for one micro-batch, put together from all devices in every process.
func (r *ForwardRunner) Run(ctx context.Context, p *Forward, weights Weights,
	batch []array.Array) ([]array.Array, error) {
	for i, a := range batch {
		if want := p.f.Params()[len(p.step.c.Weights)+i].Type(); !ir.TypeOf(a).Equal(want) {
			return nil, fmt.Errorf("forward: batch %d: got %v, want %v", i, ir.TypeOf(a), want)
		}
	}
	out := make([][]array.Array, len(r.devices))
	err := r.world.Run(ctx, func(_ context.Context, rank comm.Comm) error {
		w := &walk{p: p, id: rank.ID(), device: r.devices[rank.ID()].In(rank), weights: weights, batch: batch}
		var err error
		if w.group, err = rank.Group(nil); err != nil {
			return err
		}
		out[rank.ID()], err = w.all()
		return err
	})
	if err != nil {
		return nil, err
	}
	return p.gather(ctx, r.world, out)
}

// gather puts the last stage's results together.
func (p *Forward) gather(ctx context.Context, world comm.World, out [][]array.Array) ([]array.Array, error) {
	x := p.sections[len(p.sections)-1]
	specs := x.outSpecs()
	var list []array.Array
	for i, v := range x.Joint.Results() {
		l, err := specs[i].Layout(x.mesh, v.Shape())
		if err != nil {
			return nil, err
		}
		parts := map[int]array.Array{}
		for _, id := range x.mesh.Devices() {
			if comm.IsLocal(world, id) {
				parts[id] = out[id][i]
			}
		}
		a, err := runtime.AllGather(ctx, world, l, v.DType(), parts)
		if err != nil {
			return nil, err
		}
		list = append(list, a)
	}
	return list, nil
}

// walk is one device's way through the stages.
type walk struct {
	p       *Forward
	id      int
	device  *cpu.Device
	weights Weights
	batch   []array.Array
	group   *comm.Group
	sends   []*comm.Pending
}

// all plays the device's tape and returns what its last stage makes.
func (w *walk) all() ([]array.Array, error) {
	var in, out []array.Array // what the next stage takes where it is received, and what the last one made
	for _, step := range w.p.step.tapes[w.id].code {
		switch step.kind {
		case receive:
			a, err := w.receive(step)
			if err != nil {
				return nil, err
			}
			in = append(in, a)
		case call:
			if in == nil {
				in = out
			}
			var err error
			if out, err = w.stage(step, in); err != nil {
				return nil, fmt.Errorf("stage %d: %w", step.action.Stage, err)
			}
			in = nil
		case send:
			w.sends = append(w.sends, w.group.StartSend(out[step.args[0]], step.peer, step.tag))
		}
	}
	for _, s := range w.sends {
		if _, err := s.Wait(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// receive is a value of the stage before.
func (w *walk) receive(step instruction) (array.Array, error) {
	x := w.p.sections[step.action.Stage]
	value := len(x.Weights) + len(x.Batch) + step.args[0]
	v := x.Joint.Params()[value]
	l, err := x.specs[value].Layout(x.mesh, v.Shape())
	if err != nil {
		return array.Array{}, err
	}
	shape, _ := l.LocalShape(w.id)
	a := array.New(v.DType(), shape...)
	_, err = w.group.StartRecv(a, step.peer, step.tag).Wait()
	return a, err
}

// stage runs a stage on what comes from the one before.
func (w *walk) stage(step instruction, in []array.Array) ([]array.Array, error) {
	x, e := w.p.sections[step.action.Stage], step.exe
	var args []array.Array
	for _, weight := range x.Weights {
		a, err := w.weights(w.id, weight)
		if err != nil {
			return nil, err
		}
		args = append(args, a)
	}
	for j, b := range x.Batch {
		a, err := w.load(x, len(x.Weights)+j, w.batch[b-len(w.p.step.c.Weights)])
		if err != nil {
			return nil, err
		}
		args = append(args, a)
	}
	if len(x.In) > 0 {
		args = append(args, in...)
	}
	var out []array.Array
	for _, v := range e.Func().Results() {
		out = append(out, array.New(v.DType(), v.Shape()...))
	}
	arena := array.New(array.U8, e.Memory().Arena).Bytes()
	return out, e.RunOver(w.device, arena, args, out)
}

// load is the device's part of a batch.
func (w *walk) load(x *forwardSection, value int, a array.Array) (array.Array, error) {
	l, err := x.specs[value].Layout(x.mesh, a.Shape())
	if err != nil {
		return array.Array{}, err
	}
	box, _ := l.Box(w.id)
	part := array.New(a.DType(), box.Size...)
	array.CopyBox(part, make([]int, len(box.Size)), a, box.Start, box.Size)
	return part, nil
}
