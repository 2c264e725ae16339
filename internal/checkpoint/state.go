package checkpoint

import (
	"fmt"
	"maps"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/safetensors"
	"github.com/galley-ml/galley/mesh"
)

// Meta is what a run needs besides its tensors to resume.
type Meta struct {
	// Step is the number of completed steps.
	Step int64
	// Sample is the global index of the next sample, independent of the batch size.
	Sample int64
	// Seed is that of the run.
	Seed uint64
	// RNG holds the counters of the random streams.
	RNG []Counter
	// Scalars holds the state of schedules, loss scaling and the like.
	Scalars []Scalar
}

// Counter is the position of a random stream.
type Counter struct {
	Name  string `json:"name"`
	Value uint64 `json:"counter,string"`
}

// Counter returns the value of the random stream with a name.
func (m Meta) Counter(name string) (uint64, error) {
	for _, c := range m.RNG {
		if c.Name == name {
			return c.Value, nil
		}
	}
	return 0, fmt.Errorf("checkpoint: step %d: no random stream %q among %d", m.Step, name, len(m.RNG))
}

// State is the contents of a checkpoint.
type State struct {
	Meta
	Tensors []Tensor
}

// Tensor is a logical tensor and the parts that devices hold of it. The nonempty parts tile the tensor; a box
// that several devices hold is the same data on each of them and is written once.
type Tensor struct {
	Name  string
	Type  ir.Type
	Parts []Part
}

// Part is what one device holds of a tensor.
type Part struct {
	Device int
	Box    mesh.Box
	// Data has the size of the box. Parts that a Reader returns have none.
	Data array.Array
	// Read, if there is no Data, copies it into an array of the box's size: from another memory, or an
	// offload.Store. Save calls it before it returns, for the one of equal parts that it writes.
	Read func(into array.Array) error
	// Away marks a part that another process holds, and writes.
	Away bool
}

// Whole returns a tensor that a single device holds.
func Whole(name string, a array.Array) Tensor {
	return Tensor{Name: name, Type: ir.TypeOf(a), Parts: []Part{{Box: boxOf(a.Shape()), Data: a}}}
}

// Wholes returns a state of whole tensors, such as a directory of Hugging Face weights, divided evenly among
// the files of devices.
func Wholes(m Meta, tensors []safetensors.Named, devices int) State {
	s := State{Meta: m}
	for _, t := range tensors {
		w := Whole(t.Name, t.Array)
		for d := 1; d < devices; d++ {
			w.Parts = append(w.Parts, Part{Device: d, Box: w.Parts[0].Box, Data: t.Array})
		}
		s.Tensors = append(s.Tensors, w)
	}
	return s
}

// Sharded returns a tensor on a mesh; parts holds each device's shard. Partial sums must be reduced first.
func Sharded(name string, l *mesh.Layout, parts map[int]array.Array) (Tensor, error) {
	if p := l.Spec().Partial; len(p) > 0 {
		return Tensor{}, fmt.Errorf("checkpoint: tensor %q: %v: got partial axes, want them combined first", name,
			l.Spec())
	}
	t := Tensor{Name: name, Type: ir.Type{Shape: l.Shape()}}
	for device, box := range l.Boxes() {
		a, ok := parts[device]
		if !ok {
			return Tensor{}, fmt.Errorf("checkpoint: tensor %q: no part of device %d: got devices %v", name, device,
				slices.Sorted(maps.Keys(parts)))
		}
		t.Type.DType = a.DType()
		t.Parts = append(t.Parts, Part{Device: device, Box: box, Data: a})
	}
	return t, nil
}

// Spread is like Sharded if each process has the shards of some devices: those that parts lacks are away.
func Spread(name string, l *mesh.Layout, dtype array.DType, parts map[int]array.Array) (Tensor, error) {
	if p := l.Spec().Partial; len(p) > 0 {
		return Tensor{}, fmt.Errorf("checkpoint: tensor %q: %v: got partial axes, want them combined first", name,
			l.Spec())
	}
	t := Tensor{Name: name, Type: ir.Type{DType: dtype, Shape: l.Shape()}}
	for device, box := range l.Boxes() {
		a, ok := parts[device]
		t.Parts = append(t.Parts, Part{Device: device, Box: box, Data: a, Away: !ok})
	}
	return t, nil
}

// boxOf returns the box of a whole tensor.
func boxOf(shape []int) mesh.Box {
	return mesh.Box{Start: make([]int, len(shape)), Size: slices.Clone(shape)}
}
