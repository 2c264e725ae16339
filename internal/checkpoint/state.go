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

// Meta is what a run needs beside its tensors to continue where it was.
type Meta struct {
	// Step is how many steps have been taken.
	Step int64
	// Sample is the global index of the next sample: how far the data have been read, whatever the batch size.
	Sample int64
	// Seed is the run's.
	Seed uint64
	// RNG is the counters of the random streams.
	RNG []Counter
	// Scalars is the state of schedules, loss scaling and the like.
	Scalars []Scalar
}

// Counter is how far a random stream has been read.
type Counter struct {
	Name  string `json:"name"`
	Value uint64 `json:"counter,string"`
}

// Counter returns the value of the random stream of a name.
func (m Meta) Counter(name string) (uint64, error) {
	for _, c := range m.RNG {
		if c.Name == name {
			return c.Value, nil
		}
	}
	return 0, fmt.Errorf("checkpoint: step %d: no random stream %q among %d", m.Step, name, len(m.RNG))
}

// State is what a checkpoint holds.
type State struct {
	Meta
	Tensors []Tensor
}

// Tensor is a logical tensor and the parts that devices hold of it. The parts that are not empty tile the
// tensor; a box that several devices hold is the same data on each of them and is written once.
type Tensor struct {
	Name  string
	Type  ir.Type
	Parts []Part
}

// Part is what one device holds of a tensor.
type Part struct {
	Device int
	Box    mesh.Box
	// Data has the size of the box. What a Reader reports a checkpoint has none.
	Data array.Array
	// Read, where there is no Data, brings it into an array of the box's size: from another memory, or an
	// offload.Store. Save calls it before it returns, for the one part of equal ones that it writes.
	Read func(into array.Array) error
	// Away is a part that another process has, and writes.
	Away bool
}

// Whole returns a tensor that one device holds.
func Whole(name string, a array.Array) Tensor {
	return Tensor{Name: name, Type: ir.TypeOf(a), Parts: []Part{{Box: boxOf(a.Shape()), Data: a}}}
}

// Wholes returns the state that is a list of whole tensors, such as a directory of Hugging Face weights. The
// files of as many devices share it evenly.
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

// Sharded returns a tensor that is on a mesh; parts is what each device of it holds. Partial sums must be
// combined first.
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

// Spread is like Sharded where processes have the parts of some devices each: those that parts has not are
// away.
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

// boxOf returns all of a tensor of a shape.
func boxOf(shape []int) mesh.Box {
	return mesh.Box{Start: make([]int, len(shape)), Size: slices.Clone(shape)}
}
