package step

import (
	"context"
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/runtime"
	"github.com/galley-ml/galley/mesh"
)

// ForwardRunner is devices that forward programs run on.
type ForwardRunner struct {
	world   *comm.World
	devices []*cpu.Device
}

// StartForward starts a thread for every one of n devices.
func StartForward(n int) (*ForwardRunner, error) {
	w, err := comm.NewWorld(n)
	if err != nil {
		return nil, err
	}
	r := &ForwardRunner{world: w}
	for range n {
		r.devices = append(r.devices, cpu.NewDevice(cpu.Config{Threads: 1}))
	}
	return r, nil
}

// Close ends the devices.
func (r *ForwardRunner) Close() {
	for _, d := range r.devices {
		d.Close()
	}
}

// Run is the program's results for one micro-batch, put together from all devices.
func (r *ForwardRunner) Run(ctx context.Context, p *Forward, weights Weights, batch []array.Array) ([]array.Array, error) {
	for i, a := range batch {
		if want := p.f.Params()[len(p.step.c.Weights)+i].Type(); !ir.TypeOf(a).Equal(want) {
			return nil, fmt.Errorf("forward: batch %d: got %v, want %v", i, ir.TypeOf(a), want)
		}
	}
	out := make([][]array.Array, len(r.devices))
	walks, err := r.walks(p, weights, batch)
	if err != nil {
		return nil, err
	}
	err = r.world.Run(ctx, func(_ context.Context, rank *comm.Rank) error {
		var err error
		out[rank.ID()], err = walks[rank.ID()].all(rank)
		return err
	})
	if err != nil {
		return nil, err
	}
	return p.gather(out)
}

// walks compiles what each device runs, before any of them does.
func (r *ForwardRunner) walks(p *Forward, weights Weights, batch []array.Array) ([]*walk, error) {
	list := make([]*walk, len(r.devices))
	for id := range list {
		w := &walk{p: p, id: id, device: r.devices[id], weights: weights, batch: batch, exes: make([]*cpu.Executable, len(p.sections))}
		for k, x := range p.sections {
			if _, here := x.mesh.Index(id); !here {
				continue
			}
			var err error
			if w.exes[k], err = p.step.compiled(x.program, id, nil); err != nil {
				return nil, err
			}
		}
		list[id] = w
	}
	return list, nil
}

// gather puts the last stage's results together.
func (p *Forward) gather(out [][]array.Array) ([]array.Array, error) {
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
			parts[id] = out[id][i]
		}
		a, err := runtime.Gather(l, parts)
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
	// exes is by stage; nil where the device has no part in it.
	exes  []*cpu.Executable
	group *comm.Group
	sends []*comm.Pending
}

// all runs the device's stages in order and returns the results of the last stage, if that is one of them.
func (w *walk) all(rank *comm.Rank) (out []array.Array, err error) {
	w.device = w.device.In(rank)
	if w.group, err = rank.Group(nil); err != nil {
		return nil, err
	}
	for k, x := range w.p.sections {
		if w.exes[k] == nil {
			continue
		}
		if k > 0 && w.exes[k-1] == nil {
			if out, err = w.receive(k); err != nil {
				return nil, err
			}
		}
		if out, err = w.stage(k, out); err != nil {
			return nil, fmt.Errorf("stage %d: %w", k, err)
		}
		if k+1 < len(w.p.sections) && w.exes[k+1] == nil {
			w.send(k, x, out)
		}
	}
	for _, s := range w.sends {
		if _, err := s.Wait(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// stage runs stage k on what comes from the one before.
func (w *walk) stage(k int, in []array.Array) ([]array.Array, error) {
	x, e := w.p.sections[k], w.exes[k]
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
	args = append(args, in...)
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

// peer is the device at the same place of another stage's mesh.
func (w *walk) peer(from, to *mesh.Mesh) int {
	place, _ := from.Index(w.id)
	return to.Devices()[place]
}

func (w *walk) tag(stage, i int) int { return i*len(w.p.sections) + stage }

func (w *walk) send(k int, x *forwardSection, out []array.Array) {
	to := w.peer(x.mesh, w.p.sections[k+1].mesh)
	for i, a := range out {
		w.sends = append(w.sends, w.group.StartSend(a, to, w.tag(k, i)))
	}
}

// receive is what stage k takes of the one before.
func (w *walk) receive(k int) ([]array.Array, error) {
	x := w.p.sections[k]
	from := w.peer(x.mesh, w.p.sections[k-1].mesh)
	var in []array.Array
	for i, v := range w.exes[k].Func().Params()[len(x.Weights)+len(x.Batch):] {
		a := array.New(v.DType(), v.Shape()...)
		if _, err := w.group.StartRecv(a, from, w.tag(k-1, i)).Wait(); err != nil {
			return nil, err
		}
		in = append(in, a)
	}
	return in, nil
}
