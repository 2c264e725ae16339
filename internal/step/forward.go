package step

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/runtime"
)

// Weights returns a device's shard of a weight, as it is stored.
type Weights func(device, weight int) (array.Array, error)

// Weights returns the weights of a step, without copying: they must not be read while it runs. Offloaded ones
// are copied.
func (r *Runner) Weights() Weights {
	return func(device, weight int) (array.Array, error) { return r.fetch(device, Tensor{weight, -1}) }
}

// ForwardRunner holds the devices that forward passes run on.
type ForwardRunner struct {
	world   comm.World
	devices []*cpu.Device // by device; nil for those of other processes
}

// StartForward starts a thread for every device of a world in this process. The runner owns the world from
// then on: Close closes it.
func StartForward(w comm.World) *ForwardRunner {
	r := &ForwardRunner{world: w, devices: make([]*cpu.Device, w.Size())}
	for _, id := range comm.Local(w) {
		r.devices[id] = cpu.NewDevice(cpu.Config{Threads: 1})
	}
	return r
}

// Has reports whether a device belongs to this process.
func (r *ForwardRunner) Has(device int) bool { return comm.IsLocal(r.world, device) }

// Close ends the devices and the world.
func (r *ForwardRunner) Close() {
	for _, d := range r.devices {
		if d != nil {
			d.Close()
		}
	}
	r.world.Close()
}

// Run returns the results of a forward pass for each micro-batch, gathered from all devices in every process.
func (r *ForwardRunner) Run(ctx context.Context, p *Plan, weights Weights,
	batch [][]array.Array) ([][]array.Array, error) {
	if p.Kind != ForwardPass || p.Whole || p.Devices() != r.world.Size() {
		return nil, fmt.Errorf("forward: a plan of a %s pass on %d devices: want one of a forward pass on %d",
			p.Kind,
			p.Devices(), r.world.Size())
	}
	if err := p.check(batch); err != nil {
		return nil, err
	}
	memory := make([]*memory, len(p.tapes))
	err := r.world.Run(ctx, func(_ context.Context, rank comm.Comm) (err error) {
		id := rank.ID()
		if p.tapes[id] == nil {
			return nil
		}
		if memory[id], err = p.tapes[id].allocateForward(weights); err != nil {
			return err
		}
		x := &interpreter{t: p.tapes[id], m: memory[id], batch: batch, at: &atomic.Pointer[instruction]{}}
		return x.run(rank, r.devices[id])
	})
	if err != nil {
		return nil, err
	}
	out := make([][]array.Array, len(batch))
	for micro := range batch {
		if out[micro], err = r.gather(ctx, p, micro, memory); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// check compares a batch with what the plan expects.
func (p *Plan) check(batch [][]array.Array) error {
	if len(batch) != len(p.Variant) {
		return fmt.Errorf("%s: got %d micro-batches, want %d", p.Kind, len(batch), len(p.Variant))
	}
	for m, list := range batch {
		want := p.Inputs[p.Variant[m]]
		if len(list) != len(want) {
			return fmt.Errorf("%s: micro-batch %d: got %d tensors, want %d", p.Kind, m, len(list), len(want))
		}
		for i, a := range list {
			if !ir.TypeOf(a).Equal(want[i]) {
				return fmt.Errorf("%s: micro-batch %d: got %v, want %v", p.Kind, m, ir.TypeOf(a), want[i])
			}
		}
	}
	return nil
}

// allocateForward allocates the memory of a forward pass, except for the weights.
func (t *tape) allocateForward(weights Weights) (*memory, error) {
	given := map[int]array.Array{}
	for i := range t.buffers {
		if k := t.buffers[i].key; k.kind == weightBuffer {
			a, err := weights(t.device, k.stage)
			if err != nil {
				return nil, err
			}
			given[i] = a
		}
	}
	m := t.memory()
	return t.divide(array.New(array.U8, m.Peak()-m.Weights).Bytes(), given), nil
}

// gather gathers the last stage's results for a micro-batch.
func (r *ForwardRunner) gather(ctx context.Context, p *Plan, micro int, m []*memory) ([]array.Array, error) {
	at := p.Meshes[p.Stages[len(p.Stages)-1].Rank]
	var list []array.Array
	for i, result := range p.Results[p.Variant[micro]] {
		l, err := result.Spec.Layout(at, result.Type.Shape)
		if err != nil {
			return nil, err
		}
		parts := map[int]array.Array{}
		for _, id := range at.Devices() {
			if k, ok := p.tapes[id].find(bufferKey{kind: resultBuffer, micro: micro, value: i}); ok &&
				comm.IsLocal(r.world, id) {
				parts[id] = m[id].arrays[k]
			}
		}
		a, err := runtime.AllGather(ctx, r.world, l, result.Type.DType, parts)
		if err != nil {
			return nil, err
		}
		list = append(list, a)
	}
	return list, nil
}
