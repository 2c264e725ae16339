package accelerator

import (
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/backend"
	"github.com/galley-ml/galley/internal/checkpoint"
	"github.com/galley-ml/galley/internal/executor"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/pass"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// devices returns the number of devices that hold the state.
func (r *Executor) devices() int {
	if r.group == nil {
		return 1
	}
	return r.group.mesh().Size()
}

// spec returns the layout of a tensor of the state; on one device it is empty.
func (r *Executor) spec(i int) mesh.Spec {
	if r.group == nil {
		return mesh.Spec{}
	}
	return r.group.state(i)
}

// put copies an array to the devices in a layout: one buffer for each.
func (r *Executor) put(a array.Array, spec mesh.Spec) ([]backend.Buffer, error) {
	if r.group != nil {
		return r.group.put(a, spec)
	}
	b, err := r.b.Put(a)
	return []backend.Buffer{b}, err
}

// call runs a program on state, by device, and on host arrays that it copies to the devices. Its results are
// by device.
func (r *Executor) call(exe backend.Executable, state [][]backend.Buffer, in inputs) ([][]backend.Buffer,
	error) {
	given := make([][]backend.Buffer, len(in.arrays))
	for k, a := range in.arrays {
		var err error
		if given[k], err = r.put(a, r.inputSpec(in, k)); err != nil {
			return nil, err
		}
		for _, b := range given[k] {
			defer b.Free() // freed after the run
		}
	}
	var args []backend.Buffer
	for i := range r.devices() {
		if state != nil {
			args = append(args, state[i]...)
		}
		for _, list := range given {
			args = append(args, list[i])
		}
	}
	out, err := exe.Run(args)
	if err != nil {
		return nil, err
	}
	n := len(out) / r.devices()
	return slices.Collect(slices.Chunk(out, max(n, 1))), nil
}

// placeParams copies the parameters to the backend, or initializes them there.
func (r *Executor) placeParams(c executor.Config) error {
	r.state = make([][]backend.Buffer, r.devices())
	if c.Init != nil {
		return r.makeParams(c)
	}
	for i, p := range c.Params {
		a, err := executor.Value(p)
		if err != nil {
			return err
		}
		list, err := r.put(a, r.spec(i))
		if err != nil {
			return fmt.Errorf("parameter %q: %w", p.Name, err)
		}
		r.keep(list)
	}
	return nil
}

// keep adds a tensor to the state.
func (r *Executor) keep(list []backend.Buffer) {
	for i, b := range list {
		r.state[i] = append(r.state[i], b)
	}
}

// makeParams runs the initialization program in parts, one for each parameter, compiled in parallel:
// compiling it as a whole would take longer than the training step.
func (r *Executor) makeParams(c executor.Config) error {
	n := len(c.Init.Results())
	if n != len(c.Params) {
		return fmt.Errorf("trainer: the program of first values has %d results: want %d, one for each parameter", n,
			len(c.Params))
	}
	made, errs := make([][]backend.Buffer, n), make([]error, n)
	slots := make(chan struct{}, runtime.NumCPU())
	var wait sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			made[i], errs[i] = r.makeParam(c.Init, i)
		})
	}
	wait.Wait()
	for i, err := range errs {
		if err != nil {
			return err
		}
		r.keep(made[i])
	}
	return nil
}

// makeParam computes one result of a program without parameters.
func (r *Executor) makeParam(p *ir.Func, i int) ([]backend.Buffer, error) {
	b := ir.NewBuilder(p.Name())
	one, err := b.Build(p.Replay(b, b.ParamsOf(p), nil)[i])
	if err == nil {
		one, err = pass.Prune(one)
	}
	if err != nil {
		return nil, err
	}
	out, err := r.make(one, []mesh.Spec{r.spec(i)})
	if err != nil {
		return nil, err
	}
	list := make([]backend.Buffer, len(out))
	for d := range out {
		list[d] = out[d][0]
	}
	return list, nil
}

// makeSlots adds the optimizer's slots to the state.
func (r *Executor) makeSlots(c executor.Config) error {
	b := ir.NewBuilder("slots")
	var zeros []*op.Tensor
	var specs []mesh.Spec
	for i := range c.Params {
		for _, t := range c.SlotTypes(i) {
			specs = append(specs, r.spec(len(c.Params)+len(zeros)))
			zeros = append(zeros, op.Full(b, t.DType, t.Shape, 0))
		}
	}
	p, err := b.Build(zeros...)
	if err != nil || len(zeros) == 0 {
		return err
	}
	out, err := r.make(p, specs)
	for i, list := range out {
		r.state[i] = append(r.state[i], list...)
	}
	return err
}

// make compiles a program without parameters and runs it once.
func (r *Executor) make(p *ir.Func, specs []mesh.Spec) ([][]backend.Buffer, error) {
	exe, err := r.compile(p, layouts{results: specs}, nil)
	if err != nil {
		return nil, err
	}
	defer exe.Close()
	return r.call(exe, nil, inputs{})
}

// reader reads the state by the indices of the model's parameters and slots. A fused tensor is fetched once
// for all its parts.
type reader struct {
	*Executor
	fetched map[int]array.Array
	left    map[int]int // bytes not yet read
}

// read returns parameter or slot i of the model; each may be read once.
func (r *reader) read(i int) (array.Array, error) {
	at, start, size := r.part(i)
	if r.group != nil {
		list := make([]backend.Buffer, len(r.state))
		for d := range list {
			list[d] = r.state[d][at]
		}
		return r.group.read(ir.Type{DType: list[0].Type().DType, Shape: size}, r.spec(at), list)
	}
	whole, ok := r.fetched[at]
	if !ok {
		var err error
		if whole, err = r.fetch(at); err != nil {
			return whole, err
		}
		r.fetched[at], r.left[at] = whole, len(whole.Bytes())
	}
	part := cutOut(whole, start, size)
	if r.left[at] -= len(part.Bytes()); r.left[at] <= 0 {
		delete(r.fetched, at)
	}
	return part, nil
}

// replace replaces a parameter or a slot by an array.
func (r *Executor) replace(i int, a array.Array) error {
	if err := r.open(); err != nil {
		return err
	}
	at, start, size := r.part(i)
	if r.group == nil && !r.state[0][at].Type().Shape.Equal(size) {
		whole, err := r.fetch(at)
		if err != nil {
			return err
		}
		array.CopyBox(whole, start, a, make([]int, len(size)), size)
		a = whole
	}
	list, err := r.put(a, r.spec(at))
	if err != nil {
		return err
	}
	for d, b := range list {
		r.state[d][at].Free()
		r.state[d][at] = b
	}
	return nil
}

// Reader reads the state; fused tensors are sliced into parameters.
func (r *Executor) Reader() (executor.Reader, error) {
	from := &reader{r, map[int]array.Array{}, map[int]int{}}
	return func(t executor.Tensor) (array.Array, error) { return from.read(r.number(t)) }, r.open()
}

// number returns the index of a tensor of the state among the model's parameters and slots.
func (r *Executor) number(t executor.Tensor) int {
	if t.Slot < 0 {
		return t.Param
	}
	return len(r.model.Params) + t.Param*r.model.Optimizer.Slots() + t.Slot
}

// Save returns the state, gathered.
func (r *Executor) Save() (checkpoint.State, error) { return r.model.SaveWhole(r) }

// Load reads a checkpoint.
func (r *Executor) Load(from *checkpoint.Reader) error {
	return r.model.LoadWhole(from, r.Put)
}

// Put replaces a tensor of the state.
func (r *Executor) Put(t executor.Tensor, a array.Array) error { return r.replace(r.number(t), a) }
