package runtime

import (
	"context"
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/spmd"
)

// Locals runs one program for each device of a list, each on a goroutine of its own, and returns the results
// of those in this process. A device's number is its rank in the world.
func Locals(ctx context.Context, world comm.World, devices []int,
	program func(id int) (*ir.Func, []array.Array, error)) (map[int][]array.Array, error) {
	results := make([][]array.Array, world.Size())
	mine := make([]bool, world.Size())
	for _, id := range devices {
		if id < 0 || id >= world.Size() {
			return nil, fmt.Errorf("run: device %d: want devices below %d, the size of the world", id, world.Size())
		}
		mine[id] = true
	}
	err := world.Run(ctx, func(_ context.Context, r comm.Comm) error {
		if !mine[r.ID()] {
			return nil
		}
		out, err := runRank(r, program)
		results[r.ID()] = out
		return err
	})
	if err != nil {
		return nil, err
	}
	all := map[int][]array.Array{}
	for _, id := range devices {
		if comm.IsLocal(world, id) {
			all[id] = results[id]
		}
	}
	return all, nil
}

// runRank runs the program of a rank.
func runRank(r comm.Comm, program func(id int) (*ir.Func, []array.Array, error)) ([]array.Array, error) {
	f, args, err := program(r.ID())
	if err != nil {
		return nil, err
	}
	d := cpu.NewDevice(cpu.Config{Threads: 1})
	defer d.Close()
	e, err := d.Compile(f, cpu.Options{})
	if err != nil {
		return nil, err
	}
	return e.RunIn(r, args)
}

// Run runs a partitioned program on whole arrays: those of its parameters, with or without the captured
// ones.
func Run(ctx context.Context, world comm.World, p *spmd.Program, args []array.Array) ([]array.Array, error) {
	args, err := withCaptures(p, args)
	if err != nil {
		return nil, err
	}
	parts := make([]map[int]array.Array, len(args))
	for i, a := range args {
		l, err := p.Param(i).Spec.Layout(p.Param(i).Mesh, a.Shape())
		if err != nil {
			return nil, err
		}
		if parts[i], err = Scatter(l, a); err != nil {
			return nil, err
		}
	}
	programs := map[int]*ir.Func{}
	for _, id := range p.Devices() { // before the goroutines start, since they share equal ones
		if programs[id], err = p.Local(id); err != nil {
			return nil, err
		}
	}
	results, err := Locals(ctx, world, p.Devices(), func(id int) (*ir.Func, []array.Array, error) {
		var own []array.Array
		for _, i := range p.ParamsOf(id) {
			own = append(own, parts[i][id])
		}
		return programs[id], own, nil
	})
	if err != nil {
		return nil, err
	}
	return gatherAll(ctx, world, p, results)
}

// withCaptures adds the arrays that the trace captured.
func withCaptures(p *spmd.Program, args []array.Array) ([]array.Array, error) {
	f := p.Global()
	if len(args) == len(f.Params())-len(f.Captures()) {
		for _, v := range f.Captures() {
			a, err := cpu.Read(v)
			if err != nil {
				return nil, err
			}
			args = append(args[:len(args):len(args)], a)
		}
	}
	if len(args) != len(f.Params()) {
		return nil, fmt.Errorf("run %s: want %d arguments: got %d", f.Name(), len(f.Params()), len(args))
	}
	for i, a := range args {
		if want := f.Params()[i].Type(); !ir.TypeOf(a).Equal(want) {
			return nil, fmt.Errorf("run %s: argument %d: got %v, want %v", f.Name(), i, ir.TypeOf(a), want)
		}
	}
	return args, nil
}

// gatherAll gathers the results in every process.
func gatherAll(ctx context.Context, world comm.World, p *spmd.Program,
	results map[int][]array.Array) ([]array.Array, error) {
	parts := make([]map[int]array.Array, len(p.Global().Results()))
	for i := range parts {
		parts[i] = map[int]array.Array{}
	}
	for id, list := range results {
		for k, i := range p.ResultsOf(id) {
			parts[i][id] = list[k]
		}
	}
	out := make([]array.Array, len(parts))
	for i, v := range p.Global().Results() {
		l, err := p.Result(i).Spec.Layout(p.Result(i).Mesh, v.Shape())
		if err != nil {
			return nil, err
		}
		if out[i], err = AllGather(ctx, world, l, v.DType(), parts[i]); err != nil {
			return nil, fmt.Errorf("result %d: %w", i, err)
		}
	}
	return out, nil
}
