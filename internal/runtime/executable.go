package runtime

import (
	"context"
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/spmd"
	"github.com/galley-ml/galley/op"
)

// Executable is a partitioned program, compiled for the devices of a session's world. One run at a time uses
// it.
type Executable struct {
	s       *Session
	p       *spmd.Program
	exes    []*cpu.Executable // by device; nil if it has no part in the program, or is in another process
	donated []bool            // by parameter
}

// CompileConfig is the options of compiling a partitioned program.
type CompileConfig struct {
	// Donate lists parameters whose shards a run may overwrite with results: a sharded tensor that has the right
	// layout already must not be used after it was passed for one.
	Donate []int
	// Local, if set, rewrites each device's program before it is compiled, for example to fuse its ops.
	Local func(*ir.Func) (*ir.Func, error)
}

// Compile plans the memory of every device. Devices whose programs are equal share the plan.
func (s *Session) Compile(p *spmd.Program, c CompileConfig) (*Executable, error) {
	f := p.Global()
	e := &Executable{s: s, p: p, exes: make([]*cpu.Executable, s.world.Size()),
		donated: make([]bool, len(f.Params()))}
	for _, i := range c.Donate {
		if i < 0 || i >= len(f.Params())-len(f.Captures()) {
			return nil, fmt.Errorf("compile %s: donated parameter %d: it has %d", f.Name(), i,
				len(f.Params())-len(f.Captures()))
		}
		e.donated[i] = true
	}
	first := map[*ir.Func]*cpu.Executable{}
	for _, id := range p.Devices() {
		if id >= len(s.threads) {
			return nil, fmt.Errorf("compile %s: device %d: the world has %d", f.Name(), id, len(s.threads))
		}
		if s.threads[id] == nil {
			continue
		}
		local, err := p.Local(id)
		if err != nil {
			return nil, err
		}
		if twin := first[local]; twin != nil {
			e.exes[id] = twin.Twin(s.threads[id])
			continue
		}
		if e.exes[id], err = s.compileLocal(id, local, c.Local, e.donatedBy(id)); err != nil {
			return nil, err
		}
		first[local] = e.exes[id]
	}
	return e, nil
}

// compileLocal compiles the program of a device.
func (s *Session) compileLocal(id int, f *ir.Func, local func(*ir.Func) (*ir.Func, error),
	donated []int) (exe *cpu.Executable, err error) {
	if local != nil {
		if f, err = local(f); err != nil {
			return nil, err
		}
	}
	return s.threads[id].Compile(f, cpu.Options{Donate: donated})
}

// donatedBy returns the donated parameters by their indices in a device's program.
func (e *Executable) donatedBy(device int) []int {
	var list []int
	for k, i := range e.p.ParamsOf(device) {
		if e.donated[i] {
			list = append(list, k)
		}
	}
	return list
}

// Memory returns the memory of a device's program, in bytes; zero on a device that has no part in it.
func (e *Executable) Memory(device int) cpu.Memory {
	if device < 0 || device >= len(e.exes) || e.exes[device] == nil {
		return cpu.Memory{}
	}
	return e.exes[device].Memory()
}

// Run computes the results for whole arrays, those of the parameters without the captured ones. It is a
// collective of processes, as Read is.
func (e *Executable) Run(args []array.Array) ([]array.Array, error) {
	values := make([]*op.Tensor, len(args))
	for i, a := range args {
		values[i] = e.s.Tensor(a)
	}
	out, err := e.RunSharded(values)
	if err != nil {
		return nil, err
	}
	whole := make([]array.Array, len(out))
	for i, v := range out {
		if whole[i], err = Read(v); err != nil {
			return nil, fmt.Errorf("result %d: %w", i, err)
		}
	}
	return whole, nil
}

// RunSharded computes the results for tensors of the session and leaves them on their devices. Tensors that
// do not have the layout of their parameter are resharded first.
func (e *Executable) RunSharded(args []*op.Tensor) ([]*op.Tensor, error) {
	placed, err := e.place(args)
	if err != nil {
		return nil, err
	}
	results := make([][]array.Array, e.s.world.Size())
	err = e.s.world.Run(context.Background(), func(_ context.Context, r comm.Comm) error {
		exe := e.exes[r.ID()]
		if exe == nil {
			return nil
		}
		var own []array.Array
		for _, i := range e.p.ParamsOf(r.ID()) {
			own = append(own, placed[i].Parts[r.ID()])
		}
		out, err := exe.RunIn(r, own)
		results[r.ID()] = out
		return err
	})
	if err != nil {
		return nil, err
	}
	return e.collect(results), nil
}

// place reshards every argument to the layout of its parameter.
func (e *Executable) place(args []*op.Tensor) ([]*Shards, error) {
	f := e.p.Global()
	if want := len(f.Params()) - len(f.Captures()); len(args) != want {
		return nil, fmt.Errorf("run %s: want %d arguments: got %d", f.Name(), want, len(args))
	}
	args = append(args[:len(args):len(args)], f.Captures()...)
	placed := make([]*Shards, len(args))
	for i, x := range args {
		var err error
		if placed[i], err = e.placeOne(i, x); err != nil {
			return nil, fmt.Errorf("run %s: argument %d %q: %w", f.Name(), i, f.Params()[i].Name(), err)
		}
	}
	return placed, nil
}

func (e *Executable) placeOne(i int, x *op.Tensor) (*Shards, error) {
	to, want := e.p.Param(i), e.p.Global().Params()[i].Type()
	switch {
	case x.Err() != nil:
		return nil, x.Err()
	case x.Store() == nil:
		return nil, fmt.Errorf("%v is traced: it has no data", x.Type())
	case !x.Type().Equal(want):
		return nil, fmt.Errorf("got %v, want %v", x.Type(), want)
	}
	if a, plain := x.Store().(array.Array); plain && to.Spec.IsWhole() && !e.donated[i] {
		return copies(a, to), nil
	}
	return e.s.move(x, to)
}

// copies returns an array as replicas for every device of a mesh, sharing memory.
func copies(a array.Array, at op.Layout) *Shards {
	s := &Shards{Layout: at, Parts: map[int]array.Array{}}
	for _, id := range at.Mesh.Devices() {
		s.Parts[id] = a
	}
	return s
}

// Place returns x in the layout of parameter i, so that later runs need not reshard it.
func (e *Executable) Place(i int, x *op.Tensor) (*op.Tensor, error) {
	if n := len(e.p.Global().Params()); i < 0 || i >= n {
		return nil, fmt.Errorf("place: parameter %d: the program has %d", i, n)
	}
	s, err := e.placeOne(i, x)
	if err != nil {
		return nil, fmt.Errorf("place: parameter %d %q: %w", i, e.p.Global().Params()[i].Name(), err)
	}
	return ir.Leaf(e.s, x.Type(), s), nil
}

// collect returns the devices' results as tensors.
func (e *Executable) collect(results [][]array.Array) []*op.Tensor {
	shards := make([]*Shards, len(e.p.Global().Results()))
	for i := range shards {
		shards[i] = &Shards{Layout: e.p.Result(i), Parts: map[int]array.Array{}}
	}
	for _, id := range e.s.local(e.p.Devices()) {
		for k, i := range e.p.ResultsOf(id) {
			shards[i].Parts[id] = results[id][k]
		}
	}
	out := make([]*op.Tensor, len(shards))
	for i, v := range e.p.Global().Results() {
		out[i] = ir.Leaf(e.s, v.Type(), shards[i])
	}
	return out
}
