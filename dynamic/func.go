package dynamic

import (
	"fmt"
	"sync"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/executor"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// Func is a function that is compiled once for each combination of buckets.
type Func struct {
	name   string
	device *cpu.Device
	shapes *Shapes
	f      func(in []*op.Tensor) []*op.Tensor

	mu       sync.Mutex
	programs map[string]*cpu.Executable
}

// Compile wraps f, which is traced and compiled when a batch first needs it. f receives the results of Pad:
// padded tensors, then masks.
func Compile(d *cpu.Device, name string, s *Shapes, f func(in []*op.Tensor) []*op.Tensor) *Func {
	return &Func{name: name, device: d, shapes: s, f: f, programs: map[string]*cpu.Executable{}}
}

// Run computes the results for tensors of any sizes within the buckets.
func (f *Func) Run(args ...array.Array) ([]array.Array, error) {
	padded, n, err := f.shapes.Pad(args)
	if err != nil {
		return nil, err
	}
	e, err := f.program(padded)
	if err != nil {
		return nil, err
	}
	out, err := e.Run(padded)
	if err != nil {
		return nil, err
	}
	return f.shapes.Cut(out, n)
}

// program returns the one for tensors of these types.
func (f *Func) program(padded []array.Array) (*cpu.Executable, error) {
	types := make([]op.Type, len(padded))
	for i, a := range padded {
		types[i] = ir.TypeOf(a)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	key := fmt.Sprint(types)
	if e := f.programs[key]; e != nil {
		return e, nil
	}
	b := ir.NewBuilder(f.name)
	params := make([]*op.Tensor, len(types))
	for i, t := range types {
		params[i] = b.Param("", t)
	}
	program, err := b.Build(f.f(params)...)
	if err != nil {
		return nil, err
	}
	e, err := executor.Compile(f.device, program, cpu.Options{})
	if err == nil {
		f.programs[key] = e
	}
	return e, err
}
