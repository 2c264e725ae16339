package step

import (
	"context"
	"fmt"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/runtime"
	"github.com/galley-ml/galley/mesh"
)

// Tensor identifies a piece of the state that lives from step to step: a weight, or one of its optimizer
// slots.
type Tensor struct {
	Weight int
	// Slot is -1 for the weight itself.
	Slot int
}

// Tensors returns all of the state: the weights, then their slots.
func (p *Plan) Tensors() []Tensor {
	var list []Tensor
	for i := range p.Weights {
		list = append(list, Tensor{i, -1})
	}
	for i := range p.Weights {
		for k := range p.Weights[i].Slots {
			list = append(list, Tensor{i, k})
		}
	}
	return list
}

// Name returns the name of a tensor of the state: its weight's name, followed by the number of the slot if it
// is one.
func (p *Plan) Name(t Tensor) string {
	if t.Slot < 0 {
		return p.Weights[t.Weight].Name
	}
	return fmt.Sprintf("%s.slot%d", p.Weights[t.Weight].Name, t.Slot)
}

// Type returns the whole tensor's type.
func (p *Plan) Type(t Tensor) ir.Type {
	if t.Slot < 0 {
		return p.Weights[t.Weight].Type
	}
	return p.Weights[t.Weight].Slots[t.Slot]
}

func (t Tensor) key() bufferKey {
	if t.Slot < 0 {
		return bufferKey{kind: weightBuffer, stage: t.Weight}
	}
	return bufferKey{kind: slotBuffer, stage: t.Weight, value: t.Slot}
}

// Layouts returns the layouts of a tensor: on the mesh of its home, and of a weight's copies.
func (p *Plan) Layouts(t Tensor) ([]*mesh.Layout, error) {
	w := p.Weights[t.Weight]
	ranks := []int{w.Home}
	if t.Slot < 0 {
		ranks = append(ranks, w.Copies...)
	}
	var list []*mesh.Layout
	for _, rank := range ranks {
		at := w.LayoutsOn(p.Meshes, rank)
		spec := at.Rest
		if t.Slot >= 0 {
			spec = w.slot(at, p.Type(t))
		}
		l, err := spec.Layout(at.Mesh, p.Type(t).Shape)
		if err != nil {
			return nil, err
		}
		list = append(list, l)
	}
	return list, nil
}

// part returns the index of a device's shard of a tensor among its buffers.
func (r *Runner) part(device int, t Tensor) (int, bool) {
	return r.tapes[device].find(t.key())
}

// find returns the number of the buffer of a key.
func (t *tape) find(k bufferKey) (int, bool) {
	i := slices.IndexFunc(t.buffers, func(b buffer) bool { return b.key == k })
	return i, i >= 0
}

// fetch returns a device's shard of a tensor: shared if it is in device memory, a copy if it is offloaded.
func (r *Runner) fetch(device int, t Tensor) (array.Array, error) {
	i, ok := r.part(device, t)
	if !ok {
		return array.Array{}, fmt.Errorf("%s: device %d has no part of it", r.Name(t), device)
	}
	m, b := r.memory[device], &r.tapes[device].buffers[i]
	if b.offloaded {
		a := array.New(b.t.DType, b.t.Shape...)
		return a, m.store.Get(b.offset, a)
	}
	return m.arrays[i], nil
}

// Parts returns the shards of a tensor at its home that the devices of this process hold, by device, without
// copying: they must not be read while a step runs.
func (r *Runner) Parts(t Tensor) (*mesh.Layout, map[int]array.Array, error) {
	layouts, err := r.Layouts(t)
	if err != nil {
		return nil, nil, err
	}
	parts := map[int]array.Array{}
	for id := range layouts[0].Boxes() {
		if !comm.IsLocal(r.world, id) {
			continue
		}
		if parts[id], err = r.fetch(id, t); err != nil {
			return nil, nil, err
		}
	}
	return layouts[0], parts, nil
}

// Read returns a whole tensor, gathered in every process. All processes must call it.
func (r *Runner) Read(t Tensor) (array.Array, error) {
	l, parts, err := r.Parts(t)
	if err != nil {
		return array.Array{}, err
	}
	return runtime.AllGather(context.Background(), r.world, l, r.Type(t).DType, parts)
}

// ReadTo is like Read for one process: the others take part and get no array.
func (r *Runner) ReadTo(t Tensor, process int) (array.Array, error) {
	l, parts, err := r.Parts(t)
	if err != nil {
		return array.Array{}, err
	}
	return runtime.GatherTo(context.Background(), r.world, l, r.Type(t).DType, parts, []int{process})
}

// LocalFor reports whether every process holds everything that its devices in another plan need of a tensor,
// so that no byte has to be sent between processes.
func (r *Runner) LocalFor(t Tensor, p *Plan) (bool, error) {
	have, err := r.Layouts(t)
	if err != nil {
		return false, err
	}
	want, err := p.Layouts(t)
	if err != nil || len(p.tapes) != len(r.tapes) {
		return false, err
	}
	for _, l := range want {
		for id, box := range l.Boxes() {
			if _, _, ok := r.holder(have, box, r.world.Owner(id)); !ok {
				return false, nil
			}
		}
	}
	return true, nil
}

// holder returns a device of a process that has all of a box, and the box that it has.
func (r *Runner) holder(layouts []*mesh.Layout, box mesh.Box,
	process int) (device int, own mesh.Box, ok bool) {
	for _, l := range layouts {
		for id, own := range l.Boxes() {
			if r.world.Owner(id) == process && contains(own, box) {
				return id, own, true
			}
		}
	}
	return 0, own, false
}

// contains reports whether a box is within another.
func contains(outer, box mesh.Box) bool {
	for d := range box.Size {
		if box.Start[d] < outer.Start[d] || box.Start[d]+box.Size[d] > outer.Start[d]+outer.Size[d] {
			return false
		}
	}
	return true
}

// ReadLocal writes a box of a tensor that a device of this process holds.
func (r *Runner) ReadLocal(t Tensor, box mesh.Box, dst array.Array) error {
	layouts, err := r.Layouts(t)
	if err != nil {
		return err
	}
	id, own, ok := r.holder(layouts, box, r.world.Process())
	if !ok {
		return fmt.Errorf("%s: no device of this process has all of %v", r.Name(t), box)
	}
	part, err := r.fetch(id, t)
	if err != nil {
		return err
	}
	from := make([]int, len(box.Start))
	for d := range from {
		from[d] = box.Start[d] - own.Start[d]
	}
	array.CopyBox(dst, make([]int, len(box.Size)), part, from, box.Size)
	return nil
}

// Load fills a tensor on every device of this process that holds some of it. read writes a box of the whole
// tensor to dst.
func (r *Runner) Load(t Tensor, read func(box mesh.Box, dst array.Array) error) error {
	layouts, err := r.Layouts(t)
	if err != nil {
		return err
	}
	var last mesh.Box
	var had array.Array // what was read last: replicas take it from there
	for _, l := range layouts {
		for id, box := range l.Boxes() {
			if box.Empty() || !comm.IsLocal(r.world, id) {
				continue
			}
			part, err := r.fetch(id, t)
			switch {
			case err == nil && had.IsValid() && had.DType() == part.DType() && box.Equal(last):
				copy(part.Bytes(), had.Bytes())
			case err == nil:
				err = read(box, part)
				last, had = box, part
			}
			if err == nil {
				err = r.keep(id, t, part)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", r.Name(t), err)
			}
		}
	}
	return nil
}

// keep stores a shard that is offloaded.
func (r *Runner) keep(device int, t Tensor, part array.Array) error {
	i, _ := r.part(device, t)
	if b := &r.tapes[device].buffers[i]; b.offloaded {
		return r.memory[device].store.Put(b.offset, part)
	}
	return nil
}

// Write fills a tensor with a whole array.
func (r *Runner) Write(t Tensor, a array.Array) error {
	if want := r.Type(t); !ir.TypeOf(a).Equal(want) {
		return fmt.Errorf("%s: got %v, want %v", r.Name(t), ir.TypeOf(a), want)
	}
	return r.Load(t, func(box mesh.Box, dst array.Array) error {
		array.CopyBox(dst, make([]int, len(box.Size)), a, box.Start, box.Size)
		return nil
	})
}
